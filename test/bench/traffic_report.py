"""The chapter of the report about what packets to Services meet: run by report.py, in Debian's kernel."""

import packet_path
import packet_rules

RULES = {"kube-proxy": "kube-proxy's rules", "iptables": "our rules in legacy iptables", "nftables": "our rules in nf_tables"}


def paths_of(bench, report, rules, failed, *ranges):
    text = bench.stock_guest(str(bench.build / "test/bench/traffic_bench"), "paths", rules, *ranges)
    name = RULES[rules] + (", Services with source ranges" if ranges else "")
    try:
        recording = packet_path.read_recording(text)
        figures = packet_path.judged(recording)
        faults = packet_path.unnoticed_faults(recording)
    except (packet_path.Wrong, packet_rules.Unreadable, KeyError, IndexError) as wrong:
        raise failed(f"{name}: {type(wrong).__name__}: {wrong}") from wrong
    for fault in faults:
        report.fail(f"{name}: unnoticed fault: {fault}")
    for figure in figures:
        limits = packet_path.limits_of(recording, figure) or (None, None)
        for what, value, most in zip(("rules", "lookups"), (figure.rules, figure.lookups), limits):
            report.count(f"{name}: {figure.path}, {figure.kind}, {what}", value, most)
            if most is not None and value > most:
                report.fail(f"{name}: {figure.path}, {figure.kind}: {value} {what}, at most {most}")

"""The chapter of the report about what users of Services feel: run by report.py, in Debian's kernel."""

import collections
import pathlib
import statistics

import packet_path
import packet_rules
from bench_report import MEMORY, Failed, figures_of, first_sync, run, text_of

RULES = {"kube-proxy": "kube-proxy's rules", "iptables": "our rules in legacy iptables", "nftables": "our rules in nf_tables"}
WAYS = {"direct": "without a Service", "ipvs": "IPVS alone", **RULES}
ROADS = {"cluster-ip": "pod to cluster IP", "load-balancer": "client to load balancer"}


class Stock:
    """Measurements of kernel_bench in Debian's kernel, with one of the packet filters."""

    def __init__(self, bench, name):
        # A guest of QEMU takes a minute or two for S2.
        self.bench, self.runs = bench, bench.runs if bench.full else 1
        self.words = ["nftables"] if name == "nftables" else []

    def guest(self, size, measurement):
        return figures_of(self.bench.stock_guest(MEMORY[size] if size in MEMORY else "1G",
                                                 *self.bench.measure(size, measurement, *self.words)))


def paths_of(bench, report, rules, *ranges):
    name = RULES[rules] + (", Services with source ranges" if ranges else "")
    for _ in range(3):
        try:
            return show_paths(report, name, bench.stock_guest("1G", str(bench.build / "test/bench/traffic_bench"), "paths",
                                                              rules, *ranges))
        except packet_path.Disturbed as disturbed:
            reason = disturbed
    raise Failed(f"{name}: {reason}")


def show_paths(report, name, text):
    try:
        recording = packet_path.read_recording(text)
        figures = packet_path.judged(recording)
        faults = packet_path.unnoticed_faults(recording)
    except packet_path.Disturbed:
        raise
    except (packet_path.Wrong, packet_rules.Unreadable, KeyError, IndexError) as wrong:
        raise Failed(f"{name}: {type(wrong).__name__}: {wrong}") from wrong
    for fault in faults:
        report.fail(f"{name}: unnoticed fault: {fault}")
    for figure in figures:
        limits = packet_path.limits_of(recording, figure) or (None, None)
        for what, value, most in zip(("rules", "lookups"), (figure.rules, figure.lookups), limits):
            report.count(f"{name}: {figure.path}, {figure.kind}, {what}", value, most)
            if most is not None and value > most:
                report.fail(f"{name}: {figure.path}, {figure.kind}: {value} {what}, at most {most}")


def paths(bench, report):
    """Rules and set lookups that a packet meets, by the kernel's trace and by counters."""
    for ranges in ((), ("ranges",)):
        for rules in RULES:
            report.attempt(paths_of, bench, report, rules, *ranges)


def show_times(report, name, text):
    rounds = collections.defaultdict(list)
    for line in text.splitlines():
        road, way, what, value = line.strip().split("\t")
        rounds[road, way, what].append(float(value))
    for (road, way, what), values in rounds.items():
        direct = rounds[road, "direct", what]
        added = statistics.median(value - base for value, base in zip(values, direct))
        is_rate = what == "per second"
        note = "" if is_rate or way == "direct" else f"{text_of(added)} us more than without a Service"
        title = {"connection": "a new connection", "per second": "new connections a second"}.get(what, f"a {what}")
        report.time(f"{name}, {ROADS[road]}: {title}, {WAYS[way]}", values, "" if is_rate else "us", note=note)


def times(bench, report):
    """Connections and round trips without a Service, through IPVS alone, and with each kind of rules."""
    program = str(bench.build / "test/bench/traffic_bench")
    rounds = "1" if bench.smoke else "10"
    for services in (10,) if bench.smoke else (100, 10_000, *([50_000] if bench.full else [])):
        show_times(report, f"{services:,} Services", bench.stock_guest("3G", program, "times", str(services), rounds))
    if bench.smoke:
        return
    if pathlib.Path("/proc/net/ip_vs").exists():
        show_times(report, "100 Services, natively", run("unshare", "-n", program, "times", "100", rounds))
    else:
        print("  (this host has no IPVS: nothing was measured natively)", flush=True)


def changes(bench, report):
    """One change of each kind with both packet filters: messages, transactions, time."""
    size = bench.sizes("S1")[0]
    for rules in ("iptables", "nftables"):
        found = Stock(bench, rules).guest(size, "changes")
        for kind in [name[:-len(", time")] for name in found if name.endswith(", time") and "again" not in name]:
            name = f"{size} {kind}, {RULES[rules]}"
            for figure in ("ipvs messages", "set messages", "datagrams"):
                report.count(f"{name}, {figure}", found[f"{kind}, {figure}"])
            if rules == "nftables":
                report.count(f"{name}, transactions", found[f"{kind}, transactions"])
            report.time(name, [found[f"{kind}, time"] * 1000], "us", note=f"p99 {text_of(found[f'{kind}, p99'] * 1000)}")


def syncs(bench, report):
    """First sync with nf_tables beside the floor of prebuilt transactions."""
    for size in bench.sizes("S1", "S2"):
        report.attempt(first_sync, Stock(bench, "nftables"), report, size, "nf_tables, ")


def memory(bench, report):
    """What the kernel holds for a Service."""
    size = bench.sizes("S2")[0]
    for rules in ("iptables", "nftables"):
        found = Stock(bench, rules).guest(size, "kernel_memory")
        report.time(f"{size} kernel memory a Service, packet filter, {RULES[rules]}", [found["packet filter"]], "B")
        report.time(f"{size} kernel memory a Service, IPVS, addresses and packet filter, {RULES[rules]}", [found["all"]], "B")


PARTS = (paths, times, changes, syncs, memory)

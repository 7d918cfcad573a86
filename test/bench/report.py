#!/usr/bin/env python3
"""Runs the benchmarks and prints what they measured, beside the last committed results.

usage: report.py BUILD_DIR [CHAPTER] [--full | --smoke] [--results FILE] [--write] [--only WORD]

A chapter, `cluster` or `traffic`, is a part of the results file; without one it is both.

Each measurement of the kernel side runs in a fresh scratch kernel; those that are compared with each
other run one after the other. Counts repeat exactly and come first; times are the median of some runs
with their spread. --full adds the large sizes and the slow peers; --write puts the tables into the
results file; --only runs the parts whose name has this word, and leaves the other rows as they are.

--smoke is the test of the benchmarks: runs a chapter once at the smallest size, without a guest of its
own, in the kernel where it is, and fails if a row of the results file does not come.
"""

import argparse
import collections
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

import traffic_report
from bench_report import ROOT, Bench, Failed, Report, first_sync, text_of


def chapters_of(path):
    """{title: text} of the results file."""
    parts = re.split(r"^# (.*)\n", path.read_text() if path.exists() else "", flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


# --- the parts ------------------------------------------------------------------------------------
def changes(bench, report):
    """One change of each kind: what it costs, and how that grows with the cluster."""
    sizes = bench.sizes("S1", "S2", "S4")
    found = {size: bench.guest(size, "changes") for size in sizes}
    first = found[sizes[0]]
    kinds = [name[:-len(", time")] for name in first if name.endswith(", time")]
    most = {"added": (2, 1, 2), "removed": (2, 1, 2), "replaced": (None, None, 3)}
    for kind in kinds:
        silent = " endpoint " not in kind and not kind.startswith("service ")
        limits = most[kind.split()[-1]] if " endpoint " in kind else (0, 0, 0) if silent else (None,) * 3
        none = 0 if " endpoint " in kind or silent else None
        for figure, limit in (("ipvs messages", limits[0]), ("set messages", limits[1]), ("link messages", none),
                              ("datagrams", limits[2]), ("dumps", none), ("set listings", none),
                              ("rule tables", none), ("allocations", None)):
            values = [found[size][f"{kind}, {figure}"] for size in sizes]
            report.count(f"{kind}, {figure}", max(values) if figure != "allocations" else values[0], limit)
    limits = {"S2": 1.3, "S4": 1.5}
    for kind in [kind for kind in kinds if "again" not in kind]:
        base = first[f"{kind}, time"]
        for size in sizes:
            target = limits.get(size) if " endpoint " in kind else None
            report.time(f"{size} {kind}", [found[size][f"{kind}, time"] * 1000], "us",
                        None if size == sizes[0] else base * 1000, "S1", target,
                        note=f"p99 {text_of(found[size][f'{kind}, p99'] * 1000)}")


def system_calls(bench, report):
    """Of one change of each kind, as strace sees them; asking for the time apart."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace"
        bench.guest_output("S1", "strace", "-s", "100", "-o", str(trace),
                           str(bench.build / "test/bench/kernel_bench"), "system_calls", *bench.sizes("S1"))
        kind, calls = None, collections.Counter()
        for line in trace.read_text(errors="replace").splitlines():
            mark = re.match(r'write\(2, "(begin|end) (.*?)"', line)
            if mark and mark[1] == "begin":
                kind, calls = mark[2], collections.Counter()
            elif mark:
                asked = calls.pop("clock_gettime", 0)
                names = ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))
                note = f"{names or 'none'}; {asked} times the clock" if names or asked else ""
                report.count(f"{kind}, system calls", sum(calls.values()), note=note)
                kind = None
            elif kind:
                calls[line.split("(")[0]] += 1


def peers(bench, report, size, ours):
    figures = bench.guest(size, "peers")
    for name in ("ipset restore", "ipvsadm -R", "ip -batch -"):
        report.time(f"{size} {name}", [figures[name]], "ms")
    time = report.time(f"{size} peers together", [figures["time"]], "ms", ours, "first sync, kernel side")
    report.time(f"{size} first sync, kernel side, of the peers", [ours / time], "", most=0.1 if size == "S2" else None)


def syncs(bench, report):
    """First sync beside the floor and the peers."""
    def sync(size):
        _, ours = first_sync(bench, report, size)
        if size in ("S0", "S1") or (size == "S2" and bench.full):
            peers(bench, report, size, ours)

    for size in bench.sizes("S1", "S2", "S3", "S4"):
        report.attempt(sync, size)


def restarts(bench, report):
    """Restart over live state, and the read-back."""
    for size in bench.sizes("S1", "S2", "S4"):
        runs = [bench.guest(size, "restart") for _ in range(bench.runs)]
        report.count(f"{size} restart, ipvs dumps", runs[0]["ipvs dumps"])
        report.count(f"{size} restart, link dumps", runs[0]["link dumps"])
        report.count(f"{size} restart, write requests", runs[0]["write requests"], 0)
        dumps = report.time(f"{size} the dumps alone", [run["dumps alone"] for run in runs], "ms")
        report.time(f"{size} restart", [run["time"] for run in runs], "ms", dumps, "the dumps", 1.3)
        figures = bench.guest(size, "readback")
        for figure in ("ipvs dumps", "link dumps"):
            report.count(f"{size} read-back, {figure}", figures[figure])
        report.count(f"{size} read-back, write requests", figures["write requests"], 0)
        report.time(f"{size} read-back", [figures["read-back"]], "ms", figures["dumps alone"], "the dumps", 1.5)
        report.time(f"{size} read-back, longest part", [figures["longest part"]], "ms", most=20)


def traffic_figures(bench, report):
    """Scrapes with the traffic figures of all Services."""
    for size in bench.sizes("S2"):
        figures = bench.guest(size, "figures")
        report.count(f"{size} traffic figures, requests", figures["requests"])
        report.count(f"{size} traffic figures, write requests", figures["write requests"], 0)
        report.time(f"{size} traffic figures, a scrape", [figures["scrape"]], "ms", most=2000)
        report.time(f"{size} traffic figures, longest part", [figures["longest part"]], "ms", most=20)


def silence(bench, report):
    """Metadata-only writes and events that come twice, as bytes."""
    figures = bench.guest("S2", "silence")
    name = "messages of all and of one endpoint replaced"
    writes = figures["metadata-only writes"]
    report.count(f"S2 {writes:.0f} metadata-only writes, each told twice: {name}", figures[name], 2)


def loads(bench, report):
    """From the bytes of an event to the kernel's answer, at 100 changes a second, in one process."""
    for measurement, name in (("load", "changes of endpoints"), ("rolling_update", "rolling update of 1,000 endpoints")):
        runs = [bench.guest("S2", measurement) for _ in range(bench.runs)]
        for figure in ("ipvs messages", "datagrams but for sets"):
            report.count(f"S2 {name} at 100 a second, {figure} an event",
                         round(runs[0][figure] / runs[0]["events"], 2))
        report.time(f"S2 {name} at 100 a second, p50", [run["event, time"] for run in runs], "ms")
        report.time(f"S2 {name} at 100 a second, p99", [run["event, p99"] for run in runs], "ms", most=2)
        report.time(f"S2 {name} at 100 a second, longest", [run["event, longest"] for run in runs], "ms")


def rolls(bench, report):
    """5,000 real servers twice; a node drain that touches 500 Services."""
    floors, ours = [], []
    for _ in range(bench.runs):
        floors.append(bench.guest("S2", "twice_floor"))
        ours.append(bench.guest("S2", "twice"))
    for roll in ("first", "second"):
        floor = report.time(f"5,000 real servers, {roll} roll's additions, floor",
                            [run[f"{roll} roll, additions"] for run in floors], "ms")
        report.time(f"5,000 real servers, {roll} roll's additions", [run[f"{roll} roll, additions"] for run in ours],
                    "ms", floor, "floor", 1.5 if roll == "second" else None)
        report.time(f"5,000 real servers, {roll} roll whole", [run[f"{roll} roll, all"] for run in ours], "ms")
    runs = [bench.guest("S2", "drain") for _ in range(bench.runs)]
    kind = "endpoints left 500 Services"
    for figure in ("ipvs messages", "datagrams", "dumps"):
        report.count(f"S2 {kind}, {figure}", runs[0][f"{kind}, {figure}"])
    report.time(f"S2 {kind}", [run[f"{kind}, time"] for run in runs], "ms")


def end_to_end(bench, report, size):
    """From the start of the daemon behind the test API server to everything programmed, and its memory."""
    most = {"S2": 60, "S3": 300, "S4": 200}
    floor = bench.guest(size, "floor")
    figures = bench.guest(size, "end_to_end")
    for figure in ("virtual servers", "elements", "addresses"):
        if floor[figure] != figures[figure]:
            raise Failed(f"{size}: the floor and the daemon do not end alike: {floor} {figures}")
    report.count(f"{size} lists of the API server, bytes", figures["bytes"])
    report.count(f"{size} process start to everything programmed, page faults", figures["page faults"])
    report.time(f"{size} curl fetches the lists", [figures["curl alone"]], "ms")
    allowed = 3 * floor["time"] + figures["curl alone"]
    report.time(f"{size} process start to everything programmed", [figures["time"]], "ms", allowed,
                "three floors and curl", 1 if size == "S2" else None)
    report.time(f"{size} resident memory after it", [figures["resident"]], "MB", most=most.get(size))
    report.time(f"{size} resident memory, most", [figures["resident at most"]], "MB")


def ends(bench, report):
    """The daemon behind the test API server: start to everything programmed, memory, 10,000 updates."""
    for size in bench.sizes("S1", "S2", "S3", "S4"):
        report.attempt(end_to_end, bench, report, size)
    figures = bench.guest("S2", "updates")
    report.time("S2 resident memory, more after 10,000 updates", [figures["more"]], "KB",
                note=f"{text_of(figures['resident before'])} to {text_of(figures['resident after'])} MB")


def on_the_host(bench, report):
    """Planner and difference alone, events on fakes, and memory by part: no kernel."""
    most = {"S2": 60, "S3": 300, "S4": 200}
    for line in bench.host("memory_bench", *bench.sizes("S1", "S2", "S3", "S4")).splitlines():
        size = line.split()[0]
        row = re.match(r"\S+ +resident +([\d.]+) MB, at most ([\d.]+) MB; after \d+ updates ([\d.]+) MB", line)
        if row:
            report.time(f"{size} library alone, resident memory", [float(row[1])], "MB", most=most.get(size))
            report.time(f"{size} library alone, resident memory at most", [float(row[2])], "MB")
            report.time(f"{size} library alone, resident memory after 10,000 updates", [float(row[3])], "MB")
            continue
        for what, value in re.findall(r"([a-z ]+?) +([\d.]+) MB", line):
            report.time(f"{size} memory given out, {what.strip()}", [float(value)], "MB")
    for line in bench.host("plan_bench").splitlines():
        row = re.match(r"(\S.*?) +([\d.]+) ms +\[([\d.]+) \.\. ([\d.]+)\]", line)
        if row:
            report.time(f"{row[1]}", [float(row[3]), float(row[2]), float(row[4])], "ms")
    for line in bench.host("event_bench").splitlines():
        row = re.match(r"(.*): ([\d.]+) us, (\d+) allocations", line)
        if row:
            report.count(f"on fakes, {row[1]}, allocations", float(row[3]))
            report.time(f"on fakes, {row[1]}", [float(row[2])], "us")


# By the word of the command line: title, guests, parts.
CHAPTERS = {
    "cluster": ("Benchmarks: the last results", "guests of User Mode Linux with one processor",
                (changes, system_calls, silence, syncs, restarts, traffic_figures, loads, rolls, ends, on_the_host)),
    "traffic": ("Traffic: the last results", "guests of QEMU, which interprets Debian's kernel, with one processor",
                traffic_report.PARTS),
}


def machine(guests):
    memory = re.search(r"MemTotal: +(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return (f"A virtual machine with {os.cpu_count()} cores and {int(memory[1]) / 2**20:.0f} GiB; {guests}. "
            f"Others used the machine at the start: load {os.getloadavg()[0]:.1f}.")


def write_chapter(path, title, text):
    chapters = {**chapters_of(path), title: text}
    path.write_text("".join(f"# {name}\n{chapters[name]}" for name, _, _ in CHAPTERS.values() if name in chapters))


def run_chapter(word, bench, arguments):
    """True if nothing failed."""
    title, guests, parts = CHAPTERS[word]
    command = f"./dev bench{' traffic' if word == 'traffic' else ''}{' --full' if arguments.full else ''}"
    runs = " Its parts were measured by several runs; the last was of this machine:" if arguments.only else ""
    head = f"\nOf `{command}`.{runs} {machine(guests)}\n\n"
    report = Report(chapters_of(arguments.results).get(title, ""), keeps=bool(arguments.only))
    for part in parts:
        if arguments.only not in part.__name__:
            continue
        print(f"==> {part.__doc__.splitlines()[0]}", flush=True)
        begin = time.monotonic()
        report.attempt(part, bench, report)
        print(f"  ({time.monotonic() - begin:.0f} s)", flush=True)
        if arguments.write:
            write_chapter(arguments.results, title, head + report.text())
    for kind in report.missing() if arguments.smoke and not arguments.only else []:
        report.fail(f"no row '{kind}', which {arguments.results} has")
    print(f"\n# {title}\n{head}{report.text(with_last=True)}")
    return not report.failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("chapter", nargs="?", choices=CHAPTERS)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "test/bench/results.md")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    bench = Bench(arguments.build.resolve(), arguments.full, arguments.smoke)
    done = [run_chapter(word, bench, arguments) for word in CHAPTERS if arguments.chapter in (None, word)]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the benchmarks and prints what they measured, beside the last committed results.

usage: report.py BUILD_DIR [--full] [--results FILE] [--write]

Each measurement of the kernel side runs in a fresh scratch kernel; those that are compared with each
other run one after the other. Counts repeat exactly and come first; times are the median of some runs
with their spread. --full adds the large sizes; --write puts the table into the results file.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MEMORY = {"S1": "1G", "S2": "2G", "S3": "4G", "S4": "4G"}
RUNS = 3


class Failed(Exception):
    pass


def guest(build, size, *words):
    """{figure: (value, unit)} of one run in a fresh guest."""
    command = [str(ROOT / "test/kernel/uml_run.sh"), "--mem", MEMORY[size], "--timeout", "580",
               str(build / "test/bench/kernel_bench"), *words, size]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} {size}: {done.stdout[-400:]}{done.stderr[-400:]}")
    figures = {}
    for line in done.stdout.splitlines():
        parts = line.strip().split("\t")
        if len(parts) >= 2:
            figures[parts[0]] = (float(parts[1]), parts[2] if len(parts) > 2 else "")
    return figures


class Table:
    def __init__(self, before):
        self.rows = []
        self.before = before

    def add(self, name, value, unit, compared=""):
        text = f"{value:.0f}" if value == int(value) and not unit else f"{value:.2f}".rstrip("0").rstrip(".")
        last = self.before.get(name)
        change = ""
        if last:
            change = "same" if abs(value - last) <= 0.005 * abs(last) else f"{value / last:.2f} x"
        self.rows.append((name, f"{text} {unit}".strip(), compared, change))
        print(f"  {name:<58} {self.rows[-1][1]:>14}  {compared:<28} {change}", flush=True)

    def text(self):
        lines = ["| what | measured | compared |", "|---|---|---|"]
        lines += [f"| {name} | {value} | {compared} |" for name, value, compared, _ in self.rows]
        return "\n".join(lines) + "\n"


def results_before(path):
    found = {}
    if path.exists():
        for name, value in re.findall(r"^\| (.+?) \| ([\d.]+)", path.read_text(), re.M):
            found[name] = float(value)
    return found


def median(runs, figure):
    values = [run[figure][0] for run in runs]
    return statistics.median(values), f"{min(values):.0f} to {max(values):.0f}"


def first_sync(build, size, table):
    floors = []
    ours = []
    whole = []
    for _ in range(RUNS):
        floors.append(guest(build, size, "floor"))
        ours.append(guest(build, size, "apply"))
        whole.append(guest(build, size, "first"))
    for figure in ("virtual servers", "elements"):
        if floors[0][figure] != ours[0][figure]:
            raise Failed(f"{size}: the floor and the daemon do not end alike: {floors[0]} {ours[0]}")
    for figure in ("ipvs messages", "address messages", "datagrams but for sets"):
        table.add(f"{size} first sync, {figure}", ours[0][figure][0], "")
    table.add(f"{size} floor, messages", floors[0]["messages"][0], "")
    floor, spread = median(floors, "time")
    table.add(f"{size} floor", floor, "ms", spread)
    time, spread = median(ours, "time")
    table.add(f"{size} first sync, kernel side", time, "ms", f"{time / floor:.2f} x floor, {spread}")
    time, spread = median(whole, "time")
    table.add(f"{size} first sync, with planning", time, "ms", f"{time / floor:.2f} x floor, {spread}")
    resident, _ = median(whole, "resident")
    table.add(f"{size} first sync, resident memory more", resident, "MB")


def restart(build, size, table):
    runs = [guest(build, size, "restart") for _ in range(RUNS)]
    for figure in ("ipvs dumps", "link dumps", "write requests"):
        table.add(f"{size} restart, {figure}", runs[0][figure][0], "")
    dumps, spread = median(runs, "dumps alone")
    table.add(f"{size} the dumps alone", dumps, "ms", spread)
    time, spread = median(runs, "time")
    table.add(f"{size} restart", time, "ms", f"{time / dumps:.2f} x the dumps, {spread}")


def read_back(build, size, table):
    runs = [guest(build, size, "readback") for _ in range(RUNS)]
    for figure in ("ipvs dumps", "link dumps", "write requests", "parts"):
        table.add(f"{size} read-back, {figure}", runs[0][figure][0], "")
    dumps, _ = median(runs, "dumps alone")
    time, spread = median(runs, "read-back")
    table.add(f"{size} read-back", time, "ms", f"{time / dumps:.2f} x the dumps, {spread}")
    longest, spread = median(runs, "longest part")
    table.add(f"{size} read-back, longest part", longest, "ms", spread)


def changes(build, sizes, table):
    found = {size: guest(build, size, "changes") for size in sizes}
    first = found[sizes[0]]
    kinds = [name[:-len(", time")] for name in first if name.endswith(", time")]
    for kind in kinds:
        for figure in ("ipvs messages", "set messages", "link messages", "datagrams", "dumps"):
            name = f"{kind}, {figure}"
            values = {found[size][name][0] for size in sizes}
            if values != {0.0}:
                table.add(name, max(values), "", "" if len(values) == 1 else "differs by size")
    for kind in kinds:
        base = first[f"{kind}, time"][0]
        for size in sizes:
            time = found[size][f"{kind}, time"][0]
            table.add(f"{size} {kind}", time * 1000, "us", f"{time / base:.2f} x {sizes[0]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "test/bench/results.md")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    table = Table(results_before(arguments.results))
    sizes = ["S1", "S2", "S3", "S4"] if arguments.full else ["S1", "S2"]
    try:
        changes(build, ["S1", "S2", "S4"] if arguments.full else ["S1", "S2"], table)
        for size in sizes:
            first_sync(build, size, table)
        for size in [size for size in sizes if size != "S3"]:
            restart(build, size, table)
        for size in sizes:
            read_back(build, size, table)
    except Failed as failure:
        print(f"report.py: {failure}", file=sys.stderr)
        return 1
    if arguments.write:
        head = arguments.results.read_text().split("| what |")[0] if arguments.results.exists() else ""
        arguments.results.write_text(head + table.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())

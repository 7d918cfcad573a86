"""What the chapters of the report have in common: guests to measure in, and rows of figures. See report.py."""

import collections
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MEMORY = {"S1": "1G", "S2": "2G", "S3": "4G", "S4": "4G"}

Row = collections.namedtuple("Row", "name value unit notes")


class Failed(Exception):
    pass


class Figures(dict):
    """{figure: value} of one run of kernel_bench."""

    def __missing__(self, figure):
        raise Failed(f"kernel_bench does not print '{figure}'")


def figures_of(text):
    """Of the lines that kernel_bench prints."""
    figures = Figures()
    for line in text.splitlines():
        parts = line.strip().split("\t")
        if len(parts) >= 2:
            figures[parts[0]] = float(parts[1])
    return figures


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stdout[-400:]}{done.stderr[-400:]}")
    return done.stdout


class Bench:
    """What can be run: measurements in a guest, programs on this host."""

    def __init__(self, build, full, smoke):
        self.build = build
        self.full = full or smoke
        self.smoke = smoke
        self.runs = 1 if smoke else 3

    def sizes(self, *names):
        if self.smoke:
            return ["S0"]
        return [name for name in names if self.full or name in ("S1", "S2")]

    def guest_output(self, size, *words):
        if self.smoke:
            return run(*words)
        return run(str(ROOT / "test/kernel/uml_run.sh"), "--mem", MEMORY[size], "--timeout", "580", *words)

    def stock_guest(self, memory, *words):
        """In Debian's kernel, which has nf_tables."""
        if self.smoke:
            return run(*words)
        return run(str(ROOT / "test/kernel/qemu_run.sh"), "--mem", memory, "--timeout", "1100", *words)

    def measure(self, size, measurement, *more):
        """The words of one run of kernel_bench."""
        return str(self.build / "test/bench/kernel_bench"), measurement, "S0" if self.smoke else size, *more

    def guest(self, size, measurement):
        """Of one run of kernel_bench in a fresh guest."""
        return figures_of(self.guest_output(size, *self.measure(size, measurement)))

    def host(self, program, *words):
        if self.smoke and not words:
            words = ["little"]
        return run(str(self.build / "test/bench" / program), *words)


def text_of(value):
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def verdict(value, most):
    return f"at most {text_of(most)}: {'yes' if value <= most else 'NO'}"


def rows_of(text):
    """Those that Report.text() wrote."""
    return [Row(name, float(value), unit, [notes] if notes else []) for name, value, unit, notes in
            re.findall(r"^\| (.+?) \| (-?[\d.e+-]+) ?(\S*) \| (.*?) ?\|$", text, re.M)]


class Report:
    def __init__(self, before, keeps=False):
        """`before`: the chapter as it was last written; `keeps`: what is not measured stays as it was."""
        self.before = {row.name: row.value for row in rows_of(before)}
        parts = before.split("## Times", 1) if keeps else [""]
        self.counts = rows_of(parts[0])
        self.times = rows_of("".join(parts[1:]))
        self.failed = False

    def fail(self, why):
        print(f"report.py: {why}", file=sys.stderr, flush=True)
        self.failed = True

    def attempt(self, measure, *arguments):
        """What fails takes only its own rows with it."""
        try:
            measure(*arguments)
        except Failed as failure:
            self.fail(failure)

    def show(self, rows, row):
        places = [place for place, old in enumerate(rows) if old.name == row.name]
        if places:
            rows[places[0]] = row
        else:
            rows.append(row)
        print(f"  {row.name:<60} {text_of(row.value):>10} {row.unit:<4} {'; '.join(row.notes):<60} "
              f"{self.change(row)}".rstrip(), flush=True)

    def change(self, row):
        last = self.before.get(row.name)
        if last is None:
            return "new"
        if last == row.value or text_of(last) == text_of(row.value):
            return "same"
        return f"was {text_of(last)}" + (f", {row.value / last:.2f} x" if last else "")

    def count(self, name, value, most=None, note=""):
        notes = [note] if note else []
        self.show(self.counts, Row(name, value, "", notes if most is None else [*notes, verdict(value, most)]))

    def time(self, name, values, unit, over=None, than="", most=None, note=""):
        """`over`: what the median is divided by; `than`: the name of that; `most`: the target of the
        ratio, or of the value where there is none."""
        value = statistics.median(values)
        notes = [note] if note else []
        if len(values) > 1:
            notes.append(f"{text_of(min(values))} to {text_of(max(values))}")
        if over:
            notes.append(f"{value / over:.2f} x {than}")
        if most is not None:
            notes.append(verdict(value / over if over else value, most))
        self.show(self.times, Row(name, value, unit, notes))
        return value

    def text(self, with_last=False):
        """The tables; `with_last`: beside the last results, for who reads rather than keeps them."""
        parts = []
        titles = ["what", "measured", "compared", *(["last results"] if with_last else [])]
        for title, rows in (("Counts", self.counts), ("Times and memory", self.times)):
            parts.append(f"## {title}\n\n| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n")
            for row in rows:
                cells = [row.name, f"{text_of(row.value)} {row.unit}".rstrip(), "; ".join(row.notes),
                         *([self.change(row)] if with_last else [])]
                parts.append(f"| {' | '.join(cells)} |\n")
            parts.append("\n")
        return "".join(parts)

    def missing(self):
        """Names of the last results, of whatever size, that did not come."""
        def kinds(names):
            return {re.sub(r"\d[\d,]*", "N", name) for name in names}
        return sorted(kinds(self.before) - kinds(row.name for row in self.counts + self.times))


def first_sync(bench, report, size, kind=""):
    """Beside the floor. `kind`: what the names of the rows begin with."""
    name = kind + size
    floors, ours, whole = [], [], []
    for _ in range(bench.runs):
        floors.append(bench.guest(size, "floor"))
        ours.append(bench.guest(size, "apply"))
        whole.append(bench.guest(size, "first"))
    for figure in ("virtual servers", "elements", "addresses"):
        if floors[0][figure] != ours[0][figure]:
            raise Failed(f"{name}: the floor and the daemon do not end alike: {floors[0]} {ours[0]}")
        report.count(f"{name} {figure}", ours[0][figure])
    report.count(f"{name} floor, messages", floors[0]["messages"])
    report.count(f"{name} floor, datagrams", floors[0]["datagrams"])
    for figure in ("ipvs messages", "address messages", "datagrams but for sets", "page faults"):
        report.count(f"{name} first sync, {figure}", ours[0][figure])
    floor = report.time(f"{name} floor", [run["time"] for run in floors], "ms")
    report.time(f"{name} first sync, kernel side", [run["time"] for run in ours], "ms", floor, "floor",
                1.5 if size == "S2" else None)
    report.time(f"{name} first sync, with planning and reading", [run["time"] for run in whole], "ms", floor, "floor")
    return floor, statistics.median(run["time"] for run in ours)

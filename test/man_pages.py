#!/usr/bin/env python3
"""Compares the manual pages with --help, both ways, and lets mandoc judge them.

usage: man_pages.py ROOT PROGRAM...

The page of a program is ROOT/docs/man/NAME.8. A flag that takes a value has it in both places.
"""

import os
import re
import subprocess
import sys


def flags_of_help(text):
    """{flag: whether it takes a value}"""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"  (?:-\w,)?--([a-z][a-z0-9-]*)( [A-Z]\S*)?", line):
            found[match[1]] = match[2] is not None
    return found


def help_of(program):
    def run(*arguments):
        return subprocess.run([program, *arguments, "--help"], capture_output=True, text=True,
                              check=True).stdout
    text = run()
    commands = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M)
    found = flags_of_help(text)
    for command in re.findall(r"^  (\S+)", commands[1], re.M) if commands else []:
        found |= flags_of_help(run(command))
    return found


def flags_of_page(text):
    found = {}
    for line in re.findall(r"^\.It (Fl .*)$", text, re.M):
        match = re.search(r"Fl -([a-z][a-z0-9-]*)( Ar \S+)?$", line)
        found[match[1] if match else line] = bool(match and match[2])
    return found


def compare(program_flags, page_flags):
    complaints = []
    for flag in sorted(program_flags.keys() | page_flags.keys()):
        if flag not in page_flags:
            complaints.append(f"--{flag} is not in the page")
        elif flag not in program_flags:
            complaints.append(f"--{flag} is not in the program")
        elif program_flags[flag] != page_flags[flag]:
            complaints.append(f"--{flag}: with a value in one place, without in the other")
    return complaints


def lint(path):
    done = subprocess.run(["mandoc", "-T", "lint", path], capture_output=True, text=True,
                          check=False)
    # Whether other pages are installed here says nothing about this one.
    return [line for line in done.stdout.splitlines() if "referenced manual not found" not in line]


SELF_TEST = [
    ("  -h,--help    Print\n  --once     x\n  --config FILE  y\n", []),
    ("  -h,--help    Print\n  --config FILE  y\n", ["--once is not in the program"]),
    ("  -h,--help    Print\n  --once     x\n  --config FILE  y\n  --v N  z\n",
     ["--v is not in the page"]),
    ("  -h,--help    Print\n  --once N   x\n  --config FILE  y\n",
     ["--once: with a value in one place, without in the other"]),
]


def main(root, programs):
    cases = []
    page = ".It Fl h , Fl -help\nx\n.It Fl -once\n.It Fl -config Ar FILE\n"
    for text, expected in SELF_TEST:
        found = compare(flags_of_help(text), flags_of_page(page))
        cases.append((f"selftest {expected}", [] if found == expected else found or ["nothing"]))
    for program in programs:
        name = os.path.basename(program)
        path = os.path.join(root, "docs", "man", f"{name}.8")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        told = help_of(program)
        cases.append((f"{name}: flags", compare(told, flags_of_page(text)) if told else ["none"]))
        cases.append((f"{name}: lint", lint(path)))
    failures = 0
    for name, complaints in cases:
        print(f"{'FAILED' if complaints else 'ok'}: {name}", *complaints, sep="\n  ")
        failures += 1 if complaints else 0
    print(f"test cases: {len(cases)} | {len(cases) - failures} passed | {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

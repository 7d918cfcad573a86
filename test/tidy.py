#!/usr/bin/env python3
"""Runs clang-tidy over our sources, several at once, and not again over what has not changed.

usage: tidy.py BUILD_DIR [JOBS]

BUILD_DIR is a meson folder configured for clang, with or without unity. Most of clang-tidy's time goes
into the system's headers, so the sources of one folder and target are first checked by the dozen as one
file that includes them all; if that finds anything, or does not compile, each of them is checked alone,
and only that counts. (An unused using-declaration is not seen in company.)
A source that passed is remembered under BUILD_DIR/tidy by a hash of itself, the headers of the
project, its compile command and the configuration. The test cases are left out: Catch2's macros are
not ours to tidy. Those that the clang build does not contain are only compiled, for clang's warnings.
"""

import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("netlink/", "ipset/", "proxier/", "cmd/", "test/fakes/", "test/support/")
ONLY_COMPILED = ("test/kernel/",)
COMPANY = 12  # sources checked as one file
UNITY_FILE = re.compile(r"-unity\d+\.cpp$")
INCLUDED = re.compile(r'^#include\s*["<](.+)[">]$', re.M)
# What is right in a source is said to be wrong of one that is included.
NOT_IN_COMPANY = "-bugprone-suspicious-include,-google-global-names-in-headers"


class Source:
    def __init__(self, entry, file):
        self.file = os.path.normpath(file)
        self.path = os.path.relpath(self.file, ROOT)
        self.folder = entry["directory"]
        words = shlex.split(entry["command"])
        if words[0] == "ccache":
            words.pop(0)
        self.compiler = words[0]
        self.flags = []
        skip = False
        for word in words[1:]:
            if skip or word in ("-c", "-MD", entry["file"]):
                skip = False
            elif word in ("-o", "-MQ", "-MF"):
                skip = True
            else:
                self.flags.append(word)

    def key(self, headers):
        return hashlib.sha256(
            (headers + " ".join(self.flags)).encode() + pathlib.Path(self.file).read_bytes()).hexdigest()

    def company(self):
        """Those of one folder that are compiled alike."""
        return os.path.dirname(self.path), self.flags


def files_of(entry):
    """What a compile command compiles: a file, or those that meson's unity file includes."""
    file = os.path.join(entry["directory"], entry["file"])
    if not UNITY_FILE.search(file):
        return [file]
    return INCLUDED.findall(pathlib.Path(file).read_text())


def sources(build):
    """Each source of ours, once."""
    found = {}
    commands = json.loads((build / "compile_commands.json").read_text())
    for source in (Source(entry, file) for entry in commands for file in files_of(entry)):
        if source.path.startswith(ROOMS + ONLY_COMPILED) and source.path.endswith(".cc"):
            found.setdefault(source.path, source)
    return [found[path] for path in sorted(found)]


def hash_of_headers():
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in sorted(itertools.chain(*((ROOT / room).rglob("*.h")
                                           for room in ROOMS + ONLY_COMPILED + ("test/contract/",)))):
        digest.update(str(header).encode() + header.read_bytes())
    return digest.hexdigest()


def run(source, command):
    """"" or the complaint."""
    done = subprocess.run(command, cwd=source.folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def tidy(source, file, *options):
    return run(source, ["clang-tidy-14", "--quiet", "--warnings-as-errors=*",
                        f"--config-file={ROOT / '.clang-tidy'}", *options, str(file), "--",
                        *source.flags])


def is_only_compiled(source):
    return source.path.startswith(ONLY_COMPILED)


def compiled(source, file):
    return run(source, [source.compiler, *source.flags, "-fsyntax-only", str(file)])


def check_alone(source):
    return (compiled if is_only_compiled(source) else tidy)(source, source.file)


def check_company(source, file):
    if is_only_compiled(source):
        return compiled(source, file)
    return tidy(source, file, f"--checks={NOT_IN_COMPANY}",
                "--header-filter=(netlink|ipset|proxier|cmd|test)/")


def check(group, cache):
    """[(source, complaint)]"""
    first = group[0]
    if len(group) > 1:
        all_of_them = cache / (hashlib.sha256(first.path.encode()).hexdigest()[:16] + ".cc")
        all_of_them.write_text("".join(f'#include "{source.file}"\n' for source in group))
        if not check_company(first, all_of_them):
            return [(source, "") for source in group]
    return [(source, check_alone(source)) for source in group]


def groups_of(work):
    groups = []
    for _, alike in itertools.groupby(sorted(work, key=Source.company), key=Source.company):
        alike = list(alike)
        groups += [alike[i:i + COMPANY] for i in range(0, len(alike), COMPANY)]
    return sorted(groups, key=len, reverse=True)


def main(build, jobs):
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    headers = hash_of_headers()
    work = [source for source in sources(build) if not (cache / source.key(headers)).exists()]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for answers in pool.map(lambda group: check(group, cache), groups_of(work)):
            for source, complaint in answers:
                if complaint:
                    failures += 1
                    print(complaint)
                else:
                    (cache / source.key(headers)).touch()
    print(f"clang-tidy: {len(work)} sources checked, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(),
                  int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()))

#!/usr/bin/env python3
"""Runs clang-tidy over our sources, several at once, and not again over what has not changed.

usage: tidy.py BUILD_DIR [JOBS]

BUILD_DIR is a meson folder configured for clang. A source that passed is remembered under
BUILD_DIR/tidy by a hash of itself, the headers of the project, its compile command and the
configuration. The test cases are left out: Catch2's macros are not ours to tidy.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("netlink/", "ipset/", "proxier/", "cmd/", "test/fakes/", "test/support/")


def sources(build):
    """(path, compile command) of each source of ours, once."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if path.startswith(ROOMS) and path.endswith(".cc"):
            found.setdefault(path, entry["command"])
    return sorted(found.items())


def hash_of_headers():
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for room in ROOMS:
        for header in sorted((ROOT / room).rglob("*.h")):
            digest.update(str(header).encode() + header.read_bytes())
    return digest.hexdigest()


def check(build, path):
    """None, or what clang-tidy complains about."""
    done = subprocess.run(
        ["clang-tidy-14", "-p", str(build), "--quiet", "--warnings-as-errors=*", str(ROOT / path)],
        capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stdout + done.stderr


def main(build, jobs):
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    headers = hash_of_headers()
    work = []
    for path, command in sources(build):
        key = hashlib.sha256(
            (headers + command).encode() + (ROOT / path).read_bytes()).hexdigest()
        if not (cache / key).exists():
            work.append((path, key))
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for (path, key), complaint in zip(work, pool.map(lambda w: check(build, w[0]), work)):
            if complaint is None:
                (cache / key).touch()
            else:
                failures += 1
                print(complaint)
    print(f"clang-tidy: {len(work)} sources checked, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(),
                  int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()))

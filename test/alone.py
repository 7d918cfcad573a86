#!/usr/bin/env python3
"""Lets the compiler of a build read sources, each alone: what a source uses it must include, although
it is compiled together with others.

usage: alone.py [--changed] BUILD_DIR [JOBS]

--changed: only sources that changed lately (sources.py); of those that no daily build contains also
those that include what changed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys

from sources import changed, sources, with_includers

ROOMS = ("netlink/", "ipset/", "proxier/", "cmd/", "test/")
NOT_BUILT_DAILY = ("test/bench/", "test/kernel/soak_")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("jobs", type=int, nargs="?", default=os.cpu_count())
    arguments = parser.parse_args()
    chosen = sources(arguments.build.resolve(), ROOMS)
    lately = changed() if arguments.changed else None
    if lately is not None:
        reached = {path for path in with_includers(lately) if path.startswith(NOT_BUILT_DAILY)}
        chosen = [source for source in chosen if source.path in lately | reached]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for complaint in pool.map(lambda source: source.compiled(), chosen):
            failures += bool(complaint)
            print(complaint, end="")
    print(f"{len(chosen)} sources compiled alone, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

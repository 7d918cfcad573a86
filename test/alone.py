#!/usr/bin/env python3
"""Lets the compiler of a build read sources, each alone: what a source uses it must include, although
it is compiled together with others.

usage: alone.py [--changed] BUILD_DIR [JOBS]

--changed: only sources that changed lately (sources.py); of those that no daily build contains also
those that include what changed.
"""

import concurrent.futures
import sys

from sources import changed, parse_arguments, sources, with_includers

ROOMS = ("netlink/", "ipset/", "proxier/", "cmd/", "test/")
NOT_BUILT_DAILY = ("test/bench/", "test/kernel/soak_")


def main():
    arguments = parse_arguments()
    chosen = sources(arguments.build, ROOMS)
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

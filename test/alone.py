#!/usr/bin/env python3
"""Compiles sources, each alone: what a source uses it must include, although it is built together with
others. Sources of the programs are compiled as BUILD_DIR builds them, optimised, for the compiler warns
of some things only then; sources of tests are only read, as TESTS_DIR builds them.

usage: alone.py [--changed] BUILD_DIR TESTS_DIR [JOBS]

--changed: only sources that changed lately (sources.py), those of tests by the dozen as one file, as
most of the time goes into the system's headers; of those that no daily build contains also those that
include what changed.
What passed is remembered (sources.py).
"""

import sys

from sources import (STAY, Passed, changed, check_groups, companies, in_one_file, parse_arguments, sources,
                     with_includers)

PRODUCT = ("netlink/", "ipset/", "proxier/", "cmd/")
TESTS = ("test/",)
NOT_BUILT_DAILY = ("test/bench/", "test/kernel/soak_")


def check(group, folder):
    """[(source, complaint)]"""
    if group[0].path.startswith(PRODUCT):
        return [(source, source.compiled(options=("-c", "-o", "/dev/null"))) for source in group]
    if len(group) > 1 and not group[0].compiled(in_one_file(group, folder)):
        return [(source, "") for source in group]
    return [(source, source.compiled()) for source in group]


def main():
    arguments = parse_arguments("build", "tests")
    chosen = sources(arguments.build, PRODUCT) + sources(arguments.tests, TESTS)
    lately = changed(*STAY) if arguments.changed else None
    if lately is not None:
        reached = {path for path in with_includers(lately) if path.startswith(NOT_BUILT_DAILY)}
        chosen = [source for source in chosen if source.path in lately | reached]
    passed = Passed("alone, in company" if arguments.changed else "alone")
    chosen = [source for source in chosen if not passed.had(source)]
    of_tests = [source for source in chosen if source.path.startswith(TESTS)] if arguments.changed else []
    groups = companies(of_tests) + [[source] for source in chosen if source not in of_tests]
    failures = check_groups(groups, check, passed, arguments.jobs)
    print(f"{len(chosen)} sources compiled, {len(chosen) - len(of_tests)} of them alone, "
          f"{failures} findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

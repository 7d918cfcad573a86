#!/usr/bin/env python3
"""Runs clang-tidy over our sources, several at once, and not again over what has not changed.

usage: tidy.py [--changed] BUILD_DIR [JOBS]

--changed: only sources that changed lately (sources.py), more than by moving, and those that include
what changed; where that is more than half of all, only what changed itself.

BUILD_DIR is a meson folder configured for clang, with or without unity. Most of clang-tidy's time goes
into the system's headers, so the sources of one folder and target are first checked by the dozen as one
file that includes them all; if that finds anything, or does not compile, each of them is checked alone,
and only that counts. (An unused using-declaration is not seen in company.)
A source that passed is remembered (sources.py). The test cases are left out: Catch2's macros are
not ours to tidy. Those that the clang build does not contain are only compiled, for clang's warnings.
"""

import subprocess
import sys

from sources import (MOVE, ROOT, Passed, changed, check_groups, companies, in_one_file, parse_arguments, sources,
                     with_includers)

ROOMS = ("netlink/", "ipset/", "proxier/", "cmd/", "test/fakes/", "test/support/")
ONLY_COMPILED = ("test/kernel/",)
# What is right in a source is said to be wrong of one that is included.
NOT_IN_COMPANY = "-bugprone-suspicious-include,-google-global-names-in-headers"


def tidy(source, file, *options):
    return source.run(["clang-tidy-14", "--quiet", "--warnings-as-errors=*",
                        f"--config-file={ROOT / '.clang-tidy'}", *options, str(file), "--",
                        *source.flags])


def is_only_compiled(source):
    return source.path.startswith(ONLY_COMPILED)


def check_alone(source):
    return source.compiled() if is_only_compiled(source) else tidy(source, source.file)


def check_company(source, file):
    if is_only_compiled(source):
        return source.compiled(file)
    return tidy(source, file, f"--checks={NOT_IN_COMPANY}",
                "--header-filter=(netlink|ipset|proxier|cmd|test)/")


def check(group, folder):
    """[(source, complaint)]"""
    first = group[0]
    if len(group) > 1:
        if not check_company(first, in_one_file(group, folder)):
            return [(source, "") for source in group]
    return [(source, check_alone(source)) for source in group]


def main():
    arguments = parse_arguments("build")
    work = sources(arguments.build, ROOMS + ONLY_COMPILED)
    version = subprocess.run(["clang-tidy-14", "--version"], capture_output=True, text=True, check=True).stdout
    passed = Passed("clang-tidy" + version + (ROOT / ".clang-tidy").read_text(encoding="utf-8"))
    lately = changed(*MOVE) if arguments.changed else None
    if lately is not None:
        reached = with_includers(lately)
        touched = [source for source in work if source.path in reached]
        if 2 * len(touched) > len(work):
            touched = [source for source in work if source.path in lately]
        work = touched
    work = [source for source in work if not passed.had(source)]
    failures = check_groups(companies(work), check, passed, arguments.jobs)
    print(f"clang-tidy: {len(work)} sources checked, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

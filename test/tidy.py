#!/usr/bin/env python3
"""Runs clang-tidy over our sources, several at once, and not again over what has not changed.

usage: tidy.py [--changed] BUILD_DIR [JOBS]

--changed: only sources that changed lately (sources.py), more than by moving, and those that include
what changed; where that is more than half of all, only what changed itself.

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
import sys

from sources import MOVE, ROOT, changed, companies, in_one_file, parse_arguments, sources, with_includers

ROOMS = ("netlink/", "ipset/", "proxier/", "cmd/", "test/fakes/", "test/support/")
ONLY_COMPILED = ("test/kernel/",)
# What is right in a source is said to be wrong of one that is included.
NOT_IN_COMPANY = "-bugprone-suspicious-include,-google-global-names-in-headers"


def hash_of_headers():
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in sorted(itertools.chain(*((ROOT / room).rglob("*.h")
                                           for room in ROOMS + ONLY_COMPILED + ("test/contract/",)))):
        digest.update(str(header).encode() + header.read_bytes())
    return digest.hexdigest()


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


def check(group, cache):
    """[(source, complaint)]"""
    first = group[0]
    if len(group) > 1:
        if not check_company(first, in_one_file(group, cache)):
            return [(source, "") for source in group]
    return [(source, check_alone(source)) for source in group]


def main():
    arguments = parse_arguments("build")
    build = arguments.build
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    headers = hash_of_headers()
    work = sources(build, ROOMS + ONLY_COMPILED)
    lately = changed(*MOVE) if arguments.changed else None
    if lately is not None:
        reached = with_includers(lately)
        touched = [source for source in work if source.path in reached]
        if 2 * len(touched) > len(work):
            touched = [source for source in work if source.path in lately]
        work = touched
    work = [source for source in work if not (cache / source.key(headers)).exists()]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for answers in pool.map(lambda group: check(group, cache), companies(work)):
            for source, complaint in answers:
                if complaint:
                    failures += 1
                    print(complaint)
                else:
                    (cache / source.key(headers)).touch()
    print(f"clang-tidy: {len(work)} sources checked, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

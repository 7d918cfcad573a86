#!/usr/bin/env python3
"""Misuse that must not build: each source compiles as it is, and not with -DMISUSE.

usage: check.py ROOT COMPILER... -- SOURCE...

A source names in its line "// expect: REGULAR EXPRESSION" what the compiler must say, so that it does
not fail for another reason.
"""

import re
import subprocess
import sys


def compile_source(compiler, root, source, *options):
    return subprocess.run(
        [*compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-iquote", root,
         *options, source], capture_output=True, text=True, check=False)


def complaint(compiler, root, source):
    with open(source, encoding="utf-8") as file:
        expected = re.search(r"^// expect: (.+)$", file.read(), re.M)
    if expected is None:
        return "no line // expect:"
    control = compile_source(compiler, root, source)
    if control.returncode != 0:
        return "the proper use does not compile:\n" + control.stderr
    misuse = compile_source(compiler, root, source, "-DMISUSE")
    if misuse.returncode == 0:
        return "the misuse compiles"
    if not re.search(expected.group(1), misuse.stderr):
        return f"fails for another reason than {expected.group(1)!r}:\n" + misuse.stderr
    return None


def main(root, arguments):
    split = arguments.index("--")
    compiler, sources = arguments[:split], arguments[split + 1:]
    failures = 0
    for source in sources:
        if found := complaint(compiler, root, source):
            failures += 1
            print(f"{source}: {found}")
    print(f"test cases: {len(sources)} | {len(sources) - failures} passed | {failures} failed")
    return 1 if failures or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

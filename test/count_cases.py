#!/usr/bin/env python3
"""Counts the test cases in meson's test logs and shows what failed.

usage: count_cases.py [--skips-fail] LOG.json...

Prints the output of each failed test to stderr and "PASSED FAILED SKIPPED" to stdout. A Catch2
executable counts as its cases, any other test as one. With --skips-fail a skipped test is a failure:
for suites that must run.
"""

import json
import re
import sys

ALL_PASSED = re.compile(r"^All tests passed \(.* in (\d+) test cases?\)$", re.M)
SOME_FAILED = re.compile(r"^test cases:\s*(\d+)(.*)$", re.M)


def cases_of(test):
    """(passed, failed, skipped) of one entry of a log."""
    output = test.get("stdout", "").replace("\r", "")
    result = test["result"]
    if result in ("SKIP", "IGNORED"):
        return 0, 0, 1
    counted = None
    if found := ALL_PASSED.search(output):
        counted = int(found.group(1)), 0
    elif found := SOME_FAILED.search(output):
        failed = re.search(r"(\d+) failed(?! as expected)", found.group(2))
        failures = int(failed.group(1)) if failed else 0
        counted = int(found.group(1)) - failures, failures
    elif "No tests ran" in output:
        return 0, 1, 0
    passed, failed = counted or (1, 0)
    if result in ("OK", "EXPECTEDFAIL"):
        return passed, failed, 0
    # A crash or a leak after the last case fails although no case did.
    return (passed, failed, 0) if failed else ((passed, 1, 0) if counted else (0, 1, 0))


def main(arguments):
    skips_fail = "--skips-fail" in arguments
    totals = [0, 0, 0]
    for path in arguments:
        if path.startswith("--"):
            continue
        with open(path, encoding="utf-8") as log:
            for line in log:
                test = json.loads(line)
                passed, failed, skipped = cases_of(test)
                if skips_fail and skipped:
                    failed, skipped = failed + skipped, 0
                if failed:
                    print(f"--- {test['name']}: {test['result']}", file=sys.stderr)
                    for stream in ("stdout", "stderr"):
                        print(test.get(stream, "").rstrip(), file=sys.stderr)
                totals = [a + b for a, b in zip(totals, (passed, failed, skipped))]
    print(*totals)


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/env python3
"""Prints which test cases fail on each deficiency of kube-proxy's IPVS mode, from their tags.

usage: items.py ROOT

The numbers are those of the reference's section 19; a case has the tag [item-N] for each item on whose
old behaviour it fails (`unit_sync '[item-9]'` runs those of item 9). An item of ITEMS without a case is
an error.
"""

import pathlib
import re
import sys

ITEMS = {
    1: "networks of one address and ::/96 flap in sets",
    2: "a failed sync waits for the next event or period",
    3: "an aborted sync forgets stale flows and latencies",
    4: "a failed command leaves rules twice",
    5: "internalTrafficPolicy Local falls back",
    6: "a health-check port without node-port addresses is shut",
    7: "source ranges follow the node IP of the start",
    8: "a failed query deletes a healthy virtual server",
    9: "draining is not forgotten with its virtual server",
    10: "a real server that returns is deleted and added",
    11: "others' changes of real servers stay, or cost many writes",
    12: "firewall-mark services are not left alone",
    13: "cleanup and leftovers",
    14: "KUBE-LOOP-BACK has endpoints without traffic",
    15: "a VIP is shown before, or after, what guards it",
    16: "rules are in random order",
    17: "a full set leaves elements out",
    18: "a ping to a VIP is rejected",
    19: "UDP flows are matched by node port alone",
    20: "a zone is missed, an Event lost, changes counted twice",
    21: "IPv6 is not forwarded",
    22: "a Service that goes cuts its connections",
}
CASE = re.compile(r'^TEST_CASE(?:_METHOD)?\((?:\w+,)?\s*((?:"[^\n]*"\s*)+),\s*"((?:\[[^\]]+\])+)"\)', re.M)


def cases_of(root):
    """item -> ["test/unit/x.cc: title"]"""
    found = {}
    for path in sorted((root / "test").rglob("*_test.cc")):
        for case in CASE.finditer(path.read_text(encoding="utf-8")):
            title = "".join(re.findall(r'"([^"]*)"', case.group(1)))
            for item in re.findall(r"\[item-(\d+)\]", case.group(2)):
                found.setdefault(int(item), []).append(f"{path.relative_to(root)}: {title}")
    return found


def main(arguments):
    found = cases_of(pathlib.Path(arguments[0]))
    for item in sorted(ITEMS.keys() | found.keys()):
        print(f"{item}: {ITEMS.get(item, '?')}")
        for case in found.get(item, ["NO CASE"]):
            print(f"    {case}")
    return 0 if ITEMS.keys() <= found.keys() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

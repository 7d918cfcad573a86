#!/usr/bin/env -S python3 -B
"""Compares what kube_proxy_state.py says and what ipvs-proxier makes of the recorded cluster with
what kube-proxy left in a kernel.

usage: recorded_states.py PROGRAM RECORDED

PROGRAM is ipvs_proxier_state; RECORDED holds objects/ and, for each configuration, CONFIGURATION/
with config.yaml and kernel/.
"""

import json
import pathlib
import sys

import yaml

import compare_states
import kube_proxy_state

# Of the node on which it was recorded.
LINKS = {"lo": ["127.0.0.1", "::1"], "vec0": ["10.200.0.2", "fd00:200::2", "fe80::1"]}


def recorded_lines(kernel):
    lines = []
    for name in ("ipvs.txt", "ipset-members.txt"):
        lines += [line.rstrip() for line in (kernel / name).read_text().splitlines()]
    for line in (kernel / "addrs.txt").read_text().splitlines():
        lines.append(f"address {line.split()[2]}")
    for command in ("iptables", "ip6tables"):
        table = ""
        for line in (kernel / f"{command}.txt").read_text().splitlines():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith("-A "):
                lines.append(f"{command} {table} {line}")
    return lines


def is_as_recorded(line, kernel):
    """Whether a sysctl or timeouts are what the kernel has; not all sysctls were recorded."""
    what, _, rest = line.partition(" ")
    if what == "sysctl":
        recorded = dict(row.split("=", 1) for row in (kernel / "sysctl.txt").read_text().split())
        key, _, value = rest.partition("=")
        return recorded.get(key, value) == value
    recorded = (kernel / "timeouts.txt").read_text().rpartition(":")[2].split()
    return all(mine in ("0", theirs) for mine, theirs in zip(rest.split(), recorded, strict=True))


def is_of_host(line):
    return line.startswith(("sysctl ", "timeouts "))


def main():
    program, recorded = sys.argv[1], pathlib.Path(sys.argv[2])
    events = []
    for path in sorted((recorded / "objects").glob("*.json")):
        events += [["ADDED", item] for item in json.loads(path.read_text())["items"]]
    clusters = [{"name": path.parent.name, "configuration": yaml.safe_load(path.read_text()),
                 "links": LINKS, "steps": [{"events": events}]}
                for path in sorted(recorded.glob("*/config.yaml"))]
    found = compare_states.ours(program, clusters)
    failures = 0 if clusters else 1
    for cluster in clusters:
        kernel = recorded / cluster["name"] / "kernel"
        expected = compare_states.normal(recorded_lines(kernel))
        described, _ = next(kube_proxy_state.states(cluster))
        for who, lines in (("kube_proxy_state.py", described),
                           ("ipvs-proxier", found[f"{cluster['name']} 0"])):
            actual = compare_states.normal([line for line in lines if not is_of_host(line)])
            wrong = [line for line in lines if is_of_host(line) and not is_as_recorded(line, kernel)]
            failures += len(wrong)
            for line in wrong:
                print(f"not recorded: {line}")
            print(f"{cluster['name']}: {len(expected)} lines recorded, {len(actual)} of {who}")
            if actual != expected:
                failures += 1
                print(*compare_states.difference(expected, actual), sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

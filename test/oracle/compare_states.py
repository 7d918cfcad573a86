#!/usr/bin/env -S python3 -B
"""Compares what ipvs-proxier makes of random clusters with what kube-proxy leaves.

usage: compare_states.py PROGRAM [--first SEED] [--clusters N] [--changes N] [--keep FOLDER]

PROGRAM is ipvs_proxier_state. A cluster that differs is told with its seed and kept as
FOLDER/seed-N.jsonl, to be given to either program. Exit status 1: something differs.

Left out is what kube-proxy itself leaves to chance: steps in which two service ports claim one
virtual server (docs/differences.md), or in which slices of one Service differ about an endpoint.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import kube_proxy_state
import random_changes

BATCH = 200  # clusters of one run of the program
MOST_SHOWN = 20


def parse_states(text):
    states = {}
    for line in text.splitlines():
        if line.startswith("= "):
            lines = states[line[2:]] = []
        else:
            lines.append(line)
    return states


def ours(program, clusters):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(cluster) + "\n" for cluster in clusters)
        file.flush()
        done = subprocess.run([program, file.name], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{program}: status {done.returncode}, seeds from {clusters[0]['name']}")
    return parse_states(done.stdout)


def normal(lines):
    """Rules grouped by chain in the order that they have there; those of KUBE-IPVS-OUT-FILTER have
    none (docs/kube-proxy.md, section 3.2)."""
    def is_ordered(line):
        return line.startswith(("iptables ", "ip6tables ")) and "-A KUBE-IPVS-OUT-FILTER " not in line

    unordered = sorted(line for line in lines if not is_ordered(line))
    return unordered + sorted(filter(is_ordered, lines), key=lambda line: line.split()[:4])


def difference(expected, found):
    missing = [f"- {line}" for line in expected if line not in set(found)]
    surplus = [f"+ {line}" for line in found if line not in set(expected)]
    return missing + surplus or ["the same lines in another order"]


class Comparison:
    def __init__(self, keep):
        self.keep = keep
        self.steps = self.left_out = self.differing = self.lines = 0

    def add(self, cluster, found):
        for number, (expected, chance) in enumerate(kube_proxy_state.states(cluster)):
            if chance:
                self.left_out += 1
                if cluster["configuration"].get("ipvs", {}).get("excludeCIDRs"):
                    return  # what chance left may stay
                continue
            self.steps += 1
            expected = normal(expected)
            actual = normal(found.get(f"{cluster['name']} {number}", []))
            self.lines += len(expected)
            if expected != actual:
                self._tell(cluster, number, difference(expected, actual))
                return

    def _tell(self, cluster, number, lines):
        self.differing += 1
        print(f"{cluster['name']}, step {number}: - kube-proxy, + ipvs-proxier")
        print(*lines[:MOST_SHOWN], sep="\n")
        if self.keep:
            self.keep.mkdir(parents=True, exist_ok=True)
            path = self.keep / f"{cluster['name']}.jsonl"
            path.write_text(json.dumps(cluster) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--changes", type=int, default=4)
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    comparison = Comparison(arguments.keep)
    seeds = range(arguments.first, arguments.first + arguments.clusters)
    for start in range(0, len(seeds), BATCH):
        clusters = [random_changes.ChangingCluster(seed).input(arguments.changes)
                    for seed in seeds[start:start + BATCH]]
        found = ours(arguments.program, clusters)
        for cluster in clusters:
            comparison.add(cluster, found)
    print(f"{len(seeds)} clusters: {comparison.steps} states of {comparison.lines} lines compared,"
          f" {comparison.left_out} left to chance, {comparison.differing} clusters differ")
    return 1 if comparison.differing or not comparison.steps else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Whether nft makes of `ipvsctl rules -o save` what was there: random clusters (test/oracle/random_cluster.py),
each programmed into nf_tables of a network namespace of its own, saved, loaded into an empty one and compared
with `nft -j list`. Then the same once somebody has put things of his own into our tables. Runs in a guest of
qemu_run.sh.

usage: nftables_saves.py BUILD_FOLDER FIRST_SEED COUNT
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import random_cluster  # noqa: E402

TABLES = ("ip kube-ipvs", "ip6 kube-ipvs")
# Outside what our own rules say, or beside them.
STRANGERS = """
add chain {0} theirs {{ comment "a chain; of \\\\ odd $words # here" ; }}
add chain {0} also_theirs {{ type filter hook forward priority 7; policy drop; }}
add rule {0} theirs tcp dport 99 counter drop comment "theirs # {{ }}"
add rule {0} input tcp dport {{ 98, 99-100 }} log prefix "a \\\\ b" drop
insert rule {0} svc_mark limit rate 5/second return
add set {0} their_set {{ type ifname; elements = {{ "eth0", "odd name" }}; }}
add map {0} ranges_their_map {{ type mark : verdict; elements = {{ 7 : jump theirs }}; }}
"""


def run(*command, text=None):
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def inside(netns, *command, text=None):
    status, out, errors = run("ip", "netns", "exec", netns, *command, text=text)
    if status != 0:
        raise RuntimeError(f"{' '.join(command)} ends with {status}: {errors or out}\n{text or ''}")
    return out


def state_of(netns):
    """What nft lists, without handles, in an order of its own."""
    found = []
    for one in json.loads(inside(netns, "nft", "-j", "list", "ruleset"))["nftables"]:
        kind, content = next(iter(one.items()))
        content.pop("handle", None)
        if kind == "metainfo":
            continue
        if "elem" in content:
            content["elem"].sort(key=json.dumps)
        found.append((kind, content.get("family"), content.get("table", content.get("name")),
                      content.get("chain", content.get("name")), json.dumps(content, sort_keys=True)))
    rules = [one for one in found if one[0] == "rule"]  # in order within a chain
    rules.sort(key=lambda one: one[:4])
    return sorted(one for one in found if one[0] != "rule") + rules


class World:
    def __init__(self, build, seed, folder):
        self.build, self.folder, self.netns = build, folder, f"saves{seed}"
        cluster = random_cluster.RandomCluster(seed)
        run("ip", "netns", "delete", self.netns)
        run("ip", "netns", "add", self.netns)
        for link, addresses in cluster.links.items():
            if link != "lo":
                inside(self.netns, "ip", "link", "add", link, "type", "bridge")
            for address in addresses:
                run("ip", "netns", "exec", self.netns, "ip", "address", "add", address, "dev", link)
            inside(self.netns, "ip", "link", "set", link, "up")
        objects = [cluster.node, *cluster.services.values(), *cluster.slices.values()]
        manifests = folder / "manifests"
        manifests.mkdir()
        for number, one in enumerate(objects):
            (manifests / f"{number}.json").write_text(json.dumps(one))
        config = folder / "config.json"
        config.write_text(json.dumps(cluster.configuration))
        # What it cannot do is not of nf_tables: nodes without IPv4, say.
        self.log = run("ip", "netns", "exec", self.netns, f"{build}/cmd/ipvs_proxier/ipvs-proxier",
                       "--config", str(config), "--manifests", str(manifests), "--packet-filter=nftables",
                       "--once")

    def has(self, table):
        return run("ip", "netns", "exec", self.netns, "nft", "list", "table", *table.split())[0] == 0

    def save(self):
        return "".join(inside(self.netns, f"{self.build}/cmd/ipvsctl/ipvsctl", "rules", family, "-o", "save")
                       for family in ("-4", "-6"))

    def loaded(self, text):
        other = self.netns + "b"
        run("ip", "netns", "delete", other)
        run("ip", "netns", "add", other)
        try:
            # Twice: in the place of what is there.
            inside(other, "nft", "-f", "-", text=text)
            inside(other, "nft", "-f", "-", text=text)
            return state_of(other)
        finally:
            run("ip", "netns", "delete", other)

    def close(self):
        run("ip", "netns", "delete", self.netns)


def difference(wanted, found):
    lines = [f"- {one}" for one in wanted if one not in found]
    return lines + [f"+ {one}" for one in found if one not in wanted]


def check(build, seed):
    with tempfile.TemporaryDirectory() as folder:
        world = World(build, seed, pathlib.Path(folder))
        try:
            tables = [table for table in TABLES if world.has(table)]
            before = state_of(world.netns)
            problems = difference(before, world.loaded(world.save()))
            for table in tables:
                inside(world.netns, "nft", "-f", "-", text=STRANGERS.format(table))
            problems += difference(before, world.loaded(world.save())) if tables else []
            return len(before), problems, world.log
        finally:
            world.close()


def main():
    build, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    compared, failed = 0, 0
    for seed in range(first, first + count):
        size, problems, log = check(build, seed)
        compared += size
        if problems:
            failed += 1
            print(f"seed {seed}: what nft made of the save is different", *problems, log[2], sep="\n")
    print(f"{count} clusters, {compared} tables, chains, sets and rules")
    # count_cases.py counts them.
    print(f"test cases: {count} | {count - failed} passed | {failed} failed")
    sys.exit(failed != 0 or compared < 30 * count)


main()

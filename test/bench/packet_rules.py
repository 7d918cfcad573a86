"""Rules of a packet filter as lists of tests and set lookups in the order in which the kernel makes them.

Two readers, of `nft -j -a list table` and of `iptables-save -c`, and for both the same rules with
counters between their parts. What is unknown raises Unreadable: a lookup in it would not be counted.
"""

import dataclasses
import ipaddress
import json
import re
import shlex

# Statements of nf_tables that look nothing up.
PLAIN = {"accept", "drop", "return", "jump", "goto", "mangle", "masquerade", "reject", "dnat", "snat",
         "redirect", "log", "continue"}
# Targets of legacy iptables after which the packet goes on in the same chain.
GOES_ON = {None, "MARK"}
ENDS = {"ACCEPT", "DROP", "REJECT", "MASQUERADE", "DNAT", "SNAT"}


class Unreadable(Exception):
    pass


@dataclasses.dataclass
class Part:
    """A test, or a lookup in a set or map. `holds`: facts of a packet -> True, False or None (unknown)."""
    is_lookup: bool
    holds: object = lambda facts: None


@dataclasses.dataclass
class Rule:
    text: str
    parts: list
    handle: int = 0                # of nf_tables
    target: tuple = ("continue",)  # of legacy iptables, where the trace does not tell it
    counts: list = dataclasses.field(default_factory=list)  # what the counters between its parts say

    def lookups(self):
        return sum(part.is_lookup for part in self.parts)

    def lookups_without_match(self, facts):
        """Of a packet that the rule did not match: those before the first test that surely failed."""
        made = 0
        for part in self.parts:
            made += part.is_lookup
            if not part.is_lookup and part.holds(facts) is False:
                break
        return made


def in_prefix(name, network, negated=False):
    network = ipaddress.ip_network(network, strict=False)
    return lambda facts: (ipaddress.ip_address(facts[name]) in network) != negated


def is_value(name, values, negated=False):
    return lambda facts: None if facts.get(name) is None else (facts[name] in values) != negated


# --- nf_tables ------------------------------------------------------------------------------------
def mentions_a_set(value):
    if isinstance(value, dict):
        return "set" in value or any(mentions_a_set(part) for part in value.values())
    if isinstance(value, list):
        return any(mentions_a_set(part) for part in value)
    return isinstance(value, str) and value.startswith("@")


def nft_test(match):
    left, right, negated = match["left"], match["right"], match["op"] == "!="
    if left == {"meta": {"key": "l4proto"}} and isinstance(right, str):
        return Part(False, is_value("PROTO", {right.upper()}, negated))
    if left == {"ct": {"key": "state"}}:
        return Part(False, is_value("state", set([right] if isinstance(right, str) else right), negated))
    field = left.get("payload", {})
    if field.get("protocol") == "ip" and field.get("field") in ("saddr", "daddr"):
        prefix = right["prefix"] if isinstance(right, dict) and "prefix" in right else {"addr": right, "len": 32}
        return Part(False, in_prefix({"saddr": "SRC", "daddr": "DST"}[field["field"]],
                                     f"{prefix['addr']}/{prefix['len']}", negated))
    return Part(False)


def nft_part(statement):
    """None: it tests nothing."""
    kind, value = next(iter(statement.items()))
    if kind == "match":
        return Part(True) if mentions_a_set(value["right"]) else nft_test(value)
    if kind == "vmap":
        return Part(True)
    if kind not in PLAIN | {"counter"} or mentions_a_set(value):
        raise Unreadable(f"a statement of unknown kind: {statement}")
    return None


def nft_rules(text, table="kube-ipvs"):
    """{(table, chain): [Rule]}"""
    found = {}
    for item in json.loads(text)["nftables"]:
        if "chain" in item and item["chain"]["table"] == table:
            found.setdefault((table, item["chain"]["name"]), [])
        if "rule" in item and item["rule"]["table"] == table:
            rule = item["rule"]
            parts = [part for part in map(nft_part, rule["expr"]) if part]
            counts = [statement["counter"]["packets"] for statement in rule["expr"] if "counter" in statement]
            found[table, rule["chain"]].append(Rule(json.dumps(rule["expr"]), parts, rule["handle"], counts=counts))
    return found


def nft_with_counters(text):
    """For `nft -j -f`: the chains anew, each rule and each lookup in it after a counter."""
    listed = json.loads(text)["nftables"]
    commands = []
    for item in listed:
        if "chain" in item:
            chain = item["chain"]
            commands.append({"flush": {"chain": {key: chain[key] for key in ("family", "table", "name")}}})
    for item in listed:
        if "rule" not in item:
            continue
        rule = {key: item["rule"][key] for key in ("family", "table", "chain")}
        rule["expr"] = [{"counter": None}]
        for statement in item["rule"]["expr"]:
            if "counter" in statement:
                continue
            part = nft_part(statement)
            if part and part.is_lookup:
                # nft puts this test there by itself, which is to come before the counter.
                protocol = statement.get("match", {}).get("left", {}).get("payload", {}).get("protocol")
                if protocol in ("tcp", "udp", "sctp"):
                    rule["expr"].append({"match": {"op": "==", "left": {"meta": {"key": "l4proto"}},
                                                   "right": protocol}})
                rule["expr"].append({"counter": None})
            rule["expr"].append(statement)
        commands.append({"add": {"rule": rule}})
    return json.dumps({"nftables": commands})


# --- legacy iptables ------------------------------------------------------------------------------
def join(words):
    """As iptables-restore reads them: it knows double quotes alone."""
    return " ".join(f'"{word}"' if " " in word else word for word in words)


def legacy_parts(words):
    """[(Part, number of words before it)] and the target of a rule's words after `-A CHAIN`."""
    parts, at, target = [], 0, ("continue",)
    match = ""
    while at < len(words):
        negated = words[at] == "!"
        begin, at = at, at + negated
        word, value = words[at], words[at + 1] if at + 1 < len(words) else ""
        at += 2
        if word in ("-s", "-d"):
            parts.append((Part(False, in_prefix({"-s": "SRC", "-d": "DST"}[word], value, negated)), begin))
        elif word == "-p":
            parts.append((Part(False, is_value("PROTO", {value.upper()}, negated)), begin))
        elif word in ("-i", "-o"):
            parts.append((Part(False), begin))
        elif word == "-m":
            match = value
            if match == "set":
                parts.append((Part(True), begin))
            elif match not in ("comment", "tcp", "udp", "conntrack", "mark"):
                parts.append((Part(False), begin))
        elif word == "--ctstate":
            parts.append((Part(False, is_value("state", set(value.lower().split(",")), negated)), begin))
        elif word == "--dport" and match == "tcp":
            parts.append((Part(False, is_value("DPT", {value}, negated)), begin))
        elif word == "--mark":
            parts.append((Part(False, mark_test(value, negated)), begin))
        elif word in ("-j", "-g"):
            target = legacy_target(word, value)
            break
        elif word == "--match-set":
            at += 1  # and its directions
        elif word == "--vaddr" or word.startswith("--"):
            if value.startswith("--") or value in ("-m", "-j", "-g", "!"):
                at -= 1  # an option without a value
            if not parts and match != "comment":
                raise Unreadable(f"an option of unknown kind: {word}")
        else:
            raise Unreadable(f"words of unknown kind: {' '.join(words)}")
    return parts, target


def mark_test(value, negated):
    wanted, mask = (int(number, 0) for number in (value.split("/") + ["0xffffffff"])[:2])
    return lambda facts: (int(facts.get("MARK", "0"), 0) & mask == wanted) != negated


def legacy_target(word, name):
    if name == "RETURN":
        return ("return",)
    if name in ENDS:
        return ("accept",)
    if name in GOES_ON:
        return ("continue",)
    if not name.startswith("KUBE-"):
        raise Unreadable(f"a target of unknown kind: {name}")
    return ("goto" if word == "-g" else "jump", name)


def legacy_lines(text):
    """(table, chain, packets, words) of each rule; of a chain itself words are None."""
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            yield table, line[1:].split()[0], 0, None
        else:
            row = re.match(r"\[(\d+):\d+\] -A (\S+) ?(.*)", line)
            if row:
                yield table, row[2], int(row[1]), shlex.split(row[3])


def legacy_rules(text):
    """{(table, chain): [Rule]}"""
    found = {}
    for table, chain, packets, words in legacy_lines(text):
        rules = found.setdefault((table, chain), [])
        if words is not None:
            parts, target = legacy_parts(words)
            rules.append(Rule(join(words), [part for part, _ in parts], target=target, counts=[packets]))
    return found


def legacy_with_counters(text):
    """For `iptables-restore`: before each rule one that only counts, then one for each lookup, with the
    tests before it."""
    out = []
    for line in text.splitlines():
        row = re.match(r"(?:\[\d+:\d+\] )?(-A \S+) ?(.*)", line)
        if row:
            words = shlex.split(row[2])
            out.append(row[1])
            for part, before in legacy_parts(words)[0]:
                if part.is_lookup:
                    out.append(f"{row[1]} {join(words[:before])}")
            out.append(f"{row[1]} {row[2]}")
        elif not line.startswith("#"):
            out.append(line)
    return "\n".join(out) + "\n"


def counted(rules, with_counters, is_nft):
    """{(table, chain, number): [arrivals, then those at each lookup]} of `rules` in a listing with counters."""
    found = {}
    for (table, chain), of_chain in rules.items():
        if is_nft:
            listed = [rule.counts for rule in with_counters.get((table, chain), [])]
        else:
            flat = [rule.counts[0] for rule in with_counters.get((table, chain), [])]
            listed, at = [], 0
            for rule in of_chain:
                listed.append(flat[at:at + 1 + rule.lookups()])
                at += 2 + rule.lookups()
            if at != len(flat):
                raise Unreadable(f"{table} {chain}: {len(flat)} rules with counters, not {at}")
        if len(listed) != len(of_chain):
            raise Unreadable(f"{table} {chain}: {len(listed)} rules with counters, not {len(of_chain)}")
        for number, (rule, counts) in enumerate(zip(of_chain, listed)):
            if len(counts) != 1 + rule.lookups():
                raise Unreadable(f"{table} {chain} rule {number + 1}: {len(counts)} counters")
            found[table, chain, number] = counts
    return found

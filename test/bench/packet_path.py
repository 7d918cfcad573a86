#!/usr/bin/env python3
"""How many rules and set lookups a packet to a Service meets, from what traffic_bench recorded.

usage: packet_path.py FILE...             tables of recordings, one a file
       packet_path.py --put-counters      rules from standard input, with counters between their parts

The first count follows the kernel's trace of each packet: a rule that the trace skips was tried, and its
lookups happened as far as its tests let the packet come. The second count is by counters in the rules,
which other packets of the same kind meet later. Both must agree on every rule, or the status is 1. Then
faults are put into the first count (a rule too many, a lookup left out, any event of the trace lost, an
established packet taken for a new one), and each that changes a figure must be noticed. With nf_tables the
figures must keep within the limits.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys

import packet_rules

NEW, REQUEST, REPLY = KINDS = ("new", "established", "reply")
# Rules and lookups at most with nf_tables, without and with source ranges in the cluster.
LIMITS = {NEW: ((10, 3), (10, 3)), REQUEST: ((1, 0), (2, 1)), REPLY: ((1, 0), (2, 1))}

Event = collections.namedtuple("Event", "table chain kind rule verdict facts")
Figure = collections.namedtuple("Figure", "path kind rules lookups")

BEGINS = {("raw", "PREROUTING"), ("traffic_trace", "begin")}  # where the tracing of a packet begins
NOT_RULES = {"raw", "traffic_trace", "traffic_count"}


class Wrong(Exception):
    """What was recorded does not fit together."""


class Disturbed(Wrong):
    """A slow guest sent a first packet twice: to be recorded again."""


def parse_event(line):
    row = re.match(r"TRACE: ([^:]+):([^:]+):(rule|return|policy):(\d+)"
                   r"(?::(continue|return|accept|drop|(?:jump|goto) \S+)?)?(?: (.*))?$", line)
    if not row:
        raise Wrong(f"not an event: {line}")
    facts = {}
    for word in (row[6] or "").split():
        name, has_value, value = word.partition("=")
        facts.setdefault(name, value if has_value else True)  # ACK=0 is a number, ACK a flag
        if not has_value:
            facts[f"flag {name}"] = True
    return Event(row[1], row[2], row[3], int(row[4]), tuple((row[5] or "").split()), facts)


@dataclasses.dataclass
class Recording:
    is_nft: bool
    rules: dict
    to: dict        # {path: "ADDRESS:PORT"}
    traces: dict    # {(path, "new" or "established"): [Event]}
    packets: dict   # {(path, "new" or "established"): {kind: packets}}, while there was a trace
    counters: dict  # {(path, "new" or "established"): ({kind: packets}, {(table, chain, number): [counts]})}

    def has_ranges(self):
        return any("with-ranges" in path for path in self.to)


def packets_of(text):
    """By conntrack's word."""
    rules = packet_rules.nft_rules(text, "traffic_count")["traffic_count", "begin"]
    return dict(zip(KINDS, [rule.counts[0] for rule in rules if rule.counts]))


def difference(before, after):
    return {kind: after[kind] - before[kind] for kind in KINDS}


def read_recording(text):
    parts = re.split(r"^=== (.*)\n", text, flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2]))
    is_nft = sections["rules"].startswith("{")
    reader = packet_rules.nft_rules if is_nft else packet_rules.legacy_rules
    found = Recording(is_nft, reader(sections["rules"]), {}, {}, {}, {})
    for name, content in sections.items():
        what, *words = name.split()
        if what == "path":
            found.to[words[0]] = content.strip()
        elif what == "trace":
            events = [parse_event(line) for line in content.splitlines() if line]
            found.traces[tuple(words)] = [event for event in events if event.table not in NOT_RULES or
                                          (event.table, event.chain) in BEGINS and "SRC" in event.facts]
        elif what == "packets":
            found.packets[tuple(words)] = difference(*map(packets_of, content.split("\n")[:2]))
        elif what == "after":
            pair = [sections[f"{when} {' '.join(words)}"].split("\n", 1) for when in ("before", "after")]
            early, late = (packet_rules.counted(found.rules, reader(listing), is_nft) for _, listing in pair)
            found.counters[tuple(words)] = (
                difference(*(packets_of(packets) for packets, _ in pair)),
                {rule: [new - old for new, old in zip(late[rule], early[rule])] for rule in late})
    return found


# --- the first count: following the trace ---------------------------------------------------------
class Walk:
    """One packet through the rules, as its events tell."""

    def __init__(self, rules, is_nft, begin):
        self.rules, self.is_nft = rules, is_nft
        self.facts = dict(begin.facts)
        self.state = {"state": "new" if is_first(begin) else "established"}
        self.stack = []    # of [chain, number of its next rule]
        self.base = None   # the chain that the kernel called, until the packet has left it
        self.met = collections.Counter()      # {(table, chain, number): times}
        self.lookups = collections.Counter()  # the same

    def take(self, event):
        if event.facts.get("SEQ", self.facts["SEQ"]) != self.facts["SEQ"]:
            raise Wrong("events of two packets in one")
        if "SRC" in event.facts:  # nf_tables tells the packet once in each hook
            self.facts = dict(event.facts)
        self.facts.update(self.state, MARK=event.facts.get("MARK", "0"))
        here = (event.table, event.chain)
        if here not in self.rules:
            raise Wrong(f"an event of {here}, which is not listed")
        if self.base is None:
            self.base = here
            self.stack = [[here, 0]]
        if not self.stack:  # nf_tables: only the policy is left
            if here != self.base or event.kind != "policy":
                raise Wrong(f"an event of {here} where the policy of {self.base} is due")
            self.base = None
            return
        chain, next_rule = self.stack[-1]
        if chain != here or (self.is_nft and event.kind == "policy"):
            raise Wrong(f"an event of {here} while the packet is in {chain}")
        rules = self.rules[here]
        number = self.number_of(event, rules)
        if number < next_rule:
            raise Wrong(f"{here} goes back to rule {number + 1}")
        for passed in range(next_rule, number):
            if not rules[passed].parts:
                raise Wrong(f"{here} rule {passed + 1} has no tests, and did not match")
            self.meet((*here, passed), rules[passed].lookups_without_match(self.facts))
        if number == len(rules):
            self.leave()
            return
        self.meet((*here, number), rules[number].lookups())
        self.stack[-1][1] = number + 1
        self.follow(event.table, event.verdict if self.is_nft else rules[number].target)

    def meet(self, rule, lookups):
        self.met[rule] += 1
        self.lookups[rule] += lookups

    def number_of(self, event, rules):
        if not self.is_nft:
            return min(event.rule - 1, len(rules))
        if event.kind == "return" and event.verdict == ("continue",):
            return len(rules)
        for number, rule in enumerate(rules):
            if rule.handle == event.rule:
                return number
        raise Wrong(f"no rule {event.rule} in {event.chain}")

    def follow(self, table, verdict):
        if verdict[0] in ("jump", "goto"):
            if verdict[0] == "goto":
                self.stack.pop()
            self.stack.append([(table, verdict[1]), 0])
        elif verdict[0] == "return":
            self.leave()
        elif verdict[0] != "continue":
            self.stack = []
            self.base = None

    def leave(self):
        self.stack.pop()
        if not self.stack and not self.is_nft:
            self.base = None


def walk_packets(recording, key):
    """The walks of a trace, each with its kind."""
    walks, walk = [], None
    for event in recording.traces[key]:
        if (event.table, event.chain) in BEGINS:
            walk = Walk(recording.rules, recording.is_nft, event)
            walks.append((kind_of(event, recording.to[key[0]]), walk))
        elif walk is None:
            raise Wrong("an event before the beginning of a packet")
        else:
            walk.take(event)
    for _, walk in walks:
        if walk.base is not None:
            raise Wrong(f"the trace of a packet ends in {walk.base}")
    return walks


def is_first(begin):
    return "flag SYN" in begin.facts and "flag ACK" not in begin.facts


def kind_of(begin, to):
    if is_first(begin):
        return NEW
    return REQUEST if f"{begin.facts['DST']}:{begin.facts['DPT']}" == to else REPLY


def first_count(recording):
    """{path: {kind: Walk}}: all packets of a kind take the same way."""
    found = {}
    for key in recording.traces:
        path, kind = key
        walks = walk_packets(recording, key)
        told = collections.Counter(of for of, _ in walks)
        if kind == NEW and recording.packets[key][NEW] != 1:
            raise Disturbed(f"{path}: {recording.packets[key][NEW]} first packets")
        if dict(told) != {of: number for of, number in recording.packets[key].items() if number}:
            raise Wrong(f"{path} {kind}: the trace has packets {dict(told)}, conntrack {recording.packets[key]}")
        if set(told) != ({NEW} if kind == NEW else {REQUEST, REPLY}):
            raise Wrong(f"{path} {kind}: packets of kinds {sorted(told)}")
        for of, walk in walks:
            same = found.setdefault(path, {}).setdefault(of, walk)
            if (same.met, same.lookups) != (walk.met, walk.lookups):
                raise Wrong(f"{path}: two ways of {of} packets")
    return found


# --- the second count, and whether they agree -----------------------------------------------------
def compare(recording, walks):
    """By each rule: what its counters had to count of as many packets as conntrack saw."""
    if set(recording.counters) != set(recording.traces):
        raise Wrong("not all that was traced was counted")
    for (path, kind), (packets, counters) in recording.counters.items():
        if kind == NEW and packets[NEW] != 1:
            raise Disturbed(f"{path}: {packets[NEW]} first packets were counted")
        if any(packets[of] == 0 for of in ([NEW] if kind == NEW else [REQUEST, REPLY])):
            raise Wrong(f"{path} {kind}: no such packets were counted: {packets}")
        for rule, (arrivals, *lookups) in counters.items():
            met = sum(packets[of] * walk.met[rule] for of, walk in walks[path].items())
            made = sum(packets[of] * walk.lookups[rule] for of, walk in walks[path].items())
            if (met, made) != (arrivals, sum(lookups)):
                table, chain, number = rule
                raise Wrong(f"{path} {kind}, {table} {chain} rule {number + 1}: by the trace {met} packets and {made} "
                            f"lookups, by counters {arrivals} and {sum(lookups)}: {recording.rules[table, chain][number].text}")


def judged(recording):
    walks = first_count(recording)
    compare(recording, walks)
    return [Figure(path, kind, walk.met.total(), walk.lookups.total())
            for path, of_path in walks.items() for kind, walk in sorted(of_path.items(), key=lambda item: KINDS.index(item[0]))]


# --- whether faults of the first count are noticed ------------------------------------------------
def unnoticed_faults(recording):
    """Puts each fault into the first count in turn; the names of those that nothing noticed."""
    missed = []
    figures = judged(recording)

    def expect(name, fault):
        try:
            # Without the event of a rule after which the packet goes on the figures are the same.
            if fault() == figures:
                return
        except Wrong:
            return
        missed.append(name)

    for key, events in recording.traces.items():
        for at, event in enumerate(events):
            lossy = dataclasses.replace(recording, traces={**recording.traces, key: events[:at] + events[at + 1:]})
            expect(f"{' '.join(key)}: event {at + 1} lost, of {event.table} {event.chain}", lambda: judged(lossy))
    walks = first_count(recording)
    for path, of_path in walks.items():
        for kind, walk in of_path.items():
            for rule in walk.met:
                for what, counter in (("a rule more", walk.met), ("a rule less", walk.met),
                                      ("a lookup more", walk.lookups), ("a lookup less", walk.lookups)):
                    change = 1 if what.endswith("more") else -1
                    counter[rule] += change
                    expect(f"{path} {kind}: {what}, {rule}", lambda: compare(recording, walks))
                    counter[rule] -= change
        for one, other in ((NEW, REQUEST), (REQUEST, NEW), (NEW, REPLY)):
            swapped = {**walks, path: {**of_path, one: of_path[other], other: of_path[one]}}
            expect(f"{path}: {other} counted as {one}", lambda: compare(recording, swapped))
    return missed


# --- the report -----------------------------------------------------------------------------------
def limits_of(recording, figure):
    """(rules, lookups) or None: only nf_tables has limits."""
    return LIMITS[figure.kind][recording.has_ranges()] if recording.is_nft else None


def report(name, text):
    """Prints a table; False if anything is wrong."""
    recording = read_recording(text)
    figures = judged(recording)
    good = True
    for figure in figures:
        limits = limits_of(recording, figure)
        held = limits is None or (figure.rules <= limits[0] and figure.lookups <= limits[1])
        note = "" if limits is None else f"at most {limits[0]} and {limits[1]}: {'yes' if held else 'NO'}"
        print(f"{name:<24} {figure.path:<26} {figure.kind:<12} {figure.rules:>3} rules {figure.lookups:>3} lookups  {note}".rstrip())
        good = good and held
    missed = unnoticed_faults(recording)
    for fault in missed:
        print(f"{name}: unnoticed fault: {fault}")
    return good and not missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--put-counters", action="store_true")
    arguments = parser.parse_args()
    if arguments.put_counters:
        text = sys.stdin.read()
        change = packet_rules.nft_with_counters if text.startswith("{") else packet_rules.legacy_with_counters
        print(change(text))
        return 0
    good = True
    for file in arguments.files:
        try:
            good = report(file.stem, file.read_text()) and good
        except (Wrong, packet_rules.Unreadable) as wrong:
            print(f"{file.stem}: {wrong}")
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks who includes what: the rooms of the house and the libraries that each may know.

usage: check_layering.py ROOT         checks the sources below ROOT
       check_layering.py --self-test  checks that violations of each rule are found

The rules: netlink <- ipset <- proxier <- cmd; inside proxier, api <- model <- plan, sync on plan, watch
on api; plan and model see only the values and codecs of netlink and ipset, never a kernel table; only
cmd names a concrete table; nothing includes test. C and third-party headers stay in the rooms named
below, and out of our own headers where they would leak through them. JSON is written in one place, as
nlohmann-json's own way throws on text that is no UTF-8.
"""

import pathlib
import re
import sys
import tempfile

# Of a JSON value; a netlink channel's dump is another thing.
DUMP = re.compile(r"\bdump\(")
DUMP_ROOM = re.compile(r"(proxier|cmd)/")
DUMP_HERE = "proxier/api/json_text.cc"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

# A room may include itself and these.
ROOM_USES = {
    "netlink": set(),
    "ipset": {"netlink"},
    "proxier/api": {"netlink"},
    "proxier/loop": set(),
    "proxier/model": {"proxier/api", "netlink"},
    "proxier/watch": {"proxier/api", "proxier/loop", "netlink"},
    "proxier/plan": {"proxier/model", "proxier/api", "netlink", "ipset"},
    "proxier/sync": {"proxier/plan", "proxier/model", "proxier/api", "proxier/loop", "netlink",
                     "ipset"},
    "proxier/serve": {"proxier/loop", "proxier/api", "netlink"},
    "proxier/inspect": {"proxier/plan", "proxier/model", "proxier/api", "netlink", "ipset"},
    "cmd": {"netlink", "ipset", "proxier/api", "proxier/loop", "proxier/model", "proxier/watch",
            "proxier/plan", "proxier/sync", "proxier/serve", "proxier/inspect"},
}

# Exceptions to the rooms: sync and watch publish through these two headers of serve.
PUBLISH = {"proxier/serve/status.h", "proxier/serve/metrics.h"}
EXTRA_HEADERS = {"proxier/sync": PUBLISH, "proxier/watch": PUBLISH}

# ipset uses netlink for addresses, results and descriptors, and for the channel its listings need.
IPSET_NETLINK = re.compile(r"netlink/(ip_address|result|unique_fd|nl_channel|nl_codec|nl_handles)\.h$")

# serve speaks of addresses and results; the kernel is not its business.
SERVE_NETLINK = re.compile(r"netlink/(ip_address|result|unique_fd)\.h$")

# Values and codecs, which pure code may use; a table's header declares how the kernel is written.
PURE_ROOMS = ("proxier/api", "proxier/model", "proxier/plan")
PURE_HEADER = re.compile(r"(netlink/(ip_address|result|ipvs_types|link_types|conntrack_types)|ipset/(set_types|rule_types|"
                         r"rule_catalog|set_catalog|catalog|element_set|sorted_chunks))\.h$")

# Abstract tables; any other header of these names is an implementation that only cmd may name.
CONCRETE = re.compile(r"^(netlink/\w+_kernel|ipset/(set_libipset|rule_iptc|nft_tables|\w+_kernel)|"
                      r"proxier/watch/curl_transport)\.h$")

# Library header -> files that may include it.
LIBRARIES = [
    (r"netlink/|linux/(ip_vs|genetlink|netlink|rtnetlink|if_link|if_addr)\.h",
     r"netlink/\w+\.cc|netlink/nl_\w+\.h|ipset/\w+\.cc"),
    (r"linux/netfilter/nfnetlink(_conntrack)?\.h", r"(netlink|ipset)/\w+\.cc"),
    (r"libipset/|libiptc/|linux/netfilter(?!/nfnetlink(_conntrack)?\.h)", r"ipset/\w+\.cc"),
    (r"nftables/", r"ipset/nft_tables\.cc"),
    (r"curl/", r"proxier/watch/http_transfer\.(h|cc)|proxier/loop/main_loop\.cc|cmd/control_client\.cc"),
    (r"nlohmann/json_fwd\.hpp", r"(proxier/(api|watch|serve|inspect)|cmd)/\w+\.(cc|h)"),
    (r"nlohmann/", r"proxier/(api|watch)/\w+\.(cc|h)|proxier/(serve|inspect)/\w+\.cc|cmd/\w+\.cc"),
    (r"simdjson\.h", r"proxier/api/json_value\.cc"),
    (r"prometheus/", r"proxier/serve/metrics\.cc"),
    (r"yaml-cpp/", r"proxier/api/yaml(_writer)?\.cc"),
    (r"CLI/", r"cmd/\w+\.cc"),
    (r"spdlog/", r"(proxier/(watch|sync|serve|loop)|cmd)/\w+\.(cc|h)"),
    (r"openssl/", r"proxier/watch/pem\.cc"),
    (r"curses\.h|term\.h", r"cmd/terminal\.cc"),
    (r"microhttpd\.h", r"proxier/serve/\w+\.cc"),
]

# plan performs no input or output, reads no clock, starts no thread and draws no number.
PLAN_FORBIDDEN = re.compile(
    r"^(chrono|ctime|time\.h|random|fstream|iostream|cstdio|stdio\.h|filesystem|thread|mutex|future|"
    r"condition_variable|unistd\.h|fcntl\.h|sys/.*|net/.*|arpa/.*)$")


def room_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "proxier" else parts[0]


def project_violations(path, target):
    """What is wrong with including our own file `target`."""
    room, other = room_of(path), room_of(target)
    if "/" not in target or other not in {*ROOM_USES, "test"}:
        yield "names no room: write the path from the root"
        return
    if other == "test":
        yield "nothing includes test"
        return
    if other != room and other not in ROOM_USES[room]:
        if target not in EXTRA_HEADERS.get(room, ()):
            yield f"{room} must not know {other}"
    if room == "ipset" and other == "netlink" and not IPSET_NETLINK.search(target):
        yield "ipset uses netlink for addresses, results and descriptors only"
    if room == "proxier/serve" and other == "netlink" and not SERVE_NETLINK.search(target):
        yield "serve uses netlink for addresses, results and descriptors only"
    if room in PURE_ROOMS and other in ("netlink", "ipset") and not PURE_HEADER.search(target):
        yield f"{room} may use only the values of {other}"
    if CONCRETE.search(target) and room != "cmd" and room != other:
        yield "only cmd names a concrete table or transport"


def system_violations(path, target):
    """What is wrong with including the library header `target`."""
    for header, allowed in LIBRARIES:
        if re.match(header, target):
            if not re.fullmatch(allowed, path):
                yield f"<{target}> does not belong here"
            return
    if room_of(path) == "proxier/plan" and PLAN_FORBIDDEN.match(target):
        yield f"plan is pure: no <{target}>"


def violations(root):
    """One line for each forbidden include below `root`."""
    found = []
    for top in ("netlink", "ipset", "proxier", "cmd"):
        for source in sorted((root / top).rglob("*")):
            if source.suffix not in (".h", ".cc"):
                continue
            path = source.relative_to(root).as_posix()
            if room_of(path) not in ROOM_USES:
                found.append(f"{path}: there is no room {room_of(path)}")
                continue
            text = source.read_text(encoding="utf-8")
            if DUMP_ROOM.match(path) and path != DUMP_HERE and DUMP.search(text):
                found.append(f"{path}: JSON is written by to_json_text() ({DUMP_HERE})")
            for bracket, target in INCLUDE.findall(text):
                check = system_violations if bracket == "<" else project_violations
                found += [f"{path}: includes {target}: {what}" for what in check(path, target)]
    return found


# (file, what it includes, what must be said of it, "" for nothing)
SELF_TEST = [
    ("netlink/a.cc", '"ipset/set_types.h"', "netlink must not know ipset"),
    ("netlink/a.cc", "<linux/ip_vs.h>", ""),
    ("netlink/a.h", "<linux/ip_vs.h>", "does not belong here"),
    ("netlink/a.cc", "<linux/netfilter/nfnetlink_conntrack.h>", ""),
    ("netlink/a.h", "<linux/netfilter/nfnetlink.h>", "does not belong here"),
    ("netlink/a.cc", "<linux/netfilter/x_tables.h>", "does not belong here"),
    ("netlink/nl_handles.h", "<netlink/socket.h>", ""),
    ("netlink/a.cc", "<nlohmann/json.hpp>", "does not belong here"),
    ("netlink/a.cc", "<spdlog/spdlog.h>", "does not belong here"),
    ("ipset/a.cc", '"netlink/result.h"', ""),
    ("ipset/a.cc", '"netlink/ipvs_table.h"', "addresses, results and descriptors only"),
    ("ipset/a.h", "<libipset/session.h>", "does not belong here"),
    ("ipset/a.cc", "<libipset/session.h>", ""),
    ("ipset/nft_tables.cc", "<nftables/libnftables.h>", ""),
    ("ipset/a.cc", "<nftables/libnftables.h>", "does not belong here"),
    ("proxier/sync/a.cc", '"ipset/nft_tables.h"', "only cmd names a concrete table"),
    ("ipset/a.cc", '"proxier/api/names.h"', "ipset must not know proxier/api"),
    ("proxier/api/a.cc", '"netlink/ip_address.h"', ""),
    ("proxier/api/a.cc", '"netlink/ipvs_table.h"', "only the values of netlink"),
    ("proxier/api/yaml.cc", "<yaml-cpp/yaml.h>", ""),
    ("proxier/watch/a.cc", "<yaml-cpp/yaml.h>", "does not belong here"),
    ("proxier/api/json_value.cc", "<simdjson.h>", ""),
    ("proxier/api/json_value.h", "<simdjson.h>", "does not belong here"),
    ("proxier/watch/a.cc", '"netlink/ipvs_types.h"', ""),
    ("proxier/watch/pem.cc", "<openssl/pem.h>", ""),
    ("proxier/watch/a.cc", "<openssl/pem.h>", "does not belong here"),
    ("proxier/watch/a.cc", '"proxier/model/a.h"', "watch must not know proxier/model"),
    ("proxier/model/a.cc", '"proxier/plan/a.h"', "model must not know proxier/plan"),
    ("proxier/plan/a.cc", '"ipset/set_table.h"', "only the values of ipset"),
    ("proxier/plan/a.cc", "<chrono>", "plan is pure"),
    ("proxier/plan/a.cc", "<nlohmann/json.hpp>", "does not belong here"),
    ("proxier/sync/a.cc", '"netlink/ipvs_table.h"', ""),
    ("proxier/sync/a.cc", '"netlink/ipvs_kernel.h"', "only cmd names a concrete table"),
    ("proxier/sync/a.cc", '"proxier/serve/status.h"', ""),
    ("proxier/sync/a.cc", '"proxier/serve/healthz.h"', "sync must not know proxier/serve"),
    ("proxier/watch/a.cc", '"proxier/serve/status.h"', ""),
    ("proxier/watch/a.cc", '"proxier/serve/http_server.h"', "watch must not know proxier/serve"),
    ("proxier/serve/a.cc", '"proxier/sync/a.h"', "serve must not know proxier/sync"),
    ("proxier/serve/a.h", '"netlink/result.h"', ""),
    ("proxier/serve/a.cc", '"netlink/link_table.h"', "addresses, results and descriptors only"),
    ("proxier/serve/a.cc", "<microhttpd.h>", ""),
    ("proxier/serve/a.h", "<microhttpd.h>", "does not belong here"),
    ("proxier/serve/a.cc", "<prometheus/gauge.h>", "does not belong here"),
    ("proxier/serve/metrics.cc", "<prometheus/gauge.h>", ""),
    ("proxier/inspect/a.cc", '"proxier/sync/a.h"', "inspect must not know proxier/sync"),
    ("proxier/junk/a.cc", "<vector>", "there is no room proxier/junk"),
    ("cmd/a.cc", '"netlink/ipvs_kernel.h"', ""),
    ("cmd/a.cc", "<CLI/CLI.hpp>", ""),
    ("cmd/a.cc", '"test/fakes/a.h"', "nothing includes test"),
    ("cmd/a.cc", '"options.h"', "names no room"),
    ("cmd/a.cc", '"cmd/b.h"\nauto text = json.dump();', "JSON is written by to_json_text()"),
    ("netlink/a.cc", '"netlink/b.h"\nchannel.dump();', ""),
    ("proxier/api/json_text.cc", '"proxier/api/json_text.h"\nvalue.dump();', ""),
]


def self_test():
    wrong = 0
    for path, include, expected in SELF_TEST:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / path
            file.parent.mkdir(parents=True)
            file.write_text(f"#include <string>\n#include {include}\n", encoding="utf-8")
            found = violations(pathlib.Path(folder))
        as_expected = len(found) == 1 and expected in found[0] if expected else not found
        if not as_expected:
            wrong += 1
            print(f"{path} with {include}: expected {expected or 'nothing'!r}, found {found}")
    print(f"test cases: {len(SELF_TEST)} | {len(SELF_TEST) - wrong} passed | {wrong} failed")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    found = violations(pathlib.Path(arguments[0]))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

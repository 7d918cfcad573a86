#!/usr/bin/env python3
"""Checks who includes what: the rooms of the house and the libraries that each may know.

usage: check_layering.py ROOT         checks the sources below ROOT
       check_layering.py --self-test  checks that violations of each rule are found

The rules: netlink <- ipset <- proxier <- cmd; inside proxier, api <- model <- plan, sync on plan; api <-
access <- watch; manifests and config on api; plan and model see only the values and codecs of netlink and
ipset, never a kernel table; ipset/judge does not know ipset/nft, which asks it; only cmd names a concrete table; the two programs below cmd do not know each
other, and what ipvsctl shows is made from values, without its commands; nothing includes test. What stands
in netlink/ itself knows none of its folders. C and third-party headers stay in the rooms named below, and
out of our own headers where they would leak through them. JSON and YAML are written in one place, and
nlohmann-json's trees stay with the reader of YAML.
"""

import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

# A room may include itself and these.
ROOM_USES = {
    "netlink": set(),
    "ipset": {"netlink"},
    "proxier/api": {"netlink"},
    "proxier/loop": set(),
    "proxier/model": {"proxier/api", "netlink"},
    "proxier/access": {"proxier/api", "proxier/loop", "netlink"},
    "proxier/manifests": {"proxier/model", "proxier/api", "netlink"},
    "proxier/watch": {"proxier/access", "proxier/model", "proxier/api", "proxier/loop", "netlink"},
    "proxier/config": {"proxier/api", "netlink"},
    "proxier/plan": {"proxier/model", "proxier/api", "netlink", "ipset"},
    "proxier/sync": {"proxier/plan", "proxier/model", "proxier/api", "proxier/loop", "netlink",
                     "ipset"},
    "proxier/serve": {"proxier/loop", "proxier/api", "netlink"},
    "proxier/check": {"proxier/plan", "proxier/access", "proxier/api", "proxier/loop", "netlink", "ipset"},
    "proxier/inspect": {"proxier/plan", "proxier/model", "proxier/api", "netlink"},
}
# Both programs may use all of these, and cmd, which may not use them.
ROOM_USES["cmd"] = set(ROOM_USES)
PROGRAMS = ("cmd/ipvs_proxier", "cmd/ipvsctl")
for program in PROGRAMS:
    ROOM_USES[program] = ROOM_USES["cmd"] | {"cmd"}

# What ipvsctl shows, beside the commands that fetch what is shown.
CTL_VIEW = re.compile(r"cmd/ipvsctl/(names|listing|explain|rules|service|top)/"
                      r"(?!\w*_(commands?|options)\.|(node_reading|daemon_names|terminal)\.)")
# The rooms of ipvsctl, and which others each may include.
CTL_ROOM = re.compile(r"cmd/ipvsctl/(\w+)/")
CTL_ROOM_USES = {"names": set(), "listing": {"names"}, "explain": {"names", "listing"},
                 "rules": {"explain", "listing", "diff"}, "service": {"names", "listing"}, "top": {"names"},
                 "diff": set()}
CTL_VIEW_USES = {"proxier/inspect", "proxier/plan", "proxier/model", "proxier/api", "netlink", "ipset"}

# Exceptions to the rooms: sync and watch publish through three headers of serve; addresses to listen on are
# part of the configuration.
PUBLISH = {"proxier/serve/status.h", "proxier/serve/metrics.h", "proxier/serve/service_figures.h"}
EXTRA_HEADERS = {"proxier/sync": PUBLISH, "proxier/watch": PUBLISH,
                 "proxier/config": {"proxier/serve/listen_socket.h"}}

# ipset uses netlink for addresses, results and descriptors, for the channel its listings need, for the key of
# the virtual service that a judged packet belongs to, and for nf_tables: its codec, and notifications, which
# tell whether a listing holds.
IPSET_NETLINK = re.compile(r"netlink/(ip_address|result|unique_fd|nl_answers|nl_channel|nl_codec|"
                           r"containers/\w+|ipvs/ipvs_types|nftables/nftables_(types|codec|events|foreign|monitor|transaction))\.h$")

# serve speaks of addresses and results; the kernel is not its business.
SERVE_NETLINK = re.compile(r"netlink/(ip_address|result|unique_fd)\.h$")

# Values and codecs, which pure code may use; a table's header declares how the kernel is written.
PURE_ROOMS = ("proxier/api", "proxier/model", "proxier/plan")
PURE_HEADER = re.compile(r"(netlink/(ip_address|result|text|containers/\w+|(ipvs|links|conntrack|nftables)/\w+_types)|"
                         r"ipset/(filter/(traffic|rendered|rendering)|nft/untracked_types|rules/(removal_catalog|localhost_rules|rule_types|rule_catalog|packet_filter)|sets/(set_types|set_catalog|element_set)))\.h$")

# Abstract tables; any other header of these names is an implementation that only cmd may name.
CONCRETE = re.compile(r"^(netlink/\w+/\w+_kernel|ipset/(sets/set_libipset|rules/rule_iptc|nftables/nft_(rule|set)_table|"
                      r"\w+/\w+_kernel)|proxier/access/curl_transport)\.h$")

# Library header -> files that may include it.
LIBRARIES = [
    (r"netlink/|linux/(ip_vs|genetlink|netlink|rtnetlink|if_link|if_addr)\.h",
     r"netlink/(\w+/)?\w+\.cc|netlink/nl_\w+\.h|ipset/\w+/\w+\.cc"),
    (r"linux/netfilter/(nfnetlink(_conntrack)?|nf_tables(_compat)?)\.h", r"(netlink|ipset)/\w+/\w+\.cc"),
    (r"libipset/|libiptc/|linux/netfilter(?!/(nfnetlink(_conntrack)?|nf_tables(_compat)?)\.h)", r"ipset/\w+/\w+\.cc"),
    (r"curl/", r"proxier/access/http_transfer\.(h|cc)|proxier/loop/main_loop\.cc|"
               r"cmd/ipvsctl/control_client\.cc"),
    (r"nlohmann/", r"proxier/api/(document_writer\.cc|(yaml|yaml_scalar|json_builder)\.h)"),
    (r"simdjson\.h", r"proxier/api/json_value\.cc"),
    (r"prometheus/", r"proxier/serve/metrics\.cc"),
    (r"yaml-cpp/", r"proxier/api/(yaml|document_writer)\.cc"),
    (r"CLI/", r"cmd/(\w+/)*\w+\.cc"),
    (r"spdlog/", r"(proxier/(access|watch|sync|serve|loop)|cmd(/\w+)*)/\w+\.(cc|h)"),
    (r"openssl/", r"proxier/access/pem\.cc"),
    (r"curses\.h|term\.h", r"cmd/ipvsctl/top/terminal\.cc"),
    (r"zlib\.h", r"proxier/check/kernel_config\.cc"),
    (r"microhttpd\.h", r"proxier/serve/\w+\.cc"),
]

# plan performs no input or output, reads no clock, starts no thread and draws no number.
PLAN_FORBIDDEN = re.compile(
    r"^(chrono|ctime|time\.h|random|fstream|iostream|cstdio|stdio\.h|filesystem|thread|mutex|future|"
    r"condition_variable|unistd\.h|fcntl\.h|sys/.*|net/.*|arpa/.*)$")


def room_of(path):
    parts = path.split("/")
    first = "/".join(parts[:2])
    return first if parts[0] == "proxier" or first in PROGRAMS else parts[0]


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
    if path.startswith("ipset/judge/") and target.startswith("ipset/nft/"):
        yield "the engine does not know who judges packets"
    if room in PURE_ROOMS and other in ("netlink", "ipset") and not PURE_HEADER.search(target):
        yield f"{room} may use only the values of {other}"
    source, used = CTL_ROOM.match(path), CTL_ROOM.match(target)
    if source and used and used[1] not in CTL_ROOM_USES[source[1]] | {source[1]}:
        yield f"{source[1]} must not know {used[1]}"
    if CTL_VIEW.match(path):
        if other == "cmd/ipvsctl" and not CTL_VIEW.match(target):
            yield "what is shown does not know the commands"
        elif other not in CTL_VIEW_USES | {"cmd/ipvsctl"}:
            yield f"what is shown must not know {other}"
    if room == other == "netlink" and path.count("/") == 1 and target.count("/") > 1:
        yield "netlink/ itself does not know its folders"
    if CONCRETE.search(target) and not room.startswith("cmd") and room != other:
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
            for bracket, target in INCLUDE.findall(text):
                check = system_violations if bracket == "<" else project_violations
                found += [f"{path}: includes {target}: {what}" for what in check(path, target)]
    return found


# (file, what it includes, what must be said of it, "" for nothing)
SELF_TEST = [
    ("netlink/a.cc", '"ipset/sets/set_types.h"', "netlink must not know ipset"),
    ("netlink/ipvs/a.cc", "<linux/ip_vs.h>", ""),
    ("netlink/nl_channel.cc", '"netlink/ipvs/a.h"', "does not know its folders"),
    ("netlink/ipvs/a.cc", '"netlink/links/a.h"', ""),
    ("netlink/a.h", "<linux/ip_vs.h>", "does not belong here"),
    ("netlink/conntrack/a.cc", "<linux/netfilter/nfnetlink_conntrack.h>", ""),
    ("netlink/nftables/a.cc", "<linux/netfilter/nf_tables.h>", ""),
    ("netlink/a.cc", "<linux/netfilter/nf_tables.h>", "does not belong here"),
    ("ipset/judge/a.cc", '"netlink/ipvs/ipvs_types.h"', ""),
    ("ipset/judge/a.cc", '"ipset/nft/host_firewall.h"', "does not know who judges packets"),
    ("ipset/nft/a.cc", '"ipset/judge/chain_walk.h"', ""),
    ("ipset/nftables/a.cc", '"netlink/nftables/nftables_codec.h"', ""),
    ("ipset/nftables/a.cc", '"netlink/nftables/nftables_monitor.h"', ""),
    ("netlink/a.h", "<linux/netfilter/nfnetlink.h>", "does not belong here"),
    ("netlink/a.cc", "<linux/netfilter/x_tables.h>", "does not belong here"),
    ("netlink/nl_channel.cc", "<netlink/socket.h>", ""),
    ("netlink/a.cc", "<nlohmann/json.hpp>", "does not belong here"),
    ("netlink/a.cc", "<spdlog/spdlog.h>", "does not belong here"),
    ("ipset/a.cc", '"netlink/result.h"', ""),
    ("ipset/a.cc", '"netlink/ipvs/ipvs_table.h"', "addresses, results and descriptors only"),
    ("ipset/sets/a.h", "<libipset/session.h>", "does not belong here"),
    ("ipset/sets/a.cc", "<libipset/session.h>", ""),
    ("proxier/sync/a.cc", '"ipset/nftables/nft_rule_table.h"', "only cmd names a concrete table"),
    ("ipset/a.cc", '"proxier/api/names.h"', "ipset must not know proxier/api"),
    ("proxier/api/a.cc", '"netlink/ip_address.h"', ""),
    ("proxier/api/a.cc", '"netlink/ipvs/ipvs_table.h"', "only the values of netlink"),
    ("proxier/api/yaml.cc", "<yaml-cpp/yaml.h>", ""),
    ("proxier/watch/a.cc", "<yaml-cpp/yaml.h>", "does not belong here"),
    ("proxier/api/json_value.cc", "<simdjson.h>", ""),
    ("proxier/api/json_value.h", "<simdjson.h>", "does not belong here"),
    ("proxier/watch/a.cc", '"netlink/ipvs/ipvs_types.h"', ""),
    ("proxier/access/pem.cc", "<openssl/pem.h>", ""),
    ("proxier/watch/a.cc", "<openssl/pem.h>", "does not belong here"),
    ("proxier/watch/a.cc", '"proxier/model/a.h"', ""),
    ("proxier/watch/a.cc", '"proxier/plan/a.h"', "watch must not know proxier/plan"),
    ("proxier/model/a.cc", '"proxier/plan/a.h"', "model must not know proxier/plan"),
    ("proxier/plan/a.cc", '"ipset/sets/set_table.h"', "only the values of ipset"),
    ("proxier/plan/a.cc", "<chrono>", "plan is pure"),
    ("proxier/plan/a.cc", "<nlohmann/json.hpp>", "does not belong here"),
    ("proxier/sync/a.cc", '"netlink/ipvs/ipvs_table.h"', ""),
    ("proxier/sync/a.cc", '"netlink/ipvs/ipvs_kernel.h"', "only cmd names a concrete table"),
    ("proxier/sync/a.cc", '"proxier/serve/status.h"', ""),
    ("proxier/sync/a.cc", '"proxier/serve/healthz.h"', "sync must not know proxier/serve"),
    ("proxier/watch/a.cc", '"proxier/serve/status.h"', ""),
    ("proxier/watch/a.cc", '"proxier/serve/http_server.h"', "watch must not know proxier/serve"),
    ("proxier/serve/a.cc", '"proxier/sync/a.h"', "serve must not know proxier/sync"),
    ("proxier/serve/a.h", '"netlink/result.h"', ""),
    ("proxier/serve/a.cc", '"netlink/links/link_table.h"', "addresses, results and descriptors only"),
    ("proxier/serve/a.cc", "<microhttpd.h>", ""),
    ("proxier/serve/a.h", "<microhttpd.h>", "does not belong here"),
    ("proxier/serve/a.cc", "<prometheus/gauge.h>", "does not belong here"),
    ("proxier/serve/metrics.cc", "<prometheus/gauge.h>", ""),
    ("proxier/check/a.cc", '"proxier/sync/a.h"', "check must not know proxier/sync"),
    ("proxier/check/kernel_config.cc", "<zlib.h>", ""),
    ("proxier/access/a.cc", "<zlib.h>", "does not belong here"),
    ("proxier/inspect/a.cc", '"proxier/sync/a.h"', "inspect must not know proxier/sync"),
    ("proxier/access/a.cc", '"proxier/watch/a.h"', "access must not know proxier/watch"),
    ("proxier/watch/a.cc", '"proxier/access/transport.h"', ""),
    ("proxier/watch/a.cc", '"proxier/access/curl_transport.h"', "only cmd names a concrete table"),
    ("proxier/manifests/a.cc", '"proxier/access/a.h"', "manifests must not know proxier/access"),
    ("proxier/config/a.cc", '"proxier/serve/listen_socket.h"', ""),
    ("proxier/config/a.cc", '"proxier/serve/healthz.h"', "config must not know proxier/serve"),
    ("proxier/config/a.cc", "<nlohmann/json.hpp>", "does not belong here"),
    ("proxier/api/a.h", "<nlohmann/json_fwd.hpp>", "does not belong here"),
    ("proxier/api/json_builder.h", "<nlohmann/json.hpp>", ""),
    ("proxier/api/document_writer.h", "<nlohmann/json.hpp>", "does not belong here"),
    ("proxier/api/document_writer.cc", "<nlohmann/json.hpp>", ""),
    ("proxier/inspect/a.cc", '"ipset/sets/set_types.h"', "inspect must not know ipset"),
    ("cmd/a.cc", '"cmd/ipvsctl/a.h"', "cmd must not know cmd/ipvsctl"),
    ("cmd/ipvsctl/a.cc", '"cmd/ipvs_proxier/a.h"', "must not know cmd/ipvs_proxier"),
    ("cmd/ipvsctl/top/top_command.cc", '"proxier/sync/a.h"', ""),
    ("cmd/ipvsctl/top/top_view.cc", '"proxier/sync/a.h"', "must not know proxier/sync"),
    ("cmd/ipvsctl/top/top_view.cc", '"cmd/ipvsctl/output.h"', "does not know the commands"),
    ("cmd/ipvsctl/top/top_view.cc", '"cmd/ipvsctl/names/cluster_names.h"', ""),
    ("cmd/ipvsctl/top/top_command.cc", '"cmd/ipvsctl/commands.h"', ""),
    ("cmd/ipvsctl/top/top_view.cc", '"cmd/ipvsctl/listing/listing.h"', "top must not know listing"),
    ("cmd/ipvsctl/names/a.cc", '"cmd/ipvsctl/listing/listing.h"', "names must not know listing"),
    ("cmd/ipvsctl/rules/rule_listing.cc", '"cmd/ipvsctl/listing/set_listing.h"', ""),
    ("proxier/junk/a.cc", "<vector>", "there is no room proxier/junk"),
    ("cmd/a.cc", '"netlink/ipvs/ipvs_kernel.h"', ""),
    ("cmd/a.cc", "<CLI/CLI.hpp>", ""),
    ("cmd/a.cc", '"test/fakes/a.h"', "nothing includes test"),
    ("cmd/a.cc", '"options.h"', "names no room"),
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

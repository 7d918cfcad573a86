#!/usr/bin/env -S python3 -B
"""What kube-proxy 1.36 in IPVS mode leaves in the kernel, worked out from a description of its
behaviour and from nothing of ipvs-proxier.

usage: kube_proxy_state.py CLUSTERS

CLUSTERS holds one JSON object a line: {"name", "configuration", "links", "families", "kernel",
"release", "cpus", "steps"}, where `release` is that of Linux, `configuration` is a KubeProxyConfiguration, `links` {interface: [address]} of the
host, `kernel` {"addresses" of kube-ipvs0, "virtual_servers": [[protocol, ip, port, scheduler, flags,
timeout, [[ip, port, weight]]]]} what others left, and each step {"events": [[type, manifest]], "links"?, "restart"?}: with `restart` it is a new process
that sees the events. After each step the settled state is printed:
a line "= NAME STEP", the sysctls and timeouts that are set, then the state's lines as ipvsadm-save, ipset save, ip and iptables-save
spell them, sorted except for rules.
"""

import json
import sys

import addresses
import host_settings
import options
import proxier
import rules

PORT_FLAG = {"mh": "mh-port", "sh": "sh-port"}
SERVICE_OPTION = {"tcp": "-t", "udp": "-u", "sctp": "--sctp-service"}


def host_port(ip, port):
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def virtual_server_lines(virtual_servers):
    for (protocol, ip, port), server in virtual_servers.items():
        name = f"{SERVICE_OPTION[protocol]} {host_port(ip, port)}"
        line = f"-A {name} -s {server.scheduler}"
        if server.flags & proxier.PERSISTENT:
            line += f" -p {server.timeout}"
        if server.flags & proxier.MH_PORT:
            line += f" -b {PORT_FLAG.get(server.scheduler, 'flag-2')}"
        yield line
        for real_ip, real_port, weight in server.reals:
            yield f"-a {name} -r {host_port(real_ip, real_port)} -m -w {weight}"


def member_lines(sets):
    for family, members in sets.items():
        for name, listed in members.items():
            for member in listed:
                yield f"add {rules.set_name(name, family)} {member}"


def address_lines(ips):
    for ip in ips:
        yield f"address {ip}/{addresses.HOST_LENGTH[addresses.family_of(ip)]}"


def rule_lines(chains):
    for (table, chain), listed in sorted(chains.items()):
        for rule in listed:
            yield f"{table} -A {chain} {rule}"


def state_lines(kernel):
    lines = sorted(virtual_server_lines(kernel.virtual_servers))
    lines += sorted(member_lines(kernel.sets))
    lines += sorted(address_lines(kernel.dummy))
    for family in sorted(kernel.rules):
        command = "iptables" if family == 4 else "ip6tables"
        lines += [f"{command} {line}" for line in rule_lines(kernel.rules[family])]
    return lines


def node_named(events, configuration):
    name = configuration.get("hostnameOverride", "").strip().lower()
    for _, manifest in reversed(events):
        if manifest["kind"] == "Node" and manifest["metadata"]["name"] == name:
            return manifest
    return None


def leave_in(kernel, left):
    kernel.dummy.update(left.get("addresses", []))
    for protocol, ip, port, scheduler, flags, timeout, reals in left.get("virtual_servers", []):
        kernel.virtual_servers[protocol, ip, port] = proxier.VirtualServer(
            scheduler, flags, timeout, frozenset(map(tuple, reals)))


def states(cluster):
    """(state lines, what of it is a matter of chance) after each step."""
    configuration = cluster["configuration"]
    families = cluster.get("families", addresses.FAMILIES)
    links = cluster["links"]
    host = host_settings.lines(configuration, cluster.get("release", "6.1"), cluster.get("cpus", 1))
    process, node = None, None
    for step in cluster["steps"]:
        node = node_named(step["events"], configuration) or node
        if process is None:
            process = proxier.KubeProxy(options.Options(configuration, node, families))
            leave_in(process.kernel, cluster.get("kernel", {}))
        elif step.get("restart") or not process.options.knows_node_ip:
            # The wait for node IPs, of 30 s at most (section 1), is over as soon as there are any.
            process.restart(options.Options(configuration, node, families))
        for event_type, manifest in step["events"]:
            process.deliver(event_type, manifest)
        links = step.get("links", links)
        chance = process.settle(links)
        yield host + state_lines(process.kernel), chance


def main():
    with open(sys.argv[1], encoding="utf-8") as clusters:
        for line in clusters:
            cluster = json.loads(line)
            for step, (lines, _) in enumerate(states(cluster)):
                print(f"= {cluster['name']} {step}", *lines, sep="\n")


if __name__ == "__main__":
    main()

"""The sysctls and IPVS timeouts that kube-proxy sets at its start (docs/kube-proxy.md, sections 4.4
and 6)."""

import re

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
LARGEST_CONNTRACK = 1048576


def seconds(text, default="0s"):
    """Whole seconds of a Go duration."""
    if text is None:
        text = default
    if text == "0":
        return 0
    parts = re.findall(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|us|s|ns)", text)
    return int(sum(float(number) * UNITS[unit] for number, unit in parts) + 1e-9)


def kernel_version(release):
    return tuple(int(part) for part in re.match(r"\d+(?:\.\d+)*", release).group().split("."))[:2]


def ipvs_sysctls(ipvs, release):
    yield "net/ipv4/vs/conntrack", 1
    if (4, 1) <= kernel_version(release) < (5, 9):
        yield "net/ipv4/vs/conn_reuse_mode", 0
    yield "net/ipv4/vs/expire_nodest_conn", 1
    yield "net/ipv4/vs/expire_quiescent_template", 1
    yield "net/ipv4/ip_forward", 1
    if ipvs.get("strictARP"):
        yield "net/ipv4/conf/all/arp_ignore", 1
        yield "net/ipv4/conf/all/arp_announce", 2


def conntrack_max(conntrack, cpus):
    per_core, least = conntrack.get("maxPerCore"), conntrack.get("min")
    scaled = (32768 if per_core is None else per_core) * cpus
    if scaled == 0:
        return 0
    if scaled > LARGEST_CONNTRACK:
        return LARGEST_CONNTRACK
    return max(scaled, 131072 if least is None else least)


def conntrack_sysctls(conntrack, cpus):
    yield "nf_conntrack_max", conntrack_max(conntrack, cpus)
    yield ("nf_conntrack_tcp_timeout_established",
           seconds(conntrack.get("tcpEstablishedTimeout"), "24h"))
    yield ("nf_conntrack_tcp_timeout_close_wait",
           seconds(conntrack.get("tcpCloseWaitTimeout"), "1h"))
    yield "nf_conntrack_tcp_be_liberal", int(bool(conntrack.get("tcpBeLiberal")))
    yield "nf_conntrack_udp_timeout", seconds(conntrack.get("udpTimeout"))
    yield "nf_conntrack_udp_timeout_stream", seconds(conntrack.get("udpStreamTimeout"))


def lines(configuration, release, cpus):
    """In the order in which they are written; 0 leaves an IPVS timeout alone."""
    ipvs = configuration.get("ipvs") or {}
    result = [f"sysctl {key}={value}" for key, value in ipvs_sysctls(ipvs, release)]
    result += [f"sysctl net/netfilter/{key}={value}"
               for key, value in conntrack_sysctls(configuration.get("conntrack") or {}, cpus)
               if value > 0]
    timeouts = [seconds(ipvs.get(name)) for name in ("tcpTimeout", "tcpFinTimeout", "udpTimeout")]
    return result + ["timeouts {} {} {}".format(*timeouts)]

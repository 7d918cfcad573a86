"""kube-proxy's IPVS proxier of one family against a kernel kept in memory (docs/kube-proxy.md,
sections 2, 4, 5 and 13). Failures of the kernel and draining connections are left out: every operation
succeeds and no real server has connections."""

import dataclasses

import addresses
import endpoints
import rules
import services

DUMMY = "kube-ipvs0"
MH_PORT = 0x10
PERSISTENT = 0x1


@dataclasses.dataclass(frozen=True)
class VirtualServer:
    scheduler: str
    flags: int
    timeout: int
    reals: frozenset  # of (ip, port, weight)


class Kernel:
    """What all proxiers of a host share: virtual servers and the addresses of kube-ipvs0. Sets
    and rules are of one family each."""

    def __init__(self):
        self.virtual_servers = {}  # (protocol, ip, port): VirtualServer
        self.dummy = set()
        self.sets = {}  # family: {name: {member}}
        self.rules = {}  # family: {(table, chain): [text]}


class Proxier:
    def __init__(self, family, options, kernel):
        self.family = family
        self.options = options
        self.kernel = kernel

    def sync(self, ports, endpoint_map, zone, links):
        """One full sync. `links`: {interface: [address]} without kube-ipvs0."""
        self.active = {}  # virtual server key: service port key
        self.clashes = set()
        self.wanted = set()
        self.members = {}
        self.out_filter = []
        self.elsewhere = {ip for name, ips in links.items() for ip in self._usable(ips)}
        self.node_port_ips = self._node_port_ips(links)
        for port in ports:
            listed = endpoint_map.get(port.key, [])
            chosen = endpoints.choose(port, listed, self.options.node_name, zone)
            self._sync_port(port, listed, chosen)
        for ip in self.wanted:
            self._member("IPVS-IPS", ip)
        self.kernel.sets[self.family] = self.members
        self.kernel.rules[self.family] = rules.RuleWriter(
            self.family, self.options, set(self.members), self.out_filter).write()
        bound = set(self._usable(self.kernel.dummy))
        self.kernel.dummy -= bound - self.wanted
        self._remove_stale()

    def _usable(self, ips):
        return [ip for ip in map(addresses.canonical, ips)
                if addresses.family_of(ip) == self.family and not addresses.is_loopback(ip)
                and not addresses.is_link_local_6(ip)]

    def _node_port_ips(self, links):
        networks = self.options.node_port_networks[self.family]
        if networks is None:
            return sorted(self.elsewhere)
        everywhere = [ip for ips in links.values() for ip in ips] + list(self.kernel.dummy)
        ips = {addresses.canonical(ip) for ip in everywhere}
        return sorted(ip for ip in ips if not addresses.is_loopback(ip)
                      and any(addresses.contains(n, ip) for n in networks))

    def _member(self, name, member):
        self.members.setdefault(name, set()).add(member)

    def _sync_port(self, port, listed, chosen):
        for e in listed:
            if e.local:
                self._member("LOOP-BACK", f"{e.ip},{port.protocol}:{e.port},{e.ip}")
        self._member("CLUSTER-IP", self._ip_port(port.cluster_ip, port))
        self._facet(port, port.cluster_ip, port.port, chosen[port.internal_local])
        self.wanted.add(port.cluster_ip)
        self.kernel.dummy.add(port.cluster_ip)
        external = chosen[port.external_local]
        for ip in port.external_ips:
            name = "EXTERNAL-IP-LOCAL" if port.external_local else "EXTERNAL-IP"
            self._member(name, self._ip_port(ip, port))
            self._facet(port, ip, port.port, external)
            self._bind(ip)
        for ip in port.ingress_ips:
            self._ingress_members(port, ip)
            self._facet(port, ip, port.port, external)
            self._bind(ip)
        if port.node_port and not self.node_port_ips:
            return
        if port.node_port:
            self._node_port_members(port)
            for ip in self.node_port_ips:
                self._facet(port, ip, port.node_port, external)
        if port.health_check_node_port:
            self._member("HEALTH-CHECK-NODE-PORT", str(port.health_check_node_port))

    @staticmethod
    def _ip_port(ip, port):
        return f"{ip},{port.protocol}:{port.port}"

    def _ingress_members(self, port, ip):
        member = self._ip_port(ip, port)
        self._member("LOAD-BALANCER", member)
        if port.external_local:
            self._member("LOAD-BALANCER-LOCAL", member)
        if not port.source_ranges:
            return
        self._member("LOAD-BALANCER-FW", member)
        for network in port.source_ranges:
            text = addresses.network_text(network)
            # As the kernel lists it (section 2.2): a host's network has no length.
            text = text.removesuffix(f"/{addresses.HOST_LENGTH[self.family]}")
            self._member("LOAD-BALANCER-SOURCE-CIDR", f"{member},{text}")
        node_ip = self.options.node_ip[self.family]
        if any(addresses.contains(network, node_ip) for network in port.source_ranges):
            self._member("LOAD-BALANCER-SOURCE-IP", f"{member},{ip}")
        else:
            self.out_filter.append((ip, port.protocol, port.port))

    def _node_port_members(self, port):
        names = ["NODE-PORT-"] + ["NODE-PORT-LOCAL-"] * port.external_local
        for name in names:
            if port.protocol != "sctp":
                self._member(name + port.protocol.upper(), str(port.node_port))
                continue
            for ip in self.node_port_ips:
                self._member(name + "SCTP-HASH", f"{ip},sctp:{port.node_port}")

    def _facet(self, port, ip, number, chosen):
        """One virtual server of a service port with its real servers."""
        key = (port.protocol, ip, number)
        if self.active.setdefault(key, port.key) != port.key:
            self.clashes.add(key)
        flags = (PERSISTENT if port.timeout else 0) | (
            MH_PORT if self.options.scheduler == "mh" else 0)
        self.kernel.virtual_servers[key] = VirtualServer(
            self.options.scheduler, flags, port.timeout,
            frozenset((e.ip, e.port, 1) for e in chosen))

    def _bind(self, ip):
        if ip not in self.elsewhere:
            self.wanted.add(ip)
            self.kernel.dummy.add(ip)

    def _remove_stale(self):
        excluded = self.options.excluded[self.family]
        for key in list(self.kernel.virtual_servers):
            ip = key[1]
            if (addresses.family_of(ip) == self.family and key not in self.active
                    and not any(addresses.contains(network, ip) for network in excluded)):
                del self.kernel.virtual_servers[key]


class KubeProxy:
    """The process: a proxier per family. `deliver` takes watch events as the API server has
    them for any client; the selectors of section 14 are applied here."""

    def __init__(self, options):
        self.kernel = Kernel()
        self.services = {}
        self.slices = {}
        self.zone = ""
        self.restart(options)

    def restart(self, options):
        """A new process over the same kernel; the API server has the same objects."""
        self.options = options
        self.proxiers = [Proxier(f, options, self.kernel) for f in options.families]

    def deliver(self, event_type, manifest):
        kind, meta = manifest["kind"], manifest["metadata"]
        key = (meta.get("namespace"), meta["name"])
        if kind == "Node":
            if meta["name"] == self.options.node_name and event_type != "DELETED":
                self.zone = (meta.get("labels") or {}).get("topology.kubernetes.io/zone", "")
            return
        known = self.services if kind == "Service" else self.slices
        selected = services.selected if kind == "Service" else endpoints.selected
        known.pop(key, None)
        if event_type != "DELETED" and selected(manifest):
            known[key] = manifest

    def settle(self, links):
        """Syncs until nothing changes: node ports on addresses of kube-ipvs0 follow one sync
        after the addresses (section 4.4). Returns what is undefined: the virtual servers that
        service ports contest and the endpoints of which slices tell differently."""
        chance = set()
        for proxier in self.proxiers:
            family = proxier.family
            ports = [port for _, service in sorted(self.services.items())
                     for port in services.service_ports(service, family, self.options)]
            known = [endpoint_slice for _, endpoint_slice in sorted(self.slices.items())]
            listed, ambiguous = endpoints.endpoint_map(known, family, self.options.node_name)
            chance |= ambiguous
            servers, before = self.kernel.virtual_servers, None
            while before != self.kernel.dummy:
                before = set(self.kernel.dummy)
                # What a sync made on addresses that are on their way out is not kept.
                self.kernel.virtual_servers = dict(servers)
                proxier.sync(ports, listed, self.zone, links)
            chance |= proxier.clashes
        return chance

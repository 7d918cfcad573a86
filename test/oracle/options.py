"""The settings of one kube-proxy process: its configuration and what it took from its Node at
start (docs/kube-proxy.md, sections 1.1, 3.3, 4.3 and 18)."""

import addresses

UNSPECIFIED = ("0.0.0.0", "::")


class Options:
    """Fixed for the life of the process. `node` is the Node at start (or None); `families` are
    those the host supports."""

    def __init__(self, configuration, node, families=addresses.FAMILIES):
        self.families = tuple(families)
        self.node_name = configuration.get("hostnameOverride", "").strip().lower()
        ipvs = configuration.get("ipvs") or {}
        iptables = configuration.get("iptables") or {}
        self.scheduler = ipvs.get("scheduler") or "rr"
        networks = [addresses.parse_network(text) for text in ipvs.get("excludeCIDRs") or []]
        self.excluded = {f: [n for n in networks if n[0] == f] for f in addresses.FAMILIES}
        bit = iptables.get("masqueradeBit")
        self.mark = 1 << (14 if bit is None else bit)
        self.masquerade_all = bool(iptables.get("masqueradeAll"))
        self.external_ips = (configuration.get("featureGates") or {}).get(
            "AllowServiceExternalIPs", True)
        self.knows_node_ip = bool(candidates(node))
        self.node_ip = node_ips(configuration.get("bindAddress", ""), node)
        self.node_port_networks = self._node_port_networks(
            configuration.get("nodePortAddresses") or [])
        self.not_local = {f: self._not_local(configuration, node, f)
                          for f in addresses.FAMILIES}

    def _node_port_networks(self, texts):
        """By family: a list of networks, or None for "match all"."""
        if texts == ["primary"]:
            texts = [f"{ip}/{addresses.HOST_LENGTH[family]}"
                     for family, ip in self.node_ip.items() if not addresses.is_loopback(ip)]
        networks = [addresses.parse_network(text) for text in texts]
        by_family = {}
        for family in addresses.FAMILIES:
            chosen = [n for n in networks if n is not None and n[0] == family]
            match_all = not chosen or any(n[2] == 0 for n in chosen)
            by_family[family] = None if match_all else chosen
        return by_family

    @staticmethod
    def _not_local(configuration, node, family):
        """The match of rule 3 of KUBE-SERVICES that means "not from a local pod", or None."""
        mode = configuration.get("detectLocalMode") or "ClusterCIDR"
        detect = configuration.get("detectLocal") or {}
        if mode == "BridgeInterface":
            return f"! -i {detect['bridgeInterface']}"
        if mode == "InterfaceNamePrefix":
            return f"! -i {detect['interfaceNamePrefix']}+"
        if mode == "NodeCIDR":
            texts = ((node or {}).get("spec") or {}).get("podCIDRs") or []
        else:
            texts = (configuration.get("clusterCIDR") or "").split(",")
        for text in texts:
            network = addresses.parse_network(text.strip())
            if network is not None and network[0] == family:
                return f"! -s {addresses.network_text(network)}"
        return None


def candidates(node):
    listed = ((node or {}).get("status") or {}).get("addresses") or []
    found = [a.get("address") for kind in ("InternalIP", "ExternalIP")
             for a in listed if a.get("type") == kind]
    return [addresses.canonical(text) for text in found if addresses.parse(text)]


def node_ips(bind_address, node):
    """The node's address of each family at start, loopback where it has none (section 1.1)."""
    ips = {4: "127.0.0.1", 6: "::1"}
    for candidate in reversed(candidates(node)):
        ips[addresses.family_of(candidate)] = candidate
    bound = addresses.canonical(bind_address)
    if bound is not None and bound not in UNSPECIFIED:
        ips[addresses.family_of(bound)] = bound
    return ips

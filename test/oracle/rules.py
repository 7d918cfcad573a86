"""The rules of kube-proxy's IPVS mode as iptables-save prints them (docs/kube-proxy.md, section 3)."""

COMMENTS = {
    "LOOP-BACK": "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
    "CLUSTER-IP": "Kubernetes service cluster ip + port for masquerade purpose",
    "EXTERNAL-IP": "Kubernetes service external ip + port for masquerade and filter purpose",
    "EXTERNAL-IP-LOCAL":
        "Kubernetes service external ip + port with externalTrafficPolicy=local",
    "LOAD-BALANCER": "Kubernetes service lb portal",
    "LOAD-BALANCER-FW":
        "Kubernetes service load balancer ip + port for load balancer with sourceRange",
    "LOAD-BALANCER-LOCAL":
        "Kubernetes service load balancer ip + port with externalTrafficPolicy=local",
    "LOAD-BALANCER-SOURCE-IP":
        "Kubernetes service load balancer ip + port + source IP for packet filter purpose",
    "LOAD-BALANCER-SOURCE-CIDR":
        "Kubernetes service load balancer ip + port + source cidr for packet filter purpose",
    "NODE-PORT-TCP": "Kubernetes nodeport TCP port for masquerade purpose",
    "NODE-PORT-LOCAL-TCP": "Kubernetes nodeport TCP port with externalTrafficPolicy=local",
    "NODE-PORT-UDP": "Kubernetes nodeport UDP port for masquerade purpose",
    "NODE-PORT-LOCAL-UDP": "Kubernetes nodeport UDP port with externalTrafficPolicy=local",
    "NODE-PORT-SCTP-HASH":
        r"Kubernetes nodeport SCTP port for masquerade purpose with type \'hash ip:port\'",
    "NODE-PORT-LOCAL-SCTP-HASH":
        r"Kubernetes nodeport SCTP port with externalTrafficPolicy=local"
        r" with type \'hash ip:port\'",
    "HEALTH-CHECK-NODE-PORT": "Kubernetes health check node port",
}

JUMPS = (
    ("nat", "OUTPUT", "KUBE-SERVICES", "kubernetes service portals"),
    ("nat", "PREROUTING", "KUBE-SERVICES", "kubernetes service portals"),
    ("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules"),
    ("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"),
    ("filter", "INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"),
    ("filter", "INPUT", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"),
    ("filter", "FORWARD", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"),
    ("filter", "INPUT", "KUBE-IPVS-FILTER", "kubernetes ipvs access filter"),
    ("filter", "OUTPUT", "KUBE-IPVS-OUT-FILTER", "kubernetes ipvs access filter"),
)

PROTOCOL_NUMBERS = {"tcp": 6, "udp": 17, "sctp": 132}


def set_name(name, family):
    """The kernel's name of a set: KUBE-6-... is cut to 31 bytes."""
    return f"KUBE-{name}" if family == 4 else f"KUBE-6-{name}"[:31]


def comment(text):
    return f'-m comment --comment "{text}"'


class RuleWriter:
    """The rules of one family, given which sets have members."""

    def __init__(self, family, options, filled, out_filter):
        self.family = family
        self.options = options
        self.filled = filled
        self.out_filter = out_filter  # of (ip, protocol, port)
        self.rules = {}  # (table, chain): [text]

    def add(self, table, chain, rule):
        self.rules.setdefault((table, chain), []).append(rule)

    def match(self, name, directions="dst,dst", commented=True):
        text = f"-m set --match-set {set_name(name, self.family)} {directions}"
        return f"{comment(COMMENTS[name])} {text}" if commented else text

    def write(self):
        for table, chain, target, text in JUMPS:
            self.rules.setdefault((table, chain), []).insert(0, f"{comment(text)} -j {target}")
        self._services()
        self._node_ports()
        self._masquerade()
        self._firewall()
        self._ipvs_filter()
        return self.rules

    def _services(self):
        def add(rule):
            self.add("nat", "KUBE-SERVICES", rule)

        filled = self.filled
        add(f"-s {'127.0.0.0/8' if self.family == 4 else '::1/128'} -j RETURN")
        if "LOAD-BALANCER" in filled:
            add(f"{self.match('LOAD-BALANCER')} -j KUBE-LOAD-BALANCER")
        if "CLUSTER-IP" in filled:
            not_local = self.options.not_local[self.family]
            if self.options.masquerade_all:
                add(f"{self.match('CLUSTER-IP')} -j KUBE-MARK-MASQ")
            elif not_local:
                add(f"{not_local} {self.match('CLUSTER-IP')} -j KUBE-MARK-MASQ")
            else:
                add(f"{self.match('CLUSTER-IP', 'src,dst')} -j KUBE-MARK-MASQ")
        for name in ("EXTERNAL-IP", "EXTERNAL-IP-LOCAL"):
            if name not in filled:
                continue
            match = self.match(name)
            if name == "EXTERNAL-IP":
                add(f"{match} -j KUBE-MARK-MASQ")
            add(f"{match} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT")
            add(f"{match} -m addrtype --dst-type LOCAL -j ACCEPT")
        add("-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT")
        for name in ("CLUSTER-IP", "LOAD-BALANCER"):
            if name in filled:
                add(f"{self.match(name, commented=False)} -j ACCEPT")
        if "LOAD-BALANCER-LOCAL" in filled:
            self.add("nat", "KUBE-LOAD-BALANCER",
                     f"{self.match('LOAD-BALANCER-LOCAL')} -j RETURN")
        self.add("nat", "KUBE-LOAD-BALANCER", "-j KUBE-MARK-MASQ")

    def _node_ports(self):
        for protocol, suffix, directions in (
                ("tcp", "TCP", "dst"), ("udp", "UDP", "dst"), ("sctp", "SCTP-HASH", "dst,dst")):
            for prefix, target in (("LOCAL-", "RETURN"), ("", "KUBE-MARK-MASQ")):
                name = f"NODE-PORT-{prefix}{suffix}"
                if name in self.filled:
                    self.add("nat", "KUBE-NODE-PORT",
                             f"-p {protocol} {self.match(name, directions)} -j {target}")
        self.add("filter", "KUBE-NODE-PORT",
                 f"{self.match('HEALTH-CHECK-NODE-PORT', 'dst')} -j ACCEPT")

    def _masquerade(self):
        mark = f"{self.options.mark:#x}"
        if "LOOP-BACK" in self.filled:
            self.add("nat", "KUBE-POSTROUTING",
                     f"{self.match('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE")
        snat = comment("kubernetes service traffic requiring SNAT")
        for rule in (f"-m mark ! --mark {mark}/{mark} -j RETURN",
                     f"-j MARK --set-xmark {mark}/0x0",
                     f"{snat} -j MASQUERADE --random-fully"):
            self.add("nat", "KUBE-POSTROUTING", rule)
        self.add("nat", "KUBE-MARK-MASQ", f"-j MARK --set-xmark {mark}/{mark}")
        self.add("filter", "KUBE-FORWARD",
                 f"{comment('kubernetes forwarding rules')} -m mark --mark {mark}/{mark}"
                 " -j ACCEPT")
        self.add("filter", "KUBE-FORWARD",
                 f"{comment('kubernetes forwarding conntrack rule')}"
                 " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")

    def _firewall(self):
        if "LOAD-BALANCER-FW" in self.filled:
            self.add("filter", "KUBE-PROXY-FIREWALL",
                     f"{self.match('LOAD-BALANCER-FW')} -j KUBE-SOURCE-RANGES-FIREWALL")
        for name in ("LOAD-BALANCER-SOURCE-CIDR", "LOAD-BALANCER-SOURCE-IP"):
            if name in self.filled:
                self.add("filter", "KUBE-SOURCE-RANGES-FIREWALL",
                         f"{self.match(name, 'dst,dst,src')} -j RETURN")
        self.add("filter", "KUBE-SOURCE-RANGES-FIREWALL", "-j DROP")

    def _ipvs_filter(self):
        for name in ("LOAD-BALANCER", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL"):
            self.add("filter", "KUBE-IPVS-FILTER", f"{self.match(name, commented=False)} -j RETURN")
        health = self.match("HEALTH-CHECK-NODE-PORT", "dst", commented=False)
        self.add("filter", "KUBE-IPVS-FILTER", f"{health} -j RETURN")
        reject = "icmp-port-unreachable" if self.family == 4 else "icmp6-port-unreachable"
        self.add("filter", "KUBE-IPVS-FILTER",
                 "-m conntrack --ctstate NEW -m set --match-set"
                 f" {set_name('IPVS-IPS', self.family)} dst -j REJECT --reject-with {reject}")
        length = 32 if self.family == 4 else 128
        for ip, protocol, port in sorted(set(self.out_filter)):
            self.add("filter", "KUBE-IPVS-OUT-FILTER",
                     f"-s {ip}/{length} -m ipvs --vproto {PROTOCOL_NUMBERS[protocol]}"
                     f" --vaddr {ip} --vport {port} -j DROP")

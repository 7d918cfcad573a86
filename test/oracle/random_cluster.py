"""Random clusters as an API server would hold them, from a seed: every field of Services,
EndpointSlices, Nodes and of the configuration that kube-proxy's IPVS mode reads takes every kind
of value, odd ones too."""

import random

NODE = "n1"
NODES = (NODE, "n2", "n3")
ZONES = ("a", "b", "c")
NAMESPACES = ("default", "shop")
PROTOCOLS = ("TCP", "TCP", "UDP", "SCTP")
SCHEDULERS = ("", "rr", "wrr", "lc", "sh", "mh", "mh")
# Of externalIPs and load balancers; some come to be on links of the node.
VIPS = {4: ["192.0.2.10", "192.0.2.11", "198.51.100.20", "198.51.100.21", "10.0.0.2", "172.16.5.1",
            "10.0.0.1", "169.254.10.1", "192.0.2.200"],
        6: ["2001:db8::10", "2001:db8::11", "fd00:51::20", "fd00:1::1", "fd00:1::2",
            "2001:db8:0:1::c8"]}
ODD_VIPS = {4: ["192.000.002.010", "::ffff:198.51.100.20", "010.0.0.2"],
            6: ["2001:DB8:0::0010", "fd00:0051::0:20"]}
RANGES = ["010.0.0.0/08", "203.0.113.0/24", "198.51.100.7/32", "203.0.113.77/24", "10.0.0.0/8", "10.0.0.1/32",
          "0.0.0.0/0", "10.0.0.0/30", "2001:db8:5::/48", "2001:db8:5::7/128", "::/0", "fd00:1::/64",
          "fd00::/8", " 192.0.2.0/25", "192.0.2.128/25 ", "127.0.0.0/8", "::1/128", "128.0.0.0/1",
          "203.0.113.0/25"]
SERVICE_PORTS = (1, 53, 80, 443, 8080, 9000, 30003, 65535)


class RandomCluster:
    """`name`, `configuration`, `links` and the objects of one cluster."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed = seed
        self.services = {}
        self.slices = {}
        self.used = set()  # (ip, protocol, port), node ports and cluster IPs
        self.links = self._links()
        self.node = self._node()
        self.configuration = self._configuration()
        for _ in range(self.random.choice((0, 1, 3, 5, 8, 12))):
            self.add_service()
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self.add_slice(self._name(), [])

    # Helpers

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def pick(self, *values):
        return self.random.choice(values)

    def some(self, values, most):
        return self.random.sample(list(values), self.random.randint(0, min(most, len(values))))

    def maybe(self, target, field, percent, *values):
        """Sets a field to one of the values, or leaves it out."""
        if self.chance(percent):
            target[field] = self.random.choice(values)

    def _name(self):
        return self.pick(*NAMESPACES), f"s{self.random.randrange(14)}"

    # The host

    def _links(self):
        links = {"lo": ["127.0.0.1", "::1"]}
        if self.chance(15):
            links["lo"].append(self.pick("192.0.2.200", "2001:db8:0:1::c8", "127.0.0.53"))
        eth0 = []
        if self.chance(92):
            eth0.append("10.0.0.1")
        if self.chance(70):
            eth0 += ["fd00:1::1", "fe80::1"]
        if self.chance(20):
            eth0.append(self.pick("10.0.0.2", "fd00:1::2", "192.0.2.10", "2001:db8::10"))
        links["eth0"] = eth0
        if self.chance(60):
            links["cni0"] = ["10.244.0.1"] + ["fd00:244::1"] * self.chance(50)
        if self.chance(30):
            links["eth1"] = self.some(["172.16.5.1", "169.254.10.1", "198.51.100.20", "10.96.0.7",
                                       "fd00:96::7", "fd00:51::20", "fe80::5"], 3)
        return links

    def node_addresses(self):
        return self.random.choice((
            [("InternalIP", "10.0.0.1"), ("Hostname", NODE)],
            [("InternalIP", "10.0.0.1"), ("InternalIP", "fd00:1::1")],
            [("InternalIP", "fd00:1::1"), ("InternalIP", "10.0.0.1")],
            [("ExternalIP", "10.0.0.2"), ("InternalIP", "10.0.0.1"), ("ExternalIP", "fd00:1::2")],
            [("Hostname", NODE), ("ExternalIP", "fd00:1::1"), ("ExternalIP", "10.0.0.1")],
            [("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.2"), ("InternalDNS", "n1.x")],
            [("InternalIP", "fd00:1::1")],
            [("Hostname", NODE)],
            [],
        ))

    def _node(self):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {},
                "status": {"addresses": [{"type": kind, "address": address}
                                         for kind, address in self.node_addresses()]}}
        self.set_zone(node)
        cidrs = self.random.choice((["10.244.0.0/24"], ["10.244.0.0/24", "fd00:244::/80"],
                                    ["fd00:244::/80", "10.244.0.0/24"]))
        node["spec"] = {"podCIDR": cidrs[0], "podCIDRs": cidrs}
        return node

    def set_zone(self, node):
        labels = {"kubernetes.io/hostname": NODE}
        self.maybe(labels, "topology.kubernetes.io/zone", 80, *ZONES, *ZONES, "")
        node["metadata"]["labels"] = labels

    def _configuration(self):
        config = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                  "kind": "KubeProxyConfiguration", "mode": "ipvs",
                  "hostnameOverride": self.pick(NODE, NODE, "N1", " n1 ")}
        self.maybe(config, "bindAddress", 30, "0.0.0.0", "::", "10.0.0.1", "10.0.0.99", "fd00:1::1")
        ipvs, iptables = {}, {}
        self.maybe(ipvs, "scheduler", 60, *SCHEDULERS)
        self.maybe(ipvs, "excludeCIDRs", 12, ["10.96.0.0/29"], ["192.0.2.0/24", "2001:db8::/32"],
                   ["0.0.0.0/0"], ["fd00:96::/125"])
        self.maybe(iptables, "masqueradeBit", 40, 0, 5, 14, 31)
        self.maybe(iptables, "masqueradeAll", 30, True, False)
        conntrack = self._host_settings(ipvs)
        for name, section in (("ipvs", ipvs), ("iptables", iptables), ("conntrack", conntrack)):
            if section or self.chance(50):
                config[name] = section
        self.maybe(config, "featureGates", 10, {"AllowServiceExternalIPs": False},
                   {"AllowServiceExternalIPs": True})
        self.maybe(config, "nodePortAddresses", 50, None, [], ["primary"], ["10.0.0.0/24"],
                   ["10.0.0.1/32", "fd00:1::/64"], ["fd00:1::/64"], ["203.0.113.0/24"],
                   ["10.0.0.0/8", "::/0"], ["0.0.0.0/0"], ["10.244.0.0/16", "0.0.0.0/0"],
                   ["192.0.2.0/24"], ["fe80::/10"], ["127.0.0.0/8", "::1/128"], ["169.254.0.0/16"],
                   ["10.96.0.0/16", "fd00:96::/112"], ["10.0.0.77/24"])
        self._local_detection(config)
        return config

    def _host_settings(self, ipvs):
        self.maybe(ipvs, "strictARP", 30, True, False)
        durations = ("0s", "1h0m0s", "90s", "1m30.9s", "900ms", "2h45m", None)
        for name in ("tcpTimeout", "tcpFinTimeout", "udpTimeout"):
            self.maybe(ipvs, name, 20, *durations[:-1])
        conntrack = {}
        self.maybe(conntrack, "maxPerCore", 30, 0, 1, 32768, 100000, None)
        self.maybe(conntrack, "min", 30, 0, 131072, 2000000, None)
        self.maybe(conntrack, "tcpBeLiberal", 20, True, False)
        for name in ("tcpEstablishedTimeout", "tcpCloseWaitTimeout"):
            self.maybe(conntrack, name, 30, *durations)
        for name in ("udpTimeout", "udpStreamTimeout"):
            self.maybe(conntrack, name, 20, *durations[:-1])
        return conntrack

    def _local_detection(self, config):
        mode = self.pick(None, "ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")
        if mode:
            config["detectLocalMode"] = mode
        self.maybe(config, "clusterCIDR", 60, "10.244.0.0/16", "10.244.0.0/16,fd00:244::/64",
                   "fd00:244::/64,10.244.0.0/16", "fd00:244::/64", "10.244.3.4/16")
        if mode == "BridgeInterface":
            config["detectLocal"] = {"bridgeInterface": "cni0"}
        if mode == "InterfaceNamePrefix":
            config["detectLocal"] = {"interfaceNamePrefix": "veth"}

    # Services

    def add_service(self):
        key = self._name()
        self.services[key] = self.service(*key)
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3))):
            self.add_slice(key, self.services[key]["spec"].get("ports") or [])
        return key

    def service(self, namespace, name):
        kind = self.random.choices(
            ("ClusterIP", "NodePort", "LoadBalancer", "headless", "ExternalName"),
            (35, 25, 32, 4, 4))[0]
        meta = {"namespace": namespace, "name": name}
        self.maybe(meta, "creationTimestamp", 70, "2026-01-01T00:00:00Z")
        if self.chance(30):
            meta["labels"] = self.service_labels()
        self.maybe(meta, "annotations", 10, {
            "service.beta.kubernetes.io/load-balancer-source-ranges": "203.0.113.0/24",
            "service.kubernetes.io/topology-mode": "Auto"})
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
        if self.chance(1):  # no address was allocated
            service["spec"] = {"type": "ClusterIP", "clusterIP": "", "ports": self._ports(False)}
            return service
        if kind == "ExternalName":
            service["spec"] = {"type": kind, "externalName": "db.example.com",
                               "sessionAffinity": "None"}
            self.maybe(service["spec"], "ports", 50, self._ports(False))
            return service
        spec = service["spec"] = {"type": "ClusterIP" if kind == "headless" else kind}
        self._cluster_ips(spec, kind == "headless")
        spec["ports"] = self._ports(kind in ("NodePort", "LoadBalancer"))
        self._policies(spec, kind)
        if kind == "LoadBalancer":
            self._load_balancer(service)
        else:
            self.maybe(service, "status", 80, {"loadBalancer": {}}, {})
        if self.chance(2):  # used whatever the type
            service["status"] = {"loadBalancer": {"ingress": [
                {"ip": ip} for ip in self.vips(spec, 2)]}}
        return service

    def service_labels(self):
        labels = {}
        self.maybe(labels, "app", 50, "x")
        self.maybe(labels, "service.kubernetes.io/service-proxy-name", 10, "", "other")
        self.maybe(labels, "service.kubernetes.io/headless", 5, "")  # means nothing on a Service
        return labels

    def _cluster_ips(self, spec, headless):
        families = self.random.choice(([4], [4], [6], [4, 6], [6, 4]))
        if self.chance(97):
            spec["ipFamilies"] = [f"IPv{family}" for family in families]
            spec["ipFamilyPolicy"] = self.pick("PreferDualStack", "RequireDualStack") if len(
                families) == 2 else "SingleStack"
        else:
            families = families[:1]  # with two the API server fills them in
        if headless:
            spec["clusterIP"], spec["clusterIPs"] = "None", ["None"]
            return
        spec["clusterIPs"] = [self._fresh_cluster_ip(family) for family in families]
        spec["clusterIP"] = spec["clusterIPs"][0]

    def _fresh_cluster_ip(self, family):
        while True:
            number = self.random.randrange(1, 250)
            ip = f"10.96.0.{number}" if family == 4 else f"fd00:96::{number:x}"
            if ip not in self.used:
                self.used.add(ip)
                return ip

    def _ports(self, with_node_ports):
        count = self.pick(1, 1, 1, 2, 3)
        names = [""] if count == 1 and self.chance(50) else self.random.sample(
            ("http", "dns", "dns-tcp", "p-4"), count)
        ports, taken = [], set()
        for name in names:
            protocol, number = self.pick(*PROTOCOLS), self.pick(*SERVICE_PORTS)
            if (protocol, number) in taken:
                continue
            taken.add((protocol, number))
            port = {"port": number, "protocol": protocol, "targetPort": self.pick(8080, "web")}
            if name or self.chance(20):
                port["name"] = name
            self.maybe(port, "appProtocol", 10, "kubernetes.io/h2c")
            if with_node_ports and self.chance(85):
                node_port = self._fresh_node_port(protocol)
                if node_port:
                    port["nodePort"] = node_port
            ports.append(port)
        return ports

    def _fresh_node_port(self, protocol):
        for _ in range(8):
            number = 30000 + self.random.randrange(40)
            if (protocol, number) not in self.used:
                self.used.add((protocol, number))
                return number
        return None

    def _policies(self, spec, kind):
        if self.chance(25):
            spec["sessionAffinity"] = "ClientIP"
            spec["sessionAffinityConfig"] = {
                "clientIP": {"timeoutSeconds": self.pick(1, 600, 10800, 86400)}}
        else:
            self.maybe(spec, "sessionAffinity", 90, "None")
            self.maybe(spec, "sessionAffinityConfig", 3, {"clientIP": {"timeoutSeconds": 7}}, None)
        self.maybe(spec, "internalTrafficPolicy", 90, "Cluster", "Cluster", "Local")
        self.maybe(spec, "trafficDistribution", 10, "PreferClose", "PreferSameNode")
        self.maybe(spec, "publishNotReadyAddresses", 10, True, False)
        if self.chance(30):
            spec["externalIPs"] = self.vips(spec, 3)
        else:
            self.maybe(spec, "externalIPs", 10, None, [])
        if kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs"):
            self.maybe(spec, "externalTrafficPolicy", 95, "Cluster", "Local")
        if kind != "LoadBalancer" and self.chance(2):  # left from another type
            self._load_balancer({"spec": spec})
            spec["healthCheckNodePort"] = 30901

    def vips(self, spec, most):
        """Addresses on which no other Service has these ports; rarely one that is this Service's
        already, or twice the same."""
        chosen = []
        for _ in range(self.random.randint(0, most)):
            family = self.pick(4, 4, 6)
            ip = self.pick(*VIPS[family])
            claims = {(ip, port["protocol"], port["port"]) for port in spec["ports"]}
            if claims & self.used:
                continue
            if not self.chance(5):
                self.used |= claims
            chosen.append(ip)
        if self.chance(4):
            chosen += self.some(chosen + spec["clusterIPs"], 1)
        if self.chance(4):
            chosen += self.some(ODD_VIPS[4] + ODD_VIPS[6], 1)
        return [ip for ip in chosen if ip != "None"]

    def _load_balancer(self, service):
        spec = service["spec"]
        self.maybe(spec, "allocateLoadBalancerNodePorts", 50, True, False)
        self.maybe(spec, "loadBalancerClass", 10, "example.com/lb")
        if self.chance(90 if spec.get("externalTrafficPolicy") == "Local" else 3):
            spec["healthCheckNodePort"] = self._fresh_node_port("TCP") or 30900
        if self.chance(45):
            spec["loadBalancerSourceRanges"] = self.some(RANGES, 4)
        ingress = []
        for ip in self.vips(spec, 3):
            entry = {"ip": ip}
            self.maybe(entry, "ipMode", 60, "VIP", "VIP", "Proxy")
            self.maybe(entry, "ports", 10, [{"port": 80, "protocol": "TCP"}])
            ingress.append(entry)
        if self.chance(10):
            ingress.append({"hostname": "lb.example.com"})
            self.maybe(ingress[-1], "ip", 30, "")
        self.random.shuffle(ingress)
        service["status"] = {"loadBalancer": {"ingress": ingress} if ingress else {}}

    # EndpointSlices

    def add_slice(self, service_key, ports):
        key = (service_key[0], f"{service_key[1]}-{self.random.randrange(60)}")
        self.slices[key] = self.slice(key, service_key[1], ports)
        return key

    def slice(self, key, service, ports):
        """One that is of the Service by its label, for most of its ports."""
        address_type = self.random.choices(("IPv4", "IPv6", "FQDN"), (55, 40, 5))[0]
        meta = {"namespace": key[0], "name": key[1], "labels": self.slice_labels(service),
                "resourceVersion": str(self.random.randrange(10**6))}
        result = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta,
                  "addressType": address_type, "ports": self._slice_ports(ports)}
        result["endpoints"] = [self.endpoint(address_type, key)
                               for _ in range(self.random.choice((0, 1, 2, 3, 5)))]
        self.maybe(result, "endpoints", 3, None)
        self.maybe(result, "ports", 3, None, [])
        return result

    def slice_labels(self, service):
        if self.chance(3):
            return self.random.choice((None, {}, {"kubernetes.io/service-name": ""}))
        labels = {"kubernetes.io/service-name": service}
        self.maybe(labels, "service.kubernetes.io/headless", 4, "", "x")
        self.maybe(labels, "endpointslice.kubernetes.io/managed-by", 50, "x")
        self.maybe(labels, "service.kubernetes.io/service-proxy-name", 5, "other")
        return labels

    def _slice_ports(self, ports):
        listed = []
        for port in ports:
            if self.chance(6):
                continue
            one = {"name": port.get("name", ""), "protocol": port["protocol"],
                   "port": self.pick(8080, 8080, 8080, 9090)}
            if self.chance(4):
                one["name"] = self.pick("http", "", "else")
            if self.chance(4):
                one["protocol"] = self.pick(*PROTOCOLS)
            if one["protocol"] == "TCP" and self.chance(3):
                del one["protocol"]  # the API server's default
            if self.chance(3):
                one["port"] = None
            if self.chance(3):
                del one["port"]
            self.maybe(one, "appProtocol", 10, "http")
            listed.append(one)
        if self.chance(5):
            listed.append({"name": "extra", "protocol": "TCP", "port": 7})
        self.random.shuffle(listed)
        names = set()  # of a slice they differ
        listed = [one for one in listed if not (one["name"] in names or names.add(one["name"]))]
        for one in listed:
            if not one["name"] and self.chance(10):
                del one["name"]  # the API server's default
        return listed

    def endpoint(self, address_type, key):
        if address_type == "FQDN":
            return {"addresses": ["db.example.com"], "conditions": {"ready": True}}
        number = self.random.randrange(1, 40)
        if self.chance(90):  # few are in several slices of a Service
            number += 40 * (int(key[1].rpartition("-")[2]) + 1)
        prefix = f"10.244.{number // 200}." if address_type == "IPv4" else "fd00:244::"
        ip = prefix + (str(number % 200 + 2) if address_type == "IPv4" else f"{number:x}")
        if self.chance(2):
            ip = "010.244.9.9" if address_type == "IPv4" else "FD00:244:0::9"
        endpoint = {"addresses": [ip]}
        if self.chance(5):
            endpoint["addresses"].append("10.244.99.9" if address_type == "IPv4" else "fd00:244::9:9")
        self.maybe(endpoint, "nodeName", 85, NODE, NODE, "n2", "n3", "N1", None)
        self.maybe(endpoint, "zone", 50, *ZONES)
        self.maybe(endpoint, "deprecatedTopology", 5, {"kubernetes.io/hostname": NODE})
        self.maybe(endpoint, "targetRef", 10, {"kind": "Pod", "name": "p"})
        self.set_conditions(endpoint)
        self.set_hints(endpoint)
        return endpoint

    def set_conditions(self, endpoint):
        endpoint["conditions"] = self.random.choices((
            {"ready": True, "serving": True, "terminating": False}, {"ready": True},
            {"ready": False}, {"ready": False, "serving": False, "terminating": False},
            {"ready": False, "serving": True, "terminating": True},
            {"ready": False, "serving": False, "terminating": True},
            {"ready": False, "serving": None, "terminating": True},
            {"ready": True, "serving": True, "terminating": True},
            {"ready": None}, {"serving": False}, {"terminating": True}, {}, None),
            (12, 6, 4, 4, 6, 3, 2, 2, 1, 1, 1, 1, 1))[0]

    def set_hints(self, endpoint):
        """Most of a slice have hints, so that they count at times."""
        style = self.seed % 5
        if style == 0 or self.chance(6):
            self.maybe(endpoint, "hints", 5, None, {}, {"forZones": []}, {"forNodes": None})
            return
        hints = {}
        if style in (1, 3, 4):
            hints["forZones"] = [{"name": z} for z in self.some(ZONES, 2) or ["a"]]
        if style in (2, 3):
            hints["forNodes"] = [{"name": n} for n in self.some(NODES, 2) or [NODE]]
        endpoint["hints"] = hints

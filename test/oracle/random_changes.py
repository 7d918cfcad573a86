"""Random clusters that change: the input of kube_proxy_state.py and ipvs_proxier_state."""

import copy

import random_cluster

LINK_ADDRESSES = ("192.0.2.10", "198.51.100.20", "10.0.0.2", "10.0.0.1", "172.16.5.1", "10.96.0.7",
                  "2001:db8::10", "fd00:51::20", "fd00:1::2", "fd00:1::1", "fe80::7", "fd00:96::7")


class ChangingCluster:
    """Steps of watch events. The objects in `cluster` are never written to, only replaced."""

    def __init__(self, seed):
        self.cluster = random_cluster.RandomCluster(seed)
        self.random = self.cluster.random
        self.events = []
        self.links = None  # those of this step, where they changed

    def input(self, most_changes):
        cluster = self.cluster
        links = cluster.links
        self.events = [["ADDED", o] for o in (*cluster.services.values(), *cluster.slices.values())]
        if cluster.chance(95) or cluster.configuration.get("detectLocalMode") == "NodeCIDR":
            self.events.append(["ADDED", cluster.node])
        other = copy.deepcopy(cluster.node)
        other["metadata"]["name"] = "n2"
        cluster.set_zone(other)
        self.events.append(["ADDED", other])
        self.random.shuffle(self.events)
        steps = [{"events": self.events}]
        for _ in range(self.random.randint(0, most_changes)):
            self.events, self.links = [], None
            step = {"events": self.events}
            for _ in range(self.random.choice((1, 1, 2, 4))):
                self._change()
            if self.links is not None:
                step["links"] = self.links
            if cluster.chance(8):
                step["restart"] = True
            steps.append(step)
        families = self.random.choices(([4, 6], [4], [6]), (90, 6, 4))[0]
        result = {"name": f"seed-{cluster.seed}", "configuration": cluster.configuration,
                  "links": links, "families": families, "steps": steps,
                  "release": self.random.choice(("6.1.0-18-amd64", "5.9.1", "5.8.0-rc1+", "4.1",
                                                 "4.0.9", "3.10.0-1160.el7")),
                  "cpus": self.random.choice((1, 4, 31, 32, 33, 256))}
        if cluster.chance(25):
            result["kernel"] = self._left_by_others(steps[0]["events"], families)
        return result

    def _left_by_others(self, events, families):
        """Some of it is what the Services want, or nearly so. Of these families alone: kube-proxy
        does not look at the rest."""
        wanted = [(port["protocol"].lower(), ip, port["port"])
                  for _, o in events if o["kind"] == "Service"
                  for ip in (o["spec"].get("clusterIPs") or []) if ip != "None"
                  for port in o["spec"].get("ports") or []]
        wanted += [("tcp", "10.0.0.1", 30000), ("udp", "192.0.2.10", 53), ("tcp", "203.0.113.9", 80),
                   ("sctp", "fd00:1::1", 30001), ("tcp", "10.96.0.5", 80), ("udp", "fd00:96::5", 9)]
        servers = []
        for protocol, ip, port in dict.fromkeys(self.cluster.some(wanted, 5)):
            family = 6 if ":" in ip else 4
            if family not in families:
                continue
            pods = ["fd00:244::5", "fd00:244::29"] if family == 6 else ["10.244.0.5", "10.244.0.43"]
            servers.append([protocol, ip, port, self.random.choice(("rr", "mh", "wrr")),
                            self.random.choice((0, 1, 16)), 0,
                            [[pod, 8080, self.random.choice((0, 1, 5))] for pod in pods]])
            if servers[-1][4] == 1:
                servers[-1][5] = 300
        addresses = self.cluster.some(("10.96.0.5", "10.96.0.200", "192.0.2.10", "203.0.113.9",
                                       "fd00:96::5", "2001:db8::10", "127.0.0.9", "fe80::99"), 5)
        if self.cluster.configuration.get("nodePortAddresses") == ["fe80::/10"]:
            # Node ports on a link-local address of kube-ipvs0, which the kernel makes only when
            # somebody sets that link up: kube-proxy has them.
            addresses = [ip for ip in addresses if not ip.startswith("fe80:")]
        return {"virtual_servers": servers,
                "addresses": [ip for ip in addresses if (6 if ":" in ip else 4) in families]}

    def _change(self):
        change = self.random.choices(
            (self._add_service, self._remove_service, self._change_service, self._add_slice,
             self._remove_slice, self._change_slice, self._change_node, self._change_links),
            (8, 8, 30, 10, 8, 30, 6, 12))[0]
        change()

    def _put(self, known, key, manifest):
        self.events.append(["MODIFIED" if key in known else "ADDED", manifest])
        known[key] = manifest

    def _remove(self, known):
        if known:
            key = self.random.choice(sorted(known))
            self.events.append(["DELETED", known.pop(key)])

    def _add_service(self):
        services, slices = self.cluster.services, self.cluster.slices
        before = dict(services), dict(slices)
        self.cluster.add_service()
        for known, old in zip((services, slices), before):
            for key, manifest in known.items():
                if manifest is not old.get(key):
                    kind = "MODIFIED" if key in old else "ADDED"
                    self.events.append([kind, manifest])

    def _remove_service(self):
        self._remove(self.cluster.services)

    def _remove_slice(self):
        self._remove(self.cluster.slices)

    def _add_slice(self):
        services = self.cluster.services
        key = self.random.choice(sorted(services)) if services else ("default", "s0")
        ports = (services[key]["spec"].get("ports") or []) if services else []
        name = (key[0], f"{key[1]}-{self.random.randrange(60)}")
        self._put(self.cluster.slices, name, self.cluster.slice(name, key[1], ports))

    def _change_service(self):
        services = self.cluster.services
        if not services:
            return
        key = self.random.choice(sorted(services))
        service = copy.deepcopy(services[key])
        if self.cluster.chance(25) or "clusterIPs" not in service["spec"]:
            service = self.cluster.service(*key)
        else:
            self._change_field(service)
        self._put(services, key, service)

    def _change_field(self, service):
        cluster, spec = self.cluster, service["spec"]
        fresh = cluster.service("default", "fresh")["spec"]
        field = self.random.choice((
            "ports", "externalIPs", "externalTrafficPolicy", "internalTrafficPolicy", "affinity",
            "ingress", "ranges", "labels", "annotations", "type", "nodePort", "families"))
        if field == "ports":
            spec["ports"] = cluster._ports(spec["type"] != "ClusterIP")
        elif field == "externalIPs":
            spec["externalIPs"] = cluster.vips(spec, 3)
        elif field in ("externalTrafficPolicy", "internalTrafficPolicy"):
            spec[field] = "Cluster" if spec.get(field) == "Local" else "Local"
            if field == "externalTrafficPolicy" and spec["type"] == "LoadBalancer":
                spec["healthCheckNodePort"] = 0 if spec[field] == "Cluster" else 31999
        elif field == "affinity":
            for name in ("sessionAffinity", "sessionAffinityConfig"):
                spec.pop(name, None)
                if name in fresh:
                    spec[name] = fresh[name]
        elif field == "ingress" and spec["type"] == "LoadBalancer":
            cluster._load_balancer(service)
        elif field == "ranges" and spec["type"] == "LoadBalancer":
            spec["loadBalancerSourceRanges"] = cluster.some(random_cluster.RANGES, 4)
        elif field == "labels":
            service["metadata"]["labels"] = cluster.service_labels()
        elif field == "annotations":
            service["metadata"]["annotations"] = {"x": str(self.random.random())}
        elif field == "type":
            self._change_type(service)
        elif field == "nodePort":
            for port in spec["ports"]:
                if port.get("nodePort") and cluster.chance(50):
                    port["nodePort"] = cluster._fresh_node_port(port["protocol"]) or 30950
        elif field == "families" and spec.get("ipFamilies") and spec["clusterIP"] != "None":
            family = 4 if spec["ipFamilies"][0] == "IPv6" else 6
            if len(spec["ipFamilies"]) == 2:
                spec["ipFamilies"].pop()
                spec["clusterIPs"].pop()
            else:
                spec["ipFamilies"].append(f"IPv{family}")
                spec["clusterIPs"].append(cluster._fresh_cluster_ip(family))

    def _change_type(self, service):
        """Down to ClusterIP, or up from it."""
        spec = service["spec"]
        if spec["clusterIP"] == "None":
            return
        if spec["type"] == "ClusterIP":
            spec["type"] = "NodePort"
            spec["externalTrafficPolicy"] = "Cluster"
            for port in spec["ports"]:
                number = self.cluster._fresh_node_port(port["protocol"])
                if number:
                    port["nodePort"] = number
            return
        spec["type"] = "ClusterIP"
        for field in ("healthCheckNodePort", "loadBalancerSourceRanges", "loadBalancerClass",
                      "allocateLoadBalancerNodePorts"):
            spec.pop(field, None)
        if not spec.get("externalIPs"):
            spec.pop("externalTrafficPolicy", None)
        for port in spec["ports"]:
            port.pop("nodePort", None)
        service["status"] = {"loadBalancer": {}}

    def _change_slice(self):
        slices = self.cluster.slices
        if not slices:
            return
        key = self.random.choice(sorted(slices))
        endpoint_slice = copy.deepcopy(slices[key])
        endpoints = endpoint_slice["endpoints"] or []
        kind = self.random.choice(("conditions", "conditions", "hints", "node", "add", "remove",
                                   "labels", "version", "ports"))
        if kind == "add" or not endpoints:
            endpoint = self.cluster.endpoint(endpoint_slice["addressType"], key)
            endpoint_slice["endpoints"] = endpoints + [endpoint]
        elif kind == "remove":
            endpoints.pop(self.random.randrange(len(endpoints)))
        elif kind == "labels":
            # The Service's name stays: kube-proxy's cache of slices never forgets the old one.
            labels = endpoint_slice["metadata"].get("labels") or {}
            if labels.pop("service.kubernetes.io/headless", None) is None and labels:
                labels["service.kubernetes.io/headless"] = ""
        elif kind == "version":
            endpoint_slice["metadata"]["resourceVersion"] = str(self.random.randrange(10**6))
        elif kind == "ports":
            for port in endpoint_slice["ports"] or []:
                port["port"] = self.cluster.pick(8080, 9090, 7070)
        else:
            for endpoint in self.cluster.some(endpoints, 3):
                if kind == "conditions":
                    self.cluster.set_conditions(endpoint)
                elif kind == "hints":
                    self.cluster.set_hints(endpoint)
                else:
                    endpoint["nodeName"] = self.cluster.pick(*random_cluster.NODES)
        self._put(slices, key, endpoint_slice)

    def _change_node(self):
        node = copy.deepcopy(self.cluster.node)
        if self.cluster.chance(60):
            self.cluster.set_zone(node)
        else:
            node["status"]["addresses"] = [{"type": kind, "address": address}
                                           for kind, address in self.cluster.node_addresses()]
        self.cluster.node = node
        self.events.append(["MODIFIED", node])

    def _change_links(self):
        links = copy.deepcopy(self.cluster.links)
        name = self.cluster.pick("eth0", "eth0", "eth1", "lo")
        address = self.cluster.pick(*LINK_ADDRESSES)
        listed = links.setdefault(name, [])
        if address in listed:
            listed.remove(address)
        else:
            listed.append(address)
        self.cluster.links = self.links = links

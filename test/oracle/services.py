"""The Service model of one family (docs/kube-proxy.md, section 7)."""

import dataclasses

import addresses


@dataclasses.dataclass(frozen=True)
class ServicePort:
    key: tuple  # (namespace, service name, port name, protocol)
    cluster_ip: str
    port: int
    protocol: str  # lower case
    node_port: int
    external_ips: tuple
    ingress_ips: tuple
    source_ranges: tuple  # networks; empty means unrestricted
    timeout: int  # seconds of ClientIP affinity, 0 without it
    external_local: bool
    internal_local: bool
    health_check_node_port: int
    externally_accessible: bool

    @property
    def uses_cluster(self):
        return not self.internal_local or self.externally_accessible

    @property
    def uses_local(self):
        return self.internal_local or (self.external_local and self.externally_accessible)


def selected(service):
    """Whether the API server delivers the Service to kube-proxy (section 14)."""
    labels = service["metadata"].get("labels") or {}
    return ("service.kubernetes.io/service-proxy-name" not in labels
            and (service.get("spec") or {}).get("clusterIP") != "None")


def cluster_ip_of(spec, family):
    families = spec.get("ipFamilies") or []
    if not families:
        ip = spec.get("clusterIP")
        return addresses.canonical(ip) if addresses.family_of(ip) == family else None
    name = f"IPv{family}"
    if name not in families:
        return None
    ips = spec.get("clusterIPs") or []
    index = families.index(name)
    return addresses.canonical(ips[index]) if index < len(ips) else None


def ingress_ips(service, family):
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    ips = [entry.get("ip") for entry in balancer.get("ingress") or []
           if (entry.get("ipMode") or "VIP") == "VIP"]
    return tuple(addresses.of_family(ips, family))


def source_ranges(spec, family):
    texts = [text.strip() for text in spec.get("loadBalancerSourceRanges") or []]
    networks = [addresses.parse_network(text) for text in texts]
    networks = [n for n in networks if n is not None and n[0] == family]
    return () if any(n[2] == 0 for n in networks) else tuple(networks)


def is_external_policy_local(spec):
    kind = spec.get("type") or "ClusterIP"
    reachable = kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs")))
    return reachable and spec.get("externalTrafficPolicy") == "Local"


def affinity_timeout(spec):
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    return spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]


def service_ports(service, family, options):
    """The records of one Service for a family; none when it has no address of that family."""
    spec = service.get("spec") or {}
    if (spec.get("clusterIP") or "") in ("", "None") or spec.get("type") == "ExternalName":
        return []
    cluster_ip = cluster_ip_of(spec, family)
    if cluster_ip is None:
        return []
    listed = tuple(addresses.of_family(spec.get("externalIPs"), family))
    external_local = is_external_policy_local(spec)
    health = 0
    if external_local and spec.get("type") == "LoadBalancer":
        health = spec.get("healthCheckNodePort") or 0
    ingress = ingress_ips(service, family)
    meta = service["metadata"]
    ports = []
    for port in spec.get("ports") or []:
        node_port = port.get("nodePort") or 0
        protocol = port.get("protocol") or "TCP"
        ports.append(ServicePort(
            key=(meta["namespace"], meta["name"], port.get("name") or "", protocol),
            cluster_ip=cluster_ip, port=port["port"], protocol=protocol.lower(),
            node_port=node_port,
            external_ips=listed if options.external_ips else (),
            ingress_ips=ingress, source_ranges=source_ranges(spec, family),
            timeout=affinity_timeout(spec), external_local=external_local,
            internal_local=spec.get("internalTrafficPolicy") == "Local",
            health_check_node_port=health,
            externally_accessible=bool(node_port or ingress or listed)))
    return ports

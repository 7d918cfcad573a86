"""The EndpointSlice model of one family and the choice of endpoints (docs/kube-proxy.md, sections
8 and 9)."""

import dataclasses

import addresses

SERVICE_LABEL = "kubernetes.io/service-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"


@dataclasses.dataclass(frozen=True)
class Endpoint:
    ip: str
    port: int
    local: bool
    ready: bool
    serving: bool
    terminating: bool
    zones: frozenset
    nodes: frozenset

    @property
    def draining(self):
        return self.serving and self.terminating


def selected(endpoint_slice):
    """Whether the API server delivers the slice to kube-proxy (section 14)."""
    return HEADLESS_LABEL not in (endpoint_slice["metadata"].get("labels") or {})


def names_of(hints, field):
    return frozenset(entry.get("name", "") for entry in (hints or {}).get(field) or [])


def endpoint_of(listed, port, node_name):
    conditions = listed.get("conditions") or {}
    hints = listed.get("hints")
    return Endpoint(
        ip=addresses.canonical(listed["addresses"][0]), port=port,
        local=bool(node_name) and listed.get("nodeName") == node_name,
        ready=conditions.get("ready") is not False,
        serving=conditions.get("serving") is not False,
        terminating=conditions.get("terminating") is True,
        zones=names_of(hints, "forZones"), nodes=names_of(hints, "forNodes"))


def listed_endpoints(endpoint_slice, node_name):
    """{key: {(ip, port): Endpoint}} of one slice, where of duplicates the later one replaces the
    earlier unless it is terminating."""
    found = {}
    meta = endpoint_slice["metadata"]
    for port in endpoint_slice.get("ports") or []:
        if not port.get("port"):
            continue
        # The API server stores "" and TCP where they were not given.
        key = (meta["namespace"], meta["labels"][SERVICE_LABEL], port.get("name") or "",
               port.get("protocol") or "TCP")
        known = found.setdefault(key, {})
        for listed in endpoint_slice.get("endpoints") or []:
            if not listed.get("addresses"):
                continue
            endpoint = endpoint_of(listed, port["port"], node_name)
            identity = (endpoint.ip, endpoint.port)
            if identity not in known or not endpoint.terminating:
                known[identity] = endpoint
    return found


def endpoint_map(slices, family, node_name):
    """({(namespace, service, port name, protocol): [Endpoint]}, undefined endpoints) of the
    delivered slices. Slices come in no order: where two differ about an endpoint that neither, or
    each, says to be terminating, kube-proxy takes one of them."""
    found, undefined = {}, set()
    for endpoint_slice in slices:
        service = (endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_LABEL)
        if endpoint_slice.get("addressType") != f"IPv{family}" or not service:
            continue
        for key, listed in listed_endpoints(endpoint_slice, node_name).items():
            known = found.setdefault(key, {})
            for identity, endpoint in listed.items():
                other = known.get(identity)
                if other is None or (other.terminating and not endpoint.terminating):
                    known[identity] = endpoint
                elif other != endpoint and other.terminating == endpoint.terminating:
                    undefined.add((key, identity))
    return {key: list(known.values()) for key, known in found.items()}, undefined


def allowed_by_topology(ready, node_name, zone):
    """The ready endpoints that hints leave for this node."""
    if ready and all(e.nodes for e in ready):
        hinted = [e for e in ready if node_name in e.nodes]
        if hinted:
            return hinted
    if ready and all(e.zones for e in ready):
        hinted = [e for e in ready if zone in e.zones]
        if hinted:
            return hinted
    return ready


def choose(service_port, endpoints, node_name, zone):
    """(endpoints of a facet that is not local only, endpoints of one that is)."""
    cluster_list, local_list = [], []
    if service_port.uses_cluster:
        cluster_list = allowed_by_topology([e for e in endpoints if e.ready], node_name, zone)
        if not cluster_list:
            cluster_list = [e for e in endpoints if e.draining]
    if service_port.uses_local:
        local = [e for e in endpoints if e.local]
        local_list = [e for e in local if e.ready] or [e for e in local if e.draining]
    return cluster_list, local_list or cluster_list

#!/usr/bin/env python3
"""Writes NAME.txt for each NAME.body of this folder: what it holds, as another JSON reader sees it.

usage: describe.py    in this folder; watch_recorded_test.cc compares
"""

import datetime
import json
import pathlib

def seconds(text):
    when = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    return int(when.replace(tzinfo=datetime.timezone.utc).timestamp())


def service(metadata, spec, status):
    addresses = [a for a in spec.get("clusterIPs", []) if a != "None"]
    ingress = status.get("loadBalancer", {}).get("ingress", [])
    affinity = spec.get("sessionAffinityConfig", {}).get("clientIP", {}).get("timeoutSeconds")
    return ([f"created={seconds(metadata['creationTimestamp'])}", spec["type"]] +
            (["headless"] if spec.get("clusterIP") == "None" else []) +
            [f"ip={a}" for a in addresses] + [f"family={f}" for f in spec.get("ipFamilies", [])] +
            [f"port={p.get('name', '')}:{p['port']}/{p['protocol']}:{p.get('nodePort', 0)}"
             for p in spec.get("ports", [])] +
            [f"external={a}" for a in spec.get("externalIPs", [])] +
            [f"balancer={i['ip']}" for i in ingress
             if "ip" in i and i.get("ipMode", "VIP") == "VIP"] +
            [f"range={r}" for r in spec.get("loadBalancerSourceRanges", [])] +
            ([f"affinity={affinity}"] if spec.get("sessionAffinity") == "ClientIP" else []) +
            (["external-local"] if spec.get("externalTrafficPolicy") == "Local" else []) +
            (["internal-local"] if spec.get("internalTrafficPolicy") == "Local" else []) +
            [f"health={spec.get('healthCheckNodePort', 0)}"])


def condition(endpoint, name, default):
    return "+" if endpoint.get("conditions", {}).get(name, default) else "-"


def endpoint_words(endpoint):
    hints = endpoint.get("hints", {})
    return ("endpoint=" + endpoint["addresses"][0] + " " + condition(endpoint, "ready", True) +
            condition(endpoint, "serving", True) + condition(endpoint, "terminating", False) +
            f" node:{endpoint.get('nodeName', '')} zone:{endpoint.get('zone', '')}"
            f" target:{endpoint.get('targetRef', {}).get('name', '')}" +
            "".join(" hint:" + zone["name"] for zone in hints.get("forZones", [])))


def endpoint_slice(metadata, item):
    return ([item["addressType"]] +
            ["service=" + metadata.get("labels", {}).get("kubernetes.io/service-name", "")] +
            [f"port={p.get('name', '')}:{p['port']}/{p['protocol']}" for p in item["ports"] or []] +
            [endpoint_words(endpoint) for endpoint in item["endpoints"] or []])


def node(metadata, spec, status):
    addresses = status.get("addresses", [])
    leaving = "deletionTimestamp" in metadata or any(
        taint["key"] == "ToBeDeletedByClusterAutoscaler" for taint in spec.get("taints", []))
    return ([f"internal={a['address']}" for a in addresses if a["type"] == "InternalIP"] +
            [f"external={a['address']}" for a in addresses if a["type"] == "ExternalIP"] +
            [f"pods={cidr}" for cidr in spec.get("podCIDRs", [])] +
            [f"zone={metadata.get('labels', {}).get('topology.kubernetes.io/zone', '')}"] +
            (["to-be-deleted"] if leaving else []))


def describe(item, kind):
    metadata, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    name = "/".join(filter(None, [metadata.get("namespace"), metadata["name"]]))
    if kind == "Service":
        words = service(metadata, spec, status)
    elif kind == "EndpointSlice":
        words = endpoint_slice(metadata, item)
    else:
        words = node(metadata, spec, status)
    return "\n  ".join([f"{kind} {name}"] + words)


def status_line(status):
    after = status.get("details", {}).get("retryAfterSeconds", "-")
    return f"status {status.get('code')} {status.get('reason', '')} {after} {status['message']}"


def event_line(event):
    item = event["object"]
    if event["type"] == "ERROR":
        return "ERROR " + status_line(item)
    version = item["metadata"]["resourceVersion"]
    if event["type"] == "BOOKMARK":
        end = item["metadata"].get("annotations", {}).get("k8s.io/initial-events-end") == "true"
        return f"BOOKMARK {version}" + (" end" if end else "")
    return f"{event['type']} {version} " + describe(item, item["kind"])


def main():
    for body in sorted(pathlib.Path(".").glob("*.body")):
        text = body.read_text(encoding="utf-8")
        values, decoder, at = [], json.JSONDecoder(), 0
        while at < len(text.rstrip()):
            value, at = decoder.raw_decode(text, at)
            values.append(value)
            at += len(text[at:]) - len(text[at:].lstrip())
        if "type" in values[0]:
            lines = [event_line(value) for value in values]
        elif values[0]["kind"].endswith("List"):
            whole = values[0]
            lines = [describe(item, whole["kind"][:-4]) for item in whole["items"]]
            lines.append(f"list {whole['metadata']['resourceVersion']} "
                         f"{whole['metadata'].get('continue', '')}")
        else:
            lines = [status_line(values[0])]
        body.with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares what was asked of an API server with what may be asked: every right used, none missing.

usage: rbac.py CLUSTER_ROLE.yaml <REQUESTS
       rbac.py --self-test

REQUESTS are lines of the test API server: status, method, path, and somewhere "watch=true" if so.
Besides, what was asked must be among the rights that kube-proxy has (ClusterRole system:node-proxier),
with which the daemon runs in kubeadm's place. GET /livez is everybody's (ClusterRole
system:public-info-viewer).
"""

import re
import sys

import yaml

NODE_PROXIER = {
    ("list", "", "services"), ("watch", "", "services"),
    ("get", "", "nodes"), ("list", "", "nodes"), ("watch", "", "nodes"),
    ("list", "", "endpoints"), ("watch", "", "endpoints"),
    ("list", "discovery.k8s.io", "endpointslices"),
    ("watch", "discovery.k8s.io", "endpointslices"),
    ("create", "", "events"), ("patch", "", "events"), ("update", "", "events"),
    ("create", "events.k8s.io", "events"), ("patch", "events.k8s.io", "events"),
    ("update", "events.k8s.io", "events"),
    ("list", "networking.k8s.io", "servicecidrs"), ("watch", "networking.k8s.io", "servicecidrs"),
}
PATH = re.compile(r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/[^/]+(?=/))?"
                  r"/(?P<resource>[^/?]+)(?P<name>/[^/?]+)?$")
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


def right_of(line):
    """(verb, group, resource) that the server's authorizer would ask for."""
    _, method, path, *rest = line.split()
    found = PATH.match(path)
    if not found:
        return (method, "", path)
    verb = VERBS.get(method)
    if method == "GET":
        watch = "watch=true" in rest or "watch=1" in rest
        verb = "get" if found["name"] else "watch" if watch else "list"
    return (verb or method, found["group"] or "", found["resource"])


def rights_of_role(text):
    role = next(o for o in yaml.safe_load_all(text) if o["kind"] == "ClusterRole")
    return {(verb, group, resource) for rule in role["rules"] for verb in rule["verbs"]
            for group in rule["apiGroups"] for resource in rule["resources"]}


def complaints(allowed, lines):
    used = {right_of(line) for line in lines if line.strip()} - {("GET", "", "/livez")}
    return ([f"missing: {right}" for right in sorted(used - allowed)] +
            [f"not used: {right}" for right in sorted(allowed - used)] +
            [f"kube-proxy has no right: {right}" for right in sorted(used - NODE_PROXIER)])


SELF_TEST_ROLE = """
kind: ClusterRole
rules:
  - {apiGroups: [""], resources: [services], verbs: [list, watch]}
  - {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
"""
SELF_TEST_LINES = [
    "200 GET /api/v1/services somebody limit=500",
    "200 GET /api/v1/services somebody allowWatchBookmarks=true watch=true",
    "201 POST /apis/events.k8s.io/v1/namespaces/default/events somebody",
    "200 PATCH /apis/events.k8s.io/v1/namespaces/default/events/a.1 somebody",
]
EVERYBODYS = ["200 GET /livez somebody"]


def self_test():
    allowed = rights_of_role(SELF_TEST_ROLE)
    assert complaints(allowed, SELF_TEST_LINES) == []
    assert complaints(allowed, SELF_TEST_LINES + EVERYBODYS) == []
    for i, line in enumerate(SELF_TEST_LINES):
        assert len(complaints(allowed, SELF_TEST_LINES[:i] + SELF_TEST_LINES[i + 1:])) == 1, line
    for line in ("200 GET /api/v1/services/a x", "200 GET /api/v1/namespaces/a/services/b x"):
        assert right_of(line) == ("get", "", "services"), line
    for line in ("403 GET /api/v1/secrets x", "200 DELETE /api/v1/services/a x",
                 "404 GET /version x", "200 POST /livez x"):
        assert len(complaints(allowed, SELF_TEST_LINES + [line])) == 2, line


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    with open(arguments[0], encoding="utf-8") as file:
        allowed = rights_of_role(file.read())
    found = complaints(allowed, sys.stdin.readlines())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

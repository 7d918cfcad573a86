#!/usr/bin/env python3
"""Runs package/kubectl-ipvs with the real kubectl against a small API server of pods and nodes.

usage: kubectl_ipvs.py ROOT

Only `kubectl exec` is taken out of its hands: what it was told to run, and where, is written down.
"""

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

LABEL = "app.kubernetes.io/name"


def pod(namespace, name, node, phase="Running", labels=None, container="ipvs-proxier"):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "labels": labels or {}},
            "spec": ({"nodeName": node} if node else {}) | {
                "containers": [{"name": container}, {"name": "sidecar"}]},
            "status": {"phase": phase}}


def owned(made, owner="ipvs-proxier", kind="DaemonSet", controller=True, host_network=True,
          leaves=False):
    """The pod as the proxy's are: of a DaemonSet, in the network of its node."""
    made["metadata"]["ownerReferences"] = [{
        "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "0-1",
        "controller": controller}]
    if leaves:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made["spec"]["hostNetwork"] = host_network
    return made


PROXY = {LABEL: "ipvs-proxier"}
OTHER = {"app": "other"}
# Of whoever may run a pod; its name and its namespace are the first of all.
FORGED = "x\nworker-2 kube-system web-0 c\n"
PODS = [
    owned(pod("aaa", "aaa", "worker-1", labels=PROXY | OTHER)),
    owned(pod("aaa", "aab", "worker-2", labels=PROXY | OTHER)),
    owned(pod("kube-system", "aaa-1", "worker-1", labels=PROXY), host_network=False),
    owned(pod("kube-system", "aaa-2", "worker-1", labels=PROXY), kind="ReplicaSet"),
    owned(pod("kube-system", "aaa-3", "worker-1", labels=PROXY), owner="other"),
    owned(pod("kube-system", "aaa-4", "worker-1", labels=PROXY), controller=False),
    owned(pod("kube-system", "aaa-5", "worker-1", labels=PROXY), leaves=True),
    owned(pod("kube-system", "aaa-6", "worker-2", labels=PROXY), owner=FORGED),
    pod("kube-system", "aaa-7", "worker-1", labels=PROXY),
    owned(pod("kube-system", "ipvs-proxier-a1", "worker-1", labels=PROXY)),
    owned(pod("kube-system", "ipvs-proxier-a0", "worker-1", phase="Failed", labels=PROXY)),
    owned(pod("kube-system", "kube-proxy-b2", "worker-2", container="kube-proxy",
              labels=PROXY | {"k8s-app": "kube-proxy"}), owner="kube-proxy"),
    pod("shop", "web-0", "worker-2"),
    pod("shop", "waiting", None),
    owned(pod("own", "other-c3", "worker-3", labels=OTHER), owner="mine"),
    owned(pod("kube-system", "twin-1", "big-worker-1", labels={"app": "twin"})),
    owned(pod("kube-system", "twin-2", "big-worker-1", labels={"app": "twin"})),
    owned(pod("kube-system", "twin-3", "worker-1", labels={"app": "twin"})),
]
NODES = ["worker-1", "worker-2", "worker-3"]


class Server(http.server.BaseHTTPRequestHandler):
    """As much of an API server as kubectl asks for: lists by labels and fields, one object."""

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip("/").split("/")
        if parts == ["api"]:
            return self.answer({"kind": "APIVersions", "versions": ["v1"]})
        if parts == ["apis"]:
            return self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        if parts == ["api", "v1"]:
            kinds = [("pods", "Pod", True), ("nodes", "Node", False)]
            return self.answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                {"name": name, "kind": kind, "namespaced": within, "verbs": ["get", "list"],
                 "shortNames": [name[:2]]} for name, kind, within in kinds]})
        if parts[:2] == ["api", "v1"] and parts[-1] == "pods":
            within = parts[3] if parts[2:3] == ["namespaces"] else None
            return self.answer({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [
                one for one in PODS if selected(one, query) and
                within in (None, one["metadata"]["namespace"])]})
        if parts[:3] == ["api", "v1", "nodes"] and parts[3:] and parts[3] in NODES:
            return self.answer({"kind": "Node", "apiVersion": "v1",
                                "metadata": {"name": parts[3]}})
        if parts[:3] == ["api", "v1", "namespaces"]:
            for one in PODS:
                meta = one["metadata"]
                if parts[3:] == [meta["namespace"]]:
                    return self.answer({"kind": "Namespace", "apiVersion": "v1",
                                        "metadata": {"name": meta["namespace"]}})
                if parts[3:] == [meta["namespace"], "pods", meta["name"]]:
                    return self.answer(one)
        return self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                            "reason": "NotFound", "code": 404,
                            "message": f"\"{parts[-1]}\" not found"}, 404)

    def answer(self, what, status=200):
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def selected(one, query):
    wants = dict(part.split("=", 1) for part in query.get("labelSelector", "").split(",") if part)
    fields = dict(part.split("=", 1) for part in query.get("fieldSelector", "").split(",") if part)
    has = {"status.phase": one["status"]["phase"], "spec.nodeName": one["spec"].get("nodeName")}
    return (all(one["metadata"]["labels"].get(key) == value for key, value in wants.items()) and
            all(has[key] == value for key, value in fields.items()))


WRAPPER = """#!/bin/bash
for word; do
  if [ "$word" = exec ]; then
    printf '%s\\n' "$*" >>"$CALLS"
    [[ "$*" == *worker-2* || "$*" == *b2* ]] && exit "${STATUS_OF_B2:-0}"
    exit "${STATUS:-0}"
  fi
done
exec "$REAL_KUBECTL" "$@"
"""
SELF = "--kubeconfig=KUBECONFIG"
A1 = (SELF + " exec --namespace kube-system ipvs-proxier-a1 --container ipvs-proxier -- ipvsctl ")
B2 = (SELF + " exec --namespace kube-system kube-proxy-b2 --container kube-proxy -- ipvsctl ")
# title, arguments, environment; expected status, calls of exec, a part of what is printed
CASES = [
    ("a node", ["worker-1", "list", "--vip", "10.0.0.1", "-n"], {}, 0,
     [A1 + "list --vip 10.0.0.1 -n"], ""),
    ("a node by its kind", ["node/worker-2", "status"], {}, 0, [B2 + "status"], ""),
    ("the node of a pod", ["-n", "shop", "pod/web-0", "service", "shop/web"], {}, 0,
     [B2.replace(" exec", " -n shop exec") + "service shop/web"], ""),
    ("ipvsctl's status", ["worker-1", "diff"], {"STATUS": "1"}, 1, [A1 + "diff"], ""),
    ("every node, the highest status", ["--all", "diff"], {"STATUS_OF_B2": "2", "STATUS": "1"}, 2,
     [A1 + "diff", B2 + "diff"], "== worker-2"),
    ("another place", ["--selector", "app=other", "--proxy-namespace=own", "--daemon-set", "mine",
                       "worker-3", "list"], {}, 0,
     [SELF + " exec --namespace own other-c3 --container ipvs-proxier -- ipvsctl list"], ""),
    ("another DaemonSet", ["--selector=app=other", "--proxy-namespace", "own", "worker-3", "list"],
     {}, 2, [], "no pod of the DaemonSet ipvs-proxier or kube-proxy"),
    ("another namespace", ["--selector=app=other", "--daemon-set=mine", "worker-3", "list"],
     {}, 2, [], "in namespace kube-system on node worker-3"),
    ("the namespace of a pod is not the proxy's", ["-n", "own", "worker-1", "status"], {}, 0,
     [A1.replace(" exec", " -n own exec") + "status"], ""),
    ("a DaemonSet that is a template", ["--daemon-set=a\" \"b", "worker-1", "list"], {}, 2, [],
     "is no name"),
    ("two pods on one node", ["--selector=app=twin", "big-worker-1", "status"], {}, 2, [],
     "several pods"),
    ("two pods on one node of all", ["--selector=app=twin", "--all", "status"], {}, 2,
     [SELF + " exec --namespace kube-system twin-3 --container ipvs-proxier -- ipvsctl status"],
     "several pods"),
    ("a node without the proxy", ["worker-3", "list"], {}, 2, [],
     "with the labels app.kubernetes.io/name=ipvs-proxier is running in namespace kube-system on node"
     " worker-3"),
    ("no such node", ["worker-9", "list"], {}, 2, [], "\"worker-9\" not found"),
    ("no such pod", ["-n", "shop", "pod/gone", "list"], {}, 2, [], "\"gone\" not found"),
    ("a pod without a node", ["--namespace=shop", "pod/waiting", "list"], {}, 2, [],
     "pod waiting is on no node yet"),
    ("no node", [], {}, 2, [], "usage: kubectl ipvs"),
    ("no command", ["worker-1"], {}, 2, [], "no command of ipvsctl is given"),
    ("something else", ["svc/web", "list"], {}, 2, [], "neither a node nor pod/NAME"),
    ("help", ["--help"], {}, 0, [], "usage: kubectl ipvs"),
]


def run(folder, plugin, server, case):
    """The complaints about one case."""
    _, arguments, extra, status, calls, part = case
    written = folder / "calls"
    written.write_text("")
    config = folder / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "", "namespace": "x"}}]}))
    environment = os.environ | extra | {
        "PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(written), "HOME": str(folder),
        "REAL_KUBECTL": shutil.which("kubectl")}
    done = subprocess.run([plugin, f"--kubeconfig={config}", *arguments], env=environment,
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    said = done.stdout + done.stderr
    found = written.read_text().replace(str(config), "KUBECONFIG").splitlines()
    complaints = []
    if done.returncode != status:
        complaints.append(f"status {done.returncode}, not {status}")
    if found != calls:
        complaints.append(f"ran {found}, not {calls}")
    if part not in said:
        complaints.append(f"did not say \"{part}\"")
    return [f"{one}\n{said}" for one in complaints]


def main(root):
    plugin = pathlib.Path(root) / "package" / "kubectl-ipvs"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "kubectl").write_text(WRAPPER)
        (folder / "kubectl").chmod(0o755)
        for case in CASES:
            complaints = run(folder, plugin, f"http://127.0.0.1:{server.server_port}", case)
            print(f"{'FAILED' if complaints else 'ok'}: {case[0]}")
            for line in complaints:
                print(f"    {line}")
            failed += bool(complaints)
    print(f"test cases: {len(CASES)} | {len(CASES) - failed} passed | {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

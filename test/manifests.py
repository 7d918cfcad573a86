#!/usr/bin/env python3
"""Checks manifests/ as kubectl renders them, against the daemon and against kubeadm's names.

usage: manifests.py ROOT IPVS_PROXIER

Each check gives a list of complaints; those of the DaemonSets are also shown mutants, each of which
one of them must find.
"""

import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

# What kubeadm calls its own: the selector of a DaemonSet cannot be changed, and what has these names
# is replaced in place.
KUBEADM = {"name": "kube-proxy", "selector": {"k8s-app": "kube-proxy"},
           "folder": "/var/lib/kube-proxy", "key": "config.conf"}
DAEMON = "/usr/sbin/ipvs-proxier"


def render(root, folder):
    done = subprocess.run(["kubectl", "kustomize", root / "manifests" / folder],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"kubectl kustomize {folder}: {done.stderr}")
    return [part for part in yaml.safe_load_all(done.stdout) if part]


def render_of_documentation(root):
    """What docs/operations.md tells people to write beside manifests/, rendered."""
    text = (root / "docs/operations.md").read_text(encoding="utf-8")
    blocks = ["".join(line[4:] for line in block.splitlines(True))
              for block in re.findall(r"(?:^    .*\n)+", text, re.M)]
    own, patches, patch = ([b for b in blocks if b.startswith(start)] for start in (
        "apiVersion: kustomize", "patchesJson6902:", "- {op: replace"))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        shutil.copytree(root / "manifests", path / "manifests")
        (path / "my-cluster").mkdir()
        (path / "my-cluster/kustomization.yaml").write_text(own[0] + patches[0], encoding="utf-8")
        (path / "my-cluster/on_delete.yaml").write_text(patch[0], encoding="utf-8")
        return render(path, "../my-cluster")


def one(objects, kind):
    found = [o for o in objects if o["kind"] == kind]
    if len(found) != 1:
        raise SystemExit(f"{len(found)} objects of kind {kind}, not one")
    return found[0]


def known_flags(daemon):
    text = subprocess.run([daemon, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--([a-z][a-z0-9-]*)", text))


def pod(daemon_set):
    return daemon_set["spec"]["template"]["spec"]


def containers(daemon_set):
    return pod(daemon_set)["initContainers"] + pod(daemon_set)["containers"]


def check_flags(daemon_set, flags):
    complaints = []
    for container in containers(daemon_set):
        if container.get("command") != [DAEMON]:
            complaints.append(f"{container['name']}: another command")
        for argument in container["args"]:
            found = re.match(r"--([a-z-]+)(=.*)?$", argument)
            if not found or found.group(1) not in flags:
                complaints.append(f"{container['name']}: unknown flag {argument}")
        variables = {v["name"] for v in container.get("env", [])}
        for variable in re.findall(r"\$\((\w+)\)", " ".join(container["args"])):
            if variable not in variables:
                complaints.append(f"{container['name']}: {variable} is not set")
    return complaints


def check_init(daemon_set):
    complaints = []
    init = pod(daemon_set)["initContainers"]
    if len(init) != 1 or "--init-only" not in init[0]["args"]:
        return ["no init container that prepares the node"]
    if init[0]["securityContext"].get("privileged") is not True:
        complaints.append("sysctls and modules need a privileged init container")
    mounts = {m["mountPath"] for m in init[0]["volumeMounts"]}
    if "/lib/modules" not in mounts:
        complaints.append("the init container does not see the host's modules")
    return complaints


def check_rights(daemon_set):
    complaints = []
    spec = pod(daemon_set)
    if spec.get("securityContext", {}).get("seccompProfile") != {"type": "RuntimeDefault"}:
        complaints.append("not under the runtime's seccomp profile")
    if len(spec["containers"]) != 1:
        return complaints + ["more than one container"]
    rights = dict(spec["containers"][0]["securityContext"])
    expected = {"allowPrivilegeEscalation": False, "privileged": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}}
    if rights != expected:
        complaints.append(f"the container's rights: {rights}")
    if spec.get("hostNetwork") is not True or spec.get("hostPID") or spec.get("hostIPC"):
        complaints.append("wants the node's network namespace, and no other")
    return complaints


def check_mounts(daemon_set):
    complaints = []
    volumes = {v["name"]: v for v in pod(daemon_set)["volumes"]}
    for container in containers(daemon_set):
        for mount in container["volumeMounts"]:
            volume = volumes.get(mount["name"])
            if volume is None:
                complaints.append(f"no volume {mount['name']}")
            elif mount["mountPath"] == "/run/xtables.lock":
                if volume.get("hostPath") != {"path": "/run/xtables.lock", "type": "FileOrCreate"}:
                    complaints.append("the lock is not the host's")
            elif mount["mountPath"] == "/run/ipvs-proxier":
                if set(volume) != {"name", "emptyDir"}:
                    complaints.append("the control socket is not the pod's own")
            elif mount.get("readOnly") is not True:
                complaints.append(f"{mount['mountPath']} is writable")
    main = pod(daemon_set)["containers"][0]["volumeMounts"]
    if "/run/xtables.lock" not in {m["mountPath"] for m in main}:
        complaints.append("the iptables lock is not shared with the host")
    if "/run/ipvs-proxier" not in {m["mountPath"] for m in main}:
        complaints.append("ipvsctl cannot ask")
    return complaints


def check_probes(main):
    """They hold whatever the configuration says: nothing in them is an address of its."""
    complaints = []
    for probe, path in (("startupProbe", "livez"), ("livenessProbe", "livez"),
                        ("readinessProbe", "healthz")):
        asks = main.get(probe, {}).get("exec", {}).get("command")
        if asks != ["/usr/sbin/ipvsctl", "status", f"--probe={path}"] or "httpGet" in main[probe]:
            complaints.append(f"{probe} does not ask {path}")
        elif main[probe].get("timeoutSeconds", 1) < 5:
            complaints.append(f"{probe}: a node that is busy is not one that is dead")
    if any("control-socket" in argument for argument in main["args"]):
        complaints.append("the probes ask elsewhere")
    return complaints


def check_service(daemon_set, config):
    """How it is kept running; config is what the daemon makes of its configuration."""
    complaints = []
    spec, main = pod(daemon_set), pod(daemon_set)["containers"][0]
    strategy = daemon_set["spec"]["updateStrategy"]
    if strategy["type"] != "RollingUpdate" or strategy["rollingUpdate"].get("maxSurge") != 0:
        complaints.append("two daemons of one node would listen on the same ports")
    if spec.get("priorityClassName") != "system-node-critical":
        complaints.append("may be evicted")
    if {"operator": "Exists"} not in spec["tolerations"]:
        complaints.append("a taint keeps it off a node")
    ports = {p["name"]: p["containerPort"] for p in main["ports"]}
    if ports != {"metrics": int(config["metricsBindAddress"].rsplit(":", 1)[1])}:
        complaints.append("the ports are not that of metricsBindAddress")
    complaints += check_probes(main)
    if "limits" in main["resources"] or "requests" not in main["resources"]:
        complaints.append("requests, no limits")
    return complaints


def check_config_path(daemon_set, name, folder, key):
    complaints = []
    volumes = {v["name"]: v for v in pod(daemon_set)["volumes"]}
    for container in containers(daemon_set):
        if f"--config={folder}/{key}" not in container["args"]:
            complaints.append(f"{container['name']}: another --config")
        mount = [m for m in container["volumeMounts"] if m["mountPath"] == folder]
        if not mount or volumes[mount[0]["name"]].get("configMap") != {"name": name}:
            complaints.append(f"{container['name']}: {folder} is not ConfigMap {name}")
    return complaints


def check_names(daemon_set, name, selector):
    complaints = []
    if daemon_set["metadata"]["name"] != name:
        complaints.append("another name")
    if daemon_set["metadata"].get("namespace") != "kube-system":
        complaints.append("another namespace")
    if daemon_set["spec"]["selector"] != {"matchLabels": selector}:
        complaints.append("another selector, which cannot be changed")
    labels = daemon_set["spec"]["template"]["metadata"]["labels"]
    if not selector.items() <= labels.items():
        complaints.append("the pods are not those of the selector")
    if pod(daemon_set)["containers"][0]["name"] != name:
        complaints.append("the container has another name")
    if pod(daemon_set)["serviceAccountName"] != name:
        complaints.append("another ServiceAccount")
    return complaints


def effective_config(daemon, text, complaints):
    """What the daemon makes of a configuration; it must not say a word about it."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "config.conf").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [daemon, f"--config={path}/config.conf", f"--write-config-to={path}/effective"],
            capture_output=True, text=True, check=False)
        told = [line for line in (done.stdout + done.stderr).splitlines()
                if "wrote the configuration" not in line]
        if done.returncode != 0 or told:
            complaints.append(f"status {done.returncode}: {told}")
            return {}
        return yaml.safe_load((path / "effective").read_text(encoding="utf-8"))


def check_role(objects, daemon_set):
    complaints = []
    binding, account = one(objects, "ClusterRoleBinding"), one(objects, "ServiceAccount")
    if binding["roleRef"]["name"] != one(objects, "ClusterRole")["metadata"]["name"]:
        complaints.append("binds another role")
    name = {"kind": "ServiceAccount", "name": account["metadata"]["name"],
            "namespace": "kube-system"}
    if binding["subjects"] != [name]:
        complaints.append("binds somebody else")
    if pod(daemon_set)["serviceAccountName"] != account["metadata"]["name"]:
        complaints.append("runs as somebody else")
    return complaints


def check_monitor(monitor, daemon_set):
    labels = daemon_set["spec"]["template"]["metadata"]["labels"]
    ports = {p["name"] for p in pod(daemon_set)["containers"][0]["ports"]}
    complaints = []
    if not monitor["spec"]["selector"]["matchLabels"].items() <= labels.items():
        complaints.append("the PodMonitor does not select the pods")
    if {e["port"] for e in monitor["spec"]["podMetricsEndpoints"]} - ports:
        complaints.append("the PodMonitor names a port that is not there")
    return complaints


def check_rules(rule):
    complaints = []
    for group in rule["spec"]["groups"]:
        for alert in group["rules"]:
            job = re.search(r'job="([^"]*)"', alert["expr"])
            if job and job.group(1) != "kube-system/ipvs-proxier":
                complaints.append(f"{alert['alert']}: no such job")
            if not alert["annotations"].get("summary") or not alert["labels"].get("severity"):
                complaints.append(f"{alert['alert']}: says nothing")
    return complaints


# After which a watch that had bookmarks is ended (reflector.h).
SILENT_WATCH_ENDS = 180


def check_silence_alert(rule):
    """What is silent is told before the daemon ends it, and with time between two bookmarks."""
    alerts = {a["alert"]: a["expr"] for g in rule["spec"]["groups"] for a in g["rules"]}
    found = re.search(r"ipvsproxier_watch_age_seconds\S* > (\d+)", alerts["IpvsProxierWatchSilent"])
    return [] if found and 90 <= int(found[1]) < SILENT_WATCH_ENDS else ["fires never or always"]


def check_board(board):
    ids = [panel["id"] for panel in board["panels"]]
    complaints = [] if len(set(ids)) == len(ids) else ["panels share an id"]
    following = board["panels"][1:] + [{"type": "row"}]
    for panel, next_panel in zip(board["panels"], following):
        if panel["type"] == "row":  # a heading: asks nothing itself, the panels below it do
            if next_panel["type"] == "row":
                complaints.append(f"row {panel['title']} has no panel")
        elif not panel.get("targets") or not all(t.get("expr") for t in panel["targets"]):
            complaints.append(f"panel {panel['title']} asks nothing")
    return complaints


def differences(one_value, other, path=""):
    """Paths at which two trees differ."""
    if isinstance(one_value, dict) and isinstance(other, dict):
        for key in sorted(one_value.keys() | other.keys()):
            yield from differences(one_value.get(key), other.get(key), f"{path}/{key}")
    elif isinstance(one_value, list) and isinstance(other, list) and len(one_value) == len(other):
        for i, pair in enumerate(zip(one_value, other)):
            yield from differences(*pair, f"{path}/{i}")
    elif one_value != other:
        yield path


# What must not pass: (where in the DaemonSet, what is put there; None removes it).
MAIN = "spec/template/spec/containers/0/"
INIT = "spec/template/spec/initContainers/0/"
MUTANTS = [
    (MAIN + "securityContext/privileged", True),
    (MAIN + "securityContext/capabilities/add", ["NET_ADMIN", "NET_RAW", "SYS_ADMIN"]),
    (MAIN + "securityContext/capabilities/drop", None),
    (MAIN + "securityContext/readOnlyRootFilesystem", False),
    (MAIN + "securityContext/allowPrivilegeEscalation", None),
    (MAIN + "args/0", "--config=/elsewhere"),
    (MAIN + "args/1", "--hostname=$(NODE_NAME)"),
    (MAIN + "args/1", "--hostname-override=$(NODE)"),
    (MAIN + "volumeMounts/0/readOnly", None),
    (MAIN + "volumeMounts/1/mountPath", "/run/other.lock"),
    (MAIN + "ports/0/containerPort", 10250),
    (MAIN + "args/1", "--control-socket=/run/ipvs-proxier/other.sock"),
    (MAIN + "readinessProbe/exec/command/2", "--probe=livez"),
    (MAIN + "livenessProbe/exec/command/2", "--probe=healthz"),
    (MAIN + "startupProbe", {"httpGet": {"path": "/livez", "port": 10256}}),
    (MAIN + "resources/limits", {"memory": "64Mi"}),
    (MAIN + "name", "other"),
    (INIT + "securityContext/privileged", None),
    (INIT + "args/1", "--once"),
    (INIT + "volumeMounts/1/mountPath", "/modules"),
    ("spec/template/spec/hostNetwork", None),
    ("spec/template/spec/hostPID", True),
    ("spec/template/spec/securityContext", {}),
    ("spec/template/spec/priorityClassName", None),
    ("spec/template/spec/tolerations", []),
    ("spec/template/spec/serviceAccountName", "default"),
    ("spec/template/metadata/labels", {}),
    ("spec/selector/matchLabels", {"app": "other"}),
    ("spec/updateStrategy/rollingUpdate/maxSurge", 1),
    ("metadata/namespace", "default"),
]


def mutant(daemon_set, path, value):
    changed = copy.deepcopy(daemon_set)
    at = changed
    *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
    for parent in parents:
        at = at[parent]
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value
    return changed


def judge(daemon_set, flags, config, names):
    return (check_flags(daemon_set, flags) + check_init(daemon_set) + check_rights(daemon_set) +
            check_mounts(daemon_set) + check_service(daemon_set, config) +
            check_config_path(daemon_set, names["config_map"], names["folder"], names["key"]) +
            check_names(daemon_set, names["name"], names["selector"]))


def cases_of(root, daemon):
    """(name, complaints) of each case."""
    base, kubeadm, monitoring = (render(root, f) for f in ("base", "kubeadm", "monitoring"))
    flags = known_flags(daemon)
    ours, theirs = one(base, "DaemonSet"), one(kubeadm, "DaemonSet")
    config_map = one(base, "ConfigMap")
    refused = []
    config = effective_config(daemon, config_map["data"]["config.conf"], refused)
    yield "the base's configuration is accepted without a word", refused
    kubeadm_text = (root / "test/data/kubeadm_config.yaml").read_text(encoding="utf-8")
    refused = []
    kubeadm_config = effective_config(daemon, kubeadm_text, refused)
    yield "so is kubeadm's", refused

    names = {"name": "ipvs-proxier", "selector": {"app.kubernetes.io/name": "ipvs-proxier"},
             "config_map": "ipvs-proxier", "folder": "/etc/ipvs-proxier", "key": "config.conf"}
    yield "the base's DaemonSet", judge(ours, flags, config, names)
    kubeadm_names = {**KUBEADM, "config_map": "kube-proxy"}
    yield "the DaemonSet in kubeadm's place", judge(theirs, flags, kubeadm_config, kubeadm_names)
    yield "the base has all its objects", [] if sorted(o["kind"] for o in base) == [
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "ServiceAccount"
    ] else [o["kind"] for o in base]
    yield "the overlay touches nothing but the DaemonSet", [
        o["kind"] for o in kubeadm if o["kind"] != "DaemonSet"]
    yield "both are one DaemonSet under two names", [
        path for path in differences(ours, theirs)
        if not re.search(r"/(name|labels|matchLabels|args/0|volumeMounts/0|env|volumes/0|"
                         r"serviceAccountName)\b", path)]
    yield "its account has the role", check_role(base, ours)
    told = one(render_of_documentation(root), "DaemonSet")
    yield "an overlay as docs/operations.md has it changes image and strategy", [
        path for path in differences(theirs, told)
        if not re.search(r"/image$|/updateStrategy/(type|rollingUpdate)$", path)] + [
            f"not {wanted}" for wanted, found in (
                ({"type": "OnDelete"}, told["spec"]["updateStrategy"]),
                (True, all(c["image"].startswith("registry.example/") for c in containers(told))))
            if wanted != found]
    monitor = one(monitoring, "PodMonitor")
    yield "the pods are monitored", check_monitor(monitor, ours) + check_monitor(monitor, theirs)
    rules = one(monitoring, "PrometheusRule")
    yield "the alerts", check_rules(rules) + check_silence_alert(rules)
    board = json.loads((root / "manifests/monitoring/ipvs-proxier.json").read_text(encoding="utf-8"))
    yield "the board", check_board(board)
    for path, value in MUTANTS:
        found = judge(mutant(ours, path, value), flags, config, names)
        yield f"found: {path} = {value}", [] if found else ["nobody complains"]


def main(root, daemon):
    if shutil.which("kubectl") is None:
        print("kubectl is missing (package kubernetes-client)")
        return 1
    failures = cases = 0
    for name, complaints in cases_of(pathlib.Path(root), daemon):
        cases += 1
        print(f"{'FAILED' if complaints else 'ok'}: {name}")
        for complaint in complaints:
            print(f"  {complaint}")
        failures += 1 if complaints else 0
    print(f"test cases: {cases} | {cases - failures} passed | {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

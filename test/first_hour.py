#!/usr/bin/env python3
"""Checks docs/first-hour.md: what it tells people to type, as far as that can be checked here.

usage: first_hour.py ROOT IPVS_PROXIER IPVSCTL

Every line of a command ends in "# untried", or is one that is checked: its flags and commands exist,
its paths are in the repository, its files are read by kubectl and by the daemon.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

UNTRIED = re.compile(r"\s+# untried$")

def blocks_of(text):
    """Indented blocks without their indent."""
    return [re.sub(r"^    ", "", block, flags=re.M)
            for block in re.findall(r"(?:^    .*\n)+", text, re.M)]


def is_file(block):
    return re.match(r"(apiVersion|kind):", block) is not None


def help_of(program, *words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True,
                          check=True).stdout


def complaints_of_flags(words, text):
    return [f"{word} is no flag" for word in words
            if word.startswith("--") and
            not re.search(rf"{re.escape(word.split('=')[0])}\b(?!-)", text)]


class Checker:
    def __init__(self, root, daemon, ctl):
        self.root, self.daemon, self.ctl = root, daemon, ctl
        self.dev = (root / "dev").read_text(encoding="utf-8")

    def line(self, line):
        """Complaints about one line of a command."""
        words = UNTRIED.sub("", line).split()
        wrong = [f"{path} is not there" for path in re.findall(r"\bmanifests/[\w/.-]+", line)
                 if not (self.root / path).exists()]
        if UNTRIED.search(line):
            return wrong
        match words[0]:
            case "./dev":
                if not re.search(rf"^cmd_{words[1]}\(\)", self.dev, re.M):
                    wrong.append(f"./dev has no {words[1]}")
            case "build/ipvs-proxier":
                wrong += complaints_of_flags(words[1:], help_of(self.daemon))
            case "build/ipvsctl":
                if re.search(rf"^  {re.escape(words[1])}\s", help_of(self.ctl), re.M):
                    wrong += complaints_of_flags(words[2:], help_of(self.ctl, words[1]))
                else:
                    wrong.append(f"ipvsctl has no {words[1]}")
            case "kubectl" if words[1] == "kustomize":
                pass  # files() runs it
            case "modprobe":
                wrong += [f"{name} is a module that the daemon does not use" for name in words[2:]
                          if not self.names(name)]
            case _:
                wrong.append("nothing here checks it, and it is not marked as untried")
        return wrong

    def names(self, module):
        return subprocess.run(["git", "-C", self.root, "grep", "-qw", module, "--", "netlink", "ipset",
                               "cmd", "test/kernel"], check=False).returncode == 0

    def files(self, blocks):
        """Complaints about the files of my-cluster, as kubectl renders them."""
        kustomization = [b for b in blocks if "kind: Kustomization" in b]
        cluster = [b for b in blocks if "kind: DaemonSet" in b]
        if len(kustomization) != 1 or len(cluster) != 1:
            return ["there is not one kustomization.yaml and one cluster.yaml"]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            shutil.copytree(self.root / "manifests", folder / "manifests")
            (folder / "my-cluster").mkdir()
            for path, content in (("kustomization", kustomization[0]), ("cluster", cluster[0])):
                (folder / f"my-cluster/{path}.yaml").write_text(content, encoding="utf-8")
            done = subprocess.run(["kubectl", "kustomize", folder / "my-cluster"], capture_output=True,
                                  text=True, check=False)
            if done.returncode != 0:
                return [f"kubectl kustomize: {done.stderr}"]
            return self.rendered([part for part in yaml.safe_load_all(done.stdout) if part], folder)

    def rendered(self, objects, folder):
        wrong = []
        daemon_set = next(o for o in objects if o["kind"] == "DaemonSet")
        containers = daemon_set["spec"]["template"]["spec"]["containers"]
        if len(containers) != 1:
            wrong.append("the DaemonSet has more than one container")
        env = {e["name"]: e.get("value") for e in containers[0]["env"]}
        if env.get("KUBERNETES_SERVICE_HOST") != "192.0.2.10":
            wrong.append("the address of the API server is not that of cluster.yaml")
        if not containers[0]["image"].startswith("localhost/ipvs-proxier:"):
            wrong.append(f"the image is {containers[0]['image']}")
        config = next(o for o in objects if o["kind"] == "ConfigMap")["data"]["config.conf"]
        (folder / "config.conf").write_text(config, encoding="utf-8")
        done = subprocess.run([self.daemon, "--config", folder / "config.conf", "--write-config-to",
                               folder / "written"], capture_output=True, text=True, check=False)
        if done.returncode != 0 or "warning" in done.stderr:
            wrong.append(f"the daemon says of config.conf: {done.stderr}")
        return wrong


def complaints(checker, text):
    wrong = []
    blocks = blocks_of(text)
    for block in blocks:
        if is_file(block):
            continue
        for line in block.splitlines():
            wrong += [f"{line}: {what}" for what in checker.line(line)]
    wrong += checker.files(blocks)
    for path in re.findall(r"\]\(([\w.-]+\.md)", text):
        if not (checker.root / "docs" / path).exists():
            wrong.append(f"{path} is not there")
    return wrong


# What must be noticed: a change of the document, and a word of the complaint.
MUTANTS = [
    ("--cleanup", "--clean", "is no flag"),
    ("ipvsctl diff", "ipvsctl differ", "has no differ"),
    ("./dev build", "./dev make", "has no make"),
    ("-k manifests/kubeadm", "-k manifests/kubeadmin", "is not there"),
    ("    systemctl restart k3s   ", "    systemctl restart k3s\n", "not marked as untried"),
    ("bases: [../manifests/base]", "bases: [../manifests/bass]", "kubectl kustomize"),
    ("        mode: ipvs", "        mode: ipvt", "the daemon says"),
    ("(find-out-why.md)", "(find-out.md)", "is not there"),
    ("xt_ipvs nf_conntrack", "xt_ipvz nf_conntrack", "does not use"),
]


def main():
    root, daemon, ctl = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    text = (root / "docs/first-hour.md").read_text(encoding="utf-8")
    checker = Checker(root, daemon, ctl)
    failed = 0
    wrong = complaints(checker, text)
    print(*wrong, sep="\n")
    print("FAILED" if wrong else "ok", "first-hour.md")
    failed += bool(wrong)
    for before, after, word in MUTANTS:
        noticed = before in text and any(
            word in what for what in complaints(checker, text.replace(before, after, 1)))
        print("ok" if noticed else "FAILED", f"selftest: {after.strip()}")
        failed += not noticed
    cases = 1 + len(MUTANTS)
    print(f"test cases: {cases} | {cases - failed} passed | {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

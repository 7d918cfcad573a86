#!/usr/bin/env python3
"""Completes command lines of ipvsctl in real shells: bash, zsh and fish.

usage: completion.py IPVSCTL
"""

import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

# What is typed, and what it must become: whole lines, or candidates that must be among those shown.
LINES = [
    ("a command", "ipvsctl expl", ["explain"]),
    ("a flag", "ipvsctl list --persis", ["--persistent-conn"]),
    ("a value", "ipvsctl list --output ", ["json", "save", "wide", "yaml"]),
    ("a value behind =", "ipvsctl list --output=js", ["--output=json"]),
    ("a set", "ipvsctl sets KUBE-6-NODE-PORT-LOCAL-SCTP", ["KUBE-6-NODE-PORT-LOCAL-SCTP-HAS"]),
    ("a flag behind a value", "ipvsctl list --vip fd00::1 --empt", ["--empty"]),
    ("a link", "ipvsctl explain --in l", ["lo"]),
    ("the daemon's flags", "ipvsctl plan --manif", ["--manifests"]),
    ("a file", "ipvsctl plan --config FOLDER/some", ["FOLDER/something.yaml"]),
    ("nothing", "ipvsctl nonsense --no", []),
]


def in_bash(folder, line):
    """The candidates: what COMPREPLY holds; if that is nothing, what bash then offers by itself, the file names."""
    script = """
eval "$(ipvsctl completion bash)"
[[ $(complete -p ipvsctl) == *'-o default'* ]] || exit
COMP_LINE=$1 COMP_POINT=${#1}
_ipvsctl
current=${1##* }
for one in "${COMPREPLY[@]}"; do printf '%s\\n' "${current%"${current##*[:=]}"}$one"; done
"""
    found = subprocess.run(["bash", "--norc", "-c", script, "bash", line], capture_output=True,
                           text=True, check=True).stdout.splitlines()
    if found:
        return found
    prefix = line.rsplit(" ", 1)[1]
    return [str(path) for path in folder.iterdir() if str(path).startswith(prefix)]


def in_fish(_, line):
    script = "ipvsctl completion fish | source; complete -C $argv[1]"
    found = subprocess.run(["fish", "--no-config", "-c", script, line], capture_output=True,
                           text=True, check=True).stdout.splitlines()
    return [one.split("\t")[0] for one in found]


class Zsh:
    """An interactive zsh on a terminal of its own."""

    def __init__(self, folder):
        child, self.terminal = pty.fork()
        if child == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], os.environ | {"TERM": "dumb", "COLUMNS": "200"})
        self.child = child
        self.send("PS1=; unsetopt zle_bracketed_paste prompt_cr prompt_sp; LISTMAX=0\n"
                  "autoload -Uz compinit; compinit -u -D; source <(ipvsctl completion zsh)\n"
                  "echo ready-$((1 + 1))\n")
        self.until("ready-2\r")

    def send(self, text):
        os.write(self.terminal, text.encode())

    def until(self, wanted, seconds=20):
        seen = ""
        deadline = time.monotonic() + seconds
        while wanted not in seen and time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.2)[0]:
                seen += os.read(self.terminal, 65536).decode(errors="replace")
        assert wanted in seen, f"zsh did not say {wanted!r}: {seen!r}"
        return seen

    def complete(self, line):
        # A completion that is one replaces the word, of several all are listed. Then the line is
        # turned into a comment.
        self.send(line + "\t\t")
        time.sleep(1.5)
        self.send("\x01#\n" "echo done-$((1 + 1))\n")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x08|\x07", "", self.until("done-2\r"))

    def close(self):
        self.send("exit\n")
        os.waitpid(self.child, 0)


def in_zsh(zsh, line, wanted):
    """The wanted ones that are seen, beside what was typed."""
    seen = zsh.complete(line)
    typed = line.rsplit(" ", 1)[1]
    return [one for one in wanted if one in seen and one != typed]


def main(program):
    cases = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "something.yaml").touch()
        (folder / "bin").mkdir()
        (folder / "bin" / "ipvsctl").symlink_to(os.path.abspath(program))
        os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
        os.environ["HOME"] = name
        os.chdir(folder)
        zsh = Zsh(folder)
        for title, line, wanted in LINES:
            line = line.replace("FOLDER", name)
            wanted = [one.replace("FOLDER", name) for one in wanted]
            shells = [("bash", in_bash(folder, line)), ("fish", in_fish(folder, line))]
            if wanted:
                shells.append(("zsh", in_zsh(zsh, line, wanted)))
            for shell, found in shells:
                cases.append((f"{shell}: {title}", sorted(found) == sorted(wanted), found))
        zsh.close()
        unknown = subprocess.run(["ipvsctl", "completion", "tcsh"], capture_output=True, text=True,
                                 check=False)
        cases.append(("no such shell", unknown.returncode == 2 and "tcsh" in unknown.stderr,
                      unknown.stderr))
    failed = 0
    for title, passed, found in cases:
        print(f"{'ok' if passed else 'FAILED'}: {title}" + ("" if passed else f": {found}"))
        failed += not passed
    print(f"test cases: {len(cases)} | {len(cases) - failed} passed | {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

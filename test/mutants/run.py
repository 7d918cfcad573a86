#!/usr/bin/env python3
"""Makes small faults in the product, one at a time, and tells which test notices each.

usage: run.py BUILD_FOLDER [NAME...]

Each fault is a patch beside this file: a sentence that says what is wrong then, and the change. It goes
into a copy of the tree below BUILD_FOLDER, which is built as far as the next test needs. Tests run until
the first that fails: those of the fault's room, then the host's others, then those in the scratch
kernel, and what takes long only for a fault that all these miss. A fault that nothing notices, and a
patch that does not apply or build any more, are failures. Prints a table as it goes.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SUITES = ("unit", "kernel", "long")
PATIENCE = 300  # seconds for a test of the host: some faults make it wait for ever
# Rooms whose unit tests have other names, or more than one.
UNITS = {
    "netlink": ("netlink", "fakes"),
    "ipset": ("ipset", "nft"),
    "sync": ("sync", "sync_thread", "sync_long"),
    "access": ("access", "curl_transport"),
    "watch": ("reflector", "framer", "recorder"),
    "config": ("config", "cmd"),
    "cmd": ("cmd",),
    "ipvs_proxier": ("cleanup", "control", "cmd"),
}
CASE = re.compile(r'<TestCase name="([^"]*)"')


def run(command, folder, patience=None):
    """(status, output); status None: it did not end."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                              errors="replace", timeout=patience)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return None, ""


class Copy:
    """A copy of the tree and its build folder, neither sanitized nor optimised: quick to build."""

    def __init__(self, folder):
        self.tree = folder / "tree"
        self.build = folder / "build"

    def refresh(self):
        files = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard"], capture_output=True, text=True, check=True)
        wanted = {name for name in files.stdout.split("\0") if name and (ROOT / name).is_file()}
        for name in wanted:
            to = self.tree / name
            if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, to)
                os.utime(to)
        for path in [path for path in self.tree.rglob("*") if path.is_file()]:
            if str(path.relative_to(self.tree)) not in wanted:
                path.unlink()

    def configure(self):
        if (self.build / "build.ninja").exists():
            return
        os.environ.setdefault("CXX", "ccache g++")
        # A fault may leave a variable unused.
        subprocess.run(["meson", "setup", str(self.build), str(self.tree), "-Dunity=on", "-Dunity_size=4",
                        "-Ddebug=false", "-Doptimization=0", "-Dwerror=false"], check=True,
                       stdout=subprocess.DEVNULL)

    def ninja(self, *targets):
        return run(["ninja", "-C", str(self.build), *targets], self.tree)

    def patch(self, file, *options):
        return run(["patch", "-p1", "--batch", "--silent", *options, "-i", str(file)], self.tree)

    def tests(self):
        """Of our suites, those of the host first."""
        listed = json.loads(subprocess.run(["meson", "introspect", "--tests", str(self.build)],
                                           capture_output=True, text=True, check=True).stdout)
        ours = [test for test in listed if suite_of(test) in SUITES]
        return sorted(ours, key=lambda test: SUITES.index(suite_of(test)))


def suite_of(test):
    return test["suite"][-1].split(":")[-1]


def targets_of(test, copy):
    """What ninja must build for it: the files of the build folder that its command names."""
    named = [os.path.relpath(word, copy.build) for word in map(os.path.normpath, test["cmd"])
             if word.startswith(str(copy.build) + os.sep)]
    if suite_of(test) != "unit":
        named += ["cmd/ipvs_proxier/ipvs-proxier", "cmd/ipvsctl/ipvsctl", "test/support/api_server/test_api_server"]
    return named


def is_of_cases(test):
    return any(re.search(r"/(unit_\w+|kernel_\w+)$", word) for word in test["cmd"])


def in_order(tests, patch):
    """Those of the rooms that the patch changes first, then those of the host, then the tables'."""
    rooms = {part for path in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M)
             for part in pathlib.PurePath(path).parent.parts}
    first = [name for room in sorted(rooms) for name in UNITS.get(room, (room,))]
    return sorted(tests, key=lambda test: (test["name"] not in first, suite_of(test) != "unit",
                                           test["name"] != "kernel"))


def verdict_of(test, copy):
    """None: it passed. Else what it says."""
    status, output = copy.ninja(*targets_of(test, copy))
    if status != 0:
        return f"DOES NOT BUILD: {output[-2000:]}"
    command = test["cmd"] + (["--abort", "-r", "xml"] if is_of_cases(test) else [])
    status, output = run(command, test.get("workdir") or copy.build,
                         PATIENCE if suite_of(test) == "unit" else None)
    if status == 0:
        return None
    if status is None:
        return f"{test['name']}: does not end"
    cases = CASE.findall(output)
    return f"{test['name']}: {cases[-1]}" if cases else test["name"]


def judge(patch, copy, tests):
    """Who noticed the fault; None: nobody."""
    status, output = copy.patch(patch)
    if status != 0:
        return f"DOES NOT APPLY: {output.strip()}"
    try:
        for test in in_order(tests, patch):
            if verdict := verdict_of(test, copy):
                return verdict
        return None
    finally:
        copy.patch(patch, "--reverse")


def main(folder, names):
    patches = [patch for patch in sorted(HERE.glob("*.patch")) if not names or patch.stem in names]
    if not patches:
        sys.exit("no such mutant")
    copy = Copy(folder)
    copy.refresh()
    copy.configure()
    tests = copy.tests()
    bad = 0
    for patch in patches:
        begun = time.monotonic()
        verdict = judge(patch, copy, tests)
        bad += verdict is None or verdict.startswith("DOES NOT")
        print(f"{patch.stem} | {patch.read_text().splitlines()[0]} | {verdict or 'NOBODY'} | "
              f"{time.monotonic() - begun:.0f} s", flush=True)
    print(f"{len(patches) - bad} passed, {bad} failed, 0 skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))

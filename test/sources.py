"""The sources of the project as a build compiles them, and which of them changed. No program: tidy.py
and alone.py import it."""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITY_FILE = re.compile(r"-unity\d+\.cpp$")
UNITY_INCLUDE = re.compile(r'^#include\s*["<](.+)[">]$', re.M)
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
SITTING = 4 * 60 * 60  # seconds
COMPANY = 12  # sources that are checked as one file


class Source:
    def __init__(self, entry, file):
        self.file = os.path.normpath(file)
        self.path = os.path.relpath(self.file, ROOT)
        self.folder = entry["directory"]
        words = shlex.split(entry["command"])
        if words[0] == "ccache":
            words.pop(0)
        self.compiler = words[0]
        self.flags = []
        skip = False
        for word in words[1:]:
            if skip or word in ("-c", "-MD", entry["file"]):
                skip = False
            elif word in ("-o", "-MQ", "-MF"):
                skip = True
            else:
                self.flags.append(word)

    def company(self):
        """Those of one folder that are compiled alike."""
        return os.path.dirname(self.path), self.flags

    def run(self, command):
        """"" or the complaint."""
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def compiled(self, file=None, options=("-fsyntax-only",)):
        """What the compiler says of it, or of a file in its place."""
        return self.run([self.compiler, *self.flags, *options, str(file or self.file)])


def files_of(entry):
    """What a compile command compiles: a file, or those that meson's unity file includes."""
    file = os.path.join(entry["directory"], entry["file"])
    if not UNITY_FILE.search(file):
        return [file]
    return UNITY_INCLUDE.findall(pathlib.Path(file).read_text())


def sources(build, rooms):
    """Each source of the rooms, once."""
    found = {}
    commands = json.loads((build / "compile_commands.json").read_text())
    for source in (Source(entry, file) for entry in commands for file in files_of(entry)):
        if source.path.startswith(rooms) and source.path.endswith(".cc"):
            found.setdefault(source.path, source)
    return [found[path] for path in sorted(found)]


def companies(work):
    """The sources in groups that can be checked as one file, largest first."""
    groups = []
    for _, alike in itertools.groupby(sorted(work, key=Source.company), key=Source.company):
        alike = list(alike)
        groups += [alike[i:i + COMPANY] for i in range(0, len(alike), COMPANY)]
    return sorted(groups, key=len, reverse=True)


def in_one_file(group, folder):
    """A file in the folder that includes the sources of the group."""
    file = folder / (hashlib.sha256(group[0].path.encode()).hexdigest()[:16] + ".cc")
    file.write_text("".join(f'#include "{source.file}"\n' for source in group))
    return file


class Passed:
    """Remembers what a check found nothing in, beside the compiler cache, for a month: by a hash of the check,
    the source's compile command, the source, and all files of the project that it includes. Another clone with
    the same files has the same hash."""

    FOLDER = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ipvs-proxier/passed"
    MONTH = 30 * 24 * 60 * 60  # seconds

    def __init__(self, check):
        self.check = check
        self.texts = {}
        self.compilers = {}
        self.FOLDER.mkdir(parents=True, exist_ok=True)
        for file in self.FOLDER.iterdir():
            if time.time() - file.stat().st_mtime > self.MONTH:
                file.unlink(missing_ok=True)

    def had(self, source):
        file = self._file(source)
        if file.exists():
            file.touch()
            return True
        return False

    def add(self, source):
        self._file(source).touch()

    def _file(self, source):
        digest = hashlib.sha256("\0".join((self.check, self._version(source.compiler), *source.flags)).encode()
                                .replace(str(ROOT).encode(), b"."))
        for path in sorted(self._reached(source.path)):
            digest.update(path.encode() + b"\0" + self._text(path))
        return self.FOLDER / digest.hexdigest()

    def _version(self, compiler):
        if compiler not in self.compilers:
            self.compilers[compiler] = subprocess.run([compiler, "--version"], capture_output=True, text=True,
                                                      check=True).stdout
        return self.compilers[compiler]

    def _text(self, path):
        """Empty for what is not there, as a header that a build makes."""
        if path not in self.texts:
            file = ROOT / path
            self.texts[path] = file.read_bytes() if file.is_file() else b""
        return self.texts[path]

    def _reached(self, path):
        """The source and what it includes of the project, however far: names are relative to the root."""
        found = {path}
        work = [path]
        while work:
            for name in OWN_INCLUDE.findall(self._text(work.pop()).decode()):
                name = os.path.normpath(name)
                if name not in found:
                    found.add(name)
                    work.append(name)
        return found


def check_groups(groups, check, passed, jobs):
    """Calls check(group, temporary folder), which returns [(source, complaint)], for so many groups at a time.
    Prints the complaints, remembers what has none, and returns the number of complaints."""
    failures = 0
    with (concurrent.futures.ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as folder):
        for answers in pool.map(lambda group: check(group, pathlib.Path(folder)), groups):
            for source, complaint in answers:
                if complaint:
                    failures += 1
                    print(complaint)
                else:
                    passed.add(source)
    return failures


def parse_arguments(*folders):
    """The arguments [--changed] FOLDER... [JOBS] of a program that looks at sources; the folders get these names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--changed", action="store_true")
    for folder in folders:
        parser.add_argument(folder, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("jobs", type=int, nargs="?", default=os.cpu_count())
    return parser.parse_args()


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True,
                          check=True).stdout


# Lines that do not count as a change: comments; and what follows when files move to another folder.
COMMENT = "-I^ *//"
MOVE = ("--find-renames", COMMENT, "-I^ *#include", "-I^namespace ", "-I^}  // namespace ")
STAY = ("--no-renames", COMMENT)


def new_path(path):
    """Of "a/{b => c}/d" or "b => c": that after the renaming."""
    return re.sub(r"\{.* => (.*)\}", r"\1", path).split(" => ")[-1].replace("//", "/")


def changed(*options):
    """The files of the last sitting: what differs, by these options of git diff, from the last commit
    that is four hours older than the newest, and what is not committed. None: that cannot be told (no
    git, a shorter history)."""
    try:
        newest = int(git("log", "-1", "--format=%ct"))
        base = git("rev-list", "-1", "--first-parent", f"--before={newest - SITTING}", "HEAD").strip()
        if not base:
            return None
        # A line for each file: added, removed, path.
        differ = [line.split("\t") for line in git("diff", "--numstat", *options, base).splitlines()]
        return ({new_path(path) for added, removed, path in differ if (added, removed) != ("0", "0")} |
                set(git("ls-files", "--others", "--exclude-standard").splitlines()))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def with_includers(files):
    """The files, and the project's files that include one of them, however far."""
    included_by = {}
    for path in git("ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc").split("\n"):
        if not path or not (ROOT / path).exists():
            continue
        for name in OWN_INCLUDE.findall((ROOT / path).read_text(encoding="utf-8")):
            included_by.setdefault(os.path.normpath(name), []).append(path)
    found = set(files)
    work = list(files)
    while work:
        for path in included_by.get(work.pop(), []):
            if path not in found:
                found.add(path)
                work.append(path)
    return found

"""Runs clang-tidy (.clang-tidy) over the source files, two at a time, and fails on what it finds.

    tests/arch/tidy_test.py BUILD            reads the files that the time allows (see below)
    tests/arch/tidy_test.py BUILD --all      reads every file (a quarter of an hour on two cores)

A file that passed is not read again until it, a header of ours that it includes, .clang-tidy or clang-tidy itself
changes: $DRAFTSMITH_DEPS_DIR/tidy.json (BUILD/tidy.json without the variable) remembers it for every checkout. A file
that includes torch takes ten seconds and more, so one run starts no further file once its time is spent. The files that
the last commits and the working tree changed come first; those that are left over are counted, and the next run goes on
with them.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 200
JOBS = 2
REMEMBERED = 10000  # digests
INCLUDE = re.compile(r'^\s*#\s*include\s*"((?:draftsmith|flex|llama_switch)/[^"]+)"', re.M)


class Digests:
    """Makes the SHA-256 of a file and every header of ours that it includes, at any depth."""

    def __init__(self):
        self.texts = {}

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = path.read_text() if path.exists() else ""
        return self.texts[path]

    def reached(self, path, seen):
        if path not in seen:
            seen.add(path)
            for name in INCLUDE.findall(self.text(path)):
                self.reached(ROOT / "src" / name, seen)
        return seen

    def of(self, path, rules):
        sha = hashlib.sha256(rules.encode())
        for part in sorted(self.reached(path, set())):
            sha.update(f"{part.relative_to(ROOT)}\n{self.text(part)}".encode())
        return sha.hexdigest()


def source_files(build):
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {pathlib.Path(c["directory"], c["file"]).resolve() for c in commands}
    return sorted(f for f in files if f.suffix == ".cc" and ROOT in f.parents and not f.is_relative_to(build))


def tidy(build, path):
    command = ["clang-tidy", "-p", str(build), "--quiet", "--extra-arg=-w", str(path)]  # -w: the build reports warnings
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0, done.stdout.strip() or done.stderr.strip()


def changed_last():
    """Path -> rank in the order of change: the working tree first, then commit by commit; {} outside a git checkout."""
    def lines(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.split("\n")

    names = lines("diff", "--name-only", "HEAD") + lines("log", "--format=", "--name-only", "-n", "300")
    return {ROOT / name: rank for rank, name in reversed(list(enumerate(filter(None, names))))}


class Memory:
    """Digest -> name of the files that passed, in a file that other runs may read and write meanwhile."""

    def __init__(self, path):
        self.path = path
        self.passed = self.read()

    def read(self):
        try:
            return json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}

    def add(self, digest, name):
        self.passed = {**self.read(), **self.passed, digest: name}
        self.passed = dict(list(self.passed.items())[-REMEMBERED:])
        fresh = self.path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(self.passed, indent=1))
        fresh.replace(self.path)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    deadline = time.monotonic() + (float("inf") if "--all" in sys.argv[2:] else SECONDS)
    memory = Memory(pathlib.Path(os.environ.get("DRAFTSMITH_DEPS_DIR", build)) / "tidy.json")
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    rules, digests = version + (ROOT / ".clang-tidy").read_text(), Digests()
    files = source_files(build)
    if len(files) < 100:
        print("the source files were not found in compile_commands.json; configure the build with build.sh")
        return 1
    wanted = {f: digests.of(f, rules) for f in files}
    pending = [f for f in files if wanted[f] not in memory.passed]
    order = changed_last()
    pending.sort(key=lambda f: min(order.get(part, len(order)) for part in digests.reached(f, set())))
    left, faults = [], 0

    def check(path):
        return None if time.monotonic() > deadline else tidy(build, path)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for path, result in zip(pending, pool.map(check, pending)):
            name = str(path.relative_to(ROOT))
            if result is None:
                left.append(name)
            elif result[0]:
                memory.add(wanted[path], name)
            else:
                faults += 1
                print(result[1])
    if left:
        print(f"{len(left)} of {len(files)} files are left for the next run (--all reads them now)")
    print(f"{len(pending) - len(left)} files read, {len(files) - len(pending)} unchanged since they passed, {faults} with faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs clang-tidy (.clang-tidy) over the source files, two at a time, and fails on what it finds.

    tests/arch/tidy_test.py BUILD            reads the files that the time allows (see below)
    tests/arch/tidy_test.py BUILD --all      reads every file (a quarter of an hour on two cores)

A file that passed is not read again until it, a header of ours that it includes, or .clang-tidy changes; BUILD/tidy.json
remembers. A file that includes torch takes ten seconds and more, so one run starts no further file once its time is
spent; the files that are left over are named, and the next run goes on with them.
"""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 200
JOBS = 2
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


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    deadline = time.monotonic() + (float("inf") if "--all" in sys.argv[2:] else SECONDS)
    memory = build / "tidy.json"
    passed = json.loads(memory.read_text()) if memory.exists() else {}
    rules, digests = (ROOT / ".clang-tidy").read_text(), Digests()
    files = source_files(build)
    if len(files) < 100:
        print("the source files were not found in compile_commands.json; configure the build with build.sh")
        return 1
    wanted = {f: digests.of(f, rules) for f in files}
    pending = [f for f in files if passed.get(str(f.relative_to(ROOT))) != wanted[f]]
    pending.sort(key=lambda f: -f.stat().st_mtime)  # what was touched last is read first
    left, faults = [], 0

    def check(path):
        return None if time.monotonic() > deadline else tidy(build, path)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for path, result in zip(pending, pool.map(check, pending)):
            name = str(path.relative_to(ROOT))
            if result is None:
                left.append(name)
            elif result[0]:
                passed[name] = wanted[path]
            else:
                faults += 1
                print(result[1])
    memory.write_text(json.dumps(passed, indent=1))
    if left:
        print(f"{len(left)} of {len(files)} files are left for the next run (--all reads them now): {' '.join(left)}")
    print(f"{len(pending) - len(left)} files read, {len(files) - len(pending)} unchanged since they passed, {faults} with faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

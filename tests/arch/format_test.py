"""Holds the C++ tree to .clang-format, and every line of C++, CMake and shell to 120 columns.

A table that reads better as it is has `// clang-format off` around it in the file, with the reason.
This needs Debian 12's clang-format (14), because another version breaks lines elsewhere.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = {".h", ".cc", ".c", ".inc"}
SCRIPTS = {".sh", ".cmake"}
WIDEST = 120


def files_of(folder, suffixes):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.is_file() and (p.suffix in suffixes or p.name == "CMakeLists.txt"))


def check_format(files, faults):
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    if "version 14." not in version:
        faults.append(f"clang-format is {version.strip()}; the tree is written with Debian 12's version 14")
        return
    done = subprocess.run(["clang-format", "--dry-run", *map(str, files)], capture_output=True, text=True)
    wrong = {line.split(":")[0] for line in done.stderr.splitlines() if "-Wclang-format-violations" in line}
    for name in sorted(wrong):
        faults.append(f"{pathlib.Path(name).relative_to(ROOT)}: not formatted; run clang-format -i on it")
    if done.returncode != 0 and not wrong:
        faults.append(f"clang-format failed: {done.stderr.strip()}")


def check_width(files, faults):
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > WIDEST:
                faults.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} columns wide; at most {WIDEST}")


def main():
    faults = []
    source = [p for folder in ("src", "tests") for p in files_of(folder, SOURCE) if p.suffix in SOURCE]
    scripts = [p for folder in ("src", "tests", "cmake", "tools") for p in files_of(folder, SCRIPTS)]
    scripts += sorted(ROOT.glob("*.sh")) + [ROOT / "CMakeLists.txt"]
    if len(source) < 100:
        faults.append("the source files were not found")
    check_format(source, faults)
    check_width(source + [p for p in scripts if p.suffix not in SOURCE], faults)
    print("\n".join(faults) or f"{len(source)} files are formatted")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

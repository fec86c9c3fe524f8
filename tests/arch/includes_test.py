"""Holds the #include lines of src/ to the rooms' DEPS in CMakeLists.txt: arrows point down only.

A room's files may include their own room, the rooms in its DEPS (its tests also those in TEST_DEPS), and, above the torch
line only, torch. Third-party headers stay out of the rooms' headers, except <ATen/core/Tensor.h>.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "draftsmith"
NO_TORCH = {"base", "config", "store", "text", "data", "spec"}
THIRD_PARTY = re.compile(r"^(nlohmann|yaml-cpp|CLI|llama|ggml|gguf|common|chat|jinja|torch|c10|ATen|gtest|benchmark)\b")


def read_rooms():
    rooms = {}
    text = (ROOT / "CMakeLists.txt").read_text()
    for body in re.findall(r"^room\(([^)]*)\)", text, re.M):
        words = body.split()
        name, key, parts = words[0], None, {}
        for word in words[1:]:
            if word in ("DEPS", "LIBS", "PRIVATE_LIBS", "TEST_DEPS"):
                key = word
                parts[key] = set()
            else:
                parts[key].add(word)
        rooms[name] = parts
    return rooms


def reachable(rooms, name):
    """A room's DEPS must list what it includes itself; what comes through another room's header does not count."""
    return rooms[name].get("DEPS", set()) | {name}


def is_test_file(path):
    """Tests, benches, and headers that only those include (test_*.h, fake_*.h)."""
    if path.stem == "cmd_bench":  # the command of that name
        return False
    return path.stem.endswith(("_test", "_bench")) or path.stem.startswith(("test_", "fake_"))


def check_file(path, rooms, faults):
    room = path.relative_to(SOURCE).parts[0]
    if room not in rooms:
        faults.append(f"{path}: folder {room} is no room of CMakeLists.txt")
        return
    is_test = is_test_file(path)
    allowed = reachable(rooms, room) | (rooms[room].get("TEST_DEPS", set()) if is_test else set())
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if not match:
            continue
        target = match.group(1)
        where = f"{path.relative_to(ROOT)}:{number}"
        if target.startswith("draftsmith/"):
            other = target.split("/")[1]
            if is_test_file(pathlib.Path(target)) and not is_test:
                faults.append(f"{where}: {target} is for tests only")
            if other not in allowed:
                faults.append(f"{where}: room {room} may not include room {other}")
        elif re.match(r"^(torch|c10|ATen)\b", target) and room in NO_TORCH:
            faults.append(f"{where}: room {room} stands below the torch line and includes {target}")
        elif target.startswith("flex/") and "flex" not in rooms[room].get("LIBS", set()):
            faults.append(f"{where}: room {room} may not include the attention library; nn stands before it")
        if path.suffix == ".h" and target == "torch/torch.h":
            faults.append(f"{where}: no header includes torch/torch.h")
        if path.suffix == ".h" and not is_test and THIRD_PARTY.match(target) and target != "ATen/core/Tensor.h":
            faults.append(f"{where}: a header includes third-party {target}")


def check_flex(path, faults):
    """The attention library stands alone: its own headers and the standard library's; benches may measure against torch."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if not match or path.stem.endswith("_bench"):
            continue
        target = match.group(1)
        if target.startswith("draftsmith/") or (THIRD_PARTY.match(target) and not (is_test_file(path) and target.startswith("gtest"))):
            faults.append(f"{path.relative_to(ROOT)}:{number}: the attention library includes {target}")


def check_order(rooms, faults):
    seen = set()
    for name, parts in rooms.items():
        for other in parts.get("DEPS", set()):
            if other not in seen:
                faults.append(f"CMakeLists.txt: room {name} depends on {other}, which is not above it in the list")
        seen.add(name)


def main():
    rooms = read_rooms()
    faults = []
    check_order(rooms, faults)
    files = [p for p in sorted(SOURCE.rglob("*")) if p.suffix in (".h", ".cc")]
    if len(rooms) < 10 or len(files) < 10:
        faults.append("the rooms or their files were not found")
    for path in files:
        check_file(path, rooms, faults)
    flex = [p for p in sorted((ROOT / "src" / "flex").rglob("*")) if p.suffix in (".h", ".cc", ".inc")]
    for path in flex:
        check_flex(path, faults)
    files += flex
    print("\n".join(faults) or f"{len(files)} files in {len(rooms)} rooms: every arrow points down")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

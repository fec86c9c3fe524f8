"""Holds the #include lines of src/ to the rooms' DEPS in CMakeLists.txt: arrows point down only.

A room's files may include their own room, the rooms in its DEPS (its tests also those in TEST_DEPS), and torch, if the
room comes after the torch line in CMakeLists.txt. Every permission is used: a room in DEPS that no file of the product
includes is a fault, and so is one in TEST_DEPS that no test includes. Within a room no header includes upward: if x.h
includes y.h, then y.cc does not include x.h. Third-party headers stay out of the rooms' headers, except
<ATen/core/Tensor.h>. Rooms see only the public headers of the attention library, which are directly in its folder.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "draftsmith"
NO_TORCH = {"base", "config", "store", "spec", "data", "text", "chat"}
FLEX_CONTRACT = {"attention.h", "block_mask.h", "exp_constants.h", "mask.h", "score.h", "view.h"}
THIRD_PARTY = re.compile(r"^(nlohmann|yaml-cpp|fmt|CLI|llama|ggml|gguf|common|chat|jinja|torch|c10|ATen|gtest|benchmark)\b")


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
    """Returns a room and its DEPS. DEPS lists what the room includes itself, not what comes through other headers."""
    return rooms[name].get("DEPS", set()) | {name}


def is_test_file(path):
    """True for tests, benches, and headers that only those include (test_*.h, fake_*.h)."""
    if path.stem == "cmd_bench":  # the command of that name
        return False
    return path.stem.endswith(("_test", "_bench")) or path.stem.startswith(("test_", "fake_"))


def includes_of(path):
    """Yields (line number, included header) for every #include of the file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1)


def check_permissions_are_used(rooms, files, faults):
    used = {name: {"DEPS": set(), "TEST_DEPS": set()} for name in rooms}
    for path in files:
        room = path.relative_to(SOURCE).parts[0]
        kind = "TEST_DEPS" if is_test_file(path) else "DEPS"
        for _, target in includes_of(path):
            if target.startswith("draftsmith/") and room in used:
                used[room][kind].add(target.split("/")[1])
    for name, parts in rooms.items():
        for kind, seen in used[name].items():
            for other in sorted(parts.get(kind, set()) - seen):
                faults.append(f"CMakeLists.txt: room {name} may include {other} ({kind}) but does not; remove the permission")


def check_headers_point_down(files, faults):
    """If y.cc includes x.h of its room, y builds on x, so x.h must not include y.h."""
    includes = {str(p.relative_to(SOURCE.parent)): {t for _, t in includes_of(p)} for p in files}
    for name, targets in includes.items():
        if not name.endswith(".h"):
            continue
        for other in targets:
            same_room = other.split("/")[:2] == name.split("/")[:2]
            if same_room and name in includes.get(other.removesuffix(".h") + ".cc", set()):
                faults.append(f"src/{name}: includes {other}, whose implementation uses {name}; move the shared part down")


def check_file(path, rooms, faults):
    room = path.relative_to(SOURCE).parts[0]
    if room not in rooms:
        faults.append(f"{path}: folder {room} is not a room of CMakeLists.txt")
        return
    is_test = is_test_file(path)
    allowed = reachable(rooms, room) | (rooms[room].get("TEST_DEPS", set()) if is_test else set())
    for number, target in includes_of(path):
        where = f"{path.relative_to(ROOT)}:{number}"
        if target.startswith("draftsmith/"):
            other = target.split("/")[1]
            if is_test_file(pathlib.Path(target)) and not is_test:
                faults.append(f"{where}: {target} is for tests only")
            if other not in allowed:
                faults.append(f"{where}: room {room} may not include room {other}")
        elif re.match(r"^(torch|c10|ATen)\b", target) and room in NO_TORCH:
            faults.append(f"{where}: room {room} comes before the torch line but includes {target}")
        elif target.startswith("flex/") and "flex" not in rooms[room].get("LIBS", set()):
            faults.append(f"{where}: room {room} may not include the attention library; it may use nn instead")
        elif target.startswith("flex/") and target.count("/") > 1:
            faults.append(f"{where}: {target} is inside the attention library; its public headers are in src/flex")
        if path.suffix == ".h" and target == "torch/torch.h":
            faults.append(f"{where}: no header includes torch/torch.h")
        if path.suffix == ".h" and not is_test and THIRD_PARTY.match(target) and target != "ATen/core/Tensor.h":
            faults.append(f"{where}: a header includes third-party {target}")


def check_flex(path, faults):
    """The attention library includes only its own headers and the standard library's; its benches may include torch.
    Its contract, which every backend implements, includes nothing of a backend."""
    for number, target in includes_of(path):
        if path.parent.name == "flex" and path.name in FLEX_CONTRACT and target.startswith("flex/") and target[5:] not in FLEX_CONTRACT:
            faults.append(f"{path.relative_to(ROOT)}:{number}: the contract of all backends includes {target}")
        if path.stem.endswith("_bench"):
            continue
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
    check_permissions_are_used(rooms, files, faults)
    check_headers_point_down(files, faults)
    flex = [p for p in sorted((ROOT / "src" / "flex").rglob("*")) if p.suffix in (".h", ".cc", ".inc")]
    for path in flex:
        check_flex(path, faults)
    files += flex
    print("\n".join(faults) or f"{len(files)} files in {len(rooms)} rooms: every arrow points down")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

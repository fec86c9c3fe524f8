"""Tests that a run holds as much memory as `train --dry-run` says, within 15 %. It judges memory, so its label is
bars."""
import pathlib
import re
import unittest

from common import MODEL, ROOT, read_lines, run, scratch, write_lines

TRAIN_LINES, STEPS = 96, 150


class Memory(unittest.TestCase):
    def test_a_run_holds_what_the_dry_run_says(self):
        with scratch() as name:
            folder = pathlib.Path(name)
            write_lines(folder / "train.jsonl", read_lines(ROOT / "prompts/answers/train.jsonl")[:TRAIN_LINES])
            run("prepare", "--model", MODEL, "--train", folder / "train.jsonl", "--eval-count", 8, "--output", folder / "data")
            assignments = [
                f"output={folder / 'run'}", f"data.path={folder / 'data'}", "draft.block_size=4", "draft.layers=2",
                f"train.max_steps={STEPS}", "train.max_minutes=0", "train.epochs=100",
            ]  # fmt: skip
            words = ["train", ROOT / "recipes/smollm2.yaml", *(word for pair in assignments for word in ("--set", pair))]
            said = self.gigabytes("in all", run(*words, "--dry-run")[0])
            held = self.gigabytes("peak memory", run(*words)[0])
            self.assertLess(abs(said / held - 1), 0.15, f"the dry run said {said} GB, the run held {held} GB")

    def gigabytes(self, label, text):
        found = re.search(rf"{label} +([0-9.]+) GB", text)
        self.assertIsNotNone(found, text)
        return float(found[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)

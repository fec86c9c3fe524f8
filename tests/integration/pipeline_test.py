"""Tests the whole way with the real model: prepare, train, stop and resume, evaluate, generate, export, and decode with
llama.cpp.

The drafter trains for a few minutes only, so that it accepts something; how good a drafter gets is the demo's business. llama.cpp's
tau must be within 5 % of ours and both must be lossless.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import numpy

from common import DRAFTSMITH, LLAMA_CLIENT, MODEL, ROOT, read_lines, run, scratch, write_lines

TRAIN_LINES, STEPS, BLOCK = 96, 150, 4
PROMPTS, TOKENS = 40, 128


def tensors_of(file):
    """Reads a safetensors file as numpy arrays (F32, U8, I32, I64; BF16 as raw u16)."""
    raw = pathlib.Path(file).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    kinds = {"F32": numpy.float32, "BF16": numpy.uint16, "U8": numpy.uint8, "I32": numpy.int32, "I64": numpy.int64}
    return {
        name: numpy.frombuffer(raw, kinds[t["dtype"]], offset=8 + size + t["data_offsets"][0], count=int(numpy.prod(t["shape"]))).reshape(t["shape"])
        for name, t in header.items()
        if name != "__metadata__"
    }


class Pipeline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = scratch()
        cls.folder = pathlib.Path(cls.scratch.name)
        lines = read_lines(ROOT / "prompts/answers/train.jsonl")[:TRAIN_LINES]
        write_lines(cls.folder / "train.jsonl", lines)
        cls.data, cls.run_folder = cls.folder / "data", cls.folder / "run"
        cls.prepared, _ = run(
            "prepare", "--model", MODEL, "--train", cls.folder / "train.jsonl", "--eval", ROOT / "prompts/answers/eval.jsonl",
            "--output", cls.data,
        )  # fmt: skip
        cls.sets = [
            f"output={cls.run_folder}", f"data.path={cls.data}", f"draft.block_size={BLOCK}", "draft.layers=2",
            f"train.max_steps={STEPS}", "train.max_minutes=0", "train.epochs=100", "train.save_every=50",
        ]  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def train(cls, *more, **options):
        words = [word for assignment in cls.sets for word in ("--set", assignment)]
        return run("train", ROOT / "recipes/smollm2.yaml", *words, *more, **options)

    def test_1_prepared_data_is_supervised_where_it_should_be(self):
        self.assertIn(f"{TRAIN_LINES} lines read = {TRAIN_LINES} kept + 0 skipped", self.prepared)
        data = tensors_of(self.data / "train.safetensors")
        offsets = data["document_offsets"]
        self.assertEqual(len(offsets), TRAIN_LINES + 1)
        for begin, end in zip(offsets[:-1], offsets[1:]):
            ids, mask = data["token_ids"][begin:end], data["loss_mask"][begin:end]
            self.assertEqual(ids[0], 1)  # <|im_start|>
            self.assertEqual(mask[0], 0)
            self.assertGreater(mask.sum(), 0)
            # End-of-turn (id 2, also SmolLM2's pad) is supervised in at most half of the turns: those of the assistant.
            self.assertLessEqual((ids[mask == 1] == 2).sum(), (ids == 1).sum() // 2)

    def test_2_dry_run_trains_nothing(self):
        text, _ = self.train("--dry-run")
        self.assertIn("parameters", text)
        self.assertRegex(text, r"in all +[0-9.]+ GB")
        self.assertFalse((self.run_folder / "checkpoints").exists())

    def test_3_training_stops_on_request_and_goes_on(self):
        words = [word for assignment in self.sets for word in ("--set", assignment)]
        process = subprocess.Popen(
            [DRAFTSMITH, "train", "recipes/smollm2.yaml", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.time() + 600
        metrics = self.run_folder / "metrics.jsonl"
        while time.time() < deadline and not (metrics.exists() and metrics.stat().st_size > 0) and process.poll() is None:
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("--resume", error)
        _, refused = self.train(code=1)  # a second start over a run's checkpoints needs --resume
        self.assertIn(str(self.run_folder), refused)
        text, _ = self.train("--resume", "--set", "train.log_every=10")
        self.assertIn(f"{STEPS} of {STEPS}", text)
        self.assertRegex(text, r"peak memory +[0-9.]+ GB")
        lines = read_lines(metrics)
        steps = [line["step"] for line in lines if "loss" in line]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], STEPS)
        losses = [line["loss"] for line in lines if "loss" in line]
        self.assertLess(losses[-1], losses[0])
        self.assertTrue((self.run_folder / "plot.svg").exists())
        self.assertTrue(list((self.run_folder / "tensorboard").glob("events.out.tfevents.*")))

    def test_4_evaluation_is_lossless_and_drafts_are_accepted(self):
        text, _ = run(
            "eval", "--drafter", self.run_folder, "--prompts", PROMPTS, "--max-new-tokens", TOKENS, "--compute", "fp32",
            "--json", self.folder / "eval.json", "--write-requests", self.folder / "requests.jsonl",
        )  # fmt: skip
        report = json.loads((self.folder / "eval.json").read_text())
        self.assertEqual(report["lossless"]["failures"], 0)
        self.assertTrue(report["lossless"]["passed"])
        self.assertEqual(len(report["requests"]), PROMPTS)
        self.assertEqual(len(report["kinds"]), 7)
        self.assertGreater(report["all"]["tau_over_steps"], 1.0)
        print(text, file=sys.stderr)
        self.assertIn("tau", text)

    def test_5_generate_gives_the_same_text_with_and_without_the_drafter(self):
        words = ["generate", "--max-new-tokens", 24, "--system", "You are a helpful assistant.", "What is the capital of France?"]
        plain, _ = run(*words, "--model", MODEL)
        drafted, figures = run(*words, "--drafter", self.run_folder)
        self.assertIn("Paris", plain)
        self.assertEqual(plain, drafted)
        self.assertIn("tau", figures)
        self.assertIn("tokens/s", figures)

    def test_6_exports_explain_themselves(self):
        run("export", "--to", "hf", "--drafter", self.run_folder, "--output", self.folder / "hf", "--dtype", "bf16")
        run("export", "--to", "gguf", "--drafter", self.run_folder, "--output", self.folder / "drafter.gguf", "--dtype", "f32")
        config = json.loads((self.folder / "hf" / "config.json").read_text())
        self.assertEqual(config["architectures"], ["DFlashDraftModel"])
        self.assertEqual(config["block_size"], BLOCK)
        self.assertEqual(config["dflash_config"]["block_size"], BLOCK)
        self.assertEqual(len(tensors_of(self.folder / "hf" / "model.safetensors")), 11 * 2 + 3 + 2)  # the head's rows, d2t
        self.assertIn("DFlash drafter for llama.cpp", run("inspect", self.folder / "drafter.gguf")[0])
        self.assertRegex(run("inspect", self.folder / "hf")[0], r"a drafter\n +family +dflash\n")
        self.assertIn("checkpoint", run("inspect", self.run_folder)[0])
        self.assertIn(f"{TRAIN_LINES} documents", run("inspect", self.data)[0])

    def test_7_llama_cpp_accepts_as_many_drafts(self):
        report = json.loads((self.folder / "eval.json").read_text())
        done = subprocess.run(
            [sys.executable, ROOT / "tools/llama_tau.py", "--binary", LLAMA_CLIENT, "--target", MODEL, "--drafter", self.folder / "drafter.gguf",
             "--draft-max", str(BLOCK - 1), "--prompts", self.folder / "requests.jsonl", "--max-new-tokens", str(TOKENS),
             "--noise", str(report["lossless"]["noise"]), "--aligned"],
            capture_output=True, text=True, timeout=1500, env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        theirs = json.loads(done.stdout)

        def tau(requests):
            """Returns tau, pooled over steps without each request's first and those that the limit or an end id cut,
            and the number of these steps."""
            steps = [step for request in requests for step in request["steps"][1:] if not step["cut"]]
            return sum(step["accepted"] + 1 for step in steps) / len(steps), len(steps)

        ours, num_ours = tau(report["requests"])
        others, num_others = tau(theirs["requests"])
        print(f"tau: ours {ours:.4f} over {num_ours} steps, llama.cpp {others:.4f} over {num_others} steps", file=sys.stderr)
        print(f"texts: {theirs['text']}", file=sys.stderr)
        self.assertGreaterEqual(len(theirs["requests"]), PROMPTS - 2)
        self.assertEqual(theirs["text"]["failure"], 0)
        self.assertLessEqual(theirs["text"]["tie"], 0.01 * PROMPTS)
        self.assertLess(abs(others / ours - 1), 0.05)


if __name__ == "__main__":
    unittest.main(failfast=True, verbosity=2)

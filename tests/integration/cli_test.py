"""Tests the program's words: help, exit codes and errors. No model is loaded for longer than a refusal takes."""
import json
import pathlib
import unittest

from common import MODEL, ROOT, run, scratch

COMMANDS = ["prepare", "train", "eval", "generate", "export", "inspect", "verify", "smoke", "bench", "env"]


class Words(unittest.TestCase):
    def test_every_command_shows_an_example(self):
        overview, _ = run("--help")
        for command in COMMANDS:
            self.assertIn(command, overview)
            text, _ = run(command, "--help")
            self.assertIn("xample", text)
            self.assertIn(f"draftsmith {command}", text)

    def test_usage_errors_end_with_2(self):
        for words in ([], ["fly"], ["train"], ["export", "--to", "onnx", "--drafter", "x", "--output", "y"], ["eval", "--nope"]):
            _, error = run(*words, code=2)
            self.assertTrue(error.startswith("draftsmith: "), error)
            self.assertEqual(len(error.strip().splitlines()), 1, error)

    def test_failures_end_with_1_and_name_the_file(self):
        for words in (
            ["inspect", "/nowhere/model.gguf"],
            ["eval", "--drafter", "/nowhere", "--data", "/nowhere"],
            ["verify", "/nowhere.safetensors"],
            ["prepare", "--model", "/nowhere.gguf", "--train", "x.jsonl", "--output", "/tmp/never"],
        ):
            _, error = run(*words, code=1)
            self.assertIn("/nowhere", error)
            self.assertEqual(len(error.strip().splitlines()), 1, error)

    def test_sampling_is_refused_until_it_is_lossless(self):
        _, error = run("generate", "--model", MODEL, "--temperature", "0.7", "hello", code=2)
        self.assertIn("temperature", error)

    def test_env_says_what_a_bug_report_needs(self):
        text, _ = run("env")
        for word in ("draftsmith", "libtorch", "llama.cpp", "processor", "memory", "cores"):
            self.assertIn(word, text)


SMALL = ["draft.hidden_size=64", "draft.intermediate_size=96", "draft.heads=4", "draft.kv_heads=2", "draft.head_dim=32",
         "draft.layers=2", "model.vocab_size=500"]


class Smoke(unittest.TestCase):
    def words(self, *assignments):
        return [word for assignment in assignments for word in ("--set", assignment)]

    def test_a_recipe_runs_on_random_numbers(self):
        text, _ = run("smoke", *self.words(*SMALL))
        self.assertIn("parameters", text)
        self.assertIn("ok     no gradient crosses documents", text)
        self.assertNotIn("FAILED", text)

    def test_a_whole_pack(self):
        text, _ = run("smoke", "--rows", "300", "--anchors", "20", *self.words(*SMALL))
        self.assertRegex(text, r"pack of 300 +300 +20 ")

    def test_a_size_that_is_missing_is_named(self):
        _, error = run("smoke", *self.words(*SMALL, "draft.head_dim=0"), code=1)
        self.assertIn("draft.head_dim", error)


class Bench(unittest.TestCase):
    def test_a_step_says_where_its_time_goes(self):
        text, _ = run("bench", "step", "--row", "64", "--anchors", "8", "--repeats", "3", "--json")
        figures = json.loads(text)
        parts = figures["parts"]
        self.assertEqual(list(parts), ["projections", "attention", "mlp", "head + loss", "optimizer", "rest"])
        for part, seconds in parts.items():  # "rest" is below zero if the others count time twice
            self.assertGreater(seconds, 0, part)
        self.assertEqual(figures["step_seconds"], sorted(figures["all_seconds"])[1])
        self.assertAlmostEqual(figures["tokens_per_second"] * figures["step_seconds"], 64, places=6)
        self.assertAlmostEqual(figures["gflop_per_second"] * figures["step_seconds"], figures["gflop"], places=6)


class Recipes(unittest.TestCase):
    def test_an_unknown_key_names_the_nearest(self):
        _, error = run("train", "recipes/smollm2.yaml", "--set", "train.learning_rte=1e-3", code=2)
        self.assertIn("learning_rate", error)

    def test_a_wrong_type_names_the_key(self):
        _, error = run("train", "recipes/smollm2.yaml", "--set", "draft.layers=many", code=2)
        self.assertIn("draft.layers", error)

    def test_printed_configuration_reads_back_as_itself(self):
        first, _ = run("train", "recipes/smollm2.yaml", "--set", "draft.layers=2", "--set", "train.epochs=3", "--print-config")
        self.assertIn("layers: 2", first)
        with scratch() as folder:
            file = pathlib.Path(folder) / "run.yaml"
            file.write_text(first)
            second, _ = run("train", file, "--print-config")
        self.assertEqual(first, second)

    def test_data_that_is_not_there_is_named(self):
        _, error = run("train", "recipes/smollm2.yaml", "--set", "data.path=/nowhere/data", code=1)
        self.assertIn("/nowhere/data", error)


class Inspect(unittest.TestCase):
    def test_a_target(self):
        text, _ = run("inspect", MODEL)
        for word in ("llama", "272", "Q4_1", "134.5M", "tied"):
            self.assertIn(word, text)

    def test_a_drafter(self):
        text, _ = run("inspect", ROOT / "tests/golden/decode_qwen3/drafter", "--tensors")
        for word in ("block size", "fc.weight", "layers.1.mlp.down_proj.weight", "[1, 3]"):
            self.assertIn(word, text)

    def test_a_file_that_is_no_model(self):
        _, error = run("inspect", ROOT / "README.md", code=1)
        self.assertIn("README.md", error)


if __name__ == "__main__":
    unittest.main()

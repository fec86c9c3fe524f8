"""The committed answers are the demo model's own: they answer the committed prompts, and a sample is generated again."""
import pathlib
import unittest

from common import MODEL, ROOT, read_lines, run, scratch, write_lines

SAMPLE, TOKENS = 8, 160  # prompts/README.md says that the answers were made with this limit of tokens


def questions(row):
    return [m["content"] for m in row["messages"] if m["role"] != "assistant"]


def has_avx512():
    return "avx512f" in pathlib.Path("/proc/cpuinfo").read_text()


def common_beginning(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


class Answers(unittest.TestCase):
    def test_every_prompt_is_answered_in_its_place(self):
        for name in ("train", "eval"):
            prompts, answers = read_lines(ROOT / f"prompts/{name}.jsonl"), read_lines(ROOT / f"prompts/answers/{name}.jsonl")
            self.assertEqual(len(answers), len(prompts))
            for answer, prompt in zip(answers, prompts):
                asked = questions(answer)
                # A dialogue ends where an answer stopped at the limit, because nothing can follow an unfinished turn.
                self.assertEqual(asked, questions(prompt)[: len(asked)])
                self.assertTrue(answer.get("cut", False) or asked == questions(prompt))
            self.assertTrue(all(row["messages"][-1]["role"] == "assistant" for row in answers))
            self.assertEqual([row["kind"] for row in answers], [row["kind"] for row in prompts])

    def test_a_sample_is_what_the_model_says_again(self):
        prompts, answers = read_lines(ROOT / "prompts/eval.jsonl"), read_lines(ROOT / "prompts/answers/eval.jsonl")
        with scratch() as name:
            folder = pathlib.Path(name)
            write_lines(folder / "sample.jsonl", prompts[:SAMPLE])
            run(
                "prepare", "--model", MODEL, "--train", folder / "sample.jsonl", "--output", folder / "data", "--regenerate",
                "--max-new-tokens", TOKENS, "--write-jsonl", folder / "again", "--threads", 1,
            )  # fmt: skip
            again = read_lines(folder / "again" / "train.jsonl")
        pairs = [(a["messages"][-1]["content"], b["messages"][-1]["content"]) for a, b in zip(again, answers)]
        if not has_avx512():
            # The answers were made with AVX-512. Kernels of other instruction sets round differently, so a near-tie
            # falls differently somewhere in a text of 160 tokens; up to there the texts are the same.
            beginnings = [common_beginning(a, b) for a, b in pairs]
            self.assertGreaterEqual(min(beginnings), 8, beginnings)
            self.assertGreaterEqual(sum(beginnings) / len(beginnings), 60, beginnings)
            return
        equal = sum(a["messages"] == b["messages"] for a, b in zip(again, answers))
        # All are equal on a processor of the same kind. Kernels of another round differently, so a near-tie may fall
        # differently.
        self.assertGreaterEqual(equal, SAMPLE * 3 // 4, f"{equal} of {SAMPLE} answers are what the model says")
        for a, b in pairs:
            self.assertEqual(a[:12], b[:12])


if __name__ == "__main__":
    unittest.main()

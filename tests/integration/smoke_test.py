"""The drafter that this project plans for passes the smoke test at its full width, within 16 GiB and six minutes."""
import re
import time
import unittest

from common import run

MOST_GIB, MOST_SECONDS = 16, 360


class Seed(unittest.TestCase):
    def test_it_passes_within_its_memory_and_time(self):
        began = time.monotonic()
        text, _ = run("smoke")
        seconds = time.monotonic() - began
        print(text)
        self.assertIn("1,703,998,720 (1704.0M)", text)
        peaks = [float(gib) for gib in re.findall(r"([0-9.]+) GiB", text)]
        self.assertEqual(len(peaks), 3)
        self.assertLess(max(peaks), MOST_GIB)
        self.assertLess(seconds, MOST_SECONDS)


if __name__ == "__main__":
    unittest.main()

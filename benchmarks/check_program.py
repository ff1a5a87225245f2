# SPDX-License-Identifier: Apache-2.0
"""check_program.py PROGRAM: what holdfast_bench prints, never how fast anything is."""
import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
FIELDS = ["suite", "case", "ours", "peer", "peer_name", "unit", "better", "ratio"]
PROMISED = {
    "uncontended",
    "handoff",
    "queue_1m",
    "cancel_1m",
    "allocations_per_wait",
}


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=600)


class Program(unittest.TestCase):
    def test_list_names_the_promised_cases(self):
        done = run("--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        cases = [line.split(" ") for line in done.stdout.splitlines()]
        self.assertTrue(all(len(words) == 2 for words in cases), done.stdout)
        self.assertLessEqual(PROMISED, {name for suite, name in cases if suite == "sync"})
        self.assertEqual(len(cases), len({tuple(words) for words in cases}), "a name twice")

    def test_json_has_exactly_the_promised_fields(self):
        done = run("sync", "--case", "allocations_per_wait", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (line,) = done.stdout.splitlines()
        found = json.loads(line)
        self.assertEqual(list(found), FIELDS)
        self.assertEqual((found["suite"], found["case"]), ("sync", "allocations_per_wait"))
        self.assertIn(found["better"], ("higher", "lower"))
        for field in ("ours", "peer", "ratio"):
            self.assertIsInstance(found[field], (int, float))
        for field in ("peer_name", "unit"):
            self.assertIsInstance(found[field], str)

    def test_table_has_a_row_per_case(self):
        done = run("--case", "allocations_per_wait")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        heading, row = done.stdout.splitlines()
        self.assertRegex(heading, r"^case +ours +peer +unit +ratio +limit +verdict +peer is$")
        self.assertRegex(row, r"^sync allocations_per_wait +[0-9.]+ +[0-9.]+ +allocations ")

    def test_what_is_unknown_is_refused(self):
        for arguments, message in [
            (["no_such"], "unknown suite 'no_such'; known are: "),
            (["sync", "--case", "no_such"], "unknown case 'no_such'; known are: "),
            (["--case"], "--case needs a name"),
            (["--no-such"], "unknown option '--no-such'"),
        ]:
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn(message, done.stderr)


unittest.main()

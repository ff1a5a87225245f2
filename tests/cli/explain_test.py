# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM LOCK_MAKER=PROGRAM python3 explain_test.py [CLASS]: `holdfast explain` and
`holdfast graph`."""
import json
import re
import shutil
import subprocess
import unittest

from locks_in_a_folder import PROGRAM, InAFolder


class WithWaits(InAFolder):
    def name_of(self, lock: str) -> str:
        return self.show(lock)["holders"][0]["holder"]

    def explain(self, what: str) -> list[str]:
        text = self.expect(0, "explain", what).stdout.splitlines()
        told = json.loads(self.expect(0, "explain", what, "-o", "json").stdout)
        numbers = re.compile(r"\d+(ms|s|m|h|d)\b")
        self.assertEqual([numbers.sub("#", line) for line in text],
                         [numbers.sub("#", line) for line in told["text"]])
        return text

    def as_json(self, *words: str) -> dict:
        return json.loads(self.expect(0, *words, "-o", "json").stdout)

    def nest(self, first: str, second: str):
        """Holds the first; its command waits for the second."""
        before = self.show(second)["waiting"]
        process = self.start(first, "--", "sh", "-c",
                             f"{PROGRAM} lock {second} -- true; echo in; read code; exit $code")
        while self.show(second)["waiting"] == before:
            self.assertIsNone(process.poll())
        return process


class Locks(WithWaits):
    def test_who_has_it_who_waits_and_what_would_let_the_first_in(self):
        holder = self.hold("a", "--reason", "nightly")
        first = self.wait_in_queue("a", "-w", "1h", "--", "true")
        second = self.wait_in_queue("a", "--", "true")
        name = self.name_of("a")
        lines = self.explain("a")
        self.assertEqual(lines[0], "'a': mutex, open, capacity 1, 1 held, 2 waiting")
        self.assertRegex(lines[1], rf"^{name} has it for \d+\S*, with fence {holder.words[2]}, "
                                   r"reason: nightly; its lease ends in \d+s unless")
        self.assertRegex(lines[2], r"^1\. true:\d+@\S+ waits for \S+: it wants 1, and 0 are free$")
        self.assertRegex(lines[3], r"^2\. true:\d+@\S+ waits")
        self.assertRegex(lines[4], rf"^the first of them gets in when {name} lets go of it; at the "
                                   r"latest in \d+s, if the lease is not renewed; it gives up in "
                                   r"59m \d+s$")
        told = self.as_json("explain", "a")
        self.assertEqual((told["kind"], told["lock"]["name"]), ("lock", "a"))
        self.assertEqual(told["next"]["holder"], told["lock"]["waiters"][0]["holder"])
        self.assertEqual(told["next"]["when"], f"when {name} lets go of it")
        self.assertTrue(0 < told["next"]["at_latest_ms"] <= 30_000)
        self.finish(holder)
        self.assert_ends(first, 0)
        self.assert_ends(second, 0)

    def test_nobody(self):
        self.expect(0, "lock", "a", "--", "true")
        self.assertEqual(self.explain("a"), ["'a': mutex, open, capacity 1, 0 held, 0 waiting",
                                             "nobody has it"])
        self.assertIsNone(self.as_json("explain", "a")["next"])

    def test_what_operators_did(self):
        self.expect(0, "lock", "gpus", "--slots=2", "--", "true")
        self.expect(0, "locks", "pause", "gpus")
        waiter = self.wait_in_queue("gpus", "--slots=2", "--weight=2", "--", "true")
        text = "\n".join(self.explain("gpus"))
        self.assertIn(": it is paused", text)
        self.assertIn("gets in when an operator resumes the lock", text)
        self.expect(0, "locks", "set", "gpus", "--capacity=1")
        self.expect(0, "locks", "resume", "gpus")
        text = "\n".join(self.explain("gpus"))
        self.assertIn("it wants 2, more than there is at present", text)
        self.assertIn("gets in when an operator gives the lock a capacity of 2", text)
        self.expect(0, "locks", "set", "gpus", "--capacity=defined")
        self.assert_ends(waiter, 0)

    def test_readers_and_several_holders(self):
        readers = [self.hold("data", "--shared") for _ in range(2)]
        writer = self.wait_in_queue("data", "--exclusive", "--", "true")
        late = self.wait_in_queue("data", "--shared", "--", "true")
        lines = self.explain("data")
        self.assertIn("it is held, and cannot be shared", lines[3])
        self.assertIn("others came first", lines[4])
        self.assertRegex(lines[5], r"gets in when sh:\d+@\S+ and sh:\d+@\S+ have let go of it; at")
        for reader in readers:
            self.finish(reader)
        self.assert_ends(writer, 0)
        self.assert_ends(late, 0)

    def test_a_rate_says_when(self):
        self.make("rated", "api")
        lines = self.explain("api")
        self.assertRegex(lines[2], "^1. late waits for .*: its rate allows no more for now; the "
                                   r"next one may go in after (59m|1h) \d+[sm]$")
        self.assertRegex(lines[3], r"gets in when its rate allows the next one, in (59m|1h) ")
        waiter = self.show("api")["waiters"][0]
        self.assertEqual(waiter["why"], "rate")
        self.assertTrue(3_000_000 < waiter["why_until_ms"] <= 3_600_000)
        self.assertEqual(self.show("api")["rate"], {"count": 1, "period_ms": 3_600_000})

    def test_the_chain_of_waits(self):
        last = self.hold("c")
        middle = self.nest("b", "c")
        first = self.nest("a", "b")
        waiter = self.wait_in_queue("a", "--", "true")
        names = {lock: self.name_of(lock) for lock in "abc"}
        lines = self.explain("a")[-3:]
        self.assertRegex(lines[0], rf"^'a' is held by {names['a']}, which waits for 'b' by its "
                                   r"command true:\d+@\S+$")
        self.assertRegex(lines[1], rf"^  'b' is held by {names['b']}, which waits for 'c' by ")
        self.assertEqual(lines[2], f"    'c' is held by {names['c']}, which waits for no lock")
        self.finish(last)
        for process in (middle, first):
            self.line_of(process)
            self.finish(process)
        self.assert_ends(waiter, 0)


class Holders(WithWaits):
    def test_what_it_holds_and_waits_for(self):
        last = self.hold("b")
        ahead = self.wait_in_queue("b", "--", "true")
        one = self.nest("a", "b")
        name, other = self.name_of("a"), self.name_of("b")
        before = self.show("b")["waiters"][0]["holder"]
        lines = self.explain(name)
        self.assertRegex(lines[0], rf"^{name} has 'a' for \S+, with fence \d+; its lease ends")
        self.assertRegex(lines[1], rf"^{name} waits for 'b' by its command true:\d+@\S+ for \S+: "
                                   rf"it wants 1, and 0 are free; before it waits 1, {before} last")
        self.assertIn(f"'b' is held by {other}, which waits for no lock", lines)
        told = self.as_json("explain", name)
        self.assertEqual((told["kind"], told["holder"]), ("holder", name))
        self.assertEqual([one["lock"] for one in told["holds"]], ["a"])
        self.assertEqual([(one["lock"], one["held_by"], one["behind"]) for one in told["waits"]],
                         [("b", [other], [before])])
        self.finish(last)
        self.assert_ends(ahead, 0)
        self.line_of(one)
        self.finish(one)

    def test_by_a_part_of_its_name(self):
        one, other = self.hold("a"), self.hold("b")
        self.assertIn(f"sh:{one.pid}@", self.explain(str(one.pid) + "@")[0])
        self.assertEqual(self.explain(f"sh:{one.pid}@")[1].split("@")[1].split(" ", 1)[1],
                         "waits for no lock")
        done = self.expect(64, "explain", "sh:")
        self.assertIn("'sh:' may be any of these; write more of it\n", done.stderr)
        self.assertEqual(done.stderr.count("\n  sh:"), 2)
        self.finish(one)
        self.finish(other)

    def test_nobody_of_that_name(self):
        self.expect(0, "lock", "nightly", "--", "true")
        done = self.expect(66, "explain", "nigthly")
        self.assertEqual(done.stderr, "holdfast: there is no lock 'nigthly', no run, and nobody of "
                                      "that name holds a lock or waits; did you mean 'nightly'?\n")
        self.assertIn("what is to be explained?", self.expect(64, "explain").stderr)
        self.expect(64, "explain", "nightly", "-o", "table")


class Graph(WithWaits):
    def test_nobody_waits(self):
        self.expect(0, "lock", "a", "--", "true")
        self.assertEqual(self.expect(0, "graph").stdout, "nobody waits\n")
        self.assertEqual(self.as_json("graph"), {"store": self.url, "waits": [], "commands": [],
                                                 "children": [], "runs": []})

    def test_who_waits_for_whom(self):
        last = self.hold("b")
        one = self.nest("a", "b")
        name, other = self.name_of("a"), self.name_of("b")
        waiter = self.show("b")["waiters"][0]["holder"]
        self.assertEqual(self.expect(0, "graph").stdout,
                         f"{waiter} waits for 'b', held by {other}: it wants 1, and 0 are free\n"
                         f"{name} waits for its command {waiter}\n")
        told = self.as_json("graph")
        self.assertEqual([(one["waiter"], one["lock"], one["held_by"], one["position"],
                           one["why"]) for one in told["waits"]],
                         [(waiter, "b", [other], 0, "full")])
        self.assertEqual(told["commands"], [{"parent": name, "command": waiter}])
        self.finish(last)
        self.line_of(one)
        self.finish(one)

    def test_dot(self):
        odd = 'we"ird\\n {x}\\'
        holder = self.hold(odd)
        waiter = self.wait_in_queue(odd, "--", "true")
        text = self.expect(0, "graph", "--dot").stdout
        self.assertIn(r'label="we\"ird\\n {x}\\"];', text)
        self.assertRegex(text, r"(?m)^  lock0 -> party0 \[label=\"held by\"\];$")
        self.assertRegex(text, r"(?m)^  party1 -> lock0 \[label=\"waits for\"\];$")
        self.assertTrue(text.startswith("digraph locks {\n") and text.endswith("}\n"))
        if dot := shutil.which("dot"):
            subprocess.run([dot, "-Tplain"], input=text, text=True, check=True,
                           stdout=subprocess.DEVNULL)
        self.expect(64, "graph", "--dot", "-o", "json")
        self.finish(holder)
        self.assert_ends(waiter, 0)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Runs as holders and waiters of locks, as the commands show them.

What is expected is that of a real engine, in processes of their own (`run_maker`).
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from locks_in_a_folder import PATIENCE, InAFolder

MAKER = os.environ["RUN_MAKER"]


class WithRuns(InAFolder):
    def worker(self, name: str = "worker") -> subprocess.Popen:
        """A process that drives runs."""
        process = subprocess.Popen([MAKER, "work", self.url, name], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def maker(self, *words: str) -> None:
        subprocess.run([MAKER, words[0], self.url, *words[1:]], check=True, timeout=PATIENCE)

    def start_run(self, kind: str, name: str, lock: str) -> None:
        """A run; when this returns it holds the lock, or waits for it."""
        self.maker("start", kind, name, lock)
        self.until(lambda: name in self.names_at(lock))

    def names_at(self, lock: str) -> list[str]:
        done = self.run_holdfast("locks", "show", lock, "-o", "json")
        told = json.loads(done.stdout) if done.returncode == 0 else {"holders": [], "waiters": []}
        return [one["holder"] for one in told["holders"] + told["waiters"]]

    def until(self, condition) -> None:
        give_up_at = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), give_up_at)

    def explain(self, what: str) -> list[str]:
        return self.expect(0, "explain", what).stdout.splitlines()

    def explain_until(self, what: str, pattern: str) -> list[str]:
        """As soon as one of the lines is so."""
        self.until(lambda: any(re.search(pattern, line) for line in self.explain(what)))
        return self.explain(what)

    def as_json(self, *words: str) -> dict:
        return json.loads(self.expect(0, *words, "-o", "json").stdout)


class Shown(WithRuns):
    def test_in_tables(self):
        self.worker()
        self.start_run("holds", "order-1", "a")
        self.start_run("naps", "order-2", "a")
        process = self.wait_in_queue("a", "--", "true")
        listed = self.expect(0, "locks").stdout
        self.assertRegex(listed, r"(?m)^a +mutex +open +1 +1 +2 +run order-1$")
        shown = self.expect(0, "locks", "show", "a").stdout.splitlines()
        self.assertRegex(shown[1], "^  HOLDER +KIND +SLOTS +FENCE +SINCE +EXPIRES +REASON$")
        self.assertRegex(shown[2], r"^  order-1 +run \(holds\) +0 +\d+ +\S+ +never +to be shown$")
        self.assertRegex(shown[4], r"^  order-2 +run \(naps\) +1 +0 +\S+ +it wants 1, and 0 are "
                                   r"free *$")
        self.assertRegex(shown[5], r"^  true:\d+@\S+ +session +1 +0 +\S+ +it wants 1")
        top = self.expect(0, "top", "--once").stdout
        self.assertRegex(top, r"(?m)^a +open +1 of 1 +2 +run order-1 +\S+ +run order-2 +\S+$")
        self.maker("signal", "order-1")
        self.until(lambda: self.show("a")["holders"][0]["holder"] == "order-2")
        history = self.expect(0, "locks", "history", "a").stdout
        self.assertRegex(history, r"(?m)^\S+ +run order-1 +held, released ")
        self.end(process)

    def test_as_json(self):
        self.worker()
        self.start_run("holds", "order-1", "a")
        self.start_run("holds", "order-2", "a")
        told = self.show("a")
        (holder,), (waiter,) = told["holders"], told["waiters"]
        self.assertEqual((holder["kind"], holder["run"]["id"], holder["run"]["type"]),
                         ("run", "order-1", "holds"))
        self.assertEqual(len(holder["run"]["uid"]), len(waiter["run"]["uid"]))
        self.assertNotEqual(holder["run"]["uid"], waiter["run"]["uid"])
        self.assertEqual((holder["expires_in_ms"], holder["reason"]), (None, "to be shown"))
        self.assertEqual((waiter["kind"], waiter["priority"], waiter["reason"], waiter["why"]),
                         ("run", 3, "to be shown", "full"))
        self.maker("signal", "order-1")
        self.until(lambda: self.names_at("a") == ["order-2"])
        (hold,) = self.as_json("locks", "history", "a")["history"]
        self.assertEqual((hold["kind"], hold["run"]),
                         ("run", {"id": "order-1", "uid": holder["run"]["uid"], "type": None}))

    def test_who_is_no_run(self):
        self.make("rated", "api")
        process = self.hold("a")
        holder, waiter = self.show("a")["holders"][0], self.show("api")["waiters"][0]
        self.assertEqual((holder["kind"], holder["run"]), ("session", None))
        self.assertEqual((waiter["kind"], waiter["run"]), ("leased", None))
        self.finish(process)


class Explained(WithRuns):
    def test_a_run_that_waits(self):
        self.worker()
        self.start_run("holds", "order-1", "a")
        self.start_run("naps", "order-2", "a")
        self.start_run("holds", "order-3", "b")
        lines = self.explain("order-2")
        self.assertRegex(lines[0], r"^run order-2 \(naps\): running for \S+, queue 'default', "
                                   r"partition \d+$")
        self.assertRegex(lines[1], r"^worker \(process \d+ on \S+\) drives it$")
        self.assertEqual(lines[2], "it holds no lock")
        self.assertRegex(lines[3], "^it waits for 'a' for [^:]+: it wants 1, and 0 are free; it is "
                                   "the first in line$")
        self.assertEqual(lines[4], "it gets in when run order-1 (holds) lets go of it")
        self.assertEqual(lines[5], "'a' is held by run order-1 (holds), which has asked for a "
                                   "signal 'go', which has not come")
        told = self.as_json("explain", "order-2")
        self.assertEqual((told["kind"], told["run"]["type"], told["run"]["state"]),
                         ("run", "naps", "running"))
        self.assertTrue(told["run"]["driver"]["live"])
        self.assertEqual(told["run"]["waits_for"],
                         [{"kind": "lock", "name": "a", "type": "", "in_ms": None}])
        self.assertEqual([(one["lock"], one["held_by"]) for one in told["waits"]],
                         [("a", ["order-1"])])

    def test_a_lock_says_what_its_holder_is_at(self):
        self.worker()
        self.start_run("calls", "order-1", "a")
        self.start_run("holds", "order-2", "a")
        lines = self.explain_until("a", "next attempt")
        self.assertRegex(lines[1], r"^run order-1 \(calls\) has it for .*; it has no lease: it "
                                   "ends when it is released$")
        self.assertRegex(lines[2], r"^1. run order-2 \(holds\) waits for ")
        self.assertRegex(lines[4], r"^'a' is held by run order-1 \(calls\), which is at step 'call "
                                   "vendor', which has failed 1 time, the last with: no route; the "
                                   r"next attempt is in (59m|1h)")

    def test_through_a_child(self):
        self.worker()
        self.start_run("naps", "sleeper", "b")
        self.start_run("delegates", "parent", "a")
        self.until(lambda: "parent-child" in self.names_at("b"))
        self.start_run("holds", "last", "a")
        self.assertEqual(
            [re.sub(r"in (59m|1h) \d+[sm]$", "in 1h", line) for line in self.explain("last")[-3:]],
            ["'a' is held by run parent (delegates), which waits for its child parent-child "
             "(holds)",
             "  run parent-child (holds) waits for 'b'",
             "    'b' is held by run sleeper (naps), which waits for a time, in 1h"])

    def test_nobody_drives_it(self):
        worker = self.worker()
        self.start_run("holds", "order-1", "a")
        self.start_run("holds", "order-2", "a")
        worker.send_signal(signal.SIGKILL)
        lines = self.explain_until("order-1", "start one whose engine has it and knows 'holds'")
        self.assertRegex(lines[1], "^(worker .* drove it, and is dead|nobody drives it); no "
                                   "process drives queue 'default'")
        self.assertRegex(self.explain("order-2")[-1], r"^  of run order-1 \(holds\): .* knows")
        self.worker("another")
        self.assertRegex(self.explain_until("order-1", "another")[1], "^another .* drives it$")
        self.assertEqual(self.names_at("a"), ["order-1", "order-2"])

    def test_not_begun(self):
        self.maker("start", "holds", "order-1", "a", "nightly")
        self.assertEqual(self.explain("order-1")[1:],
                         ["nobody drives it; no process drives queue 'nightly': start one whose "
                          "engine has it and knows 'holds'", "it holds no lock",
                          "it has not begun"])

    def test_parked(self):
        self.worker()
        self.maker("start", "unknown", "order-1", "a")
        lines = self.explain_until("order-1", "stands still")
        self.assertRegex(lines[3], "^it stands still: .*'unknown'")
        self.assertIn("unknown", self.as_json("explain", "order-1")["run"]["parked"])

    def test_one_that_has_ended(self):
        self.worker()
        self.start_run("holds", "order-1", "a")
        self.maker("signal", "order-1")
        lines = self.explain_until("order-1", "completed")
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"^run order-1 \(holds\): completed \S+ ago$")

    def test_by_a_part_of_its_id(self):
        self.worker()
        self.start_run("holds", "order-1", "a")
        self.assertRegex(self.explain("rder-")[0], r"^run order-1 \(holds\): ")
        self.start_run("holds", "order-2", "a")
        done = self.expect(64, "explain", "rder-")
        self.assertEqual(done.stderr.splitlines()[1:], ["  order-1", "  order-2"])
        done = self.expect(66, "explain", "ordre-1")
        self.assertIn("there is no lock 'ordre-1', no run, and nobody of that name", done.stderr)
        self.assertIn("did you mean 'order-1'?", done.stderr)


class Drawn(WithRuns):
    def setUp(self):
        super().setUp()
        self.worker()
        self.start_run("naps", "sleeper", "b")
        self.start_run("delegates", "parent", "a")
        self.until(lambda: "parent-child" in self.names_at("b"))

    def test_text(self):
        self.assertEqual(
            self.expect(0, "graph").stdout,
            "run parent-child (holds) waits for 'b', held by run sleeper (naps): it wants 1, and 0 "
            "are free\n"
            "run parent (delegates) waits for its child, run parent-child (holds)\n")

    def test_json(self):
        told = self.as_json("graph")
        self.assertEqual([(one["waiter"], one["kind"], one["lock"]) for one in told["waits"]],
                         [("parent-child", "run", "b")])
        self.assertEqual(told["children"], [{"parent": "parent", "child": "parent-child"}])
        self.assertEqual(told["runs"], [{"id": "parent", "type": "delegates"},
                                        {"id": "parent-child", "type": "holds"},
                                        {"id": "sleeper", "type": "naps"}])

    def test_dot(self):
        text = self.expect(0, "graph", "--dot").stdout
        self.assertRegex(text, r'(?m)^  run\d \[shape=hexagon, label="parent-child\\nholds"\];$')
        self.assertRegex(text, r'(?m)^  run\d -> run\d \[style=dashed, label="its child"\];$')
        self.assertRegex(text, r'(?m)^  run\d -> lock\d \[label="waits for"\];$')
        if dot := shutil.which("dot"):
            subprocess.run([dot, "-Tplain"], input=text, text=True, check=True,
                           stdout=subprocess.DEVNULL)


class Released(WithRuns):
    def test_it_says_what_becomes_of_the_run(self):
        self.worker()
        self.start_run("holds", "order-1", "a")
        self.start_run("holds", "order-2", "a")
        done = self.expect(64, "locks", "release", "a", "--reason", "stuck")
        self.assertIn("run (holds)", done.stderr)
        self.assertIn("its next operation is a StaleFence", done.stderr)
        self.assertEqual(self.names_at("a"), ["order-1", "order-2"])
        done = self.expect(0, "locks", "release", "a", "--reason", "stuck", "--yes")
        self.assertRegex(done.stdout, r"^released 'a': run order-1 \(holds\) had it with fence ")
        self.until(lambda: self.names_at("a") == ["order-2"])
        self.maker("signal", "order-1")
        self.assertRegex(self.explain_until("order-1", "ago")[0],
                         r"^run order-1 \(holds\): failed .* ago: ")


if __name__ == "__main__":
    unittest.main()

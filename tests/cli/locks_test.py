# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM LOCK_MAKER=PROGRAM python3 locks_test.py [CLASS]: what `holdfast locks` tells
and changes."""
import getpass
import json
import os
import pty
import socket
import unittest

from locks_in_a_folder import PROGRAM, InAFolder

ME = f"{getpass.getuser()}@{socket.gethostname()}"


class WithLocks(InAFolder):
    def history(self, name: str, *words: str) -> list[dict]:
        return json.loads(self.expect(0, "locks", "history", name, "-o", "json",
                                      *words).stdout)["history"]

    def refuse(self, code: int, text: str, *words: str) -> str:
        done = self.expect(code, "locks", *words)
        self.assertEqual(done.stdout, "")
        self.assertIn(text, done.stderr)
        return done.stderr

    def change(self, *words: str) -> dict:
        return json.loads(self.expect(0, "locks", *words, "-o", "json").stdout)


class History(WithLocks):
    def test_who_held_it_and_how_it_ended(self):
        first = self.hold("a", "--reason", "one\x1b")
        second = self.wait_in_queue("a", "--", "true")
        self.finish(first)
        self.assert_ends(second, 0)
        last, before = self.history("a")
        self.assertEqual((before["what"], before["reason"], before["end"], before["fence"]),
                         ("hold", "one\x1b", "released", int(first.words[2])))
        self.assertGreater(last["fence"], before["fence"])
        self.assertGreater(last["waited_ms"], 0)
        self.assertGreater(before["held_ms"], 0)
        self.assertEqual((before["slots"], before["weight"], before["shared"], before["ended_by"]),
                         ([0], 1, False, ""))
        table = self.expect(0, "locks", "history", "a").stdout
        self.assertRegex(table, r"^AGO +WHO +WHAT +FENCE +WAITED +HELD +REASON\n"
                                r"\d+\S* +true:\d+@\S+ +held, released +\d+ ")
        self.assertIn(r"one\x1b", table)

    def test_an_abandoned_hold_is_seen_as_such(self):
        killed = self.hold("a", "--lease=500ms")
        killed.kill()
        self.expect(0, "lock", "a", "--", "true")
        self.assertEqual([one["end"] for one in self.history("a")], ["released", "expired"])

    def test_operators_are_part_of_it_by_time(self):
        self.expect(0, "lock", "a", "--", "true")
        self.change("pause", "a", "--reason", "moving", "--as", "ada")
        self.change("resume", "a")
        self.expect(0, "lock", "a", "--", "true")
        self.assertEqual([one["what"] for one in self.history("a")],
                         ["hold", "change", "change", "hold"])
        resumed, paused = self.history("a", "--changes")
        self.assertEqual((paused["by"], paused["change"], paused["reason"]),
                         ("ada", "paused", "moving"))
        self.assertEqual((resumed["by"], resumed["change"], resumed["reason"]),
                         (ME, "resumed", ""))

    def test_limit_and_forms(self):
        for _ in range(3):
            self.expect(0, "lock", "a", "--", "true")
        self.assertEqual([one["number"] for one in self.history("a", "--limit=2")], [2, 1])
        lines = self.expect(0, "locks", "history", "a", "-o", "jsonl").stdout.splitlines()
        self.assertEqual([json.loads(line)["number"] for line in lines], [2, 1, 0])
        self.refuse(64, "'--limit 0' is no number", "history", "a", "--limit=0")
        self.assertEqual(self.expect(0, "locks", "history", "a", "--changes").stdout,
                         "nothing yet\n")

    def test_how_long_it_is_kept(self):
        self.expect(0, "lock", "a", "--", "true")
        self.assertEqual(self.show("a")["history_kept_ms"], 30 * 86_400_000)
        self.assertEqual(self.change("set", "a", "--keep-history=2d")["history_kept_ms"],
                         2 * 86_400_000)
        self.change("set", "a", "--keep-history=default")
        self.assertEqual(self.show("a")["history_kept_ms"], 30 * 86_400_000)


class Changed(WithLocks):
    def test_a_capacity_is_set_and_lets_a_waiter_in(self):
        first = self.hold("gpus", "--slots=1")
        waiter = self.start("gpus", "--slots=1", "--", "sh", "-c", "echo in; read code")
        while self.show("gpus")["waiting"] == 0:
            self.assertIsNone(waiter.poll())
        changed = self.change("set", "gpus", "--capacity=2", "--reason=more")
        self.line_of(waiter)
        self.assertEqual((changed["capacity"], changed["defined_capacity"], changed["overridden"]),
                         (2, 1, True))
        self.assertIn("2 (defined 1)", self.expect(0, "locks").stdout)
        self.assertIn("capacity 2 (defined 1)", self.expect(0, "locks", "show", "gpus").stdout)
        self.assertEqual(self.history("gpus")[0]["change"], "capacity 1 -> 2")
        self.change("set", "gpus", "--capacity=defined")
        self.assertFalse(self.show("gpus")["overridden"])
        self.finish(first)
        self.finish(waiter)

    def test_what_is_so_already_is_no_change(self):
        self.expect(0, "lock", "a", "--", "true")
        for _ in range(2):
            self.assertEqual(self.change("pause", "a")["state"], "paused")
        self.assertEqual(len(self.history("a", "--changes")), 1)

    def test_paused_and_draining(self):
        self.expect(0, "lock", "a", "--", "true")
        self.assertEqual(self.expect(0, "locks", "pause", "a").stdout,
                         "a: mutex, paused, capacity 1, 0 held, 0 waiting\n")
        waiter = self.wait_in_queue("a", "--", "true")
        waiting = self.show("a")["waiters"][0]
        self.assertEqual((waiting["why"], waiting["why_text"]), ("paused", "it is paused"))
        self.assertIn("it is paused", self.expect(0, "locks", "show", "a").stdout)
        self.change("drain", "a")
        self.assertIn("draining", self.expect(0, "locks").stdout)
        self.expect(75, "lock", "a", "--", "touch", "ran")
        self.assertFalse((self.folder / "ran").exists())
        self.assertIsNone(waiter.poll(), "who waits stays")
        self.assertEqual(self.change("resume", "a")["state"], "open")
        self.assert_ends(waiter, 0)

    def test_slots_by_number(self):
        self.expect(0, "lock", "gpus", "--slots=2", "--", "true")
        changed = self.change("disable-slot", "gpus", "0")
        self.assertEqual((changed["capacity"], changed["disabled_slots"], changed["overridden"]),
                         (1, [0], False))
        self.assertIn("1 (slot 0 off)", self.expect(0, "locks").stdout)
        done = self.expect(0, "lock", "gpus", "--slots=2", "--", "printenv", "HOLDFAST_SLOT")
        self.assertEqual(done.stdout, "1\n")
        self.refuse(64, "slot 1 is the last one", "disable-slot", "gpus", "1")
        self.refuse(64, "has no slot 2; they are 0 to 1", "disable-slot", "gpus", "2")
        self.refuse(64, "'left' is no slot of 'gpus'; write its number", "enable-slot", "gpus",
                    "left")
        self.assertEqual(self.change("enable-slot", "gpus", "0")["disabled_slots"], [])

    def test_slots_by_name(self):
        self.make("named", "gpus", "left", "right")
        self.assertEqual(self.change("disable-slot", "gpus", "right")["disabled_slots"], [1])
        self.assertIn("1 (slot right off)", self.expect(0, "locks").stdout)
        self.assertEqual(self.show("gpus")["slot_names"], ["left", "right"])
        self.refuse(64, "write its name, or its number", "enable-slot", "gpus", "middle")
        self.assertEqual(self.change("enable-slot", "gpus", "1")["disabled_slots"], [])

    def test_a_lock_may_have_the_name_of_a_command(self):
        for name in ("set", "show", "demo", "locks"):
            self.expect(0, "lock", name, "--", "true")
            self.assertEqual(self.change("pause", name)["state"], "paused")

    def test_words_that_cannot_be_understood_change_nothing(self):
        self.expect(0, "lock", "nightly", "--", "true")
        before = self.show("nightly")
        for name in ("history", "release", "set", "pause", "resume", "drain", "disable-slot"):
            self.refuse(64, f"the name is missing: write 'holdfast locks {name} NAME", name)
        self.refuse(64, "the slot is missing", "enable-slot", "nightly")
        self.refuse(64, "what is to be set?", "set", "nightly")
        for capacity in ("0", "-1", "many", "4294967297"):
            self.refuse(64, f"'--capacity {capacity}' is no number", "set", "nightly",
                        f"--capacity={capacity}")
        self.refuse(64, "'--keep-history 0s' is too short", "set", "nightly", "--capacity=2",
                    "--keep-history=0s")
        self.refuse(64, "and a reason of 201; give", "pause", "nightly", "--reason", "x" * 201)
        self.refuse(64, "unknown command 'puase'; did you mean 'pause'?", "puase", "nightly")
        self.refuse(64, "unknown form 'jsno' of output; did you mean 'json'?", "pause", "nightly",
                    "-o", "jsno")
        self.assertEqual(self.show("nightly"), before)
        self.assertEqual(self.history("nightly", "--changes"), [])

    def test_an_unknown_lock(self):
        self.expect(0, "lock", "nightly", "--", "true")
        for words in (["show"], ["history"], ["pause"], ["resume"], ["drain"],
                      ["release", "--reason=x"], ["set", "--capacity=2"]):
            self.refuse(66, "there is no lock 'nigthly': it was never used; did you mean "
                            "'nightly'?", words[0], "nigthly", *words[1:])
        self.refuse(66, "there is no lock", "disable-slot", "elephant", "1")
        self.assertEqual(list(json.loads(self.expect(0, "locks", "-o", "json").stdout)["locks"]),
                         [self.show("nightly")], "asking for one makes none")


class Released(WithLocks):
    def test_without_a_terminal_it_wants_to_be_told(self):
        holder = self.hold("a", "--reason", "nightly")
        text = self.refuse(64, "write '--yes'", "release", "a", "--reason=stuck")
        self.assertRegex(
            text, rf"HOLDER .*\n +sh:\d+@\S+ +session +0 +{holder.words[2]} .*nightly\n")
        self.refuse(64, "'--reason TEXT' is missing", "release", "a", "--yes")
        self.assertEqual(self.show("a")["held"], 1)
        self.finish(holder)

    def test_the_next_one_gets_it_and_the_holder_is_told_at_its_end(self):
        holder = self.hold("a", "--reason", "nightly")
        waiter = self.wait_in_queue("a", "--", "true")
        released = self.change("release", "a", "--yes", "--reason=stuck", "--as=ada")["released"]
        self.assertEqual((released["fence"], released["reason"]),
                         (int(holder.words[2]), "nightly"))
        self.assert_ends(waiter, 0)
        self.tell(holder, "0")
        self.assert_ends(holder, 79)
        self.assertIn("'a' was taken away", holder.stderr.read())
        forced = [one for one in self.history("a") if one.get("end") == "forced"]
        self.assertEqual([one["ended_by"] for one in forced], ["ada"])
        changes = self.history("a", "--changes")
        self.assertEqual([(one["by"], one["reason"]) for one in changes], [("ada", "stuck")])

    def test_one_of_several(self):
        holders = [self.hold("gpus", "--slots=3") for _ in range(3)]
        fences = [int(one.words[2]) for one in holders]
        text = self.refuse(64, "'gpus' is held 3 times; choose one with '--fence N'", "release",
                           "gpus", "--yes", "--reason=x")
        for fence in fences:
            self.assertIn(str(fence), text)
        self.refuse(64, "'gpus' is held by 'sh:' 3 times", "release", "gpus", "--holder=sh:",
                    "--yes", "--reason=x")
        self.refuse(66, "'gpus' is not held with the fence 1", "release", "gpus", "--fence=1",
                    "--yes", "--reason=x")
        self.refuse(64, "exclude each other", "release", "gpus", "--fence=1", "--holder=x",
                    "--reason=x")
        self.assertEqual(self.show("gpus")["held"], 3)
        done = self.expect(0, "locks", "release", "gpus", f"--fence={fences[1]}", "--yes",
                           "--reason=x")
        self.assertRegex(done.stdout, rf"^released 'gpus': sh:\d+@\S+ had it with fence "
                                      rf"{fences[1]} for .*\n$")
        self.change("release", "gpus", f"--holder={holders[2].pid}", "--yes", "--reason=x")
        self.assertEqual([one["fence"] for one in self.show("gpus")["holders"]], [fences[0]])
        self.finish(holders[0])
        for one in holders[1:]:
            self.tell(one, "0")
            self.assert_ends(one, 79)

    def test_nobody_holds_it(self):
        self.expect(0, "lock", "a", "--", "true")
        self.refuse(66, "'a' is not held", "release", "a", "--yes", "--reason=x")

    def ask(self, answer: bytes) -> tuple[int, bytes]:
        """What it says on a terminal where the answer is typed."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(self.environment)
            os.execv(PROGRAM, [PROGRAM, "locks", "release", "a", "--reason=stuck"])
        with open(terminal, "r+b", buffering=0) as stream:
            said = b""
            while b"[y/N] " not in said:
                said += stream.read(1000)
            stream.write(answer + b"\n")
            try:
                while more := stream.read(1000):
                    said += more
            except OSError:
                pass  # The end of a terminal.
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said

    def test_on_a_terminal_it_asks(self):
        holder = self.hold("a")
        code, said = self.ask(b"n")
        self.assertEqual(code, 1, said)
        self.assertIn(holder.words[2].encode(), said, "the record was shown")
        self.assertIn(b"nothing was changed", said)
        self.assertEqual(self.show("a")["held"], 1)
        code, said = self.ask(b"y")
        self.assertEqual(code, 0, said)
        self.assertIn(b"released 'a'", said)
        self.assertEqual(self.show("a")["held"], 0)
        self.tell(holder, "0")
        self.assert_ends(holder, 79)


if __name__ == "__main__":
    unittest.main()

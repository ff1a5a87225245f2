# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM STORE_MAKER=PROGRAM python3 lock_test.py [CLASS]: `holdfast lock` and `holdfast
locks` with real processes."""
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import unittest

from locks_in_a_folder import PATIENCE, PROGRAM, InAFolder

MAKER = os.environ["STORE_MAKER"]
# Says that it runs, tells of signals, and ends when it is told to.
CATCH = """
import os, select, signal, sys
def caught(number, frame):
    print("caught", signal.Signals(number).name, flush=True)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), caught)
# A signal that comes just before the wait ends it, too.
news, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
print("in", os.getpid(), flush=True)
while 0 not in select.select([0, news], [], [])[0]:
    os.read(news, 1)
"""


class Commands(InAFolder):
    def test_the_exit_code_of_the_command_is_passed_on(self):
        for code in (0, 1, 7, 75, 79, 255):
            self.expect(code, "lock", "a", "--", "sh", "-c", f"exit {code}")
        self.expect(128 + 9, "lock", "a", "--", "sh", "-c", "kill -KILL $$")
        self.assertEqual(self.show("a")["held"], 0)

    def test_the_standard_streams_are_its_own(self):
        done = self.expect(0, "lock", "a", "--", "sh", "-c", "cat; echo error >&2", input="a\0b\n")
        self.assertEqual((done.stdout, done.stderr), ("a\0b\n", "error\n"))

    def test_words_behind_the_dashes_are_not_ours(self):
        done = self.expect(0, "lock", "a", "--", "printf", "%s.", "--", "-n", "--help", "")
        self.assertEqual(done.stdout, "--.-n.--help..")

    def test_the_environment(self):
        self.environment |= {"HOLDFAST_SLOT": "old", "HOLDFAST_OTHER": "kept"}
        done = self.expect(0, "lock", "a b", "--", "env")
        found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual((found["HOLDFAST_LOCK"], found["HOLDFAST_SLOT"], found["HOLDFAST_SLOTS"],
                          found["HOLDFAST_STORE"], found["HOLDFAST_OTHER"]),
                         ("a b", "0", "0", self.url, "kept"))
        self.assertRegex(found["HOLDFAST_HOLDER"], r"^env:\d+@.+$")
        again = self.expect(0, "lock", "a b", "--", "printenv", "HOLDFAST_FENCE").stdout
        self.assertGreater(int(again), int(found["HOLDFAST_FENCE"]))

    def test_signals_are_not_blocked_or_ignored_there(self):
        done = self.expect(0, "lock", "a", "--", "grep", "Sig[BI]", "/proc/self/status")
        self.assertRegex(done.stdout, r"^SigBlk:\s0+\nSigIgn:\s0+\n$")

    def test_no_file_of_ours_is_open_there(self):
        done = self.expect(0, "lock", "a", "--", "ls", "/proc/self/fd")
        self.assertEqual(done.stdout.split(), ["0", "1", "2", "3"], "3 is the folder itself")

    def test_not_found_and_not_executable(self):
        done = self.expect(127, "lock", "a", "--", "no-such-command")
        self.assertEqual(done.stderr,
                         "holdfast: 'no-such-command' cannot be run: No such file or directory\n")
        (self.folder / "text").write_text("text")
        done = self.expect(126, "lock", "a", "--", "./text")
        self.assertIn("'./text' cannot be run: Permission denied", done.stderr)
        self.assertEqual(self.show("a")["held"], 0)

    def test_without_a_store_it_is_one_of_the_user(self):
        del self.environment["HOLDFAST_STORE"]
        for name, folder in (("XDG_STATE_HOME", "state%?"), ("HOME", "home")):
            self.environment.pop("XDG_STATE_HOME", None)
            self.environment[name] = str(self.folder / folder)
            self.assertEqual(self.expect(0, "locks").stdout, "no locks\n")
            self.assertFalse((self.folder / folder).exists(), "to look makes nothing")
            self.expect(0, "lock", "a", "--", "true")
            state = self.folder / folder / (".local/state" if name == "HOME" else "")
            self.assertEqual((state / "holdfast").stat().st_mode & 0o777, 0o700)
            self.assertTrue((state / "holdfast/locks.db").is_file())
            self.assertIn("mutex", self.expect(0, "locks").stdout)

    def test_verbose_tells_what_happens(self):
        done = self.expect(0, "lock", "a", "-v", "--", "true")
        self.assertRegex(done.stderr, r"^holdfast: acquired 'a' with fence \d+, slot 0 after .*\n"
                                      r"holdfast: released 'a' after .*\n$")
        holder = self.hold("a", "--reason", "nightly")
        done = self.expect(75, "lock", "a", "-v", "-w", "1ms", "--", "true")
        self.assertRegex(done.stderr, r"^holdfast: waiting for 'a': held by sh:\d+@\S+ "
                                      r"\(nightly\), 0 waiting\n"
                                      r"holdfast: 'a' was not acquired\n$")
        self.finish(holder)


class Waiting(InAFolder):
    def test_the_second_runs_after_the_first(self):
        first = self.hold("a")
        log = self.folder / "log"
        second = self.wait_in_queue("a", "--", "sh", "-c", "echo second >> log")
        third = self.wait_in_queue("a", "--", "sh", "-c", "echo third >> log")
        self.assertFalse(log.exists())
        with log.open("a") as file:
            file.write("first\n")
        self.finish(first, 3)
        self.assert_ends(second, 0)
        self.assert_ends(third, 0)
        self.assertEqual(log.read_text(), "first\nsecond\nthird\n")

    def test_no_wait(self):
        holder = self.hold("a")
        for words, code in ((["-n"], 75), (["--no-wait", "-E", "3"], 3),
                            (["-w", "0s"], 75), (["-w", "20ms"], 75),
                            (["--wait=20ms", "--conflict-exit-code=0"], 0)):
            done = self.expect(code, "lock", "a", *words, "--", "touch", "ran")
            self.assertEqual(done.stderr, "")
        self.assertFalse((self.folder / "ran").exists())
        self.assertEqual(self.show("a")["waiting"], 0, "who gave up has left the queue")
        self.finish(holder)
        self.expect(0, "lock", "a", "-n", "--", "true")

    def test_a_signal_while_it_waits(self):
        holder = self.hold("a")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            waiter = self.wait_in_queue("a", "--", "touch", "ran")
            waiter.send_signal(number)
            self.assert_ends(waiter, 128 + number)
            self.assertEqual(self.show("a")["waiting"], 0)
        self.finish(holder)
        self.assertFalse((self.folder / "ran").exists())

    def test_who_was_stopped_too_long_has_lost_its_place(self):
        holder = self.hold("a")
        stopped = self.wait_in_queue("a", "--lease=500ms", "--", "touch", "ran")
        self.stop(stopped)
        next_one = self.wait_in_queue("a", "--", "true")
        self.finish(holder)
        self.assert_ends(next_one, 0)
        stopped.send_signal(signal.SIGCONT)
        self.assert_ends(stopped, 69)
        self.assertRegex(stopped.stderr.read(), r"^holdfast: the session .* \(error 404, .*\)\n$")
        self.assertFalse((self.folder / "ran").exists())

    def test_a_signal_that_was_ignored_stays_ignored(self):
        holder = self.hold("a")
        waiter = subprocess.Popen(["sh", "-c", f"trap '' HUP; exec {PROGRAM} lock a -- true"],
                                  env=self.environment)
        while self.show("a")["waiting"] == 0:
            self.assertIsNone(waiter.poll())
        waiter.send_signal(signal.SIGHUP)
        self.finish(holder)
        self.assert_ends(waiter, 0)

    def test_slots(self):
        first = self.hold("gpus", "--slots", "2")
        second = self.hold("gpus", "--slots", "2")
        self.assertEqual([first.words[1], second.words[1]], ["0", "1"])
        self.expect(75, "lock", "gpus", "--slots=2", "-n", "--", "true")
        self.finish(first)
        done = self.expect(0, "lock", "gpus", "--slots=2", "-n", "--", "printenv", "HOLDFAST_SLOT")
        self.assertEqual(done.stdout, "0\n")
        self.finish(second)
        done = self.expect(0, "lock", "gpus", "--slots=2", "--weight=2", "--", "printenv",
                           "HOLDFAST_SLOTS")
        self.assertEqual(done.stdout, "0,1\n")

    def test_readers_and_a_writer(self):
        first = self.hold("a", "--shared")
        second = self.hold("a", "--shared")
        self.assertEqual(len(first.words), 2, "a reader has no slot")
        for words in ([], ["--exclusive"]):
            self.expect(75, "lock", "a", *words, "-n", "--", "true")
        self.finish(first)
        self.finish(second)
        writer = self.hold("a")
        self.expect(75, "lock", "a", "--shared", "-n", "--", "true")
        self.finish(writer)

    def test_a_higher_priority_goes_first(self):
        holder = self.hold("a")
        low = self.wait_in_queue("a", "--", "sh", "-c", "echo low >> log")
        high = self.wait_in_queue("a", "--priority=5", "--", "sh", "-c", "echo high >> log")
        self.assertEqual([one["priority"] for one in self.show("a")["waiters"]], [5, 0])
        self.finish(holder)
        self.assert_ends(low, 0)
        self.assert_ends(high, 0)
        self.assertEqual((self.folder / "log").read_text(), "high\nlow\n")


class Several(InAFolder):
    def test_all_are_held_and_all_are_let_go_of(self):
        both = self.start("--lock", "b", "--lock", "a", "--", "sh", "-c",
                          "echo in; read code; exit $code")
        self.line_of(both)
        for name in ("a", "b"):
            self.assertEqual(self.show(name)["held"], 1)
            self.expect(75, "lock", name, "-n", "--", "true")
        self.finish(both, 5)
        for name in ("a", "b"):
            self.expect(0, "lock", name, "-n", "--", "true")

    def test_all_or_nothing(self):
        holder = self.hold("b")
        for words in (["-n"], ["-w", "20ms"]):
            done = self.expect(75, "lock", "--lock=a", "--lock=b", *words, "-v", "--", "touch",
                               "ran")
            self.assertIn("'a', 'b' were not acquired", done.stderr)
            self.assertEqual(self.show("a")["held"], 0)
        waiter = self.start("--lock=b", "--lock=a", "--", "touch", "ran")
        while self.show("b")["waiting"] == 0:
            self.assertIsNone(waiter.poll())
        waiter.send_signal(signal.SIGTERM)
        self.assert_ends(waiter, 128 + signal.SIGTERM)
        self.assertEqual((self.show("a")["held"], self.show("b")["waiting"]), (0, 0))
        self.assertFalse((self.folder / "ran").exists())
        self.finish(holder)

    def test_in_whatever_order_they_are_named(self):
        count = "n=$(cat n); echo $((n + 1)) > n"
        (self.folder / "n").write_text("0\n")
        both = [self.start("--lock", one, "--lock", other, "--", "sh", "-c", count)
                for one, other in (("a", "b"), ("b", "a")) * 4]
        for process in both:
            self.assert_ends(process, 0)
        self.assertEqual((self.folder / "n").read_text(), "8\n")

    def test_the_environment(self):
        done = self.expect(0, "lock", "--lock", "b", "--lock", "a:shared", "--lock=c:slots=2/4",
                           "--", "env")
        found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        locks = json.loads(found["HOLDFAST_LOCKS"])
        self.assertEqual([(one["name"], one["slots"]) for one in locks],
                         [("b", [0]), ("a", []), ("c", [0, 1])])
        self.assertEqual(len({one["fence"] for one in locks}), 3)
        for name in ("LOCK", "FENCE", "SLOT", "SLOTS"):
            self.assertNotIn("HOLDFAST_" + name, found)
        one = self.expect(0, "lock", "--lock", "b", "--", "env").stdout
        self.assertIn("HOLDFAST_LOCK=b\n", one)
        self.assertIn('HOLDFAST_LOCKS=[{"name": "b", "fence": ', one)

    def test_what_stands_behind_a_name(self):
        reader = self.hold("data", "--shared")
        self.expect(0, "lock", "--lock=data:shared", "--lock=x", "-n", "--", "true")
        for writer in ("data", "data:exclusive"):
            self.expect(75, "lock", f"--lock={writer}", "--lock=x", "-n", "--", "true")
        self.finish(reader)
        self.expect(0, "lock", "odd:shared", "--", "true")
        done = self.expect(0, "lock", "--lock=odd:shared:slots=1", "--lock=10:30", "--",
                           "printenv", "HOLDFAST_LOCKS")
        self.assertEqual([one["name"] for one in json.loads(done.stdout)],
                         ["odd:shared", "10:30"])

    def test_words_that_cannot_be_understood(self):
        for text, *words in (
                ("'--lock a' is there twice", "--lock=a", "--lock=a:shared"),
                ("'b' stands beside '--lock'; write '--lock b'", "b", "--lock=a"),
                ("write it behind the name, such as '--lock a:shared'", "--lock=a", "--shared"),
                ("such as '--lock a:slots=2'", "--lock=a", "--slots=2"),
                ("the name is missing in '--lock :shared'", "--lock=:shared"),
                ("'--lock a:slots 0' is no number", "--lock=a:slots=0"),
                ("'--lock a:slots 3' is no number from 1 to 2", "--lock=a:slots=3/2")):
            done = self.expect(64, "lock", *words, "--", "true")
            self.assertIn(text, done.stderr)
        self.expect(0, "lock", "gpus", "--slots=4", "--", "true")
        done = self.expect(64, "lock", "--lock=a", "--lock=gpus", "--", "true")
        self.assertIn("'gpus' has 4 slots; write --lock gpus:slots=4", done.stderr)
        self.assertEqual([one["name"] for one in json.loads(
            self.expect(0, "locks", "-o", "json").stdout)["locks"]], ["gpus"])


class Circles(InAFolder):
    """Waits that would never end."""

    def test_a_command_that_asks_for_what_it_is_run_under(self):
        done = self.expect(75, "lock", "a", "--", PROGRAM, "lock", "a", "--", "touch", "ran")
        self.assertRegex(done.stderr, r"^holdfast: deadlock: 'touch:\d+@\S+' waits for a, held by "
                                      r"'holdfast:\d+@\S+' \(error 300, see docs/errors\)\n$")
        self.assertFalse((self.folder / "ran").exists())
        self.assertEqual(self.show("a")["waiting"], 0)

    def test_however_deep(self):
        done = self.expect(75, "lock", "a", "--", PROGRAM, "lock", "b", "--", "sh", "-c",
                           f"{PROGRAM} lock c -v -- {PROGRAM} lock --lock c2 --lock a -v -- true")
        self.assertIn("deadlock: 'true:", done.stderr)
        self.assertIn("waits for a, held by 'holdfast:", done.stderr)

    def test_other_locks_may_be_nested(self):
        self.expect(0, "lock", "a", "--", PROGRAM, "lock", "b", "--", "true")
        self.expect(0, "lock", "data", "--shared", "--", PROGRAM, "lock", "data", "--shared", "--",
                    "true")
        self.expect(0, "lock", "a", "--", PROGRAM, "lock", "a", "--store=sqlite:other.db", "--",
                    "true")

    def test_two_commands_below_one_wait_for_each_other_in_peace(self):
        nested = f"{PROGRAM} lock b -- sh -c 'n=$(cat n); echo $((n + 1)) > n'"
        (self.folder / "n").write_text("0\n")
        done = self.expect(0, "lock", "a", "--", "sh", "-c",
                           " & ".join([nested] * 4) + " & wait")
        self.assertEqual(done.stderr, "")
        self.assertEqual((self.folder / "n").read_text(), "4\n")

    def cross(self, first: str, second: str) -> subprocess.Popen:
        """Holds the first, and asks for the second when it is told to."""
        process = self.start(first, "--", "sh", "-c",
                             f"echo in; read go; exec {PROGRAM} lock {second} -- echo in {second}")
        self.line_of(process)
        return process

    def test_two_shells_that_take_two_locks_in_opposite_orders(self):
        one, other = self.cross("a", "b"), self.cross("b", "a")
        self.tell(one, "go")
        while self.show("b")["waiting"] == 0:
            self.assertIsNone(one.poll())
        self.tell(other, "go")
        self.assert_ends(other, 75)
        self.assertRegex(other.stderr.read(), r"deadlock: 'echo:\d+@\S+' waits for a, held by "
                                              r"'sh:\d+@\S+', which waits for b, held by 'sh:")
        self.assertEqual(self.line_of(one), ["in", "b"], "the other let go of it")
        self.assert_ends(one, 0)

    def test_whose_child_was_killed_waits_no_more(self):
        ask = f"{PROGRAM} lock a -w 20ms -- true 2>&1"
        other = self.start("b", "--", "timeout", "40", "sh", "-c",
                           f"echo in; read go; while {ask} | grep -q deadlock; do :; done; echo in")
        self.line_of(other)
        one = self.start("a", "--", "sh", "-c",
                         f"{PROGRAM} lock b --lease=500ms -- true & "
                         "echo in $!; read go; kill -KILL $!; echo in; read code")
        self.line_of(one)
        while self.show("b")["waiting"] == 0:
            self.assertIsNone(one.poll())
        self.tell(one, "go")
        self.line_of(one)
        self.tell(other, "go")
        # Until its lease has run out, it may be alive.
        self.assert_ends(other, 0)
        self.finish(one)


class Ends(InAFolder):
    def catch(self, *signals: str, options: tuple[str, ...] = ()) -> subprocess.Popen:
        process = self.start("a", *options, "--", sys.executable, "-c", CATCH, *signals)
        self.line_of(process)
        return process

    def test_signals_are_passed_on(self):
        names = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]
        process = self.catch(*names)
        for name in names:
            process.send_signal(getattr(signal, name))
            self.assertEqual(self.line_of(process), ["caught", name])
        self.finish(process)

    def test_a_ctrl_c_reaches_the_command_once(self):
        pid, terminal = pty.fork()
        if pid == 0:
            settings = termios.tcgetattr(0)
            settings[3] |= termios.NOFLSH  # A Ctrl-C does not throw the output away.
            termios.tcsetattr(0, termios.TCSANOW, settings)
            os.environ.update(self.environment)
            os.execv(PROGRAM, [PROGRAM, "lock", "a", "--", sys.executable, "-c", CATCH, "SIGINT",
                               "SIGUSR1"])
        with open(terminal, "r+b", buffering=0) as stream:
            self.assertRegex(stream.readline(), rb"^in \d+\r\n$")
            stream.write(b"\x03")
            self.assertRegex(stream.readline(), rb"caught SIGINT\r\n$")
            # Had the first one been sent on, it would come before the second.
            os.kill(pid, signal.SIGUSR1)
            self.assertEqual(stream.readline(), b"caught SIGUSR1\r\n")
            stream.write(b"\n")
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_a_command_that_dies_of_it(self):
        process = self.hold("a")
        process.send_signal(signal.SIGTERM)
        self.assert_ends(process, 128 + signal.SIGTERM)
        self.assertEqual(self.show("a")["held"], 0)

    def test_a_holder_that_is_killed_is_followed_after_its_lease(self):
        killed = self.catch(options=("--lease=1s",))
        first = self.show("a")["holders"][0]["fence"]
        waiter = self.wait_in_queue("a", "--", "printenv", "HOLDFAST_FENCE")
        killed.kill()
        out, _ = waiter.communicate(timeout=PATIENCE)
        self.assertGreater(int(out), first)
        self.assertEqual(waiter.returncode, 0)
        self.assertEqual(killed.stdout.read(), "", "its command was terminated, and so its end is "
                                                   "seen here")

    def test_a_holder_that_was_stopped_too_long_ends_its_command(self):
        stopped = self.catch("SIGTERM", options=("--lease=1s",))
        waiter = self.wait_in_queue("a", "--", "true")
        self.stop(stopped)
        self.assert_ends(waiter, 0)
        self.assertIsNone(stopped.poll())
        stopped.send_signal(signal.SIGCONT)
        self.assertEqual(self.line_of(stopped), ["caught", "SIGTERM"])
        self.tell(stopped, "0")
        self.assert_ends(stopped, 79)
        self.assertRegex(stopped.stderr.read(),
                         "^holdfast: the lease of 'a' was lost: .* the command is terminated\n$")

    def lose(self, *options: str) -> subprocess.Popen:
        stopped = self.catch("SIGTERM", options=("--lease=500ms", *options))
        waiter = self.wait_in_queue("a", "--", "true")
        self.stop(stopped)
        self.assert_ends(waiter, 0)
        stopped.send_signal(signal.SIGCONT)
        return stopped

    def test_a_command_that_does_not_end_after_a_loss_is_killed(self):
        for options in (["--grace=10ms"], ["--on-lost=kill"]):
            stopped = self.lose(*options)
            self.assert_ends(stopped, 79)
            self.assertIn("killed\n", stopped.stderr.read())

    def test_a_loss_can_be_no_more_than_a_warning(self):
        stopped = self.lose("--on-lost=warn")
        self.assertIn("the command runs on", stopped.stderr.readline())
        self.tell(stopped, "0")
        self.assert_ends(stopped, 79)
        self.assertEqual(stopped.stdout.read(), "", "it was sent nothing")

    def test_a_command_may_not_run_too_long(self):
        self.expect(124, "lock", "a", "--max-run=10ms", "--", "sleep", "1000")
        ignoring = lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)
        done = self.expect(124, "lock", "a", "--max-run=10ms", "--grace=10ms", "--", "sleep",
                           "1000", preexec_fn=ignoring)
        self.assertIn("the command did not end in time; it is killed", done.stderr)
        self.expect(5, "lock", "a", "--max-run=1d", "-n", "--", "sh", "-c", "exit 5")


class Refused(InAFolder):
    def refuse(self, text: str, *words: str) -> None:
        done = self.expect(64, "lock", *words)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^holdfast: .*\n(Try 'holdfast --help'\.\n)?$")
        self.assertIn(text, done.stderr)

    def test_words_that_cannot_be_understood(self):
        command = ["--", "true"]
        self.refuse("the name is missing", *command)
        self.refuse("the command is missing", "a")
        self.refuse("the command is missing", "a", "--")
        self.refuse("unexpected argument 'make'; write '--' in front", "a", "make")
        self.refuse("unknown option '--slot'; did you mean '--slots'?", "a", "--slot=2", *command)
        for option in ("--wait", "--lease", "--max-run", "--grace"):
            for time in ("5", "soon", "-1s", "1.5h"):
                self.refuse(f"'{option} {time}' is no time; write such as", "a",
                            f"{option}={time}", *command)
        self.refuse("'--lease 99ms' is too short; at least 100ms", "a", "--lease=99ms", *command)
        self.refuse("'--max-run 0s' is too short", "a", "--max-run=0s", *command)
        self.refuse("a day", "a", "--lease=2d", *command)
        for option, word in (("--slots", "0"), ("--slots", "two"), ("--priority", "101"),
                             ("--conflict-exit-code", "256")):
            self.refuse(f"'{option} {word}' is no number from", "a", f"{option}={word}", *command)
        self.refuse("'--weight 3' is no number from 1 to 2", "a", "--slots=2", "--weight=3",
                    *command)
        self.refuse("'--weight' needs '--slots N'", "a", "--weight=3", *command)
        self.refuse("'--on-lost kil' is unknown; did you mean 'kill'?", "a", "--on-lost=kil",
                    *command)
        self.refuse("exclude each other", "a", "--shared", "--slots=2", *command)
        self.refuse("exclude each other", "a", "--shared", "--exclusive", *command)
        self.refuse("exclude each other", "a", "-n", "-w", "1s", *command)
        self.refuse("control characters", "a\n", *command)
        self.assertFalse((self.folder / "ran").exists())

    def test_another_kind_of_lock(self):
        self.expect(0, "lock", "one", "--", "true")
        self.expect(0, "lock", "one", "--slots=1", "--", "true")
        self.expect(0, "lock", "gpus", "--slots=4", "--", "true")
        self.expect(0, "lock", "files", "--shared", "--", "true")
        self.refuse("'one' is for one at a time", "one", "--slots=2", "--", "true")
        self.refuse("'one' is for one at a time", "one", "--shared", "--", "true")
        self.refuse("'gpus' has 4 slots; write --slots 4", "gpus", "--slots=2", "--", "true")
        self.refuse("'gpus' has 4 slots; write --slots 4", "gpus", "--", "true")
        self.refuse("'files' has readers and writers", "files", "--slots=2", "--", "true")

    def test_stores_that_cannot_be_used(self):
        self.refuse("there is no folder", "a", "--store=sqlite:no/a.db", "--", "true")
        self.refuse("unknown scheme 'sqllite'", "a", "--store=sqllite:a.db", "--", "true")
        (self.folder / "a.txt").write_text("Dear diary, " * 500)
        (self.folder / "a.txt").chmod(0o600)
        self.expect(65, "lock", "a", "--store=sqlite:a.txt", "--", "true")
        self.expect(66, "lock", "a", "--store=sqlite:b.db?create=no", "--", "true")
        self.expect(66, "locks", "--store=sqlite:b.db")
        self.expect(66, "locks", "show", "b", "--store=sqlite:b.db")

    def test_a_store_that_another_process_does_not_let_go_of(self):
        self.expect(0, "lock", "a", "--", "true")
        keeper = subprocess.Popen([MAKER, "keep", "a.db"], cwd=self.folder, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, keeper)
        self.assertEqual(keeper.stdout.readline(), "ready\n")
        self.expect(69, "lock", "a", f"--store={self.url}?busy_timeout=100ms", "--", "true")


class Shown(InAFolder):
    def test_nothing_yet(self):
        self.expect(0, "lock", "a", "-n", "--", "true")
        self.assertRegex(self.expect(0, "locks").stdout,
                         r"^NAME +KIND .*\na +mutex +open +1 +0 +0\n$")
        done = self.expect(66, "locks", "show", "b")
        self.assertEqual(done.stderr, "holdfast: there is no lock 'b': it was never used\n")
        done = self.expect(64, "locks", "show")
        self.assertIn("the name is missing", done.stderr)
        self.expect(64, "locks", "-o", "jsno")
        self.expect(64, "locks", "shwo")

    def test_holders_and_waiters(self):
        holder = self.hold("a/b", "--slots=2", "--weight=2", "--reason", "nightly\x1b")
        waiter = self.wait_in_queue("a/b", "--slots=2", "--priority=3", "--", "true")
        answer = self.show("a/b")
        self.assertEqual([answer[name] for name in ("name", "kind", "state", "capacity", "held",
                                                    "waiting")],
                         ["a/b", "slots", "open", 2, 2, 1])
        held = answer["holders"][0]
        self.assertEqual((held["slots"], held["reason"], held["fence"]),
                         ([0, 1], "nightly\x1b", int(holder.words[2])))
        self.assertGreaterEqual(held["held_ms"], 0)
        self.assertGreater(held["expires_in_ms"], 0)
        self.assertEqual(answer["waiters"][0]["priority"], 3)
        text = self.expect(0, "locks", "show", "a/b").stdout
        self.assertRegex(text, r"^a/b: slots, open, capacity 2, 2 held, 1 waiting\n")
        self.assertIn(r"nightly\x1b", text)
        self.finish(holder)
        self.assert_ends(waiter, 0)

    def test_all_as_json(self):
        for name in ("b", "a/b", "ü"):
            self.expect(0, "lock", name, "--", "true")
        answer = json.loads(self.expect(0, "locks", "-o", "json").stdout)
        self.assertEqual(answer["store"], self.url)
        self.assertEqual([one["name"] for one in answer["locks"]], ["a/b", "b", "ü"])
        lines = self.expect(0, "locks", "-o", "jsonl").stdout.splitlines()
        self.assertEqual([json.loads(line) for line in lines], answer["locks"])


if __name__ == "__main__":
    unittest.main()

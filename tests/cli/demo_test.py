# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM python3 demo_test.py [Plain|OnATerminal|Ends]: the demo as it is seen."""
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import termios
import time
import unittest

PROGRAM = os.environ["HOLDFAST"]
ESC = "\x1b"
COUNT = re.compile(r"^(\d+) checks, all passed$", re.MULTILINE)


def environment(**changes: str | None) -> dict[str, str]:
    """The environment, with TERM and the locale set, and NO_COLOR only if it is asked for."""
    merged = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": None, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def run(*args: str, **options) -> subprocess.CompletedProcess:
    options = {"capture_output": True, "text": True, "env": environment(), **options}
    return subprocess.run([PROGRAM, *args], timeout=50, **options)


class OnTerminal:
    """The program on a terminal of its own, which shows so many columns."""

    def __init__(self, *args: str, columns: int = 80, **changes: str | None):
        self.main, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [PROGRAM, *args], stdin=terminal, stdout=terminal, stderr=terminal,
            env=environment(**changes), preexec_fn=take_terminal,
        )
        os.close(terminal)
        self.output = ""

    def read_until(self, text: str) -> None:
        while text not in self.output:
            if not self.read():
                raise AssertionError(f"{text!r} never came: {self.output!r}")

    def read(self) -> bool:
        try:
            self.output += os.read(self.main, 65536).decode(errors="replace")
        except OSError:  # The other end is closed.
            return False
        return True

    def finish(self) -> int:
        while self.read():
            pass
        os.close(self.main)
        return self.process.wait(timeout=50)


def screen(output: str) -> list[str]:
    """What is left to see: the lines, without what was drawn over."""
    text = re.sub(r"\x1b\[\d*m", "", output).replace("\r\n", "\n")
    return [line.rpartition("\x1b[K")[2] for line in text.split("\n")]


class Plain(unittest.TestCase):
    def test_all_of_it_in_plain_lines(self):
        done = run("demo")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertNotIn(ESC, done.stdout)
        self.assertNotIn("\r", done.stdout)
        for name in ("checkout", "api_client", "log_lines", "transfer", "takeover", "orders",
                     "kept_lock"):
            self.assertRegex(done.stdout, rf"(?m)^{name}: ")
        count = int(COUNT.search(done.stdout)[1])
        self.assertGreaterEqual(count, 19)
        self.assertEqual(len(re.findall(r"(?m)^  ok     \w+ +\S", done.stdout)), count)
        self.assertTrue(done.stdout.endswith("all passed\n"))

    def test_only_transfer_names_the_cycle_and_the_order(self):
        done = run("demo", "--only", "transfer")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(
            "deadlock: 'refund' waits for Mutex 'savings', held by 'pay the rent', "
            "which waits for Mutex 'rent', held by 'refund'",
            done.stdout,
        )
        self.assertIn("lock order: 'refund' holds Mutex 'rent' and asks for", done.stdout)
        self.assertNotIn("checkout", done.stdout)

    def test_only_takeover_tells_who_was_killed_and_who_followed(self):
        done = run("demo", "--only", "takeover")
        self.assertEqual(done.returncode, 0, done.stdout)
        fences = [int(n) for n in re.findall(r"has the lock, with fence (\d+)", done.stdout)]
        self.assertEqual(len(fences), 3)
        self.assertEqual(fences, sorted(set(fences)))
        self.assertRegex(done.stdout, rf"first is killed(.|\n)*second \((.|\n)*"
                                      rf"first ends, fence {fences[0]}: REFUSED")
        self.assertIn("4 checks, all passed", done.stdout)

    def test_only_orders_tells_who_was_killed_and_proves_that_each_was_charged_once(self):
        start = time.monotonic()
        done = run("demo", "--only", "orders")
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(set(re.findall(r"worker (\d+) is killed with -9", done.stdout))), 6)
        asked = re.search(r"the bank was asked (\d+) times for 120 payments", done.stdout)
        self.assertGreaterEqual(int(asked[1]), 120)
        self.assertIn("3 checks, all passed", done.stdout)

    def test_plays_what_is_named_in_that_order(self):
        for names in (["transfer", "checkout"], ["transfer,checkout"]):
            done = run("demo", "--only", *names)
            self.assertEqual(re.findall(r"(?m)^(\w+): ", done.stdout), ["transfer", "checkout"])


class OnATerminal(unittest.TestCase):
    def test_a_bar_is_drawn_again_and_gone_in_the_end(self):
        program = OnTerminal("demo", "--only", "log_lines")
        self.assertEqual(program.finish(), 0, program.output)
        counts = [int(n) for n in re.findall(r"[█░]+\S* (\d+)/400", program.output)]
        self.assertGreater(len(set(counts)), 3)
        self.assertIn(ESC + "[32m", program.output)
        lines = screen(program.output)
        self.assertFalse([line for line in lines if "/400" in line], lines)
        self.assertIn("  ✓ log_lines  without the lock the lines are torn", lines)
        self.assertEqual(lines[-2:], ["3 checks, all passed", ""])

    def test_no_colour_when_asked_for_none(self):
        program = OnTerminal("demo", "--only", "log_lines", NO_COLOR="1")
        self.assertEqual(program.finish(), 0)
        self.assertIn("\r" + ESC + "[K", program.output)
        self.assertNotRegex(program.output, r"\x1b\[\d*m")

    def test_plain_lines_on_a_dumb_terminal(self):
        program = OnTerminal("demo", "--only", "transfer", TERM="dumb")
        self.assertEqual(program.finish(), 0)
        self.assertNotIn(ESC, program.output)
        self.assertIn("  ok     transfer", program.output)

    def test_only_ascii_signs_without_utf8(self):
        program = OnTerminal("demo", "--only", "log_lines", LC_ALL="C")
        self.assertEqual(program.finish(), 0)
        self.assertTrue(program.output.isascii())
        self.assertIn("###", program.output)

    def test_the_bar_fits_a_narrow_terminal(self):
        program = OnTerminal("demo", "--only", "log_lines", columns=30, NO_COLOR="1")
        self.assertEqual(program.finish(), 0)
        bars = re.findall(r"\x1b\[K(  [█░]+ \d+/400)", program.output)
        self.assertTrue(bars)
        self.assertLess(max(map(len, bars)), 30)


class Ends(unittest.TestCase):
    def test_a_reader_that_has_read_enough_ends_it_quietly(self):
        pipe = f"set -o pipefail; '{PROGRAM}' demo | head -1"
        start = time.monotonic()
        done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=50)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 128 + signal.SIGPIPE)
        self.assertRegex(done.stdout, r"^checkout: .*\n$")
        self.assertLess(time.monotonic() - start, 40)

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "w") as full:
            done = run("demo", capture_output=False, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 74)
        self.assertIn("standard output cannot be written: No space left", done.stderr)

    def test_a_closed_output_is_told(self):
        shell = ["bash", "-c", f"'{PROGRAM}' --version >&-"]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=50)
        self.assertEqual(done.returncode, 74)
        self.assertIn("standard output cannot be written", done.stderr)

    def test_control_c_stops_with_what_was_checked_so_far(self):
        program = OnTerminal("demo", "--only", "transfer", "api_client", "log_lines")
        program.read_until("/40")  # The bar: a call has ended.
        os.write(program.main, b"\x03")
        self.assertEqual(program.finish(), -signal.SIGINT)
        lines = screen(program.output)
        self.assertIn("interrupted: 1 of 3 scenarios played to their end", lines)
        self.assertFalse([line for line in lines if line.startswith("log_lines")])
        self.assertTrue(program.output.endswith("\n"))

    def test_control_c_leaves_no_process_of_takeover_behind(self):
        self.control_c_leaves_no_process_behind("takeover", "wait in line")

    def test_control_c_leaves_no_process_of_orders_behind(self):
        self.control_c_leaves_no_process_behind("orders", "is killed with -9")

    def control_c_leaves_no_process_behind(self, scenario: str, when: str) -> None:
        program = OnTerminal("demo", "--only", scenario)
        program.read_until(when)
        processes = pathlib.Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children")
        children = processes.read_text().split()
        self.assertGreaterEqual(len(children), 2)
        os.write(program.main, b"\x03")
        self.assertEqual(program.finish(), -signal.SIGINT)
        self.assertIn("interrupted: 0 of 1 scenarios played to their end", screen(program.output))
        for child in children:
            self.assertFalse(pathlib.Path(f"/proc/{child}").exists())

    def test_a_request_to_terminate_does_the_same(self):
        program = subprocess.Popen([PROGRAM, "demo"], stdout=subprocess.PIPE, text=True)
        self.assertTrue(program.stdout.readline())
        program.terminate()
        self.assertIn("interrupted: 0 of 7", program.communicate(timeout=50)[0])
        self.assertEqual(program.returncode, -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()

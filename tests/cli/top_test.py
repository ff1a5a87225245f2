# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM python3 top_test.py [CLASS]: `holdfast top`, on a terminal and without one."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unittest

from locks_in_a_folder import PATIENCE, PROGRAM, InAFolder


class Screen:
    """`holdfast top` on a terminal of its own."""

    def __init__(self, environment: dict, rows: int = 24, columns: int = 80):
        self.said = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            self.resize(rows, columns, 0)
            os.environ.update(environment, TERM="xterm", NO_COLOR="1")
            os.execv(PROGRAM, [PROGRAM, "top"])

    def resize(self, rows: int, columns: int, terminal: int | None = None) -> None:
        fcntl.ioctl(self.terminal if terminal is None else terminal, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def read(self) -> bool:
        """False: it has ended."""
        if not select.select([self.terminal], [], [], PATIENCE)[0]:
            raise AssertionError(f"nothing was drawn; before that {self.said[-2000:]}")
        try:
            more = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.said += more
        return more != b""

    def lines(self) -> list[str]:
        """Of the last screen that was drawn to its end."""
        frames = re.findall(rb"\x1b\[H((?:(?!\x1b\[H).)*)\x1b\[J", self.said, re.DOTALL)
        return [] if not frames else [line.rstrip("\r").replace("\x1b[K", "")
                                      for line in frames[-1].decode().split("\n")]

    def wait_for(self, *texts: str) -> list[str]:
        """The next screen that has all of these."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            lines = self.lines()
            if all(re.search(text, "\n".join(lines), re.MULTILINE) for text in texts):
                return lines
            if not self.read():
                break
        raise AssertionError(f"{texts} did not come; there was {self.lines()}")

    def end(self) -> int:
        while self.read():
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class OnATerminal(InAFolder):
    def setUp(self):
        super().setUp()
        for name in ("a", "b", "c"):
            self.expect(0, "lock", name, "--", "true")
        self.screen = Screen(self.environment)
        self.addCleanup(self.kill)
        self.screen.wait_for(r"^> a ")

    def kill(self):
        try:
            os.kill(self.screen.pid, signal.SIGKILL)
            os.waitpid(self.screen.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def test_it_shows_what_happens(self):
        holder = self.hold("b", "--reason", "nightly")
        self.screen.wait_for(rf"^  b +open +1 of 1 +0 +sh:{holder.pid}@")
        waiter = self.wait_in_queue("b", "--", "true")
        self.screen.wait_for(rf"^  b .* 1 +sh:{holder.pid}@\S+ .* true:{waiter.pid}@")
        self.screen.wait_for(rf"sh:{holder.pid}@\S+ +[2-9]s")  # It ages with nobody's doing.
        self.finish(holder)
        self.assert_ends(waiter, 0)
        self.screen.wait_for(r"^  b +open +0 of 1 +0$")
        self.expect(0, "lock", "new", "--", "true")
        self.screen.wait_for(r"^  new ", "4 locks")
        self.expect(0, "locks", "pause", "new")
        self.screen.wait_for(r"^  new +paused ")

    def test_keys(self):
        holder = self.hold("b", "--reason", "nightly")
        for keys, text in ((b"j", r"^> b "), (b"\x1b[B", r"^> c "), (b"\x1b[A", r"^> b "),
                           (b"k", r"^> a "), (b"j", r"^> b ")):
            self.screen.press(keys)
            self.screen.wait_for(text)
        self.screen.press(b"\r")
        lines = self.screen.wait_for("^b: mutex", "^HOLDER ", rf"^sh:{holder.pid}@.* nightly$")
        self.assertEqual(len(lines), 24)
        self.assertIn("esc: back", lines[-1])
        self.screen.press(b"\x1b")
        self.screen.wait_for(r"^> b ")
        self.screen.press(b"q")
        self.assertEqual(self.screen.end(), 0)
        self.finish(holder)

    def test_another_size(self):
        self.screen.resize(6, 30)
        lines = self.screen.wait_for(r"^  NAME +STATE +HELD")
        while len(lines) != 6:
            self.screen.read()
            lines = self.screen.lines()
        self.assertLessEqual(max(map(len, lines)), 30)

    def test_the_terminal_is_as_it_was_before(self):
        usual = termios.ICANON | termios.ECHO | termios.ISIG
        for keys, number, code in ((b"q", None, 0), (b"\x03", None, -signal.SIGINT),
                                   (b"", signal.SIGTERM, -signal.SIGTERM),
                                   (b"", signal.SIGHUP, -signal.SIGHUP)):
            screen = Screen(self.environment)
            screen.wait_for(r"^> a ")
            keeper = os.open(f"/proc/{screen.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
            self.assertEqual(termios.tcgetattr(keeper)[3] & (termios.ICANON | termios.ECHO), 0)
            screen.press(keys)
            if number:
                os.kill(screen.pid, number)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(screen.pid, 0)[1]), code)
            while not screen.said.endswith(b"\x1b[?25h\x1b[?1049l"):
                self.assertTrue(screen.read())
            self.assertEqual(termios.tcgetattr(keeper)[3] & usual, usual)
            os.close(keeper)
            os.close(screen.terminal)

    def test_without_colours(self):
        self.assertNotRegex(self.screen.said, rb"\x1b\[\d*m")


class Plain(InAFolder):
    def test_without_a_terminal_it_prints_once(self):
        holder = self.hold("a")
        for words in ([], ["--once"]):
            done = self.expect(0, "top", *words)
            self.assertRegex(done.stdout, r"^NAME +STATE +HELD .*\n"
                                          rf"a +open +1 of 1 +0 +sh:{holder.pid}@\S+ +\S+\n$")
            self.assertNotIn("\x1b", done.stdout)
        self.finish(holder)

    def test_no_store(self):
        self.expect(66, "top", "--store=sqlite:no.db")
        del self.environment["HOLDFAST_STORE"]
        self.environment["XDG_STATE_HOME"] = str(self.folder)
        self.assertEqual(self.expect(0, "top").stdout, "no locks\n")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What the tests of locks share: a folder with a store, and processes that hold and wait."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["HOLDFAST"]
PATIENCE = 50
# Says that it runs, and ends with the code that it is told.
OBEY = "echo in $HOLDFAST_SLOT $HOLDFAST_FENCE; read code; exit $code"


class InAFolder(unittest.TestCase):
    """A folder with a store of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.url = f"sqlite:{self.folder}/a.db"
        self.environment = dict(os.environ, HOLDFAST_STORE=self.url,
                                XDG_CONFIG_HOME=str(self.folder / "config"))

    def run_holdfast(self, *words: str, **options):
        return subprocess.run([PROGRAM, *words], cwd=self.folder, text=True, timeout=PATIENCE,
                              capture_output=True, env=self.environment, **options)

    def expect(self, code: int, *words: str, **options):
        done = self.run_holdfast(*words, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def start(self, *words: str) -> subprocess.Popen:
        # In a session of its own: should the tests lose their terminal while a process of their
        # group is stopped, the kernel would hang up on all of them.
        process = subprocess.Popen([PROGRAM, "lock", *words], cwd=self.folder, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment,
                                   start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate(timeout=PATIENCE)

    def hold(self, *words: str) -> subprocess.Popen:
        """One whose command runs, and ends when it is told to."""
        process = self.start(*words, "--", "sh", "-c", OBEY)
        self.line_of(process)
        return process

    def line_of(self, process: subprocess.Popen) -> list[str]:
        words = process.stdout.readline().split()
        if not words or words[0] not in ("in", "caught"):
            self.fail(f"{words} {process.communicate(timeout=PATIENCE)}")
        process.words = words
        return words

    def wait_in_queue(self, *words: str) -> subprocess.Popen:
        """One that waits."""
        before = self.show(words[0])["waiting"]
        process = self.start(*words)
        while self.show(words[0])["waiting"] == before:
            self.assertIsNone(process.poll())
        return process

    def tell(self, process: subprocess.Popen, text: str) -> None:
        process.stdin.write(text + "\n")
        process.stdin.flush()

    def stop(self, process: subprocess.Popen) -> None:
        """Stops it, but not in the middle of a commit: nobody could go on."""
        process.send_signal(signal.SIGSTOP)
        while self.run_holdfast("lock", "probe", f"--store={self.url}?busy_timeout=100ms", "--",
                                "true").returncode != 0:
            process.send_signal(signal.SIGCONT)
            self.expect(0, "lock", "probe", "--", "true")
            process.send_signal(signal.SIGSTOP)

    def finish(self, process: subprocess.Popen, code: int = 0) -> None:
        self.tell(process, str(code))
        self.assert_ends(process, code)

    def assert_ends(self, process: subprocess.Popen, code: int) -> None:
        self.assertEqual(process.wait(timeout=PATIENCE), code)

    def make(self, kind: str, *words: str) -> None:
        """A lock that `holdfast lock` cannot make."""
        subprocess.run([os.environ["LOCK_MAKER"], kind, self.url, *words], check=True,
                       timeout=PATIENCE)

    def show(self, name: str) -> dict:
        return json.loads(self.expect(0, "locks", "show", name, "-o", "json").stdout)

# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM SOAK=PROGRAM PRELOAD=LIBRARIES python3 clock_jumps_test.py: durable locks while
the time of day jumps by hours, both ways, by libfaketime."""
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["HOLDFAST"]
SOAK = os.environ["SOAK"]
PRELOAD = os.environ["PRELOAD"]
PATIENCE = 50
JUMPS = ("+5h", "-7h", "+900h", "-900h", "+0")
# Says that it is in, and then for each line that it is told the time of day, until an empty one.
TELL_TIME = """
echo in $HOLDFAST_FENCE
while read line && [ "$line" ]; do date +%s; done
"""


class Clock:
    """A time of day of its own for some processes."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.jump("+0")
        self.environment = dict(
            os.environ, LD_PRELOAD=PRELOAD, FAKETIME_TIMESTAMP_FILE=str(path),
            FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1")

    def jump(self, offset: str) -> None:
        # In one step: nobody may read half of it.
        new = self.path.with_suffix(".new")
        new.write_text(offset + "\n")
        new.replace(self.path)


class ClockJumps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.store = f"sqlite:{self.folder}/a.db"
        # Each has its own, so that they also disagree.
        self.first = Clock(self.folder / "first")
        self.second = Clock(self.folder / "second")

    def start(self, clock: Clock, *words: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [PROGRAM, "lock", "a", "--store", self.store, *words, "--", "sh", "-c", TELL_TIME],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=clock.environment, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)

    def show(self) -> dict:
        done = subprocess.run([PROGRAM, "locks", "show", "a", "-o", "json", "--store", self.store],
                              capture_output=True, text=True, timeout=PATIENCE, check=True)
        return json.loads(done.stdout)

    def fence_of(self, process: subprocess.Popen) -> int:
        words = process.stdout.readline().split()
        if not words or words[0] != "in":
            self.fail(f"{words} {process.communicate(timeout=PATIENCE)}")
        return int(words[1])

    def tell(self, process: subprocess.Popen, text: str) -> None:
        process.stdin.write(text + "\n")
        process.stdin.flush()

    def time_of_day(self, process: subprocess.Popen) -> int:
        self.tell(process, "time")
        return int(process.stdout.readline())

    def until_waiting(self, process: subprocess.Popen) -> None:
        while self.show()["waiting"] == 0:
            self.assertIsNone(process.poll())

    def until_renewed(self, times: int) -> None:
        """The session of the holder, which is still there."""
        left = self.show()["holders"][0]["expires_in_ms"]
        while times > 0:
            now_left = self.show()["holders"][0]["expires_in_ms"]
            self.assertIsNotNone(now_left, "the lease ended early")
            times -= now_left > left
            left = now_left

    def test_a_holder_keeps_its_lock_and_a_waiter_its_place(self):
        holder = self.start(self.first, "--lease=1s")
        fence = self.fence_of(holder)
        waiter = self.start(self.second, "--lease=1s")
        self.until_waiting(waiter)
        for jump, other in zip(JUMPS, reversed(JUMPS)):
            self.first.jump(jump)
            self.second.jump(other)
            hours = (self.time_of_day(holder) - time.time()) / 3600
            self.assertAlmostEqual(hours, int(jump.rstrip("h")), delta=0.1)
            self.until_renewed(2)
            shown = self.show()
            self.assertEqual([one["fence"] for one in shown["holders"]], [fence])
            self.assertEqual(shown["waiting"], 1)
        self.tell(holder, "")
        self.assertGreater(self.fence_of(waiter), fence)
        self.assertEqual(holder.wait(timeout=PATIENCE), 0, holder.stderr.read())
        self.tell(waiter, "")
        self.assertEqual(waiter.wait(timeout=PATIENCE), 0, waiter.stderr.read())
        self.assertEqual(self.show()["held"], 0)

    def test_a_dead_holder_is_followed_after_its_lease_and_not_before(self):
        for jump in ("+5h", "-5h"):
            holder = self.start(self.first, "--lease=1s")
            fence = self.fence_of(holder)
            waiter = self.start(self.second, "--lease=1s")
            self.until_waiting(waiter)
            holder.kill()
            holder.wait(timeout=PATIENCE)
            self.second.jump(jump)
            before = time.monotonic()
            left_ms = self.show()["holders"][0]["expires_in_ms"]
            self.assertGreater(self.fence_of(waiter), fence)
            self.assertGreaterEqual((time.monotonic() - before) * 1000, left_ms)
            self.tell(waiter, "")
            self.assertEqual(waiter.wait(timeout=PATIENCE), 0, waiter.stderr.read())

    def test_a_time_out_of_a_wait_comes_in_time(self):
        holder = self.start(self.first, "--lease=1s")
        self.fence_of(holder)
        waiter = self.start(self.second, "--wait=1s")
        before = time.monotonic()
        self.until_waiting(waiter)
        self.second.jump("+5h")
        self.second.jump("-5h")
        self.assertEqual(waiter.wait(timeout=PATIENCE), 75)
        self.assertGreater(time.monotonic() - before, 0.5, "an hour is not over")
        self.tell(holder, "")
        self.assertEqual(holder.wait(timeout=PATIENCE), 0, holder.stderr.read())

    def test_a_soak_while_it_jumps_all_the_time(self):
        soak = subprocess.Popen(
            [SOAK, "--gtest_brief=1"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(self.first.environment, HOLDFAST_SOAK_SECONDS="4"))
        self.addCleanup(self.end, soak)
        jumps = 0
        while soak.poll() is None:
            self.first.jump(f"{random.randint(-1000, 1000):+d}h")
            jumps += 1
            try:
                soak.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                pass
        output = soak.stdout.read()
        print(f"{jumps} jumps: {output}")
        self.assertEqual(soak.returncode, 0, output)
        self.assertGreater(jumps, 20)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM python3 config_test.py [CLASS]: settings from files, with the real program."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["HOLDFAST"]
PATIENCE = 50


class InAFolder(unittest.TestCase):
    """A folder to work in, and beside it those of the user and of the system."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.here = self.root / "here"
        self.here.mkdir(mode=0o755)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("XDG_", "HOLDFAST_"))}
        self.environment |= {"HOME": str(self.root / "home"),
                             "XDG_CONFIG_DIRS": f"{self.root}/one:{self.root}/two"}
        self.files = {"here": self.here / "holdfast.toml",
                      "user": self.root / "home/.config/holdfast/holdfast.toml",
                      "one": self.root / "one/holdfast/holdfast.toml",
                      "two": self.root / "two/holdfast/holdfast.toml"}

    def write(self, place: str, text: str, mode: int = 0o644) -> pathlib.Path:
        file = self.files[place]
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def expect(self, code: int, *words: str, **options) -> subprocess.CompletedProcess:
        done = subprocess.run([PROGRAM, *words], cwd=self.here, text=True, timeout=PATIENCE,
                              capture_output=True, env=self.environment, **options)
        self.assertEqual(done.returncode, code, f"{words} {done.stdout} {done.stderr}")
        return done

    def shown(self) -> dict:
        answer = json.loads(self.expect(0, "config", "show", "-o", "json").stdout)
        return {setting["name"]: setting for setting in answer["settings"]}


class Stores(InAFolder):
    def test_the_strongest_counts(self):
        """From the weakest on; each takes the store away from the one before."""
        names = []
        steps = [lambda: None] + [
            lambda place=place: self.write(place, f'store = "sqlite:{self.root}/{place}.db"')
            for place in ("two", "one", "user", "here")]
        steps.append(lambda: self.environment.update(HOLDFAST_STORE=f"sqlite:{self.root}/env.db"))
        (self.root / "home/.local/state").mkdir(parents=True)
        for step in steps:
            step()
            self.expect(0, "state", "set", "a", "1", "--if-absent")
            names.append(json.loads(self.expect(0, "state", "list", "-o", "json").stdout)["store"])
        self.expect(0, "state", "set", "a", "1", "--if-absent", f"--store=sqlite:{self.root}/o.db")
        self.assertEqual(names, [f"sqlite:{self.root}/{name}" for name in
                                 ("home/.local/state/holdfast/locks.db", "two.db", "one.db",
                                  "user.db", "here.db", "env.db")])

    def test_it_counts_for_all_commands(self):
        self.write("here", 'store = "sqlite:mine.db"')
        self.expect(0, "lock", "a", "--", "true")
        self.expect(0, "state", "set", "b", "1")
        self.assertTrue((self.here / "mine.db").is_file())
        url = f"sqlite:{self.here}/mine.db"
        self.assertEqual(json.loads(self.expect(0, "locks", "-o", "json").stdout)["store"], url)
        self.assertEqual(self.expect(0, "state", "get", "b").stdout, "1\n")
        self.assertIn("sound", self.expect(0, "store", "check").stdout)
        done = self.expect(0, "lock", "a", "--", "printenv", "HOLDFAST_STORE")
        self.assertEqual(done.stdout, url + "\n", "the same for a command that goes elsewhere")

    def test_without_any_it_is_the_users_own(self):
        done = self.expect(66, "store", "check")
        self.assertIn(f"{self.root}/home/.local/state/holdfast/locks.db", done.stderr)
        self.expect(0, "lock", "a", "--", "true")
        self.expect(0, "store", "check")
        del self.environment["HOME"]
        self.assertIn("give '--store URL'", self.expect(64, "store", "check").stderr)


class Locks(InAFolder):
    def expiry_ms(self, *options: str) -> int:
        """What is left of the lease while a command holds the lock."""
        done = self.expect(0, "lock", "a", *options, "--", PROGRAM, "locks", "show", "a", "-o",
                           "json")
        return json.loads(done.stdout)["holders"][0]["expires_in_ms"]

    def test_the_lease(self):
        self.assertLessEqual(self.expiry_ms(), 30_000)
        self.write("user", '[lock]\nlease = "2h"')
        self.assertGreater(self.expiry_ms(), 3_600_000)
        self.assertLessEqual(self.expiry_ms("--lease=40s"), 40_000)
        self.write("here", 'lock.lease = "20h"')
        self.assertGreater(self.expiry_ms(), 10 * 3_600_000)

    def test_the_grace(self):
        self.write("here", '[lock]\ngrace = "10ms"')
        done = self.expect(124, "lock", "a", "--max-run=10ms", "--", "sleep", "1000",
                           preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
        self.assertIn("the command did not end in time; it is killed", done.stderr)


class Refused(InAFolder):
    def test_files_that_cannot_be_understood(self):
        for place in self.files:
            file = self.write(place, '# ours\nstroe = "sqlite:/a.db"')
            for words in (["state", "set", "a", "1"], ["locks"], ["store", "stats"],
                          ["lock", "a", "--", "true"], ["config", "show"]):
                done = self.expect(78, *words)
                self.assertEqual(done.stderr, f"holdfast: {file}:2: unknown key 'stroe'; known are "
                                              "'store' and [lock]\n")
            file.unlink()
        self.assertFalse((self.root / "home/.local").exists(), "nothing was made")

    def test_an_option_or_a_variable_leaves_nothing_to_ask_a_file(self):
        self.write("here", "store = 1")
        self.expect(0, "state", "set", "a", "1", "--store=sqlite:a.db")
        self.environment["HOLDFAST_STORE"] = "sqlite:a.db"
        self.expect(0, "state", "get", "a")
        self.expect(78, "lock", "a", "--", "true")
        self.expect(0, "lock", "a", "--lease=1m", "--on-lost=term", "--grace=1s", "--", "true")

    def test_a_file_that_others_may_write(self):
        file = self.write("here", 'store = "sqlite:a.db"', 0o666)
        done = self.expect(78, "state", "set", "a", "1")
        self.assertEqual(done.stderr, f"holdfast: {file} is not used: other users may write to it; "
                                      "run 'chmod go-w' on it\n")
        file.chmod(0o644)
        self.here.chmod(0o777)
        done = self.expect(78, "state", "set", "a", "1")
        self.assertIn("other users may write to its folder", done.stderr)
        self.assertFalse((self.here / "a.db").exists())

    @unittest.skipIf(os.geteuid() != 0, "only root can give files away")
    def test_a_file_of_somebody_else(self):
        os.chown(self.write("here", 'store = "sqlite:a.db"'), 12345, 12345)
        self.assertIn("it belongs to user 12345", self.expect(78, "locks").stderr)

    def test_no_secret_is_shown(self):
        secret = "s3cret"
        for text in (f"store = 'postgers://ada:{secret}@db/app'",
                     f"store = postgres://ada:{secret}@db/app",
                     f"store = ['postgres://ada:{secret}@db/app']",
                     f"store = 'sqlite:/no/a.db?password={secret}'"):
            self.write("here", text)
            for words in (["state", "set", "a", "1"], ["store", "check"], ["locks"],
                          ["config", "show"], ["config", "show", "-o", "json"],
                          ["lock", "a", "--", "true"]):
                done = subprocess.run([PROGRAM, *words], cwd=self.here, text=True, timeout=PATIENCE,
                                      capture_output=True, env=self.environment)
                self.assertNotIn("s3c", done.stdout + done.stderr, words)
                self.assertTrue(done.returncode != 0 or words[0] == "config")
        self.files["here"].unlink()
        for words in (["state", "get", "a", f"--store=x://ada:{secret}@db"],
                      ["store", "stats", f"--store=x://ada:{secret}@db"]):
            done = self.expect(64, *words)
            self.assertIn("ada:***@db", done.stderr)
            self.assertNotIn("s3c", done.stderr)


class Shown(InAFolder):
    def test_each_setting_and_where_it_is_from(self):
        own = f"sqlite:{self.root}/home/.local/state/holdfast/locks.db"
        default = {"source": "default", "file": None, "line": None}
        self.assertEqual(self.shown(), {
            "store": default | {"name": "store", "value": own},
            "lock.lease": default | {"name": "lock.lease", "value": "30s"},
            "lock.on_lost": default | {"name": "lock.on_lost", "value": "term"},
            "lock.grace": default | {"name": "lock.grace", "value": "10s"}})
        here = self.write("here", "store = 'postgres://ada:s3cret@db/app'\n")
        user = self.write("user", "[lock]\n\non_lost = 'warn'\n")
        shown = self.shown()
        self.assertEqual(shown["store"], {"name": "store", "value": "postgres://ada:***@db/app",
                                          "source": "file", "file": str(here), "line": 1})
        self.assertEqual(shown["lock.on_lost"], {"name": "lock.on_lost", "value": "warn",
                                                 "source": "file", "file": str(user), "line": 3})
        self.environment["HOLDFAST_STORE"] = "memory:"
        self.assertEqual(self.shown()["store"], {"name": "store", "value": "memory:",
                                                 "source": "environment", "file": None,
                                                 "line": None})
        table = self.expect(0, "config", "show").stdout
        self.assertRegex(table, r"^SETTING +VALUE +FROM\nstore +memory: +HOLDFAST_STORE\n"
                                r"lock.lease +30s +default\nlock.on_lost +warn +/.*toml:3\n")
        lines = self.expect(0, "config", "show", "-o", "jsonl").stdout.splitlines()
        self.assertEqual([json.loads(line)["name"] for line in lines], list(self.shown()))


if __name__ == "__main__":
    unittest.main()

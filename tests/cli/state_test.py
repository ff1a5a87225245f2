# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM STORE_MAKER=PROGRAM python3 state_test.py [CLASS]: `holdfast state` with real
processes."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["HOLDFAST"]
MAKER = os.environ["STORE_MAKER"]
PATIENCE = 50


class InAFolder(unittest.TestCase):
    """A folder with a store of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.url = f"sqlite:{self.folder}/a.db"
        self.environment = dict(os.environ, HOLDFAST_STORE=self.url,
                                XDG_CONFIG_HOME=str(self.folder / "config"))

    def state(self, code: int, *words: str, **options) -> subprocess.CompletedProcess:
        done = subprocess.run([PROGRAM, "state", *words], cwd=self.folder, text=True,
                              timeout=PATIENCE, capture_output=True, env=self.environment,
                              **options)
        self.assertEqual(done.returncode, code, f"{words} {done.stdout} {done.stderr}")
        if code != 0:
            self.assertEqual(done.stdout, "")
            self.assertTrue(done.stderr.startswith("holdfast: "), done.stderr)
        return done

    def out(self, *words: str, **options) -> str:
        done = self.state(0, *words, **options)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def cell(self, *words: str) -> dict:
        return json.loads(self.out("get", *words, "-o", "json"))

    def start(self, *words: str) -> subprocess.Popen:
        process = subprocess.Popen([PROGRAM, "state", *words], cwd=self.folder, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


class Values(InAFolder):
    def test_what_was_set_is_got(self):
        for value in (None, True, 0, -5, 2**64 - 1, -2**63, 0.1, 1.0, 1e300, "", "ü\n\"\\", [], {},
                      [1, [2]], {"a": {"b": None}}):
            version = int(self.out("set", "a", json.dumps(value)))
            text = self.out("get", "a")
            self.assertEqual(text.count("\n"), 1)
            self.assertEqual(repr(json.loads(text)), repr(value))
            self.assertEqual(self.cell("a"), {"key": "cell/global/a", "scope": "global",
                                              "name": "a", "version": version, "value": value})

    def test_each_change_has_a_greater_version_and_none_is_none(self):
        first = int(self.out("set", "a", "1"))
        second = int(self.out("set", "a", "2"))
        self.assertGreater(second, first)
        self.assertEqual(int(self.out("set", "a", "2")), second, "nothing was written")
        self.assertEqual(self.cell("a")["version"], second)

    def test_standard_input(self):
        self.out("set", "a", "-", input='{"text": "of\\n several",\n "lines": 2}\n')
        self.assertEqual(self.cell("a")["value"], {"text": "of\n several", "lines": 2})
        self.out("patch", "a", "-", input='{"text": null}')
        self.assertEqual(self.cell("a")["value"], {"lines": 2})
        done = self.state(65, "set", "a", "-", input='{"a": 1,\n "b" 2}')
        self.assertEqual(done.stderr,
                         "holdfast: standard input is no JSON: line 2, column 6: syntax error\n")
        done = self.state(65, "set", "a", "-", input='"' + "x" * (4 << 20) + '"')
        self.assertIn("more than 4194304 bytes", done.stderr)
        self.assertEqual(self.cell("a")["value"], {"lines": 2})

    def test_patch_merges(self):
        self.out("set", "a", '{"a": 1, "b": {"c": 2, "d": 3}}')
        version = int(self.out("patch", "a", '{"a": null, "b": {"c": 4}, "e": 5}'))
        self.assertEqual(self.cell("a")["value"], {"b": {"c": 4, "d": 3}, "e": 5})
        self.assertEqual(self.cell("a")["version"], version)
        self.out("patch", "new", '{"a": 1}')
        self.assertEqual(self.cell("new")["value"], {"a": 1})
        self.assertEqual(self.out("patch", "none", "null"), "(none)\n")
        self.state(66, "get", "none")

    def test_what_is_not_there(self):
        done = self.state(66, "get", "a")
        self.assertIn("there is no store", done.stderr)
        self.out("set", "b", "1")
        for words in (["get", "a"], ["delete", "a"], ["delete", "a", "--if-version", "1"]):
            done = self.state(66, *words)
            self.assertEqual(done.stderr, "holdfast: there is no cell 'a' in global\n")
        done = self.state(66, "get", "a", "--scope", "user:4\x1b")
        self.assertEqual(done.stderr, "holdfast: there is no cell 'a' in user:4\\x1b\n")

    def test_delete(self):
        version = int(self.out("set", "a", "1"))
        self.assertEqual(self.out("delete", "a"), "")
        self.state(66, "get", "a")
        again = int(self.out("set", "a", "1"))
        self.assertGreater(again, version)
        answer = json.loads(self.out("delete", "a", "-o", "json"))
        self.assertEqual(answer, {"key": "cell/global/a", "scope": "global", "name": "a",
                                  "deleted_version": again})

    def test_forms_of_output(self):
        self.out("set", "a", '{"b": "\\u001b\\u009b"}')
        self.assertEqual(self.out("get", "a"), '{"b": "\\u001b\\u009b"}\n')
        self.assertEqual(self.out("get", "a", "-o", "json"), self.out("get", "a", "-o", "jsonl"))
        self.assertRegex(self.out("get", "a", "-o", "table"),
                         r'^NAME  SCOPE   VERSION  VALUE\na     global  \d+ +\{"b": .*\}\n$')
        answer = json.loads(self.out("set", "a", "7", "-o", "json"))
        self.assertEqual(answer, self.cell("a"))

    def test_on_a_terminal_it_is_indented(self):
        self.out("set", "a", '{"b": [1, 2], "c": {}}')
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(PROGRAM, [PROGRAM, "state", "get", "a"], dict(self.environment, TERM="xterm"))
        text = b""
        try:
            while piece := os.read(terminal, 4096):
                text += piece
        except OSError:  # The other side is closed.
            pass
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(text.decode().replace("\r\n", "\n"),
                         '{\n  "b": [\n    1,\n    2\n  ],\n  "c": {}\n}\n')

    def test_without_a_store_it_is_the_one_of_the_user(self):
        del self.environment["HOLDFAST_STORE"]
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        self.state(66, "get", "a")
        self.state(66, "delete", "a")
        self.state(66, "watch", "a")
        self.state(75, "set", "a", "1", "--if-version", "1")
        self.state(65, "set", "a", "x")
        self.assertEqual(self.out("list"), "no cells\n")
        self.assertEqual(list(self.folder.iterdir()), [], "to look makes nothing")
        self.out("set", "a", "1")
        self.assertEqual(self.out("get", "a"), "1\n")
        self.assertTrue((self.folder / "state/holdfast/locks.db").is_file())


class Scopes(InAFolder):
    def test_a_name_means_another_cell_in_each(self):
        scopes = ["global", "request:7", "session:7", "user:7", "user:a/b:c", "org:7", "user:7/a",
                  "execution:7", "workflow:7"]
        for number, scope in enumerate(scopes):
            self.out("set", "a", str(number), "--scope", scope)
        for number, scope in enumerate(scopes):
            cell = self.cell("a", f"--scope={scope}")
            self.assertEqual((cell["scope"], cell["name"], cell["value"]), (scope, "a", number))
        self.assertEqual(self.out("get", "a"), "0\n")
        self.assertEqual(self.cell("a", "--scope=user:a/b:c")["key"], "cell/user/a%2Fb:c/a")
        cells = json.loads(self.out("list", "--all", "-o", "json"))["cells"]
        self.assertEqual(sorted(cell["scope"] for cell in cells), sorted(scopes))

    def test_what_no_scope_is(self):
        for scope, text in (("usr:7", "'--scope usr:7' is unknown; did you mean 'user:ID'?"),
                            ("planet:7", "write global, request:ID, session:ID, user:ID, org:ID, "
                                         "execution:ID or workflow:TYPE"),
                            ("user", "'--scope user' lacks whose it is; write user:ID"),
                            ("user:", "write user:ID"),
                            ("global:7", "there is one global scope, without an ID")):
            done = self.state(64, "set", "a", "1", "--scope", scope)
            self.assertIn(text, done.stderr)
        done = self.state(64, "set", "a", "1", "--scope", "user:" + "x" * 256)
        self.assertIn("has 256 bytes; give 1 to 255", done.stderr)
        self.state(64, "set", "x" * 256, "1")
        self.assertEqual(list(self.folder.iterdir()), [], "nothing was made")


class Lists(InAFolder):
    def names(self, *words: str) -> list[str]:
        return [json.loads(line)["name"] for line in
                self.state(0, "list", "-o", "jsonl", *words).stdout.splitlines()]

    def test_by_prefix_and_scope(self):
        for name in ("b", "a/1", "a", "a/2", "ab", "%"):
            self.out("set", name, "1")
        self.out("set", "a", "2", "--scope=user:1")
        self.out("set", "a", "3", "--scope=user:12")
        self.assertEqual(self.names(), ["%", "a", "a/1", "a/2", "ab", "b"])
        self.assertEqual(self.names("a"), ["a", "a/1", "a/2", "ab"])
        self.assertEqual(self.names("a/"), ["a/1", "a/2"])
        self.assertEqual(self.names("%"), ["%"])
        self.assertEqual(self.names("x"), [])
        self.assertEqual(self.names("--scope=user:1"), ["a"])
        self.assertEqual(len(self.names("--all")), 8)
        self.assertEqual(self.out("list", "x"), "no cells\n")
        self.assertRegex(self.out("list", "--scope=user:1"),
                         r"^NAME  SCOPE   VERSION  VALUE\na     user:1  \d+ +2\n$")

    def test_pages(self):
        for number in range(5):
            self.out("set", str(number), "1")
        page = json.loads(self.out("list", "--limit=2", "-o", "json"))
        self.assertEqual((page["store"], page["more"], len(page["cells"])), (self.url, True, 2))
        last = page["cells"][-1]["key"]
        page = json.loads(self.out("list", "--limit=3", "--after", last, "-o", "json"))
        self.assertEqual((page["more"], [cell["name"] for cell in page["cells"]]),
                         (False, ["2", "3", "4"]))
        for form in ("table", "jsonl"):
            done = self.state(0, "list", "--limit=2", "-o", form)
            self.assertEqual(done.stderr, "holdfast: there are more: go on with --after "
                                          "'cell/global/1', or set --limit\n")
        self.assertEqual(self.names("--limit=5"), ["0", "1", "2", "3", "4"])

    def test_more_than_one_page_of_the_store(self):
        subprocess.run([MAKER, "cells", self.url, "2345"], check=True, timeout=PATIENCE)
        self.assertEqual(len(self.names()), 1000)
        names = self.names("--limit=100000")
        self.assertEqual(names, sorted(names))
        self.assertEqual(len(set(names)), 2345)
        self.assertEqual(len(self.names("--limit=2001")), 2001)


class Refused(InAFolder):
    def test_json_that_is_none(self):
        self.out("set", "a", "1")
        before = self.cell("a")
        for text, place in (("{", "line 1, column 2: it ends too early"),
                            ("", "line 1, column 1: it ends too early"),
                            ("{\n 'a': 1}", "line 2, column 2"),
                            ("1 2", "line 1, column 3: nothing is expected here any more"),
                            ("1e999", "a number that is too large"),
                            ('"ü" x', "line 1, column 5"),
                            ("[" * 65 + "]" * 65, "line 1, column 65: more than 64 levels"),
                            ("nul", "line 1, column 4"), ("NaN", "line 1, column 1")):
            for verb in ("set", "patch"):
                done = self.state(65, verb, "a", text)
                self.assertIn("holdfast: the value is no JSON: ", done.stderr)
                self.assertIn(place, done.stderr)
        self.assertEqual(self.cell("a"), before)

    def test_words(self):
        for words, text in (
                ([], "a command is missing behind 'state'"),
                (["gte"], "unknown command 'gte'; did you mean 'get'?"),
                (["get"], "the name of the cell is missing: write 'holdfast state get KEY'"),
                (["set", "a"], "the value is missing: write 'holdfast state set a JSON'"),
                (["set", "a", "1", "2"], "unexpected argument '2'; put JSON into single quotes"),
                (["get", "a", "--if-version=1"], "unknown option '--if-version'"),
                (["set", "a", "1", "--if-version=0"], "'--if-version 0' is no number from 1"),
                (["set", "a", "1", "--if-version=x"], "'--if-version x' is no number from 1"),
                (["set", "a", "1", "--if-version=1", "--if-absent"], "exclude each other"),
                (["list", "--limit=0"], "'--limit 0' is no number from 1 to 1000000"),
                (["list", "--after=a"], "'--after a' is no key of a cell"),
                (["list", "--all", "--scope=user:1"], "exclude each other"),
                (["list", "--all", "a"], "'--all' lists every scope"),
                (["get", "a", "-o", "jsno"], "unknown form 'jsno' of output; did you mean 'json")):
            self.assertIn(text, self.state(64, *words).stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_looks_like_an_option(self):
        self.out("set", "a", "-1")
        self.out("set", "--", "--a", "-2.5")
        self.assertEqual((self.out("get", "a"), self.out("get", "--", "--a")), ("-1\n", "-2.5\n"))

    def test_stores_that_cannot_be_used(self):
        self.state(66, "get", "a", "--store=sqlite:b.db")
        self.state(66, "list", "--store=sqlite:b.db")
        self.state(66, "set", "a", "1", "--if-version=1", "--store=sqlite:b.db")
        self.state(64, "get", "a", "--store=sqllite:b.db")
        self.state(66, "get", "a", "--store=memory:")
        self.assertEqual(list(self.folder.iterdir()), [])
        (self.folder / "a.txt").write_text("Dear diary, " * 500)
        (self.folder / "a.txt").chmod(0o600)
        self.state(65, "get", "a", "--store=sqlite:a.txt")

    def test_a_store_that_another_process_does_not_let_go_of(self):
        self.out("set", "a", "1")
        keeper = subprocess.Popen([MAKER, "keep", "a.db"], cwd=self.folder, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, keeper)
        self.assertEqual(keeper.stdout.readline(), "ready\n")
        self.state(69, "set", "a", "2", f"--store={self.url}?busy_timeout=100ms")
        self.end(keeper)
        self.assertEqual(self.out("get", "a"), "1\n")

    def test_a_damaged_cell_is_told_and_can_be_deleted(self):
        subprocess.run([MAKER, "put", self.url, "cell/global/a", "no JSON"], check=True,
                       timeout=PATIENCE)
        for words in (["get", "a"], ["set", "a", "1"], ["patch", "a", "1"], ["list"]):
            self.assertIn("cell/global/a", self.state(65, *words).stderr)
        self.out("delete", "a")
        self.out("set", "a", "1")

    def test_output_that_cannot_be_written(self):
        self.out("set", "a", "1")
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "state", "get", "a"], env=self.environment, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 74, done.stderr)


class Races(InAFolder):
    def test_a_version_is_a_condition(self):
        version = int(self.out("set", "a", "1", "--if-absent"))
        done = self.state(75, "set", "a", "2", "--if-absent")
        self.assertEqual(done.stderr, f"holdfast: 'a' in global is there already, at version "
                                      f"{version}; nothing was changed\n")
        next_version = int(self.out("set", "a", "2", "--if-version", str(version)))
        for words in (["set", "a", "3"], ["patch", "a", "3"], ["delete", "a"]):
            done = self.state(75, *words, "--if-version", str(version))
            self.assertEqual(done.stderr, f"holdfast: 'a' in global is at version {next_version}, "
                                          f"not {version}; nothing was changed\n")
        done = self.state(75, "set", "b", "3", "--if-version", str(version))
        self.assertIn("there is no cell 'b' in global, at version", done.stderr)
        self.assertEqual(self.cell("a")["value"], 2)
        self.out("patch", "a", "3", f"--if-version={next_version}")
        self.out("delete", "a", f"--if-version={self.cell('a')['version']}")

    def race(self, *words: str) -> tuple[list[int], list[int]]:
        """Several that want to set different values at once: who won, and their versions."""
        racers = [self.start("set", "a", "-", *words) for _ in range(6)]
        for number, racer in enumerate(racers):
            racer.stdin.write(str(number))
        for racer in racers:  # They have started, and wait for the end of their input.
            racer.stdin.close()
            racer.stdin = None
        winners, versions = [], []
        for number, racer in enumerate(racers):
            out, error = racer.communicate(timeout=PATIENCE)
            if racer.returncode == 0:
                winners.append(number)
                versions.append(int(out))
            else:
                self.assertEqual(racer.returncode, 75, error)
                self.assertIn("nothing was changed", error)
        return winners, versions

    def test_of_those_who_name_a_version_one_wins(self):
        version = int(self.out("set", "a", "-1"))
        for _ in range(5):
            winners, versions = self.race("--if-version", str(version))
            self.assertEqual(len(winners), 1)
            self.assertGreater(versions[0], version)
            cell = self.cell("a")
            self.assertEqual((cell["value"], cell["version"]), (winners[0], versions[0]))
            version = versions[0]

    def test_of_those_who_want_to_be_first_one_is(self):
        self.out("set", "b", "1")
        winners, versions = self.race("--if-absent")
        self.assertEqual(len(winners), 1)
        self.assertEqual((self.cell("a")["value"], self.cell("a")["version"]),
                         (winners[0], versions[0]))

    def test_no_patch_is_lost(self):
        self.out("set", "a", "{}")
        patchers = [self.start("patch", "a", json.dumps({str(number): number}))
                    for number in range(8)]
        for patcher in patchers:
            self.assertEqual(patcher.wait(timeout=PATIENCE), 0)
        self.assertEqual(self.cell("a")["value"], {str(number): number for number in range(8)})


class Watches(InAFolder):
    def ends_by(self, watcher: subprocess.Popen, number: int) -> None:
        watcher.send_signal(number)
        self.assertEqual(watcher.wait(timeout=PATIENCE), -number)
        self.assertEqual(watcher.stdout.read() + watcher.stderr.read(), "")

    def test_the_value_now_and_then_each_change(self):
        self.out("set", "a", "1")
        watcher = self.start("watch", "a")
        self.assertEqual(watcher.stdout.readline(), "1\n")
        self.out("set", "ab", "7")
        self.out("set", "a", "7", "--scope=user:1")
        for value in ("2", '{"b": [3]}', "null"):
            self.out("set", "a", value)
            self.assertEqual(watcher.stdout.readline(), value + "\n")
        self.out("delete", "a")
        self.assertEqual(watcher.stdout.readline(), "(none)\n")
        self.out("set", "a", "4")
        self.assertEqual(watcher.stdout.readline(), "4\n")
        self.ends_by(watcher, signal.SIGINT)

    def test_with_versions(self):
        self.out("set", "b", "1")
        watcher = self.start("watch", "a", "-o", "jsonl", "--scope", "org:1")
        which = {"key": "cell/org/1/a", "scope": "org:1", "name": "a"}
        none = which | {"version": None, "present": False, "value": None}
        self.assertEqual(json.loads(watcher.stdout.readline()), none)
        version = int(self.out("set", "a", "null", "--scope=org:1"))
        self.assertEqual(json.loads(watcher.stdout.readline()),
                         which | {"version": version, "present": True, "value": None})
        self.out("delete", "a", "--scope=org:1")
        self.assertEqual(json.loads(watcher.stdout.readline()), none)
        self.ends_by(watcher, signal.SIGTERM)

    def test_a_reader_that_has_gone_ends_it(self):
        self.out("set", "a", "1")
        watcher = self.start("watch", "a")
        self.assertEqual(watcher.stdout.readline(), "1\n")
        watcher.stdout.close()
        self.out("set", "a", "2")
        self.assertEqual(watcher.wait(timeout=PATIENCE), -signal.SIGPIPE)
        watcher.stdout = None

    def test_a_store_that_is_not_there(self):
        self.state(66, "watch", "a")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""HOLDFAST=PROGRAM STORE_MAKER=PROGRAM python3 store_test.py [Sound|Damaged|Refused|Shared]:
`holdfast store` on stores of every kind of health."""
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["HOLDFAST"]
MAKER = os.environ["STORE_MAKER"]
PAGE_BYTES = 4096
NOBODY = 65534


class InAFolder(unittest.TestCase):
    """A folder of its own, in which the program runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def make(self, *words: str) -> None:
        subprocess.run([MAKER, *words], cwd=self.folder, check=True, timeout=50)

    def run_store(self, *words: str, url: str | None = None, **options):
        environment = {name: value for name, value in os.environ.items()
                       if name != "HOLDFAST_STORE"}
        environment |= options.pop("env", {})
        words = (*words, "--store", url) if url else words
        return subprocess.run([PROGRAM, "store", *words], cwd=self.folder, text=True, timeout=50,
                              capture_output=True, env=environment, **options)

    def expect(self, code: int, *words: str, url: str | None = None, **options):
        done = self.run_store(*words, url=url, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def expect_refusal(self, code: int, text: str, *words: str, url: str | None = None, **options):
        """One line on standard error, and none on the other."""
        before = self.listing()
        done = self.expect(code, *words, url=url, **options)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^holdfast: .* \(error \d{3}, see docs/errors\)\n$")
        self.assertIn(text, done.stderr)
        self.assertEqual(self.listing(), before, "a refusal changes nothing")

    def listing(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()
                and not path.name.endswith(("-shm", "-hold"))}

    def flip(self, name: str, offset: int) -> None:
        path = self.folder / name
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)


class Sound(InAFolder):
    def setUp(self):
        super().setUp()
        self.make("fill", "sqlite:a.db", "300")

    def test_check_counts_the_entries(self):
        self.assertEqual(self.expect(0, "check", url="sqlite:a.db").stdout, "sound: 300 entries\n")
        answer = json.loads(self.expect(0, "check", "-o", "json", url="sqlite:a.db").stdout)
        self.assertEqual(answer, {"store": "sqlite:a.db", "sound": True, "entries": 300,
                                  "faults": []})

    def test_stats_are_a_table_of_two_columns(self):
        lines = self.expect(0, "stats", url="sqlite:a.db").stdout.splitlines()
        rows = dict(re.split(r"  +", line, maxsplit=1) for line in lines)
        self.assertEqual(rows["store"], "sqlite:a.db")
        self.assertEqual((rows["entries"], rows["last version"], rows["format"]),
                         ("300", "300", "1"))
        self.assertRegex(rows["size on disk"], r"^\d+ KiB \(\d+ bytes\)$")
        self.assertRegex(rows["SQLite"], r"^3\.")

    def test_stats_as_json_have_numbers(self):
        answer = json.loads(self.expect(0, "stats", "-o", "json", url="sqlite:a.db").stdout)
        self.assertEqual(list(answer),
                         ["store", "entries", "bytes", "last_version", "format", "details"])
        self.assertEqual((answer["entries"], answer["last_version"], answer["format"]),
                         (300, 300, 1))
        self.assertEqual(answer["details"]["page_bytes"], PAGE_BYTES)
        files = sum(path.stat().st_size for path in self.folder.iterdir())
        self.assertEqual(answer["bytes"], files)

    def test_the_environment_names_the_store_and_the_option_goes_first(self):
        environment = {"HOLDFAST_STORE": "sqlite:a.db"}
        self.expect(0, "check", env=environment)
        self.expect(66, "check", url="sqlite:none.db", env=environment)

    def test_a_backup_is_a_store_that_is_sound(self):
        done = self.expect(0, "backup", "copy.db", url="sqlite:a.db")
        bytes_copied = (self.folder / "copy.db").stat().st_size
        self.assertRegex(done.stdout, rf"^copied 300 entries, \d+ KiB \({bytes_copied} bytes\), "
                                      rf"to {re.escape(str(self.folder))}/copy\.db\n$")
        self.assertFalse(list(self.folder.glob("copy.db?*")), "it needs no files beside it")
        self.assertEqual((self.folder / "copy.db").stat().st_mode & 0o777, 0o600)
        self.expect(0, "check", url="sqlite:copy.db")

    def test_a_backup_as_json(self):
        done = self.expect(0, "backup", "copy.db", "--output=json", url="sqlite:a.db")
        self.assertEqual(json.loads(done.stdout),
                         {"store": "sqlite:a.db", "target": str(self.folder / "copy.db"),
                          "entries": 300, "bytes": (self.folder / "copy.db").stat().st_size})

    def test_a_backup_that_is_put_in_place_of_a_store_is_that_store(self):
        self.expect(0, "backup", "copy.db", url="sqlite:a.db")
        self.make("fill", "sqlite:a.db", "600")
        for path in self.folder.glob("a.db-*"):
            path.unlink()
        (self.folder / "copy.db").rename(self.folder / "a.db")
        self.assertEqual(self.expect(0, "check", url="sqlite:a.db").stdout, "sound: 300 entries\n")
        stats = json.loads(self.expect(0, "stats", "-o", "json", url="sqlite:a.db").stdout)
        self.assertGreater(stats["last_version"], 2**32, "no version is given again")

    def test_a_backup_into_a_file_that_exists_leaves_it_alone(self):
        (self.folder / "copy.db").write_text("precious")
        self.expect_refusal(64, "copy.db exists", "backup", "copy.db", url="sqlite:a.db")

    def test_a_backup_into_a_folder_that_does_not_exist(self):
        self.expect_refusal(64, "there is no folder", "backup", "no/copy.db", url="sqlite:a.db")

    def test_names_with_control_characters_do_not_reach_the_terminal(self):
        done = self.expect(0, "backup", "a\x1b[2J\n.db", url="sqlite:a.db")
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1)
        done = self.expect(66, "check", url="sqlite:\x1b[2J")
        self.assertNotIn("\x1b", done.stderr)
        done = self.expect(0, "backup", "\"\x1b\udcff", "-o", "json", url="sqlite:a.db")
        self.assertTrue(json.loads(done.stdout)["target"].endswith("/\"\x1b\ufffd"))

    def test_an_output_that_cannot_be_written_is_told(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "store", "check", "--store", "sqlite:a.db"],
                                  cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=50)
        self.assertEqual(done.returncode, 74)
        self.assertIn("standard output cannot be written", done.stderr)


class Damaged(InAFolder):
    def setUp(self):
        super().setUp()
        self.make("fill", "sqlite:a.db", "300")
        for path in self.folder.glob("a.db-*"):
            path.unlink()

    def test_a_flipped_bit_of_any_page_is_found(self):
        pages = (self.folder / "a.db").stat().st_size // PAGE_BYTES
        self.assertGreaterEqual(pages, 5)
        for page in range(pages):
            with self.subTest(page=page + 1):
                shutil.copy(self.folder / "a.db", self.folder / "bad.db")
                self.flip("bad.db", page * PAGE_BYTES + 2000)
                done = self.expect(1, "check", url="sqlite:bad.db")
                self.assertEqual(done.stderr, "")
                self.assertRegex(done.stdout, r"^(fault: \S+/bad\.db: .*\n)+$")
                self.assertIn(f"page {page + 1} is damaged", done.stdout)
                answer = json.loads(
                    self.expect(1, "check", "-o", "json", url="sqlite:bad.db").stdout)
                self.assertFalse(answer["sound"])
                self.assertIn(f"page {page + 1} is damaged", " ".join(answer["faults"]))
                for path in self.folder.glob("bad.db*"):
                    path.unlink()

    def test_a_backup_of_it_is_refused_and_leaves_nothing(self):
        pages = (self.folder / "a.db").stat().st_size // PAGE_BYTES
        self.flip("a.db", (pages - 1) * PAGE_BYTES + 100)
        done = self.expect(65, "backup", "copy.db", url="sqlite:a.db")
        self.assertIn("(error 402, see docs/errors)", done.stderr)
        self.assertFalse(list(self.folder.glob("copy.db*")))

    def test_a_store_that_was_cut_off(self):
        os.truncate(self.folder / "a.db", PAGE_BYTES * 3)
        self.assertIn("fault: ", self.expect(1, "check", url="sqlite:a.db").stdout)


class Refused(InAFolder):
    def test_a_store_that_does_not_exist_is_not_made(self):
        for words in (["check"], ["stats"], ["backup", "copy.db"]):
            self.expect_refusal(66, f"there is no store at {self.folder}/none.db", *words,
                                url="sqlite:none.db")
        self.expect_refusal(66, "there is no store", "check", url="sqlite:no/folder/none.db")

    def test_an_empty_file_is_no_store_and_stays_empty(self):
        (self.folder / "empty.db").touch()
        self.expect_refusal(66, "is empty", "check", url="sqlite:empty.db")

    def test_a_text_is_no_store(self):
        (self.folder / "a.txt").write_text("Dear diary, " * 500)
        (self.folder / "a.txt").chmod(0o600)
        self.expect_refusal(65, "not even an SQLite database", "check", url="sqlite:a.txt")

    def test_a_database_of_another_program_is_no_store(self):
        database = sqlite3.connect(self.folder / "other.db")
        database.executescript("CREATE TABLE entries(key, value);")
        database.close()
        self.expect_refusal(65, "no Holdfast store", "stats", url="sqlite:other.db")

    def test_a_store_of_a_newer_format(self):
        self.make("fill", "sqlite:a.db", "3")
        self.make("newer", "a.db")
        for path in self.folder.glob("a.db-*"):
            path.unlink()
        self.expect_refusal(65, "has format 99", "check", url="sqlite:a.db")

    def test_a_folder_is_no_file(self):
        self.expect_refusal(64, "is a folder", "check", url=f"sqlite:{self.folder}")

    def test_urls_that_cannot_be_understood(self):
        for url, text in (("a.db", "write sqlite:a.db"), ("sqlite:", "has no path"),
                          ("sqlite:a.db?sync=maybe", "write strict or relaxed"),
                          ("sqlite:a.db?create=perhaps", "write yes or no"),
                          ("sqlite:a.db?busy_timeout=5", "is no time"),
                          ("sqlite:a%zz.db", "bad escape"), ("postgers://x", "unknown scheme")):
            with self.subTest(url=url):
                self.expect_refusal(64, text, "check", url=url)

    def test_a_url_that_says_create_does_not_make_a_store_either(self):
        self.expect_refusal(66, "there is no store", "check", url="sqlite:a.db?create=yes")

    def test_no_permission(self):
        self.make("fill", "sqlite:a.db", "3")
        user = {"user": NOBODY} if os.geteuid() == 0 else {}
        if user and subprocess.run([PROGRAM, "--version"], stdout=subprocess.DEVNULL,
                                   **user).returncode != 0:
            self.skipTest("another user cannot run the program")
        self.folder.chmod(0o755)
        if not user:
            (self.folder / "a.db").chmod(0)
        self.expect_refusal(77, "(error 108", "check", url=f"sqlite:{self.folder}/a.db", **user)
        self.folder.chmod(0o600 if user else 0)
        try:
            done = subprocess.run([PROGRAM, "store", "check", "--store",
                                   f"sqlite:{self.folder}/a.db"], capture_output=True, text=True,
                                  timeout=50, cwd="/", **user)
        finally:
            self.folder.chmod(0o700)
        self.assertEqual(done.returncode, 77, done.stderr)


class Shared(InAFolder):
    def start(self, *words: str) -> subprocess.Popen:
        process = subprocess.Popen([MAKER, *words], cwd=self.folder, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def end(self, process: subprocess.Popen) -> None:
        if process.poll() is None:
            process.communicate(timeout=50)
        self.assertEqual(process.returncode, 0)

    def test_backups_while_another_process_writes(self):
        writer = self.start("write", "sqlite:a.db")
        counts = []
        for i in range(5):
            done = self.expect(0, "backup", f"copy{i}.db", "-o", "json", url="sqlite:a.db")
            counts.append(json.loads(done.stdout)["entries"])
            self.assertEqual(self.expect(0, "check", url=f"sqlite:copy{i}.db").stdout,
                             f"sound: {counts[-1]} entries\n")
            self.expect(0, "check", url="sqlite:a.db")
        self.assertEqual(counts, sorted(counts))
        self.assertIsNone(writer.poll(), "it was not disturbed")
        self.end(writer)
        self.assertGreater(counts[-1], counts[0])
        self.expect(0, "check", url="sqlite:a.db")

    def test_a_store_that_another_process_does_not_let_go_of_is_busy(self):
        self.make("fill", "sqlite:a.db", "3")
        keeper = self.start("keep", "a.db")
        self.expect_refusal(69, "try again", "check", url="sqlite:a.db?busy_timeout=100ms")
        self.end(keeper)
        self.expect(0, "check", url="sqlite:a.db?busy_timeout=100ms")


if __name__ == "__main__":
    unittest.main()

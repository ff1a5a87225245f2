# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the files of the tree, and how faults are printed."""
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

# Wrong on purpose: what the lints are tried on.
SAMPLES = "tests/lint/"
CPP = (".cpp", ".hpp")


def files(root: pathlib.Path) -> list[str]:
    """Paths of all files that git knows or would add, below `root`; without git, of all files."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(git, capture_output=True, check=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [str(path.relative_to(root)) for path in root.rglob("*")]
        listed = [name for name in listed if not name.startswith((".git/", "build/"))]
    # A sample may itself be the root: then nothing below it is left out.
    return sorted(
        name
        for name in set(listed)
        if name and not (name.startswith(SAMPLES) and not name.endswith("CMakeLists.txt"))
        and (root / name).is_file()
    )


@dataclasses.dataclass
class Unit:
    """What is compiled in one go: one of our files, or several that CMake has put into a batch."""

    file: pathlib.Path
    command: str
    sources: list[str]  # Below the root.


def units(build: pathlib.Path, root: pathlib.Path) -> list[Unit]:
    """What compile_commands.json has of our files, each unit once."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        paths = [file]
        if file.is_relative_to(build):
            paths = [
                pathlib.Path(name)
                for name in re.findall(r'^#include "(/.*\.cpp)"$', file.read_text(), re.MULTILINE)
            ]
        ours = [path for path in paths if path.is_relative_to(root) and build not in path.parents]
        if ours:
            names = [str(path.relative_to(root)) for path in ours]
            found[file] = Unit(file, entry["command"], names)
    return list(found.values())


def root_of(argument: str | None) -> pathlib.Path:
    return pathlib.Path(argument or pathlib.Path(__file__).parent.parent).resolve()


def finish(check: str, faults: list[str], checked: str) -> None:
    """Prints the faults and ends the program: with 1 if there is any."""
    for fault in faults:
        print(fault)
    print(f"{check}: {len(faults)} faults in {checked}" if faults else f"{check}: {checked}, clean")
    sys.exit(1 if faults else 0)

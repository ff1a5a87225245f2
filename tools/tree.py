# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the files of the tree, and how faults are printed."""
import pathlib
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


def root_of(argument: str | None) -> pathlib.Path:
    return pathlib.Path(argument or pathlib.Path(__file__).parent.parent).resolve()


def finish(check: str, faults: list[str], checked: str) -> None:
    """Prints the faults and ends the program: with 1 if there is any."""
    for fault in faults:
        print(fault)
    print(f"{check}: {len(faults)} faults in {checked}" if faults else f"{check}: {checked}, clean")
    sys.exit(1 if faults else 0)

"""Fails if an executable contains any of the given libraries of PipeSched.

Usage: check-closure.py NM LIB_FOLDER EXECUTABLE LINK_COMMAND LIBRARY...

Prints the archives of the libraries that the link command names, and the
symbols of the executable that only these archives define.
"""

import pathlib
import subprocess
import sys


def symbols(nm, file):
    """Returns the strong global symbols that a file defines."""
    listed = subprocess.run(
        [nm, "-C", "--defined-only", "--extern-only", "--format=posix", str(file)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = set()
    for line in listed.splitlines():
        name, kind, *_ = line.rsplit(" ", 3) if line.count(" ") > 2 else ("", "")
        if kind in tuple("TDBR"):
            found.add(name)
    return found


def main():
    nm, folder, executable, command, *libraries = sys.argv[1:]
    link = pathlib.Path(command).read_text()
    present = symbols(nm, executable)
    found = 0
    for library in libraries:
        archive = f"lib{library}.a"
        own = symbols(nm, pathlib.Path(folder) / archive)
        if not own:
            sys.exit(f"{archive} defines no symbols")
        if archive in link:
            print(f"{archive} is on the link line")
            found += 1
        for name in sorted(own & present):
            print(f"{archive} gives {name}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

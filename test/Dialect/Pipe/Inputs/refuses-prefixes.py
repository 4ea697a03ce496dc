"""Checks that a tool refuses a file cut off at any of many points.

usage: refuses-prefixes.py FILE TOOL [ARGUMENT...]

Each time the exit status must be 1, not a crash's, with an error.
"""

import subprocess
import sys


def cuts(size):
    return [*range(4, size - 32, 11), *range(max(4, size - 32), size)]


def main():
    path, *command = sys.argv[1:]
    with open(path, "rb") as file:
        content = file.read()
    for cut in cuts(len(content)):
        result = subprocess.run(command, input=content[:cut], capture_output=True)
        if result.returncode != 1 or b"error:" not in result.stderr:
            sys.exit(f"cut at {cut}: status {result.returncode}, {result.stderr}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Finds types that break the one-definition rule.

If two files define types with the same qualified name, a program that links both has undefined
behaviour, even if each file sees only one of them. No compiler reports that. Types in anonymous
namespaces are exempt, since they are local to their file.

Usage: check-odr.py [--root FOLDER]; prints `file:line: what` and fails if there are findings.

The libraries (include/ and lib/) are one program. Every folder with sources in tools/, unittests/,
benchmarks/ and test/ is a separate program that uses them.
"""

import argparse
import collections
import pathlib
import sys

import cxx_source

LIBRARIES = ("include", "lib")
PROGRAMS = ("benchmarks", "python/src", "test/*", "tools/*", "unittests/*")
SUFFIXES = {".h", ".c", ".cpp"}


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def types(paths, root):
    """Maps the name of each type to the (file, line)s that define it."""
    found = collections.defaultdict(set)
    for path in paths:
        for item in cxx_source.definitions(path.read_text(encoding="utf-8")):
            if item.kind == "type" and not item.local and not item.member:
                found[item.name].add((str(path.relative_to(root)), item.first))
    return found


def clashes(found, places):
    """Yields (name, places) of each type that two or more files of a program define."""
    for name in sorted(places):
        both = sorted(found.get(name, set()) | places[name])
        if len({file for file, _ in both}) > 1:
            yield name, both


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    root = parser.parse_args().root
    shared = types([path for name in LIBRARIES for path in sources(root / name)], root)
    found = list(clashes(shared, shared))
    for pattern in PROGRAMS:
        for folder in sorted(root.glob(pattern)):
            if folder.is_dir():
                found += clashes(shared, types(sources(folder), root))
    for name, places in found:
        (file, line), *others = places
        also = ", ".join(f"{other}:{at}" for other, at in others)
        print(f"{file}:{line}: {name} is also defined at {also}")
    if not shared:
        print(f"{root}: no types found in {' or '.join(LIBRARIES)}")
    return 1 if found or not shared else 0


if __name__ == "__main__":
    sys.exit(main())

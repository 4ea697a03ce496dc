#!/usr/bin/env python3
"""Finds names private to a source that another source of its library has, too.

Sources of a library are compiled several at a time (CMake's unity builds), one after the other in
one translation unit. A function that is private to one of them (static, or in an anonymous
namespace) is then an overload of one of the same name in another source or in a header of the
library. If their types differ, no compiler reports it, and a call may reach the wrong one.

Usage: check-private.py [--root FOLDER]; prints `file:line: what` and fails if there are findings.
"""

import argparse
import collections
import pathlib
import re
import sys

import cxx_source

MACRO = re.compile(r"[A-Z][A-Z0-9_]*")
CONSTANT = re.compile(
    r"^(?:static|inline|const|constexpr)\s(?:static\s|constexpr\s|const\s)*"
    r"[\w:<>,\s*&\[\]]*?[\s*&](k[A-Z]\w*)\s*(?:\[\w*\])*\s*[={]",
    re.MULTILINE,
)


def libraries(root):
    """The folders whose CMakeLists.txt has the sources of one library."""
    for lists in sorted((root / "lib").rglob("CMakeLists.txt")):
        if "add_pipesched_library(" in lists.read_text(encoding="utf-8"):
            yield lists.parent


def sources(folder, suffix):
    """Its files, without the files of libraries in its folders."""
    for path in sorted(folder.rglob(f"*{suffix}")):
        parents = path.relative_to(folder).parents
        if not any((folder / each / "CMakeLists.txt").exists() for each in list(parents)[:-1]):
            yield path


def names(path):
    """Yields the name and the line of each definition of a file outside of types and namespaces."""
    text = path.read_text(encoding="utf-8")
    for item in cxx_source.definitions(text):
        if not item.member and "::" not in item.name and not MACRO.fullmatch(item.name):
            yield item.name, item.first
    for match in CONSTANT.finditer(text):
        yield match[1], text.count("\n", 0, match.start(1)) + 1


def shared(paths):
    """The free functions that headers declare."""
    declared = re.compile(
        r"^(?!using|typedef|friend|return|#)[A-Za-z][\w:<>,\s*&]*?[\s*&](\w+)\(", re.MULTILINE
    )
    found = {}
    for path in paths:
        for match in declared.finditer(path.read_text(encoding="utf-8")):
            found.setdefault(match[1], path)
    return found


def clashes(folder, headers):
    """Yields (name, places) of each name in several sources, or in one and a header."""
    places = collections.defaultdict(dict)
    for path in sources(folder, ".cpp"):
        for name, line in names(path):
            places[name].setdefault(path, line)
    declared = shared(headers)
    for name, found in sorted(places.items()):
        others = sorted(found.items())
        if name in declared:
            others.append((declared[name], 0))
        if len(others) > 1:
            yield name, others


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    root = parser.parse_args().root
    folders = list(libraries(root))
    status = 0 if folders else 1
    if not folders:
        print(f"{root}: no library found in lib")
    for folder in folders:
        own = root / "include" / "PipeSched" / folder.relative_to(root / "lib")
        headers = [*sources(folder, ".h"), *(sorted(own.rglob("*.h")) if own.is_dir() else ())]
        for name, ((file, line), *others) in clashes(folder, headers):
            at = [
                f"{other.relative_to(root)}:{where}" if where else f"{other.relative_to(root)}"
                for other, where in others
            ]
            print(
                f"{file.relative_to(root)}:{line}: {name} is also in {', '.join(at)}; give it a "
                "name that no other source or header of the library has"
            )
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

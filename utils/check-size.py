#!/usr/bin/env python3
"""Finds functions and files that are too long, and code that is repeated.

- A C++ or Python function has at most 80 lines.
- A source file (.h, .cpp, .td, .py) has at most 800 lines.
- No block of six code lines is three times. Code lines are compared
  without indentation; empty lines, comments, descriptions of TableGen, includes,
  imports and lines that only close brackets do not count.

Usage: check-size.py [--root FOLDER] [FILE...]; without files it checks the files that git tracks in
the folder, except test/data. Prints `file:line: what` and fails if there are findings.
"""

import argparse
import ast
import collections
import io
import pathlib
import re
import subprocess
import sys
import tokenize

import cxx_source

FUNCTION_LIMIT = 80
FILE_LIMIT = 800
BLOCK = 6
COPIES = 3
MEASURED = {".h", ".cpp", ".td", ".py"}
CXX = {".h", ".c", ".cpp"}
COMPARED = MEASURED | {".c", ".sh", ".cmake"}
IGNORED = re.compile(r"[\])};,\s]*$|#\s*(include|pragma)\b|(from|import)\s")


def tracked(root):
    """Returns the files that git tracks, and new ones it does not ignore."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    paths = (root / name for name in sorted(set(listed)) if name)
    return [path for path in paths if "test/data" not in path.as_posix() and path.is_file()]


def cxx_functions(text):
    for item in cxx_source.definitions(text):
        if item.kind == "function":
            yield item.name, item.first, item.last


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def long_parts(path, text):
    """Yields (line, finding) for each part of one file that is too long."""
    lines = text.count("\n")
    if path.suffix in MEASURED and lines > FILE_LIMIT:
        yield 1, f"{lines} lines, at most {FILE_LIMIT} in a file"
    functions = ()
    if path.suffix in CXX:
        functions = cxx_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    for name, first, last in functions:
        length = last - first + 1
        if length > FUNCTION_LIMIT:
            yield first, f"{name} has {length} lines, at most {FUNCTION_LIMIT} in a function"


def python_prose(text):
    """Returns the lines of a Python source that only hold prose."""
    prose, code = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        span = range(token.start[0], token.end[0] + 1)
        starts_line = token.line[: token.start[1]].strip() == ""
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and starts_line):
            prose.update(span)
        elif token.string.strip():
            code.update(span)
    return prose - code


def without_descriptions(text):
    """Empties the descriptions of TableGen definitions, since their examples are whole programs
    that repeat each other.
    """
    return re.sub(
        r"(let description = \[\{).*?(\}\];)",
        lambda match: match[1] + "\n" * match[0].count("\n") + match[2],
        text,
        flags=re.DOTALL,
    )


def without_comments(path, text):
    """Returns the lines of a source, with the comments emptied."""
    if path.suffix == ".py":
        prose = python_prose(text)
        return ["" if at in prose else line for at, line in enumerate(text.split("\n"), 1)]
    if path.suffix in CXX | {".td"}:
        pattern = r"/\*.*?\*/|//[^\n]*"
        return re.sub(
            pattern, lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL
        ).split("\n")
    return re.sub(r"(^|\s)#[^\n]*", r"\1", text).split("\n")


def code_lines(path, text):
    """Returns (line number, text) of the lines that are compared."""
    if path.suffix == ".td":
        text = without_descriptions(text)
    kept = []
    for number, line in enumerate(without_comments(path, text), 1):
        line = " ".join(line.split())
        if not IGNORED.match(line):
            kept.append((number, line))
    return kept


def repeated_blocks(files):
    """Yields (path, line, finding) for the first copy of each repeated block.

    A block that is longer than six lines is reported once, at its start.
    """
    windows = collections.defaultdict(list)
    lines = {path: code_lines(path, text) for path, text in files}
    for path, kept in lines.items():
        for start in range(len(kept) - BLOCK + 1):
            key = tuple(line for _, line in kept[start : start + BLOCK])
            places = windows[key]
            if not places or places[-1][0] != path or start >= places[-1][1] + BLOCK:
                places.append((path, start))
    reported = set()
    for places in windows.values():
        if len(places) < COPIES:
            continue
        path, start = places[0]
        new = not reported & {(path, start), (path, start - 1)}
        reported.add((path, start))
        if new:
            others = ", ".join(f"{p.as_posix()}:{lines[p][s][0]}" for p, s in places[1:])
            yield path, lines[path][start][0], f"six lines that stand also at {others}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    files = []
    for path in arguments.files or tracked(arguments.root):
        if path.suffix in COMPARED or path.name == "CMakeLists.txt":
            files.append((path, path.read_text(encoding="utf-8")))
    found = [(path, *part) for path, text in files for part in long_parts(path, text)]
    found += repeated_blocks(files)
    for path, line, what in sorted(found):
        print(f"{path}:{line}: {what}")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks rules that clang-format does not: licence headers, white space, line length; names of enum
values are only in EnumNames; a switch over phases or kinds of instructions has no default, which
would hide a new one; and no dense map or set is keyed by 64-bit numbers: it reserves two of them,
so that such numbers from a file break it.

Usage: check-text.py FILE...; prints `file:line: what` and fails if there are findings.
"""

import pathlib
import re
import sys

LICENSED = {".c", ".h", ".cpp", ".td"}
LINE_LIMIT = {
    ".c": 80,
    ".h": 80,
    ".cpp": 80,
    ".td": 80,
    ".css": 100,
    ".js": 100,
    ".py": 100,
    ".sh": 100,
}
DENSE_NUMBERS = re.compile(
    r"\b(?:(?:Small)?Dense(?:Map|Set)|(?:Small)?(?:Map|Set)Vector)<\s*(?:std::)?u?int64_t\b"
)
SPDX = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"


# The enums whose tables (Phases.h, Instructions.h) have the common properties of all values.
OPEN_ENUMS = {"Phase", "InstructionKind"}
LABEL = re.compile(r"\s*(?:case\s+(?:\w+::)*(\w+)::\w+|(default))\s*:")


def hidden_values(text):
    """Yields the number of each line with the `default` of a switch over an open enum."""
    for switch in re.finditer(r"\bswitch \(", text):
        begin = text.find("{", switch.end())
        first = text.count("\n", 0, begin) + 1
        depth, enums, defaults = 0, set(), []
        for number, line in enumerate(text[begin:].split("\n"), first):
            if depth == 1 and (label := LABEL.match(line)):
                enums.add(label[1])
                defaults += [number] if label[2] else []
            depth += line.count("{") - line.count("}")
            if depth == 0:
                break
        if enums & OPEN_ENUMS:
            yield from defaults


def complaints(path):
    """Yields (line number, finding) for everything wrong with one file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    lines = text.split("\n")
    if path.suffix in LICENSED and not any(SPDX in line for line in lines[:8]):
        yield 1, "no licence header"
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end of the file"
    if text.endswith("\n\n"):
        yield len(lines) - 1, "empty line at the end of the file"
    if path.suffix in {".h", ".cpp"}:
        for number in sorted(hidden_values(text)):
            yield number, "default in a switch over phases or kinds: list them, or read their table"
    limit = LINE_LIMIT.get(path.suffix)
    has_options = path.suffix in LICENSED
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield number, "white space at the end of the line"
        if "\t" in line and path.suffix in LINE_LIMIT:
            yield number, "tab"
        if has_options and "clEnumVal" in line:
            yield number, "clEnumVal: take the values from EnumOptions.h"
        if has_options and DENSE_NUMBERS.search(line):
            yield number, "a dense map reserves two numbers: take std::map or std::unordered_map"
        # clang-format does not break these either.
        is_whole = "http" in line or line.startswith("#include ")
        if limit and len(line) > limit and not is_whole:
            yield number, f"{len(line)} columns, at most {limit}"


def main():
    found = 0
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        if not path.is_file() or "data" in path.parts:
            continue
        for number, what in complaints(path):
            print(f"{name}:{number}: {what}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

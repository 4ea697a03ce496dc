#!/usr/bin/env python3
"""Checks the documents against the sources.

Files and folders of the project that a page in docs/ or the README names in
backticks must exist. So must sources that any text names by a path below
include/PipeSched or lib, such as `Analysis/Graph/Timeline.h`. Names with a
placeholder, such as `lib/Target/<Name>.cpp`, are names of new files.

A page docs/Add*.md says how to add a part. It names a file that has to change in a sentence of the
form

    `lib/Target/TranslateRegistration.cpp` mentions `export-chrome-trace`

with the name of an example of the project as the second name; the file must have that text. So a
page fails when the file is renamed, or when the example has moved to another one.

Usage: check-guides.py [--root FOLDER] [--all]; prints `file:line: finding` and fails if any page is
wrong, or if there is no docs/Add*.md; with --all if one of PAGES is missing.
"""

import argparse
import pathlib
import re
import sys

PAGES = (
    "AddCollective",
    "AddExport",
    "AddFamily",
    "AddInstruction",
    "AddOption",
    "AddPhase",
    "AddTransport",
)
FOLDERS = (
    "benchmarks|cmake|docs|include|lib|models|python|scripts|systems|test|tools|unittests|utils"
)
NAME = re.compile(rf"`((?:{FOLDERS})(?:/[\w.-]+)+/?|[\w-]+\.md|CMakeLists\.txt)`")
MENTIONS = re.compile(r"`([^`\n]+)`\s+mentions\s+`([^`\n]+)`")
SOURCE = re.compile(r"(?<![\w/.-])(?:[A-Z]\w*/)+[\w-]+\.(?:cpp|h|td)\b")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def exists(root, name):
    return (root / name).exists() or (root / "docs" / name).is_file()


def has_source(root, name):
    folders = ("include", "include/PipeSched", "lib")
    return any((root / folder / name).is_file() for folder in folders)


def lost_files(root, page):
    """Yields (line, finding) for each file that a page names and the project does not have."""
    text = page.read_text(encoding="utf-8")
    prose = FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
    lost = [(prose, match) for match in NAME.finditer(prose) if not exists(root, match[1])]
    lost += [(text, match) for match in SOURCE.finditer(text) if not has_source(root, match[0])]
    for inside, match in lost:
        line = inside.count("\n", 0, match.start()) + 1
        yield line, f"{match[0].strip('`')} does not exist"


def lost_examples(root, page):
    """Yields (line, finding) for each example that a page on how to add something has lost."""
    text = page.read_text(encoding="utf-8")
    text = FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
    sentences = list(MENTIONS.finditer(text))
    if not sentences:
        yield 1, "no sentence of the form `file` mentions `text`"
    for match in sentences:
        line = text.count("\n", 0, match.start()) + 1
        file = root / match[1]
        if not file.is_file():
            yield line, f"{match[1]} is not a file, which has to mention {match[2]}"
        elif match[2] not in file.read_text(encoding="utf-8"):
            yield line, f"{match[1]} does not mention {match[2]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--all", action="store_true", help="all of PAGES must exist")
    arguments = parser.parse_args()
    root = arguments.root
    guides = sorted((root / "docs").glob("Add*.md"))
    found = []
    for page in [*sorted((root / "docs").rglob("*.md")), *root.glob("README.md")]:
        complaints = list(lost_files(root, page))
        if page in guides:
            complaints += lost_examples(root, page)
        found += [f"{page.relative_to(root)}:{line}: {what}" for line, what in complaints]
    wanted = PAGES if arguments.all else ()
    names = {page.stem for page in guides}
    found += [f"docs/{name}.md:1: does not exist" for name in wanted if name not in names]
    if not guides:
        found.append("docs:1: no page Add*.md")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

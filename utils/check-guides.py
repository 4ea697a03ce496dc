#!/usr/bin/env python3
"""Checks the pages on how to add something against the sources.

A page docs/Add*.md names files and folders of the project in backticks; each
must exist. Names with a placeholder, such as `lib/Target/<Name>.cpp`, are
those of new files. A file that has to change is named in a sentence of the form

    `lib/Target/TranslateRegistration.cpp` mentions `export-chrome-trace`

where the second name is that of an example which the project has; the file
must have that text. So a page fails when the file is renamed, or when the
example has moved to another one.

Usage: check-guides.py [--root FOLDER] [--all]; prints `file:line: what` and
fails if any page is wrong, or if there is none; with --all if one of PAGES is
missing.
"""

import argparse
import pathlib
import re
import sys

PAGES = ("AddCollective", "AddExport", "AddFamily", "AddInstruction", "AddOption", "AddPhase",
         "AddTransport")
FOLDERS = (
    "benchmarks|cmake|docs|include|lib|models|python|scripts|systems|test|tools|unittests|utils"
)
NAME = re.compile(rf"`((?:{FOLDERS})(?:/[\w.-]+)+/?|[\w-]+\.md|CMakeLists\.txt)`")
MENTIONS = re.compile(r"`([^`\n]+)`\s+mentions\s+`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def exists(root, name):
    return (root / name).exists() or (root / "docs" / name).is_file()


def complaints(root, page):
    """Yields (line, what) for everything that does not hold on one page."""
    text = page.read_text(encoding="utf-8")
    text = FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
    sentences = list(MENTIONS.finditer(text))
    if not sentences:
        yield 1, "no sentence of the form `file` mentions `text`"
    for match in NAME.finditer(text):
        if not exists(root, match[1]):
            yield text.count("\n", 0, match.start()) + 1, f"{match[1]} does not exist"
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
    docs = arguments.root / "docs"
    pages = sorted(docs.glob("Add*.md"))
    found = []
    for page in pages:
        for line, what in complaints(arguments.root, page):
            found.append(f"docs/{page.name}:{line}: {what}")
    wanted = PAGES if arguments.all else ()
    names = {page.stem for page in pages}
    found += [f"docs/{name}.md:1: does not exist" for name in wanted if name not in names]
    if not pages:
        found.append("docs:1: no page Add*.md")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

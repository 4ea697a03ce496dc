#!/usr/bin/env python3
# Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stages the pages of the site: the pages of the project at their own paths, where their links
work as in the repository; the references that mlir-tblgen wrote; and a picture of each family. They
are in the order of docs/README.md.

Usage: stage-site.py FOLDER REFERENCES, in the root of the project, with a Python that has the
package; writes FOLDER/pages and FOLDER/mkdocs.yml.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pipesched

LINK = re.compile(r"\]\(([^)#:\s]+)")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def tracked_pages():
    """Returns the pages of the repository, except those about data of tests."""
    line = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    listed = subprocess.run(line, check=True, capture_output=True, text=True).stdout.split()
    return [Path(name) for name in listed if not name.startswith("test/")]


def links_of(page):
    """Yields the files of the project to which a page links."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        yield Path((page.parent / target).resolve().relative_to(Path.cwd()))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def stage_references(source, target):
    """Copies the generated references and gives a title to those that have none."""
    for page in sorted(source.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if not re.search(r"^# ", text, re.MULTILINE):
            text = f"# {' '.join(re.findall('[A-Z][a-z]+', page.stem))}\n\n{text}"
        write(target / page.name, text)
        yield page.name


def stage_pictures(target):
    """Draws every family with four workers and eight microbatches."""
    lines = ["# Pictures of all families", ""]
    for name, family in pipesched.families().items():
        svg = pipesched.generate(name, workers=4, microbatches=8).to_svg()
        write(target / f"{name}.svg", str(svg))
        lines += [f"## {name}", "", f"{family.source}.", "", f"![{name}]({name}.svg)", ""]
    write(target / "Families.md", "\n".join(lines))


def main():
    folder, references = map(Path, sys.argv[1:])
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    found = tracked_pages()
    linked = {target for page in found for target in links_of(page) if target.is_file()}
    for path in {*found, *linked}:
        write(pages / path, path.read_text(encoding="utf-8"))
    index = Path("docs/README.md")
    nav = [{"PipeSched": "README.md"}]
    left = {str(path) for path in found} - {"README.md", str(index)}
    for title, text in SECTION.findall(index.read_text(encoding="utf-8")):
        listed = [f"docs/{target}" for target in LINK.findall(text) if target.endswith(".md")]
        inside = [name for name in dict.fromkeys(listed) if name in left]
        left -= set(inside)
        nav.append({title: inside})
    nav[1] = {title: [str(index), *inside] for title, inside in nav[1].items()}
    others = sorted(name for name in left if not name.startswith("docs/"))
    nav.append({"Examples and data": others})
    stage_pictures(pages / "Pictures")
    names = list(stage_references(references, pages / "Reference"))
    generated = ["Pictures/Families.md", *(f"Reference/{name}" for name in names)]
    nav.append({"Reference": generated})
    # JSON is YAML.
    settings = {"INHERIT": "../../mkdocs.yml", "docs_dir": "pages", "site_dir": "html", "nav": nav}
    write(folder / "mkdocs.yml", json.dumps(settings, indent=1) + "\n")


if __name__ == "__main__":
    main()

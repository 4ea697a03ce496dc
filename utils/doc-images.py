#!/usr/bin/env python3
"""Draws the pictures of the documents, or checks that they are up to date.

Usage: doc-images.py --opt OPT --translate TRANSLATE [--check] DOCS

Families in DOCS/Schedules.md have text pictures of their tables in slots. With --check it writes
nothing, and fails if a picture differs.
"""

import argparse
import pathlib
import re
import subprocess
import sys

# The title of a picture, the pass that makes its table, workers and microbatches: fewer where
# workers have several stages, whose cells have longer names.
FAMILIES = [
    ("GPipe", "gpipe", 4, 8),
    ("1F1B", "1f1b", 4, 8),
    ("Eager 1F1B", "eager-1f1b", 4, 8),
    ("ZB-H1", "zb-h1", 4, 8),
    ("ZB-H2", "zb-h2", 4, 8),
    ("Looped BFS", "looped-bfs{chunks=2}", 2, 4),
    ("MPMD circular", "mpmd-circular{chunks=2}", 2, 4),
    ("Interleaved 1F1B", "interleaved-1f1b{chunks=2}", 2, 4),
    ("Combined 1F1B", "combined-1f1b{chunks=2}", 2, 4),
    ("Interleaved zero-bubble", "interleaved-zb{chunks=2}", 4, 4),
    ("ZB-V", "zb-v", 2, 4),
    ("V-half", "v-half", 3, 3),
    ("V-min", "v-min", 2, 4),
    ("Zero-bubble in 3 activations", "zb-auto{memory=3}", 2, 3),
    ("DualPipe-V", "dualpipe-v", 2, 4),
    ("DualPipe", "dualpipe", 4, 8),
    ("Chimera", "chimera", 4, 4),
    ("Hanayo", "hanayo{waves=1}", 2, 3),
    ("Greedy", "greedy", 4, 8),
]


def draw(tools, pipeline, *export):
    """Returns the outputs of both tools for a pipeline; their messages go to standard error."""
    module = subprocess.run(
        [tools.opt, f"--pass-pipeline=builtin.module({pipeline})"],
        input="module {}",
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    return subprocess.run(
        [tools.translate, *export], input=module, text=True, stdout=subprocess.PIPE, check=True
    ).stdout


def with_pictures(tools, page):
    """Returns the text of a page with the text pictures that the tools draw now."""
    for title, schedule, workers, microbatches in FAMILIES:
        sizes = f"workers={workers} microbatches={microbatches}"
        create = f'pipe-create{{name="{title}" {sizes}}}'
        picture = draw(tools, f"{create},pipe-schedule-{schedule}", "--export-text")
        block = rf"```text\n{re.escape(title)}  [^`]*```\n"
        page, count = re.subn(block, lambda _: f"```text\n{picture}```\n", page)
        if count != 1:
            sys.exit(f"error: {count} text pictures begin with '{title}', one was wanted")
    return page


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt", required=True)
    parser.add_argument("--translate", required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("docs", type=pathlib.Path)
    tools = parser.parse_args()
    page = tools.docs / "Schedules.md"
    drawn = with_pictures(tools, page.read_text())
    if page.read_text() == drawn:
        return 0
    if tools.check:
        print(f"{page}: not what utils/doc-images.py draws")
        return 1
    page.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main())

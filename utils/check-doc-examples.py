#!/usr/bin/env python3
"""Runs the IR that documentation shows.

Every ```mlir block of the given Markdown files (or folders of them) must
parse, verify and round-trip. A block that follows a line

    After `pass-a{option=1},pass-b`:

must be the result of that pipeline for the closest block before it that is not itself such a
result. In generated references every operation must have a block and every pass such a pair.

Usage: check-doc-examples.py --opt PIPESCHED_OPT PATH...
"""

import argparse
import pathlib
import re
import subprocess
import sys

FENCE = re.compile(r"^\s*```(\w*)\s*$")
AFTER = re.compile(r"^\s*After `([^`]+)`:\s*$")
# A pipeline that continues in the next line.
BEGUN = re.compile(r"^\s*After `[^`]+$")
HEADING = re.compile(r"^#{2,4} (.*)$")
OPERATION = re.compile(r"^`[\w.]+` \(.*Op\)$")
PASS = re.compile(r"^`-([\w-]+)`$")


class Block:
    """One ```mlir block: its place, text, and the pipeline it results from."""

    def __init__(self, path, line, section, pipeline):
        self.place = f"{path}:{line}"
        self.section = section
        self.pipeline = pipeline
        self.lines = []

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


def read_blocks(path):
    """Returns the blocks of one file and its headings."""
    blocks, headings = [], []
    section = pipeline = None
    block, in_fence = None, False
    begun = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = f"{begun} {line.strip()}" if begun else line
        begun = line if BEGUN.match(line) else ""
        if begun:
            continue
        fence = FENCE.match(line)
        if in_fence:
            if fence:
                block, in_fence = None, False
            elif block:
                block.lines.append(line)
        elif fence:
            in_fence = True
            if fence[1] == "mlir":
                block = Block(path, number, section, pipeline)
                blocks.append(block)
                pipeline = None
        elif HEADING.match(line):
            section = HEADING.match(line)[1]
            headings.append(section)
        elif AFTER.match(line):
            pipeline = AFTER.match(line)[1]
        elif line.strip():
            pipeline = None
    return blocks, headings


def run(opt, text, *options):
    return subprocess.run(
        [opt, "--verify-roundtrip", *options], input=text, capture_output=True, text=True
    )


def check_file(opt, path):
    """Yields a message for every block that fails."""
    blocks, headings = read_blocks(path)
    before = None
    for block in blocks:
        printed = run(opt, block.text)
        if printed.returncode:
            yield f"{block.place}: does not parse:\n{printed.stderr}"
        if not block.pipeline:
            before = block
            continue
        if before is None or before.section != block.section:
            yield f"{block.place}: nothing before it to run `{block.pipeline}` on"
            continue
        result = run(opt, before.text, f"--pass-pipeline=builtin.module({block.pipeline})")
        if result.returncode:
            yield f"{block.place}: `{block.pipeline}` fails:\n{result.stderr}"
        elif result.stdout != printed.stdout:
            yield f"{block.place}: `{block.pipeline}` gives instead:\n{result.stdout}"
    shown = {block.section for block in blocks}
    transformed = {block.section for block in blocks if block.pipeline}
    for heading in headings:
        if OPERATION.match(heading) and heading not in shown:
            yield f"{path}: {heading} has no example"
        if PASS.match(heading) and heading not in transformed:
            yield f"{path}: {heading} has no example of before and after"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--opt", required=True)
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    files, found, count = [], [], 0
    for path in arguments.paths:
        files += sorted(path.rglob("*.md")) if path.is_dir() else [path]
    for path in files:
        found += check_file(arguments.opt, path)
        count += len(read_blocks(path)[0])
    print(*found, sep="\n")
    print(f"{count} examples in {len(files)} files, {len(found)} wrong")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())

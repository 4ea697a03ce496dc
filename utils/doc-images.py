#!/usr/bin/env python3
"""Draws the pictures of docs/images, or checks that they are up to date.

Usage: doc-images.py --opt OPT --translate TRANSLATE [--check] FOLDER

Each family has a picture of its table in slots; the picture of the README draws the pipeline of the
README. With --check it writes nothing, prints the files that differ, and fails if there are any.
"""

import argparse
import pathlib
import subprocess
import sys

WORKERS, MICROBATCHES = 4, 8

# File, title, pass.
FAMILIES = [
    ("gpipe", "GPipe", "gpipe"),
    ("1f1b", "1F1B", "1f1b"),
    ("eager-1f1b", "Eager 1F1B", "eager-1f1b"),
    ("zb-h1", "ZB-H1", "zb-h1"),
    ("zb-h2", "ZB-H2", "zb-h2"),
    ("looped-bfs", "Looped BFS", "looped-bfs{chunks=2}"),
    ("mpmd-circular", "MPMD circular", "mpmd-circular{chunks=2}"),
    ("interleaved-1f1b", "Interleaved 1F1B", "interleaved-1f1b{chunks=2}"),
    ("combined-1f1b", "Combined 1F1B", "combined-1f1b{chunks=2}"),
    ("interleaved-zb", "Interleaved zero-bubble", "interleaved-zb{chunks=2}"),
    ("zb-v", "ZB-V", "zb-v"),
    ("v-half", "V-half", "v-half"),
    ("v-min", "V-min", "v-min"),
    ("zb-auto", "Zero-bubble in 6 activations", "zb-auto{memory=6}"),
    ("dualpipe-v", "DualPipe-V", "dualpipe-v"),
    ("dualpipe", "DualPipe", "dualpipe"),
    ("chimera", "Chimera", "chimera"),
    ("hanayo", "Hanayo", "hanayo{waves=1}"),
    ("greedy", "Greedy", "greedy"),
]

README = (
    "pipe-create{name=gpipe workers=8 microbatches=8}, pipe-schedule-gpipe,"
    "pipe-create{name=one_f_one_b workers=8 microbatches=8}, pipe-schedule-1f1b,"
    "pipe-attach-model{name=paper-gpt}, pipe-attach-system{name=slow_nw_fast_cp}"
)


def pictures():
    """Yields (file name, pipeline, variant)."""
    yield "gpipe-1f1b.svg", README, "timed"
    for file, title, schedule in FAMILIES:
        create = f'pipe-create{{name="{title}" workers={WORKERS} microbatches={MICROBATCHES}}}'
        yield f"{file}.svg", f"{create},pipe-schedule-{schedule}", "slots"


def draw(tools, pipeline, variant):
    """Runs both tools; their messages go to standard error."""
    module = subprocess.run(
        [tools.opt, f"--pass-pipeline=builtin.module({pipeline})"],
        input=b"module {}", stdout=subprocess.PIPE, check=True,
    ).stdout
    return subprocess.run(
        [tools.translate, "--export-svg", f"--svg-variant={variant}"],
        input=module, stdout=subprocess.PIPE, check=True,
    ).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt", required=True)
    parser.add_argument("--translate", required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    stale = []
    for name, pipeline, variant in pictures():
        file = arguments.folder / name
        picture = draw(arguments, pipeline, variant)
        if not arguments.check:
            file.write_bytes(picture)
        elif not file.is_file() or file.read_bytes() != picture:
            stale.append(str(file))
    known = {name for name, _, _ in pictures()}
    stale += [str(f) for f in arguments.folder.glob("*.svg") if f.name not in known]
    for file in stale:
        print(f"{file}: not what utils/doc-images.py draws")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

"""Prints how much longer a step takes with an option of pipe-attach-system, in per cent.

Usage: compare-makespans.py PIPESCHED-OPT OPTION
"""

import re
import subprocess
import sys

OPT, OPTION = sys.argv[1:]


def makespan(option):
    """The end of a step of a model with experts, in picoseconds."""
    passes = (
        "pipe-create{workers=4 microbatches=8},pipe-schedule{family=1f1b},"
        f"pipe-attach-system{{name=dgx-h100 data-parallel=16 expert-parallel=16 {option}}},"
        "pipe-attach-model{name=qwen3-30b-a3b microbatch-size=1},"
        "convert-pipe-to-exec,exec-annotate-timeline"
    )
    command = [OPT, f"--pass-pipeline=builtin.module({passes})"]
    made = subprocess.run(command, check=True, text=True, input="module {}", capture_output=True)
    return max(map(int, re.findall(r"exec\.end_ps = (\d+)", made.stdout)))


print(f"{100 * (makespan(OPTION) / makespan('') - 1):.1f} % longer")

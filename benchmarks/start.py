#!/usr/bin/env python3
"""Time until Python, the package and its command have started, beside each other in one run.

Usage: .venv/bin/python benchmarks/start.py [--runs N]

Each line runs in processes of its own, in turn with the others, so that what else the machine does
falls on all of them. A first run of each, which fills the caches, is not counted.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMAND = str(Path(sys.executable).with_name("pipesched"))
CONVERTED = ["convert", "1f1b", "--pp", "4", "--microbatches", "8"]
SIMULATED = "generate('1f1b', workers=4, microbatches=8).simulate(times='F=1ms,B=2ms').execution"
LINES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import pipesched": [sys.executable, "-c", "import pipesched"],
    "import pipesched._core": [sys.executable, "-c", "import pipesched._core"],
    "generate and simulate": [sys.executable, "-c", f"import pipesched; pipesched.{SIMULATED}"],
    "from pipesched import *": [sys.executable, "-c", "from pipesched import *"],
    "pipesched --help": [COMMAND, "--help"],
    "pipesched --version": [COMMAND, "--version"],
    "pipesched simulate --help": [COMMAND, "simulate", "--help"],
    "pipesched convert": [COMMAND, *CONVERTED],
    "pipesched plan --help": [COMMAND, "plan", "--help"],
}


def measured(line: list[str]) -> tuple[float, float]:
    """Wall and CPU time of a process in seconds."""
    begin = time.monotonic()
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(line)} ended with status {os.waitstatus_to_exitcode(status)}")
    process.returncode = 0
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="runs of each line that are counted")
    arguments = parser.parse_args()
    runs = [[measured(line) for line in LINES.values()] for _ in range(1 + arguments.runs)][1:]
    plain = statistics.median(run[0][1] for run in runs)
    print("| line | wall, median | lowest | CPU, median | lowest | x `python -c pass` |")
    print("|---|---|---|---|---|---|")
    for name, each in zip(LINES, zip(*runs, strict=True), strict=True):
        wall, cpu = zip(*each, strict=True)
        times = (statistics.median(wall), min(wall), statistics.median(cpu), min(cpu))
        ratio = statistics.median(cpu) / plain
        print(f"| `{name}` | {' | '.join(f'{1e3 * t:.0f} ms' for t in times)} | {ratio:.1f} |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Time of a sweep over all families, the nine systems of the paper and many sizes.

Usage: .venv/bin/python benchmarks/sweep.py [--jobs J] [--workers LIST] [--microbatches LIST]
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import pipesched

SPEEDS = ("fast", "mid", "slow")
SYSTEMS = [
    "baseline" if network == compute == "mid" else f"{network}_nw_{compute}_cp"
    for network in SPEEDS
    for compute in SPEEDS
]


def cpu_seconds() -> float:
    """CPU time of this process and of its child processes that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, help="processes; without it one per core")
    parser.add_argument("--workers", default="4,8")
    parser.add_argument("--microbatches", default="8:256:8")
    parser.add_argument(
        "--optimizer-step",
        choices=("none", "exposed", "overlapped"),
        default="none",
        help="how two pipelines end their steps, with all-reduces of gradients",
    )
    arguments = parser.parse_args()
    grid = {
        "workers": arguments.workers,
        "microbatches": arguments.microbatches,
        "model": "paper-gpt",
        "microbatch_size": 1,
        "system": SYSTEMS,
    }
    if arguments.optimizer_step != "none":
        grid |= {"optimizer_step": arguments.optimizer_step, "data_parallel": 2}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sweep.jsonl"
        for what in ("evaluated", "read again"):
            wall, cpu = time.monotonic(), cpu_seconds()
            frame = pipesched.sweep(grid, file=file, processes=arguments.jobs)
            wall, cpu = time.monotonic() - wall, cpu_seconds() - cpu
            print(
                f"{len(frame):,} configurations {what}: {wall:.2f} s, {cpu:.2f} s of CPU,"
                f" {1e3 * cpu / len(frame):.2f} ms of CPU each"
            )
    print(f"{frame.error.notna().sum():,} of them have no schedule")


if __name__ == "__main__":
    main()

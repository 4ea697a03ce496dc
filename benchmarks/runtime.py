#!/usr/bin/env python3
"""Measure the costs of calls of the runtime of compiled schedules.

Usage: python3 benchmarks/runtime.py [--runs N] [--cc CC] [--mpi NAME,..] [--chunks N]
       [--output FILE]

Compiles `runtime_calls.c` once, links the object file with loopback and with each MPI that is
installed, and runs each of them several times with two workers. Prints, in ns, the median over the
runs of the median of a run, and the lowest time of all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def call(*command: object) -> str:
    environment = {**os.environ, **MPI_ENVIRONMENT}
    words = [str(word) for word in command]
    return subprocess.run(
        words, check=True, text=True, stdout=subprocess.PIPE, env=environment, timeout=300
    ).stdout


def programs(
    cc: str, chunks: int, mpis: list[str], folder: Path
) -> Iterator[tuple[str, list[str]]]:
    """Builds and yields (name, command) of each program."""
    runtime, measured, log = ROOT / "runtime", folder / "calls.o", folder / "log"
    flags = ["-std=c11", "-O2", "-pthread", f"-I{runtime / 'include'}", f"-DCHUNKS={chunks}"]
    call(cc, *flags, "-c", ROOT / "benchmarks/runtime_calls.c", "-o", measured)
    sources = [file for file in (runtime / "lib").glob("*.c") if not file.name.startswith("Mpi")]
    call(cc, *flags, measured, *sources, "-lm", "-o", folder / "loopback")
    for messages in ("rendezvous", "buffered"):
        yield (
            f"loopback, {messages}",
            [f"{folder / 'loopback'}", f"--messages={messages}", f"--log={log}"],
        )
    for mpi in mpis:
        mpicc, mpirun = f"mpicc.{mpi}", f"mpirun.{mpi}"
        if not shutil.which(mpicc) or not shutil.which(mpirun):
            print(f"{mpi}: {mpicc} or {mpirun} not found, left out")
            continue
        call(runtime / "build-mpi.sh", mpicc, folder / f"{mpi}.a")
        call(mpicc, measured, folder / f"{mpi}.a", "-pthread", "-lm", "-o", folder / mpi)
        yield mpi, [mpirun, "-n", "2", f"{folder / mpi}", f"--log={log}"]


def measure(command: list[str], runs: int) -> list[dict[str, object]]:
    times = defaultdict(list)
    for _ in range(runs):
        for line in call(*command).splitlines():
            words = line.split()
            if words[0] != "step":
                times[words[0], int(words[1])].append((float(words[2]), float(words[3])))
    return [
        {
            "call": name,
            "bytes": size,
            "median_ns": statistics.median(median for median, _ in values),
            "lowest_ns": min(lowest for _, lowest in values),
        }
        for (name, size), values in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cc", default="clang-22")
    parser.add_argument("--chunks", type=int, default=100, help="measured in each run")
    parser.add_argument("--mpi", default="mpich,openmpi", help="MPIs, with commas; or none")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        mpis = [] if arguments.mpi == "none" else arguments.mpi.split(",")
        for name, command in programs(arguments.cc, arguments.chunks, mpis, Path(folder)):
            results[name] = measure(command, arguments.runs)
            for row in results[name]:
                print(
                    f"{name:22} {row['call']:10} {row['bytes']:>8} bytes "
                    f"{row['median_ns']:>12.1f} ns, lowest {row['lowest_ns']:.1f}",
                    flush=True,
                )
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Compares a program of convert-exec-to-mpi, in processes, with one of pipesched-run, in threads.

Usage: mpi-ops.py FOLDER MODEL FAMILY PROGRAM MPICC MPIRUN CC PIPESCHED-RUN

FOLDER has program.o, compiled from the functions with ops of MPI, MODEL has the stages, and PROGRAM
is the name of the schedule. Both run three steps from the same random parameters.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys

folder, model, family, name, mpicc, mpirun, compiler, tool = sys.argv[1:]
STEPS = "3"


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


os.chdir(folder)
main = pathlib.Path(__file__).with_suffix(".c")
parts = [f"-Dp_{part}={name}_{part}" for part in ("begin", "step", "end", "size")]
run(mpicc, "-O1", *parts, str(main), "program.o", "-lm", "-o", "theirs")
build = ["--emit=executable", "-o", "ours", f"--cc={compiler}"]
run(tool, model, f"--schedule={family}", f"--steps={STEPS}", *build)

workers = json.loads(run("./ours", "--layout"))["workers"]
numbers = random.Random(1)
for number, worker in enumerate(workers):
    block = bytearray(worker["persistent"])
    for tensor in worker["tensors"]:
        if tensor["kind"] == "param":
            count = tensor["bytes"] // 4
            values = [numbers.uniform(-0.25, 0.25) for _ in range(count)]
            struct.pack_into(f"{count}f", block, tensor["offset"], *values)
    pathlib.Path(f"in.{number}").write_bytes(block)

run(mpirun, "-n", str(len(workers)), "./theirs", "in", "theirs-out", STEPS)
run("./ours", f"--steps={STEPS}", "--state-in=in", "--state-out=ours-out")
for number in range(len(workers)):
    first, ours, theirs = (
        pathlib.Path(f"{file}.{number}").read_bytes() for file in ("in", "ours-out", "theirs-out")
    )
    assert first != ours, f"worker {number} has learned nothing"
    assert ours == theirs, f"worker {number} differs"
print(f"{family}: {len(workers)} workers have equal bits")

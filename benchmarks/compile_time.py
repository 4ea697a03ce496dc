#!/usr/bin/env python3
"""Measures the growth of the time to compile a schedule with its microbatches.

Usage: compile_time.py RUN [--microbatches N,..] [--families F,..] [--models M,..] [--workers N]
       [--repeats N]

RUN is pipesched-run. It writes an object file of each model of MODELS by each family on eight or
`--workers` workers, once for each number of microbatches. Prints the CPU time (user and system) of
the whole tool in the fastest of `--repeats` runs, and its ratio to the time of the fewest
microbatches. Runs of different numbers take turns, so that other load on the machine falls on all.
"""

import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile

STAGES = pathlib.Path(__file__).parent.parent / "examples" / "stages"
FAMILIES = {  # and the stages that each needs per worker
    "1f1b": 1,
    "gpipe": 1,
    "zb-h1": 1,
    "chimera": 1,
    "interleaved-1f1b": 2,
}
MODELS = {  # the generator and its options
    "mlp": ["mlp.py"],
    "transformer": ["transformer.py", "--layers=16"],
}


def numbers(text):
    return [int(part) for part in text.split(",")]


def names(text):
    return text.split(",")


def write_model(model, stages, workers, file):
    generator, *options = MODELS[model]
    command = [sys.executable, str(STAGES / generator), f"--stages={stages}"]
    command += [f"--workers={workers}", *options]
    with open(file, "w", encoding="utf-8") as output:
        subprocess.run(command, check=True, stdout=output)


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(arguments, model, family, folder):
    """The CPU time by number of microbatches, in seconds."""
    stages = FAMILIES[family] * arguments.workers
    file = pathlib.Path(folder, f"{model}-{stages}.mlir")
    if not file.exists():
        write_model(model, stages, arguments.workers, file)
    command = [arguments.run, str(file), f"--schedule={family}", "--emit=object"]
    command += ["-o", str(pathlib.Path(folder, "schedule.o"))]
    times = {number: [] for number in arguments.microbatches}
    for _ in range(arguments.repeats):
        for number, found in times.items():
            found.append(cpu_seconds([*command, f"--microbatches={number}"]))
    return {number: min(found) for number, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="pipesched-run")
    add = parser.add_argument
    add("--microbatches", type=numbers, default=[64, 256, 1024, 4096])
    add("--families", type=names, default=list(FAMILIES))
    add("--models", type=names, default=list(MODELS))
    add("--workers", type=int, default=8)
    add("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    columns = [f"{number:,}" for number in arguments.microbatches]
    print(f"| model | family | {' | '.join(columns)} | ratio |")
    print("|---|---" + "|---" * len(columns) + "|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            for family in arguments.families:
                times = measure(arguments, model, family, folder)
                cells = [f"{seconds:.2f} s" for seconds in times.values()]
                ratio = max(times.values()) / times[arguments.microbatches[0]]
                print(f"| {model} | `{family}` | {' | '.join(cells)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()

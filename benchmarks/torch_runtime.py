#!/usr/bin/env python3
"""Time of a step of `pipesched.torch` and of PyTorch's own `_PipelineScheduleRuntime`, which runs
the export of the same schedule.

The stages are tiny, so that the runtimes themselves take most of the time. All ranks are processes
of this machine on gloo. For each schedule, both runtimes are made in one process group, and their
steps take turns; a barrier comes before each step, and a step takes as long as its slowest rank.
`ordered` is our runtime with `messages="ordered"`, as over NCCL, next to the one with tags. CPU
time is summed over all threads of all ranks.

Usage: .venv/bin/python benchmarks/torch_runtime.py [--steps N] [--width N] [--format json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pipesched
import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime
from torch import Tensor, nn
from torch_ranks import Step, pytorch_step, run_ranks

SAMPLES = 2
CASES = {
    # Name: family, ranks, microbatches, stages of a rank.
    "one rank": ("interleaved-1f1b", 1, 16, 4),
    "one rank, split": ("interleaved-zb", 1, 16, 4),
    "1f1b": ("1f1b", 2, 16, 1),
    "zb-h1": ("zb-h1", 2, 16, 1),
    "interleaved-1f1b": ("interleaved-1f1b", 2, 16, 2),
    "zb-v": ("zb-v", 2, 16, 2),
    "1f1b on 4": ("1f1b", 4, 16, 1),
}
Times = list[tuple[float, float]]
"""Wall and CPU seconds of the steps of a rank."""


def schedule_of(name: str) -> Schedule:
    family, ranks, microbatches, stages = CASES[name]
    chunks: Any = {"chunks": stages} if "interleaved" in family else {}
    return pipesched.generate(family, workers=ranks, microbatches=microbatches, **chunks)


def stage(number: int, width: int) -> nn.Module:
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh())


# Steps of a rank


def ours(schedule: Schedule, x: Tensor, width: int, messages: Any) -> Step:
    loss = nn.functional.mse_loss
    runtime = PipelineRuntime(schedule, lambda _, s: stage(s, width), loss, messages=messages)

    def step() -> Any:
        runtime.step(x, x)
        runtime.zero_grad()

    return step


def theirs(schedule: Schedule, rank: int, x: Tensor, width: int, file: Path) -> Step:
    run, stages = pytorch_step(schedule, rank, x, lambda number: stage(number, width), file)

    def step() -> Any:
        run()
        for each in stages:
            each.submod.zero_grad()

    return step


def measure(steps: Sequence[Step], count: int, warm: int) -> list[Times]:
    """The times of each kind of step, which take turns."""
    times: list[Times] = [[] for _ in steps]
    for number in range(warm + count):
        for step, found in zip(steps, times, strict=True):
            dist.barrier()
            wall, cpu = time.perf_counter(), time.process_time()
            step()
            if number >= warm:
                found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return times


def rank_process(
    rank: int, folder: Path, names: Sequence[str], options: argparse.Namespace
) -> None:
    found = {}
    for name in names:
        schedule = schedule_of(name)
        x = torch.rand(SAMPLES * schedule.microbatches, options.width)
        steps = [
            ours(schedule, x, options.width, "tags"),
            theirs(schedule, rank, x, options.width, folder / f"{rank}.csv"),
            ours(schedule, x, options.width, "ordered"),
        ]
        found[name] = measure(steps, options.steps, options.warm)
    (folder / f"{rank}.json").write_text(json.dumps(found))


# Rows


def row_of(name: str, results: Sequence[list[Times]]) -> dict[str, Any]:
    """From the times of all ranks; times are medians of all steps, ratios are medians of steps that
    follow each other.
    """
    schedule = schedule_of(name)
    programs = [schedule.program(worker) for worker in range(schedule.workers)]
    walls, cpus = [], []
    for kind in range(3):
        steps = list(zip(*(times[kind] for times in results), strict=True))
        walls.append([1e6 * max(wall for wall, _ in each) for each in steps])
        cpus.append([1e6 * sum(cpu for _, cpu in each) for each in steps])

    def ratio(times: Sequence[list[float]], kind: int) -> float:
        return median(a / b for a, b in zip(times[kind], times[1], strict=True))

    return {
        "schedule": name,
        "ranks": schedule.workers,
        "cells": max(sum(i.kind == "compute" for i in program) for program in programs),
        "messages": max(sum(i.message is not None for i in program) for program in programs),
        "pipesched (us)": median(walls[0]),
        "PyTorch (us)": median(walls[1]),
        "ratio": ratio(walls, 0),
        "ratio, ordered": ratio(walls, 2),
        "CPU ratio": ratio(cpus, 0),
    }


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for ranks in sorted({CASES[name][1] for name in options.cases}):
            names = [name for name in options.cases if CASES[name][1] == ranks]
            run_ranks(rank_process, ranks, folder, names, options)
            files = [folder / f"{rank}.json" for rank in range(ranks)]
            results = [json.loads(file.read_text()) for file in files]
            rows += [row_of(name, [result[name] for result in results]) for name in names]
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    def shown(name: str, value: Any) -> str:
        if not isinstance(value, float):
            return str(value)
        return f"{value:.2f}" if "ratio" in name else f"{value:.0f}"

    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[shown(*item) for item in row.items()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100, help="measured steps of each runtime")
    parser.add_argument("--warm", type=int, default=10, help="steps before them")
    parser.add_argument("--width", type=int, default=8, help="of all layers")
    parser.add_argument("--cases", type=lambda text: text.split(";"), default=list(CASES))
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    options = parser.parse_args()
    unknown = sorted(set(options.cases) - set(CASES))
    if unknown:
        parser.error(f"--cases: {unknown[0]!r} is not one of {'; '.join(CASES)}")
    rows = run(options)
    print(json.dumps(rows, indent=1) if options.format == "json" else table(rows))


if __name__ == "__main__":
    main()

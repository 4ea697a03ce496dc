#!/usr/bin/env python3
"""What a cell and a message cost beside their computation: `pipesched.torch` and PyTorch's own
`_PipelineScheduleRuntime`, which runs the export of the same schedule.

The stages are tiny, so that the runtimes themselves take most of the time. All ranks are processes
of this machine on gloo. For each schedule, both runtimes are made in one process group, and their
steps take turns; a barrier comes before each step, and a step takes as long as its slowest rank.
`loop` runs the cells of a rank without a pipeline, one after the other. `ordered` is our runtime
with `messages="ordered"`, as over NCCL, beside that with tags.

A pipeline on one worker has cells and no messages. What a message costs is what a step takes beyond
the cells of the busiest rank, per message that this rank sends or receives. CPU time is that of all
threads of all ranks.

Usage: .venv/bin/python benchmarks/torch_runtime.py [--steps N] [--width N] [--format json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pipesched
import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

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
Step = Callable[[], Any]
Times = list[tuple[float, float, float]]
"""Wall seconds, CPU seconds and voluntary context switches of the steps of a rank."""


def schedule_of(name: str) -> Schedule:
    family, ranks, microbatches, stages = CASES[name]
    chunks: Any = {"chunks": stages} if "interleaved" in family else {}
    return pipesched.generate(family, workers=ranks, microbatches=microbatches, **chunks)


def stage(number: int, width: int) -> nn.Module:
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh())


# Steps of a rank


def ours(schedule: Schedule, rank: int, x: Tensor, width: int, messages: Any) -> Step:
    loss = nn.functional.mse_loss
    runtime = PipelineRuntime(schedule, lambda _, s: stage(s, width), loss, messages=messages)

    def step() -> Any:
        runtime.step(x, x)
        runtime.zero_grad()

    return step


def theirs(schedule: Schedule, rank: int, x: Tensor, width: int, file: Path) -> Step:
    (path,) = schedule.paths
    numbers = [s for s, worker in enumerate(path.workers) if worker == rank]
    modules = [stage(number, width) for number in numbers]
    count, device = len(path.workers), torch.device("cpu")
    stages = [PipelineStage(m, s, count, device) for s, m in zip(numbers, modules, strict=True)]
    kind: Any = _PipelineScheduleRuntime
    runtime = kind(stages, schedule.microbatches, loss_fn=nn.functional.mse_loss)
    runtime._load_csv(str(file), format="compute_only")

    def step() -> Any:
        arguments = [x] if 0 in numbers else []
        options = {"target": x, "losses": []} if count - 1 in numbers else {}
        runtime.step(*arguments, **options)
        for module in modules:
            module.zero_grad()

    return step


def plain(schedule: Schedule, rank: int, x: Tensor, width: int) -> Step:
    """The cells of this rank in a loop, without anything around them."""
    (path,) = schedule.paths
    modules = [stage(s, width) for s, worker in enumerate(path.workers) if worker == rank]
    parts = x.chunk(schedule.microbatches)
    is_split = any(
        cell.phase == "I" for i in schedule.program(rank) for cell in i.cells if i.kind == "compute"
    )

    def step() -> Any:
        for part in parts:
            for module in modules:
                given = part.detach().requires_grad_()
                output = module(given)
                gradient = torch.ones_like(output)
                if not is_split:
                    torch.autograd.backward([output], [gradient])
                    continue
                torch.autograd.grad([output], [given], [gradient], retain_graph=True)
                torch.autograd.backward([output], [gradient], inputs=list(module.parameters()))
        for module in modules:
            module.zero_grad()

    return step


def now() -> tuple[float, float, float]:
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    return time.perf_counter(), time.process_time(), switches


def measure(steps: Sequence[Step], count: int, warm: int) -> list[Times]:
    """The times of each kind of step, which take turns."""
    times: list[Times] = [[] for _ in steps]
    for number in range(warm + count):
        for step, found in zip(steps, times, strict=True):
            dist.barrier()
            before = now()
            step()
            if number >= warm:
                wall, cpu, switches = (b - a for a, b in zip(before, now(), strict=True))
                found.append((wall, cpu, switches))
    return times


def rank_process(
    rank: int, port: int, names: Sequence[str], options: argparse.Namespace, folder: Path
) -> None:
    ranks = CASES[names[0]][1]
    torch.set_num_threads(1)
    meeting = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=ranks)
    found = {}
    for name in names:
        schedule = schedule_of(name)
        file = folder / f"{ranks}.{rank}.csv"
        file.write_text(schedule.to_csv("compute_only"))
        x = torch.rand(SAMPLES * schedule.microbatches, options.width)
        width = options.width
        steps = [
            ours(schedule, rank, x, width, "tags"),
            theirs(schedule, rank, x, width, file),
            plain(schedule, rank, x, width),
            ours(schedule, rank, x, width, "ordered"),
        ]
        found[name] = measure(steps, options.steps, options.warm)
    (folder / f"{ranks}.{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


# Rows


@dataclass
class Costs:
    """Of one way to run a schedule: medians of all steps."""

    step_us: float
    """Wall time."""
    least_us: float
    """That of the fastest step."""
    cpu_us: float
    """CPU time of all ranks together."""
    switches: float
    """How often a thread of any rank gave up its core to wait."""
    cell_us: float | None = None
    """Of a pipeline on one worker, wall time per cell without its computation."""
    message_us: float | None = None
    """Wall time per message of the busiest rank, without cells."""


@dataclass
class Row:
    """A schedule."""

    name: str
    ranks: int
    microbatches: int
    width: int
    cells: int
    """Of the busiest rank."""
    messages: int
    """That this rank sends or receives."""
    pipesched: Costs
    pytorch: Costs
    plain: Costs
    ordered: Costs
    """Ours with messages that find each other by their order."""
    ratio: float
    """The median of the ratios of steps that follow each other, ours by PyTorch's."""
    cpu_ratio: float
    ordered_ratio: float


def row_of(name: str, width: int, results: Sequence[list[Times]]) -> Row:
    """From the times of all ranks."""
    schedule = schedule_of(name)
    programs = [schedule.program(worker) for worker in range(schedule.workers)]
    cells = max(sum(i.kind == "compute" for i in program) for program in programs)
    messages = max(sum(i.message is not None for i in program) for program in programs)
    walls, cpus, costs = [], [], []
    for kind in range(4):
        steps = list(zip(*(times[kind] for times in results), strict=True))
        walls.append([1e6 * max(wall for wall, _, _ in each) for each in steps])
        cpus.append([1e6 * sum(cpu for _, cpu, _ in each) for each in steps])
        switches = [sum(count for _, _, count in each) for each in steps]
        costs.append(Costs(median(walls[-1]), min(walls[-1]), median(cpus[-1]), median(switches)))
    ratios = [
        median(a / b for a, b in zip(times[0], times[1], strict=True)) for times in (walls, cpus)
    ]
    ratios.append(median(a / b for a, b in zip(walls[3], walls[1], strict=True)))
    values: Any = (width, cells, messages, *costs, *ratios)
    row = Row(name, schedule.workers, schedule.microbatches, *values)
    if not messages:
        for each in (row.pipesched, row.pytorch):
            each.cell_us = (each.step_us - row.plain.step_us) / cells
    return row


def add_messages(rows: Sequence[Row]) -> None:
    """What is beyond the cells of a rank, by the cost of a cell on one worker."""
    alone = {"split" in row.name: row for row in rows if not row.messages}
    for row in rows:
        is_split = "zb" in row.name
        if not row.messages or is_split not in alone:
            continue
        for kind in ("pipesched", "pytorch"):
            each, cell = getattr(row, kind), getattr(alone[is_split], kind).cell_us
            beyond = each.step_us - row.plain.step_us - cell * row.cells
            each.message_us = beyond / row.messages


def run(options: argparse.Namespace) -> list[Row]:
    rows = []
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for ranks in sorted({CASES[name][1] for name in options.cases}):
            names = [name for name in options.cases if CASES[name][1] == ranks]
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
            processes = [
                context.Process(target=rank_process, args=(r, port, names, options, folder))
                for r in range(ranks)
            ]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            if any(process.exitcode for process in processes):
                raise SystemExit("a rank failed")
            files = [folder / f"{ranks}.{rank}.json" for rank in range(ranks)]
            results = [json.loads(file.read_text()) for file in files]
            rows += [row_of(name, options.width, [r[name] for r in results]) for name in names]
    add_messages(rows)
    return rows


COLUMNS: dict[str, Callable[[Row], Any]] = {
    # Of "pipesched / PyTorch", where there are two numbers.
    "schedule": lambda row: row.name,
    "ranks": lambda row: row.ranks,
    "cells": lambda row: row.cells,
    "messages": lambda row: row.messages,
    "loop (us)": lambda row: f"{row.plain.step_us:.0f}",
    "step (us)": lambda row: both(row, "step_us"),
    "ratio": lambda row: f"{row.ratio:.2f}",
    "ratio, ordered": lambda row: f"{row.ordered_ratio:.2f}",
    "CPU ratio": lambda row: f"{row.cpu_ratio:.2f}",
    "switches": lambda row: both(row, "switches"),
    "us per cell": lambda row: both(row, "cell_us"),
    "us per message": lambda row: both(row, "message_us"),
}


def both(row: Row, name: str) -> str:
    one, two = (getattr(each, name) for each in (row.pipesched, row.pytorch))
    return "" if one is None or two is None else f"{one:.0f} / {two:.0f}"


def table(rows: Sequence[Row]) -> str:
    lines = [list(COLUMNS), ["---"] * len(COLUMNS)]
    lines += [[str(function(row)) for function in COLUMNS.values()] for row in rows]
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
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    rows = run(options)
    if options.format == "json":
        json.dump([asdict(row) for row in rows], sys.stdout, indent=1)
        print()
    else:
        print(table(rows))


if __name__ == "__main__":
    main()

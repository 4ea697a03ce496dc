#!/usr/bin/env python3
"""Run, measure, optimize by what was measured, and run again.

Usage: .venv/bin/python benchmarks/torch_loop.py [--rows FILE] [--output FILE] [options]

A small GPT over bytes, whose blocks have different numbers of layers, trains on gloo. Four
schedules with split backwards give a profile by stage for their placements. From these the
optimizer makes schedules that keep no more activations than 1F1B, and the one with the shortest
prediction runs beside every family that keeps no more either: a step of each in turn, all in one
set of processes.

Layers compute what they compute, and then sleep as long as a device of their own would need
(`--pace` times 8, 9 and 5 ms for F, I and W of a layer), since a machine with fewer cores than
workers would measure how processes share its cores. `--pace 0` leaves out the sleeping.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pipesched
import torch
import torch.distributed as dist
from pipesched import PipeSchedError, Schedule
from pipesched.torch import PipelineRuntime, split_sequential
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes
from torch_steps import Slow

WIDTH, HEADS, TOKENS, VOCABULARY = 64, 4, 32, 256
LAYERS = (1, 2, 1, 1, 2, 1, 1, 1)
"""Of each of the 8 blocks of the model."""
LAYER_SECONDS = {"F": 0.008, "I": 0.009, "W": 0.005}
PLACED = ("zb-h1", "interleaved-zb", "zb-v", "chimera")
"""Families whose placements the optimizer tries: one stage on each worker, two stages on each in a
loop and in a V, and two paths in opposite directions."""
HEAD_LAYERS = 1.5
"""As many layers take as long as the head."""


class Device(nn.Module):
    """Takes the time of some layers: in the forward, for the gradient of the input, and for those
    of the weights.
    """

    def __init__(self, layers: float, pace: float) -> None:
        super().__init__()
        self.seconds = {name: pace * layers * time for name, time in LAYER_SECONDS.items()}
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, value: Tensor) -> Tensor:
        if not self.seconds["F"]:
            return value
        weight = Slow.apply(self.weight, 0.0, self.seconds["W"])
        return Slow.apply(value, self.seconds["F"], self.seconds["I"]) * weight


class Layer(nn.Module):
    """Attention and MLP, with norms before them."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, value: Tensor) -> Tensor:
        parts = self.inputs(self.norms[0](value)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        value = value + self.output(mixed.transpose(1, 2).flatten(-2))
        return value + self.mlp(self.norms[1](value))


def model(pace: float) -> nn.Sequential:
    """The blocks, embedding and head in the first and the last."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(*(Layer() for _ in range(n)), Device(n, pace)) for n in LAYERS]
    blocks[0].insert(0, nn.Embedding(VOCABULARY, WIDTH))
    head = nn.Linear(WIDTH, VOCABULARY)
    blocks[-1].extend([head, Device(HEAD_LAYERS, pace)])
    return nn.Sequential(*blocks)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def batch_of(microbatches: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    text = torch.randint(VOCABULARY, (microbatches, TOKENS + 1))
    return text[:, :-1], text[:, 1:]


def runtime_of(schedule: Schedule, pace: float) -> PipelineRuntime:
    per_block = len(LAYERS) // schedule.blocks
    sizes = [per_block] * schedule.blocks
    return PipelineRuntime(schedule, split_sequential(model(pace), schedule, sizes=sizes), loss_of)


def measure(
    schedules: dict[str, Schedule], pace: float, rounds: int
) -> dict[str, pipesched.Measurement]:
    """A step of each in turn, `rounds` times after one that is not measured."""
    runtimes = {name: runtime_of(schedule, pace) for name, schedule in schedules.items()}
    batch = batch_of(next(iter(schedules.values())).microbatches)
    for runtime in runtimes.values():
        runtime.step(*batch)
    with ExitStack() as stack:
        recordings = {n: stack.enter_context(r.record()) for n, r in runtimes.items()}
        for _ in range(rounds):
            for runtime in runtimes.values():
                dist.barrier()
                runtime.step(*batch)
                runtime.zero_grad()
    measured = {name: recording.gather() for name, recording in recordings.items()}
    for runtime in runtimes.values():
        runtime.close()
    return measured


def stages_per_worker(schedule: Schedule) -> float:
    """How many parts a worker's share of the model is in."""
    return sum(len(schedule.stages(worker)) for worker in range(schedule.workers)) / (
        schedule.workers * max(1, len(schedule.paths))
    )


def activations(schedule: Schedule) -> float:
    """The most activations that a worker keeps, in those of a whole worker's share."""
    table = schedule.simulate().table
    assert table is not None
    return float(max(table.peak_activations)) / stages_per_worker(schedule)


def fitting(workers: int, microbatches: int, memory: float) -> dict[str, Schedule]:
    """The families that keep no more, of which each block of the model is a whole number of."""
    found = {}
    for family in pipesched.families():
        try:
            schedule = pipesched.generate(family, workers=workers, microbatches=microbatches)
        except PipeSchedError:
            continue
        if activations(schedule) <= memory and len(LAYERS) % schedule.blocks == 0:
            found[family] = schedule
    return found


def optimized(
    measured: dict[str, pipesched.Measurement], memory: float, seconds: float
) -> tuple[Schedule, str]:
    """The best of what the optimizer makes on each placement, and the name of the placement."""
    best: tuple[int, Schedule, str] | None = None
    for family, measurement in measured.items():
        placed = measurement.schedule
        problem = pipesched.problem(
            workers=placed.workers,
            microbatches=placed.microbatches,
            name="optimized",
            paths=placed.paths,
        ).transform(f"pipe-attach-profile{{times={measurement.profile(issue=True)}}}")
        budget = int(memory * stages_per_worker(placed))
        found = problem.optimize(memory=budget, time_limit=seconds, threads=1)
        predicted = found.schedule.simulate(transport="delay").execution.makespan_ps
        if best is None or predicted < best[0]:
            best = predicted, found.schedule, f"the placement of {family}"
    assert best is not None
    return best[1], best[2]


def rank_process(rank: int, folder: str, arguments: argparse.Namespace) -> None:
    """The whole loop; rank 0 optimizes, and writes the results."""
    torch.set_num_threads(1)
    size, count = arguments.workers, arguments.microbatches
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=size)
    memory = activations(pipesched.generate("1f1b", workers=size, microbatches=count))
    families = fitting(size, count, memory)
    first = {name: families[name] for name in PLACED}
    first["chimera"] = first["chimera"].transform("pipe-split-backward")
    profiled = measure(first, arguments.pace, arguments.rounds)
    made: list[Any] = [None]
    if rank == 0:
        made = [optimized(profiled, memory, arguments.seconds)]
    dist.broadcast_object_list(made)
    schedule, placement = made[0]
    measured = measure({"optimized": schedule, **families}, arguments.pace, arguments.rounds)
    if rank == 0:
        result = {
            "workers": size,
            "microbatches": count,
            "pace": arguments.pace,
            "cores": os.cpu_count(),
            "activations": memory,
            "placement": placement,
            "profiles": {name: each.profile(issue=True) for name, each in profiled.items()},
            "rows": [row_of(name, each) for name, each in measured.items()],
        }
        (Path(folder) / "result.json").write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def row_of(name: str, measured: pipesched.Measurement) -> dict[str, Any]:
    return {
        "schedule": name,
        "activations": activations(measured.schedule),
        "predicted_ms": 1e3 * measured.compare(times=measured.profile(issue=True)).predicted_s,
        "measured_ms": 1e3 * measured.step_s,
        "steps_ms": [1e3 * step for step in measured.step_times_s],
    }


def report(result: dict[str, Any]) -> None:
    """Prints the schedules by measured time."""
    print(
        f"{result['workers']} workers on {result['cores']} cores, {result['microbatches']} "
        f"microbatches, at most {result['activations']:g} activations; optimized on "
        f"{result['placement']}\n"
    )
    names = ("schedule", "activations", "measured", "of all steps", "by own profile")
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in sorted(result["rows"], key=lambda row: float(row["measured_ms"])):
        steps = sorted(row["steps_ms"])
        print(
            f"| {row['schedule']} | {row['activations']:g} | {row['measured_ms']:.1f} | "
            f"{steps[0]:.1f} to {steps[-1]:.1f} | {row['predicted_ms']:.1f} |"
        )
    times = {row["schedule"]: row["measured_ms"] for row in result["rows"]}
    mine = times.pop("optimized")
    best = min(times, key=times.__getitem__)
    gap = 100 * (mine / times[best] - 1)
    print(f"\noptimized: {mine:.1f} ms, {gap:+.2f} % against {best}, the best family")
    gap = 100 * (mine / statistics.median(times.values()) - 1)
    print(f"against the median of the families: {gap:+.1f} %")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4, choices=(2, 4))
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7, help="measured steps of each schedule")
    parser.add_argument("--pace", type=float, default=1.0, help="how slow devices are")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each optimization")
    parser.add_argument("--rows", type=Path, help="show the results of an earlier run")
    parser.add_argument("--output", type=Path, help="where to write the results, as JSON")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.rows:
        report(json.loads(arguments.rows.read_text()))
        return
    with tempfile.TemporaryDirectory() as folder:
        options = {"start_method": "fork"}
        start_processes(rank_process, (folder, arguments), arguments.workers, **options)
        result = json.loads((Path(folder) / "result.json").read_text())
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    report(result)


if __name__ == "__main__":
    main()

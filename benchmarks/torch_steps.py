#!/usr/bin/env python3
"""Steps of stages that take known times, alongside their predictions.

Usage: .venv/bin/python benchmarks/torch_steps.py [--rows FILE] [--output FILE] [options]

Trains every family in real processes on gloo with stages that sleep: the forward, the gradient of
the input and the gradient of the weights of a stage take known times. The first prediction has only
these times, and free messages. The second adds the extra times of cells and messages, measured on
two families in a separate run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pipesched
import torch
import torch.distributed as dist
from pipesched.costs.stage_times import entries_of, ps_of
from pipesched.torch import PipelineRuntime
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes

MODES = {"even": [1.0], "uneven": [1.0, 0.7, 1.3, 0.85, 1.15]}
"""Factors of the times, which stages take in turn."""
CAUSES = ("start", "compute", "messages", "issue", "end")


CALIBRATED_BY = ("1f1b", "zb-h1")
"""Families that run first, with whole and with split backwards: from their cells come the overheads
of the second prediction, for all families."""

Overheads = dict[str, float]
"""In ms, by phase, and of a message."""

SPIN_SECONDS = 0.0003
"""A sleep can end late by up to this time. So `pause` sleeps that much less, and then polls."""


def pause(seconds: float) -> None:
    """Takes that long, as a device would, whenever the system wakes the process up."""
    end = time.perf_counter() + seconds
    if seconds > SPIN_SECONDS:
        time.sleep(seconds - SPIN_SECONDS)
    while time.perf_counter() < end:
        pass


class Slow(torch.autograd.Function):
    """The identity, which pauses in its forward and in its backward."""

    @staticmethod
    def forward(context: Any, value: Tensor, forward: float, backward: float) -> Tensor:
        context.backward_seconds = backward
        pause(forward)
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        pause(context.backward_seconds)
        return gradient, None, None


class SleepingStage(nn.Module):
    """F, I and W sleep for known times, in seconds."""

    def __init__(self, times: dict[str, float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.times = times

    def forward(self, value: Tensor) -> Tensor:
        weight = Slow.apply(self.weight, 0.0, self.times["W"])
        return Slow.apply(value.requires_grad_(), self.times["F"], self.times["I"]) * weight


def stage_times(arguments: argparse.Namespace, mode: str, stages: int) -> list[dict[str, float]]:
    """The times of each stage, in whole microseconds."""
    factors = itertools.cycle(MODES[mode])
    given = {"F": arguments.forward, "I": arguments.input, "W": arguments.weight}
    return [
        {phase: round(1000 * ms * factor) / 1e6 for phase, ms in given.items()}
        for factor in itertools.islice(factors, stages)
    ]


def profile_of(times: list[dict[str, float]]) -> str:
    """The profile for `simulate`."""
    lists = {phase: ",".join(f"{1e3 * stage[phase]:.3f}ms" for stage in times) for phase in "FIW"}
    return ",".join(f"{phase}=[{text}]" for phase, text in lists.items())


def overheads_of(measured: list[tuple[pipesched.Measurement, list[dict[str, float]]]]) -> Overheads:
    """The time of a cell of each phase beyond its pause, with the time of the runtime until the
    next one, and the median time of a message, in ms: from families that run before all others.
    """
    found: Overheads = {}
    for run, times in measured:
        nominal = {
            **{phase: [1e3 * stage[phase] for stage in times] for phase in "FIW"},
            "B": [1e3 * (stage["I"] + stage["W"]) for stage in times],
            "comm": [0.0],
        }
        for name, values in entries_of(run.profile(issue=True)).items():
            listed = values if isinstance(values, list) else [values]
            found[name] = statistics.mean(map(ps_of, listed)) / 1e9 - statistics.mean(nominal[name])
    return found


def with_overheads(times: list[dict[str, float]], overheads: Overheads) -> str:
    """The profile of known times and overheads."""
    of = {
        **{phase: [1e3 * stage[phase] for stage in times] for phase in "FIW"},
        "B": [1e3 * (stage["I"] + stage["W"]) for stage in times],
    }
    lists = {
        phase: ",".join(f"{value + overheads[phase]:.6f}ms" for value in values)
        for phase, values in of.items()
    }
    listed = ",".join(f"{phase}=[{text}]" for phase, text in lists.items())
    return f"{listed},comm={overheads['comm']:.6f}ms"


def measure(
    schedule: pipesched.Schedule, times: list[dict[str, float]], arguments: argparse.Namespace
) -> pipesched.Measurement:
    """Trains some steps, after two that are not measured: messages without tags start with the
    second one.
    """
    runtime = PipelineRuntime(
        schedule,
        lambda path, stage: SleepingStage(times[stage]),
        lambda out, _: out.mean(),
        messages=arguments.messages,
    )
    batch = torch.ones(schedule.microbatches, 4)
    for _ in range(2):
        runtime.step(batch, batch)
    with runtime.record() as recording:
        for _ in range(arguments.steps):
            dist.barrier()
            runtime.step(batch, batch)
    found = recording.gather()
    runtime.close()
    return found


def row_of(
    family: str,
    mode: str,
    measured: pipesched.Measurement,
    times: list[dict[str, float]],
    overheads: Overheads,
) -> dict[str, Any]:
    """The output for one family."""
    known = measured.compare(times=profile_of(times))
    calibrated = measured.compare(times=with_overheads(times, overheads))
    own = measured.compare(times=measured.profile(issue=True))
    errors = known.errors.groupby("cause").error_s.sum()
    workers = measured.schedule.workers
    return {
        "family": family,
        "stages": mode,
        "predicted_ms": 1e3 * known.predicted_s,
        "measured_ms": 1e3 * known.measured_s,
        "error": known.error,
        "overheads_ms": overheads,
        "calibrated_error": calibrated.error,
        "own_profile_error": own.error,
        "steps_ms": [1e3 * step for step in measured.step_times_s],
        "clock_error_us": 1e6 * measured.clock_error_s,
        "mean_of_workers_ms": {c: 1e3 * errors.get(c, 0.0) / workers for c in CAUSES},
    }


def rank_process(rank: int, folder: str, arguments: argparse.Namespace) -> None:
    """Measures all families; rank 0 writes a line of JSON for each."""
    torch.set_num_threads(1)
    size = arguments.workers
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=size)

    def run(mode: str, family: str) -> tuple[pipesched.Measurement, list[dict[str, float]]]:
        schedule = pipesched.generate(
            family, workers=size, microbatches=arguments.microbatches, name=family
        )
        held = [schedule.stages(worker) for worker in range(size)]
        count = 1 + max(each.stage for stages in held for each in stages)
        times = stage_times(arguments, mode, count)
        return measure(schedule, times, arguments), times

    overheads = overheads_of([run("even", family) for family in CALIBRATED_BY])
    with open(Path(folder) / "rows.jsonl" if rank == 0 else os.devnull, "w") as rows:
        for mode, family in itertools.product(arguments.modes, arguments.families):
            measured, times = run(mode, family)
            if rank == 0:
                row = row_of(family, mode, measured, times, overheads)
                print(f"{mode} {family}: {100 * row['error']:+.2f} %", file=sys.stderr, flush=True)
                rows.write(json.dumps(row) + "\n")
    dist.barrier()
    dist.destroy_process_group()


def order_of_pairs(rows: list[dict[str, Any]], apart: float) -> tuple[int, list[str]]:
    """The number of pairs of one mode whose predictions differ by more, and the pairs that were
    measured in the other order.
    """
    pairs, wrong = 0, []
    for first, second in itertools.combinations(rows, 2):
        fast, slow = sorted((first, second), key=lambda row: row["predicted_ms"])
        is_apart = slow["predicted_ms"] > (1 + apart) * fast["predicted_ms"]
        if first["stages"] == second["stages"] and is_apart:
            pairs += 1
            if fast["measured_ms"] >= slow["measured_ms"]:
                wrong.append(f"{fast['stages']}: {fast['family']} and {slow['family']}")
    return pairs, wrong


def report(rows: list[dict[str, Any]]) -> None:
    """Prints a table and its findings."""
    names = ("stages", "family", "predicted", "measured", "error", "by own profile")
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in rows:
        times = f"{row['predicted_ms']:.1f} | {row['measured_ms']:.1f}"
        errors = f"{100 * row['error']:+.2f} % | {100 * row['own_profile_error']:+.2f} %"
        print(f"| {row['stages']} | `{row['family']}` | {times} | {errors} |")
    errors = [100 * row["error"] for row in rows]
    worst = max(errors, key=abs)
    print(f"\nerror: median {statistics.median(errors):+.2f} %, largest {worst:+.2f} %")
    calibrated = [100 * row["calibrated_error"] for row in rows if "calibrated_error" in row]
    if calibrated:
        worst = max(calibrated, key=abs)
        median = statistics.median(map(abs, calibrated))
        print(
            f"with the overheads of {' and '.join(CALIBRATED_BY)}: median of sizes {median:.2f} %, "
            f"largest {worst:+.2f} %"
        )
    own = [100 * row["own_profile_error"] for row in rows]
    worst = max(own, key=abs)
    print(f"by own profile: median {statistics.median(own):+.2f} %, largest {worst:+.2f} %")
    pairs, wrong = order_of_pairs(rows, 0.02)
    print(f"pairs of families over 2 % apart: {pairs - len(wrong)} of {pairs} in predicted order")
    for pair in wrong:
        print(f"  not {pair}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5, help="measured steps; the median counts")
    parser.add_argument("--forward", type=float, default=40.0, help="ms of F")
    parser.add_argument("--input", type=float, default=56.0, help="ms of I")
    parser.add_argument("--weight", type=float, default=32.0, help="ms of W")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--families", nargs="+", default=pipesched.families())
    parser.add_argument("--messages", choices=("tags", "ordered"), default="tags")
    parser.add_argument("--rows", type=Path, help="show rows of an earlier run")
    parser.add_argument("--output", type=Path, help="where to write the rows, as JSON")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.rows:
        report(json.loads(arguments.rows.read_text()))
        return
    with tempfile.TemporaryDirectory() as folder:
        start_processes(rank_process, (folder, arguments), arguments.workers, start_method="fork")
        lines = (Path(folder) / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
    report(rows)


if __name__ == "__main__":
    main()

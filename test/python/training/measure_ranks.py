"""Measures schedules. With the runtime `pipesched`, each rank writes its gathered times to
FOLDER/<name>.<rank>.json, and the trace of its profiler of the same steps to
FOLDER/<name>.<rank>.trace.json; with `torch` PyTorch's own runtime runs them, and each rank writes
the trace to FOLDER/<name>.<rank>.json.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineError, PipelineRuntime
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as runtimes

STEPS = 3
CPU = [torch.profiler.ProfilerActivity.CPU]
SECONDS = {0: 0.06}
"""The time that the forward of a stage sleeps; unlisted stages 5 ms."""


@dataclass(frozen=True)
class MeasureJob:
    name: str
    schedule: Schedule
    kind: str

    @property
    def ranks(self) -> int:
        return self.schedule.workers


class Doze(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: Tensor, seconds: float) -> Tensor:
        time.sleep(seconds)
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Stage(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.linear = nn.Linear(16, 16)
        self.seconds = SECONDS.get(number, 0.005)

    def forward(self, value: Tensor) -> Tensor:
        hidden = torch.tanh(self.linear(value))
        return Doze.apply(hidden, self.seconds)  # type: ignore[no-any-return, no-untyped-call]


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def sgd(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)


def stage_modules(schedule: Schedule, rank: int) -> dict[tuple[int, int], nn.Module]:
    """One module for stages of several paths that hold the same blocks."""
    by_block: dict[range, nn.Module] = {}
    return {
        (each.path, each.stage): by_block.setdefault(each.blocks, Stage(each.stage))
        for each in schedule.stages(rank)
    }


def measure(name: str, schedule: Schedule, group: dist.ProcessGroup, folder: Path) -> None:
    rank = dist.get_rank(group)
    phases = {cell.phase for each in schedule.program(rank) for cell in each.cells}
    optimizer = sgd if "O" in phases else None
    runtime = PipelineRuntime(
        schedule, stage_modules(schedule, rank), loss_of, group, optimizer=optimizer, timeout=60
    )
    batch = torch.ones(4 * schedule.microbatches, 16)
    runtime.step(batch, batch)
    with runtime.record() as nothing:
        runtime.evaluate(batch, batch)
    try:
        nothing.gather()
        raise AssertionError("an evaluation has no training step")
    except PipelineError as error:
        assert "no training step" in str(error)
    plan = torch.profiler.schedule(wait=0, warmup=0, active=STEPS, repeat=1)
    with runtime.record() as recording:
        runtime.evaluate(batch, batch)
        with torch.profiler.profile(activities=CPU, schedule=plan) as profiler:
            for _ in range(STEPS):
                runtime.step(batch, batch)
                profiler.step()
    profiler.export_chrome_trace(str(folder / f"{name}.{rank}.trace.json"))
    recording.gather().save(folder / f"{name}.{rank}.json")
    runtime.close()


def trace(name: str, schedule: Schedule, group: dist.ProcessGroup, folder: Path) -> None:
    rank = dist.get_rank(group)
    table = folder / f"{name}.{rank}.csv"
    schedule.save(table)
    numbers = [each.stage for each in schedule.stages(rank)]
    workers = range(schedule.workers)
    last = max(each.stage for worker in workers for each in schedule.stages(worker))
    stages = [
        PipelineStage(Stage(number), number, last + 1, torch.device("cpu"), group=group)
        for number in numbers
    ]
    runtime: Any = runtimes._PipelineScheduleRuntime
    runtime = runtime(stages, schedule.microbatches, loss_fn=loss_of)
    runtime._load_csv(str(table), format="compute_only")
    batch = torch.ones(4 * schedule.microbatches, 16)
    given = [batch] if 0 in numbers else []
    options: dict[str, Any] = {"target": batch, "losses": []} if last in numbers else {}
    runtime.step(*given, **options)
    with torch.profiler.profile(activities=CPU) as profiler:
        for _ in range(STEPS):
            runtime.step(*given, **options)
    profiler.export_chrome_trace(str(folder / f"{name}.{rank}.json"))


def run_job(job: MeasureJob, group: dist.ProcessGroup, folder: Path) -> None:
    run = measure if job.kind == "pipesched" else trace
    run(job.name, job.schedule, group, folder)

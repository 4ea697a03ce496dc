"""Runs schedules under PyTorch's own pipelines, in real processes on gloo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched import Schedule
from runtime_models import SAMPLES, WIDTH
from runtime_models import Plain as Stage
from runtime_runs import run as run_processes
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

STEPS = 2


@dataclass(frozen=True)
class Job:
    """A schedule file, and the runtime that trains two steps with it.

    `stages` has the rank of each stage. With several `pipelines` each has its own ranks and data,
    and every stage is under FSDP2 or, by `wrapper`, DDP.
    """

    name: str
    text: str
    stages: Sequence[int]
    microbatches: int
    format: str = "compute_only"
    pipelines: int = 1
    wrapper: str = "FSDP"
    runtime: str = "_PipelineScheduleRuntime"
    profile: bool = False

    file: str = ""

    @property
    def workers(self) -> int:
        return max(self.stages) + 1

    @property
    def ranks(self) -> int:
        return self.workers * self.pipelines


@dataclass(frozen=True)
class Trained:
    """The largest relative errors of a job; the actions of each rank, and their matrix products."""

    losses: float
    gradients: float
    actions: list[list[str]]
    products: list[dict[str, int]]


def job_of(schedule: Schedule, name: str, format: str, pipelines: int = 1) -> Job:
    text = schedule.to_csv(format)  # type: ignore[arg-type]
    (path,) = schedule.paths
    return Job(name, text, path.workers, schedule.microbatches, format, pipelines)


def train(jobs: Sequence[Job], folder: Path) -> dict[str, Trained]:
    return {
        name: Trained(
            max(result["losses"] for result in results if result["losses"] is not None),
            max(result["gradients"] for result in results),
            [result.get("actions", []) for result in results],
            [result.get("products", {}) for result in results],
        )
        for name, results in run_processes(jobs, folder, "torch_ranks").items()
    }


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def batch_of(job: Job, step: int, pipeline: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * pipeline + step)
    shape = (2, SAMPLES * job.microbatches, WIDTH)
    both = torch.randn(shape, generator=generator, dtype=torch.float64)
    return both[0], both[1]


def reference(job: Job, step: int, pipelines: int) -> tuple[list[list[float]], list[Stage]]:
    """Returns the losses of each pipeline, and stages with gradients of the mean of all."""
    stages = [Stage(number) for number in range(len(job.stages))]
    count = job.microbatches
    losses: list[list[float]] = []
    for pipeline in range(pipelines):
        x, target = batch_of(job, step, pipeline)
        each = [
            loss_of(nn.Sequential(*stages)(part), wanted)
            for part, wanted in zip(x.chunk(count), target.chunk(count), strict=True)
        ]
        torch.autograd.backward(torch.stack(each).sum() / (count * pipelines))
        losses.append([loss.item() for loss in each])
    return losses, stages


class Pipeline:
    """The stages of this rank under a runtime of PyTorch."""

    def __init__(self, job: Job, group: dist.ProcessGroup, data: DeviceMesh | None) -> None:
        self.job = job
        rank = dist.get_rank(group)
        self.numbers = [stage for stage, worker in enumerate(job.stages) if worker == rank]
        self.modules = [Stage(number) for number in self.numbers]
        stages = [
            PipelineStage(module, number, len(job.stages), torch.device("cpu"), group=group)
            for number, module in zip(self.numbers, self.wrapped(data), strict=True)
        ]
        runtime = getattr(schedules, job.runtime)
        self.schedule = runtime(stages, job.microbatches, loss_fn=loss_of)
        self.schedule._load_csv(job.file, format=job.format)

    def wrapped(self, data: DeviceMesh | None) -> Sequence[nn.Module]:
        if data is not None and self.job.wrapper == "DDP":
            group = data.get_group()
            return [DistributedDataParallel(each, process_group=group) for each in self.modules]
        if data is not None:
            for module in self.modules:
                fully_shard(module, mesh=data, reshard_after_forward=False)
        return self.modules

    def step(self, x: Tensor, target: Tensor) -> list[float]:
        for module in self.modules:
            module.zero_grad()
        losses: list[Tensor] = []
        arguments = [x] if 0 in self.numbers else []
        last = len(self.job.stages) - 1 in self.numbers
        options = {"target": target, "losses": losses} if last else {}
        self.schedule.step(*arguments, **options)
        return [loss.item() for loss in losses]

    def gradient_error(self, stages: list[Stage]) -> float:
        """The largest difference from the reference, relative to its largest gradient."""
        error = 0.0
        for number, module in zip(self.numbers, self.modules, strict=True):
            wanted = stages[number].parameters()
            for found, like in zip(module.parameters(), wanted, strict=True):
                gradient = found.grad
                if gradient is None or like.grad is None:
                    return float("inf")
                if isinstance(gradient, DTensor):
                    gradient = gradient.full_tensor()
                largest = like.grad.abs().max().item()
                error = max(error, (gradient - like.grad).abs().max().item() / largest)
        return error


def run(job: Job, group: dist.ProcessGroup, data: DeviceMesh | None) -> dict[str, Any]:
    pipelines = 1 if data is None else data.size()
    mine = 0 if data is None else data.get_local_rank()
    pipeline = Pipeline(job, group, data)
    result: dict[str, Any] = {"losses": None, "gradients": 0.0}
    for step in range(STEPS):
        wanted, stages = reference(job, step, pipelines)
        found = pipeline.step(*batch_of(job, step, mine))
        if found:
            errors = [abs(a - b) / abs(b) for a, b in zip(found, wanted[mine], strict=True)]
            result["losses"] = max(*errors, result["losses"] or 0.0)
        result["gradients"] = max(result["gradients"], pipeline.gradient_error(stages))
    if job.runtime == "_PipelineScheduleRuntime":
        order = pipeline.schedule.pipeline_order_with_comms
        result["actions"] = [str(action) for action in order[pipeline.schedule.rank]]
    if job.profile:
        result["products"] = matrix_products(pipeline, *batch_of(job, 0, mine))
    return result


def matrix_products(pipeline: Pipeline, x: Tensor, target: Tensor) -> dict[str, int]:
    """The number that each action runs, by its range in PyTorch's profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        pipeline.step(x, target)
    events = profiler.events()
    products = [event.time_range for event in events if event.name in ("aten::addmm", "aten::mm")]
    return {
        event.name.removeprefix("PP:"): sum(
            event.time_range.start <= product.start and product.end <= event.time_range.end
            for product in products
        )
        for event in events
        if event.name.startswith("PP:")
    }


meshes: dict[int, DeviceMesh] = {}


def run_job(job: Job, group: dist.ProcessGroup, folder: Path) -> dict[str, Any]:
    job = replace(job, file=str(folder / f"{job.name}.{dist.get_rank()}.csv"))
    Path(job.file).write_text(job.text)
    if job.pipelines == 1:
        return run(job, group, None)
    if job.pipelines not in meshes:
        shape = (job.pipelines, dist.get_world_size() // job.pipelines)
        meshes[job.pipelines] = init_device_mesh("cpu", shape, mesh_dim_names=("data", "pipeline"))
    mesh = meshes[job.pipelines]
    return run(job, mesh.get_group("pipeline"), mesh["data"])

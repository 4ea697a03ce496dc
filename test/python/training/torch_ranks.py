"""Trains with PyTorch's pipelines on gloo; `torch_runs` starts it.

usage: torch_ranks.py FOLDER SECONDS, started as `runtime_ranks.py` is.
"""

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from runtime_models import SAMPLES, WIDTH
from runtime_models import Plain as Stage
from runtime_ranks import LIMIT, main
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch_runs import Job

STEPS = 2


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def batch_of(job: Job, step: int, pipeline: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * pipeline + step)
    shape = (2, SAMPLES * job.microbatches, WIDTH)
    both = torch.randn(shape, generator=generator, dtype=torch.float64)
    return both[0], both[1]


def reference(job: Job, step: int, pipelines: int) -> tuple[list[list[float]], list[Stage]]:
    """The losses of each pipeline's microbatches, and the stages with the gradients of the mean of
    all losses, computed in one process without a pipeline.
    """
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
        """The modules under data parallelism."""
        if data is not None and self.job.wrapper == "DDP":
            group = data.get_group()
            return [DistributedDataParallel(each, process_group=group) for each in self.modules]
        if data is not None:
            for module in self.modules:
                fully_shard(module, mesh=data, reshard_after_forward=False)
        return self.modules

    def step(self, x: Tensor, target: Tensor) -> list[float]:
        """The losses, on the rank of the last stage."""
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


def train(folder: Path, jobs: list[Job], world: int, rank: int) -> None:
    meeting = f"file://{folder}/store"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=world, timeout=LIMIT)
    groups: dict[int, dist.ProcessGroup] = {}
    for workers in sorted({job.workers for job in jobs if job.pipelines == 1}):
        groups[workers] = dist.new_group(list(range(workers)), timeout=LIMIT)
    meshes: dict[int, DeviceMesh] = {}
    for pipelines in sorted({job.pipelines for job in jobs} - {1}):
        shape = (pipelines, world // pipelines)
        meshes[pipelines] = init_device_mesh("cpu", shape, mesh_dim_names=("data", "pipeline"))
    results = {}
    for job in jobs:
        if rank < job.ranks:
            mesh = meshes.get(job.pipelines)
            group = mesh.get_group("pipeline") if mesh else groups[job.workers]
            print("job", job.name, file=sys.stderr, flush=True)
            results[job.name] = run(job, group, mesh["data"] if mesh else None)
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main(train, Path(sys.argv[1]), float(sys.argv[2])))

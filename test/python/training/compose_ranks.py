"""Trains with pipelines side by side; `runtime_runs.run` starts it.

usage: compose_ranks.py FOLDER SECONDS
"""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
import torch._dynamo  # fully_shard loads it; once for all ranks, which are forked.
import torch.distributed as dist
from compose_runs import Beside, Found
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_models import batch_of, loss_of
from runtime_ranks import (
    LIMIT,
    STEPS,
    Model,
    difference,
    main,
    mean_error,
    optimizer_of,
    stage_blocks,
)
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

COLLECTIVES = ("all_reduce", "all_gather_single", "reduce_scatter_single")
"""Hooks of sums and of FSDP."""


def whole(tensor: Tensor | None) -> Tensor | None:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class HasHow(Protocol):
    """The ways to put pipelines together."""

    @property
    def how(self) -> str: ...


def composed(job: HasHow, stages: Any, mesh: DeviceMesh) -> Callable[[int, int], nn.Module]:
    """The stages, put together with the stages of other pipelines."""
    beside = mesh["replicas", "shards"] if job.how == "hsdp" else mesh["dp"]
    made: dict[nn.Module, nn.Module] = {}

    def of(path: int, stage: int) -> nn.Module:
        module: nn.Module = stages(path, stage)
        if job.how == "ddp":
            if module not in made:
                made[module] = DistributedDataParallel(module, process_group=beside.get_group())
            return made[module]
        if job.how == "again":
            for block in module.children():
                if not isinstance(block, FSDPModule):
                    fully_shard(block, mesh=beside, reshard_after_forward=True)
        if job.how in ("blocks", "both"):
            for block in module.children():
                if not isinstance(block, FSDPModule):
                    fully_shard(block, mesh=beside)
        if job.how in ("stages", "both", "hsdp") and not isinstance(module, FSDPModule):
            fully_shard(module, mesh=beside)
        return module

    return of


@contextmanager
def counted(calls: Counter[str]) -> Iterator[None]:
    """Counts the collectives of a block."""
    old = {name: getattr(dist, name) for name in COLLECTIVES}

    def counting(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return old[name](*args, **options)

        return call

    for name in COLLECTIVES:
        setattr(dist, name, counting(name))
    try:
        yield
    finally:
        for name in COLLECTIVES:
            setattr(dist, name, old[name])


def compare(mine: list[tuple[int, nn.Module]], like: nn.Sequential) -> list[float]:
    """The largest differences of gradients and of parameters."""
    gradients = values = 0.0
    for number, block in mine:
        for name, wanted in like[number].named_parameters():
            found = block.get_parameter(f"{number}.{name}")
            gradients = max(gradients, difference(whole(found.grad), wanted.grad))
            values = max(values, difference(whole(found.detach()), wanted.detach()))
    return [gradients, values]


def options_of(job: Beside, mesh: DeviceMesh) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": 60, **job.options}
    if job.how == "plain":
        options["data_parallel"] = mesh["dp"]
    if job.steps_inside:
        options["optimizer"] = optimizer_of
    if job.has_ties:
        last = max(s.stage for w in range(job.schedule.workers) for s in job.schedule.stages(w))
        end = job.schedule.blocks - 1
        options["tied"] = [[(0, "0.0.table"), (last, f"{end}.{end}.table")]]
    return options


def run(job: Beside, mesh: DeviceMesh) -> Found:
    group = mesh["pp"].get_group()
    rank = dist.get_rank(group)
    pipeline = dist.get_rank() // job.schedule.workers
    schedule = job.schedule
    reference, own = Model(job), Model(job, is_tied=False)
    inner = split_sequential(own.whole, schedule)
    stages = composed(job, inner, mesh)
    kept = {(s.path, s.stage): stages(s.path, s.stage) for s in schedule.stages(rank)}
    runtime = PipelineRuntime(schedule, kept, loss_of, group, **options_of(job, mesh))
    blocks = stage_blocks(job, rank, inner)
    outside = optimizer_of(list({id(p): p for _, b in blocks for p in b.parameters()}.values()))
    found = Found()
    calls: Counter[str] = Counter()
    count = schedule.microbatches
    for step in range(STEPS):
        batches = [
            batch_of(job.model, STEPS * p + step, count, job.is_uneven)
            for p in range(job.pipelines)
        ]
        wanted = [reference.train(*batch) for batch in batches][pipeline]
        for p in reference.whole.parameters():
            p.grad = None if p.grad is None else p.grad / job.pipelines
        with counted(calls):
            loss = runtime.step(*batches[pipeline])
        found.losses = max(found.losses, mean_error(job, loss, wanted, rank))
        reference.optimizer.step()
        if not job.steps_inside:
            found.gradients = max(found.gradients, compare(blocks, reference.whole)[0])
            outside.step()
        found.values = max(found.values, compare(blocks, reference.whole)[1])
        for p in reference.whole.parameters():
            p.grad = None
        runtime.zero_grad()
        if step == 0:
            found.buffers = buffers_of(blocks)
    found.calls = dict(calls)
    runtime.close()
    return found


def buffers_of(blocks: list[tuple[int, nn.Module]]) -> dict[str, list[float]]:
    named = [(number, *pair) for number, block in blocks for pair in block.named_buffers()]
    return {f"{number}.{name}": buffer.reshape(-1).tolist() for number, name, buffer in named}


def train(folder: Path, jobs: list[Beside], world: int, rank: int) -> None:
    meeting = f"file://{folder}/store"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=world, timeout=LIMIT)
    meshes: dict[str, DeviceMesh] = {}
    results = {}
    for job in jobs:
        kind = f"{job.how == 'hsdp'} {job.pipelines} {job.schedule.workers}"
        if kind not in meshes:
            meshes[kind] = mesh_of(job)
        print("job", job.name, file=sys.stderr, flush=True)
        torch.manual_seed(99)
        results[job.name] = run(job, meshes[kind])
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


def mesh_of(job: Beside) -> DeviceMesh:
    workers = job.schedule.workers
    if job.how == "hsdp":
        shape, names = (2, job.pipelines // 2, workers), ("replicas", "shards", "pp")
        return init_device_mesh("cpu", shape, mesh_dim_names=names)
    return init_device_mesh("cpu", (job.pipelines, workers), mesh_dim_names=("dp", "pp"))


if __name__ == "__main__":
    sys.exit(main(train, Path(sys.argv[1]), float(sys.argv[2])))

"""Runs jobs on gloo, one process per rank, and trains with `pipesched.torch`.

usage: runtime_ranks.py FOLDER SECONDS MODULE

FOLDER/jobs.pickle has the jobs, which all ranks take in turn by the function `run_job` of a module
of this folder. Each rank writes its results to FOLDER/<rank>.pickle, and its messages to
FOLDER/<rank>.err.
"""

from __future__ import annotations

import datetime
import gc
import importlib
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_census import Census, Marked
from runtime_models import batch_of, block_of, loss_of
from runtime_runs import Job, Result
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

STEPS = 2
LIMIT = datetime.timedelta(seconds=60)
GRACE = 2.0
"""Seconds that others may run on after a rank has failed, whose failure may be theirs too."""
COLLECTIVES = ("all_reduce", "all_gather_single", "reduce_scatter_single")
"""Hooks of sums and of FSDP."""


class Model:
    def __init__(self, job: Job, is_tied: bool = True) -> None:
        self.count = job.schedule.blocks
        self.whole = nn.Sequential(*(block_of(job.model, i, self.count) for i in range(self.count)))
        for stage in (s for w in range(job.schedule.workers) for s in job.schedule.stages(w)):
            paths = job.schedule.paths
            if paths and stage.stage in paths[stage.path].frozen:
                for block in stage.blocks:
                    self.whole[block].requires_grad_(False)
        if job.has_ties and is_tied:
            self.whole[self.count - 1].table = self.whole[0].table
        self.optimizer = optimizer_of(list(self.whole.parameters()))

    def train(self, inputs: list[Any], targets: list[Any]) -> list[float]:
        losses = []
        for value, target in zip(inputs, targets, strict=True):
            loss = loss_of(self.whole(value), target)
            (loss / len(inputs)).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.item())
        return losses


def optimizer_of(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def difference(found: Tensor | None, wanted: Tensor | None) -> float:
    """Relative to the largest value."""
    if found is None or wanted is None:
        return 0.0 if found is wanted else float("inf")
    largest = max(wanted.abs().max().item(), 1e-3)
    return (found - wanted).abs().max().item() / largest


def stage_blocks(job: Job, rank: int, stages: Any) -> list[tuple[int, nn.Module]]:
    return [
        (number, stages(stage.path, stage.stage)[i])
        for stage in job.schedule.stages(rank)
        for i, number in enumerate(stage.blocks)
    ]


def whole(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def compare(job: Job, mine: list[tuple[int, nn.Module]], model: nn.Sequential) -> list[float]:
    """The largest differences of gradients, and of parameters and buffers."""
    gradients = values = 0.0
    for number, block in mine:
        like = model[number]
        for name, wanted in like.named_parameters():
            found = block.get_parameter(f"{number}.{name}")
            gradients = max(gradients, difference(whole(found.grad), wanted.grad))
            values = max(values, difference(whole(found.detach()), wanted.detach()))
        for name, kept in like.named_buffers():
            if not job.has_replicas:
                values = max(values, difference(block.get_buffer(f"{number}.{name}"), kept))
    return [gradients, values]


def mean_error(job: Job, found: Tensor | None, wanted: list[float], rank: int) -> float:
    """For the loss of a rank, the mean over its microbatches."""
    schedule = job.schedule
    last = {
        p: max(s.stage for w in range(schedule.workers) for s in schedule.stages(w) if s.path == p)
        for p in range(max(1, len(schedule.paths)))
    }
    ends = {s.path for s in schedule.stages(rank) if s.stage == last[s.path]}
    many = len(last) > 1
    chosen = [w for m, w in enumerate(wanted) if (schedule.path_of(m) if many else 0) in ends]
    if not chosen:
        return 0.0 if found is None else float("inf")
    if found is None:
        return float("inf")
    mean = sum(chosen) / len(chosen)
    return abs(found.item() - mean) / abs(mean)


def composed(how: str, stages: Any, mesh: DeviceMesh) -> Callable[[int, int], nn.Module]:
    beside = mesh["replicas", "shards"] if how == "hsdp" else mesh["dp"]
    made: dict[nn.Module, nn.Module] = {}

    def of(path: int, stage: int) -> nn.Module:
        module: nn.Module = stages(path, stage)
        if how == "ddp":
            if module not in made:
                made[module] = DistributedDataParallel(module, process_group=beside.get_group())
            return made[module]
        for block in module.children() if how in ("blocks", "both", "again") else ():
            if not isinstance(block, FSDPModule):
                fully_shard(
                    block, mesh=beside, reshard_after_forward=True if how == "again" else None
                )
        if how in ("stages", "both", "hsdp") and not isinstance(module, FSDPModule):
            fully_shard(module, mesh=beside)
        return module

    return of


@contextmanager
def counted(calls: Counter[str]) -> Iterator[None]:
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


def options_of(job: Job, mesh: DeviceMesh | None) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": 60, **job.options}
    if mesh is not None and job.how == "plain":
        options["data_parallel"] = mesh["dp"]
    if job.steps_inside:
        options["optimizer"] = optimizer_of
    if job.has_ties:
        last = max(s.stage for w in range(job.schedule.workers) for s in job.schedule.stages(w))
        end = job.schedule.blocks - 1
        options["tied"] = [[(0, "0.0.table"), (last, f"{end}.{end}.table")]]
    return options


def run(job: Job, group: dist.ProcessGroup, mesh: DeviceMesh | None = None) -> Result:
    """Trains a pipeline next to the model without one, which takes the batches of all pipelines."""
    rank, schedule = dist.get_rank(group), job.schedule
    pipeline = dist.get_rank() // schedule.workers if job.pipelines > 1 else 0
    reference, own = Model(job), Model(job, is_tied=False)
    inner: Any = split_sequential(own.whole, schedule)
    stages = inner
    if mesh is not None:
        made = composed(job.how, inner, mesh)
        stages = {(s.path, s.stage): made(s.path, s.stage) for s in schedule.stages(rank)}
    runtime = PipelineRuntime(schedule, stages, loss_of, group, **options_of(job, mesh))
    blocks = stage_blocks(job, rank, inner)
    outside = optimizer_of(list({id(p): p for _, b in blocks for p in b.parameters()}.values()))
    worst, calls = Result(), Counter[str]()
    torch.manual_seed(99)
    for step in range(STEPS):
        batches = [
            batch_of(job.model, STEPS * p + step, schedule.microbatches, job.is_uneven)
            for p in range(job.pipelines)
        ]
        wanted = [reference.train(*batch) for batch in batches][pipeline]
        for p in reference.whole.parameters() if job.pipelines > 1 else ():
            p.grad = None if p.grad is None else p.grad / job.pipelines
        with runtime.record() as events, counted(calls):
            loss = runtime.step(*batches[pipeline])
        assert len(events) == len(schedule.program(rank, receives=job.options.get("receives")))
        if job.compares:
            worst.losses = max(worst.losses, mean_error(job, loss, wanted, rank))
        reference.optimizer.step()
        if not job.steps_inside:
            worst.gradients = max(worst.gradients, compare(job, blocks, reference.whole)[0])
            outside.step()
        gradients, values = compare(job, blocks, reference.whole)
        worst.gradients = max(worst.gradients, gradients)
        worst.values = max(worst.values, values)
        for p in reference.whole.parameters():
            p.grad = None
        worst.trace += [0.0 if loss is None else loss.item()]
        worst.trace += [
            0.0 if p.grad is None else whole(p.grad).sum().item()
            for _, b in blocks
            for p in b.parameters()
        ]
        runtime.zero_grad()
        if step == 0:
            worst.buffers = {
                f"{number}.{name}": buffer.reshape(-1).tolist()
                for number, block in blocks
                for name, buffer in block.named_buffers()
            }
    worst.calls = dict(calls)
    runtime.close()
    return worst


def count(job: Job, group: dist.ProcessGroup) -> Result:
    """The activations of steps, without the help of the garbage collector."""
    schedule, census = job.schedule, Census()
    stages = split_sequential(nn.Sequential(*map(Marked, range(schedule.blocks))), schedule)
    runtime = PipelineRuntime(
        schedule, stages, loss_of, group, timeout=60, on_instruction=census.look, **job.options
    )
    gc.collect()
    gc.disable()
    try:
        for step in range(STEPS):
            with census:
                runtime.step(*batch_of("plain", step, schedule.microbatches, job.is_uneven))
    finally:
        gc.enable()
    runtime.close()
    return Result(peak=census.peak, left=census.left)


def mesh_of(job: Job) -> DeviceMesh:
    workers = job.schedule.workers
    if job.how == "hsdp":
        shape, names = (2, job.pipelines // 2, workers), ("replicas", "shards", "pp")
        return init_device_mesh("cpu", shape, mesh_dim_names=names)
    return init_device_mesh("cpu", (job.pipelines, workers), mesh_dim_names=("dp", "pp"))


meshes: dict[Any, DeviceMesh] = {}


def run_job(job: Job, group: dist.ProcessGroup, _: Path) -> Result:
    if job.model == "marked":
        return count(job, group)
    if not job.how:
        return run(job, group)
    kind = job.how == "hsdp", job.pipelines, job.schedule.workers
    if kind not in meshes:
        meshes[kind] = mesh_of(job)
    return run(job, meshes[kind]["pp"].get_group(), meshes[kind])


# Processes

Work = Callable[[Any, dist.ProcessGroup, Path], Any]
"""The work of a rank on a job, with a group of the ranks of the job, and a folder for files."""


def run_each(work: Work, folder: Path, jobs: list[Any], world: int, rank: int) -> None:
    meeting = f"file://{folder}/store"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=world, timeout=LIMIT)
    groups = {ranks: dist.new_group(list(range(ranks))) for ranks in range(1, world)}
    everyone = dist.group.WORLD
    assert everyone is not None
    groups[world] = everyone
    results = {}
    for job in jobs:
        if rank < job.ranks:
            print("job", job.name, file=sys.stderr, flush=True)
            results[job.name] = work(job, groups[job.ranks], folder)
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


def rank_process(work: Work, folder: Path, jobs: list[Any], world: int, rank: int) -> None:
    with open(folder / f"{rank}.err", "wb") as errors:
        os.dup2(errors.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    try:
        run_each(work, folder, jobs, world, rank)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def main(folder: Path, seconds: float, name: str) -> int:
    """Runs the jobs of a folder in as many processes as they need."""
    work = importlib.import_module(name).run_job
    jobs: list[Any] = pickle.loads((folder / "jobs.pickle").read_bytes())
    world = max(job.ranks for job in jobs)
    torch.set_num_threads(1)
    if any(getattr(job, "pipelines", 1) > 1 for job in jobs):
        importlib.import_module("torch._dynamo")  # which fully_shard loads: once for all ranks
    gc.freeze()  # objects loaded so far, so that no rank looks through them again
    context = multiprocessing.get_context("fork")
    ranks = [
        context.Process(target=rank_process, args=(work, folder, jobs, world, rank))
        for rank in range(world)
    ]
    for rank in ranks:
        rank.start()
    end = time.monotonic() + seconds
    while any(rank.is_alive() for rank in ranks) and time.monotonic() < end:
        if any(rank.exitcode for rank in ranks):
            end = min(end, time.monotonic() + GRACE)
        time.sleep(0.02)
    left = [rank for rank in ranks if rank.is_alive()]
    for rank in left:
        rank.kill()
    for rank in ranks:
        rank.join()
    return int(bool(left) or any(rank.exitcode for rank in ranks))


if __name__ == "__main__":
    from runtime_ranks import main as run_jobs

    sys.exit(run_jobs(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))

"""Trains with `pipesched.torch` on gloo, one process per rank; `runtime_runs` starts it.

usage: runtime_ranks.py FOLDER SECONDS

FOLDER/jobs.pickle has the jobs, which all ranks take in turn. Each rank writes its results to
FOLDER/<rank>.pickle, and its messages to FOLDER/<rank>.err.
"""

from __future__ import annotations

import datetime
import gc
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_census import Census, Marked
from runtime_models import batch_of, block_of, loss_of
from runtime_runs import Job, Result
from torch import Tensor, nn

STEPS = 2
LIMIT = datetime.timedelta(seconds=60)
GRACE = 2.0
"""Seconds that others may run on after a rank has failed, whose failure may be theirs too."""


class Model:
    """A model as blocks, with its optimizer."""

    def __init__(self, job: Job, is_tied: bool = True) -> None:
        self.count = job.schedule.blocks
        self.whole = nn.Sequential(*(block_of(job.model, i, self.count) for i in range(self.count)))
        if job.has_ties and is_tied:
            self.whole[self.count - 1].table = self.whole[0].table
        self.optimizer = optimizer_of(list(self.whole.parameters()))

    def train(self, inputs: list[Any], targets: list[Any]) -> list[float]:
        """The losses of the microbatches, without a pipeline."""
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
    """The blocks of a rank, by their number in the model."""
    return [
        (number, stages(stage.path, stage.stage)[i])
        for stage in job.schedule.stages(rank)
        for i, number in enumerate(stage.blocks)
    ]


def compare(job: Job, mine: list[tuple[int, nn.Module]], whole: nn.Sequential) -> list[float]:
    """The largest differences of gradients, and of parameters and buffers."""
    gradients = values = 0.0
    for number, block in mine:
        like = whole[number]
        for name, wanted in like.named_parameters():
            found = block.get_parameter(f"{number}.{name}")
            gradients = max(gradients, difference(found.grad, wanted.grad))
            values = max(values, difference(found.detach(), wanted.detach()))
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


def run(job: Job, group: dist.ProcessGroup) -> Result:
    rank = dist.get_rank(group)
    schedule = job.schedule
    reference, mine = Model(job), Model(job)
    stages = split_sequential(mine.whole, schedule)
    options: dict[str, Any] = dict(job.options)
    if job.steps_inside:
        options["optimizer"] = optimizer_of
    if job.has_ties:
        own = Model(job, is_tied=False)
        stages = split_sequential(own.whole, schedule)
        last = max(s.stage for w in range(schedule.workers) for s in schedule.stages(w))
        end = schedule.blocks - 1
        options["tied"] = [[(0, "0.0.table"), (last, f"{end}.{end}.table")]]
    runtime = PipelineRuntime(schedule, stages, loss_of, group, timeout=60, **options)
    blocks = stage_blocks(job, rank, stages)
    outside = optimizer_of(list({id(p): p for _, b in blocks for p in b.parameters()}.values()))
    worst = Result()
    torch.manual_seed(99)
    for step in range(STEPS):
        inputs, targets = batch_of(job.model, step, schedule.microbatches, job.is_uneven)
        wanted = reference.train(inputs, targets)
        with runtime.record() as events:
            loss = runtime.step(inputs, targets)
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
            0.0 if p.grad is None else p.grad.sum().item()
            for _, b in blocks
            for p in b.parameters()
        ]
        runtime.zero_grad()
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


def train_each(
    folder: Path, jobs: list[Any], world: int, rank: int, run: Callable[[Any, Any], Any]
) -> None:
    """Runs the jobs that this rank takes part in, each over a group of its ranks."""
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
            results[job.name] = run(job, groups[job.ranks])
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


def train(folder: Path, jobs: list[Job], world: int, rank: int) -> None:
    def run_or_count(job: Job, group: dist.ProcessGroup) -> Result:
        return count(job, group) if job.model == "marked" else run(job, group)

    train_each(folder, jobs, world, rank, run_or_count)


Work = Callable[[Path, list[Any], int, int], None]
"""The work of a rank, with the folder, the jobs, the number of ranks, and its number."""


def rank_process(work: Work, folder: Path, jobs: list[Any], world: int, rank: int) -> None:
    with open(folder / f"{rank}.err", "wb") as errors:
        os.dup2(errors.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    try:
        work(folder, jobs, world, rank)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def main(work: Work, folder: Path, seconds: float) -> int:
    """Runs the jobs of a folder in as many processes as they need."""
    jobs: list[Any] = pickle.loads((folder / "jobs.pickle").read_bytes())
    world = max(job.ranks for job in jobs)
    torch.set_num_threads(1)
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
    sys.exit(main(train, Path(sys.argv[1]), float(sys.argv[2])))

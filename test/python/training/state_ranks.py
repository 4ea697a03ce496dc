"""Saves and loads the state of pipelines on gloo; `runtime_runs.run` starts it.

usage: state_ranks.py FOLDER SECONDS

Every job trains with one placement, saves, loads into another placement that starts with other
values, and trains on, alongside a model without a pipeline that does not stop.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from compose_ranks import composed, whole
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_models import batch_of, block_of, loss_of
from runtime_ranks import LIMIT, difference, main
from state_runs import Part, Saved
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh

STEPS = 2
COUNT = 4
BLOCKS = 4
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def adam(parameters: Any) -> torch.optim.Optimizer:
    """In two groups of different options."""
    given = list(parameters)
    small = [p for p in given if p.dim() < 2]
    large = [p for p in given if p.dim() >= 2]
    groups = [{"params": large, "weight_decay": 0.1}, {"params": small, "lr": 0.02}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=0.01)


def model_of(name: str, seed: int = 0) -> nn.Sequential:
    """The blocks of a model; another seed gives other values."""
    model = nn.Sequential(*(block_of(name, i, BLOCKS) for i in range(BLOCKS)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(seed)
    return model


class Alone:
    """The model without a pipeline."""

    def __init__(self, job: Saved, seed: int = 0) -> None:
        self.job = job
        self.model = model_of(job.model, seed)
        self.optimizer = adam(self.model.parameters())

    def train(self, begin: int) -> None:
        pipelines = self.job.pipelines
        for step in range(begin, begin + STEPS):
            for pipeline in range(pipelines):
                for x, y in zip(*batch_of(self.job.model, step, COUNT, False), strict=True):
                    loss = loss_of(self.model(shifted(x, pipeline)), y)
                    torch.autograd.backward(loss / COUNT / pipelines)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def save(self, folder: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": get_optimizer_state_dict(self.model, self.optimizer, options=FLAT),
        }
        state_dict_saver.save(state, checkpoint_id=folder, no_dist=True)

    def load(self, folder: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": get_optimizer_state_dict(self.model, self.optimizer, options=FLAT),
        }
        state_dict_loader.load(state, checkpoint_id=folder, no_dist=True)
        self.model.load_state_dict(state["model"])
        set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"], options=FLAT)


def shifted(x: Any, pipeline: int) -> Any:
    """The batch of a pipeline."""
    return x + pipeline if isinstance(x, torch.Tensor) else x


class Placed:
    """The model in pipelines, on the ranks that they take."""

    def __init__(self, part: Part, job: Saved, seed: int) -> None:
        schedule = part.schedule
        pipelines = job.pipelines if part.how else 1
        ranks = list(range(pipelines * schedule.workers))
        self.part, self.job = part, job
        if part.how:
            mesh = init_device_mesh("cpu", (pipelines, schedule.workers), mesh_dim_names=NAMES)
            self.group = mesh["pp"].get_group()
        else:
            self.group = dist.new_group(ranks)
        self.is_in = dist.get_rank() in ranks
        if not self.is_in:
            return
        self.rank = dist.get_rank(self.group)
        self.pipeline = dist.get_rank() // schedule.workers
        self.model = model_of(job.model, seed)
        stages: Any = split_sequential(self.model, schedule, sizes=part.sizes)
        options: dict[str, Any] = {"timeout": 60}
        if part.how:
            options["data_parallel"] = mesh["dp"] if part.how == "plain" else None
            stages = composed(part, stages, mesh)
        if part.steps_inside:
            options["optimizer"] = adam
        kept = {(s.path, s.stage): stages(s.path, s.stage) for s in schedule.stages(self.rank)}
        self.runtime = PipelineRuntime(schedule, kept, loss_of, self.group, **options)
        modules = [getattr(stage, "module", stage) for stage in kept.values()]
        mine = {id(p): p for module in modules for p in module.parameters()}
        self.optimizer = None if part.steps_inside else adam(mine.values())

    def train(self, begin: int) -> None:
        for step in range(begin, begin + STEPS if self.is_in else begin):
            inputs, targets = batch_of(self.job.model, step, COUNT, False)
            inputs = [shifted(x, self.pipeline if self.part.how else 0) for x in inputs]
            self.runtime.step(inputs, targets)
            if self.optimizer is not None:
                self.optimizer.step()
            self.runtime.zero_grad()

    def differences(self, reference: Alone) -> list[float]:
        if not self.is_in:
            return []
        wanted = reference.model.state_dict()
        found = {name: whole(value) for name, value in self.runtime.state_dict().items()}
        return [difference(value, wanted[name]) for name, value in found.items()]


NAMES = ("dp", "pp")


@contextmanager
def only(is_in: bool) -> Iterator[bool]:
    """A part that only some ranks take, which the others wait for."""
    yield is_in
    dist.barrier()


def pass_on(job: Saved, first: Placed | Alone, second: Placed | Alone, folder: Path) -> None:
    """Gives the state of one to the other, by files or by hand."""
    if job.by_hand:
        hand_over(first, second)
        return
    with only(isinstance(first, Alone) or first.is_in) as is_in:
        if isinstance(first, Alone):
            if dist.get_rank() == 0:
                first.save(folder)
        elif is_in:
            first.runtime.save(folder, first.optimizer)
    with only(isinstance(second, Alone) or second.is_in) as is_in:
        if isinstance(second, Alone):
            second.load(folder)
        elif is_in:
            second.runtime.load(folder, second.optimizer)


def hand_over(first: Placed | Alone, second: Placed | Alone) -> None:
    """Without files: the states of all ranks are put together."""
    if isinstance(first, Alone):
        model = first.model.state_dict()
        optimizer = get_optimizer_state_dict(first.model, first.optimizer, options=FLAT)
    else:
        mine: Any = ({}, {})
        if first.is_in:
            runtime = first.runtime
            mine = (runtime.state_dict(), runtime.optimizer_state_dict(first.optimizer))
            mine = tuple({name: whole(value) for name, value in s.items()} for s in mine)
        everything: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everything, mine)
        model = {name: value for one, _ in everything for name, value in one.items()}
        optimizer = {name: value for _, one in everything for name, value in one.items()}
    if isinstance(second, Alone):
        second.model.load_state_dict(model)
        set_optimizer_state_dict(second.model, second.optimizer, optimizer, options=FLAT)
    elif second.is_in:
        second.runtime.load_state_dict(model)
        second.runtime.load_optimizer_state_dict(optimizer, second.optimizer)


def made(part: Part | None, job: Saved, seed: int) -> Placed | Alone:
    return Alone(job, seed) if part is None else Placed(part, job, seed)


def run(job: Saved, folder: Path) -> list[float]:
    """The differences from the model that never stopped."""
    reference = Alone(job)
    first = made(job.first, job, 0)
    for each in (reference, first):
        each.train(0)
    second = made(job.second, job, 1)
    pass_on(job, first, second, folder)
    for each in (reference, second):
        each.train(STEPS)
    found = []
    for placed in (first, second):
        if isinstance(placed, Placed) and placed.is_in:
            found += placed.differences(reference) if placed is second else []
            placed.runtime.close()
    if isinstance(second, Alone):
        pairs = zip(second.model.parameters(), reference.model.parameters(), strict=True)
        found += [difference(one.detach(), other.detach()) for one, other in pairs]
    return found


def train(
    run: Callable[[Any, Path], Any], folder: Path, jobs: list[Any], world: int, rank: int
) -> None:
    """Runs each job of a rank with a folder for its checkpoint, and writes its result."""
    meeting = f"file://{folder}/store"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=world, timeout=LIMIT)
    results = {}
    for number, job in enumerate(jobs):
        print("job", job.name, file=sys.stderr, flush=True)
        results[job.name] = run(job, folder / f"checkpoint{number}")
        dist.barrier()
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main(partial(train, run), Path(sys.argv[1]), float(sys.argv[2])))

"""Saves and loads the state of models whose head is in shards; `runtime_runs.run` starts it.

usage: shard_state_ranks.py FOLDER SECONDS

Every job trains with one placement, saves, loads into another one that starts with other values,
and trains on, alongside a model without a pipeline that does not stop.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime, split_sequential
from pipesched.torch.vocab_parallel.embedding import looks_up
from pipesched.torch.vocab_parallel.head import spreads
from pipesched.torch.vocabulary import take_head, take_vocabulary
from runtime_ranks import difference, main
from shard_ranks import SAMPLES, TOKENS, ShardJob, loss_of, model_of
from state_ranks import FLAT, adam, train
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

STEPS, BLOCKS, COUNT = 2, 4, 4


@dataclass(frozen=True)
class Placing:
    """A schedule, in which the ranks divide the head if it has S and T cells."""

    schedule: Schedule
    sizes: tuple[int, ...] | None = None
    steps_inside: bool = False
    pipelines: int = 1

    @property
    def ranks(self) -> int:
        return self.schedule.workers * self.pipelines


@dataclass(frozen=True)
class Saved:
    """Steps with one placement and more with another; None means the unpipelined model."""

    name: str
    first: Placing | None
    second: Placing | None
    kind: str = "plain"
    """plain, tied (to the embedding), biased: as in ShardJob."""
    entries: int = 27
    by_hand: bool = False
    ranks: int = 4


def whole(job: Saved, seed: int) -> nn.Sequential:
    given: Any = type("Blocks", (), {"blocks": BLOCKS})
    model = model_of(ShardJob(job.name, given, job.entries, job.kind))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * seed)
    return model


def batch(job: Saved, step: int) -> Any:
    chance = torch.Generator().manual_seed(step)
    shape = 2, COUNT * SAMPLES, TOKENS
    return torch.randint(job.entries, shape, generator=chance).unbind(0)


class Alone:
    """The model without a pipeline."""

    def __init__(self, job: Saved, seed: int) -> None:
        self.job, self.model = job, whole(job, seed)
        self.optimizer = adam(self.model.parameters())

    def train(self, begin: int) -> None:
        loss = loss_of(ShardJob("", None))  # type: ignore[arg-type]
        for step in range(begin, begin + STEPS):
            inputs, targets = batch(self.job, step)
            for x, y in zip(inputs.chunk(COUNT), targets.chunk(COUNT), strict=True):
                torch.autograd.backward(loss(self.model(x), y) / COUNT)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def states(self) -> tuple[dict[str, Any], dict[str, Any]]:
        optimizer = get_optimizer_state_dict(self.model, self.optimizer, options=FLAT)
        return self.model.state_dict(), dict(optimizer)

    def take(self, model: dict[str, Any], optimizer: dict[str, Any]) -> None:
        self.model.load_state_dict(model)
        set_optimizer_state_dict(self.model, self.optimizer, optimizer, options=FLAT)

    def save(self, folder: Path) -> None:
        model, optimizer = self.states()
        state = {"model": model, "optimizer": optimizer}
        if dist.get_rank() == 0:
            state_dict_saver.save(state, checkpoint_id=folder, no_dist=True)

    def load(self, folder: Path) -> None:
        model, optimizer = self.states()
        state = {"model": model, "optimizer": optimizer}
        state_dict_loader.load(state, checkpoint_id=folder, no_dist=True)
        self.take(model, optimizer)


class Placed:
    """The model in a pipeline, or in several side by side."""

    def __init__(self, placing: Placing, job: Saved, seed: int) -> None:
        self.placing, self.job = placing, job
        schedule = placing.schedule
        size, count = schedule.workers, placing.pipelines
        rows = [dist.new_group([p * size + r for r in range(size)]) for p in range(count)]
        columns = [dist.new_group([p * size + r for p in range(count)]) for r in range(size)]
        self.is_in = dist.get_rank() < placing.ranks
        if not self.is_in:
            return
        number, rank = divmod(dist.get_rank(), size)
        model = whole(job, seed)
        options: dict[str, Any] = {"timeout": 60}
        if count > 1:
            options["data_parallel"] = columns[rank]
        if looks_up(schedule):
            head, embedding = take_vocabulary(model, rows[number])
            options |= {"vocabulary": head, "embedding": embedding}
        elif spreads(schedule):
            options["vocabulary"] = take_head(model, rows[number])
        stages = split_sequential(model, schedule, sizes=placing.sizes)
        if placing.steps_inside:
            options["optimizer"] = adam
        loss = loss_of(ShardJob("", schedule))
        self.runtime = PipelineRuntime(schedule, stages, loss, rows[number], **options)
        self.optimizer = None if placing.steps_inside else adam(self.runtime.parameters())

    def train(self, begin: int) -> None:
        for step in range(begin, begin + STEPS if self.is_in else begin):
            self.runtime.step(*batch(self.job, step))
            if self.optimizer is not None:
                self.optimizer.step()
            self.runtime.zero_grad()

    def states(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if not self.is_in:
            return {}, {}
        return self.runtime.state_dict(), self.runtime.optimizer_state_dict(self.optimizer)

    def take(self, model: dict[str, Any], optimizer: dict[str, Any]) -> None:
        if self.is_in:
            self.runtime.load_state_dict(model)
            self.runtime.load_optimizer_state_dict(optimizer, self.optimizer)

    def save(self, folder: Path) -> None:
        group = dist.new_group(list(range(self.placing.ranks)))
        if self.is_in:
            self.runtime.save(folder, self.optimizer, group)

    def load(self, folder: Path) -> None:
        group = dist.new_group(list(range(self.placing.ranks)))
        if self.is_in:
            self.runtime.load(folder, self.optimizer, group)


def together(each: Placed | Alone) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of all ranks; each name comes from one of them, unless it is tied."""
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, each.states())
    model = {name: value for one, _ in everything for name, value in one.items()}
    return model, {name: value for _, one in everything for name, value in one.items()}


def made(placing: Placing | None, job: Saved, seed: int) -> Placed | Alone:
    return Alone(job, seed) if placing is None else Placed(placing, job, seed)


def run(job: Saved, folder: Path) -> list[float]:
    """The differences from the model that never stopped, and from the size of its vocabulary."""
    reference, first, second = Alone(job, 0), made(job.first, job, 0), made(job.second, job, 1)
    for each in (reference, first):
        each.train(0)
    if job.by_hand:
        second.take(*together(first))
    else:
        first.save(folder)
        dist.barrier()
        stored = FileSystemReader(folder).read_metadata().state_dict_metadata
        shards: list[Any] = [
            each for name, each in stored.items() if "scores" in name or "0.0.weight" in name
        ]
        sizes = [each.size for each in shards if hasattr(each, "size")]
        assert {size[0] for size in sizes if len(size)} == {job.entries}
        second.load(folder)
    for each in (reference, second):
        each.train(STEPS)
    found, wanted = together(second)[0], reference.model.state_dict()
    assert found.keys() == wanted.keys()
    for each in (first, second):
        if isinstance(each, Placed) and each.is_in:
            each.runtime.close()
    return [difference(value, wanted[name]) for name, value in found.items()]


if __name__ == "__main__":
    sys.exit(main(partial(train, run), Path(sys.argv[1]), float(sys.argv[2])))

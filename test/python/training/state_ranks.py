"""Saves and loads the state of pipelines on gloo; `runtime_runs.run` starts it.

Every job trains with one placement, saves, loads into another placement that starts with other
values, and trains on, alongside a model without a pipeline that does not stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime, split_sequential
from pipesched.torch.vocab_parallel.embedding import looks_up
from pipesched.torch.vocab_parallel.head import spreads
from pipesched.torch.vocabulary import take_head, take_vocabulary
from runtime_models import batch_of, block_of, loss_of
from runtime_ranks import composed, difference, whole
from shard_ranks import SAMPLES, TOKENS, ShardJob
from shard_ranks import loss_of as loss_of_tokens
from shard_ranks import model_of as language_model
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh

STEPS, COUNT, BLOCKS, RANKS = 2, 4, 4, 4
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
States = tuple[dict[str, Any], dict[str, Any]]
"""Of the model, and of its optimizer."""


@dataclass(frozen=True)
class Part:
    """A placement, in which the ranks divide the head if the schedule has S and T cells."""

    schedule: Schedule
    sizes: tuple[int, ...] | None = None
    steps_inside: bool = False
    how: str = ""
    """How two pipelines are put together, as in `runtime_runs.Job`; empty for a single one."""

    @property
    def pipelines(self) -> int:
        return 2 if self.how else 1


@dataclass(frozen=True)
class Saved:
    """Two steps with one placement and two more with another; None means the unpipelined model."""

    name: str
    first: Part | None
    second: Part | None
    model: str = "plain"
    """As in `runtime_models`, or with a vocabulary as in `ShardJob`."""
    by_hand: bool = False
    """Whether states are put together by hand, without files."""
    pipelines: int = 1
    """The number of batches of a step, of which each pipeline takes one."""
    entries: int = 0
    """The size of the vocabulary, if there is one."""
    ranks: int = RANKS


def adam(parameters: Any) -> torch.optim.Optimizer:
    """In two groups of different options."""
    given = list(parameters)
    small = [p for p in given if p.dim() < 2]
    large = [p for p in given if p.dim() >= 2]
    groups = [{"params": large, "weight_decay": 0.1}, {"params": small, "lr": 0.02}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=0.01)


def model_of(job: Saved, seed: int) -> nn.Sequential:
    """The blocks of a model; another seed gives other values."""
    if job.entries:
        given: Any = type("Blocks", (), {"blocks": BLOCKS})
        model = language_model(ShardJob(job.name, given, job.entries, job.model))
    else:
        model = nn.Sequential(*(block_of(job.model, i, BLOCKS) for i in range(BLOCKS)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * seed if job.entries else seed)
    return model


def loss_for(job: Saved) -> Any:
    return loss_of_tokens(ShardJob("", None)) if job.entries else loss_of  # type: ignore[arg-type]


def batch(job: Saved, step: int, pipeline: int) -> tuple[list[Any], list[Any]]:
    """The microbatches of a pipeline, and their targets."""
    if not job.entries:
        inputs, targets = batch_of(job.model, step, COUNT, False)
        return [x + pipeline if isinstance(x, torch.Tensor) else x for x in inputs], targets
    chance = torch.Generator().manual_seed(step)
    shape = 2, COUNT, SAMPLES, TOKENS
    words, following = torch.randint(job.entries, shape, generator=chance)
    return list(words), list(following)


class Alone:
    """The model without a pipeline."""

    is_in = True

    def __init__(self, job: Saved, seed: int = 0) -> None:
        self.job, self.model = job, model_of(job, seed)
        self.optimizer = adam(self.model.parameters())

    def train(self, begin: int) -> None:
        loss, pipelines = loss_for(self.job), self.job.pipelines
        for step in range(begin, begin + STEPS):
            for pipeline in range(pipelines):
                for x, y in zip(*batch(self.job, step, pipeline), strict=True):
                    torch.autograd.backward(loss(self.model(x), y) / COUNT / pipelines)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def states(self) -> States:
        optimizer = get_optimizer_state_dict(self.model, self.optimizer, options=FLAT)
        return self.model.state_dict(), dict(optimizer)

    def take(self, model: dict[str, Any], optimizer: dict[str, Any]) -> None:
        self.model.load_state_dict(model)
        set_optimizer_state_dict(self.model, self.optimizer, optimizer, options=FLAT)

    def save(self, folder: Path) -> None:
        state = dict(zip(("model", "optimizer"), self.states(), strict=True))
        if dist.get_rank() == 0:
            state_dict_saver.save(state, checkpoint_id=folder, no_dist=True)

    def load(self, folder: Path) -> None:
        model, optimizer = self.states()
        state = {"model": model, "optimizer": optimizer}
        state_dict_loader.load(state, checkpoint_id=folder, no_dist=True)
        self.take(model, optimizer)

    def close(self) -> None:
        pass


class Placed:
    """The model in pipelines, on the ranks that they take."""

    def __init__(self, part: Part, job: Saved, seed: int) -> None:
        self.part, self.job, schedule = part, job, part.schedule
        size = schedule.workers
        self.ranks, self.mesh = range(part.pipelines * size), None
        if part.how:
            shape = part.pipelines, size
            self.mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "pp"))
            group = self.mesh["pp"].get_group()
        else:
            group = dist.new_group(list(self.ranks))
        self.is_in = dist.get_rank() in self.ranks
        if not self.is_in:
            return
        self.pipeline, rank = divmod(dist.get_rank(), size)
        model, options = model_of(job, seed), self._options()
        if looks_up(schedule):
            head, embedding = take_vocabulary(model, group)
            options |= {"vocabulary": head, "embedding": embedding}
        elif spreads(schedule):
            options["vocabulary"] = take_head(model, group)
        stages: Any = split_sequential(model, schedule, sizes=part.sizes)
        if self.mesh is not None:
            stages = composed(part.how, stages, self.mesh)
        kept = {(s.path, s.stage): stages(s.path, s.stage) for s in schedule.stages(rank)}
        self.runtime = PipelineRuntime(schedule, kept, loss_for(job), group, **options)
        self.optimizer = None if part.steps_inside else adam(self.runtime.parameters())

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"timeout": 60}
        if self.mesh is not None and self.part.how == "plain":
            options["data_parallel"] = self.mesh["dp"]
        if self.part.steps_inside:
            options["optimizer"] = adam
        return options

    def train(self, begin: int) -> None:
        for step in range(begin, begin + STEPS if self.is_in else begin):
            self.runtime.step(*batch(self.job, step, self.pipeline))
            if self.optimizer is not None:
                self.optimizer.step()
            self.runtime.zero_grad()

    def states(self) -> States:
        if not self.is_in:
            return {}, {}
        model, optimizer = self.runtime.state_dict(), self.optimizer
        states = self.runtime.optimizer_state_dict(optimizer)
        return {n: whole(v) for n, v in model.items()}, {n: whole(v) for n, v in states.items()}

    def take(self, model: dict[str, Any], optimizer: dict[str, Any]) -> None:
        if self.is_in:
            self.runtime.load_state_dict(model)
            self.runtime.load_optimizer_state_dict(optimizer, self.optimizer)

    def _group(self) -> dist.ProcessGroup | None:
        """A group for files, which is needed if other ranks do not take part."""
        return dist.new_group(list(self.ranks)) if self.job.entries else None

    def save(self, folder: Path) -> None:
        group = self._group()
        if self.is_in:
            self.runtime.save(folder, self.optimizer, group)

    def load(self, folder: Path) -> None:
        group = self._group()
        if self.is_in:
            self.runtime.load(folder, self.optimizer, group)

    def close(self) -> None:
        if self.is_in:
            self.runtime.close()


def of_all_ranks(each: Placed | Alone) -> list[States]:
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, each.states())
    return everything


def together(each: Placed | Alone) -> States:
    """The states of all ranks as one."""
    model: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    for own, its in of_all_ranks(each):
        model |= own
        optimizer |= its
    return model, optimizer


def check_sizes(folder: Path, entries: int) -> None:
    """The file has whole heads and embeddings."""
    stored = FileSystemReader(folder).read_metadata().state_dict_metadata
    shards: list[Any] = [
        each for name, each in stored.items() if "scores" in name or "0.0.weight" in name
    ]
    sizes = [each.size for each in shards if hasattr(each, "size")]
    assert {size[0] for size in sizes if len(size)} == {entries}


def run_job(job: Saved, _: dist.ProcessGroup, folder: Path) -> list[float]:
    """The differences from the model that never stopped."""
    folder /= f"checkpoint {job.name}"
    reference = Alone(job)
    first, second = (
        Alone(job, seed) if part is None else Placed(part, job, seed)
        for seed, part in enumerate((job.first, job.second))
    )
    reference.train(0)
    first.train(0)
    if job.by_hand:
        second.take(*together(first))
    else:
        first.save(folder)
        dist.barrier()
        if job.entries:
            check_sizes(folder, job.entries)
        second.load(folder)
    reference.train(STEPS)
    second.train(STEPS)
    found, wanted = [model for model, _ in of_all_ranks(second)], reference.model.state_dict()
    assert {name for model in found for name in model} == wanted.keys()
    first.close()
    second.close()
    dist.barrier()
    return [difference(v, wanted[name]) for model in found for name, v in model.items()]

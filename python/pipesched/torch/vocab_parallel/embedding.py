"""The shard of an embedding that a rank runs between its other cells (vocabulary parallelism).

E, V and their collectives A and C (`vocabulary.py`) of one microbatch may be far from each other in
the row, so the values between them are kept here, by microbatch:

    parts       E to A: the rows that the shard looks up, zeros for all other tokens
    sums        A to F, on the rank of the first stage: the output of the embedding
    leaving     B or I to C, on that rank: the gradient of that output
    gradients   C to V: the same on all ranks

Both kinds of collectives have a separate process group, in which collectives follow each other
as in the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pipesched import Cell, Instruction, Schedule

from ..autograd.activation import Inputs
from ..core.batch import Batch, Mode
from ..core.errors import PipelineError
from ..core.program import OF_EMBEDDING
from ..core.values import Packet, flatten, tensors_in
from ..core.watch import Watch
from ..partition.placement import Placement, show
from ..vocabulary import VocabularyEmbedding, VocabularyHead

GROUPS = ("lookups", "input gradients")
"""The process groups of A and C."""


def looks_up(schedule: Schedule) -> bool:
    """Returns whether a schedule spreads an embedding over its workers."""
    return any(group.kind in OF_EMBEDDING for group in schedule.groups)


def check_embedding(
    embedding: object, head: VocabularyHead | None, schedule: Schedule, rank: int
) -> VocabularyEmbedding | None:
    """Returns the embedding, if the schedule and the caller agree that there is one."""
    if not looks_up(schedule):
        if embedding is not None:
            raise PipelineError(
                "`embedding` is given, but the schedule has no E and V cells: take a family with "
                "embedding=True, or add them with "
                "transform('pipe-spread-vocabulary{embedding=true}')"
            )
        return None
    if embedding is None:
        raise PipelineError(
            "the schedule has E and V cells, which need the shard of the embedding of this rank: "
            "give `embedding`, for example from `pipesched.torch.vocabulary.take_vocabulary(model)`"
        )
    if not isinstance(embedding, VocabularyEmbedding):
        found = type(embedding).__name__
        raise PipelineError(f"`embedding` is a {found}; wanted a VocabularyEmbedding")
    if head is None:
        raise PipelineError(
            "the schedule has E and V cells and no S and T: this runtime runs an embedding in "
            "shards beside a head in shards alone"
        )
    if embedding.vocabulary != head.vocabulary or embedding.rows != head.rows:
        raise PipelineError(
            f"`embedding` has entries {embedding.rows.start} to {embedding.rows.stop} of "
            f"{embedding.vocabulary}, and `vocabulary` {head.rows.start} to {head.rows.stop} of "
            f"{head.vocabulary}, on rank {rank}; both have the same shards"
        )
    if head.whole is not None and embedding.weight is not head.weight:
        raise PipelineError(
            "the head is tied to a whole embedding, and `embedding` is another shard: take both "
            "with `pipesched.torch.vocabulary.take_vocabulary(model)`"
        )
    for group in schedule.groups:
        if group.kind in OF_EMBEDDING and set(group.workers) != set(range(schedule.workers)):
            raise PipelineError(
                f"a {group.kind} of the schedule is over workers {sorted(group.workers)} of "
                f"{schedule.workers}; an embedding in shards is divided among all of them"
            )
    return embedding


class Lookups:
    """The shard of one rank, through all steps."""

    def __init__(
        self,
        embedding: VocabularyEmbedding,
        placement: Placement,
        groups: tuple[Any, Any],
        watch: Watch,
        device: torch.device,
    ) -> None:
        self.embedding, self._watch, self._device = embedding, watch, device
        self._rank = watch.rank
        self._sums_over, self._gradients_over = groups
        self._sources = {path: placement.find_worker(path, 0) for path in placement.last}
        """By path: the rank of its first stage."""
        self._clear()

    def _clear(self) -> None:
        self._parts: dict[int, Tensor] = {}
        self._sums: dict[int, Tensor] = {}
        self._leaving: dict[int, Tensor] = {}
        self._gradients: dict[int, Tensor] = {}
        self._works: dict[int, tuple[Instruction, Tensor, Any]] = {}

    # A step

    def begin(self, batch: Batch) -> None:
        """Starts a step, or an evaluation."""
        self._clear()
        if batch.inputs is None:
            raise PipelineError(
                "this rank has a shard of the embedding, and needs `inputs`, as all ranks do"
            )
        self._tokens = [self._of(value, number) for number, value in enumerate(batch.inputs)]
        if self._device.type == "cpu":
            for number, tokens in enumerate(self._tokens):
                self.embedding.check_tokens(tokens, f" of microbatch {number}")
        else:  # waits for the device once
            joined = torch.cat([tokens.flatten() for tokens in self._tokens])
            self.embedding.check_tokens(joined, " of the batch")

    def _of(self, value: Any, number: int) -> Tensor:
        """Returns the tensor of a microbatch that has the numbers of entries."""
        found = [t for t in tensors_in(value) if t.dtype in (torch.long, torch.int32)]
        if len(found) != 1:
            raise PipelineError(
                f"the input of microbatch {number} has {len(found)} tensors of whole numbers; an "
                "embedding in shards wants one, the numbers of the entries to look up"
            )
        return found[0].detach().to(self._device)

    def tokens_of(self, cell: Cell) -> Tensor:
        """Returns the numbers of a microbatch, which all ranks have."""
        return self._tokens[cell.microbatch]

    # The first stage

    def inputs(self, cell: Cell, found: list[Tensor], mode: Mode, has_edges: bool) -> Inputs:
        """Returns the input of a first stage: the batch's, and the output of the embedding."""
        number = cell.microbatch
        if number not in self._sums:
            raise PipelineError(f"the program of this rank runs {cell} before A")
        output = self._sums.pop(number).view(*self._tokens[number].shape, -1)
        wants = [False] * len(found) + [self.embedding.weight.requires_grad]
        structure = flatten(None)[1]
        return Inputs.of(Packet([*found, output], wants, structure), mode == "train", has_edges)

    @contextmanager
    def enter_stage(self, cell: Cell, inputs: Inputs) -> Iterator[None]:
        """Gives the model the output of the embedding for an F or R, which must read it."""
        entrance = self.embedding.entrance
        if entrance is None:
            raise PipelineError(
                "`embedding` does not know where it was in the model: take it with "
                "`pipesched.torch.vocabulary.take_vocabulary(model)`, or set its `entrance` to the "
                "EmbeddingOutput that stands in the first stage"
            )
        entrance.give(inputs.tensors[-1], self._tokens[cell.microbatch])
        yield
        if not entrance.is_used():
            raise PipelineError(
                f"{show((cell.path, cell.stage))} does not use the embedding that is in shards: "
                "the first stage must look up the numbers of its input"
            )

    def leave(self, cell: Cell, found: list[Any]) -> None:
        """Takes the gradient of the output of the embedding."""
        tokens, weight = self._tokens[cell.microbatch], self.embedding.weight
        shape = tokens.numel(), weight.shape[1]
        gradient = found[-1] if found else None
        if gradient is None:
            gradient = weight.new_zeros(shape, requires_grad=False)
        sent = gradient.detach().reshape(shape).to(weight.dtype).contiguous()
        self._leaving[cell.microbatch] = sent

    # Cells

    def compute(self, cell: Cell) -> None:
        """Runs E or V."""
        number = cell.microbatch
        tokens = self._tokens[number].flatten()
        if cell.phase == "E":
            self._parts[number] = self.embedding.part(tokens)
        else:
            gradient = self._gradients.pop(number)
            with torch.autocast(self._device.type, enabled=False):
                self.embedding.backward(tokens, gradient)

    # Collectives

    def start(self, instruction: Instruction) -> None:
        """Starts A or C."""
        cell = instruction.cell
        number, source = cell.microbatch, self._sources[cell.path]
        if instruction.kind == "reduce_lookups":
            tensor = self._parts.pop(number)
            reduction = dist.ReduceOptions()
            reduction.rootRank = source
            call: Callable[[], Any] = partial(self._sums_over.reduce, [tensor], reduction)
        else:
            if self._rank == source:
                tensor = self._leaving.pop(number)
            else:
                weight, count = self.embedding.weight, self._tokens[number].numel()
                tensor = weight.new_empty((count, weight.shape[1]), requires_grad=False)
            options = dist.BroadcastOptions()
            options.rootRank = source
            call = partial(self._gradients_over.broadcast, [tensor], options)
        work = self._watch.start_call(call, lambda: str(instruction))
        self._works[instruction.index] = instruction, tensor, work

    def finish(self, index: int) -> bool:
        """Ends A or C; returns whether it was in progress."""
        if index not in self._works:
            return False
        instruction, tensor, work = self._works.pop(index)
        self._watch.wait_for(tensor, work, lambda: str(instruction))
        cell = instruction.cell
        if instruction.kind == "broadcast_gradient":
            self._gradients[cell.microbatch] = tensor
        elif self._sources[cell.path] == self._rank:
            self._sums[cell.microbatch] = tensor
        return True

    def finish_all(self) -> list[int]:
        """Ends everything in progress; returns the indices."""
        return [index for index in list(self._works) if self.finish(index)]

    def tensors(self) -> list[Tensor]:
        under_way = [tensor for _, tensor, _ in self._works.values()]
        kept = (self._parts, self._sums, self._leaving, self._gradients)
        return [*under_way, *(tensor for each in kept for tensor in each.values())]

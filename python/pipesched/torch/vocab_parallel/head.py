"""The shard of a head that a rank runs between its other cells (vocabulary parallelism).

S, T and their collectives X, Y and Z (`vocabulary.py`) of one microbatch may be far from each other
in the row, so the values between them are kept here, by microbatch:

    entering    X: the input of the head; on the rank of the last stage its output
    logits      S to T: the logits of the shard
    coming      Y: the numbers of all shards, on their way
    jobs        Y of Vocab-2: the work of another thread
    sums        Z, and with Vocab-2 Y: the gradient of the input, which is summed over the shards

Each kind of collective has a separate process group, in which collectives follow each other as in
the row. Y of Vocab-2 is two of them, since the gradient can be summed when the numbers are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

from pipesched import Cell, Instruction, Schedule

from ..core.batch import Batch
from ..core.errors import PipelineError
from ..core.groups import own_gloo
from ..core.program import OF_EMBEDDING, OF_HEAD
from ..core.values import map_tensors
from ..core.watch import Job, Lane, Watch
from ..grad_sync.reduce import clear_gradients
from ..partition.placement import Placement, show
from ..vocabulary import Logits, VocabularyEmbedding, VocabularyHead, head_rows
from .embedding import GROUPS, Lookups

FORWARD = frozenset("FXSYEA")
"""The phases that an evaluation runs."""
PROBED, PROBES = 64, 64
"""The number of targets with which a loss is tried at a time, and the most tries."""
NEAR = 1e-3
"""How near to the cross-entropy, relative to its size, a loss must be."""


def spreads(schedule: Schedule) -> bool:
    """Returns whether a schedule spreads a vocabulary over its workers."""
    return any(group.kind in OF_HEAD for group in schedule.groups)


def check_head(head: object, schedule: Schedule, rank: int) -> VocabularyHead | None:
    """Returns the head, if the schedule and the caller agree that there is one."""
    if not spreads(schedule):
        if head is not None:
            raise PipelineError(
                "`vocabulary` is given, but the schedule has no S and T cells: take one of a "
                "family that spreads it, or add them with transform('pipe-spread-vocabulary')"
            )
        return None
    if head is None:
        raise PipelineError(
            "the schedule has S and T cells, which need the shard of the head of this rank: give "
            "`vocabulary`, for example from `pipesched.torch.vocabulary.take_head(model)`"
        )
    if not isinstance(head, VocabularyHead):
        raise PipelineError(f"`vocabulary` is a {type(head).__name__}; wanted a VocabularyHead")
    ranks = schedule.workers
    wanted = head_rows(head.vocabulary, rank, ranks)
    if head.rows != wanted:
        raise PipelineError(
            f"`vocabulary` has entries {head.rows.start} to {head.rows.stop}, but rank {rank} of "
            f"{ranks} has entries {wanted.start} to {wanted.stop}; give the shard of this rank"
        )
    for group in schedule.groups:
        if group.kind in OF_HEAD and set(group.workers) != set(range(ranks)):
            raise PipelineError(
                f"a {group.kind} of the schedule is over workers {sorted(group.workers)} of "
                f"{ranks}; a head in shards is divided among all of them"
            )
    return head


class Shards:
    """The shard of one rank, through all steps."""

    def __init__(
        self,
        head: VocabularyHead,
        embedding: VocabularyEmbedding | None,
        schedule: Schedule,
        placement: Placement,
        program: Sequence[Instruction],
        group: dist.ProcessGroup,
        watch: Watch,
        device: torch.device,
        loss: Callable[[Any, Any], Tensor] | None,
    ) -> None:
        self.head, self._watch, self._device, self._loss = head, watch, device, loss
        self._placement, self._program = placement, program
        self._has_checked = False
        """Whether the loss was compared with the cross-entropy."""
        self._is_early = all(group.kind != "reduce" for group in schedule.groups)
        last = placement.last.items()
        self._sources = {path: placement.find_worker(path, stage) for path, stage in last}
        self._ranks, self._rank = schedule.workers, watch.rank
        self._holders = self._find_holders()
        names = ("input", "numbers", "gradient", *(GROUPS if embedding is not None else ()))
        is_gloo = str(dist.get_backend(group)) == "gloo"
        if is_gloo:
            everyone = range(self._ranks)
            made = [own_gloo(everyone, watch, f"vocabulary/{name}") for name in names]
        else:
            ranks = [dist.get_global_rank(group, worker) for worker in range(self._ranks)]
            # All ranks of the pipeline make them, in this order.
            made = [dist.new_group(ranks, use_local_synchronization=True) for _ in names]
        self._inputs, self._numbers, self._gradients = made[:3]
        self.lookups: Lookups | None = None
        if embedding is not None:
            self.lookups = Lookups(embedding, placement, (made[3], made[4]), watch, device)
        self._side: Any = None
        """The stream on which the rest of a Y runs, on an accelerator."""
        self._lane: Lane | None = None
        """The thread that receives. Over NCCL, whose calls do not block, there is none."""
        if self._is_early and device.type == "cuda":
            make: Any = torch.cuda.Stream
            self._side = make(device)
        if self._is_early and (is_gloo or device.type != "cuda"):
            self._lane = watch.lane()
        self._clear()

    def _find_holders(self) -> list[int]:
        """Returns the ranks that hold the parameter to which the head is tied."""
        whole = self.head.whole
        modules = self._placement.modules.values()
        mine = any(p is whole for module in modules for p in module.parameters())
        said = self._watch.meet("the tie of the head", [whole is not None, mine])
        if len({bool(is_tied) for is_tied, _ in said}) > 1:
            raise PipelineError("the head is tied to an embedding on some ranks alone")
        holders = [rank for rank, (_, holds) in enumerate(said) if holds]
        if whole is not None and not holders:
            raise PipelineError(
                "no rank holds the parameter to which the head is tied: take the head out of the "
                "model before it is cut, and let stages keep their parameters"
            )
        return holders

    @property
    def is_tied(self) -> bool:
        return bool(self._holders)

    @property
    def tied_parameters(self) -> list[nn.Parameter]:
        """The tied parameters of this rank: the shard, and the whole weight if it is here."""
        whole = self.head.whole
        if whole is None or not self.is_tied or not whole.requires_grad:
            return []
        return [self.head.weight, *([whole] if self._rank in self._holders else [])]

    def _clear(self) -> None:
        self._entering: dict[int, Tensor] = {}
        self._outputs: dict[int, Tensor] = {}
        self._is_mine: set[int] = set()  # the microbatches whose last stage is here
        self._logits: dict[int, Logits] = {}
        self._coming: dict[int, tuple[Tensor, list[Tensor], Any]] = {}
        self._sums: dict[int, Tensor] = {}
        self._works: dict[int, tuple[Tensor, Any]] = {}
        self._indices: dict[int, Instruction] = {}
        self._jobs: dict[int, tuple[Job, Job]] = {}
        self._sizes: dict[int, tuple[Tensor, Any]] = {}

    # A step

    def begin(self, batch: Batch) -> None:
        """Starts a step, or an evaluation."""
        self._clear()
        if self.lookups is not None:
            self.lookups.begin(batch)
        is_training = batch.mode == "train"
        one = torch.ones((), dtype=torch.float64)
        numbers = range(batch.count if is_training else 0)
        self._scales = [float(batch.scaled(one, number)) for number in numbers]
        """The factor of the gradients of the losses of microbatches."""
        self._batch, self._is_training = batch, is_training
        if batch.targets is None:
            if is_training:
                raise PipelineError(
                    "this rank has a shard of the head, and needs `targets`, as all ranks do"
                )
            return
        place = partial(Tensor.to, device=self._device)
        self._targets = [map_tensors(each, place) for each in batch.targets]
        for number, target in enumerate(self._targets):
            if not isinstance(target, Tensor) or target.dtype != torch.long:
                found = target.dtype if isinstance(target, Tensor) else type(target).__name__
                raise PipelineError(
                    f"the target of microbatch {number} is {found}; a head in shards wants a tensor"
                    " of the numbers of entries (torch.long)"
                )
            if self._device.type == "cpu":
                self.head.check_targets(target, f" of microbatch {number}")
        if self._device.type != "cpu":  # waits for the device once
            joined = torch.cat([target.flatten() for target in self._targets])
            self.head.check_targets(joined, " of the batch")
        if is_training and self.tied_parameters:
            # The sums of earlier steps are in the shards and in the whole: they count once.
            assert self.head.whole is not None
            clear_gradients([self.head.whole])

    def end_step(self) -> None:
        """Ends a step of training: adds up the gradients of the head and of a tied embedding."""
        head, whole = self.head, self.head.whole
        if not self.tied_parameters:
            return
        assert whole is not None
        total = torch.zeros_like(whole, requires_grad=False)
        if head.weight.grad is not None:
            total[head.rows] = head.weight.grad
        if self._rank == self._holders[0] and whole.grad is not None:
            total += whole.grad.to_dense() if whole.grad.is_sparse else whole.grad
        self._watch.wait_for(
            total, self._gradients.allreduce([total]), lambda: "the gradient of the tie"
        )
        for parameter in self.tied_parameters:
            found = total if parameter is whole else total[head.rows]
            if parameter.grad is None or parameter.grad.layout != torch.strided:
                parameter.grad = found.clone()
            else:
                parameter.grad.copy_(found)

    # The last stage

    def enter(self, cell: Cell, output: Any) -> list[Tensor]:
        """Takes the output of the last stage, which is the input of the head."""
        key = cell.path, cell.stage
        width = self.head.weight.shape[1]
        if not isinstance(output, Tensor) or isinstance(output, DTensor):
            raise PipelineError(
                f"{show(key)} gives a {type(output).__name__}; wanted the input of the head in "
                "shards, a tensor"
            )
        if output.shape[-1:] != (width,):
            raise PipelineError(
                f"{show(key)} gives {list(output.shape)}; the head in shards takes [..., {width}]"
            )
        entrance = self.head.entrance
        if entrance is not None:
            seen = entrance.take()
            if seen is not output:
                raise PipelineError(
                    f"{show(key)} computes something with the logits behind the head, or takes "
                    "the head elsewhere; a head in shards must be the end of the model"
                )
        if cell.phase == "F":
            has_targets = self._batch.targets is not None
            if has_targets and output.numel() // width != self._target(cell).numel():
                raise PipelineError(
                    f"{show(key)} gives {list(output.shape)} for targets of "
                    f"{list(self._target(cell).shape)}; wanted a target for each token"
                )
            self._outputs[cell.microbatch] = output.detach()
            self._is_mine.add(cell.microbatch)
            if self._is_training and not self._has_checked:
                self._has_checked = True
                self._check_loss(output)
        return [output] if self._is_training else []

    def _target(self, cell: Cell) -> Tensor:
        found: Tensor = self._targets[cell.microbatch]
        return found

    def _check_loss(self, output: Tensor) -> None:
        """Refuses a loss that is not the mean cross-entropy, tried with all kinds of targets."""
        loss = self._loss
        if loss is None:
            return
        kinds = torch.unique(torch.cat([target.flatten() for target in self._targets])).cpu()
        chance = torch.Generator().manual_seed(1)
        for some in kinds[: PROBED * PROBES].split(PROBED):
            self._try_loss(loss, some, chance, output)

    def _try_loss(
        self,
        loss: Callable[[Any, Any], Tensor],
        kinds: Tensor,
        chance: torch.Generator,
        output: Tensor,
    ) -> None:
        """Tries a loss with some targets."""
        shape = (1, len(kinds)) if output.dim() > 2 else (len(kinds),)
        logits = torch.randn((*shape, self.head.vocabulary), generator=chance, dtype=torch.float64)
        probe = logits.to(self._device, torch.float32).requires_grad_()
        twin = probe.detach().clone().requires_grad_()
        targets = kinds.to(self._device).view(shape)
        plain = torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept)
        with torch.enable_grad(), torch.autocast(self._device.type, enabled=False), plain:
            found = loss(probe, targets)
            wanted = functional.cross_entropy(
                twin.flatten(0, -2), targets.flatten(), ignore_index=self.head.ignored
            )
            if not isinstance(found, Tensor) or found.numel() != 1:
                raise PipelineError(f"the loss of a microbatch is {found!r}; wanted a scalar")
            found.sum().backward()  # type: ignore[no-untyped-call]
            wanted.backward()  # type: ignore[no-untyped-call]
        assert probe.grad is not None and twin.grad is not None
        pairs = (found.detach().reshape(()), wanted.detach()), (probe.grad, twin.grad)
        for one, other in pairs:
            if bool(((one - other).abs().max() > NEAR * other.abs().max()).item()):
                raise PipelineError(
                    "the loss is not the mean cross-entropy of the logits "
                    f"({found.item():g} for a probe, {wanted.item():g} wanted), which is what a "
                    "head in shards computes; give `ignored` to the head if some targets do not "
                    "count"
                )

    def gradient_of(self, cell: Cell) -> Tensor:
        """Returns the gradient of the output of the last stage."""
        output = self._outputs.pop(cell.microbatch)
        if cell.microbatch not in self._sums:
            raise PipelineError(f"the program of this rank runs {cell} before Y and Z")
        found = self._sums.pop(cell.microbatch)
        return found.to(output.dtype).view(output.shape)

    # Cells

    def compute(self, cell: Cell) -> None:
        """Runs S or T, or E or V of the embedding."""
        if cell.phase in "EV" and self.lookups is not None:
            return self.lookups.compute(cell)
        number = cell.microbatch
        if cell.phase == "S":
            entered = self._entering.pop(number)
            if self._batch.targets is None:
                targets = torch.full(entered.shape[:1], self.head.ignored, device=entered.device)
                made = self.head.logits(entered, targets, checked=True)
            else:
                targets = self._target(cell).flatten()
                early = self._is_early and self._is_training
                made = self.head.logits(entered, targets, early=early, checked=True)
            self._logits[number] = made
            return None
        logits = self._logits.pop(number)
        with torch.autocast(self._device.type, enabled=False):
            logits.backward(self._scales[number])
        if not self._is_early:
            self._sums[number] = logits.part

    # Collectives

    def start(self, instruction: Instruction) -> None:
        """Starts X, Y or Z, or A or C of the embedding."""
        if instruction.kind in OF_EMBEDDING and self.lookups is not None:
            return self.lookups.start(instruction)
        cell = instruction.cell
        number = cell.microbatch
        self._indices[instruction.index] = instruction
        if instruction.kind == "broadcast":
            self._broadcast(instruction)
        elif instruction.kind == "combine":
            logits = self._logits[number]
            own = logits.numbers() if self._batch.targets is not None else self._pad(logits)
            shards = [torch.empty_like(own) for _ in range(self._ranks)]
            call = partial(self._numbers.allgather, [shards], [own])
            work = self._watch.start_call(call, lambda: str(instruction))
            self._coming[number] = own, shards, work
            if self._is_early and self._is_training:
                self._begin_early(instruction)
        else:
            found = self._sums[number]
            call = partial(self._gradients.allreduce, [found])
            work = self._watch.start_call(call, lambda: str(instruction))
            self._works[instruction.index] = found, work

    def _pad(self, logits: Logits) -> Tensor:
        """Returns the logits of the shard, as many entries as the largest shard has."""
        most = head_rows(self.head.vocabulary, 0, self._ranks)
        missing = most.stop - most.start - logits.values.shape[1]
        return functional.pad(logits.values, (0, missing))

    def _broadcast(self, instruction: Instruction) -> None:
        """The input of the head travels in 32 bits or more."""
        cell = instruction.cell
        width, source = self.head.weight.shape[1], self._sources[cell.path]
        dtype = torch.promote_types(self.head.weight.dtype, torch.float32)
        if self._rank == source:
            output = self._outputs[cell.microbatch]
            own = output.reshape(-1, width).to(dtype).contiguous()
            rows = len(own)
        else:
            rows = self._rows_of(cell)
            own = torch.empty((max(rows, 0), width), dtype=dtype, device=self._device)
        self._entering[cell.microbatch] = own
        if self._rows_of(cell) < 0:  # other ranks do not know the number of tokens
            size = torch.tensor([rows], device=self._device)
            self._sizes[instruction.index] = size, self._send(self._gradients, size, instruction)
            if len(self._sources) > 1:  # All ranks start in one order, for any source.
                return
        if rows >= 0:
            self._works[instruction.index] = own, self._send(self._inputs, own, instruction)

    def _rows_of(self, cell: Cell) -> int:
        """Returns the number of tokens of a microbatch, -1 if this rank does not know."""
        if self._batch.targets is not None:
            return int(self._target(cell).numel())
        return -1 if self.lookups is None else self.lookups.tokens_of(cell).numel()

    def _send(self, group: Any, tensor: Tensor, instruction: Instruction) -> Any:
        """Starts a broadcast from the rank of the last stage."""
        options = dist.BroadcastOptions()
        options.rootRank = self._sources[instruction.cell.path]
        call = partial(group.broadcast, [tensor], options)
        return self._watch.start_call(call, lambda: str(instruction))

    def _receive_sized(self, index: int) -> None:
        """Receives the inputs of unknown sizes up to an X, in the order of X."""
        for other in list(self._sizes):
            size, work = self._sizes.pop(other)
            instruction = self._indices[other]
            self._watch.wait_for(size, work, partial(str, instruction))
            if other not in self._works:
                own = self._entering[instruction.cell.microbatch]
                if self._sources[instruction.cell.path] != self._rank:
                    own = own.new_empty((int(size.item()), own.shape[1]))
                self._entering[instruction.cell.microbatch] = own
                self._works[other] = own, self._send(self._inputs, own, instruction)
            if other == index:
                return

    def _begin_early(self, instruction: Instruction) -> None:
        """Starts the rest of a Y of Vocab-2 in another thread, and over NCCL in another stream."""
        number, main = instruction.cell.microbatch, None
        own, shards, work = self._coming.pop(number)
        if self._side is not None:
            main = torch.cuda.current_stream(self._device)
            self._side.wait_stream(main)

        def join() -> None:
            with self._use_side_stream():
                work.wait()
                self._take(number, shards)
                found = self._sums[number]
                if main is not None:
                    own.record_stream(self._side)
                    found.record_stream(main)
                self._works[instruction.index] = found, self._gradients.allreduce([found])

        def wait() -> None:
            with self._use_side_stream():
                self._works[instruction.index][1].wait()

        what = lambda: str(instruction)
        if self._lane is None:
            self._watch.start_call(join, what)
            self._watch.start_call(wait, what)
            return
        later = partial(self._watch.later, self._lane)
        self._jobs[instruction.index] = later(join, what), later(wait, what)

    def _use_side_stream(self) -> Any:
        """Returns the stream of the rest of a Y on an accelerator."""
        return nullcontext() if self._side is None else torch.cuda.stream(self._side)

    def _await_early(self, index: int, is_first: bool) -> None:
        """Waits for the first part of the rest of a Y, or for all of it."""
        if index in self._jobs:
            first, second = self._jobs[index]
            self._watch.wait_job(first if is_first else second)
        if self._side is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._side)

    def _take(self, number: int, shards: list[Tensor]) -> None:
        """Takes the numbers of all shards."""
        logits = self._logits[number]
        if self._batch.targets is None:
            joined = torch.cat(shards, 1)[:, : self.head.vocabulary]
            if number in self._outputs:
                shape = self._outputs[number].shape[:-1]
                self._batch.outputs[number] = joined.view(*shape, -1)
            del self._logits[number]
            return
        loss = logits.join(torch.stack(shards))
        if number in self._is_mine:
            self._batch.losses[number] = loss
            if self._batch.tokens is not None:
                valid = self._targets[number] != self.head.ignored
                self._batch.tokens.note_count(number, valid.sum())
        if not self._is_training:
            del self._logits[number]
            self._outputs.pop(number, None)
        elif self._is_early:
            self._sums[number] = logits.part * self._scales[number]

    def finish(self, index: int, cell: Cell | None = None) -> bool:
        """Ends a collective; returns whether it was in progress. T needs only half of Y."""
        instruction = self._indices.get(index)
        if instruction is None:
            return self.lookups is not None and self.lookups.finish(index)
        number = instruction.cell.microbatch
        if index in self._sizes:
            self._receive_sized(index)
        if instruction.kind == "combine" and number in self._coming:
            own, shards, work = self._coming.pop(number)
            self._watch.wait_for(own, work, lambda: str(instruction))
            self._take(number, shards)
        if instruction.kind == "combine" and self._is_early and self._is_training:
            is_first = cell is not None and cell.phase == "T"
            self._await_early(index, is_first)
            if is_first:
                return False
            del self._works[index], self._indices[index]
            self._jobs.pop(index, None)
        else:
            del self._indices[index]
        if index in self._works:
            tensor, work = self._works.pop(index)
            self._watch.wait_for(tensor, work, lambda: str(instruction))
        is_source = self._sources[instruction.cell.path] == self._rank
        if instruction.kind != "broadcast" and not is_source:
            self._sums.pop(number, None)  # only the last stage needs the gradient
        return True

    def finish_all(self) -> list[int]:
        """Ends everything in progress; returns the indices."""
        ended = [index for index in list(self._indices) if self.finish(index)]
        return ended if self.lookups is None else [*ended, *self.lookups.finish_all()]

    def tensors(self) -> list[Tensor]:
        coming = [t for own, shards, _ in list(self._coming.values()) for t in (own, *shards)]
        return [
            *self._entering.values(),
            *self._outputs.values(),
            *(t for logits in self._logits.values() for t in logits.tensors),
            *coming,
            *list(self._sums.values()),  # which another thread may change
            *(self.lookups.tensors() if self.lookups is not None else ()),
        ]

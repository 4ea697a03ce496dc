"""The sums of gradients that a rank takes part in, and which parameters they are about.

Modules may get parameters, and freeze or train them, between steps. So the sums look again at the
start of each step, and if something has changed, the ranks that share it agree on it first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.distributed.tensor import DTensor

from pipesched import Cell, Schedule

from ..autograd.backward import leaves_of
from ..core.errors import PipelineError
from ..core.program import COLLECTIVES
from ..core.values import local
from ..core.watch import Watch
from ..partition.placement import Placement, StageKey, blocks_text, show
from ..vocabulary import VocabularyHead
from .buffers import OneBuffer, SharedBuffers
from .data_parallel import Around, Averages, BufferRule, Divided
from .reduce import Shared, Sum, is_small, sum_over
from .ties import Place, Tie, buffers_at, find_shared_objects

Block = tuple[int | None, range, tuple[int, ...]]
"""The group of the program, blocks, and the ranks that hold them."""


def _count_joined(parameters: Iterable[nn.Parameter]) -> int:
    trained = [local(p) for p in parameters if p.requires_grad]
    return sum(tensor.nbytes for tensor in trained if is_small(tensor))


class Sums:
    """The sums of a rank, of gradients and of buffers."""

    def __init__(
        self,
        schedule: Schedule,
        placement: Placement,
        ties: Sequence[Tie],
        averages: Averages,
        group: dist.ProcessGroup,
        watch: Watch,
    ) -> None:
        self._schedule, self._placement = schedule, placement
        self._averages, self._group, self._watch = averages, group, watch
        self.ties = ties
        self.groups: dict[int, Shared] = {}
        """The all-reduces of the program, by group."""
        self.at_end: list[Shared | SharedBuffers | OneBuffer] = []
        """The sums that the program does not have."""
        self.means: list[Shared] = []
        """The sums over only other pipelines."""
        self.check_steps: Callable[[], None] | None = None
        """Called when other parameters are trained than before, if O cells step them."""
        self._versions: list[tuple[nn.Parameter, int]] = []
        self._seen: list[tuple[int, bool]] = self._look()
        self._objects = find_shared_objects(placement)
        self._unchecked = self._to_check()

    @property
    def shared(self) -> list[Shared]:
        known = [*self.groups.values(), *self.at_end]
        return [each for each in known if isinstance(each, Shared)]

    def tensors(self) -> list[Tensor]:
        return [tensor for each in self.shared for tensor in each.tensors()]

    def bytes_aside(self, key: StageKey) -> tuple[int, int]:
        """Returns the size of gradients of earlier steps of a stage, next to this step's."""
        late = self.find_late()
        own = {id(p) for p in self._placement.modules[key].parameters()}
        if self._placement.loss is not None and key[1] == self._placement.last[key[0]]:
            own |= {id(p) for p in self._placement.loss.parameters()}
        found = {id(p): b.nbytes for each in self.shared for p, b in each.aside() if id(p) in own}
        at_end = sum(nbytes for number, nbytes in found.items() if number in late)
        return sum(found.values()) - at_end, at_end

    def joined_bytes(self, blocks: range) -> int:
        """Returns the size of the copies in which the gradients of blocks travel."""
        return _count_joined(self.of_blocks(blocks))

    def mean_bytes(self, key: StageKey) -> int:
        """Returns the bytes of the copies sent to other pipelines after the last backward."""
        own = {id(p) for p in self._placement.modules[key].parameters()}
        chosen = [p for each in self.means for p in each.parameters if id(p) in own]
        over = {id(p): self._averages.of(p) for p in chosen}
        found = {id(p): p for p in chosen if not isinstance(over[id(p)], Divided)}
        return _count_joined(found.values())

    def find_tied(self) -> set[int]:
        return {id(p) for tie in self.ties for p in tie.parameters(self._placement)}

    def find_late(self) -> set[int]:
        """Returns the parameters whose gradients are complete only at the end of a step."""
        loss = self._placement.loss
        own = set() if loss is None else {id(p) for p in loss.parameters()}
        return self.find_tied() | own | self._late_of_head()

    def _late_of_head(self) -> set[int]:
        """Parameters that a head in shards shares with an embedding, pipelines, or paths."""
        found: set[int] = set()
        for head in self._placement.shards:
            if isinstance(head, VocabularyHead) and head.whole is not None:
                found |= {id(head.whole), id(head.weight)}
        if self._averages.own is not None or len(self._schedule.paths) > 1:
            found |= {id(p) for p in self._placement.shard_parameters()}
        return found

    # Which there are

    def blocks(self) -> list[Block]:
        """Returns the blocks whose gradients are summed, by the program or at the end."""
        groups = self._schedule.groups
        for kind in {group.kind for group in groups} - {"all_reduce", *COLLECTIVES}:
            raise PipelineError(f"ranks do not run {kind.replace('_', '-')}s")
        found: list[Block] = [
            (number, group.blocks, group.workers)
            for number, group in enumerate(groups)
            if group.kind == "all_reduce"
        ]
        for piece in self._placement.pieces():
            is_summed = any(
                g.start <= piece.blocks.start and piece.blocks.stop <= g.stop for _, g, _ in found
            )
            if not is_summed and len(piece.workers) > 1:
                found.append((None, piece.blocks, piece.workers))
        return found

    def of_blocks(self, blocks: range) -> list[nn.Parameter]:
        tied = self.find_tied()
        return [p for p in self._placement.parameters_of(blocks) if id(p) not in tied]

    def _over(self, workers: tuple[int, ...]) -> Sum | None:
        return None if len(workers) < 2 else sum_over(self._group, workers, self._watch)

    def make(self, around: Around, cells: Sequence[Cell], steps_inside: bool) -> None:
        """Makes the sums. All ranks call it."""
        for number, blocks, workers in self.blocks():
            sum_up = self._over(workers)
            if self._watch.rank not in workers:
                continue
            name = f"the sum of gradients of {blocks_text(blocks)}"
            shared = self._share(name, partial(self.of_blocks, blocks), sum_up, workers)
            if number is not None:
                self.groups[number] = shared
                continue
            if steps_inside:
                raise PipelineError(
                    f"{blocks_text(blocks)}: ranks {list(workers)} hold replicas, "
                    "and O would step them before their gradients are summed: "
                    "add G cells with pipe-add-optimizer{all-reduce=end}, or give no `optimizer`"
                )
            self.at_end.append(shared)
        for tie in self.ties:
            sum_up = self._over(tie.workers)
            if self._watch.rank in tie.workers:
                name = f"the sum of gradients of {tie}"
                find = partial(tie.parameters, self._placement)
                self.at_end.append(self._share(name, find, sum_up, tie.workers, is_tied=True))
        self._make_means(around, cells)
        self._make_loss()
        self._make_head()
        self._has_others = bool(self.shared or self._averages.known)

    def _share(
        self,
        name: str,
        find: Callable[[], list[nn.Parameter]],
        sum_up: Sum | None,
        workers: tuple[int, ...],
        is_tied: bool = False,
    ) -> Shared:
        keeps = self._watch.rank == workers[0]
        return Shared(name, find, sum_up, workers, self._averages.of, is_tied, keeps)

    def _make_head(self) -> None:
        if not self._placement.shards or self._averages.own is None:
            return
        find, rank = self._placement.shard_parameters, self._watch.rank
        name = f"the mean of gradients of shard {rank} of the vocabulary"
        self.at_end.append(self._share(name, find, None, (rank,)))

    def _make_means(self, around: Around, cells: Sequence[Cell]) -> None:
        """Averages the gradients that no sum of this pipeline covers over other pipelines."""
        rank = self._watch.rank
        for key in self._placement.modules:
            covered = list(self.shared)
            if not self._averages.is_plain(key):
                continue
            chosen = self._find_uncovered(key, covered)
            name = f"the mean of gradients of {show(key)}"
            find = partial(self._find_uncovered, key, covered)
            mean = self._share(name, find, None, (rank,))
            self.means.append(mean)
            self.at_end.append(mean)
            ids = set(map(id, chosen))
            keys = {key} | {
                other
                for other, module in self._placement.modules.items()
                if any(id(parameter) in ids for parameter in module.parameters())
            }
            around.add(cells, keys, partial(mean.start, self._watch))

    def _find_uncovered(self, key: StageKey, covered: Sequence[Shared]) -> list[nn.Parameter]:
        """Returns the averaged parameters of a stage that are in no other sum."""
        seen = {id(p) for each in covered for p in each.parameters}
        found = self._placement.modules[key].parameters()
        return [p for p in found if id(p) not in seen and self._averages.of(p) is not None]

    def _make_loss(self) -> None:
        loss = self._placement.loss
        workers = self._placement.loss_workers()
        has_parameters = loss is not None and any(True for _ in loss.parameters())
        sum_up = self._over(workers) if has_parameters else None
        if loss is None or not has_parameters or self._watch.rank not in workers:
            return
        find = lambda: [p for p in loss.parameters() if id(p) not in self.find_tied()]
        self.at_end.append(self._share("the sum of gradients of the loss", find, sum_up, workers))

    # Parameters outside of modules

    def _is_shared(self, key: StageKey) -> bool:
        """Returns whether gradients that a stage computes are summed over ranks."""
        blocks = self._placement.stages[key].blocks
        is_held = any(
            len(piece.workers) > 1 and piece.blocks.start in blocks
            for piece in self._placement.pieces()
        )
        is_last = key[1] == self._placement.last[key[0]]
        many = len(self._placement.loss_workers()) > 1
        return is_held or bool(self._averages.peers_of_stage(key)) or (is_last and many)

    def _to_check(self) -> set[StageKey]:
        keys = self._placement.modules
        return {key for key in keys if self._placement.elsewhere or self._is_shared(key)}

    def check(self, key: StageKey, outputs: Sequence[Tensor], ends: Sequence[GradientEdge]) -> None:
        """Refuses a parameter outside of all modules, which no sum has, or of another rank."""
        if key not in self._unchecked:
            return
        self._unchecked.discard(key)
        self.look(key, outputs, ends)

    def is_unchecked(self, key: StageKey) -> bool:
        return key in self._unchecked

    def look(self, key: StageKey, outputs: Sequence[Tensor], ends: Sequence[GradientEdge]) -> None:
        """Runs `check`, also for a part of a stage."""
        known = {id(parameter) for parameter in self._placement.all_parameters()}
        is_shared = self._is_shared(key)
        for leaf in leaves_of(outputs, ends):
            if (name := self._placement.elsewhere.name_of(leaf)) is not None:
                raise PipelineError(
                    f"{show(key)}, or its loss, uses {name}, which other ranks train: they would "
                    "not get that gradient, and this rank does not see their values. Pass between "
                    "stages what the loss needs, for example a penalty of weights that each stage "
                    "adds up, or register the parameter in both stages, which ties it"
                )
            if is_shared and id(leaf) not in known:
                raise PipelineError(
                    f"{show(key)}, or its loss, uses a parameter of shape {list(leaf.shape)} that "
                    "is in no module of this rank, so that nothing would sum its gradients over "
                    "replicas; put it into the stage, or give the loss as a module that has it"
                )

    # Changes of parameters

    def _look(self) -> list[tuple[int, bool]]:
        return [(id(p), p.requires_grad) for p in self._placement.all_parameters()]

    def begin(self) -> None:
        """Starts a step: finds out which parameters are trained now."""
        if (self._has_others or self.check_steps) and (now := self._look()) != self._seen:
            self._seen = now
            if self.check_steps is not None:
                self.check_steps()
            if self._has_others:
                self._change()
        for each in (*self.groups.values(), *self.at_end):
            each.begin()
        self._versions = [(p, p._version) for p in self._find_unstepped()]

    def end(self) -> None:
        """Sums at the end of a step the gradients that the program does not sum."""
        self.check_unchanged()
        for each in self.at_end:
            if isinstance(each, Shared):
                each.start(self._watch)
        for shared in self.at_end:
            shared.finish(self._watch, lambda name=shared.name: name)  # type: ignore[misc]

    def _find_unstepped(self) -> Iterator[nn.Parameter]:
        """Yields the parameters that no O steps and whose hooks could step them."""
        if self.check_steps is None:
            for parameter in self._placement.all_parameters():
                untyped: Any = parameter
                if untyped._post_accumulate_grad_hooks and not isinstance(parameter, DTensor):
                    yield parameter

    def check_unchanged(self) -> None:
        """Refuses optimizers in hooks: they would step by part of the gradients."""
        versions, self._versions = self._versions, []
        for parameter, version in versions:
            if parameter._version != version:
                raise PipelineError(
                    f"a parameter of shape {list(parameter.shape)} was changed inside of a step, "
                    "as by an optimizer in a hook of its gradient; step behind `step()`, or by O "
                    "cells"
                )

    def _change(self) -> None:
        if (now := find_shared_objects(self._placement)) != self._objects:
            raise PipelineError(
                f"parameters became one parameter after the runtime was made, or two of what was "
                f"one (blocks and names: {now or self._objects}); tie them before"
            )
        self._averages.look()
        self._unchecked = self._to_check()
        for each in [each for each in self.shared if each.look()]:
            self._agree(each)

    def _agree(self, shared: Shared) -> None:
        shared.changes += 1
        what = f"trained/{shared.changes}/{shared.name}/{json.dumps(shared.signature)}"
        meetings: list[Callable[[], list[Any]]] = []
        if len(shared.workers) > 1:
            meetings.append(lambda: self._watch.meet(what, True, shared.workers))
        meetings += [partial(peers.meet, what, True) for peers in shared.peers]
        for meet in meetings:
            meet()

    # Buffers

    def make_buffers(self, given: BufferRule | None) -> None:
        """Makes buffers equal at the end of a step, if requested."""
        for piece in self._placement.pieces():
            sum_up = self._over(piece.workers) if given != "own" else None
            found = self._placement.modules_of(piece.blocks)
            if found is None or self._watch.rank not in piece.workers:
                continue
            key, modules = found
            peers = self._averages.peers_of_stage(key)
            rule = given or self._averages.buffer_rule(key)
            if rule == "own" or (sum_up is None and not peers):
                continue
            name = f"the buffers of {blocks_text(piece.blocks)}"
            is_first, count = self._watch.rank == piece.workers[0], len(piece.workers)
            self.at_end.append(SharedBuffers(name, modules, rule, sum_up, count, is_first, peers))

    def guard_buffers(self, shared: Sequence[Sequence[Place]]) -> None:
        """Watches over buffers of the whole model with copies on several ranks."""
        for places in shared:
            held = [
                {(s.path, s.stage) for s in stages for first, _, _ in places if first in s.blocks}
                for stages in self._placement.everywhere
            ]
            blocks = {first for first, _, _ in places}
            workers = [worker for worker, keys in enumerate(held) if keys]
            has_all = all(
                blocks <= {b for s in self._placement.everywhere[worker] for b in s.blocks}
                for worker in workers
            )
            if not has_all and self._watch.rank in workers:
                find = partial(buffers_at, self._placement, list(places))
                self.at_end.append(OneBuffer(f"{places[0][2]!r}", workers, find))

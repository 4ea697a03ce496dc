"""Which modules and parameters a rank holds, and which of them other ranks hold too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pipesched import Schedule, Stage

from ..core.errors import PipelineError
from .origin import Elsewhere, Origin, origins_of
from .split import SequentialStages, check_own

StageKey = tuple[int, int]
"""(path, stage)."""
Stages = Mapping[StageKey, nn.Module] | Callable[[int, int], nn.Module]
Tied = Sequence[Sequence[tuple[int, str] | tuple[int, int, str] | tuple[Literal["loss"], str]]]
"""Parameters that are one parameter of the model: (stage, name) on all paths, (path, stage, name),
or ("loss", name)."""


def show(key: StageKey) -> str:
    return f"path {key[0]}, stage {key[1]}"


def blocks_text(blocks: range) -> str:
    first, last = blocks.start, blocks.stop - 1
    return f"block {first}" if first == last else f"blocks {first} to {last}"


def drop_repeated(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return list({id(p): p for p in parameters}.values())


def select_trained(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return drop_repeated(p for p in parameters if p.requires_grad)


def module_of(function: Any) -> nn.Module | None:
    """Returns the module that a function is, or whose method it is."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__self__", function)
    return function if isinstance(function, nn.Module) else None


def bare(module: Any) -> Any:
    return module.module if isinstance(module, DistributedDataParallel) else module


BackwardKind = Literal["full", "input", "none"]
"""The backward of a stage: whole; only the gradient of its input, if it is frozen after a trained
stage; none."""


def find_kinds(schedule: Schedule) -> dict[StageKey, BackwardKind]:
    """Returns the backwards of stages that are not trained; all others are full."""
    kinds: dict[StageKey, BackwardKind] = {}
    for number, path in enumerate(schedule.paths):
        needs_gradient = False
        for stage in range(len(path.workers)):
            if path.forward_only or stage in path.frozen:
                kinds[number, stage] = "input" if needs_gradient else "none"
            else:
                needs_gradient = True
    return kinds


@dataclass(frozen=True)
class Piece:
    """Blocks that the same stages hold."""

    blocks: range
    workers: tuple[int, ...]


class Placement:
    """The stages of one rank, with their modules."""

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        source: Stages,
        loss: Any = None,
        shards: Sequence[nn.Module] = (),
    ) -> None:
        self.rank = rank
        self.everywhere = [schedule.stages(worker) for worker in range(schedule.workers)]
        self.stages = {(s.path, s.stage): s for s in self.everywhere[rank]}
        self.kinds = find_kinds(schedule)
        self.last: dict[int, int] = {}
        """The last stage of each path."""
        for each in (stage for held in self.everywhere for stage in held):
            self.last[each.path] = max(self.last.get(each.path, 0), each.stage)
        self.wrappers: dict[StageKey, DistributedDataParallel] = {}
        """The stages that were given under DDP."""
        self.modules = {key: self._ask(source, key) for key in self.stages}
        """The modules without DDP around them."""
        self.origins = self._origins_in(source)
        """The models that were divided into the stages, if that is known."""
        self.given_loss = module_of(loss)
        """The module of the loss, if it is one."""
        self.loss = self.given_loss if rank in self.loss_workers() else None
        """The same on the ranks that compute losses."""
        self.shards = tuple(shards)
        """The shards of the head and of the embedding, if the ranks divide them."""
        self.elsewhere = Elsewhere(self._named_in(source), self.all_parameters())
        self._check_common_blocks()
        self._check_distinct()

    def _origins_in(self, source: Any) -> list[Origin]:
        own = [source.origin] if isinstance(source, SequentialStages) else []
        return list(dict.fromkeys([*own, *origins_of(self.modules.values())]))

    def _named_in(self, source: Any) -> Iterator[tuple[str, Tensor]]:
        """Yields the parameters that a source of stages shows, also of other ranks."""
        for origin in self.origins:
            yield from origin.parameters()
        for key, module in source.items() if isinstance(source, Mapping) else ():
            for name, parameter in module.named_parameters():
                yield f"{name} of {show(key)}", parameter

    def backward_of(self, path: int, stage: int) -> BackwardKind:
        return self.kinds.get((path, stage), "full")

    def check_frozen(self) -> None:
        """Refuses trained parameters in a stage that the schedule does not train."""
        for key in self.kinds.keys() & self.modules.keys():
            for name, parameter in self.modules[key].named_parameters():
                if parameter.requires_grad:
                    raise PipelineError(
                        f"{show(key)} is frozen in the schedule, but its parameter {name} is "
                        "trained; call requires_grad_(False) on its module, or take a schedule "
                        "that trains the stage"
                    )

    def loss_workers(self) -> tuple[int, ...]:
        return tuple(
            worker
            for worker, held in enumerate(self.everywhere)
            if any(stage.stage == self.last[stage.path] for stage in held)
        )

    def find_worker(self, path: int, stage: int) -> int:
        held = enumerate(self.everywhere)
        return next(w for w, own in held if any((s.path, s.stage) == (path, stage) for s in own))

    def _ask(self, source: Stages, key: StageKey) -> nn.Module:
        if isinstance(source, Mapping):
            if key not in source:
                raise PipelineError(
                    f"`stages` has no module for {show(key)}, which the placement gives to rank "
                    f"{self.rank}; it has {sorted(source)}"
                )
            module: object = source[key]
        else:
            module = source(*key)
        if not isinstance(module, nn.Module):
            raise PipelineError(f"`stages` gives {module!r} for {show(key)}; wanted an nn.Module")
        if isinstance(module, DistributedDataParallel):
            self.wrappers[key] = module
        inner: nn.Module = bare(module)
        return inner

    def _check_common_blocks(self) -> None:
        """A rank holds each block once."""
        keys = sorted(self.stages)
        for i, key in enumerate(keys):
            for other in keys[:i]:
                one, two = self.stages[other], self.stages[key]
                if one.blocks == two.blocks and one.blocks:
                    common = one.blocks
                    is_same = self.modules[key] is self.modules[other]
                else:
                    begin = max(one.first_block, two.first_block)
                    common = range(begin, min(one.end_block, two.end_block))
                    is_same = all(self._block(other, b) is self._block(key, b) for b in common)
                if not is_same:
                    raise PipelineError(
                        f"{show(other)} and {show(key)} hold {blocks_text(common)} on rank "
                        f"{self.rank}, as modules that are not the same; a rank holds each block "
                        "once, so give one module object for both"
                    )

    def _check_distinct(self) -> None:
        """Stages of different blocks are different modules."""
        first: dict[int, StageKey] = {}
        for key in sorted(self.stages):
            other = first.setdefault(id(self.modules[key]), key)
            one, two = self.stages[other].blocks, self.stages[key].blocks
            if one != two and select_trained(self.modules[key].parameters()):
                raise PipelineError(
                    f"`stages` gives one module for {show(other)} ({blocks_text(one)}) and "
                    f"{show(key)} ({blocks_text(two)}), so that each of its parameters "
                    "belongs to several stages of this rank; give each stage its own module, and "
                    "name the parameters that are one in `tied`"
                )

    def _block(self, key: StageKey, block: int) -> nn.Module:
        stage, module = self.stages[key], self.modules[key]
        if isinstance(module, (nn.Sequential, nn.ModuleList)) and len(module) == len(stage.blocks):
            check_own(module, show(key))
            found = module[block - stage.first_block]
            assert isinstance(found, nn.Module)
            return found
        raise PipelineError(
            f"{show(key)} shares some of its blocks {stage.blocks.start} to "
            f"{stage.blocks.stop - 1} with a stage that has not all of them; give an nn.Sequential "
            f"with one child per block ({len(stage.blocks)}), as split_sequential does"
        )

    def parameters_of(self, blocks: range) -> list[nn.Parameter]:
        found = self.modules_of(blocks)
        return drop_repeated(p for module in found[1] for p in module.parameters()) if found else []

    def modules_of(self, blocks: range) -> tuple[StageKey, list[nn.Module]] | None:
        """Returns the modules of blocks that this rank holds, and a stage that has them."""
        for key, stage in self.stages.items():
            if stage.blocks == blocks and blocks:
                return key, [self.modules[key]]
        for key, stage in self.stages.items():
            if blocks and stage.first_block <= blocks.start and blocks.stop <= stage.end_block:
                return key, [self._block(key, block) for block in blocks]
        return None

    def owned(self, key: StageKey) -> list[nn.Parameter]:
        """Returns the trained parameters that the O of a stage steps, as owner of its blocks
        (docs/Dialects/RationalePipe.md, "A worker holds a block once").
        """

        def owner(block: int) -> StageKey:
            holders = [s for s in self.stages.values() if block in s.blocks]
            best = max(holders, key=lambda s: (s.end_block, -s.first_block, -s.path))
            return best.path, best.stage

        stage = self.stages[key]
        blocks = [block for block in stage.blocks if owner(block) == key]
        if not blocks:
            return []
        return select_trained(self.parameters_of(range(blocks[0], blocks[-1] + 1)))

    def pieces(self) -> list[Piece]:
        """Returns the blocks of the model, cut wherever a stage starts or ends, ascending."""
        held = [(worker, s) for worker, own in enumerate(self.everywhere) for s in own]
        cuts = sorted({s.first_block for _, s in held} | {s.end_block for _, s in held})
        found = []
        for begin, end in zip(cuts, cuts[1:], strict=False):
            workers = {w for w, s in held if s.first_block <= begin and end <= s.end_block}
            found.append(Piece(range(begin, end), tuple(sorted(workers))))
        return found

    def named_parameter(self, key: StageKey, name: str) -> nn.Parameter:
        try:
            return self.modules[key].get_parameter(name)
        except AttributeError:
            names = ", ".join(n for n, _ in self.modules[key].named_parameters())
            raise PipelineError(
                f"`tied` names parameter {name!r} of {show(key)}, which has {names}"
            ) from None

    def parameters(self) -> list[nn.Parameter]:
        return select_trained(self.all_parameters())

    def distinct_parameters(self) -> list[nn.Parameter]:
        return drop_repeated(self.all_parameters())

    def roots(self) -> list[nn.Module]:
        loss = [] if self.loss is None else [self.loss]
        return [*self.modules.values(), *loss, *self.shards]

    def runs_shards(self, key: StageKey) -> bool:
        """Returns whether a stage of this rank is the last of a path, whose O steps the shards."""
        last = max((stage for path, stage in self.stages if path == key[0]), default=-1)
        return bool(self.shards) and key == (min(p for p, _ in self.stages), last)

    def shard_parameters(self) -> list[nn.Parameter]:
        """Returns the parameters of the shards; one that head and embedding share is there once."""
        return drop_repeated(p for shard in self.shards for p in shard.parameters())

    def all_parameters(self) -> Iterator[nn.Parameter]:
        return (p for module in self.roots() for p in module.parameters())

    def empty_stage(self) -> Stage | None:
        """Returns a stage without blocks whose module has parameters, which are in no G or O."""
        for key, stage in self.stages.items():
            if not stage.blocks and select_trained(self.modules[key].parameters()):
                return stage
        return None

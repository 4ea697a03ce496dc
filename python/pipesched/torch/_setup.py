"""Decisions and checks before the first message: which rank runs what on which modules."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from pipesched import Cell, Instruction, PipeSchedError, Schedule
from pipesched._options import ReceivePlacement

from ._budget import Budget
from ._buffers import SharedBuffers
from ._errors import PipelineError
from ._executor import Parts
from ._messages import Link, messages_over
from ._parallel import Around, Averages, BufferRule, mark, units_of
from ._placement import Placement, StageKey, Stages, Tied, blocks_text, named
from ._reduce import Shared, Sum, own_gloo, shapes_of, sum_over
from ._split import SequentialStages
from ._watch import Watch

TAGGED = ("gloo", "mpi")
"""Backends whose messages have tags."""
ORDERED = ("nccl", "xccl", "hccl", "ucc")
"""Backends whose messages find each other by their order."""


class Steps(Protocol):
    """An optimizer."""

    def step(self) -> Any:
        """Steps its parameters by their gradients."""


Optimizers = Callable[[list[nn.Parameter]], Steps] | Mapping[StageKey, Steps]
MessageKind = Literal["tags", "ordered"]


@dataclass
class Options:
    """The arguments of a runtime."""

    schedule: Schedule
    stages: Stages
    loss: Callable[[Any, Any], Tensor] | None
    group: dist.ProcessGroup
    optimizer: Optimizers | None
    tied: Tied
    device: torch.device | str | None
    receives: ReceivePlacement | None
    messages: MessageKind | None
    static_shapes: bool
    memory_budget: int | str | None
    data_parallel: dist.ProcessGroup | DeviceMesh | None
    buffers: BufferRule | None
    has_tags: bool = field(init=False)

    def __post_init__(self) -> None:
        size = dist.get_world_size(self.group)
        if size != self.schedule.workers:
            raise PipelineError(
                f"the schedule has {self.schedule.workers} workers, the process group {size} "
                "ranks; one rank per worker is wanted"
            )
        if self.buffers not in (None, "own", "average", "first"):
            raise PipelineError(f"`buffers` is {self.buffers!r}; wanted own, average or first")
        backend = self.backend
        if self.messages is None and backend not in (*TAGGED, *ORDERED):
            raise PipelineError(
                f"backend {backend!r} is not known here: say messages='tags' if its messages find "
                "each other by tags, as those of gloo do, or messages='ordered' if by their order"
            )
        self.has_tags = self.messages == "tags" if self.messages else backend in TAGGED
        self._check_messages()

    @property
    def backend(self) -> str:
        """The backend of messages. Groups that have one for each kind of device use that of the
        device of the stages.
        """
        name = str(dist.get_backend(self.group))
        if ":" not in name:
            return name
        kinds = dict(each.split(":") for each in name.split(","))
        if self.device is not None:
            return kinds.get(torch.device(self.device).type, name)
        return kinds.get("cuda" if torch.cuda.is_available() else "cpu", next(iter(kinds.values())))

    def _check_messages(self) -> None:
        """Refuses what could hang or mix up messages."""
        layers = ("unbounded",) if self.has_tags else ("fifo", "batched")
        placement = self.receives or "arrival" if self.schedule.kind == "schedule" else None
        for layer in layers:
            try:
                self.schedule.verify(layer, receive_placement=placement)  # type: ignore[arg-type]
            except PipeSchedError as error:
                kind = "tags" if self.has_tags else "their order alone"
                raise PipelineError(
                    f"the schedule cannot run over messages that are found by {kind} "
                    f"(messages={layer}):\n{error}"
                ) from error

    @property
    def digest(self) -> str:
        """A text that is the same on ranks whose arguments fit together."""
        text = f"{self.schedule.to_text()} {self.receives} {self.has_tags} {self.static_shapes}"
        text += f" {self.buffers}"
        return hashlib.sha256(text.encode()).hexdigest()


class Setup:
    """Builds the parts of one rank's runtime."""

    def __init__(self, options: Options, watch: Watch) -> None:
        self.options = options
        self.schedule = options.schedule
        self.watch = watch
        self.placement = Placement(options.schedule, watch.rank, options.stages)
        self.program = list(options.schedule.program(watch.rank, receives=options.receives))
        check_program(self.schedule, self.placement, self.program)
        self.averages = Averages(self.placement, options.group, options.data_parallel, watch)
        self.ties = self.placement.tied(options.tied)
        self.optimizers = self._make_optimizers()
        self._agree()
        self.groups: dict[int, Shared] = {}
        self.at_end: list[Shared | SharedBuffers] = []
        self.around = Around()
        self._share()
        self.steppers = self._make_steppers()
        self._shard()
        self._share_buffers()

    def parts(self) -> Parts:
        """Makes the parts that the executor needs."""
        options, device = self.options, self._device()
        is_gloo = options.backend == "gloo"
        buffers = torch.device("cpu") if is_gloo or options.has_tags else device
        link = Link(options.group, self.watch, device, buffers)
        if not options.has_tags:
            link.host = own_gloo(range(self.schedule.workers), self.watch, "messages")
        stream: Any = torch.cuda.Stream
        is_cuda = device.type == "cuda"
        stored = [
            each
            for module in self.placement.modules.values()
            for each in (*module.parameters(), *module.buffers())
            if not isinstance(each, DTensor)
        ]
        return Parts(
            self.placement,
            self.program,
            link,
            messages_over(link, options.has_tags, options.static_shapes),
            options.loss,
            self.groups,
            self.at_end,
            self.around,
            self.steppers,
            Budget(options.memory_budget),
            stored,
            (stream(device), stream(device)) if is_cuda else (None, None),
        )

    def _device(self) -> torch.device:
        if self.options.device is not None:
            return torch.device(self.options.device)
        for module in self.placement.modules.values():
            for parameter in module.parameters():
                return parameter.device
        return torch.device("cpu")

    # Optimizers

    def _make_optimizers(self) -> dict[StageKey, Steps]:
        given = self.options.optimizer
        if given is None:
            return {}
        cells = [c for i in self.program for c in i.cells if i.kind == "compute" and c.phase == "O"]
        if not cells and self.placement.stages:
            raise PipelineError(
                "`optimizer` is given, but the schedule has no O cells on this rank: add them with "
                "transform('pipe-add-optimizer'), or step after each step of the runtime"
            )
        made: dict[StageKey, Steps] = {}
        stepped: set[int] = set()
        for cell in cells:
            key = cell.path, cell.stage
            owned = self.placement.owned(key)
            twice = [p for p in owned if id(p) in stepped]
            if twice:
                raise PipelineError(
                    f"a parameter of shape {list(twice[0].shape)} belongs to several stages of "
                    f"this rank, also to {named(key)}, so that several O would step it; step after "
                    "each step of the runtime instead"
                )
            stepped.update(map(id, owned))
            if owned:
                made[key] = _optimizer(given, key, owned)
        left = [p for p in self.placement.parameters() if id(p) not in stepped]
        if left:
            raise PipelineError(
                f"{len(left)} parameters of this rank belong to no O cell, for example one of "
                f"shape {list(left[0].shape)}"
            )
        return made

    def _make_steppers(self) -> dict[StageKey, Callable[[], Any]]:
        """The functions that O calls. The gradients of tied parameters are complete when the last
        of their stages on any rank has run. O cannot wait for that, since other stages may wait for
        this rank, so the optimizers of tied parameters step at the end of the step.
        """
        tied = self._tied_parameters()
        steppers: dict[StageKey, Callable[[], Any]] = {}
        for key, optimizer in self.optimizers.items():
            owned = self.placement.owned(key)
            if any(id(parameter) in tied for parameter in owned):
                self.around.late.append(optimizer.step)
                continue
            ids = set(map(id, owned))
            shared = [each for each in self.means if ids & set(map(id, each.parameters))]
            steppers[key] = partial(self._finish_and_step, shared, optimizer)
        return steppers

    def _finish_and_step(self, means: Sequence[Shared], optimizer: Steps) -> None:
        for shared in means:
            shared.finish(self.watch, lambda name=shared.name: name)  # type: ignore[misc]
        optimizer.step()

    # Gradients of several ranks

    def _tied_parameters(self) -> set[int]:
        return {id(p) for _, parameters in self.ties for p in parameters}

    def _shared_blocks(self) -> list[tuple[int | None, range, tuple[int, ...]]]:
        """The blocks whose gradients are summed: groups of the program, and what it leaves out."""
        groups = self.schedule.groups
        for kind in {group.kind for group in groups} - {"all_reduce"}:
            raise PipelineError(f"ranks do not run {kind.replace('_', '-')}s")
        found: list[tuple[int | None, range, tuple[int, ...]]] = [
            (number, group.blocks, group.workers) for number, group in enumerate(groups)
        ]
        for piece in self.placement.pieces():
            is_summed = any(
                g.blocks.start <= piece.blocks.start and piece.blocks.stop <= g.blocks.stop
                for g in groups
            )
            if not is_summed and len(piece.workers) > 1:
                found.append((None, piece.blocks, piece.workers))
        return found

    def _agree(self) -> None:
        """Checks that the ranks agree on everything that must be the same."""
        tied = self._tied_parameters()
        mine: dict[str, Any] = {}
        if isinstance(self.options.stages, SequentialStages):
            mine["the division of the model"] = list(self.options.stages.sizes)
        for _, blocks, workers in self._shared_blocks():
            if self.watch.rank in workers:
                chosen = [p for p in self.placement.parameters_of(blocks) if id(p) not in tied]
                mine[blocks_text(blocks)] = [*shapes_of(chosen), *self._beside(blocks)]
        for number, (_, parameters) in enumerate(self.ties):
            if parameters:
                mine[f"tie {number}"] = shapes_of(parameters[:1])
                if any(shapes_of([p]) != shapes_of(parameters[:1]) for p in parameters):
                    raise PipelineError(f"the parameters of tie {number} have different shapes")
        own = self.averages.own
        pipelines = 1 if own is None else own.size
        said = self.watch.meet("start", [self.options.digest, pipelines, mine])
        for rank, (digest, beside, theirs) in enumerate(said):
            if digest != self.options.digest:
                raise PipelineError(
                    f"rank {rank} has another schedule, or other options, than this rank"
                )
            if beside != pipelines:
                raise PipelineError(
                    f"`data_parallel` has {beside} pipelines on rank {rank}, but {pipelines} on "
                    "this rank; give all ranks of a pipeline the same dimension of the mesh"
                )
            for what in mine.keys() & theirs.keys():
                if mine[what] != theirs[what]:
                    raise PipelineError(
                        f"{what}: {theirs[what]} on rank {rank}, but {mine[what]} "
                        "on this rank"
                    )
        shapes = {
            named(key): shapes_of([*module.parameters(), *module.buffers()])
            for key, module in self._averaged_modules()
        }
        self.averages.agree([self.watch.rank, self.options.digest, shapes])

    def _beside(self, blocks: range) -> list[str]:
        """The values on which replicas must agree beside their parameters."""
        found = self.placement.modules_of(blocks)
        if found is None:
            return []
        count = math.prod(peers.size for peers in self.averages.peers_of_stage(found[0]))
        rule = self.options.buffers or self.averages.buffer_rule(found[0])
        said = [] if count == 1 else [f"in {count} pipelines"]
        if rule != "own":
            buffers = [buffer for module in found[1] for buffer in module.buffers()]
            said.append(f"buffers {rule} of {shapes_of(buffers)}")
        return said

    def _averaged_modules(self) -> list[tuple[StageKey, nn.Module]]:
        """The shapes of parameters, without shards, which may have different sizes."""
        return [
            (key, module)
            for key, module in self.placement.modules.items()
            if not any(isinstance(parameter, DTensor) for parameter in module.parameters())
        ]

    def _sum_over(self, workers: tuple[int, ...]) -> Sum | None:
        if len(workers) < 2:
            return None
        return sum_over(self.options.group, workers, self.watch)

    def _share(self) -> None:
        """Makes the sums of gradients that this rank takes part in."""
        tied = self._tied_parameters()
        rank = self.watch.rank
        for number, blocks, workers in self._shared_blocks():
            sum_up = self._sum_over(workers)
            if rank not in workers:
                continue
            chosen = [p for p in self.placement.parameters_of(blocks) if id(p) not in tied]
            name = f"the sum of gradients of {blocks_text(blocks)}"
            shared = Shared(name, chosen, sum_up, peers_of=self.averages.of)
            if number is not None:
                self.groups[number] = shared
                continue
            if self.optimizers:
                raise PipelineError(
                    f"{blocks_text(blocks)}: ranks {list(workers)} hold replicas, "
                    "and O would step them before their gradients are summed: "
                    "add G cells with pipe-add-optimizer{all-reduce=end}, or give no `optimizer`"
                )
            self.at_end.append(shared)
        for index, (workers, parameters) in enumerate(self.ties):
            sum_up = self._sum_over(workers)
            if rank in workers:
                name = f"the sum of gradients of tie {index}"
                tie = Shared(name, parameters, sum_up, True, self.averages.of)
                self.at_end.append(tie)
        self._share_means()

    def _cells(self) -> list[Cell]:
        return [c for i in self.program for c in i.cells if i.kind == "compute"]

    def _share_means(self) -> None:
        """Averages those gradients over other pipelines that no sum of this pipeline covers."""
        known = [*self.groups.values(), *self.at_end]
        shared = [each for each in known if isinstance(each, Shared)]
        seen = {id(p) for each in shared for p in each.parameters}
        self.means: list[Shared] = []
        for key in self.placement.modules:
            chosen = self.averages.left(key, self.placement, seen)
            if not chosen:
                continue
            name = f"the mean of gradients of {named(key)}"
            mean = Shared(name, chosen, None, peers_of=self.averages.of)
            self.means.append(mean)
            self.at_end.append(mean)
            ids = set(map(id, chosen))
            keys = {
                other
                for other, module in self.placement.modules.items()
                if any(id(parameter) in ids for parameter in module.parameters())
            }
            self.around.add(self._cells(), keys, partial(mean.start, self.watch))

    def _shard(self) -> None:
        """Gathers and reduces what FSDP has sharded."""
        for unit in units_of(self.placement, self.watch, self._device()):
            cells = self._cells()
            first = next(c for c in cells if c.phase == "F" and (c.path, c.stage) in unit.keys)
            self.around.before.setdefault(mark(first), []).append(unit.gather)
            self.around.add(cells, unit.keys, unit.reduce)
            self.around.ends.append(unit.release)

    def _share_buffers(self) -> None:
        """Makes buffers alike at the end of a step, if that is asked for."""
        for piece in self.placement.pieces():
            sum_up = self._sum_over(piece.workers) if self.options.buffers != "own" else None
            found = self.placement.modules_of(piece.blocks)
            if found is None or self.watch.rank not in piece.workers:
                continue
            key, modules = found
            peers = self.averages.peers_of_stage(key)
            rule = self.options.buffers or self.averages.buffer_rule(key)
            if rule == "own" or (sum_up is None and not peers):
                continue
            self.at_end.append(
                SharedBuffers(
                    f"the buffers of {blocks_text(piece.blocks)}",
                    modules,
                    rule,
                    sum_up,
                    len(piece.workers),
                    self.watch.rank == piece.workers[0],
                    peers,
                )
            )


def _optimizer(given: Optimizers, key: StageKey, owned: Sequence[nn.Parameter]) -> Steps:
    """The optimizer of a stage, which steps no parameters of other stages."""
    if not isinstance(given, Mapping):
        return given(list(owned))
    if key not in given:
        raise PipelineError(f"`optimizer` has none for {named(key)}, whose O is on this rank")
    found = given[key]
    known = set(map(id, owned))
    for group in getattr(found, "param_groups", []):
        if any(id(p) not in known for p in group["params"]):
            raise PipelineError(
                f"the optimizer of {named(key)} steps parameters that this stage does not own, "
                "before their gradients are complete"
            )
    return found


def check_program(schedule: Schedule, placement: Placement, program: Sequence[Instruction]) -> None:
    """Checks that every microbatch runs forward and backward through each stage of this rank."""
    cells = [c for i in program for c in i.cells if i.kind == "compute"]
    done: dict[str, set[tuple[int, int]]] = {
        phase: {(c.stage, c.microbatch) for c in cells if c.phase == phase} for phase in "FBIW"
    }
    paths = schedule.paths
    for number in range(schedule.microbatches):
        path = schedule.path_of(number) if len(paths) > 1 else 0
        for key in placement.stages:
            at = key[1], number
            if key[0] != path:
                continue
            backwards = (at in done["B"]) + (at in done["I"] and at in done["W"])
            if at not in done["F"] or backwards != 1:
                raise PipelineError(
                    f"microbatch {number} does not run forward and backward through {named(key)} "
                    f"on rank {placement.rank}: the program is not a complete training step"
                )
    if placement.empty_stage() is not None and len(paths) > 1:
        raise PipelineError(
            "a stage without blocks has parameters, whose replicas no all-reduce would sum; count "
            "them to a block"
        )

"""Decisions and checks before the first message: which rank runs which cells on which modules."""

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
from pipesched.support.options import ReceivePlacement

from ..autograd.activation import Budget
from ..checkpoint.state import Names, State
from ..comm.messages import Link, Messages, OrderedMessages, TaggedMessages, device_of, prepare
from ..core.errors import PipelineError
from ..core.groups import own_gloo
from ..core.values import HOST, local
from ..core.watch import Watch
from ..grad_sync.data_parallel import Around, Averages, BufferRule, mark, refuse_unused, units_of
from ..grad_sync.reduce import Shared, shapes_of
from ..grad_sync.sums import Sums
from ..grad_sync.ties import Copies, Place, Tie, find_ties, places_here, ties_here, tokens_in
from ..overlap.chain import check_order
from ..partition.placement import (
    Placement,
    StageKey,
    Stages,
    Tied,
    blocks_text,
    select_trained,
    show,
)
from ..partition.split import SequentialStage, SequentialStages
from ..vocab_parallel.embedding import check_embedding
from ..vocab_parallel.head import Shards, check_head

TAGGED = ("gloo", "mpi")
"""Backends whose messages have tags."""
ORDERED = ("nccl", "xccl", "hccl", "ucc")
"""Backends whose messages find each other by their order."""


class Steps(Protocol):
    """An optimizer."""

    def step(self) -> Any:
        pass


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
    tied: Tied | None
    vocabulary: nn.Module | None
    embedding: nn.Module | None
    device: torch.device | str | None
    receives: ReceivePlacement | None
    messages: MessageKind | None
    static_shapes: bool
    memory_budget: int | str | None
    data_parallel: dist.ProcessGroup | DeviceMesh | None
    expert_parallel: tuple[str, ...]
    buffers: BufferRule | None
    order: str
    weighs: tuple[bool, bool]
    """Whether losses of microbatches have weights, and whether they add up."""
    slices: int
    """The slices of a microbatch. Cells have the slices as microbatches."""
    checks_slices: bool
    """Whether slices are compared with whole microbatches."""
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
        check_order(self.order)
        self.has_tags = self.messages == "tags" if self.messages else backend in TAGGED
        self._check_messages()

    @property
    def backend(self) -> str:
        """Returns the backend of messages; a group may have one for each kind of device."""
        name = str(dist.get_backend(self.group))
        if ":" not in name:
            return name
        kinds = dict(each.split(":") for each in name.split(","))
        if self.device is not None:
            return kinds.get(torch.device(self.device).type, name)
        return kinds.get("cuda" if torch.cuda.is_available() else "cpu", next(iter(kinds.values())))

    def _check_messages(self) -> None:
        """Refuses programs that could hang or mix up messages."""
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
        """Returns a text that is the same on ranks whose arguments fit together."""
        text = f"{self.schedule.to_text()} {self.receives} {self.has_tags} {self.static_shapes}"
        text += f" {self.buffers} {self.order} {self.expert_parallel} {self.weighs}"
        return hashlib.sha256(text.encode()).hexdigest()


class Setup:
    """The parts of one rank's runtime."""

    def __init__(self, options: Options, watch: Watch) -> None:
        self.options = options
        self.schedule = options.schedule
        self.watch = watch
        self.head = check_head(options.vocabulary, options.schedule, watch.rank)
        self.embedding = check_embedding(options.embedding, self.head, options.schedule, watch.rank)
        shards = [each for each in (self.head, self.embedding) if each is not None]
        self.placement = Placement(
            options.schedule, watch.rank, options.stages, options.loss, shards
        )
        self.program = list(options.schedule.program(watch.rank, receives=options.receives))
        check_program(self.schedule, self.placement, self.program)
        is_ordered = not options.has_tags
        self.device = device_of(self.placement, options.device, is_ordered)
        self.averages = Averages(
            self.placement, options.group, options.data_parallel, options.expert_parallel, watch
        )
        self.sums = Sums(
            self.schedule, self.placement, self._meet(), self.averages, options.group, watch
        )
        self._owned: dict[StageKey, list[nn.Parameter]] = {}
        self.optimizers = self._make_optimizers()
        self._agree()
        prepare(options.group, self.device, watch, is_ordered and options.backend != "gloo")
        self.around = Around()
        """The hooks around cells."""
        self.shards = self._make_shards()
        self.sums.make(self.around, self.cells, bool(self.optimizers))
        self.steppers = self._make_steppers()
        """The functions that O calls."""
        if self.optimizers:
            self.sums.check_steps = self._check_steps
        self._shard()
        self.sums.make_buffers(options.buffers)
        if self._is_guarded:
            self.sums.guard_buffers(self._find_shared_buffers())
        self.budget = Budget(options.memory_budget)
        self.link = self._make_link()
        by_one = options.backend == "gloo"
        self.messages: Messages = (
            TaggedMessages(self.link, self.program)
            if options.has_tags
            else OrderedMessages(self.link, self.program, options.static_shapes, by_one)
        )

    def _make_link(self) -> Link:
        options = self.options
        is_on_host = options.backend == "gloo" or options.has_tags
        link = Link(options.group, self.watch, self.device, HOST if is_on_host else self.device)
        if not options.has_tags:
            link.host = own_gloo(range(self.schedule.workers), self.watch, "messages")
        return link

    @property
    def cells(self) -> list[Cell]:
        """The cells of this rank, in the order of its program."""
        return [c for i in self.program for c in i.cells if i.kind == "compute"]

    @property
    def stored(self) -> list[Tensor]:
        """The local parameters and buffers, which no offload moves."""
        roots = self.placement.roots()
        held = (each for root in roots for each in (*root.parameters(), *root.buffers()))
        return [local(each.detach()) for each in held]

    def copies(self) -> Copies:
        options = self.options
        return Copies(self.placement, options.stages, options.tied, self.sums.ties)

    def state(self, names: Names | None) -> State:
        watch, group = self.watch, self.options.group
        return State(self.placement, self.averages, watch, group, names, self.sums.ties)

    def _make_shards(self) -> Shards | None:
        if self.head is None:
            return None
        options = self.options
        if self.placement.loss is not None and any(True for _ in self.placement.loss.parameters()):
            raise PipelineError(
                "the loss has parameters; a head in shards computes the mean cross-entropy itself"
            )
        return Shards(
            self.head,
            self.embedding,
            self.schedule,
            self.placement,
            self.program,
            options.group,
            self.watch,
            self.device,
            options.loss,
        )

    # Optimizers

    def _make_optimizers(self) -> dict[StageKey, Steps]:
        given = self.options.optimizer
        if given is None:
            return {}
        cells = [cell for cell in self.cells if cell.phase == "O"]
        if not cells and self.placement.stages:
            raise PipelineError(
                "`optimizer` is given, but the schedule has no O cells on this rank: add them with "
                "transform('pipe-add-optimizer'), or step after each step of the runtime"
            )
        made: dict[StageKey, Steps] = {}
        stepped: set[int] = set()
        late = self.sums.find_late()
        for cell in cells:
            key = cell.path, cell.stage
            owned = self.placement.owned(key)
            if self.placement.loss is not None and key[1] == self.placement.last[key[0]]:
                owned += select_trained(self.placement.loss.parameters())
            if self.placement.runs_shards(key):
                owned += select_trained(self.placement.shard_parameters())
            owned = [p for p in owned if id(p) not in stepped or id(p) not in late]
            twice = [p for p in owned if id(p) in stepped]
            if twice:
                raise PipelineError(
                    f"a parameter of shape {list(twice[0].shape)} belongs to several stages of "
                    f"this rank, also to {show(key)}, so that several O would step it; step after "
                    "each step of the runtime instead"
                )
            stepped.update(map(id, owned))
            if owned:
                made[key] = _optimizer(given, key, owned)
                self._owned[key] = owned
        left = [p for p in self.placement.parameters() if id(p) not in stepped]
        if left:
            raise PipelineError(
                f"{len(left)} parameters of this rank belong to no O cell, for example one of "
                f"shape {list(left[0].shape)}"
            )
        return made

    def _check_steps(self) -> None:
        groups = [getattr(each, "param_groups", None) for each in self.optimizers.values()]
        if None in groups:
            return  # an object of the caller that does not list its parameters
        known = {id(p) for each in groups for group in each or () for p in group["params"]}
        left = [p for p in self.placement.parameters() if id(p) not in known]
        if left:
            raise PipelineError(
                f"{len(left)} parameters of this rank are trained now that no optimizer of its O "
                f"cells has, for example one of shape {list(left[0].shape)}; add them with "
                "runtime.optimizers[path, stage].add_param_group, or train them before the runtime "
                "is made"
            )

    def _make_steppers(self) -> dict[StageKey, Callable[[], Any]]:
        """Returns the functions that O calls. Optimizers of tied parameters step at the end of the
        step, as optimizers of the loss do: their gradients are complete when the last stage has
        run, for which O cannot wait.
        """
        late = self.sums.find_late()
        steppers: dict[StageKey, Callable[[], Any]] = {}
        for key, optimizer in self.optimizers.items():
            owned = self._owned[key]
            if any(id(parameter) in late for parameter in owned):
                self.around.late.append(optimizer.step)
                continue
            ids = set(map(id, owned))
            shared = [each for each in self.sums.means if ids & set(map(id, each.parameters))]
            steppers[key] = partial(self._finish_and_step, shared, optimizer)
        return steppers

    def _finish_and_step(self, means: Sequence[Shared], optimizer: Steps) -> None:
        for shared in means:
            shared.finish(self.watch, lambda name=shared.name: name)  # type: ignore[misc]
        optimizer.step()

    # Gradients of several ranks

    def _meet(self) -> list[Tie]:
        """Meets the other ranks for the first time; returns the ties that they know together."""
        own = self.averages.own
        pipelines = 1 if own is None else own.size
        ties = ties_here(self.placement, self.options.tied or (), self.options.stages)
        used = self.averages.used_patterns
        buffers = [[list(place) for place in places] for places in self._find_shared_buffers()]
        said = self.watch.meet("start", [self.options.digest, pipelines, ties, used, buffers])
        self._is_guarded = all(theirs == buffers for *_, theirs in said)
        for rank, (digest, beside, *_) in enumerate(said):
            if digest != self.options.digest:
                raise PipelineError(
                    f"rank {rank} has another schedule, or other options, than this rank"
                )
            if beside != pipelines:
                raise PipelineError(
                    f"`data_parallel` has {beside} pipelines on rank {rank}, but {pipelines} on "
                    "this rank; give all ranks of a pipeline the same dimension of the mesh"
                )
        refuse_unused(self.options.expert_parallel, [theirs for *_, theirs, _ in said])
        known = [theirs for _, _, theirs, *_ in said]
        held: list[Any] = []
        if tokens := tokens_in(known):
            held = self.watch.meet("ties", places_here(self.placement, tokens))
        return find_ties(self.placement, known, held)

    def _find_shared_buffers(self) -> list[list[Place]]:
        """Returns the buffers that several blocks of the model have."""
        if not all(isinstance(each, SequentialStage) for each in self.placement.modules.values()):
            return []
        groups = [g for origin in self.placement.origins for g in origin.groups("_buffers")]
        return [[(block, block + 1, name) for block, name in group] for group in groups]

    def _agree(self) -> None:
        """Checks that the ranks agree on everything that must be the same."""
        mine: dict[str, Any] = {}
        if isinstance(self.options.stages, SequentialStages):
            mine["the division of the model"] = list(self.options.stages.sizes)
        for _, blocks, workers in self.sums.blocks():
            if self.watch.rank in workers:
                shapes = shapes_of(self.sums.of_blocks(blocks))
                mine[blocks_text(blocks)] = [*shapes, *self._describe_copies(blocks)]
        if self.placement.loss is not None:
            mine["the loss"] = shapes_of(list(self.placement.loss.parameters()))
        if (head := self.head) is not None:
            bias = "with" if head.bias is not None else "without"
            what = f"{head.vocabulary} entries of {head.weight.shape[1]} {bias} bias"
            mine["the head"] = [f"{what}, {head.weight.dtype}, ignoring {head.ignored}"]
        if (embedding := self.embedding) is not None:
            how = "" if head is None or embedding.weight is not head.weight else ", tied"
            what = f"{embedding.vocabulary} entries of {embedding.weight.shape[1]}{how}"
            mine["the embedding"] = [f"{what}, {embedding.weight.dtype}"]
        for number, tie in enumerate(self.sums.ties):
            if parameters := tie.parameters(self.placement):
                mine[f"tie {number}, {tie}"] = shapes_of(parameters[:1])
                if any(shapes_of([p]) != shapes_of(parameters[:1]) for p in parameters):
                    raise PipelineError(f"{tie} are tied, and have different shapes")
        for rank, theirs in enumerate(self.watch.meet("parameters", mine)):
            for what in mine.keys() & theirs.keys():
                if mine[what] != theirs[what]:
                    raise PipelineError(
                        f"{what}: {theirs[what]} on rank {rank}, but {mine[what]} on this rank"
                    )
        all_shapes = {
            show(key): shapes_of([*module.parameters(), *module.buffers()])
            for key, module in self._list_averaged_modules()
        }
        self.averages.agree([self.watch.rank, self.options.digest, all_shapes])

    def _describe_copies(self, blocks: range) -> list[str]:
        """Returns the values on which replicas must agree in addition to their parameters."""
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

    def _list_averaged_modules(self) -> list[tuple[StageKey, nn.Module]]:
        """Returns modules without DTensors, whose parts may have different sizes."""
        return [
            (key, module)
            for key, module in self.placement.modules.items()
            if not any(isinstance(parameter, DTensor) for parameter in module.parameters())
        ]

    def _shard(self) -> None:
        """Gathers and reduces parameters sharded by FSDP."""
        cells = self.cells
        for unit in units_of(self.placement, self.watch, self.device):
            own = [
                number
                for number, cell in enumerate(cells)
                if cell.phase in "FRBIW" and (cell.path, cell.stage) in unit.keys
            ]
            before, after = self.around.before, self.around.after
            for number in own if unit.reshards else own[:1]:
                if number > 0 and number - 1 not in own:
                    before.setdefault(mark(cells[number - 1]), []).append(unit.gather_ahead)
                before.setdefault(mark(cells[number]), []).append(unit.gather)
                if unit.reshards and number + 1 not in own and number != own[-1]:
                    after.setdefault(mark(cells[number]), []).append(unit.release)
            self.around.add(cells, unit.keys, unit.reduce)
            self.around.ends.append(unit.release)


def _optimizer(given: Optimizers, key: StageKey, owned: Sequence[nn.Parameter]) -> Steps:
    if not isinstance(given, Mapping):
        return given(list(owned))
    if key not in given:
        raise PipelineError(f"`optimizer` has none for {show(key)}, whose O is on this rank")
    found = given[key]
    known = set(map(id, owned))
    for group in getattr(found, "param_groups", []):
        if any(id(p) not in known for p in group["params"]):
            raise PipelineError(
                f"the optimizer of {show(key)} steps parameters that this stage does not own, "
                "before their gradients are complete"
            )
    return found


def check_program(schedule: Schedule, placement: Placement, program: Sequence[Instruction]) -> None:
    """Checks that every microbatch runs forward, and backward if the stage has one, through each
    stage of this rank.
    """
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
            kind = placement.backward_of(*key)
            of_weights = kind == "input" or at in done["W"]
            backwards = (at in done["B"]) + (at in done["I"] and of_weights)
            if at not in done["F"] or backwards != (kind != "none"):
                raise PipelineError(
                    f"microbatch {number} does not run forward and backward through {show(key)} "
                    f"on rank {placement.rank}: the program is not a complete step"
                )
    if placement.empty_stage() is not None and len(paths) > 1:
        raise PipelineError(
            "a stage without blocks has parameters, whose replicas no all-reduce would sum; count "
            "them to a block"
        )

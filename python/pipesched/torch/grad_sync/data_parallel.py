"""Pipelines side by side: the same stages on several ranks, each with separate batches.

A device mesh has a dimension for the pipeline and others along which pipelines are repeated. Along
some each pipeline has a part of every tensor (tensor parallelism by the modules); along the others
the gradients of a stage are averaged, by one of three means:

    data_parallel=            the runtime sums buckets after the last backward of a stage
    DistributedDataParallel   around a stage: the same, over its process group
    fully_shard               FSDP2 gathers the parameters of a stage before its first forward, and
                              reduces its gradients after its last backward; with
                              `reshard_after_forward=True` around each cell

DDP's own reducer does not support split backwards, so the runtime runs the module inside DDP and
sums itself. FSDP2's hooks are switched off, as in `torch.distributed.pipelining`, and it is called
when gradients are complete.

Pipelines may divide parameters, as experts: the gradient of a part is then a sum over the pipelines
already, and the mean is that sum divided by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from pipesched import Cell

from ..core.errors import PipelineError
from ..core.groups import Peers
from ..core.values import local
from ..core.watch import Watch
from ..partition.placement import Placement, StageKey, show


class Divided(Peers):
    """The ranks that hold a part: one. `divisor` is the number of pipelines."""

    def __init__(self, beside: Peers) -> None:
        self.beside = beside
        """The ranks that hold the other parts."""
        self.group = beside.group
        self.rank, self.size, self.divisor = 0, 1, beside.size

    def begin_sum(self, buffer: Tensor) -> Any:
        """Sums nothing; returns a handle that is complete."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def meet(self, name: str, saying: Any) -> list[Any]:
        return [saying]


def check_patterns(patterns: Any) -> tuple[str, ...]:
    is_list = isinstance(patterns, Sequence) and not isinstance(patterns, str)
    if not is_list or not all(isinstance(each, str) for each in patterns):
        raise PipelineError(
            f"`expert_parallel` is {patterns!r}; wanted a list of patterns of names of parameters, "
            'as ["*.experts.*"]'
        )
    return tuple(patterns)


def is_divided(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def refuse_unused(patterns: Sequence[str], used: Iterable[Sequence[str]]) -> None:
    """Refuses a pattern that no rank has used: its gradients would be averaged."""
    known = {pattern for theirs in used for pattern in theirs}
    for pattern in patterns:
        if pattern not in known:
            raise PipelineError(
                f"`expert_parallel` has {pattern!r}, which is the name of no parameter in a stage "
                "of any rank (* is any text, also with dots)"
            )


def group_of(given: dist.ProcessGroup | DeviceMesh) -> dist.ProcessGroup:
    if not isinstance(given, DeviceMesh):
        return given
    if given.ndim != 1:
        raise PipelineError(
            f"`data_parallel` is a mesh of {given.ndim} dimensions {given.mesh_dim_names}; wanted "
            'one of them, as mesh["dp"], or a process group'
        )
    return given.get_group()


BufferRule = Literal["own", "average", "first"]
"""How buffers that several ranks hold are treated (buffers.py)."""
Mark = tuple[str, int, int]
"""Phase, stage and microbatch of a cell."""


def mark(cell: Cell) -> Mark:
    return cell.phase, cell.stage, cell.microbatch


@dataclass
class Around:
    """Hooks that are called around cells."""

    before: dict[Mark, list[Callable[[], list[Tensor]]]] = field(default_factory=dict)
    """Called before a cell; returns tensors that no offload may move."""
    after: dict[Mark, list[Callable[[], None]]] = field(default_factory=dict)
    late: list[Callable[[], Any]] = field(default_factory=list)
    """Called at the end of a training step, after all sums of gradients."""
    ends: list[Callable[[], None]] = field(default_factory=list)
    """Called at the end of each pass."""

    def add(self, cells: Sequence[Cell], keys: set[StageKey], last: Callable[[], None]) -> None:
        """Registers a function that is called after the last backward of some stages, if they have
        one.
        """
        found = [c for c in cells if c.phase in ("B", "I", "W") and (c.path, c.stage) in keys]
        if found:
            self.after.setdefault(mark(found[-1]), []).append(last)


class Unit:
    """Stages of this rank under `fully_shard` that have modules in common; mostly a single one."""

    def __init__(self, watch: Watch, device: torch.device) -> None:
        self.keys: set[StageKey] = set()
        self.modules: list[FSDPModule] = []
        """The FSDP modules in the order of `modules()`, in which all ranks gather and reduce."""
        self.reshards = False
        """Whether the caller wants parameters to be released after each forward and backward."""
        self._watch, self._device = watch, device
        self._is_whole = False
        self._coming: list[Any] = []

    @property
    def name(self) -> str:
        return " and ".join(show(key) for key in sorted(self.keys))

    def _call(self, call: Callable[[], Any], what: str) -> None:
        """Calls FSDP. On a host its collectives block, so that another thread calls it."""
        if self._device.type == "cpu":
            self._watch.wait(call, lambda: what)
        else:
            call()

    def _set(self, is_last: bool) -> None:
        for module in self.modules:
            module.set_is_last_backward(is_last)
            module.set_requires_gradient_sync(is_last, recurse=False)
            module.set_reshard_after_backward(is_last, recurse=False)

    def gather_ahead(self) -> list[Tensor]:
        """Starts to gather the parameters, during the cell before the ones that need them."""
        if not self._is_whole and not self._coming:
            self._set(is_last=False)
            self._coming = [module.unshard(async_op=True) for module in self.modules]
        return []

    def gather(self) -> list[Tensor]:
        if not self._is_whole:
            self.gather_ahead()
            coming, self._coming = self._coming, []
            self._call(
                lambda: [each.wait() for each in coming if each is not None],
                f"the parameters of {self.name} from other pipelines",
            )
        self._is_whole = True
        whole: list[Any] = list(self.modules)
        return [local(p) for module in whole for p in module.parameters()]

    def reduce(self) -> None:
        """Reduces the gradients to the shards of this rank, and releases the parameters."""
        self._set(is_last=True)

        def call() -> None:
            for module in self.modules:
                state: Any = module._get_fsdp_state()
                if state._is_root:  # runs the callbacks of autograd
                    state._root_post_backward_final_callback()

        self._call(call, f"the gradients of {self.name} from other pipelines")
        self.release()

    def release(self) -> None:
        if self._coming:
            self.gather()
        if self._is_whole:
            for module in self.modules:
                module.reshard()
        self._is_whole = False


def units_of(placement: Placement, watch: Watch, device: torch.device) -> list[Unit]:
    """Returns the FSDP units of this rank."""
    units: list[Unit] = []
    for key, root in placement.modules.items():
        modules: list[FSDPModule] = [m for m in root.modules() if isinstance(m, FSDPModule)]
        if not modules:
            continue
        unit = Unit(watch, device)
        same = [u for u in units if set(map(id, u.modules)) & set(map(id, modules))]
        for each in same:
            unit.keys |= each.keys
            modules = [*each.modules, *modules]
            units.remove(each)
        unit.keys.add(key)
        unit.modules = list({id(module): module for module in modules}.values())
        unit.reshards = any(each.reshards for each in same) or any(map(_reshards, modules))
        units.append(unit)
    for unit in units:
        for module in unit.modules:
            _keep_whole(module)
    return units


def _reshards(module: FSDPModule) -> bool:
    """Returns whether the caller asked for it, not `fully_shard` by itself."""
    untyped: Any = module
    state = untyped._get_fsdp_state()
    is_chosen = state._auto_reshard_after_forward is False
    return is_chosen and any(g._reshard_after_forward for g in state._fsdp_param_groups)


def _keep_whole(module: FSDPModule) -> None:
    """Makes forwards keep the parameters whole for the cells that follow."""
    untyped: Any = module
    groups = untyped._get_fsdp_state()._fsdp_param_groups
    if any(group._reshard_after_forward for group in groups):  # replicate() does not reshard
        module.set_reshard_after_forward(False, recurse=False)


# Refused modules


def check_modules(placement: Placement) -> None:
    """Refuses modules that the runtime would train wrongly."""
    for key, root in placement.modules.items():
        for name, module in root.named_modules():
            where = f"{show(key)} has {type(module).__name__} at {name!r}"
            if isinstance(module, FullyShardedDataParallel):
                raise PipelineError(f"{where}: use fully_shard (FSDP2) instead")
            if isinstance(module, DistributedDataParallel):
                raise PipelineError(f"{where}: wrap a whole stage in DDP, not a part of one")
    for key, wrapper in placement.wrappers.items():
        _check_wrapper(key, wrapper)
    roots = [(k, m) for k, m in placement.modules.items() if isinstance(m, FSDPModule)]
    for key, root in roots:
        for other, module in placement.modules.items():
            inside = set(map(id, root.modules())) & set(map(id, module.modules()))
            if module is not root and inside:
                raise PipelineError(
                    f"{show(key)} is under fully_shard as a whole, and {show(other)} has some of "
                    "its blocks; apply fully_shard to blocks alone"
                )


def _check_wrapper(key: StageKey, wrapper: DistributedDataParallel) -> None:
    untyped: Any = wrapper
    lost = {
        "a communication hook": getattr(untyped, "_comm_hooks", None),
        "mixed precision": getattr(untyped, "mixed_precision", None),
        "parameters to ignore": getattr(untyped, "parameters_to_ignore", None),
    }
    for what, found in lost.items():
        if found:
            raise PipelineError(
                f"{show(key)} is under DDP with {what}, which the runtime would not use: it "
                "averages gradients itself, behind the last backward of a stage; leave it out"
            )
    if any(isinstance(module, FSDPModule) for module in wrapper.module.modules()):
        raise PipelineError(f"{show(key)} is under DDP and fully_shard; use a mesh of both (HSDP)")


def check_apart(group: dist.ProcessGroup, ranks: Iterable[int], what: str) -> None:
    """Refuses to repeat stages over ranks of the pipeline itself."""
    pipeline = dist.get_process_group_ranks(group)
    others = sorted(set(ranks))
    both = [pipeline.index(rank) for rank in others if rank in pipeline]
    if both != [dist.get_rank(group)]:
        raise PipelineError(
            f"{what} is over ranks {others} of the job, of which ranks {both} of this pipeline; "
            f"wanted ranks of other pipelines and this rank {dist.get_rank(group)}: take another "
            "dimension of the mesh"
        )


def check_units(group: dist.ProcessGroup, placement: Placement) -> None:
    """Refuses shards that other ranks of the pipeline hold."""
    for key, root in placement.modules.items():
        meshes = {p.device_mesh for p in root.parameters() if isinstance(p, DTensor)}
        for mesh in meshes:
            check_apart(group, mesh.mesh.flatten().tolist(), f"a DTensor of {show(key)}")


def _data_groups(root: nn.Module) -> list[dist.ProcessGroup]:
    """Returns the groups over which FSDP averages the gradients of a stage."""
    found: dict[tuple[int, ...], dist.ProcessGroup] = {}
    for module in root.modules():
        untyped: Any = module
        is_sharded = isinstance(module, FSDPModule)
        for state in untyped._get_fsdp_state()._fsdp_param_groups if is_sharded else ():
            for group in state.mesh_info.mesh.get_all_groups():
                found[_ranks(group)] = group
    return list(found.values())


def _tensor_groups(root: nn.Module) -> list[dist.ProcessGroup]:
    """Returns the groups over which the parameters of a stage are divided otherwise."""
    data = set(map(_ranks, _data_groups(root)))
    meshes = [p.device_mesh for p in root.parameters() if isinstance(p, DTensor)]
    groups = [group for mesh in meshes for group in mesh.get_all_groups()]
    return list({_ranks(g): g for g in groups if _ranks(g) not in data}.values())


def _ranks(group: dist.ProcessGroup) -> tuple[int, ...]:
    return tuple(dist.get_process_group_ranks(group))


class Averages:
    """The pipelines over which each parameter is averaged; patterns: names of divided ones."""

    def __init__(
        self,
        placement: Placement,
        group: dist.ProcessGroup,
        given: dist.ProcessGroup | DeviceMesh | None,
        patterns: Sequence[str],
        watch: Watch,
    ) -> None:
        self._known: dict[Any, Peers] = {}
        self._of: dict[int, Peers] = {}
        self._of_stage: dict[StageKey, list[Peers]] = {}
        self._plain: dict[StageKey, Peers | None] = {}
        self._placement = placement
        self._wrappers = placement.wrappers
        self._watch, self.pipeline = watch, group
        check_modules(placement)
        check_units(group, placement)
        own = None if given is None else group_of(given)
        self.own = None if own is None else self._peers(own, "`data_parallel`")
        if patterns and self.own is None:
            raise PipelineError(
                "`expert_parallel` names parameters that pipelines divide, and no `data_parallel` "
                "says which ranks these are"
            )
        self.patterns = tuple(patterns)
        self.divided = Divided(self.own) if patterns and self.own is not None else None
        """For parameters that are divided over these pipelines."""
        for key, root in placement.modules.items():
            wrapper = placement.wrappers.get(key)
            peers = self.own
            if wrapper is not None:
                peers = self._peers(wrapper.process_group, f"DDP of {show(key)}")
                if self.own not in (None, peers):
                    raise PipelineError(
                        f"{show(key)} is under DDP over another process group than "
                        "`data_parallel`; leave one of them out"
                    )
            self._add(key, root, peers)
        self.look()

    def _peers(self, group: dist.ProcessGroup, what: str, is_inside: bool = False) -> Peers:
        ranks = _ranks(group)
        if ranks not in self._known:
            check_apart(self.pipeline, ranks, what)
            self._known[ranks] = Peers(group, self._watch, is_inside)
        return self._known[ranks]

    def _add(self, key: StageKey, root: nn.Module, peers: Peers | None) -> None:
        groups = _data_groups(root)
        self._plain[key] = peers
        self._of_stage[key] = [] if peers is None else [peers]
        if groups:
            what = f"fully_shard of {show(key)}"
            self._of_stage[key] = [self._peers(group, what) for group in groups]
        for group in _tensor_groups(root):
            self._peers(group, f"tensor parallelism of {show(key)}", is_inside=True)

    def look(self) -> None:
        """Finds out over which pipelines the parameters of this rank are averaged."""
        self._of = {}
        for key, root in self._placement.modules.items():
            self._note(root, self._plain[key], _data_groups(root), show(key))
            for name, parameter in self._parts_of(root):
                if id(parameter) not in self._of or self.divided is None:
                    raise PipelineError(
                        f"`expert_parallel` names {name!r} of {show(key)}, which fully_shard "
                        "divides among the same ranks and averages; leave it out there"
                    )
                self._of[id(parameter)] = self.divided
        if self._placement.loss is not None:
            last = [k for k in self._placement.modules if k[1] == self._placement.last[k[0]]]
            groups = [g for key in last for g in _data_groups(self._placement.modules[key])]
            self._note(self._placement.loss, self._plain[last[0]], groups, "the loss")
        for shard in self._placement.shards:
            self._note(shard, self.own, [], "the shards of the vocabulary")
            if self.own is None and self._known:
                raise PipelineError(
                    "stages are averaged over other pipelines, and a head in shards is in no "
                    "stage; give `data_parallel`, which averages it too"
                )

    def _note(
        self, root: nn.Module, peers: Peers | None, groups: list[dist.ProcessGroup], what: str
    ) -> None:
        data = set(map(_ranks, groups))
        for name, parameter in root.named_parameters():
            over: set[tuple[int, ...]] = set()
            if isinstance(parameter, DTensor):
                over = set(map(_ranks, parameter.device_mesh.get_all_groups()))
            if data & over:
                continue  # FSDP averages it
            if peers is not None:
                if _ranks(peers.group) in over:
                    raise PipelineError(
                        f"{what} has a DTensor as parameter {name!r} over the ranks of "
                        "`data_parallel`, which would average its parts; take another dimension "
                        "of the mesh"
                    )
                self._of[id(parameter)] = peers
            elif parameter.requires_grad and any(len(ranks) > 1 for ranks in data):
                raise PipelineError(
                    f"{what} has a parameter {name!r} that fully_shard leaves out, whose "
                    "gradients nothing would average; give `data_parallel`"
                )

    def _parts_of(self, root: nn.Module) -> list[tuple[str, nn.Parameter]]:
        found = root.named_parameters()
        return [(name, p) for name, p in found if is_divided(name, self.patterns)]

    @property
    def used_patterns(self) -> list[str]:
        """The patterns that are names of parameters of this rank."""
        roots = self._placement.modules.values()
        names = [name for root in roots for name, _ in self._parts_of(root)]
        return [each for each in self.patterns if any(is_divided(n, [each]) for n in names)]

    def is_plain(self, key: StageKey) -> bool:
        return self._plain[key] is not None

    @property
    def known(self) -> list[Peers]:
        return list(self._known.values())

    def of(self, parameter: nn.Parameter) -> Peers | None:
        return self._of.get(id(parameter))

    def peers_of_stage(self, key: StageKey) -> list[Peers]:
        """Returns the ranks of other pipelines with the same stage, by dimension of the mesh."""
        return self._of_stage[key]

    def peers_of_losses(self) -> list[Peers]:
        """Returns the pipelines that also compute the losses of this rank, by dimension."""
        last = [key for key in self._placement.modules if key[1] == self._placement.last[key[0]]]
        if last and not self._placement.shards:
            return self.peers_of_stage(last[0])
        return [] if self.own is None else [self.own]

    def buffer_rule(self, key: StageKey) -> BufferRule:
        """Returns DDP's own treatment of the buffers of a stage."""
        wrapper: Any = self._wrappers.get(key)
        return "first" if wrapper is not None and wrapper.broadcast_buffers else "own"

    def agree(self, saying: Any) -> None:
        """Raises if the same rank of another pipeline has another schedule or other stages."""
        for peers in self.known:
            said = peers.meet("start", saying)
            for number, theirs in enumerate(said):
                if theirs != saying:
                    raise PipelineError(
                        f"pipeline {number} has another schedule, other stages or other options "
                        f"on rank {theirs[0]} than pipeline {peers.rank} on rank {saying[0]}, with "
                        "which its gradients would be averaged"
                    )

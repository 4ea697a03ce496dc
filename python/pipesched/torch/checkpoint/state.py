"""State of a pipeline under the names of the whole model, so that any other placement, or the model
without a pipeline, can load it.

    {"model": {"3.weight": tensor, ...},
     "optimizer": {"state.3.weight.exp_avg": tensor, ..., "param_groups.3.weight.lr": 0.1, ...},
     "loss": {"weights": tensor, ...}, "others": {"scheduler": bytes, ...}, "random": {"0": bytes}}

The state of optimizers is flat, as `torch.distributed.checkpoint.state_dict` makes it with
`flatten_optimizer_state_dict`: every parameter has separate entries, so that no grouping of them is
stored. Each rank has the entries of its stages, and its rows of a head in shards. Files have the
format of `torch.distributed.checkpoint`, which stores shared entries of ranks once, and cuts and
joins shards.
"""

from __future__ import annotations

import io
import math
import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.tensor import DTensor, distribute_tensor

from ..core.errors import PipelineError
from ..core.random import random_states, set_random_states
from ..core.watch import Watch
from ..grad_sync.data_parallel import Averages
from ..grad_sync.ties import Tie
from ..partition.placement import Placement, StageKey, show
from ..partition.split import SequentialStage
from ..vocabulary import VocabularyEmbedding, VocabularyHead, head_rows
from .files import READS, WRITES, Progress, Stored, read_into, write

# Rows of a head in shards


class Rows(Tensor):
    """The rows of a tensor that are here; `size()` is the whole tensor's."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    rows: slice
    whole: int

    @staticmethod
    def of(own: Tensor, rows: slice, whole: int) -> Rows:
        made = own.detach().as_subclass(Rows)
        made.rows, made.whole = rows, whole
        return made

    @property
    def own(self) -> Tensor:
        return self.as_subclass(Tensor)

    def size(self, dim: int | None = None) -> Any:
        found = torch.Size([self.whole, *self.own.shape[1:]])
        return found if dim is None else found[dim]

    def _chunk(self) -> ChunkStorageMetadata:
        offsets = [self.rows.start, *(0 for _ in self.own.shape[1:])]
        return ChunkStorageMetadata(torch.Size(offsets), self.own.shape)

    # Methods that torch.distributed.checkpoint calls

    def __create_write_items__(self, name: str, _: Any) -> list[WriteItem]:
        if not self.own.numel():
            return []
        chunk = self._chunk()
        data = TensorWriteData(chunk, TensorProperties.create_from_tensor(self.own), self.size())
        index = MetadataIndex(name, chunk.offsets)
        return [WriteItem(index, WriteItemType.SHARD, tensor_data=data)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [self._chunk()] if self.own.numel() else []

    def __get_tensor_shard__(self, _: MetadataIndex) -> Tensor:
        return self.own


def gather_rows(
    own: Tensor, rows: slice, most: int, whole: int, group: dist.ProcessGroup, to: int
) -> Tensor | None:
    """Returns the whole on the rank `to`, None on others; `most` are the rows of the first rank."""
    sent = own.new_zeros((most, *own.shape[1:]))
    sent[: len(own)] = own
    is_here = dist.get_rank(group) == to
    parts = [torch.empty_like(sent) for _ in range(dist.get_world_size(group))] if is_here else None
    dist.gather(sent, parts, group=group, group_dst=to)
    return None if parts is None else torch.cat(parts)[:whole].clone()


def as_bytes(state: Any) -> Tensor:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def from_bytes(contents: Tensor) -> Any:
    try:
        return torch.load(io.BytesIO(contents.numpy().tobytes()), weights_only=True)
    except pickle.UnpicklingError as error:
        first = str(error).split("\n", 1)[0]
        raise PipelineError(f"a state is not loaded, since it may run code: {first}") from None


Names = Callable[[int, int, str], str] | Mapping[StageKey, str]
"""Maps names of a stage to names of the whole model: a function from (path, stage, name), or the
name of each stage in it, by (path, stage), which is put in front."""
Optimizers = torch.optim.Optimizer | Iterable[torch.optim.Optimizer]
Flat = Mapping[str, Any]
SHOWN = 5


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


class Misfit(PipelineError):
    """A state does not fit. All ranks raise this together."""


class State:
    """The part of the state of the model and its optimizers that one rank has."""

    def __init__(
        self,
        placement: Placement,
        averages: Averages,
        watch: Watch,
        group: dist.ProcessGroup,
        names: Names | None,
        ties: Sequence[Tie],
    ) -> None:
        self._placement, self._averages, self._ties = placement, averages, ties
        self._watch, self._group = watch, group
        self._names = names
        self._meetings = 0

    # Names

    def _whole_name(self, key: StageKey, name: str) -> str:
        given = self._names
        if given is None:
            module = self._placement.modules[key]
            if isinstance(module, SequentialStage):
                return module.whole_name(name)
            raise PipelineError(
                f"what {show(key)} is called in the whole model is not known: give `names`, a "
                "function from (path, stage, name) or a name for each (path, stage), or take "
                "stages from split_sequential"
            )
        if not isinstance(given, Mapping):
            return given(*key, name)
        if key not in given:
            raise PipelineError(f"`names` has none for {show(key)}; it has {sorted(given)}")
        prefix = given[key].removesuffix(".")
        return f"{prefix}.{name}" if prefix else name

    def _own(self) -> dict[str, Any]:
        """Returns parameters and buffers by name."""
        found: dict[str, Any] = dict(self._rows_of_head())
        for key, module in self._placement.modules.items():
            for name, value in module.state_dict(keep_vars=True).items():
                whole = self._whole_name(key, name)
                if whole in found and found[whole] is not value:
                    raise PipelineError(
                        f"{name!r} of {show(key)} and something else of this rank are both "
                        f"{whole!r} in the whole model; `names` must tell them apart"
                    )
                found[whole] = value
        return found

    def model(self) -> dict[str, Any]:
        """Returns parameters and buffers; of a head in shards the rows of this rank."""
        own = self._own().items()
        flat = {name: v.detach() if isinstance(v, Tensor) else v for name, v in own}
        return self._as_rows(flat, self._rows_of_head())

    def _parameter_names(self) -> dict[int, list[str]]:
        """Returns the names of each parameter, by id; the first is its own."""
        names: dict[int, list[str]] = {}
        for name, value in self._own().items():
            names.setdefault(id(value), []).append(name)
        for name, value in self._loss().items():
            names.setdefault(id(value), []).append(f"loss.{name}")
        head = self._head
        if head is not None and head.whole is not None:
            names[id(head.weight)] += head.tied_names
            names.setdefault(id(head.whole), []).append(f"{head.name}.weight")
        return names

    # A head in shards

    @property
    def _head(self) -> VocabularyHead | None:
        shards = self._placement.shards
        return next((each for each in shards if isinstance(each, VocabularyHead)), None)

    def _rows_of_head(self) -> dict[str, nn.Parameter]:
        """Returns the parameters of head and embedding that have some rows on this rank."""
        found: dict[str, nn.Parameter] = {}
        for shard in reversed(self._placement.shards):
            if isinstance(shard, (VocabularyEmbedding, VocabularyHead)):
                found |= {f"{shard.name}.{n}": p for n, p in shard.named_parameters()}
        return found

    def _whole_shape(self, own: Any) -> str:
        if self._is_shard(own):
            assert self._head is not None
            return f"shape {[self._head.vocabulary, *own.shape[1:]]}"
        return _shape(own)

    def _is_shard(self, own: Any) -> bool:
        return any(own is parameter for parameter in self._rows_of_head().values())

    def _as_rows(self, flat: dict[str, Any], cut: Mapping[str, nn.Parameter]) -> dict[str, Any]:
        """Returns values by name, with values cut as a parameter of the head as rows."""
        head = self._head
        for name, parameter in cut.items() if head is not None else ():
            assert head is not None
            value = flat[name]
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                flat[name] = Rows.of(value, head.rows, head.vocabulary)
            elif isinstance(value, Tensor) and value.numel() > 1:
                raise PipelineError(
                    f"{name!r} has shape {list(value.shape)} for a shard of shape "
                    f"{list(parameter.shape)} of the head, so that those of several ranks cannot "
                    "be put together"
                )
        return flat

    def gather_rows_of_head(self, flat: dict[str, Any]) -> dict[str, Any]:
        """Moves the whole head to the rank of the last stage of the first path."""
        head = self._head
        if head is None:
            return flat
        chosen = sorted(name for name in flat if self._is_of_head(name))
        said = self._meet(chosen)
        if any(other != chosen for other in said):
            raise PipelineError(
                "the optimizers of the ranks hold different things of the head in shards: "
                f"{_list_names(chosen)} here"
            )
        to = self._placement.find_worker(0, self._placement.last[0])
        most = head_rows(head.vocabulary, 0, self._watch.size)
        is_tied = head.whole is not None
        for name in chosen:
            value = flat.pop(name)
            if is_tied and name.startswith(("state.", "param_groups.")):
                continue  # The embedding has the same, and the whole model has it once.
            if isinstance(value, Rows):
                value = gather_rows(
                    value.own, head.rows, most.stop, head.vocabulary, self._group, to
                )
            if self._watch.rank == to:
                flat[name] = value
        return flat

    def _is_of_head(self, name: str) -> bool:
        parts = [part for part in ("", "state.", "param_groups.") if name.startswith(part)]
        own = self._rows_of_head()
        return any(f"{name[len(part) :]}.".startswith(f"{each}.") for part in parts for each in own)

    def _loss(self) -> dict[str, Any]:
        loss = self._placement.loss
        return {} if loss is None else dict(loss.state_dict(keep_vars=True))

    # Checks, with which all ranks agree

    def _meet(self, saying: Any) -> list[Any]:
        self._meetings += 1
        with self._watch.looking():
            return self._watch.meet(f"state/{self._meetings}", saying)

    def _with_beside(self, names: list[str]) -> list[str]:
        """Adds the names of the pipelines that divide parameters with this one."""
        divided = self._averages.divided
        if divided is None:
            return names
        with self._watch.looking():
            said = divided.beside.meet(f"names/{self._meetings}", names)
        return list(dict.fromkeys(name for theirs in said for name in theirs))

    def _agree(self, what: str, mine: Mapping[str, str], found: Flat | None, text: str) -> None:
        """Raises on all ranks if one misses a name or a shape differs, or if no rank has a name."""
        problems = [text] if text else []
        given = dict.fromkeys(mine) if found is None else found
        missing = [name for name in mine if name not in given]
        if missing:
            problems.append(f"misses {_list_names(missing)}")
        for name in (n for n in mine if isinstance(given.get(n), str) and mine[n]):
            if given[name] != mine[name]:
                problems.append(f"has {name!r} of {given[name]}, wanted {mine[name]}")
        known = list(mine) if found is None else self._with_beside(list(mine))
        said = self._meet([known, problems[:SHOWN]])
        everywhere = {name for names, _ in said for name in names}
        lines = [f"rank {r}: {p}" for r, (_, theirs) in enumerate(said) for p in theirs]
        unexpected = [name for name in given if name not in everywhere]
        if unexpected:
            lines.append(f"no rank has {_list_names(unexpected)}")
        if lines:
            raise Misfit(f"{what} does not fit:\n" + "\n".join(lines))

    # Loading

    def load_model(self, given: Flat) -> None:
        own = self._own()
        shapes = {name: _shape(value) for name, value in given.items()}
        text = ""
        cut: dict[str, Any] = {}
        try:
            cut = {n: self._like(own[n], value) for n, value in given.items() if n in own}
        except PipelineError as error:
            text = str(error)
        self._agree("the state", {n: self._whole_shape(v) for n, v in own.items()}, shapes, text)
        for name, parameter in self._rows_of_head().items():
            with torch.no_grad():
                parameter.copy_(cut[name])
        for key, module in self._placement.modules.items():
            names = module.state_dict(keep_vars=True)
            module.load_state_dict({name: cut[self._whole_name(key, name)] for name in names})

    def _like(self, own: Any, value: Any) -> Any:
        if isinstance(value, Rows):
            return value.own
        if isinstance(value, Tensor) and self._is_shard(own):
            assert self._head is not None
            return value[self._head.rows]
        if not isinstance(own, DTensor) or not isinstance(value, Tensor):
            if isinstance(value, DTensor):
                raise PipelineError(
                    "the state has shards (DTensor) of a whole tensor of this rank: load files"
                )
            return value
        if isinstance(value, DTensor):
            if value.device_mesh != own.device_mesh or value.placements != own.placements:
                raise PipelineError(
                    "the state is cut into other shards than this rank has: load files"
                )
            return value
        whole = value.detach().to(own.device)
        return distribute_tensor(whole, own.device_mesh, own.placements, src_data_rank=None)

    def optimizer(self, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
        """Returns the state of optimizers, flat; for a head in shards the rows that are here."""
        names = self._parameter_names()
        flat: dict[str, Any] = {}
        cut: dict[str, nn.Parameter] = {}
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    name = _name_of(parameter, names)[0]
                    own: dict[str, Any] = {}
                    _flatten(f"state.{name}", optimizer.state.get(parameter, {}), own)
                    flat.update(own)
                    if self._is_shard(parameter):
                        cut.update(dict.fromkeys(own, parameter))
                    for key, value in group.items():
                        if key != "params":
                            flat[f"param_groups.{name}.{key}"] = value
        return self._as_rows(flat, cut)

    def _tied_names(self) -> dict[int, list[str]]:
        """Returns the names of each tied parameter on all ranks, by id."""
        names = self._parameter_names()
        everything = [tie.parameters(self._placement) for tie in self._ties]
        mine = [[p for p in each if id(p) in names] for each in everything]
        if not mine:
            return {}
        said = self._meet([[n for p in each for n in names[id(p)]] for each in mine])
        known = [[name for theirs in said for name in theirs[i]] for i in range(len(mine))]
        return {id(p): known[i] for i, each in enumerate(mine) for p in each}

    def _wanted(
        self,
        keys: Iterable[str],
        optimizers: Sequence[torch.optim.Optimizer],
        tied: Mapping[int, list[str]],
    ) -> tuple[dict[int, dict[str, str]], dict[int, dict[str, str]], list[str]]:
        """Returns the keys of a flat state by parameter, and the parameters without any."""
        names = self._parameter_names()
        by_name: dict[str, list[str]] = {}
        for key in keys:
            kind, *parts = key.split(".")
            for end in range(1, len(parts)):
                by_name.setdefault(f"{kind}.{'.'.join(parts[:end])}", []).append(key)
        states: dict[int, dict[str, str]] = {}
        groups: dict[int, dict[str, str]] = {}
        missing = []
        for parameter in _parameters(optimizers):
            for found, kind in ((states, "state"), (groups, "param_groups")):
                own = [*_name_of(parameter, names), *tied.get(id(parameter), ())]
                known = [f"{kind}.{name}" for name in own]
                chosen = next((name for name in known if name in by_name), known[0])
                keys_here = by_name.get(chosen, [])
                found[id(parameter)] = {key[len(chosen) + 1 :]: key for key in keys_here}
            if not states[id(parameter)] and not groups[id(parameter)]:
                missing.append(_name_of(parameter, names)[0])
        return states, groups, missing

    def load_optimizer(self, given: Flat, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        states, groups, missing = self._wanted(given, optimizers, self._tied_names())
        text = f"misses the optimizer state of {_list_names(missing)}" if missing else ""
        made = []
        for optimizer in optimizers:
            try:
                made.append(_as_state_dict(optimizer, given, states, groups, self._nested))
            except PipelineError as error:
                text = text or str(error)
        self._agree("the state of the optimizer", {}, None, text)
        for optimizer, state in zip(optimizers, made, strict=True):
            optimizer.load_state_dict(state)

    def _nested(self, parameter: nn.Parameter, flat: dict[str, Any]) -> dict[str, Any]:
        """Returns the state of a parameter with nested dicts and new tensors."""
        state: dict[str, Any] = {}
        whole = self._whole_shape(parameter)
        for name, value in flat.items():
            *outer, last = name.split(".")
            place = state
            for each in outer:
                place = place.setdefault(each, {})
            if isinstance(value, Tensor):
                is_cut = isinstance(value, Rows) or (_shape(value) == whole and value.dim() > 0)
                value = (self._like(parameter, value) if is_cut else value).detach().clone()
            place[last] = value
        return state

    # Files

    def _everyone(self, group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
        """Returns the ranks that use the files together; None for all."""
        if group is not None:
            return group
        pipelines = math.prod(peers.size for peers in self._averages.known)
        if dist.get_world_size() == self._watch.size * pipelines:
            return None
        if pipelines == 1:
            return self._group
        raise PipelineError(
            f"{pipelines} pipelines of {self._watch.size} ranks are a part of the "
            f"{dist.get_world_size()} ranks of this job: give a `process_group` of all of them"
        )

    def save(
        self,
        folder: str | os.PathLike[str],
        optimizers: Sequence[torch.optim.Optimizer],
        group: dist.ProcessGroup | None,
        others: Mapping[str, Stateful],
        step: int,
    ) -> None:
        state: dict[str, Any] = {"model": self.model()}
        if optimizers:
            state["optimizer"] = self.optimizer(optimizers)
        if loss := self._loss():
            state["loss"] = {name: value.detach() for name, value in loss.items()}
        everyone = self._everyone(group)
        self._agree("the checkpoint", {}, None, "")  # finds ranks that do not come
        rank = dist.get_rank(everyone)
        if rank == 0 and others:
            state["others"] = {name: as_bytes(each.state_dict()) for name, each in others.items()}
        state["random"] = {str(rank): as_bytes(random_states())}
        write(state, folder, step, everyone, self._progress(everyone, WRITES))

    def _progress(self, group: dist.ProcessGroup | None, places: dict[str, str]) -> Progress:
        chosen = group or dist.group.WORLD
        assert chosen is not None
        return Progress(chosen, self._watch, places)

    def _whole(self, folder: str | os.PathLike[str]) -> tuple[Stored, dict[str, dict[str, Any]]]:
        """Returns a checkpoint, once its files are checked on all ranks, and its contents."""
        what = f"checkpoint {os.fspath(folder)!r}"
        stored, found, text = None, {}, ""
        try:
            stored = Stored(folder)
            found = stored.kinds()
            stored.check(self._watch.rank, self._watch.size)
        except PipelineError as error:
            text = str(error)
        said = self._meet([text, stored.sealed.save if stored else ""])
        wrong = [f"rank {rank}: {theirs}" for rank, (theirs, _) in enumerate(said) if theirs]
        if wrong or stored is None:
            raise Misfit(f"{what} cannot be loaded:\n" + "\n".join(wrong))
        if len({save for _, save in said}) > 1:
            seen = ", ".join(f"rank {rank}: {save}" for rank, (_, save) in enumerate(said))
            raise Misfit(f"{what} was replaced while it was read ({seen}); load it again")
        return stored, found

    def load(
        self,
        folder: str | os.PathLike[str],
        optimizers: Sequence[torch.optim.Optimizer],
        group: dist.ProcessGroup | None,
        others: Mapping[str, Stateful],
        random: bool,
    ) -> int:
        what = f"checkpoint {os.fspath(folder)!r}"
        file, stored = self._whole(folder)
        own = self._own()
        shapes = {name: _shape(value) for name, value in stored["model"].items()}
        wanted = {name: self._whole_shape(value) for name, value in own.items()}
        self._agree(what, wanted, shapes, "")
        state: dict[str, Any] = {"model": self.model()}
        if optimizers:
            state["optimizer"] = self._places(stored["optimizer"], optimizers)
        everyone = self._everyone(group)
        rank = str(dist.get_rank(everyone))
        wanted_here = {"loss": list(self._loss()), "others": list(others)}
        wanted_here["random"] = [rank] if random else []
        lost = [f"{k}.{n}" for k, names in wanted_here.items() for n in names if n not in stored[k]]
        self._agree(what, {}, None, f"misses {_list_names(lost)}" if lost else "")
        for kind, names in wanted_here.items():
            state[kind] = {name: _place(stored[kind][name]) for name in names}
        read_into(state, file, everyone, self._progress(everyone, READS))
        if self._placement.loss is not None:
            self._placement.loss.load_state_dict(state["loss"])
        for name, each in others.items():
            each.load_state_dict(from_bytes(state["others"][name]))
        if random:
            set_random_states(from_bytes(state["random"][rank]))
        if any(not isinstance(value, Tensor) for value in own.values()):
            self.load_model(state["model"])
        if optimizers:
            self.load_optimizer(state["optimizer"], optimizers)
        return file.step

    def _places(self, stored: Flat, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
        """Returns tensors to read into, with the shapes in the file."""
        states, groups, missing = self._wanted(stored, optimizers, self._tied_names())
        text = f"misses the optimizer state of {_list_names(missing)}" if missing else ""
        self._agree("the optimizer of the checkpoint", {}, None, text)
        places: dict[str, Any] = {}
        for parameter in _parameters(optimizers):
            keys = [*states[id(parameter)].values(), *groups[id(parameter)].values()]
            for key in keys:
                found = stored[key]
                if not isinstance(found, TensorStorageMetadata):
                    places[key] = None
                elif key in places:  # of a tie, whose parameters each take a part of it
                    places[key] = torch.empty(found.size, dtype=found.properties.dtype)
                elif self._is_shard(parameter) and _shape(found) == self._whole_shape(parameter):
                    assert self._head is not None
                    own = torch.empty_like(parameter.detach(), dtype=found.properties.dtype)
                    places[key] = Rows.of(own, self._head.rows, self._head.vocabulary)
                elif found.size == parameter.shape:
                    dtype = found.properties.dtype
                    places[key] = torch.empty_like(parameter.detach(), dtype=dtype)
                else:
                    places[key] = torch.empty(found.size, dtype=found.properties.dtype)
        return places


def _place(stored: Any) -> Tensor:
    if not isinstance(stored, TensorStorageMetadata):
        raise PipelineError("the checkpoint has something else in the place of a tensor")
    return torch.empty(stored.size, dtype=stored.properties.dtype)


def _shape(value: Any) -> str:
    """Returns the shape of a tensor, or of one in a file; an empty text for anything else."""
    if isinstance(value, Tensor):
        return f"shape {list(value.size())}"
    return f"shape {list(value.size)}" if isinstance(value, TensorStorageMetadata) else ""


def _name_of(parameter: nn.Parameter, names: dict[int, list[str]]) -> list[str]:
    if id(parameter) not in names:
        raise PipelineError(
            f"the optimizer has a parameter of shape {list(parameter.shape)} that no stage of this "
            "rank has"
        )
    return names[id(parameter)]


def _parameters(optimizers: Iterable[torch.optim.Optimizer]) -> list[nn.Parameter]:
    return [p for each in optimizers for group in each.param_groups for p in group["params"]]


def _flatten(name: str, values: Flat, flat: dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            _flatten(f"{name}.{key}", value, flat)
        else:
            flat[f"{name}.{key}"] = value


def _as_state_dict(
    optimizer: torch.optim.Optimizer,
    given: Flat,
    states: dict[int, dict[str, str]],
    groups: dict[int, dict[str, str]],
    nested: Callable[[nn.Parameter, dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Returns a flat state in the form that an optimizer loads."""
    state: dict[int, dict[str, Any]] = {}
    made: list[dict[str, Any]] = []
    number = 0
    for group in optimizer.param_groups:
        own = {key: value for key, value in group.items() if key != "params"}
        keys = {key for p in group["params"] for key in groups[id(p)]}
        for key in keys:
            found = [given[groups[id(p)][key]] for p in group["params"] if key in groups[id(p)]]
            if any(not _is_same(found[0], other) for other in found):
                raise PipelineError(
                    f"has several values of {key!r} for parameters that are one group of the "
                    f"optimizer here, for example {found[0]!r}"
                )
            own[key] = found[0]
        made.append({**own, "params": list(range(number, number + len(group["params"])))})
        for parameter in group["params"]:
            entries = states[id(parameter)]
            if entries:
                state[number] = nested(parameter, {k: given[v] for k, v in entries.items()})
            number += 1
    return {"state": state, "param_groups": made}


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return bool(torch.equal(one, other))
    return type(one) is type(other) and bool(one == other)

"""Parameters that are one parameter of the model although several stages hold them.

A parameter is found by its *place*: the blocks of the part that holds it, and its name in there,
the same for replicas and for stages that cut the blocks otherwise. Ties are sets of places, which
all ranks bring together from four sources:

    `tied`      the names that the caller gave
    the model   ties that `split_sequential` has seen, since it has the whole model (origin.py)
    this rank   one parameter object in several stages that this rank sees
    the loss    one parameter object in a module of the loss and in any of these

Each rank reports where its stages hold the places that a rank with the whole model names.

If each rank makes its own stages by a function that this package cannot see through, a tie shows
only as parameters that start with the same values (`Copies`), which are compared if they are drawn.
Parameters of different names, such as embedding and head, are refused; stages that are made alike
from one seed have the same names, about which a warning is enough.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipesched import Stage

from ..core.errors import PipelineError
from ..core.values import local
from ..core.watch import Watch
from ..partition.origin import Held, Name, join_names, origin_of, origins_of, refuse_shared
from ..partition.placement import (
    Placement,
    StageKey,
    Stages,
    Tied,
    bare,
    blocks_text,
    drop_repeated,
    show,
)

Place = tuple[int, int, str]
"""The first block, the end of the blocks, and the name in them. A stage without blocks has the path
and the stage in the name instead. The module of the loss has LOSS, and a parameter as the model
names it MODEL, in place of blocks."""
LOSS, MODEL = -1, -2


def _in_blocks(module: nn.Module, count: int) -> bool:
    return isinstance(module, (nn.Sequential, nn.ModuleList)) and len(module) == count > 0


def place_of(placement: Placement, key: StageKey, name: str) -> Place:
    return _place_in(placement.stages[key], placement.modules[key], name)


def _place_in(stage: Stage, module: nn.Module, name: str) -> Place:
    key = stage.path, stage.stage
    if not stage.blocks:
        return stage.first_block, stage.first_block, f"{key[0]}/{key[1]}/{name}"
    child, _, rest = name.partition(".")
    if rest and _in_blocks(module, len(stage.blocks)):
        block = stage.first_block + list(module._modules).index(child)
        return block, block + 1, rest
    return stage.first_block, stage.end_block, name


def _at(placement: Placement, key: StageKey, place: Place) -> tuple[nn.Module, str] | None:
    """Returns the part of a stage that has this place, if there is one, and the name in it."""
    first, end, name = place
    stage, module = placement.stages[key], placement.modules[key]
    if first == end:
        path, number, name = name.split("/", 2)
        holder = module if (int(path), int(number)) == key else None
    elif not (stage.first_block <= first and end <= stage.end_block):
        return None
    elif _in_blocks(module, len(stage.blocks)) and end == first + 1:
        holder = list(module._modules.values())[first - stage.first_block]
    else:
        holder = module if (stage.first_block, stage.end_block) == (first, end) else None
    return None if holder is None else (holder, name)


def _parameter(placement: Placement, key: StageKey, place: Place) -> nn.Parameter | None:
    found = _at(placement, key, place)
    try:
        return None if found is None else found[0].get_parameter(found[1])
    except AttributeError:
        first, end, name = place
        raise PipelineError(
            f"{show(key)} has no parameter {name!r} in blocks {first} to {end - 1}, where another "
            "rank has one that is tied; give all ranks that hold these blocks the same modules"
        ) from None


def buffers_at(placement: Placement, places: Sequence[Place]) -> list[Tensor]:
    """Returns the buffers of this rank that have these places."""
    found = [_at(placement, key, place) for key in placement.modules for place in places]
    return [part.get_buffer(name) for part, name in (each for each in found if each is not None)]


def _find_given(placement: Placement, tied: Tied) -> list[list[Place]]:
    """Returns the places of this rank in the ties that the caller named."""
    found = []
    for members in tied:
        places: list[Place] = []
        for member in members:
            *place, name = member
            if place == ["loss"]:
                places.append(_place_of_loss(placement, str(name)))
                continue
            holders = {
                (stage.path, stage.stage)
                for held in placement.everywhere
                for stage in held
                if [stage.path, stage.stage][-len(place) :] == place
            }
            if not holders:
                raise PipelineError(f"`tied` names {member}, but no rank holds such a stage")
            for key in sorted(holders & set(placement.stages)):
                placement.named_parameter(key, str(name))
                places.append(place_of(placement, key, str(name)))
        found.append(list(dict.fromkeys(places)))
    return found


def _place_of_loss(placement: Placement, name: str) -> Place:
    loss = placement.given_loss
    names = [] if loss is None else [each for each, _ in loss.named_parameters()]
    if name not in names:
        held = ", ".join(names) or "no parameters"
        raise PipelineError(f"`tied` names parameter {name!r} of the loss, which has {held}")
    return LOSS, LOSS, name


def find_shared_objects(placement: Placement) -> list[list[Place]]:
    """Returns the places of parameter objects that this rank holds several times."""
    return _find_shared((placement.stages[key], each) for key, each in placement.modules.items())


def _find_shared(parts: Iterable[tuple[Stage, nn.Module]]) -> list[list[Place]]:
    places: dict[int, dict[Place, None]] = {}
    for stage, module in parts:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            places.setdefault(id(parameter), {})[_place_in(stage, module, name)] = None
    return [list(each) for each in places.values() if len(each) > 1]


def _given_stages(
    placement: Placement, stages: Mapping[Any, Any]
) -> Iterator[tuple[Stage, nn.Module]]:
    """Yields the stages of a mapping, also of other ranks."""
    for stage in (each for held in placement.everywhere for each in held):
        module = bare(stages.get((stage.path, stage.stage)))
        if isinstance(module, nn.Module):
            yield stage, module


def _pieces(placement: Placement, places: Iterable[Place]) -> set[Any]:
    """Returns the parts of the model with these places, which the same stages hold whole."""
    pieces = placement.pieces()
    found: set[Any] = set()
    for first, end, name in places:
        numbers = [i for i, p in enumerate(pieces) if first in p.blocks and end > first]
        outside = LOSS if first == LOSS else tuple(name.split("/")[:2])
        found.add(numbers[0] if numbers else outside)
    return found


def _merge(groups: Iterable[Sequence[Place]]) -> Iterator[list[Place]]:
    group_of: dict[Place, list[Place]] = {}
    for group in groups:
        joined: dict[Place, None] = dict.fromkeys(group)
        for place in group:
            joined.update(dict.fromkeys(group_of.get(place, ())))
        merged = list(joined)
        for place in merged:
            group_of[place] = merged
    seen = set()
    for merged in group_of.values():
        if id(merged) not in seen:
            seen.add(id(merged))
            yield sorted(merged)


class Tie:
    """One parameter of the model that several stages hold."""

    def __init__(self, placement: Placement, places: Sequence[Place]) -> None:
        self.places = places
        workers = [w for w, _ in enumerate(placement.everywhere) if _holds(placement, w, places)]
        self.workers = tuple(workers)
        """The ranks that hold any of it."""

    def parameters(self, placement: Placement) -> list[nn.Parameter]:
        """Returns parameters of this rank, each object once."""
        inside = [place for place in self.places if place[0] != LOSS]
        found = [_parameter(placement, key, p) for key in placement.modules for p in inside]
        if (loss := placement.loss) is not None:
            names = [name for first, _, name in self.places if first == LOSS]
            found += [loss.get_parameter(name) for name in names]
        return drop_repeated(p for p in found if p is not None)

    def __str__(self) -> str:
        return " and ".join(map(place_text, self.places))


def place_text(place: Place) -> str:
    first, end, name = place
    if first == LOSS:
        return f"{name!r} of the loss"
    if first == end:
        path, stage, name = name.split("/", 2)
        return f"{name!r} of path {path}, stage {stage}"
    return f"{name!r} of {blocks_text(range(first, end))}"


def _holds(placement: Placement, worker: int, places: Iterable[Place]) -> bool:
    places = list(places)
    if any(first == LOSS for first, _, _ in places) and worker in placement.loss_workers():
        return True

    def has(stage: Any, place: Place) -> bool:
        first, end, name = place
        if first == end:
            return name.startswith(f"{stage.path}/{stage.stage}/")
        return bool(stage.first_block <= first and end <= stage.end_block)

    return any(has(s, place) for s in placement.everywhere[worker] for place in places)


def _token(known: Name) -> Place:
    """Returns a parameter as the model names it."""
    return MODEL, MODEL, f"{known[0]}/{known[1]}"


def _of_model(placement: Placement) -> list[list[Place]]:
    """Returns the ties of the models that were divided into stages."""
    return [[*map(_token, tie)] for origin in placement.origins for tie in origin.ties()]


def _of_loss(placement: Placement, parts: Sequence[tuple[Stage, nn.Module]]) -> list[list[Place]]:
    """Returns the ties of the loss with the part of the model on this rank."""
    if placement.given_loss is None:
        return []
    places: dict[int, list[Place]] = {}
    for stage, module in parts:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            places.setdefault(id(parameter), []).append(_place_in(stage, module, name))
    found = []
    for name, parameter in placement.given_loss.named_parameters(remove_duplicate=False):
        known = [each for origin in placement.origins for each in origin.names_of(parameter)]
        others = [*places.get(id(parameter), ()), *map(_token, known)]
        if others:
            found.append([(LOSS, LOSS, name), *others])
    return found


def tokens_in(said: Sequence[Any]) -> list[str]:
    """Returns the parameters that ranks have named as the model does."""
    groups = [places for _, seen in said for places in seen]
    return sorted({name for group in groups for first, _, name in group if first == MODEL})


def places_here(placement: Placement, tokens: Iterable[str]) -> dict[str, list[Place]]:
    """Returns where the stages of this rank hold parameters with these names."""
    wanted = set(tokens)
    found: dict[str, list[Place]] = {}
    for key, stage in placement.modules.items():
        for outer, module in stage.named_modules(remove_duplicate=False):
            origin = origin_of(module)
            for block, inner in () if origin is None else origin.places_of(module):
                for name in module._parameters:
                    _, _, token = _token((block, join_names(inner, name)))
                    if token in wanted:
                        place = place_of(placement, key, join_names(outer, name))
                        found.setdefault(token, []).append(place)
    return found


def ties_here(placement: Placement, tied: Tied, stages: Any) -> list[Any]:
    """Returns the ties that this rank knows: named by the caller, and shared objects."""
    parts = [(placement.stages[key], each) for key, each in placement.modules.items()]
    if isinstance(stages, Mapping):
        parts += _given_stages(placement, stages)
    ranks = [[w for w, held in enumerate(placement.everywhere) if s in held] for s, _ in parts]
    held = [
        Held(f"{show((stage.path, stage.stage))}: ", module, frozenset(workers))
        for (stage, module), workers in zip(parts, ranks, strict=True)
    ]
    if placement.given_loss is not None:
        held.append(Held("the loss: ", placement.given_loss, frozenset(placement.loss_workers())))
    refuse_shared(held)
    seen = [*_find_shared(parts), *_of_model(placement), *_of_loss(placement, parts)]
    return [_find_given(placement, tied), seen]


def find_ties(
    placement: Placement, said: Sequence[Any], held: Sequence[Mapping[str, Sequence[Any]]] = ()
) -> list[Tie]:
    """Returns the ties of the pipeline, in the same order on all ranks, from all statements."""
    groups: list[list[Place]] = []
    count = max(len(given) for given, _ in said)
    for number in range(count):
        theirs = [given[number] for given, _ in said if number < len(given)]
        groups.append([_read(place) for places in theirs for place in places])
    groups += [[_read(place) for place in places] for _, seen in said for places in seen]
    chosen = {place for group in groups[:count] for place in group}
    for each in held:
        groups += [[(MODEL, MODEL, token), *map(_read, places)] for token, places in each.items()]
    merged = sorted([place for place in group if place[0] != MODEL] for group in _merge(groups))
    return [
        Tie(placement, places)
        for places in merged
        if chosen.intersection(places) or len(_pieces(placement, places)) > 1
    ]


def _read(place: Sequence[Any]) -> Place:
    first, end, name = place
    return int(first), int(end), str(name)


SAMPLE, LEAST = 256, 16
"""The number of compared elements of a parameter, and the least that it has."""
DRAWN = 0.4, 0.9
"""The share of elements that are larger or smaller than both neighbours: in drawn values two
thirds, in tables, ranges and constants fewer, or all.
"""


class _Copy(NamedTuple):
    """A parameter of a rank: its place, and its name in `tied`."""

    place: Place
    named: tuple[Any, ...]

    @property
    def own_name(self) -> str:
        first, end, name = self.place
        return name.split("/", 2)[-1] if first == end else name


def _digest(parameter: nn.Parameter) -> str | None:
    """Returns a digest of the values of a parameter; None if they do not seem to be drawn."""
    values = local(parameter).detach()
    if values.is_meta or values.layout != torch.strided or values.numel() < LEAST:
        return None
    flat = values.reshape(-1)
    flat = flat[max(0, flat.numel() - SAMPLE) // 2 :][:SAMPLE]
    flat = torch.view_as_real(flat.resolve_conj()) if flat.is_complex() else flat
    numbers = flat.reshape(-1).double().cpu()
    steps = numbers.diff()
    turns = float((steps[1:] * steps[:-1] < 0).double().mean())
    if not DRAWN[0] < turns < DRAWN[1]:
        return None
    found = hashlib.sha256(numbers.numpy().tobytes())
    found.update(f"{list(parameter.shape)} {parameter.dtype}".encode())
    return found.hexdigest()[:16]


class Copies:
    """The parameters of a rank whose ties are not visible."""

    def __init__(
        self, placement: Placement, stages: Stages, tied: Tied | None, ties: Sequence[Tie]
    ) -> None:
        self._placement, self._ties = placement, ties
        keys = {(s.path, s.stage) for held in placement.everywhere for s in held}
        self._is_on = tied is None and not (isinstance(stages, Mapping) and keys <= set(stages))
        self._here: dict[str, list[_Copy]] = {}

    def _find_unseen(self) -> Iterator[tuple[nn.Parameter, _Copy]]:
        placement = self._placement
        for key, module in placement.modules.items():
            if not origins_of([module]):
                for name, parameter in module.named_parameters():
                    yield parameter, _Copy(place_of(placement, key, name), (*key, name))
        if placement.loss is not None:
            for name, parameter in placement.loss.named_parameters():
                yield parameter, _Copy((LOSS, LOSS, name), ("loss", name))

    def digests(self) -> list[str]:
        """Returns the values of this rank that the others get."""
        if self._is_on:
            tied = {id(p) for tie in self._ties for p in tie.parameters(self._placement)}
            for parameter, copy in self._find_unseen():
                if parameter.requires_grad and id(parameter) not in tied:
                    if (text := _digest(parameter)) is not None:
                        self._here.setdefault(text, []).append(copy)
        return list(self._here)

    def check(self, said: Sequence[Sequence[str]], watch: Watch) -> None:
        """Refuses copies or warns about them, from the messages of all ranks. All ranks call it."""
        seen: dict[str, int] = {}
        for text in (text for theirs in said for text in theirs):
            seen[text] = seen.get(text, 0) + 1
        common = [text for text, count in seen.items() if count > 1]
        if not common:
            return
        mine = {text: self._here[text] for text in common if text in self._here}
        told = watch.meet("copies", mine)
        found = [pair for text in common for pair in _find_apart([t.get(text, ()) for t in told])]
        found.sort(key=lambda pair: (pair[0].own_name == pair[1].own_name, pair))
        if not found:
            return
        one, other = found[0]
        text = (
            f"the parameters {one.named} and {other.named} of ranks that do not see each other's "
            f"stages have the same values: if they are one parameter of the model, its gradients "
            f"are not summed; name it, tied=[[{one.named}, {other.named}]], or give the stages of "
            "split_sequential or a mapping of all of them; if they are several, tied=() says that "
            "nothing is tied"
        )
        if one.own_name != other.own_name:
            raise PipelineError(text)
        warnings.warn(text, stacklevel=2)


def _find_apart(told: Sequence[Sequence[Any]]) -> Iterator[tuple[_Copy, _Copy]]:
    """Yields parameters of one value at different places, of which no rank has both."""
    held: dict[Place, tuple[_Copy, set[int]]] = {}
    for rank, theirs in enumerate(told):
        for (first, end, name), named in theirs:
            copy = _Copy((first, end, name), tuple(named))
            held.setdefault(copy.place, (copy, set()))[1].add(rank)
    for place, other in combinations(sorted(held), 2):
        (one, ranks), (two, others) = held[place], held[other]
        if not ranks & others:
            yield one, two

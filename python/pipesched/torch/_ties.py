"""Parameters that are one parameter of the model although several stages hold them.

A parameter is found by its *place*: the blocks of the part that holds it, and its name in there. So
replicas on several ranks, and stages that cut the blocks otherwise, have one place for it. Ties are
sets of places. They come from three sources, which all ranks bring together:

    `tied`          the names that the caller gave
    the model       what `split_sequential` has seen, since it has the whole model
    this rank       one parameter object in several stages that this rank holds, or that its
                    mapping of stages has
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pipesched import Stage

from ._errors import PipelineError
from ._placement import Placement, StageKey, Tied, named, once
from ._shared import Held, refuse_shared
from ._split import SequentialStages

Place = tuple[int, int, str]
"""The first block, the end of the blocks, and the name in them. A stage without blocks has the path
and the stage in the name instead."""


def _in_blocks(module: nn.Module, count: int) -> bool:
    """Whether a stage has one child per block."""
    return isinstance(module, (nn.Sequential, nn.ModuleList)) and len(module) == count > 0


def place_of(placement: Placement, key: StageKey, name: str) -> Place:
    """The place of a parameter or buffer of a stage that this rank holds."""
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
    """The part of a stage that has this place, if there is one, and the name in it."""
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
            f"{named(key)} has no parameter {name!r} in blocks {first} to {end - 1}, where another "
            "rank has one that is tied; give all ranks that hold these blocks the same modules"
        ) from None


def buffers_at(placement: Placement, places: Sequence[Place]) -> list[Tensor]:
    """The buffers of this rank that have these places."""
    found = [_at(placement, key, place) for key in placement.modules for place in places]
    return [part.get_buffer(name) for part, name in (each for each in found if each is not None)]


def _given(placement: Placement, tied: Tied) -> list[list[Place]]:
    """The places of this rank in the ties that the caller named."""
    found = []
    for members in tied:
        places: list[Place] = []
        for member in members:
            *place, name = member
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


def shared_objects(placement: Placement) -> list[list[Place]]:
    """The places of parameter objects that this rank holds several times."""
    return _shared((placement.stages[key], each) for key, each in placement.modules.items())


def _shared(parts: Iterable[tuple[Stage, nn.Module]]) -> list[list[Place]]:
    places: dict[int, dict[Place, None]] = {}
    for stage, module in parts:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            places.setdefault(id(parameter), {})[_place_in(stage, module, name)] = None
    return [list(each) for each in places.values() if len(each) > 1]


def _given_stages(
    placement: Placement, stages: Mapping[Any, Any]
) -> Iterator[tuple[Stage, nn.Module]]:
    """The stages of a mapping, also those of other ranks that it has."""
    for stage in (each for held in placement.everywhere for each in held):
        module = stages.get((stage.path, stage.stage))
        if isinstance(module, DistributedDataParallel):
            module = module.module
        if isinstance(module, nn.Module):
            yield stage, module


def _pieces(placement: Placement, places: Iterable[Place]) -> set[Any]:
    """The parts of the model, which the same stages hold whole, that have these places."""
    pieces = placement.pieces()
    found: set[Any] = set()
    for first, end, name in places:
        numbers = [i for i, p in enumerate(pieces) if first in p.blocks and end > first]
        found.add(numbers[0] if numbers else tuple(name.split("/")[:2]))
    return found


def _merged(groups: Iterable[Sequence[Place]]) -> Iterator[list[Place]]:
    """Joins groups that have a place in common."""
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
        """Those of this rank, each object once."""
        found = [_parameter(placement, key, p) for key in placement.modules for p in self.places]
        return once(p for p in found if p is not None)


def _holds(placement: Placement, worker: int, places: Iterable[Place]) -> bool:
    def has(stage: Any, place: Place) -> bool:
        first, end, name = place
        if first == end:
            return name.startswith(f"{stage.path}/{stage.stage}/")
        return bool(stage.first_block <= first and end <= stage.end_block)

    return any(has(s, place) for s in placement.everywhere[worker] for place in places)


def ties_here(placement: Placement, tied: Tied, stages: Any) -> list[Any]:
    """What this rank knows of ties, to be told to the others: those that the caller named, and what
    is one parameter object.
    """
    seen = shared_objects(placement)
    if isinstance(stages, SequentialStages):
        seen += stages.ties()
    elif isinstance(stages, Mapping):
        seen += _shared(_given_stages(placement, stages))
        refuse_shared(
            Held(f"{named((stage.path, stage.stage))}: ", module, frozenset(ranks))
            for stage, module in _given_stages(placement, stages)
            for ranks in [[w for w, held in enumerate(placement.everywhere) if stage in held]]
        )
    return [_given(placement, tied), seen]


def find_ties(placement: Placement, said: Sequence[Any]) -> list[Tie]:
    """The ties of the pipeline, the same and in the same order on all ranks, from what all ranks
    have said.
    """
    groups: list[list[Place]] = []
    count = max(len(given) for given, _ in said)
    for number in range(count):
        theirs = [given[number] for given, _ in said if number < len(given)]
        groups.append([_read(place) for places in theirs for place in places])
    groups += [[_read(place) for place in places] for _, seen in said for places in seen]
    chosen = {place for group in groups[:count] for place in group}
    return [
        Tie(placement, places)
        for places in sorted(_merged(groups))
        if chosen.intersection(places) or len(_pieces(placement, places)) > 1
    ]


def _read(place: Sequence[Any]) -> Place:
    first, end, name = place
    return int(first), int(end), str(name)

"""Parameters that are one parameter of the model although several stages hold them.

A parameter is found by its *place*: the blocks of the part that holds it, and its name in there. So
replicas on several ranks, and stages that cut the blocks otherwise, have one place for it. Ties are
sets of places. They come from four sources, which all ranks bring together:

    `tied`          the names that the caller gave
    the model       what `split_sequential` has seen, since it has the whole model (_origin.py)
    this rank       one parameter object in several stages that this rank holds, or that its
                    mapping of stages has
    the loss        one parameter object in a module of the loss and in any of these

A rank that sees the whole model does not know how the stages of other ranks are wrapped. So it
names a parameter as the model does, and each rank then says where its stages hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from pipesched import Stage

from ._errors import PipelineError
from ._origin import Name, joined, origin_of
from ._placement import Placement, StageKey, Tied, blocks_text, bare, named, once
from ._shared import Held, refuse_shared

Place = tuple[int, int, str]
"""The first block, the end of the blocks, and the name in them. A stage without blocks has the path
and the stage in the name instead. The module of the loss has LOSS, and a parameter as the model
names it MODEL, in place of blocks."""
LOSS, MODEL = -1, -2


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
            if place == ["loss"]:
                places.append(_named_of_loss(placement, str(name)))
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


def _named_of_loss(placement: Placement, name: str) -> Place:
    loss = placement.given_loss
    names = [] if loss is None else [each for each, _ in loss.named_parameters()]
    if name not in names:
        held = ", ".join(names) or "no parameters"
        raise PipelineError(f"`tied` names parameter {name!r} of the loss, which has {held}")
    return LOSS, LOSS, name


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
        module = bare(stages.get((stage.path, stage.stage)))
        if isinstance(module, nn.Module):
            yield stage, module


def _pieces(placement: Placement, places: Iterable[Place]) -> set[Any]:
    """The parts of the model, which the same stages hold whole, that have these places."""
    pieces = placement.pieces()
    found: set[Any] = set()
    for first, end, name in places:
        numbers = [i for i, p in enumerate(pieces) if first in p.blocks and end > first]
        outside = LOSS if first == LOSS else tuple(name.split("/")[:2])
        found.add(numbers[0] if numbers else outside)
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
        inside = [place for place in self.places if place[0] != LOSS]
        found = [_parameter(placement, key, p) for key in placement.modules for p in inside]
        if (loss := placement.loss) is not None:
            names = [name for first, _, name in self.places if first == LOSS]
            found += [loss.get_parameter(name) for name in names]
        return once(p for p in found if p is not None)

    def __str__(self) -> str:
        return " and ".join(map(place_text, self.places))


def place_text(place: Place) -> str:
    """A place in messages."""
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
    """A parameter as the model names it."""
    return MODEL, MODEL, f"{known[0]}/{known[1]}"


def _of_model(placement: Placement) -> list[list[Place]]:
    """The ties of the models that were divided into stages."""
    return [[*map(_token, tie)] for origin in placement.origins for tie in origin.ties()]


def _of_loss(
    placement: Placement, parts: Sequence[tuple[Stage, nn.Module]]
) -> list[list[Place]]:
    """The ties of the loss with what this rank sees of the model."""
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
    """The parameters that ranks have named as the model does."""
    groups = [places for _, seen in said for places in seen]
    return sorted({name for group in groups for first, _, name in group if first == MODEL})


def places_here(placement: Placement, tokens: Iterable[str]) -> dict[str, list[Place]]:
    """Where the stages of this rank hold what the model names so."""
    wanted = set(tokens)
    found: dict[str, list[Place]] = {}
    for key, stage in placement.modules.items():
        for outer, module in stage.named_modules(remove_duplicate=False):
            origin = origin_of(module)
            for block, inner in () if origin is None else origin.places_of(module):
                for name in module._parameters:
                    _, _, token = _token((block, joined(inner, name)))
                    if token in wanted:
                        place = place_of(placement, key, joined(outer, name))
                        found.setdefault(token, []).append(place)
    return found


def ties_here(placement: Placement, tied: Tied, stages: Any) -> list[Any]:
    """What this rank knows of ties, to be told to the others: those that the caller named, and what
    is one parameter object.
    """
    parts = [(placement.stages[key], each) for key, each in placement.modules.items()]
    if isinstance(stages, Mapping):
        parts += _given_stages(placement, stages)
    ranks = [[w for w, held in enumerate(placement.everywhere) if s in held] for s, _ in parts]
    held = [
        Held(f"{named((stage.path, stage.stage))}: ", module, frozenset(workers))
        for (stage, module), workers in zip(parts, ranks, strict=True)
    ]
    if placement.given_loss is not None:
        held.append(Held("the loss: ", placement.given_loss, frozenset(placement.loss_workers())))
    refuse_shared(held)
    seen = [*_shared(parts), *_of_model(placement), *_of_loss(placement, parts)]
    return [_given(placement, tied), seen]


def find_ties(
    placement: Placement, said: Sequence[Any], held: Sequence[Mapping[str, Sequence[Any]]] = ()
) -> list[Tie]:
    """The ties of the pipeline, the same and in the same order on all ranks, from what all ranks
    have said, and from where they hold what the model names.
    """
    groups: list[list[Place]] = []
    count = max(len(given) for given, _ in said)
    for number in range(count):
        theirs = [given[number] for given, _ in said if number < len(given)]
        groups.append([_read(place) for places in theirs for place in places])
    groups += [[_read(place) for place in places] for _, seen in said for places in seen]
    chosen = {place for group in groups[:count] for place in group}
    for each in held:
        groups += [
            [(MODEL, MODEL, token), *map(_read, places)] for token, places in each.items()
        ]
    merged = sorted(
        [place for place in group if place[0] != MODEL] for group in _merged(groups)
    )
    return [
        Tie(placement, places)
        for places in merged
        if chosen.intersection(places) or len(_pieces(placement, places)) > 1
    ]


def _read(place: Sequence[Any]) -> Place:
    first, end, name = place
    return int(first), int(end), str(name)

"""Parameters of stages on different ranks that begin with the same values although nothing ties
them: what is one parameter of the model looks so, if each rank makes its own stages by a function
that this package cannot see through.

Values that are drawn are compared, since only these are the same by a tie or by a seed. Ties have
different names mostly, as an embedding and a head, and are refused. Stages that are made alike from
one seed have the same names, about which a warning is enough.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import nn

from ._errors import PipelineError
from ._origin import origins_of
from ._parallel import local
from ._placement import Placement, Stages, Tied
from ._ties import LOSS, Place, Tie, place_of
from ._watch import Watch

SAMPLE, LEAST = 256, 16
"""How many elements of a parameter are compared, and how many it has at least."""
DRAWN = 0.4, 0.9
"""How many of them are larger or smaller than both neighbours: of values that are drawn two thirds,
of tables, ranges and constants fewer, or all."""


class _Copy(NamedTuple):
    """A parameter of a rank: its place, and how `tied` names it."""

    place: Place
    named: tuple[Any, ...]

    @property
    def own_name(self) -> str:
        """The name within its block."""
        first, end, name = self.place
        return name.split("/", 2)[-1] if first == end else name


def _digest(parameter: nn.Parameter) -> str | None:
    """A text of the values of a parameter; None if they do not seem to be drawn."""
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
    """The parameters of a rank whose ties nothing has shown."""

    def __init__(
        self, placement: Placement, stages: Stages, tied: Tied | None, ties: Sequence[Tie]
    ) -> None:
        self._placement, self._ties = placement, ties
        keys = {(s.path, s.stage) for held in placement.everywhere for s in held}
        self._is_on = tied is None and not (isinstance(stages, Mapping) and keys <= set(stages))
        self._here: dict[str, list[_Copy]] = {}

    def _unseen(self) -> Iterator[tuple[nn.Parameter, _Copy]]:
        placement = self._placement
        for key, module in placement.modules.items():
            if not origins_of([module]):
                for name, parameter in module.named_parameters():
                    yield parameter, _Copy(place_of(placement, key, name), (*key, name))
        if placement.loss is not None:
            for name, parameter in placement.loss.named_parameters():
                yield parameter, _Copy((LOSS, LOSS, name), ("loss", name))

    def digests(self) -> list[str]:
        """The values of this rank that are told to the others."""
        if self._is_on:
            tied = {id(p) for tie in self._ties for p in tie.parameters(self._placement)}
            for parameter, copy in self._unseen():
                if parameter.requires_grad and id(parameter) not in tied:
                    if (text := _digest(parameter)) is not None:
                        self._here.setdefault(text, []).append(copy)
        return list(self._here)

    def check(self, said: Sequence[Sequence[str]], watch: Watch) -> None:
        """Refuses or warns of copies, from what all ranks have told. All ranks call it."""
        seen: dict[str, int] = {}
        for text in (text for theirs in said for text in theirs):
            seen[text] = seen.get(text, 0) + 1
        common = [text for text, count in seen.items() if count > 1]
        if not common:
            return
        mine = {text: self._here[text] for text in common if text in self._here}
        told = watch.meet("copies", mine)
        found = [pair for text in common for pair in _apart([t.get(text, ()) for t in told])]
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


def _apart(told: Sequence[Sequence[Any]]) -> Iterator[tuple[_Copy, _Copy]]:
    """Those of one value that are at different places, which no rank has both."""
    held: dict[Place, tuple[_Copy, set[int]]] = {}
    for rank, theirs in enumerate(told):
        for (first, end, name), named in theirs:
            copy = _Copy((first, end, name), tuple(named))
            held.setdefault(copy.place, (copy, set()))[1].add(rank)
    for place, other in combinations(sorted(held), 2):
        (one, ranks), (two, others) = held[place], held[other]
        if not ranks & others:
            yield one, two

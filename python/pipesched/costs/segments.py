"""Times of the parts of layers: attention, dispatch, mlp and combine, by phase.

They are measured, in a file of docs/schemas/layer-segments.schema.json, or computed for a model on
a system.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import PipeSchedError
from ..support.files import read_json_file
from ..support.options import path_of
from .costs import Costs, Time
from .stage_times import SCHEMA, ps_of

PARTS: tuple[str, ...] = _core.enums()["layer-part"]
"""The parts of a layer, in the order of its forward."""

EXCHANGES = ("dispatch", "combine")
"""The parts that have no weights."""

PHASES = ("F", "I", "W")

Segments = Mapping[str, Any] | str | os.PathLike[str]
"""The fields of a file of measured segments, or its path."""

FIELDS = ("layers", "contention")
_COUNT, _NAME = "count", "name"
_MOST = 2**63 - 1

Factors = tuple[float, float]
"""The factors by which a part is slower while the other stream is in use: for compute, and for
exchange.
"""


@dataclass(frozen=True)
class Kind:
    """Equal layers that follow each other."""

    name: str
    count: int
    times: tuple[int, ...]
    """ps: F, I and W of attention, dispatch, mlp and combine."""
    has_weights: bool = True
    """Whether the W of its parts is known separately from I."""

    def time_of(self, part: str, phase: str) -> int:
        """The time of a part in a phase, ps."""
        return self.times[3 * PARTS.index(part) + PHASES.index(phase)]


@dataclass(frozen=True)
class LayerSegments:
    """The parts of all layers of a model, or of a part of it."""

    kinds: tuple[Kind, ...]
    contention: Factors | None = None
    """The contention, if the file gives it."""
    place: str = "segments"
    """The name of the file or model, for messages."""

    @property
    def count(self) -> int:
        """The number of layers."""
        return sum(kind.count for kind in self.kinds)

    def layers(self, first: int, end: int) -> list[Kind]:
        """The layers from `first` to before `end`, one by one."""
        if not 0 <= first < end <= self.count:
            raise PipeSchedError(
                f"{self.place}: expected layers within 0:{self.count}, found {first}:{end}"
            )
        every = [kind for kind in self.kinds for _ in range(kind.count)]
        return every[first:end]


# Reading


def _error(place: str, text: str) -> PipeSchedError:
    return PipeSchedError(f"{place}: {text}")


def _object(place: str, value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _error(place, f"expected {what}, found {value!r}")
    return value


def _check_names(place: str, names: Sequence[str], value: Mapping[str, Any]) -> None:
    for name in value:
        if name not in names:
            raise _error(place, f"unknown field {name!r} (known: {', '.join(names)})")


def _ps(place: str, value: Time) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise _error(place, f"expected a time such as '1.5ms' or picoseconds, found {value!r}")
    if isinstance(value, str):
        try:
            Costs(times=f"F={value}")  # the library checks it
        except PipeSchedError as error:
            reason = error.diagnostics[0].message.removeprefix("F: ")
            raise _error(place, reason) from None
        return ps_of(value)
    if not 0 <= value <= _MOST:
        raise _error(place, f"expected 0 or more picoseconds, below 2^63, found {value}")
    return value


def _part(place: str, part: str, value: Any) -> tuple[tuple[int, int, int], bool]:
    """Returns F, I and W of a part, and whether W is known. B means I for an exchange and I + W
    otherwise.
    """
    is_exchange = part in EXCHANGES
    what = 'times by phase, such as {"F": "1ms", "I": "1ms"' + ("}" if is_exchange else ', "W": 0}')
    given = _object(place, value, what)
    _check_names(place, ("F", "B", "I") if is_exchange else ("F", "B", "I", "W"), given)
    wanted = {"F", "I"} if is_exchange else {"F", "I", "W"}
    if "B" in given:
        wanted = {"F", "B"}
    for phase in sorted(wanted - set(given)):
        raise _error(place, f"has no {phase}; give {', '.join(sorted(wanted))}")
    for phase in sorted(set(given) - wanted):
        raise _error(place, f"gives {phase} beside B; give B, or the others")
    ps = {phase: _ps(f"{place}: {phase}", time) for phase, time in given.items()}
    return (ps["F"], ps.get("I", ps.get("B", 0)), ps.get("W", 0)), is_exchange or "W" in given


def _count(place: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _error(place, f"count: expected a positive number of layers, found {value!r}")
    return value


def _kind(place: str, value: Any) -> Kind:
    given = _object(place, value, "a layer with attention, dispatch, mlp and combine")
    name = given.get(_NAME, "layer")
    if not isinstance(name, str):
        raise _error(place, f"name: expected a text, found {name!r}")
    place = f"{place} ({name})" if _NAME in given else place
    _check_names(place, (_NAME, _COUNT, *PARTS), given)
    for part in PARTS:
        if part not in given:
            raise _error(
                place,
                f"has no {part}; a layer has {', '.join(PARTS)}, of which those of a layer without"
                " experts may take 0",
            )
    parts = [_part(f"{place}: {part}", part, given[part]) for part in PARTS]
    times = tuple(time for three, _ in parts for time in three)
    has_weights = all(known for _, known in parts)
    return Kind(name, _count(place, given.get(_COUNT, 1)), times, has_weights)


def factor(place: str, value: Any) -> float:
    """Reads a factor of contention: a number from 1 to 10, in hundredths."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= 10 or round(value * 100) / 100 != float(value):
        raise _error(place, f"expected a factor from 1 to 10, in hundredths, found {value!r}")
    return float(value)


def _contention(place: str, value: Any) -> Factors:
    given = _object(place, value, 'factors, such as {"compute": 1.1, "exchange": 1}')
    _check_names(place, ("compute", "exchange"), given)
    return (
        factor(f"{place}: compute", given.get("compute", 1)),
        factor(f"{place}: exchange", given.get("exchange", 1)),
    )


def read_segments(source: Segments) -> LayerSegments:
    """Measured segments. Errors name the file, the layer, the part and the phase."""
    is_given = isinstance(source, Mapping)
    place = "segments" if is_given else path_of("segments", source)
    read = source if is_given else read_json_file(place)
    example = 'an object such as {"layers": [{"attention": {"F": "1ms", ...}, ...}]}'
    given = dict(_object(place, read, example))
    if not isinstance(schema := given.pop(SCHEMA, ""), str):
        raise _error(place, f"{SCHEMA}: expected a text, found {schema!r}")
    _check_names(place, FIELDS, given)
    layers = given.get("layers")
    if not isinstance(layers, (list, tuple)) or not layers:
        raise _error(place, f"layers: expected a list of layers, found {layers!r}")
    kinds = tuple(_kind(f"{place}: layers[{i}]", layer) for i, layer in enumerate(layers))
    contention = None
    if "contention" in given:
        contention = _contention(f"{place}: contention", given["contention"])
    return LayerSegments(kinds, contention, place)


def segments_of(costs: Costs, microbatches: int = 1) -> LayerSegments:
    """The parts of the layers of a model on a system, by the cost model (docs/CostModel.md, "Parts
    of layers"). A global batch consists of this many microbatches.
    """
    kinds = _core.layer_parts(costs._raw, microbatches)
    return LayerSegments(
        tuple(Kind(name, count, tuple(times)) for name, count, times in kinds),
        place=f"the model {costs.model}" if isinstance(costs.model, str) else "the model",
    )

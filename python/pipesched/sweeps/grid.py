"""Grids: every combination of the values of some axes is a configuration. Axes are the arguments of
`Configuration` and `Costs` and the options of families, by their names.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

from .. import _core
from ..costs.costs import Costs, _looks_like_path, argument_fields
from ..costs.deployment import OPTIONS as DEPLOYED
from ..costs.layer_times import check_layer_times, names_layers
from ..errors import Diagnostic, Location, PipeSchedError, WrongType, said_by
from ..results.configuration import Configuration, usual_ending
from ..schedule.families import canonical, families
from ..schedule.registry import (
    check_own_options,
    has_own,
    options_of_text,
    own_families,
    own_family,
    refuse_place,
)
from ..support.files import unique
from ..support.options import FamilyOptions, Path, TimingOptions, flag_of, names_of, path_of
from ..support.text import closest
from ..support.units import DEFAULT_RESERVE, reserve_of

MOST_INTEGERS = 1_000_000
MOST_POINTS = 1_000_000
"""Larger sweeps must be split, each part with its own file."""

Inputs: TypeAlias = dict[str, Any]
"""The arguments of one point by axis, if they are given."""

_SIZES = ("workers", "microbatches")
OWN_OPTIONS = "own_options"
"""The axis of the options of registered families. Its values are texts such as `depth=2;wide=1`."""

_FILES = ("model", "system", "times")
RESERVE = "reserve"
"""The axis of the reserved memory. It changes only whether a row fits."""


def _hints() -> dict[str, Any]:
    """The axes with their types. The first varies slowest, so that families stay together."""
    costs, point = get_type_hints(Costs), get_type_hints(Configuration)
    of_costs = {f.name: costs[f.name] for f in argument_fields()}
    special = ("family", "paths", "options", "costs", *_SIZES)
    timed = {f.name: point[f.name] for f in fields(Configuration) if f.name not in special}
    sizes = dict.fromkeys(_SIZES, int)
    placed = {"family": str, "paths": point["paths"]}
    options = {**get_type_hints(FamilyOptions), OWN_OPTIONS: str}
    return {**of_costs, RESERVE: str, **timed, **sizes, **placed, **options}


AXES: dict[str, Any] = _hints()
OPTIONS = (*FamilyOptions.__annotations__, OWN_OPTIONS)
"""The axes of options of families."""
COSTS = tuple(f.name for f in argument_fields())
NOT_OF_TABLE = {*COSTS, RESERVE, *TimingOptions.__annotations__}
"""Axes that change only times and fit. All other axes determine the table of a point."""
ALIASES = {"schedules": "family", "families": "family", "stages": "workers"}
_DEFAULTS = {f.name: f.default for f in (*fields(Costs), *fields(Configuration))}
_DEFAULTS[RESERVE] = DEFAULT_RESERVE


def kinds(axis: str) -> tuple[Any, ...]:
    """The types or choices that an axis takes, without None."""
    hint = AXES[axis]
    parts = (hint,) if get_origin(hint) in (None, Literal) else get_args(hint)
    flat = (names_of(p) if get_origin(p) is Literal else (p,) for p in parts)
    return tuple(kind for kind in itertools.chain(*flat) if kind is not type(None))


# Integers


_MOST = 2**63 - 1


def _number(text: str) -> int:
    """Parses a number; returns -1 if the library does not accept it."""
    return int(text) if len(text) < 20 and text.strip().isdecimal() else -1


def _range(text: str) -> Sequence[int]:
    """Parses `8`, `8:64:8` or `8:64:x2`; ranges include their end."""
    begin, _, rest = text.partition(":")
    end, _, step = rest.partition(":")
    factor = step.removeprefix("x")
    first, last, by = _number(begin), _number(end or begin), _number(factor or "1")
    if min(first, last) < 0 or by < 1 or (factor != step and by < 2) or last > _MOST:
        raise ValueError(f"expected integers or ranges such as 8:64:8 or 8:64:x2, found {text!r}")
    if last < first or (factor != step and first < 1):
        raise ValueError(f"expected ranges that ascend, found {text!r}")
    if factor == step:
        return range(first, last + 1, by)
    return [first * by**i for i in range(last.bit_length()) if first * by**i <= last]


def integers(text: str) -> list[int]:
    """Parses `8,16,32`, ranges that include their end, `8:64:8`, and by a factor, `8:64:x2`.

    >>> integers("4,8:12:2,16:64:x2")
    [4, 8, 10, 12, 16, 32, 64]
    """
    ranges = [_range(part) for part in text.split(",")]
    if sum(map(len, ranges)) > MOST_INTEGERS:
        raise ValueError(f"expected at most {MOST_INTEGERS} numbers, found {text!r}")
    return [value for values in ranges for value in values]


# Values of axes


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of an axis: `label` is shown, `value` is passed on, and `token` is its part of the
    key.
    """

    label: Any
    value: Any
    token: str


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _token(value: Any) -> str:
    """The value in keys; a digest if it is long."""
    text = _json(value)
    return text if len(text) <= 64 else sha256(text.encode()).hexdigest()


def _wrong(axis: str, wanted: str, found: object) -> PipeSchedError:
    return PipeSchedError(f"{axis}: expected {wanted}, found {found!r}")


def _read_integer(axis: str, value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        try:
            yield from integers(value)
        except ValueError as error:
            raise PipeSchedError(f"{axis}: {error}") from None
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value
    else:
        raise _wrong(axis, "an integer or a range such as 8:64:8", value)


def _read_family(value: Any) -> Iterator[Any]:
    if not isinstance(value, str):
        raise _wrong("family", "a name", value)
    yield canonical(value)


def _read_word(axis: str, value: Any) -> Iterator[Any]:
    choices = cast("tuple[str, ...]", kinds(axis))
    if value not in choices:
        raise PipeSchedError(f"{axis}: unknown value {value!r}{closest(str(value), choices)}")
    yield value


def _read_sizes(axis: str, value: Any) -> Iterator[Any]:
    yield DEPLOYED[axis].text(value)


def _read_disturbance(value: Any) -> Iterator[Any]:
    if not isinstance(value, str):
        raise _wrong("disturbance", "a text such as worker3=1.3,jitter=5%", value)
    for entry in value.split(","):
        # Refuses an entry that is wrong for any worker or stage. The row of a point says so if only
        # that worker or stage does not exist.
        texts = (entry, re.sub(r"^(\s*(?:worker|stage))\d+", r"\g<1>0", entry))
        points = [Configuration("gpipe", 1, 1, disturbance=text)._raw() for text in texts]
        errors = _core.sweep(points, 1, None)[1]
        if all(errors):
            raise PipeSchedError(f"disturbance: {errors[0]}")
    yield value.strip()


def _read_bool(axis: str, value: Any) -> Iterator[Any]:
    if not isinstance(value, bool):
        raise _wrong(axis, "true or false", value)
    yield value


def _read_float(axis: str, value: Any) -> Iterator[Any]:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _wrong(axis, "numbers", value)
    yield number


def _read_path(path: Any) -> Path | list[int]:
    if not isinstance(path, Mapping):
        return list(path)
    known = [f.name for f in fields(Path)]
    for name in path:
        if name not in known:
            raise PipeSchedError(f"paths: unknown key {name!r}{closest(name, known)}")
    takes = [range(*taken) for taken in path.get("takes", ())]
    return Path(**{**path, "takes": takes})


def _read_paths(value: Any) -> list[Path | list[int]]:
    try:
        paths = [path if isinstance(path, Path) else _read_path(path) for path in value]
        raw = [path.workers if isinstance(path, Path) else path for path in paths]
        if all(raw) and all(type(worker) is int for workers in raw for worker in workers):
            return paths
    except TypeError:
        pass
    raise _wrong("paths", "the workers of the stages of each path, such as [[0, 1, 1, 0]]", value)


def _path_json(path: Path | list[int]) -> Any:
    if not isinstance(path, Path):
        return path
    takes = [[taken.start, taken.stop, taken.step] for taken in path.takes]
    given = {field.name: getattr(path, field.name) for field in fields(Path)}
    return {k: v for k, v in {**given, "takes": takes}.items() if v}


def _describe(axis: str, value: Any) -> Choice:
    """Reads a model, a system or times; contents of files are part of the key."""
    if not isinstance(value, (str, Mapping, os.PathLike)):
        raise _wrong(axis, "a name, a file or an object with its fields", value)
    try:
        if axis == "times" and names_layers(value):
            check_layer_times(value)
        else:
            Costs(**{axis: value})  # type: ignore[arg-type]  # raises its own error
    except (TypeError, ValueError) as error:
        raise PipeSchedError(f"{axis}: {said_by(error)}") from None
    if isinstance(value, Mapping):
        fields_of = dict(value)
        label = _json(fields_of) if axis == "times" else fields_of["name"]
        return Choice(label, fields_of, _token(fields_of))
    if isinstance(value, str) and not _looks_like_path(value):
        return Choice(value, value, _token(value))
    file = os.fspath(value)
    with open(file, encoding="utf-8-sig") as contents:
        token = _token(json.load(contents))
    return Choice(file, os.path.abspath(file), token)


def _simple(axis: str, value: Any) -> Iterator[Any]:
    """The values that one entry of an axis means."""
    taken = kinds(axis)
    if taken == (int,):
        return _read_integer(axis, value)
    if taken == (bool,):
        return _read_bool(axis, value)
    if taken == (float,):
        return _read_float(axis, value)
    if all(isinstance(kind, str) for kind in taken):
        return _read_word(axis, value)
    if axis in DEPLOYED and DEPLOYED[axis].kind == "sizes":
        return _read_sizes(axis, value)
    if axis == "disturbance":
        return _read_disturbance(value)
    if axis == RESERVE:
        reserve_of(value, whole=100)  # Refuses other texts than bytes and parts.
        return iter([str(value)])
    return iter([value])


def _choices(axis: str, value: Any) -> Iterator[Choice]:
    default = None if _DEFAULTS.get(axis) is None else _DEFAULTS[axis]
    if value is None:
        if axis in (*_SIZES, "family"):
            raise _wrong(axis, "a value", None)
        yield Choice(None, None, "")
    elif axis in _FILES:
        yield _describe(axis, value)
    elif axis == "paths":
        paths = _read_paths(value)
        plain = [_path_json(path) for path in paths]
        yield Choice(plain, paths, _token(plain))
    elif axis == OWN_OPTIONS:
        if not isinstance(value, str):
            raise _wrong(axis, "a text such as depth=2", value)
        options_of_text(value)
        yield Choice(value, value, _token(value))
    elif axis == "family":
        for name in _read_family(value):
            own = own_family(name)
            yield Choice(name, name, _token(f"{name}@{own.digest}" if own else name))
    else:
        for one in _simple(axis, value):
            yield Choice(one, one, "" if one == default else _token(one))


def _check_labels(axis: str, choices: Sequence[Choice]) -> None:
    seen: dict[str, Choice] = {}
    for choice in choices:
        label = _json(choice.label)
        if label in seen:
            raise PipeSchedError(f"{axis}: two are called {choice.label!r}")
        seen[label] = choice


def read_axis(axis: str, given: Any) -> tuple[Choice, ...]:
    """The values of an axis, each once."""
    values = given if isinstance(given, (list, tuple, range)) else [given]
    read = (choice for value in values for choice in _choices(axis, value))
    chosen = {(choice.token, choice.label is None): choice for choice in read}
    choices = tuple(chosen.values())
    if not choices:
        raise PipeSchedError(f"{axis}: expected at least one value, found none")
    _check_labels(axis, choices)
    return choices


# Costs


@lru_cache(maxsize=256)
def _costs(text: str) -> Costs:
    return Costs(**json.loads(text))


@lru_cache(maxsize=256)
def _costs_of_items(items: tuple[tuple[str, Any], ...]) -> Costs:
    return Costs(**dict(items))


def costs_of(given: Mapping[str, Any]) -> Costs:
    """The costs with these arguments, the same object for equal ones."""
    items = tuple(given.items())
    try:
        hash(items)
    except TypeError:  # some value is an object with fields
        return _costs(json.dumps(given))
    return _costs_of_items(items)


# Points


def configuration(inputs: Inputs) -> Configuration:
    """The configuration with these `Point.inputs`. Refuses costs that contradict each other."""
    of_costs = {name: inputs[name] for name in COSTS if name in inputs}
    options = {name: inputs[name] for name in OPTIONS if name in inputs}
    given = options_of_text(inputs[OWN_OPTIONS]) if OWN_OPTIONS in options else {}
    apart = {*of_costs, *options, RESERVE}
    rest = {name: v for name, v in inputs.items() if name not in apart}
    costs = costs_of(of_costs) if of_costs else None
    rest.setdefault("optimizer_step", usual_ending(rest["family"], of_costs))
    return Configuration(
        **rest,
        options=cast(
            FamilyOptions, {**{k: v for k, v in options.items() if k != OWN_OPTIONS}, **given}
        ),
        costs=costs,
    )


@dataclass(frozen=True, slots=True)
class Point:
    """One configuration of a grid."""

    axes: tuple[str, ...]
    choices: tuple[Choice, ...]
    key: str = field(init=False, compare=False)
    """A digest of the given arguments and the version, the same in every process and grid."""

    def __post_init__(self) -> None:
        chosen = zip(self.axes, self.choices, strict=True)
        given = sorted(f"{axis}={choice.token}" for axis, choice in chosen if choice.token)
        key = sha256("\n".join([_core.version, *given]).encode()).hexdigest()[:32]
        object.__setattr__(self, "key", key)

    @property
    def inputs(self) -> Inputs:
        """The arguments that are given."""
        chosen = zip(self.axes, self.choices, strict=True)
        return {axis: choice.value for axis, choice in chosen if choice.value is not None}

    @property
    def labels(self) -> dict[str, Any]:
        """The displayed arguments: models and systems by their names."""
        return {axis: choice.label for axis, choice in zip(self.axes, self.choices, strict=True)}


def _rename_axes(part: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces other names of axes by the names of the axes."""
    if not isinstance(part, Mapping):
        raise PipeSchedError(f"expected an object with the axes of a grid, found {part!r}")
    found: dict[str, Any] = {}
    for key, value in part.items():
        name = ALIASES.get(key, key)
        if name not in AXES:
            raise PipeSchedError(f"unknown key {key!r}{closest(str(key), (*AXES, *ALIASES))}")
        if name in found:
            raise PipeSchedError(f"the keys {name!r} and {key!r} are the same")
        found[name] = value
    return found


@cache
def _options_of_shipped(family: str) -> tuple[str, ...]:
    return families()[family].options


def _options_of(family: str) -> tuple[str, ...]:
    own = own_family(family)
    return own.options if own else _options_of_shipped(family)


def _check_parts(given: object) -> list[Mapping[str, Any]]:
    parts = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
    if parts is None or not all(isinstance(part, Mapping) for part in parts):
        example = '{"family": "1f1b", "workers": 4, "microbatches": [8, 16]}'
        raise WrongType(f"a grid is a mapping of axes such as {example}, or a list; got {given!r}")
    return parts


class Grid:
    """Every combination of the values of its axes.

    >>> grid = Grid({"family": ["1f1b", "VPP"], "workers": 4, "microbatches": "8:24:8"})
    >>> len(grid.points())
    6

    An axis has one value or a list of values. Integers may also be ranges that include their end,
    `"8:64:8"`, or by a factor, `"8:64:x2"`. Without `family` the grid has all families that ship.
    An option of families applies only to the families that have it. Several such mappings are
    joined, and equal points count once.
    """

    def __init__(self, given: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        parts = [given] if isinstance(given, Mapping) else _check_parts(given)
        self.parts = [self._read(part) for part in parts]
        self.axes = tuple(axis for axis in AXES if any(axis in part for part in self.parts))
        if self._size > MOST_POINTS:
            raise PipeSchedError(
                f"the grid has {self._size:,} points, expected at most {MOST_POINTS:,}"
            )

    @staticmethod
    def _read(part: Mapping[str, Any]) -> dict[str, tuple[Choice, ...]]:
        shipped = [name for name in families() if name not in own_families()]
        given = {"family": shipped, **_rename_axes(part)}
        for name in _SIZES:
            if name not in given:
                raise PipeSchedError(f"needs the key {name!r}")
        read = {axis: read_axis(axis, given[axis]) for axis in AXES if axis in given}
        names = [choice.value for choice in read["family"]]
        for option in OPTIONS:
            if option == OWN_OPTIONS and option in read:
                check_own_options([choice.value for choice in read[option]], names)
            elif option in read and not any(option in _options_of(name) for name in names):
                raise PipeSchedError(f"none of {', '.join(names)} has the option {option!r}")
        return read

    def values(self) -> dict[str, list[Any]]:
        """The displayed values of each axis in order."""
        found: dict[str, list[Any]] = {}
        for axis in self.axes:
            labels = (c.label for part in self.parts for c in part.get(axis, ()))
            found[axis] = list({_json(label): label for label in labels}.values())
        return found

    def varied(self) -> list[str]:
        """The axes with several values."""
        everywhere = {a for a in self.axes if all(a in part for part in self.parts)}
        return [a for a, v in self.values().items() if len(v) > 1 or a not in everywhere]

    @staticmethod
    def defaults() -> dict[str, Any]:
        """The defaults of the axes, except None."""
        plain = (str, bool, int)
        return {axis: d for axis in AXES if isinstance(d := _DEFAULTS.get(axis), plain)}

    @cached_property
    def _size(self) -> int:
        """The number of points; a point in several parts counts several times."""
        return sum(
            math.prod(len(part[axis]) for axis in _axes_of(part, family))
            for part in self.parts
            for family in part["family"]
        )

    @staticmethod
    def from_file(path: str | os.PathLike[str], *, allow_code: bool = False, **axes: Any) -> Grid:
        """Reads a grid from JSON: an object with its axes or an array of such objects. `axes`
        replace the axes of the file. Families that it names by the places of Python functions,
        which would be imported, are refused without `allow_code`.
        """
        for name, given in axes.items():
            read_axis(name, given)
        filename = path_of("path", path)
        flag_of("allow_code", allow_code)
        with open(filename, "rb") as file:
            contents = file.read()
        parts = read_json(contents, filename)
        try:
            given = [_rename_axes(part) for part in parts]
            if not allow_code and "family" not in axes:
                _refuse_code(given)
            return Grid([{**part, **axes} for part in given])
        except PipeSchedError as error:
            raise PipeSchedError(f"{filename}: {error.diagnostics[0].message}") from None

    def points(self) -> list[Point]:
        """The points in order: the last axis varies fastest."""
        found: dict[str, Point] = {}
        for part in self.parts:
            for point in _points(part):
                found.setdefault(point.key, point)
        return list(found.values())


def _axes_of(part: Mapping[str, Any], family: Choice) -> tuple[str, ...]:
    """The axes of the points of a family, other than `family`."""
    known = _options_of(family.value)
    if all(has_own(family.value, c.value) for c in part.get(OWN_OPTIONS, ())):
        known = (*known, OWN_OPTIONS)
    given = (axis for axis in part if axis != "family")
    return tuple(axis for axis in given if axis not in OPTIONS or axis in known)


def _points(part: dict[str, tuple[Choice, ...]]) -> Iterator[Point]:
    outer = tuple(axis for axis in part if axis not in (*OPTIONS, "family", "paths"))
    for chosen in itertools.product(*(part[axis] for axis in outer)):
        for family in part["family"]:
            inner = tuple(axis for axis in _axes_of(part, family) if axis not in outer)
            axes = (*outer, "family", *inner)
            for options in itertools.product(*(part[axis] for axis in inner)):
                yield Point(axes, (*chosen, family, *options))


# Files


def _refuse_code(parts: Sequence[Mapping[str, Any]]) -> None:
    for part in parts:
        named = part.get("family")
        for name in named if isinstance(named, list) else [named]:
            if isinstance(name, str):
                refuse_place(name)


def read_json(contents: bytes, filename: str) -> list[dict[str, Any]]:
    """The grid of a JSON file, an object or an array of objects, as `Grid` takes it."""
    try:
        given = json.loads(contents.decode("utf-8-sig"), object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = Location(filename, error.lineno, error.colno)
        what = error.msg[0].lower() + error.msg[1:]
        raise PipeSchedError([Diagnostic("error", what, place)]) from None
    except UnicodeDecodeError as error:
        raise PipeSchedError(f"{filename}: byte {error.start} is not UTF-8") from None
    except (RecursionError, ValueError) as error:
        raise PipeSchedError(f"{filename}: {error}") from None
    parts = given if isinstance(given, list) else [given]
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise PipeSchedError(
            f"{filename}: expected an object with the axes of a grid, or an array of such objects"
        )
    return cast("list[dict[str, Any]]", parts)

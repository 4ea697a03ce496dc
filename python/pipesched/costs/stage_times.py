"""Divides the times of phases of a whole worker among its stages.

A schedule with several stages a worker does more work in a step than one with a single stage, if
the same times are of a stage. If they are of a worker, both do the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any

from ..errors import PipeSchedError
from ..support.files import read_json_file

MESSAGES = ("comm", "send")
"""The times of a profile that belong to messages. They are not divided."""

MICROBATCHES = "microbatches"
"""The name of the times that differ by microbatch. They are of stages and never divided."""

SCHEMA = "$schema"
"""The key that names the schema of a file for editors; it is not a time."""

_UNITS = {"ps": 0, "ns": 3, "us": 6, "ms": 9, "s": 12}

Lengths = tuple[int, ...] | None
Place = tuple[tuple[int, ...], Lengths]
"""The workers of the stages of a path, and the relative lengths of the stages."""


# Reading

Entries = dict[str, str | list[str]]


def _split(text: str) -> list[str]:
    """The parts of a text between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def as_entry(value: Any) -> str | list[str]:
    """Returns a time as text, or a list of such texts."""
    if isinstance(value, (list, tuple)):
        return [str(as_entry(item)) for item in value]
    if isinstance(value, int):
        return f"{value}ps"
    text = str(value).strip()
    return [part.strip() for part in text[1:-1].split(",")] if text.startswith("[") else text


def flatten(times: Mapping[str, Any]) -> dict[str, Any]:
    """The same times with one name each.

    >>> flatten({"F": "1ms", "microbatches": {"B": ["2ms", "6ms"]}})
    {'F': '1ms', 'microbatches.B': ['2ms', '6ms']}
    """
    flat: dict[str, Any] = {}
    for name, value in times.items():
        if name == MICROBATCHES and isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": lists for inner, lists in value.items()}
        else:
            flat[str(name)] = value
    return flat


def is_by_microbatch(name: str) -> bool:
    """Whether times of this name differ by microbatch."""
    return name.startswith(f"{MICROBATCHES}.")


def is_file(times: Any) -> bool:
    """Whether times are the path of a file."""
    return not isinstance(times, str) or times.endswith(".json") or os.sep in times


def split_pairs(text: str) -> dict[str, str]:
    """Splits a text of times into values by name."""
    pairs = (part.partition("=") for part in _split(text))
    return {name.strip(): value for name, _, value in pairs}


def entries_of(times: Any) -> Entries:
    """The names and times of the argument of `Costs(times=...)`. The library has read it before, so
    it is valid.

    >>> entries_of("F=1ms, comm=[2us,3us]")
    {'F': '1ms', 'comm': ['2us', '3us']}
    """
    if isinstance(times, Mapping):
        given = flatten(times)
    elif is_file(times):
        fields = read_json_file(os.fspath(times))
        if not isinstance(fields, Mapping):
            raise PipeSchedError(f"{os.fspath(times)}: expected an object with the times")
        given = flatten({name: value for name, value in fields.items() if name != SCHEMA})
    else:
        given = dict(split_pairs(times))
    return {
        name: str(value) if is_by_microbatch(name) else as_entry(value)
        for name, value in given.items()
    }


def has_phases(times: Any) -> bool:
    """Returns whether there are times of phases, not only of messages."""
    return any(name.rpartition(".")[2] not in MESSAGES for name in entries_of(times))


def listed_stages(entries: Entries) -> int | None:
    """Returns the number of stages in the lists of times of phases. Returns None without lists, or
    if their lengths differ, which the library refuses.

    >>> listed_stages(entries_of("F=[1ms,2ms],B=4ms"))
    2
    """
    lengths = {len(v) for n, v in entries.items() if n not in MESSAGES and isinstance(v, list)}
    return lengths.pop() if len(lengths) == 1 and max(lengths) > 1 else None


def ps_of(text: str) -> int:
    """A time of a profile, such as `18.5ms`, in picoseconds."""
    unit = text.lstrip("0123456789.+eE ").strip()
    try:
        value = Decimal(text[: len(text) - len(unit)].strip()).scaleb(_UNITS[unit])
    except (InvalidOperation, KeyError):
        raise PipeSchedError(f"expected a time such as 18.5ms, found {text!r}") from None
    return int(value)


# Dividing


def stages_per_worker(places: Sequence[Place]) -> float:
    """Returns the number of stages of a worker that a microbatch passes, as the mean over the
    workers. Stages of several paths do not add up, since a microbatch takes only one path.

    >>> stages_per_worker([((0, 1, 1, 0), None)])
    2.0
    >>> stages_per_worker([((0, 1), None), ((1, 0), None)])
    1.0
    """
    workers = 1 + max(worker for place, _ in places for worker in place)
    return max(len(place) for place, _ in places) / workers


def divide(whole: int, lengths: Sequence[int]) -> list[int]:
    """Divides exactly, in proportion to the lengths.

    >>> divide(10, [1, 1, 1])
    [3, 3, 4]
    """
    whole_length = sum(lengths)
    if whole_length == 0:
        lengths, whole_length = [1] * len(lengths), len(lengths)
    ends = [whole * end // whole_length for end in accumulate(lengths)]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def _of_path(place: Place, times: Sequence[int]) -> tuple[int, ...]:
    """Returns the times of the stages of a path, so that the stages of each worker take the given
    time together. A single time holds for every worker.
    """
    workers, lengths = place
    found = [0] * len(workers)
    for worker in set(workers):
        whole = times[worker] if len(times) > 1 else times[0]
        held = [stage for stage, other in enumerate(workers) if other == worker]
        parts = divide(whole, [lengths[stage] if lengths else 1 for stage in held])
        for stage, part in zip(held, parts, strict=True):
            found[stage] = part
    return tuple(found)


def _divide_entry(name: str, time: str | list[str], places: Sequence[Place]) -> str:
    if is_by_microbatch(name):
        raise PipeSchedError(f"times of a worker: {name} has times of stages; give no others")
    if name in MESSAGES:
        return time if isinstance(time, str) else f"[{','.join(time)}]"
    times = [time] if isinstance(time, str) else time
    workers = 1 + max(worker for place, _ in places for worker in place)
    if len(times) not in (1, workers):
        raise PipeSchedError(
            f"times of a worker: {name} has {len(times)} times, expected one, or one for each of"
            f" the {workers} workers; or let the times be those of stages"
        )
    found = {_of_path(place, list(map(ps_of, times))) for place in places}
    if len(found) > 1:
        raise PipeSchedError(
            f"times of a worker: the stages of the paths take different parts of {name}, and a"
            " profile has one list for all paths; give the times of stages"
        )
    (parts,) = found
    if len(set(parts)) == 1:
        return f"{parts[0]}ps"
    return f"[{','.join(f'{part}ps' for part in parts)}]"


@lru_cache(maxsize=1024)
def _divide_text(entries: tuple[tuple[str, Any], ...], places: tuple[Place, ...]) -> str:
    pairs = ((name, list(v) if isinstance(v, tuple) else v) for name, v in entries)
    return ",".join(f"{name}={_divide_entry(name, value, places)}" for name, value in pairs)


def divided(times: Any, places: Sequence[Place]) -> str:
    """The times of stages, so that the stages of each worker take the given times of phases in all,
    to the picosecond. A list has a time for each worker. Times of messages are unchanged. Raises an
    error for a list of another length, such as one of times of stages.

    >>> divided("F=10ms,comm=1ms", [((0, 1, 1, 0), None)])
    'F=5000000000ps,comm=1ms'
    >>> divided("F=3ps", [((0, 1, 1, 0), None)])
    'F=[1ps,1ps,2ps,2ps]'
    """
    entries = entries_of(times)
    hashable = tuple((n, tuple(v) if isinstance(v, list) else v) for n, v in entries.items())
    return _divide_text(hashable, tuple(places))


# Placements


@cache
def places_of_family(
    family: str, workers: int, options: tuple[tuple[str, Any], ...]
) -> tuple[Place, ...]:
    """The placement that a family takes; empty if it has none for this number of workers."""
    from ..schedule.generation import generate

    try:
        made = generate(family, workers=workers, microbatches=2 * workers, **dict(options))
    except PipeSchedError:
        return ()
    return places_of(made.paths)


def places_of(paths: Sequence[Any]) -> tuple[Place, ...]:
    """The placement of paths: `Path` objects, or the workers of their stages."""
    found = []
    for path in paths:
        workers = tuple(getattr(path, "workers", path))
        lengths = getattr(path, "blocks", None) or getattr(path, "weights", None)
        found.append((workers, tuple(lengths) if lengths else None))
    return tuple(found)

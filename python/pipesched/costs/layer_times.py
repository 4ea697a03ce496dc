"""Times of phases that are given for each layer, and added up over the layers of each stage.

The layers can be divided again for any number of stages, unlike times of stages. Embedding and head
are separate layers, on the first and on the last stage of every path.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

from .. import _core
from ..errors import PipeSchedError
from ..support.files import read_json_file
from .stage_times import (
    MESSAGES,
    SCHEMA,
    Entries,
    Place,
    as_entry,
    divide,
    is_by_microbatch,
    is_file,
    ps_of,
    split_pairs,
)

ENDS = ("embedding", "head")
"""The parts of the first and the last stage other than layers."""

LAYERS, COUNT = "layers", "count"

_BACKWARD = ("B", "I", "W")

Parts = dict[str, dict[str, Any]]
"""The times by phase of `layers`, `embedding` and `head`; times of messages are under an empty
name, and the number of layers, if it is given, under `count` of the layers.
"""


# Reading


def _raw(times: Any) -> Mapping[str, Any]:
    if isinstance(times, Mapping):
        return times
    return _read_file(os.fspath(times)) if is_file(times) else split_pairs(times)


def _read_file(path: str) -> dict[str, Any]:
    """The object of a file of docs/schemas/layer-times.schema.json."""
    read = read_json_file(path)
    if not isinstance(read, dict):
        raise PipeSchedError(
            f'{path}: expected an object such as {{"layers": {{"count": 32, "F": "1ms"}}}}, found a'
            f" {type(read).__name__}"
        )
    if not isinstance(schema := read.pop(SCHEMA, ""), str):
        raise PipeSchedError(f"{path}: {SCHEMA}: expected a text, found {schema!r}")
    return read


@contextmanager
def _name_errors(times: Any) -> Iterator[None]:
    """Makes errors in this block name the file, if the times come from one."""
    try:
        yield
    except PipeSchedError as error:
        if isinstance(times, Mapping) or not is_file(times):
            raise
        raise PipeSchedError(f"{os.fspath(times)}: {error.diagnostics[0].message}") from None


def names_layers(times: Any) -> bool:
    """Whether times are times of layers by their keys: they name `layers`, `embedding` or `head`.

    >>> names_layers("F=1ms,B=2ms"), names_layers("F=1ms,B=2ms,head.F=3ms,head.B=6ms")
    (False, True)
    """
    try:
        raw = _raw(times)
    except (PipeSchedError, ValueError, TypeError):
        return False  # the library reports the error
    return any(str(name).partition(".")[0] in (LAYERS, *ENDS) for name in raw)


def _put(parts: Parts, part: str, name: str, value: Any) -> None:
    if name in parts[part]:
        raise PipeSchedError(f"times of layers: {name} of {part or 'messages'} is given twice")
    parts[part][name] = value


def _parts(raw: Mapping[str, Any]) -> Parts:
    parts: Parts = {"": {}, LAYERS: {}, **{end: {} for end in ENDS}}
    for key, value in raw.items():
        part, _, name = str(key).partition(".")
        if part not in (LAYERS, *ENDS):
            _put(parts, "" if key in MESSAGES else LAYERS, str(key), value)
        elif name:
            _put(parts, part, name, value)
        elif isinstance(value, Mapping):
            for inner, time in value.items():
                _put(parts, part, str(inner), time)
        elif part == LAYERS:
            _put(parts, part, COUNT, value)
        else:
            raise PipeSchedError(
                f"times of layers: expected {part} to have times by phase, such as"
                f' {{"F": "1ms", "B": "2ms"}}, found {value!r}'
            )
    return parts


def _check_part(part: str, times: Mapping[str, Any]) -> Entries:
    """Checks the times of a part. The library reads them first as times of stages."""
    from .costs import Costs

    entries = {name: as_entry(value) for name, value in times.items()}
    if not entries:
        return entries
    try:
        Costs(times=_text(entries))
    except PipeSchedError as error:
        reason = _reason(entries) or error.diagnostics[0].message
        raise PipeSchedError(f"times of layers, {part or 'messages'}: {reason}") from None
    return entries


def _reason(entries: Entries) -> str | None:
    """The message for the first wrong time of a list, with its index."""
    from .costs import Costs

    for name, entry in entries.items():
        for index, item in enumerate(entry if isinstance(entry, list) else ()):
            try:
                Costs(times=f"{name}={item}")
            except PipeSchedError as error:
                said = error.diagnostics[0].message
                place = f"{name}[{index}]"
                return said.replace(name, place, 1) if said.startswith(f"{name}:") else said
    return None


def check_layer_times(times: Any) -> None:
    """Raises an error for times of layers that are wrong for every model."""
    raw = _raw(times)
    with _name_errors(times):
        parts = _parts(raw)
        _count(parts[LAYERS].pop(COUNT, None))
        for part, given in parts.items():
            _check_part(part, given)


def _text(entries: Entries) -> str:
    def value(entry: str | list[str]) -> str:
        return entry if isinstance(entry, str) else f"[{','.join(entry)}]"

    return ",".join(f"{name}={value(entry)}" for name, entry in entries.items())


def _count(given: Any) -> int | None:
    if given is None:
        return None
    try:
        count = int(str(given))
    except ValueError:
        count = 0
    if count < 1:
        raise PipeSchedError(
            f"times of layers: expected a positive number of layers, found {given!r}"
        )
    return count


def _number_of_layers(given: Any, lists: Mapping[str, int], model: int | None) -> int:
    """The number of layers: from the times, or from the model."""
    said = {f"{name} has {n} times": n for name, n in lists.items()}
    if (count := _count(given)) is not None:
        said = {f"their number is given as {count}": count, **said}
    if model:
        said["the model has " + ("one" if model == 1 else str(model))] = model
    if not said:
        raise PipeSchedError(
            "times of layers: it is not said how many layers there are; give a model, a list with"
            ' a time for each layer, or their number (layers=32, or "layers": {"count": 32} in'
            " JSON)"
        )
    if len(set(said.values())) > 1:
        raise PipeSchedError(f"times of layers: the numbers of layers differ: {', '.join(said)}")
    return next(iter(said.values()))


def _check_end(end: str, times: Mapping[str, int], layers: Mapping[str, Any]) -> None:
    """Refuses times of an end for phases that the layers lack, and times that lack a part of the
    backward.
    """
    for name in times:
        if name not in layers:
            raise PipeSchedError(
                f"times of layers: {end} gives {name}, which the layers do not; give"
                f" {', '.join(layers)}"
            )
    halves = [name for name in _BACKWARD if name in layers]
    missing = [name for name in halves if name not in times]
    if missing and len(missing) < len(halves):
        raise PipeSchedError(
            f"times of layers: {end} gives no {' and no '.join(missing)}, which the layers give"
        )


def _backward(times: Mapping[str, int]) -> int:
    return times["B"] if "B" in times else times.get("I", 0) + times.get("W", 0)


# Layers


@dataclass(frozen=True)
class LayerTimes:
    """The times of layers, in picoseconds."""

    count: int
    layers: Mapping[str, tuple[int, ...]]
    """By phase, the time of each layer."""
    ends: tuple[Mapping[str, int], Mapping[str, int]]
    """By phase, the times of the embedding and of the head."""
    messages: Entries
    what: str = "times of layers"

    @staticmethod
    def read(times: Any, model: int | None) -> LayerTimes:
        """Reads times as `Costs(times=..., times_of="layer")` takes them; `model` is the number of
        the model's layers. Errors name the file, the part and the expected form.
        """
        raw = _raw(times)
        with _name_errors(times):
            return LayerTimes._read(_parts(raw), model)

    @staticmethod
    def _read(parts: Parts, model: int | None) -> LayerTimes:
        count = parts[LAYERS].pop(COUNT, None)
        entries = {part: _check_part(part, times) for part, times in parts.items()}
        given = entries[LAYERS]
        if "F" not in given:
            raise PipeSchedError("times of layers: the layers give no F")
        lists = {name: len(entry) for name, entry in given.items() if isinstance(entry, list)}
        count = _number_of_layers(count, lists, model)
        layers = {name: _times_of_all(entry, count) for name, entry in given.items()}
        return LayerTimes(
            count,
            layers,
            (_end("embedding", entries, layers), _end("head", entries, layers)),
            entries[""],
        )

    @staticmethod
    def of_stages(entries: Entries, stages: int, count: int) -> LayerTimes:
        """Divides times of `stages` stages exactly among equally many layers each, `count` in all;
        a single time holds for every stage.
        """
        layers: dict[str, tuple[int, ...]] = {}
        for name, entry in entries.items():
            if is_by_microbatch(name):
                raise PipeSchedError(
                    f"times of {stages} stages: {name} differs by microbatch, and is not divided"
                    " among layers"
                )
            if name not in MESSAGES:
                parts = [divide(ps, [1] * (count // stages)) for ps in _times_of_all(entry, stages)]
                layers[name] = tuple(part for each in parts for part in each)
        messages = {name: entry for name, entry in entries.items() if name in MESSAGES}
        return LayerTimes(count, layers, ({}, {}), messages, f"times of {stages} stages")

    @property
    def has_ends(self) -> bool:
        """Whether there are times of the embedding or of the head."""
        return any(self.ends)

    def counts_on(self, place: Place) -> tuple[int, ...]:
        """The layers of each stage of a path: by its blocks or weights, else equally many."""
        workers, lengths = place
        if lengths is None:
            lengths = (1,) * len(workers)
        divisor = math.gcd(*lengths)
        parts = sum(lengths) // divisor if divisor else 0
        if not parts or self.count % parts:
            if place[1] is None:
                raise PipeSchedError(
                    f"{self.what}: {len(workers)} stages do not divide {self.count} layers; let"
                    ' stages differ (balance="auto"), or give the path its blocks'
                )
            raise PipeSchedError(
                f"{self.what}: there are {self.count} layers; the blocks or weights of the path"
                f" make {sum(lengths)} parts"
            )
        return tuple(length // divisor * (self.count // parts) for length in lengths)

    def text(self, counts: Sequence[int]) -> str:
        """The exact times of the stages of a path, from the number of layers that each holds."""
        found: Entries = {}
        for name, each in self.layers.items():
            sums = [0, *accumulate(each)]
            cuts = [0, *accumulate(counts)]
            times = [sums[end] - sums[begin] for begin, end in zip(cuts, cuts[1:], strict=False)]
            times[0] += self._of_end(0, name)
            times[-1] += self._of_end(1, name)
            alike = len(set(times)) == 1
            found[name] = f"{times[0]}ps" if alike else [f"{time}ps" for time in times]
        return _text({**found, **self._messages(len(counts))})

    def _of_end(self, end: int, name: str) -> int:
        times = self.ends[end]
        if name == "FB" and "FB" not in times:
            return times.get("F", 0) + _backward(times)
        return times.get(name, 0)

    def _messages(self, stages: int) -> Entries:
        for name, entry in self.messages.items():
            if isinstance(entry, list) and len(entry) != stages:
                raise PipeSchedError(
                    f"{self.what}: {name} has {len(entry)} times, and there are {stages} stages;"
                    " give one time for all messages"
                )
        return self.messages

    def text_on(self, places: Sequence[Place]) -> str:
        """The times of the stages of all paths. Raises an error if they differ by path, which a
        profile cannot express.
        """
        texts = {self.text(self.counts_on(place)) for place in places}
        if len(texts) > 1:
            raise PipeSchedError(
                f"{self.what}: stages of the paths hold different layers, and a profile has one"
                " list of times for all paths; give the paths the same blocks"
            )
        return texts.pop()

    def balanced_on(self, workers: Sequence[int]) -> tuple[int, ...]:
        """Returns the layers of each stage of a path for which all workers are equally busy with
        the forward and backward of a microbatch.
        """
        times = [{name: each[i] for name, each in self.layers.items()} for i in range(self.count)]
        runs = [(each, len(list(same))) for each, same in groupby(map(_work, times))]
        first, last = map(_work, self.ends)
        counts, loads = [count for _, count in runs], [each for each, _ in runs]
        return tuple(_core.balance_loads(list(workers), counts, loads, first, last))


def _work(times: Mapping[str, int]) -> int:
    return times.get("F", 0) + _backward(times)


def _times_of_all(entry: str | list[str], count: int) -> tuple[int, ...]:
    if isinstance(entry, str):
        return (ps_of(entry),) * count
    return tuple(map(ps_of, entry)) * (count if len(entry) == 1 else 1)


def _end(
    end: str, entries: Mapping[str, Entries], layers: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, entry in entries[end].items():
        if not isinstance(entry, str):
            raise PipeSchedError(f"times of layers: {end} has a list for {name}; give one time")
        found[name] = ps_of(entry)
    _check_end(end, found, layers)
    return found

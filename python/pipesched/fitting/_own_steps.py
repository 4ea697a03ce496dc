"""Reads measured steps of own trainings: rows of a plan with the time of a step, or its log."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ..costs.costs import Description
from ..costs.deployment import HELD
from ..errors import PipeSchedError
from ..planning.request import Request
from ..planning.space.space import Space
from ..planning.whatif import case_of
from ..results.configuration import Configuration
from ..support.files import read_json
from ..support.text import closest
from .files import MEASURED

LISTED = ("tensor", "pp", "context", "expert", "microbatch_size", "chunks")
"""Numbers of a plan that a row chooses one of."""

KINDS = ("recompute", "sharding")
SINGLE = (
    *("model", "system", "gpus", "global_batch", "sequence", "attention", "precision"),
    *("transport", "context_exchange", "memory", "reserve", *HELD),
)
OTHERS = {"pipeline": "pp", "stages": "pp", "for": "launcher", "name": "", "schedule": ""}
KNOWN = (*SINGLE, *LISTED, *KINDS, *OTHERS, *MEASURED)

UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0}
STEP = re.compile(
    r"(?:elapsed time per iteration|step[_ ]time|train_step_timing|time per step)"
    r"(?: in (?P<in>m?s)| *\((?P<of>m?s)\))? *[:=]? *(?P<time>[0-9][0-9.,]*) *(?P<unit>m?s\b)?",
    re.IGNORECASE,
)
"""A step time as Megatron-LM, NeMo and others print it."""

RATE = re.compile(r"\b(?:tps|tokens/s/GPU) *[:=] *(?P<rate>[0-9][0-9.,]*)", re.IGNORECASE)
"""Tokens per second and device as torchtitan prints them."""

WARM_UP = 0.2
"""The first part of the lines of a log, which is left out."""

MOST_LOG = 1 << 28


class OwnStep(NamedTuple):
    """A configuration that was run, and how long its step took."""

    name: str
    configuration: Configuration
    seconds: float
    place: str
    """Where it was read."""


# Logs


def _number(text: str) -> float:
    return float(text.replace(",", "").rstrip("."))


def _times_of(text: str, tokens: int) -> Iterator[float]:
    """The steps that the lines of a log name; `tokens` are those of a step and device."""
    for line in text.splitlines():
        if match := STEP.search(line):
            unit = match["in"] or match["of"] or match["unit"] or ""
            yield _number(match["time"]) * UNITS[unit.lower()]
        elif tokens and (match := RATE.search(line)):
            rate = _number(match["rate"])
            if rate > 0:
                yield tokens / rate


def seconds_of_log(text: str, tokens: int) -> float | None:
    """The median step of a log after its warm-up; None if no line names one.

    >>> seconds_of_log(" iteration 20/ 100 | elapsed time per iteration (ms): 1250.0 |", 0)
    1.25
    >>> seconds_of_log("step: 10 loss: 8.1 memory: 60GiB(76%) tps: 4,096 mfu: 40%", 8192)
    2.0
    """
    found = [time for time in _times_of(text, tokens) if 0 < time < math.inf]
    after = found[int(WARM_UP * len(found)) :]
    return median(after) if after else None


def _log(given: str, folder: Path) -> str:
    """The text of a log: that of a file, or a line as it is."""
    if STEP.search(given) or RATE.search(given):
        return given
    path = folder / given
    with open(path, "rb") as file:
        data = file.read(MOST_LOG + 1)
    if len(data) > MOST_LOG:
        raise PipeSchedError(f"{path}: a log of more than {MOST_LOG} bytes")
    return data.decode(errors="replace")


# Rows


def _above_0(row: Mapping[str, Any], name: str, place: str) -> float:
    value = row[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise PipeSchedError(f"{place}: {name} is {value!r}, wanted a number above 0")
    return float(value)


def _seconds(row: Mapping[str, Any], tokens: int, folder: Path, place: str) -> float:
    """The measured step of a row; `tokens` are those of a step and accelerator."""
    given = [name for name in MEASURED if row.get(name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise PipeSchedError(f"{place}: wanted one of {', '.join(MEASURED)}; found {found}")
    (name,) = given
    if name == "measured_s":
        return _above_0(row, name, place)
    if name == "measured_log":
        log = row[name]
        if not isinstance(log, str):
            raise PipeSchedError(f"{place}: {name} is {log!r}, wanted a line of a log or a file")
        seconds = seconds_of_log(_log(log, folder), tokens)
        if seconds is None:
            raise PipeSchedError(
                f"{place}: {name}: no line names a step, such as 'elapsed time per iteration (ms):"
                " 1250.0' or 'tps: 4,096'"
            )
        return seconds
    if not tokens:
        raise PipeSchedError(f"{place}: {name} needs the length of sequences; give sequence")
    return tokens / _above_0(row, name, place)


def _request(row: Mapping[str, Any], place: str, system: Description | None) -> Request:
    """The request whose only choice is the row."""
    for name in row:
        if name not in KNOWN:
            raise PipeSchedError(f"{place}: unknown key {name!r}{closest(name, KNOWN)}")
    given = {OTHERS.get(name) or name: value for name, value in row.items() if value is not None}
    for name in (*MEASURED, "name"):
        given.pop(name, None)
    if system is not None:
        given["system"] = system
    for name in ("model", "system", "gpus", "global_batch"):
        if name not in given:
            raise PipeSchedError(f"{place}: wanted {name}, found none")
    chosen = {name: [given.pop(name)] for name in (*LISTED, *KINDS) if name in given}
    chosen.setdefault("recompute", ["none"])
    chosen["schedules"] = [given.pop("schedule", "1f1b")]
    for name in ("tensor", "pp", "context", "expert"):
        chosen.setdefault(name, [1])
    return Request(**{"reserve": 0, **given, **chosen})


def _configuration(
    row: Mapping[str, Any], place: str, system: Description | None
) -> tuple[Configuration, Request]:
    """The configuration of a row, of a plan or by hand."""
    if "request" in row:
        changed = {**row["request"], **({} if system is None else {"system": system})}
        case = case_of({**row, "request": changed})
        return case.configuration, case.request
    request = _request(row, place, system)
    space = Space(request)
    shapes = space.shapes()
    found = next((c for shape in shapes for c in space.candidates_of(shape)), None)
    if found is None or len({shape.degrees for shape in shapes}) > 1:
        raise (
            space.nothing()
            if found is None
            else PipeSchedError(
                f"{place}: several degrees are possible; give tensor, pp, context and expert"
            )
        )
    for name in ("microbatch_size", "sharding"):
        possible = sorted({str(getattr(shape, name)) for shape in shapes})
        if len(possible) > 1:
            raise PipeSchedError(
                f"{place}: wanted {name}, as it was run; it could be {', '.join(possible)}"
            )
    return space.configuration(found), request


def _step(row: Any, place: str, folder: Path, system: Description | None) -> OwnStep:
    if not isinstance(row, dict):
        raise PipeSchedError(f"{place}: found {json.dumps(row)[:40]}, wanted an object")
    try:
        configuration, request = _configuration(row, place, system)
    except PipeSchedError as error:
        texts = [each.message.removeprefix(f"{place}: ") for each in error.diagnostics]
        raise PipeSchedError(f"{place}: {'; '.join(texts)}") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PipeSchedError(f"{place}: {error}") from None
    seconds = _seconds(row, request.tokens // request.gpus, folder, place)
    return OwnStep(str(row.get("name") or place), configuration, seconds, place)


def read_steps(
    files: Sequence[str | os.PathLike[str]], system: Description | None = None
) -> list[OwnStep]:
    """The measured steps of files: JSON arrays, or lines of JSON. `system` replaces theirs."""
    found = []
    for file in map(Path, files):
        text = file.read_text(encoding="utf-8-sig", errors="replace")
        for number, row in enumerate(_rows(text, str(file)), 1):
            found.append(_step(row, f"{file}: row {number}", file.parent, system))
    if not found:
        raise PipeSchedError("found no measured steps")
    return found


def _rows(text: str, file: str) -> list[Any]:
    try:
        rows = read_json(text)
        return rows if isinstance(rows, list) else [rows]
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].rstrip().endswith("}"):
            raise PipeSchedError(f"{file}: not JSON: {error}") from None
    try:
        return [read_json(line) for line in lines]
    except ValueError as error:
        raise PipeSchedError(f"{file}: not lines of JSON: {error}") from None

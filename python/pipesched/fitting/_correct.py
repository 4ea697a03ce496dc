"""Corrects a system by the measured steps of a user's own trainings.

Terms are factors on times, from a prior that they are 1: the logarithm of each has a normal
distribution, whose spread is the usual error of such a term. Steps have a measurement error of the
size of the residual errors of published layouts of one cluster, which no term explains. The most
probable factors come from least squares (Gauss-Newton); a term is determined if the steps at least
halve its variance, and otherwise it stays as it was.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..bands import tolerances, traits_of
from ..bands.own import FIELD, rates_before, source_of
from ..bands.traits import DATA_SHEET, UNDER_LOAD, is_under_load
from ..costs.costs import Costs, Description
from ..costs.deployment import HELD
from ..errors import PipeSchedError
from ..planning.request import Request
from ..planning.space.space import Space
from ..planning.whatif import case_of
from ..results.configuration import Configuration
from ..support.files import read_json
from ..support.options import instance_of, list_of, text_of
from ..support.text import closest
from ._system import System, read_base
from .files import MEASURED

# Measured steps of own trainings

LISTED = ("tensor", "pp", "context", "expert", "microbatch_size", "chunks")
"""The inputs of a plan that take lists, of which a row has one value."""

KINDS = ("recompute", "sharding")
SINGLE = (
    *("model", "system", "gpus", "global_batch", "sequence", "attention", "precision"),
    *("rates", "transport", "context_exchange", "memory", "reserve", *HELD),
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
"""Tokens per second and device, as torchtitan prints them."""

WARM_UP = 0.2
"""The share of a log at its start that is dropped as warm-up."""

MOST_LOG = 1 << 28


class OwnStep(NamedTuple):
    """A configuration that was run, and the time of its step."""

    name: str
    configuration: Configuration
    seconds: float
    place: str
    """The place in a file from which it was read."""


# Logs


def _number(text: str) -> float:
    return float(text.replace(",", "").rstrip("."))


def _times_of(text: str, tokens: int) -> Iterator[float]:
    """Returns the step times in the lines of a log; `tokens` is the number of tokens of one step on
    a device.
    """
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
    """Returns the text of a log, which is given as a file or as a line of it."""
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
    """Returns the measured step of a row; `tokens` is the number of tokens of one step on an
    accelerator.
    """
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
    """Returns the request of a plan that allows only the configuration of the row."""
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
    """Returns the configuration of a row, which comes from a plan or was written by hand."""
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


Vector = npt.NDArray[np.float64]

ROUNDS = 8
PROBE = 0.02
"""The step in the logarithm of a factor with which derivatives are computed."""

CLOSE = 1e-3
HALVED = 0.5
"""The steps determine a term if at most this share of its prior variance remains."""


class Term(NamedTuple):
    """A factor on times, and the fields that it changes."""

    name: str
    fields: tuple[str, ...]
    is_rate: bool
    """Whether its fields are rates. A factor on times divides these."""
    spread: float
    """The standard deviation of its logarithm before any measurement."""
    spread_under_load: float
    """The same for systems with rates under load, whose compute times are nearer to those of
    trainings.
    """


TERMS = (
    Term("compute", ("sustained",), True, 0.4, 0.15),
    Term("host", ("host_time.launch_us", "host_time.operation_us"), False, 0.5, 0.5),
    Term("link", ("link.bandwidth_gb_per_s",), True, 0.3, 0.3),
    Term("network", ("network.bandwidth_gb_per_s", "spine.bandwidth_gb_per_s"), True, 0.3, 0.3),
)
"""The terms in the order of their usual importance. A single step determines only the first."""


def _parent(system: System, field: str) -> tuple[dict[str, Any] | None, str]:
    part, _, name = field.rpartition(".")
    parent = system.get(part) if part else system
    return (parent if isinstance(parent, dict) else None), name


def _value(system: System, field: str) -> float | None:
    """The value of a field; the sustained share is 1 by default."""
    parent, name = _parent(system, field)
    value = None if parent is None else parent.get(name, 1.0 if field == "sustained" else None)
    return float(value) if isinstance(value, (int, float)) else None


def _fields(system: System, term: Term) -> list[str]:
    """The fields of a term that the system has."""
    return [field for field in term.fields if _value(system, field) is not None]


def _change(system: System, logs: Mapping[Term, float]) -> System:
    """Returns the system with its fields changed by the factors of the terms."""
    made = deepcopy(system)
    for term, log in logs.items():
        factor = math.exp(-log if term.is_rate else log)
        for field in _fields(made, term):
            parent, name = _parent(made, field)
            assert parent is not None
            value = (_value(made, field) or 0.0) * factor
            parent[name] = float(f"{min(value, 1.0) if field == 'sustained' else value:.6g}")
    return made


def _predict(step: OwnStep, system: System) -> float:
    costs = step.configuration.costs
    assert costs is not None
    changed = replace(step.configuration, costs=replace(costs, system=system))
    return changed.simulate().execution.makespan_ps / 1e12


@dataclass(frozen=True)
class Corrected:
    """A term after the fit."""

    term: str
    field: str
    before: float
    after: float
    factor: float
    """The factor on times; above 1 they become longer."""
    is_determined: bool

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__}


@dataclass(frozen=True)
class Correction:
    """A system that is corrected by measured steps."""

    system: dict[str, Any]
    """The fields of a system file, with sources."""
    terms: tuple[Corrected, ...]
    steps: tuple[OwnStep, ...]
    before_s: tuple[float, ...]
    """The steps that the system predicted before."""
    after_s: tuple[float, ...]
    notes: tuple[str, ...]
    """Terms that the steps do not determine, one sentence each."""

    def rows(self) -> list[dict[str, Any]]:
        """One row for each step: name, measured_s, and predictions before and after."""
        return [
            {
                "name": step.name,
                "measured_s": step.seconds,
                "before_s": before,
                "after_s": after,
                "error_before": before / step.seconds - 1,
                "error_after": after / step.seconds - 1,
            }
            for step, before, after in zip(self.steps, self.before_s, self.after_s, strict=True)
        ]

    def to_json(self) -> str:
        """The system file."""
        from ._fit import json_of

        return json_of(self.system)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the system file, whole or not at all."""
        from ..command.render.output import write_text

        write_text(self.to_json(), os.fspath(path))


class _Problem(NamedTuple):
    """The least-squares problem: the unknowns are the logarithms of the factors of terms, the
    targets are the logarithms of the measured steps.
    """

    system: System
    steps: Sequence[OwnStep]
    terms: Sequence[Term]
    noise: float
    is_loaded: bool
    """Whether the system had rates under load beforehand."""

    def residuals(self, logs: Vector) -> Vector:
        """The logarithms of measured steps divided by predicted steps."""
        changed = _change(self.system, dict(zip(self.terms, map(float, logs), strict=True)))
        ratios = [step.seconds / _predict(step, changed) for step in self.steps]
        return np.array([math.log(ratio) for ratio in ratios])

    def slopes(self, logs: Vector, residuals: Vector) -> npt.NDArray[np.float64]:
        """The derivative of the logarithm of each step by the logarithm of each factor."""
        found = []
        for at in range(len(logs)):
            more = logs.copy()
            more[at] += PROBE
            found.append((residuals - self.residuals(more)) / PROBE)
        return np.array(found).T

    def spreads(self) -> Vector:
        """The prior standard deviation of each term."""
        return np.array([t.spread_under_load if self.is_loaded else t.spread for t in self.terms])

    def bound(self, logs: Vector) -> Vector:
        """Keeps sustained rates at most as high as the peaks of data sheets."""
        least = [
            math.log(_value(self.system, "sustained") or 1.0) if t.name == "compute" else -math.inf
            for t in self.terms
        ]
        return np.array([max(pair) for pair in zip(logs, least, strict=True)])


def _solve(problem: _Problem) -> tuple[Vector, Vector]:
    """The most probable logarithms, and the remaining variance of each."""
    prior = 1 / problem.spreads() ** 2
    logs = np.zeros(len(problem.terms))
    for _ in range(ROUNDS):
        residuals = problem.residuals(logs)
        slopes = problem.slopes(logs, residuals)
        curvature = slopes.T @ slopes / problem.noise**2 + np.diag(prior)
        gradient = slopes.T @ residuals / problem.noise**2 - prior * logs
        new = problem.bound(logs + np.linalg.solve(curvature, gradient))
        moved = float(np.max(np.abs(new - logs)))
        logs = new
        if moved < CLOSE:
            break
    left = np.diag(np.linalg.inv(curvature)) * prior
    return logs, left


def _determine(problem: _Problem) -> tuple[dict[Term, float], list[Term]]:
    """Returns the logarithms of the terms that the steps determine, and the terms that they do not
    determine.
    """
    terms = list(problem.terms[:1] if len(problem.steps) == 1 else problem.terms)
    while True:
        logs, left = _solve(problem._replace(terms=terms))
        worst = int(np.argmax(left[1:])) + 1 if len(terms) > 1 else 0
        too_many = len(terms) > len(problem.steps)
        if worst == 0 or (left[worst] <= HALVED and not too_many):
            break
        del terms[worst]
    known = dict(zip(terms, map(float, logs), strict=True))
    return known, [term for term in problem.terms if term not in known]


# The answer


def _noise(steps: Sequence[OwnStep]) -> float:
    """Returns the standard deviation of a measured step: the residual errors of layouts on one
    cluster in published rows of similar models.
    """
    found = []
    for step in steps:
        traits = traits_of(step.configuration.costs)
        if traits is None:
            raise PipeSchedError(f"{step.place}: a step needs a model and a system")
        found.append(tolerances(traits).layouts.spread)
    return max(found)


def _notes(system: System, others: Sequence[Term], steps: int) -> list[str]:
    found = []
    for term in others:
        why = "one step determines compute alone" if steps == 1 else "the steps do not determine it"
        found.append(f"{term.name} stays as it was: {why}")
    for term in TERMS:
        if not _fields(system, term):
            found.append(f"{term.name} is not fitted: the system has no {term.fields[0]}")
    return found


def _name(system: System, base: System, steps: int, command: str, ratios: Vector) -> System:
    """The system with its name and sources."""
    made = deepcopy(system)
    name = str(base.get("name", "system"))
    made["name"] = name if name.endswith("-corrected") else f"{name}-corrected"
    made["description"] = f"{base.get('description', name)}, corrected by own steps"
    made.pop("aliases", None)
    sources = dict(base.get("sources") or {})
    for term in TERMS:
        for field in _fields(made, term):
            if _value(made, field) != _value(base, field):
                sources[field] = f"corrected to {steps} measured steps: {command}"
    rates = rates_before(base) or (UNDER_LOAD if is_under_load(base) else DATA_SHEET)
    sources[FIELD] = source_of([float(each) for each in np.exp(ratios)], rates)
    made["sources"] = sources
    return made


def _add_sustained(system: System) -> System:
    """Returns the system with a field for its sustained share, which a correction may change."""
    return system if "sustained" in system else {**system, "sustained": 1.0}


def correct(
    steps: Sequence[OwnStep], system: Description, *, command: str = "pipesched.fitting.correct"
) -> Correction:
    """Corrects a system by measured steps of one cluster, or raises PipeSchedError."""
    for step in list_of("steps", "[OwnStep(...)]", steps):
        instance_of("a step", OwnStep, step)
    text_of("command", command)
    if not len(steps):
        raise PipeSchedError("found no measured steps")
    rates = {step.configuration.costs.rates for step in steps if step.configuration.costs}
    base = read_base(system, rates.pop() if len(rates) == 1 else "auto")
    start = _add_sustained(base)
    terms = [term for term in TERMS if _fields(start, term)]
    problem = _Problem(start, steps, terms, _noise(steps), is_under_load(base))
    logs, others = _determine(problem)
    changed = _change(start, logs)
    before = tuple(_predict(step, base) for step in steps)
    after = tuple(_predict(step, changed) for step in steps)
    ratios = np.log(np.array([s.seconds for s in steps]) / np.array(after))
    corrected = [
        Corrected(
            term.name,
            field,
            _value(start, field) or 0.0,
            _value(changed, field) or 0.0,
            round(math.exp(logs.get(term, 0.0)), 4),
            term in logs,
        )
        for term in terms
        for field in _fields(start, term)
    ]
    made = _name(changed, base, len(steps), command, ratios)
    Costs(system=made)
    notes = _notes(base, others, len(steps))
    return Correction(made, tuple(corrected), tuple(steps), before, after, tuple(notes))


def fit_steps(
    *files: str | os.PathLike[str], system: Description | None = None, command: str | None = None
) -> Correction:
    """Corrects a system by the measured steps of `files`: rows of plans, or the inputs of a plan,
    each with `measured_s`, `measured_tokens_per_s_per_gpu` or `measured_log`, as docs/Fitting.md
    says ("Your own steps"). Without `system` it is the system of the rows.
    """
    steps = read_steps(files, system)
    named = {repr(_system_of(step)): _system_of(step) for step in steps}
    if len(named) > 1:
        raise PipeSchedError("the steps are of several systems; give the one that is corrected")
    made_by = command or f"pipesched.fitting.fit_steps({', '.join(map(repr, map(str, files)))})"
    return correct(steps, next(iter(named.values())), command=made_by)


def _system_of(step: OwnStep) -> Description:
    costs = step.configuration.costs
    assert costs is not None and costs.system is not None
    return costs.system

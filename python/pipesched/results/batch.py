"""Compares schedules and simulates many of them at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

from .. import _core
from ..costs.costs import Costs, SimulationOptions, read_simulation
from ..errors import PipeSchedError, WrongType
from ..schedule.registry import options_for_own, own_family
from ..schedule.schedule import Schedule
from ..support.options import callable_of, integer, list_of, text_of
from .configuration import Configuration
from .simulation import Simulation, simulate

if TYPE_CHECKING:
    import pandas as pd


Point: TypeAlias = Configuration | Schedule | Simulation
"""A schedule to time, with the costs that it names, or a configuration."""

Metric = Callable[[Simulation], Any]
"""A metric of the caller: a function from a report with its timeline to a value."""


def _measure(simulation: Simulation, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Returns the values of the metrics; an exception gets a note that names its metric."""
    found = {}
    for name, metric in metrics.items():
        try:
            found[name] = metric(simulation)
        except Exception as error:
            error.add_note(f"in the metric {name!r} of {simulation.schedule}")
            raise
    return found


def check_metrics(metrics: Mapping[str, Metric] | None, known: Iterable[str]) -> dict[str, Metric]:
    """Checks that metrics are functions and that their names differ from other columns."""
    given = {} if metrics is None else metrics
    if not isinstance(given, Mapping):
        raise WrongType(f"metrics is a mapping from names to functions; got {metrics!r}")
    for name, metric in given.items():
        if not isinstance(name, str) or not callable(metric):
            raise WrongType(f"metric {name!r} is a name with a function; got {metric!r}")
    taken = [name for name in given if name in known]
    if taken:
        raise PipeSchedError(f"metric {taken[0]!r} has the name of a column; choose another")
    return dict(given)


def _raw_of(points: Sequence[Point], is_quick: list[bool]) -> list[_core.Configuration]:
    """Returns the raw configurations of points that threads can evaluate, and clears `is_quick` for
    points with an error: simulating these gives the reason.
    """
    made = []
    for index, point in enumerate(points):
        if not is_quick[index] or not isinstance(point, Configuration):
            continue
        try:
            made.append(point._raw())
        except PipeSchedError:
            is_quick[index] = False
    return made


@dataclass
class Evaluated:
    """The results of some points, in their order."""

    columns: Mapping[str, Any]
    """One array for each summary; an unknown value is -1 or NaN."""
    errors: list[str | None]
    metrics: list[dict[str, Any]]
    simulations: list[Simulation] = field(default_factory=list)
    """The full reports of points that were simulated one by one and have no error."""


def evaluate_points(
    points: Sequence[Point],
    *,
    threads: int = 0,
    progress: Callable[[int], object] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    raw: Sequence[_core.Configuration] | None = None,
    whole: bool = False,
) -> Evaluated:
    """Times any number of points; all other functions that do so call this one. Threads evaluate
    configurations without making IR. All other points are simulated one after the other, and so is
    every point if there are metrics or if `whole` is set; with `whole` the first error is raised.
    `raw` has the result of `Configuration._raw` for each point.
    """
    kept = metrics or {}
    by_threads = not (kept or whole)
    is_quick = [by_threads and isinstance(p, Configuration) and not p._is_own for p in points]
    if raw is None:
        made = _raw_of(points, is_quick)
    else:
        made = list(itertools.compress(raw, is_quick))
    columns, errors = _core.sweep(made, threads, progress)
    if all(is_quick):
        return Evaluated(columns, errors, [{} for _ in points])
    quick = iter(errors)
    found = Evaluated({}, [], [])
    order = []
    done = len(made)
    for index, point in enumerate(points):
        found.metrics.append({})
        if is_quick[index]:
            found.errors.append(next(quick))
            continue
        try:
            simulation = point if isinstance(point, Simulation) else point.simulate()
        except PipeSchedError as error:
            if whole:
                raise
            found.errors.append("; ".join(each.message for each in error.diagnostics))
        else:
            found.errors.append(None)
            found.metrics[-1] = _measure(simulation, kept)
            found.simulations.append(simulation)
            order.append(index)
        done += 1
        if progress:
            progress(done)
    own = _core.summaries([each._evaluation for each in found.simulations])
    found.columns = _join(columns, is_quick, own, order)
    return found


def _join(
    quick: Mapping[str, Any], is_quick: Sequence[bool], own: Mapping[str, Any], order: Sequence[int]
) -> dict[str, Any]:
    """The columns of points that were evaluated in two ways, in the order of the points."""
    import numpy as np

    where = np.flatnonzero(is_quick)
    joined = {}
    for name, column in quick.items():
        unknown = -1 if column.dtype == np.int64 else np.nan
        joined[name] = np.full(len(is_quick), unknown, dtype=column.dtype)
        joined[name][where] = column
        joined[name][list(order)] = own[name]
    return joined


def _points(given: object) -> list[Point]:
    if isinstance(given, (str, Mapping, Configuration, Schedule, Simulation)):
        raise WrongType(f"configurations are a list; got {given!r}")
    if not isinstance(given, Iterable):
        raise WrongType(f"configurations are a list; got {given!r}")
    points = list(given)
    for index, point in enumerate(points):
        if not isinstance(point, (Configuration, Schedule, Simulation)):
            raise WrongType(
                f"configurations[{index}] is a Configuration or a Schedule; got {point!r}"
            )
    return points


def simulate_batch(
    configurations: Iterable[Point],
    *,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> pd.DataFrame:
    """Evaluates configurations on threads (default: one per core), without making IR. The list may
    also contain schedules, which use the costs that they name, and configurations of registered
    families; these are simulated one after the other.

    Returns one row per configuration, in the given order; the number of threads does not change the
    result. A row has the configuration and the single numbers of the report: memory of the
    bottleneck worker, the maximum of peak activations. It also has the results of `metrics` (a
    function from a `Simulation` each), and `error`, which is None if there are numbers. `progress`
    is called from time to time with the number of finished configurations. An exception from
    `progress` or a metric, or Ctrl-C, ends the batch.

    >>> points = [Configuration("1f1b", 4, n) for n in (4, 8, 0)]
    >>> frame = simulate_batch(points)
    >>> frame[["microbatches", "makespan_ps", "idle_ratio"]]
       microbatches  makespan_ps  idle_ratio
    0             4     21000000    0.428571
    1             8     33000000    0.272727
    2             0         <NA>         NaN
    >>> frame.error[2]
    '0 microbatches: there must be 1 to 2147483647'
    """
    from .frames import batch_frame

    points = _points(configurations)
    callable_of("progress", progress)
    count = 0 if threads is None else integer("threads", threads, 1, 2**16)
    kept = check_metrics(metrics, (*_core.sweep([], 1, None)[0], "error", "family"))
    found = evaluate_points(points, threads=count, progress=progress, metrics=kept)
    return batch_frame(points, found, list(kept))


def _timed(
    schedules: Iterable[Point],
    costs: Costs | None,
    options: SimulationOptions,
    metrics: Mapping[str, Metric] | None = None,
) -> Evaluated:
    """Returns the full reports of points; schedules among them take the same costs and options."""
    costs, timing = read_simulation(costs, options)
    points = [
        simulate(point, costs, timing) if isinstance(point, Schedule) else point
        for point in _points(schedules)
    ]
    return evaluate_points(points, metrics=metrics, whole=True)


def compare(
    schedules: Iterable[Point],
    costs: Costs | None = None,
    *,
    metrics: Mapping[str, Metric] | None = None,
    **options: Unpack[SimulationOptions],
) -> pd.DataFrame:
    """Compares schedules: one row each, with the single numbers of their reports and the results of
    `metrics`, a function from a `Simulation` each. A schedule that is not simulated yet is
    simulated as by `Schedule.simulate`; a configuration has separate costs and options.

    >>> families = ("gpipe", "1f1b", "zb-h1")
    >>> made = [generate(f, workers=4, microbatches=8, name=f) for f in families]
    >>> compare(made)[["table_bubble_ratio", "makespan_ps", "peak_activations"]]
           table_bubble_ratio  makespan_ps  peak_activations
    gpipe            0.272727     33000000                 8
    1f1b             0.272727     33000000                 4
    zb-h1            0.111111     27000000                 4
    >>> compare(made, metrics={"cells": lambda found: len(found.to_frame())}).cells.tolist()
    [64, 64, 96]
    """
    from .frames import comparison_frame

    kept = check_metrics(metrics, (*_core.sweep([], 1, None)[0], "family"))
    return comparison_frame(_timed(schedules, costs, options, kept))


class Finding(NamedTuple):
    """A sentence about a finding in a comparison, and its kind: "work", "fastest", "cause",
    "equal-steps", "fit", "ranking", "tie" or "all-rankings".
    """

    kind: str
    text: str


def findings(simulations: Iterable[Simulation]) -> list[Finding]:
    """The findings that `explain` lists, first whether the steps do different amounts of work."""
    compared = list(simulations)
    found = _core.findings([s._evaluation for s in compared])
    return [*_work(compared), *(Finding(*each) for each in found)]


UNLIKE = 1.25
"""If the compute times of two schedules differ by at least this factor, their stages cannot be
parts of the same model.
"""


def _work(simulations: Sequence[Simulation]) -> list[Finding]:
    """Says that schedules do different amounts of work: their numbers of stages per worker differ,
    but the same time was given for each stage.
    """
    if len({s.stages / s.workers for s in simulations}) < 2:
        return []

    def work(simulation: Simulation) -> float:
        return float(simulation.execution.cells_ps.sum()) / simulation.microbatches

    least, most = min(simulations, key=work), max(simulations, key=work)
    if work(most) < UNLIKE * work(least):
        return []
    times = f"{work(most) / work(least):.2f}" if work(least) else "any number of"
    stages = [f"{s.stages / s.workers:g} in {s.schedule}" for s in (most, least)]
    text = (
        f"work differs: a microbatch of {most.schedule} computes {times} times as long as one of"
        f" {least.schedule}; stages per worker are {' and '.join(stages)}, and times may be those"
        ' of one stage (times_of="worker" divides them)'
    )
    return [Finding("work", text)]


def explain(
    schedules: Iterable[Point], costs: Costs | None = None, **options: Unpack[SimulationOptions]
) -> str:
    """The same comparison as text for people, with the findings: the fastest schedule, the causes
    of idle time, the schedules that fit, and differences in rank between formula, table and time.
    """
    simulations = _timed(schedules, costs, options).simulations
    work = "".join(f"{finding.text}\n\n" for finding in _work(simulations))
    return work + _core.comparison([s._evaluation for s in simulations])


# Formulas of registered families

PRECISION = 1e-9
"""The largest difference between formula and table that can be rounding."""


def check_formula(
    family: str,
    *,
    workers: Sequence[int] = (2, 3, 4, 6, 8),
    microbatches: Sequence[int] = (1, 2, 4, 8, 12, 16, 24),
    **options: Any,
) -> int:
    """Checks the formula of a registered family against the idle share of its tables at all of the
    given sizes for which the family has a schedule. Returns the number of these sizes. Raises a
    PipeSchedError that names the first size at which they differ.

    >>> @register_family("one-by-one", formula=lambda workers, microbatches: 1 - 1 / workers)
    ... def one_by_one(problem):
    ...     order = [(phase, n) for n in range(problem.microbatches) for phase in "FB"]
    ...     return [[(worker, phase, n) for phase, n in order] for worker in range(problem.workers)]
    >>> check_formula("one-by-one", workers=[2, 4], microbatches=[1, 8])
    4
    """
    own = own_family(text_of("family", family))
    if own is None:
        raise PipeSchedError(
            f"{family!r} is no registered family; the formulas of families that ship are tested"
        )
    if own.formula is None:
        raise PipeSchedError(
            f"family {family!r} has no formula; register_family takes one as formula="
        )
    checked, refusal = 0, ""
    for width in list_of("workers", "[2, 4]", workers):
        for count in list_of("microbatches", "[2, 4]", microbatches):
            sizes = integer("workers", width), integer("microbatches", count)
            point = Configuration(family, *sizes, options=options_for_own(options))
            try:
                table = point.simulate().table
            except PipeSchedError as error:
                refusal = error.diagnostics[0].message
                continue
            wanted = own.bubble_ratio(*sizes, options)
            if table is None or wanted is None:
                continue
            if abs(table.bubble_ratio - wanted) > PRECISION:
                raise PipeSchedError(
                    f"the formula of family {family!r} says {wanted:.6g} for {width} workers and "
                    f"{count} microbatches; its table has {table.bubble_ratio:.6g} idle"
                )
            checked += 1
    if not checked:
        raise PipeSchedError(
            f"the formula of family {family!r} holds for none of these sizes"
            + (f": {refusal}" if refusal else "")
        )
    return checked

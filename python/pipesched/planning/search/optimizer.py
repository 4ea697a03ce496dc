"""Runs the optimizer on the best settings of a search.

A setting is a choice of degrees, a microbatch size and a sharding. The optimizer runs on the best
settings that fit, and on settings that would be faster but do not fit, with the available memory as
its budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import Any

from ...errors import PipeSchedError
from ...schedule.generation import problem
from ...schedule.optimize import Optimization, OptimizeOptions
from ...schedule.schedule import Schedule
from ...support.options import pass_options
from ..candidate import OPTIMIZED, Candidate
from ..launch.launchers import Cannot, check_runs
from ..launch.passes import ENDING, attach_costs
from .disturbances import mean_step
from .search import Found, Outcome, Search, by_step, nearness, per_accelerator

SETTINGS = 2
"""The number of settings to optimize among fitting ones, and among the others."""

MOST_TRIED = 8
"""The maximal number of settings that do not fit to try until enough of them succeed."""

MOST_CELLS = 200_000
"""Schedules with more cells are not optimized, because a search makes little progress on them in
the usual time.
"""

LAST = 1_000_000
"""Puts optimized schedules last among schedules of equal step time and memory."""


@dataclass(frozen=True)
class Optimized:
    """Rows that the optimizer found, and a bound on their quality."""

    found: Optimization
    """Timed with transport `delay` and without the end of the training step."""
    step: Schedule
    """The whole training step, with all-reduces of gradients and optimizer steps."""
    options: OptimizeOptions

    @property
    def schedule(self) -> Schedule:
        return self.found.schedule

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of cells by phase."""
        phases = self.schedule.to_frame().phase.value_counts()
        return {str(phase): int(count) for phase, count in phases.items()}

    @property
    def offloads(self) -> int:
        """The number of activations that are offloaded and reloaded."""
        return self.counts.get("D", 0)

    @property
    def recomputes(self) -> int:
        """The number of activations that are recomputed."""
        return self.counts.get("R", 0)

    @property
    def activations(self) -> int:
        """The number of all activations: one per forward."""
        return self.counts["F"]

    @property
    def launch_problem(self) -> str | None:
        """Why torchtitan cannot run the rows; None if it can."""
        if self.offloads or self.recomputes:
            return (
                "PyTorch's schedules have no cells that offload or recompute single"
                " activations, as this one does"
            )
        return None

    def the_pass(self) -> str:
        return "pipe-optimize" + pass_options(self.options)

    def to_dict(self) -> dict[str, Any]:
        return {
            "makespan_s": self.found.objective_ps / 1e12,
            "lower_bound_s": self.found.lower_bound_ps / 1e12,
            "gap": self.found.gap,
            "status": self.found.status,
            "bound": self.found.bound,
            "freedoms": freedoms_of(self.options),
            "offloads": self.offloads,
            "recomputes": self.recomputes,
            "time_limit_s": self.options["time_limit"],
        }


def freedoms_of(options: OptimizeOptions) -> dict[str, Any]:
    """The techniques that the optimizer may use besides ordering cells."""
    return {
        "split_backward": True,
        "offload": options.get("offload", False),
        "recompute": options.get("recompute", "none"),
    }


Made = tuple[Outcome, Optimized]


@dataclass(frozen=True)
class Attempt:
    """The results for one setting, or why there are none."""

    candidate: Candidate
    results: tuple[Made, ...]
    reason: str | None
    """The reason why there is no schedule."""


def _slices_of(candidate: Candidate) -> tuple[tuple[str, Any], ...]:
    """The options that rows of the optimizer take over from the family."""
    return (("slices", candidate.slices),) if candidate.slices > 1 else ()


def _firsts(outcomes: list[Outcome], most: int, done: set[tuple[object, ...]]) -> Iterator[Outcome]:
    """The first outcome of each of at most `most` settings that are not yet in `done` and that can
    be optimized.
    """
    for outcome in outcomes:
        candidate, shape = outcome.candidate, outcome.candidate.shape
        setting = *shape.degrees, shape.microbatch_size, shape.sharding
        # A single worker has only one order.
        is_pipeline = shape.pipeline > 1 and len(candidate.paths) == 1
        if is_pipeline and candidate.cells <= MOST_CELLS and setting not in done:
            if most == 0:
                return
            most -= 1
            done.add(setting)
            yield outcome


class Optimizing:
    """Optimizes the best settings of a search one after the other, within one time limit."""

    def __init__(self, search: Search, seconds: float, folder: str) -> None:
        self.search = search
        self.space = search.space
        self.request = search.space.request
        self.threads = search.threads or 0
        # The optimizer balances memory itself: no layers need to be moved for one schedule.
        self.outcomes = [
            o
            for c, o in search.outcomes.items()
            if c not in search.moved and c.vocabulary == "whole"
        ]
        self.seconds = seconds
        self.folder = folder
        self.deadline = 0.0

    def run(self, found: Found) -> Iterator[Attempt]:
        """Yields attempts: first for settings that fit, by step time; then for the others."""
        done: set[tuple[object, ...]] = set()
        usable = self.request.usable_bytes
        all_fitting = sorted((o for o in self.outcomes if o.peak_bytes <= usable), key=by_step)
        fitting = list(_firsts(all_fitting, SETTINGS, done))
        missing = list(_firsts(self._misses(found), MOST_TRIED, done))
        if not self.outcomes:
            for outcome in [*found.fitting, *found.missing][:1]:
                yield Attempt(outcome.candidate, (), "the optimizer's rows keep the head whole")
            return
        self.deadline = time.monotonic() + self.seconds
        wanted = min(SETTINGS, len(missing))
        for left, outcome in zip(range(len(fitting), 0, -1), fitting, strict=True):
            yield self._attempt(outcome.candidate, left + wanted)
        for outcome in missing:
            if wanted == 0:
                return
            attempt = self._attempt(outcome.candidate, wanted)
            wanted -= bool(attempt.results)
            yield attempt

    def _misses(self, found: Found) -> list[Outcome]:
        """Outcomes that do not fit but would be faster than the best that fits; if nothing fits,
        the nearest.
        """
        if not found.fitting:
            return [o for o in found.missing if o.candidate.vocabulary == "whole"]
        fastest, usable = found.fitting[0].step_ps, self.request.usable_bytes
        missing = [o for o in self.outcomes if o.peak_bytes > usable and o.step_ps < fastest]
        return sorted(missing, key=by_step)

    def _attempt(self, candidate: Candidate, settings: int) -> Attempt:
        """Optimizes only the order of the cells, which torchtitan can run; then with all
        techniques, if that is better. `settings` counts the settings still to come, including this
        one.
        """
        base = self.request.recompute[0]
        results: list[Made] = []
        several = self._freedoms()
        reason = None
        for done, freedoms in enumerate(several):
            # Cells that are recomputed are chosen one by one from the cells of the first kind.
            kind = base if "recompute" in freedoms else candidate.shape.recompute
            free = candidate._replace(
                shape=candidate.shape._replace(recompute=kind),
                schedule=OPTIMIZED,
                options=_slices_of(candidate),
                order=LAST,
            )
            limit = self._time_limit(len(several) * settings - done)
            try:
                self._check_runs(free)
                chosen: OptimizeOptions = {**freedoms, "time_limit": limit}
                made = self._optimize(free, self._with_costs(free), chosen)
                self._check_rows(made)
            except PipeSchedError as error:
                reason = _reason(error)
                continue
            if not results or self._rank(made) < self._rank(results[0]):
                results.append(made)
        return Attempt(candidate, tuple(results), None if results else reason)

    def _check_runs(self, candidate: Candidate) -> None:
        """Raises an error if the framework of the request cannot run such rows."""
        if self.request.launcher is not None:
            try:
                check_runs(self.request.launcher, candidate)
            except Cannot as cannot:
                raise PipeSchedError(str(cannot)) from None

    def _check_rows(self, made: Made) -> None:
        """Raises an error if the framework of the request cannot run these rows."""
        if self.request.launcher == "torchtitan":
            if problem := made[1].launch_problem:
                raise PipeSchedError(problem)
            made[1].schedule.to_csv()

    def _rank(self, made: Made) -> tuple[bool, int]:
        """Sorts by whether it fits, then by step time."""
        outcome = made[0]
        return outcome.peak_bytes > self.request.usable_bytes, outcome.step_ps

    def _with_costs(self, candidate: Candidate) -> Schedule:
        """The problem: paths with their layers, the model and the system."""
        shape = candidate.shape
        paths = problem(
            workers=shape.pipeline,
            microbatches=shape.microbatches,
            name=OPTIMIZED,
            paths=candidate.raw_paths,
            slices=candidate.slices,
        )
        attached = attach_costs(self.space.costs(shape), candidate, self.folder)
        return paths.transform(",".join(attached))

    def _freedoms(self) -> list[OptimizeOptions]:
        """No techniques, and all techniques that system and request allow. No framework runs cells
        that offload or recompute single activations.
        """
        all_of_them: OptimizeOptions = {}
        if self.request.launcher is not None:
            return [{}]
        if self.request.sizes["host_bytes_per_s"]:
            all_of_them["offload"] = True
        if self.request.recompute[0] == "none" and len(self.request.recompute) > 1:
            all_of_them["recompute"] = self.request.recompute[-1]
        return [{}, all_of_them] if all_of_them else [{}]

    def _time_limit(self, runs: int) -> float:
        """An equal share of the remaining time. If runs end early, later runs get more."""
        return round(max(0.0, self.deadline - time.monotonic()) / runs, 3)

    def _optimize(
        self, candidate: Candidate, with_costs: Schedule, chosen: OptimizeOptions
    ) -> Made:
        shape = candidate.shape
        options: OptimizeOptions = {
            "memory": f"{self.request.usable_bytes * shape.worker}B",
            **chosen,
            "threads": self.threads,
            "explain": False,
        }
        found = with_costs.optimize(**options)
        optimized = Optimized(found, found.schedule.transform(ENDING), options)
        freedoms = [(n, v) for n, v in chosen.items() if n != "time_limit"]
        free = candidate._replace(options=(*_slices_of(candidate), *freedoms))
        report = optimized.step.simulate(transport=self.request.transport)
        assert report.memory is not None
        peak = per_accelerator(int(report.memory.peak_bytes.max()), free)
        step, disturbed = report.execution.makespan_ps, self._disturbed_step(free, optimized)
        return self.search.outcome(free, step, peak, disturbed), optimized

    def _disturbed_step(self, candidate: Candidate, optimized: Optimized) -> int | None:
        """The step under the disturbances of the plan; None without any."""
        if self.search.slow is None:
            return None

        def step(text: str) -> int:
            timed = optimized.step.simulate(transport=self.request.transport, disturbance=text)
            return timed.execution.makespan_ps

        return mean_step(self.search.limits.draws(candidate.shape), step)


def _reason(error: PipeSchedError) -> str:
    """The first error message, without the name of its op."""
    errors = (d.message for d in error.diagnostics if d.severity == "error")
    return next(errors, str(error)).removeprefix("'pipe.schedule' op ")


def optimize_best(
    search: Search, found: Found, seconds: float, progress: Callable[[int, int], object] | None
) -> list[Attempt]:
    """Optimizes the best settings, and merges the results into `found` in order."""
    attempts = []
    with TemporaryDirectory() as folder:
        optimizing = Optimizing(search, seconds, folder)
        for attempt in optimizing.run(found):
            attempts.append(attempt)
            if progress:
                progress(len(attempts), 2 * SETTINGS)
    usable = search.space.request.usable_bytes
    outcomes = [outcome for attempt in attempts for outcome, _ in attempt.results]
    found.fitting += [o for o in outcomes if o.peak_bytes <= usable]
    found.fitting.sort(key=by_step)
    found.missing += [o for o in outcomes if o.peak_bytes > usable]
    if found.fitting:
        fastest = found.fitting[0].step_ps
        found.missing = [o for o in found.missing if o.step_ps < fastest]
    found.missing.sort(key=nearness)
    return attempts

"""Measured trainings next to predictions: rows, remarks and files of `pipesched run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pipesched import Costs

from ..explain.rows import activations_of
from ..render import page
from ..render.output import Column, percent, seconds, signed_percent, tenths, thousands

if TYPE_CHECKING:
    from pipesched.torch.training import Job, Outcome

LOSS_LIMITS = {"float32": 1e-3, "float64": 1e-9, "bfloat16": 1e-1}
"""How far losses of schedules may differ, relative to the loss, by type: sums of gradients are in
different orders, and training magnifies rounding.
"""

CLOSE = 0.02
"""Steps that are closer than this are not put in an order."""


def loss_text(value: float) -> str:
    return f"{value:.4f}"


COLUMNS = (
    Column("rank", "rank"),
    Column("predicted rank", "predicted_rank", detail=2),
    Column("schedule", "schedule", left=True),
    Column("step", "step_s", seconds),
    Column("predicted", "predicted_s", seconds),
    Column("error", "error", signed_percent),
    Column("by own times", "own_error", signed_percent, detail=3),
    Column("idle", "idle_ratio", percent, detail=1),
    Column("predicted idle", "predicted_idle_ratio", percent, detail=2),
    Column("samples/s", "samples_per_s", thousands, detail=4),
    Column("tokens/s", "tokens_per_s", thousands, detail=1),
    Column("activations", "activations", tenths, detail=4),
    Column("first loss", "first_loss", loss_text, detail=3),
    Column("last loss", "last_loss", loss_text, detail=1),
)


class Result:
    """One schedule: its run, its prediction, and their comparison."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.name = outcome.name
        self.measurement = outcome.measurement
        costs = Costs(times=outcome.calibration.profile(issue=True))
        self.comparison = outcome.measurement.compare(costs)
        """The prediction from the times of the calibration, with the runtime's time between cells.
        """
        own = Costs(times=outcome.measurement.profile(issue=True))
        self.own = outcome.measurement.compare(own)
        """The prediction from the times of the measured steps themselves."""

    @cached_property
    def idle_ratio(self) -> float:
        """The share of the workers' time in the median step without compute."""
        measurement = self.measurement
        step, busy = measurement.median_step, 0
        for program, stamps in zip(measurement.programs, measurement.stamps, strict=True):
            for instruction in program:
                if instruction.kind == "compute":
                    at = step, instruction.index
                    busy += int(stamps.end[at] - stamps.start[at])
        return 1 - busy / 1e9 / (measurement.step_s * len(measurement.programs))

    def row(self) -> dict[str, Any]:
        """The row of the answer, without ranks."""
        outcome, step = self.outcome, self.measurement.step_s
        prediction, tokens = self.comparison.prediction, outcome.tokens
        return {
            "schedule": self.name,
            "workers": outcome.schedule.workers,
            "microbatches": outcome.schedule.microbatches,
            "step_s": step,
            "predicted_s": self.comparison.predicted_s,
            "error": self.comparison.error,
            "own_error": self.own.error,
            "idle_ratio": self.idle_ratio,
            "predicted_idle_ratio": prediction.execution.idle_ratio,
            "samples_per_s": outcome.samples / step,
            "tokens_per_s": None if tokens is None else tokens / step,
            **activations_of(prediction),
            "first_loss": outcome.losses[0],
            "last_loss": outcome.losses[-1],
            "losses": list(outcome.losses),
            "step_times_s": list(self.measurement.step_times_s),
        }

    def files(self) -> Iterator[tuple[str, str]]:
        """Files written next to the answer, by the ending of its name."""
        for ending, contents in FILES.items():
            yield ending, contents(self)


FILES: dict[str, Callable[[Result], str]] = {
    ".svg": lambda result: result.comparison.to_svg(),
    ".txt": lambda result: f"{result.comparison.text()}\n",
    ".trace.json": lambda result: result.comparison.to_chrome_trace(),
    ".measurement.json": lambda result: result.measurement.to_json(),
    ".calibration.json": lambda result: result.outcome.calibration.to_json(),
    ".mlir": lambda result: result.outcome.schedule.to_text(),
}


def _places(values: Sequence[float]) -> list[int]:
    return [1 + sum(other < value for other in values) for value in values]


def rank(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The rows by measured step, with their ranks by measurement and by prediction."""
    rows = [result.row() for result in results]
    measured = _places([row["step_s"] for row in rows])
    predicted = _places([row["predicted_s"] for row in rows])
    placed = zip(measured, predicted, rows, strict=True)
    made = [{"rank": rank, "predicted_rank": by, **row} for rank, by, row in placed]
    return sorted(made, key=lambda row: row["rank"])


# Remarks


@dataclass(frozen=True)
class Agreement:
    """Whether all schedules had the same losses in each step."""

    largest: float
    """The largest distance, relative to the loss."""
    limit: float
    text: str

    @property
    def holds(self) -> bool:
        return self.largest <= self.limit

    @staticmethod
    def compare(outcomes: Sequence[Outcome], dtype: str) -> Agreement:
        limit, largest, place = LOSS_LIMITS[dtype], 0.0, ""
        for one, other in combinations(outcomes, 2):
            for step, (a, b) in enumerate(zip(one.losses, other.losses, strict=True)):
                distance = abs(a - b) / max(abs(a), abs(b), 1e-12)
                if not distance <= largest:
                    largest = distance
                    place = f"step {step + 1}: {one.name} {a:.6g}, {other.name} {b:.6g}"
        said = f"at most {largest:.1e} apart, of {limit:.0e} for {dtype}"
        if largest <= limit:
            text = f"the schedules have the same losses in all steps ({said})"
        else:
            text = f"error: the schedules have different losses: {place}; wanted {said}"
        return Agreement(largest, limit, text)


def sizes(job: Job) -> str:
    """The sizes of the training, for titles."""
    return (
        f"{job.workers} workers on {job.backend}, {job.microbatches} microbatches of "
        f"{job.microbatch_size}, {job.dtype}, {job.steps} steps"
    )


def _order(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Whether measurement and prediction put pairs in the same order."""
    apart = [
        (one, other)
        for one, other in combinations(rows, 2)
        if other["step_s"] > one["step_s"] * (1 + CLOSE)
    ]
    wrong = [(one, other) for one, other in apart if one["predicted_s"] >= other["predicted_s"]]
    if not apart:
        yield f"no two steps are more than {100 * CLOSE:g} % apart"
        return
    right = len(apart) - len(wrong)
    yield (
        f"{right} of {len(apart)} pairs whose steps are more than {100 * CLOSE:g} % apart are "
        "predicted in the measured order"
    )
    for one, other in wrong:
        yield f"measured, {one['schedule']} is before {other['schedule']}; predicted, it is not"


def remarks(
    results: Sequence[Result],
    rows: Sequence[Mapping[str, Any]],
    agreement: Agreement,
    job: Job,
    cores: int,
    width: int | None = None,
) -> list[str]:
    """The remarks below the table; their tables are at most `width` wide."""
    said = []
    if len(results) > 1:
        said += [agreement.text, *_order(rows)]
    said.append(
        f"the error is how much longer steps took than predicted from the times of "
        f"{job.calibration} earlier steps; `by own times`, from those of the measured steps"
    )
    if job.backend == "gloo" and job.workers * job.threads > cores:
        said.append(
            f"{job.workers} workers of {job.threads} threads share {cores} cores: times change "
            "with what the others do, so that predictions from other steps are less exact"
        )
    texts = [f"- {text}" for text in said]
    if len(results) == 1:
        texts += ["", results[0].comparison.text(width)]
    return texts


def page_of(
    title: str, results: Sequence[Result], rows: Sequence[Mapping[str, Any]], remarks: Sequence[str]
) -> str:
    found = "\n".join(line.removeprefix("- ") for line in remarks if line.startswith("- "))
    by_name = {result.name: result.comparison.timelines for result in results}
    drawn = [timeline for row in rows for timeline in by_name[row["schedule"]]]
    return page.training(title, rows, COLUMNS, found, drawn)

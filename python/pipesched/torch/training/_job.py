"""The description of a training, and its outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipesched import Measurement, Schedule
from pipesched.support.options import ReceivePlacement

Report = Callable[[str], None]
"""Shows the user the progress of a training."""


@dataclass(frozen=True)
class Job:
    """One training per schedule, each from the same parameters and on the same batches."""

    file: Path
    """The model; see `Source`."""
    options: Mapping[str, str]
    schedules: tuple[tuple[str, Schedule | None], ...]
    """The schedules by name; None: found by the optimizer from measured times."""
    one_by_one: bool
    """Whether schedules train one after the other (memory for one model), or by turns."""
    workers: int
    microbatches: int
    microbatch_size: int
    backend: str
    dtype: str
    """The dtype of the parameters: float32, float64 or bfloat16."""
    steps: int
    """All steps. The first `warmup` of them are not measured. The prediction is made from the
    next `calibration` ones, and compared with the rest."""
    warmup: int
    calibration: int
    seed: int
    rate: float
    divide: Literal["even", "measured"]
    """How the children of the model are divided among the blocks of a placement: by their number,
    or by their times."""
    threads: int
    receives: ReceivePlacement | None
    memory: int
    """The activations that a worker of an optimized schedule may hold."""
    memory_budget: int | str | None
    search_seconds: float
    timeout: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of one schedule."""

    name: str
    schedule: Schedule
    losses: tuple[float, ...]
    """The loss of each step: the mean over all microbatches."""
    calibration: Measurement
    """The measurement of the steps from which the prediction is made."""
    measurement: Measurement
    """The measurement of the steps that follow."""
    samples: int
    tokens: int | None
    """Tokens per step, if the model gives the number."""

"""Runs jobs of `pipesched.torch` in real processes on gloo."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipesched import PipeSchedError, Schedule, generate

LIMIT = 400
"""Seconds for all jobs of a run, on a machine with other work."""


@dataclass(frozen=True)
class Job:
    """A schedule that trains a model for two steps, and the same model without a pipeline."""

    name: str
    schedule: Schedule
    model: str = "plain"
    options: dict[str, Any] = field(default_factory=dict)
    is_uneven: bool = False
    """Whether microbatches have different sizes, which change from step to step."""
    steps_inside: bool = False
    compares: bool = True
    how: str = ""
    """How pipelines are put together: plain (sums of the runtime), DDP around stages, fully_shard
    around blocks, stages or both, over one dimension or two (hsdp); empty for one pipeline."""
    pipelines: int = 1
    """Each has separate batches."""

    @property
    def ranks(self) -> int:
        return self.pipelines * self.schedule.workers

    @property
    def has_ties(self) -> bool:
        return self.model == "tied"

    @property
    def has_replicas(self) -> bool:
        return len(self.schedule.paths) > 1


@dataclass
class Result:
    """The largest relative errors, against the model without a pipeline, of all steps."""

    losses: float = 0.0
    gradients: float = 0.0
    values: float = 0.0
    """The error of parameters and buffers after the steps."""
    trace: list[float] = field(default_factory=list)
    """Numbers of a run of one rank, to compare runs."""
    peak: int = 0
    """The most activations that were alive after an instruction, if the model is `marked`."""
    left: int = 0
    """The number alive after the step."""
    calls: dict[str, int] = field(default_factory=dict)
    buffers: dict[str, list[float]] = field(default_factory=dict)
    """By number of the block and name, after the first step."""


class RankFailed(Exception):
    """A rank ended with an error, or the time ended; the text has the last lines of all ranks."""


def train(jobs: Sequence[Job], folder: Path, limit: float = LIMIT) -> dict[str, list[Result]]:
    return run(jobs, folder, "runtime_ranks", limit)


def run(jobs: Sequence[Any], folder: Path, name: str, limit: float = LIMIT) -> dict[str, Any]:
    """Runs a module of ranks on jobs; the results of all ranks by job."""
    (folder / "jobs.pickle").write_bytes(pickle.dumps(list(jobs)))
    script = Path(__file__).with_name("runtime_ranks.py")
    command = [sys.executable, str(script), str(folder), str(limit), name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        texts = [done.stderr]
        for file in sorted(folder.glob("*.err")):
            texts.append(f"{file.name}:\n" + "\n".join(file.read_text().splitlines()[-40:]))
        raise RankFailed("\n\n".join(texts))
    found: dict[str, Any] = {job.name: [] for job in jobs}
    for rank in range(max(job.ranks for job in jobs)):
        results = pickle.loads((folder / f"{rank}.pickle").read_bytes())
        for name, result in results.items():
            found[name].append(result)
    return found


def made(
    family: str, workers: int, microbatches: int, transform: str = "", **options: Any
) -> Schedule:
    schedule = generate(family, workers=workers, microbatches=microbatches, **options)
    return schedule.transform(transform) if transform else schedule


def smallest(family: str, workers: int = 4) -> Schedule:
    """A family with an odd number of microbatches, if it has a rule for one."""
    for microbatches in (7, 9, 8, 12):
        try:
            return generate(family, workers=workers, microbatches=microbatches)
        except PipeSchedError:
            continue
    raise AssertionError(family)


def phases_of(schedule: Schedule) -> set[str]:
    programs = [schedule.program(worker) for worker in range(schedule.workers)]
    return {cell.phase for program in programs for each in program for cell in each.cells}

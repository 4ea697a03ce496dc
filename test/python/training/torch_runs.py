"""Runs schedules under PyTorch's own pipelines, in real processes on gloo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipesched import Schedule
from runtime_runs import run


@dataclass(frozen=True)
class Job:
    """A schedule file, and the runtime that trains two steps with it.

    `stages` has the rank of each stage. With several `pipelines` each has its own ranks and data,
    and every stage is under FSDP2 or, by `wrapper`, DDP.
    """

    name: str
    text: str
    stages: Sequence[int]
    microbatches: int
    format: str = "compute_only"
    pipelines: int = 1
    wrapper: str = "FSDP"
    runtime: str = "_PipelineScheduleRuntime"
    profile: bool = False
    """Whether to count matrix products."""

    file: str = ""
    """The place of the text."""

    @property
    def workers(self) -> int:
        return max(self.stages) + 1

    @property
    def ranks(self) -> int:
        return self.workers * self.pipelines


@dataclass(frozen=True)
class Trained:
    """The difference of a job from the model without a pipeline: relative errors, the largest of
    all ranks; the actions that each rank ran, and the number of matrix products in each.
    """

    losses: float
    gradients: float
    actions: list[list[str]]
    products: list[dict[str, int]]


def job_of(schedule: Schedule, name: str, format: str, pipelines: int = 1) -> Job:
    """The export of a schedule."""
    text = schedule.to_csv(format)  # type: ignore[arg-type]
    (path,) = schedule.paths
    return Job(name, text, path.workers, schedule.microbatches, format, pipelines)


def train(jobs: Sequence[Job], folder: Path) -> dict[str, Trained]:
    """Trains all jobs, one after the other, in one set of processes. Raises RankFailed with the
    last messages of the ranks.
    """
    placed = []
    for number, job in enumerate(jobs):
        file = folder / f"{number}.csv"
        file.write_text(job.text)
        placed.append(replace(job, file=str(file)))
    return {
        name: Trained(
            max(result["losses"] for result in results if result["losses"] is not None),
            max(result["gradients"] for result in results),
            [result.get("actions", []) for result in results],
            [result.get("products", {}) for result in results],
        )
        for name, results in run(placed, folder, "torch_ranks.py").items()
    }

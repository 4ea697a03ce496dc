"""Runs schedules under PyTorch's own pipelines, in real processes on gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipesched import Schedule

LIMIT = 300
"""Seconds for all jobs of a run, on a machine with other work."""


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
    options: dict[str, Any] = field(default_factory=dict)
    profile: bool = False
    """Whether to count matrix products."""

    @property
    def ranks(self) -> int:
        return max(self.stages) + 1

    def entry(self, file: Path) -> dict[str, Any]:
        """What a rank reads; the text goes to the file."""
        file.write_text(self.text)
        entry = {name: value for name, value in vars(self).items() if name != "text"}
        return {**entry, "stages": list(self.stages), "ranks": self.ranks, "file": str(file)}


@dataclass(frozen=True)
class Trained:
    """How far a job was from the model without a pipeline: relative errors, the largest of all
    ranks; the actions that each rank ran, and how many matrix products were in each.
    """

    losses: float
    gradients: float
    actions: list[list[str]]
    products: list[dict[str, int]]


class RankFailed(Exception):
    """A rank ended with an error, or the time ended; the text has the last lines of all ranks."""


def job_of(schedule: Schedule, name: str, format: str, pipelines: int = 1) -> Job:
    """The export of a schedule."""
    text = schedule.to_csv(format)  # type: ignore[arg-type]
    (path,) = schedule.paths
    return Job(name, text, path.workers, schedule.microbatches, format, pipelines)


def _last_lines(folder: Path) -> str:
    texts = []
    for file in sorted(folder.glob("*.err")):
        lines = file.read_text(errors="replace").splitlines()
        jobs = [line for line in lines if line.startswith("job ")][-1:]
        texts.append("\n".join([f"rank {file.stem}:", *jobs, *lines[-12:]]))
    return "\n\n".join(texts)


def train(jobs: Sequence[Job], folder: Path, limit: float = LIMIT) -> dict[str, Trained]:
    """Trains all jobs, one after the other, in one set of processes. Raises RankFailed with what
    the ranks said last.
    """
    world = max(job.ranks * job.pipelines for job in jobs)
    entries = [job.entry(folder / f"{number}.csv") for number, job in enumerate(jobs)]
    (folder / "jobs.json").write_text(json.dumps({"ranks": world, "jobs": entries}))
    script = Path(__file__).with_name("torch_ranks.py")
    command = [sys.executable, str(script), str(folder), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RankFailed(f"{done.stderr}\n{_last_lines(folder)}")
    found: dict[str, list[dict[str, Any]]] = {job.name: [] for job in jobs}
    for rank in range(world):
        for line in (folder / f"{rank}.jsonl").read_text().splitlines():
            result = json.loads(line)
            found[result["name"]].append(result)
    return {
        name: Trained(
            max(result["losses"] for result in results if result["losses"] is not None),
            max(result["gradients"] for result in results),
            [result.get("actions", []) for result in results],
            [result.get("products", {}) for result in results],
        )
        for name, results in found.items()
    }

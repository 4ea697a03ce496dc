"""One rank of a training: each schedule from the same parameters, on the same batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

import pipesched
from pipesched import Measurement, Schedule
from pipesched.support.options import ReceivePlacement
from pipesched.torch import PipelineError, PipelineRuntime
from pipesched.torch.core.batch import counts_of, cut, units_of
from pipesched.torch.core.groups import from_first
from pipesched.torch.vocab_parallel.embedding import looks_up
from pipesched.torch.vocab_parallel.head import spreads
from pipesched.torch.vocabulary import take_head, take_vocabulary

from ._source import Source

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


LINES = 5
MEASURED_BY = "zb-h1"
"""The family whose steps give the times for the optimizer: it runs I and W separately."""


def device_of(backend: str) -> torch.device:
    """The device of a rank: its GPU with NCCL, otherwise the CPU."""
    if backend != "nccl":
        return torch.device("cpu")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if local >= torch.cuda.device_count():
        raise PipelineError(
            f"rank {local} of this machine has no GPU of its own, of which there are "
            f"{torch.cuda.device_count()}; NCCL needs one per worker, --backend gloo needs none"
        )
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    return device


def losses_on(schedule: Schedule, rank: int) -> list[int]:
    """The microbatches whose loss a rank computes."""
    last: dict[int, tuple[int, int]] = {}
    for worker in range(schedule.workers):
        for stage in schedule.stages(worker):
            last[stage.path] = max(last.get(stage.path, (0, worker)), (stage.stage, worker))
    mine = {path for path, (_, worker) in last.items() if worker == rank}
    numbers = range(schedule.microbatches if mine else 0)
    return [n for n in numbers if len(last) == 1 or schedule.path_of(n) in mine]


def placed(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """The tensors of a batch on a device, with floating point ones in a type."""
    if isinstance(value, Tensor):
        return value.to(device, dtype if value.is_floating_point() else value.dtype)
    if isinstance(value, dict):
        return {key: placed(item, device, dtype) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(placed(item, device, dtype) for item in value)
    return value


class Trainer:
    """Trains by one schedule after the other on one rank of the default process group."""

    def __init__(self, job: Job, report: Report) -> None:
        self.job = job
        self.report = report
        self.rank = dist.get_rank()
        self.device = device_of(job.backend)
        self.dtype: torch.dtype = getattr(torch, job.dtype)
        self.source = Source.load(job.file, job.options)
        torch.set_num_threads(job.threads)
        self._times: dict[bool, list[float]] = {}
        if job.divide == "measured":
            self.child_times(False)

    def child_times(self, is_spread: bool) -> list[float] | None:
        """The times of the children of the model, by rank 0; None for another division."""
        if self.job.divide != "measured":
            return None
        if is_spread not in self._times:
            self._times[is_spread] = self._measure_children(is_spread)
        return self._times[is_spread]

    def _measure_children(self, is_spread: bool) -> list[float]:
        torch.manual_seed(self.job.seed)
        model = self.source.model(self.dtype).to(self.device)
        if is_spread:
            take_head(model)
        batches = self.source.batches(self.job.microbatch_size, self.job.seed)
        inputs = placed(next(batches)[0], self.device, self.dtype)
        times = self.source.measure(model, inputs, dist.group.WORLD)
        shown = ", ".join(f"{1e3 * time:.2f}" for time in times)
        which = "parts without the head" if is_spread else "parts"
        self.report(f"the model's {which} take {shown} ms, by which they are divided")
        return times

    def run(self) -> list[Outcome]:
        """Trains by all schedules. The outcomes are whole on rank 0."""
        if self.job.one_by_one:
            return [outcome for each in self.job.schedules for outcome in self._train([each])]
        return self._train(self.job.schedules)

    def _train(self, chosen: Sequence[tuple[str, Schedule | None]]) -> list[Outcome]:
        """Trains by schedules that take turns, so that other work slows all of them equally."""
        trainings = [
            Training(self, name, self._optimized() if given is None else given)
            for name, given in chosen
        ]
        job = self.job
        self._steps(trainings, job.warmup)
        calibrations = self._recorded(trainings, job.warmup + job.calibration)
        measurements = self._recorded(trainings, job.steps)
        outcomes = []
        for training, first, rest in zip(trainings, calibrations, measurements, strict=True):
            training.runtime.close()
            outcomes.append(training.outcome(first, rest))
        return outcomes

    def _recorded(self, trainings: Sequence[Training], until: int) -> list[Measurement]:
        with ExitStack() as recordings:
            made = [recordings.enter_context(t.runtime.record()) for t in trainings]
            self._steps(trainings, until)
        return [recording.gather() for recording in made]

    def _steps(self, trainings: Sequence[Training], until: int) -> None:
        """Trains until each has taken this many steps."""
        names, total = ", ".join(training.name for training in trainings), self.job.steps
        for number in range(len(trainings[0].losses) + 1, until + 1):
            for training in trainings:
                training.losses.append(training.step())
            if number in (1, total) or number % max(1, total // LINES) == 0:
                loss = trainings[0].losses[-1]
                self.report(f"{names}: step {number} of {total}, loss {loss:.4f}")

    # The optimizer

    def _optimized(self) -> Schedule:
        """Returns the schedule that the optimizer finds for the measured times of some steps."""
        job = self.job
        base = pipesched.generate(
            MEASURED_BY, workers=job.workers, microbatches=job.microbatches, name=MEASURED_BY
        )
        self.report(f"optimized: measuring {job.calibration} steps of {MEASURED_BY}")
        training = Training(self, MEASURED_BY, base)
        for _ in range(job.warmup):
            training.step()
        with training.runtime.record() as recording:
            for _ in range(job.calibration):
                training.step()
        measurement = recording.gather()
        training.runtime.close()
        world = dist.group.WORLD
        assert world is not None
        found: str = from_first(lambda: self._search(measurement).to_text(), world)
        return Schedule.from_text(found)

    def _search(self, measurement: Measurement) -> Schedule:
        job = self.job
        self.report(
            f"optimized: searching within {job.memory} activations per worker, at most "
            f"{job.search_seconds:g} s"
        )
        problem = pipesched.problem(
            workers=job.workers, microbatches=job.microbatches, name="optimized"
        )
        times = measurement.profile(issue=True)
        measured = problem.transform(f'pipe-attach-profile{{times="{times}"}}')
        best = measured.optimize(memory=job.memory, time_limit=job.search_seconds)
        step = best.objective_ps / 1e12
        self.report(f"optimized: found {step:.4g} s, {best.status}, {best.gap:.1%} from the bound")
        return best.schedule


class Training:
    """A model that starts from the seed, and trains by one schedule."""

    def __init__(self, trainer: Trainer, name: str, schedule: Schedule) -> None:
        job, source, self.trainer = trainer.job, trainer.source, trainer
        self.name = name
        self.schedule = schedule
        self.losses: list[float] = []
        self.samples = job.microbatches * job.microbatch_size
        self.tokens: int | None = None
        torch.manual_seed(job.seed)
        model, loss = source.with_loss(trainer.dtype)
        model = model.to(trainer.device)
        is_spread = spreads(units_of(schedule))
        head, embedding = None, None
        if looks_up(units_of(schedule)):
            head, embedding = take_vocabulary(model)
        elif is_spread:
            head = take_head(model)
        stages = source.split(model, schedule, trainer.child_times(is_spread))
        phases = {c.phase for i in units_of(schedule).program(trainer.rank) for c in i.cells}
        steps_inside = "O" in phases

        def make(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
            return source.optimizer(parameters, job.rate)

        self.runtime = PipelineRuntime(
            schedule,
            stages,
            loss,
            optimizer=make if steps_inside else None,
            device=trainer.device,
            receives=job.receives,
            memory_budget=job.memory_budget,
            vocabulary=head,
            embedding=embedding,
            count=source.count,
            timeout=job.timeout,
        )
        mine = self.runtime.parameters()
        self.optimizer = make(mine) if mine and not steps_inside else None
        self.batches = source.batches(self.samples, job.seed)
        self.own = losses_on(schedule, trainer.rank)

    def step(self) -> float:
        """One step; the mean of the losses of all microbatches."""
        try:
            inputs, targets = next(self.batches)
        except StopIteration:
            raise PipelineError(f"`batches` of {self.trainer.source.file} has ended") from None
        if self.tokens is None:
            self.tokens = self.trainer.source.tokens(inputs)
        device, dtype = self.trainer.device, self.trainer.dtype
        loss = self.runtime.step(placed(inputs, device, dtype), placed(targets, device, dtype))
        if self.optimizer is not None:
            self.optimizer.step()
        self.runtime.zero_grad()
        part, whole = self._weights(targets)
        mine = 0.0 if loss is None else loss.item() * part
        total = torch.tensor(mine, dtype=torch.float64, device=self.trainer.device)
        dist.all_reduce(total)
        return total.item() / whole

    def _weights(self, targets: Any) -> tuple[float, float]:
        """The weight of the loss of this rank, and the weights of all together."""
        count, number = self.trainer.source.count, self.schedule.microbatches
        if count is None:
            return len(self.own), number
        counts = counts_of(count, cut(targets, number, "targets"))
        return float(counts[self.own].sum()), float(counts.sum())

    def outcome(self, calibration: Measurement, measurement: Measurement) -> Outcome:
        """The outcome of the training."""
        return Outcome(
            self.name,
            self.schedule,
            tuple(self.losses),
            calibration,
            measurement,
            self.samples,
            self.tokens,
        )

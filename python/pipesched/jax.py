"""Schedules that train functions of JAX: one controller, a thread for each worker (docs/Jax.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from queue import SimpleQueue
from typing import Any

import numpy as np

from .errors import PipeSchedError, needing
from .results.measurement import NEVER, Clock, Measurement, Stamps
from .schedule.program import Cell, Instruction, Passed, programs_of
from .schedule.schedule import Schedule

with needing(__name__, "JAX", "pip install jax"):
    import jax
    import jax.numpy as jnp

from .frontends.jaxpr import Part, flatten, loss_part, name_leaves, stage_parts
from .frontends.partition import Role, count_stages

BACKWARDS = {"B": "backward", "I": "input_gradient", "W": "weight_gradient"}
KINDS = {"F": "forward", "R": "forward", **BACKWARDS}
"""The function that a cell calls."""
LATER = {"F": BACKWARDS.values(), "R": BACKWARDS.values(), "I": ("weight_gradient",)}
"""Functions that read values of a cell."""
INPUT, OUTPUT, TARGET = ("input", ""), ("output", ""), ("target", "")
INPUT_GRADIENT, OUTPUT_GRADIENT = ("input_gradient", ""), ("output_gradient", "")

Values = dict[Role, Any]
"""The values that one stage keeps for one microbatch."""
Message = tuple[Any, int] | None
"""A value and when it arrived; None if a worker has failed."""


class _Stopped(Exception):
    """Another worker has failed."""


def _jitted(part: Part) -> Part:
    """Returns a function of a stage that is compiled at its first call on each device."""
    return replace(part, function=jax.jit(part.function))


class _Plan:
    """The functions of all stages for microbatches of one shape. Equal stages share theirs."""

    def __init__(self, runtime: PipelineRuntime, inputs: Any, targets: Any) -> None:
        self.stages: list[dict[str, Part]] = []
        self.constants: list[dict[str, Any]] = []
        known: dict[str, dict[str, Part]] = {}
        value: Any = jnp.asarray(inputs)
        try:
            for number, function in enumerate(runtime.stages):
                what, own = f"stage {number}", runtime.params[number]
                flat = flatten(function, own, value, number > 0, what)
                if flat.key not in known:
                    known[flat.key] = {part.kind: _jitted(part) for part in stage_parts(flat)}
                self.stages.append(known[flat.key])
                names = name_leaves(own, what)[0]
                self.constants.append({k: v for k, v in flat.used.items() if k not in names})
                value = flat.value
            what = "the loss"
            count = runtime.schedule.microbatches
            self.loss = _jitted(loss_part(runtime.loss, value, jnp.asarray(targets), count))
        except Exception as error:
            error.add_note(f"while tracing {what}")
            raise

    def kept(self, cell: Cell) -> set[Role]:
        """Returns the roles whose values later cells of the stage and microbatch read."""
        if cell.phase == "F" and cell.recomputed:
            return {INPUT}
        kinds = LATER.get(cell.phase, ())
        return {role for kind in kinds for role in self.stages[cell.stage][kind].arguments}


class Recording(list[list[Any]]):
    """The times of steps: by step and worker the five rows of `Stamps`, in ns."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._schedule = schedule

    def gather(self) -> Measurement:
        """Returns the `Measurement` of the steps. All threads have one clock."""
        if not self:
            raise PipeSchedError("no step ran while times were recorded")
        zeros = (0.0,) * self._schedule.workers
        return Measurement(
            schedule=self._schedule,
            receives="arrival" if self._schedule.kind == "schedule" else None,
            numbers=tuple(range(len(self))),
            stamps=tuple(Stamps(*np.stack(tables, axis=1)) for tables in zip(*self, strict=True)),
            clock=Clock(0.0, zeros, zeros),
            source="pipesched.jax",
        )


class PipelineRuntime:
    """Trains functions of JAX by a schedule of F, B, I, W and R cells. docs/Jax.md says what the
    arguments are. Raises PipeSchedError where they do not fit together.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Sequence[Callable[[Any, Any], Any]],
        params: Sequence[Any],
        loss: Callable[[Any, Any], Any],
        devices: Sequence[Any] | None = None,
    ) -> None:
        workers = schedule.workers
        self.schedule, self.stages, self.loss = schedule, list(stages), loss
        self.devices = list(jax.devices()[:workers] if devices is None else devices)
        self.programs = programs_of(schedule, "FBIWR", "pipesched.jax")
        count_stages(schedule, functions=self.stages)
        if len(self.devices) != workers:
            raise PipeSchedError(
                f"there are {len(self.devices)} devices; {schedule.name!r} has {workers} workers"
            )
        schedule.verify()
        self._pool = ThreadPoolExecutor(workers, "pipesched.jax")
        self._plans: dict[Any, _Plan] = {}
        self._recording: Recording | None = None
        self.params = params

    @property
    def params(self) -> list[Any]:
        """By stage its parameters. Setting them places them on all devices that need them."""
        return self._params

    @params.setter
    def params(self, params: Sequence[Any]) -> None:
        count_stages(self.schedule, trees_of_parameters=params)
        first: dict[int, Any] = {}
        self.own: dict[tuple[int, int], dict[str, Any]] = {}
        for worker, device in enumerate(self.devices):
            for stage in {each.stage for each in self.schedule.stages(worker)}:
                placed = jax.device_put(params[stage], device)
                first.setdefault(stage, placed)
                self.own[worker, stage] = name_leaves(placed, f"stage {stage}")[0]
        self._params = [first[stage] for stage in range(len(first))]

    def step(self, inputs: Any, targets: Any) -> tuple[Any, list[Any]]:
        """Runs one step. Returns the mean of the losses of all microbatches, and its gradients as a
        tree for each stage. Arrays are cut along dimension 0 into equal microbatches.
        """
        batch = [self._cut(inputs, "inputs"), self._cut(targets, "targets")]
        examples = [jnp.asarray(each[0]) for each in batch]
        shapes = repr(jax.tree.map(lambda a: (a.shape, str(a.dtype)), [examples, self.params]))
        if shapes not in self._plans:
            self._plans[shapes] = _Plan(self, *examples)
        sent = [i.message for program in self.programs for i in program if i.kind == "send"]
        self.messages: dict[Any, SimpleQueue[Message]] = {each: SimpleQueue() for each in sent}
        workers = [_Worker(self, self._plans[shapes], batch, n) for n in range(len(self.programs))]
        jobs = [self._pool.submit(worker.run) for worker in workers]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, _Stopped)):
            raise error
        if self._recording is not None:
            self._recording.append([worker.times for worker in workers])
        sums = [worker.sums for worker in workers]
        gradients = [self._gather(stage, sums) for stage in range(len(self.stages))]
        return _sum([each["loss"] for each in sums if "loss" in each]), gradients

    def _gather(self, stage: int, sums: list[dict[Any, Any]]) -> Any:
        """Returns the gradients of a stage, of which replicas add up."""
        own, tree = name_leaves(self.params[stage], f"stage {stage}")
        found = _sum([each[stage] for each in sums if stage in each])
        leaves = [found[name] if name in found else jnp.zeros_like(own[name]) for name in own]
        return jax.tree_util.tree_unflatten(tree, leaves)

    def _cut(self, batch: Any, what: str) -> list[Any]:
        count = self.schedule.microbatches
        size, rest = divmod(len(batch) if np.ndim(batch) else 0, count)
        if rest or not size:
            raise PipeSchedError(
                f"{what} have the shape {list(np.shape(batch))}; wanted an array whose first "
                f"dimension is a multiple of the {count} microbatches of {self.schedule.name!r}"
            )
        return [batch[size * number : size * (number + 1)] for number in range(count)]

    @contextmanager
    def record(self) -> Iterator[Recording]:
        """Records the times of the steps that run inside of the block."""
        before, self._recording = self._recording, Recording(self.schedule)
        try:
            yield self._recording
        finally:
            self._recording = before


@jax.jit
def _add(first: Any, second: Any) -> Any:
    # Neither is donated: a gradient can be the array that a cell has passed on.
    return jax.tree.map(jnp.add, first, second)


def _sum(parts: list[Any]) -> Any:
    """Adds up trees on the device of the first one."""
    if not parts:
        return {}
    device = jax.tree.leaves(parts[0])[0].sharding
    return reduce(_add, [jax.device_put(part, device) for part in parts])


class _Worker:
    """A worker in one step. It runs its program in a thread, and waits only for messages."""

    def __init__(self, runtime: PipelineRuntime, plan: _Plan, batch: Any, number: int) -> None:
        self._runtime, self._plan, self._number = runtime, plan, number
        self._inputs, self._targets = batch
        self._program, self._device = runtime.programs[number], runtime.devices[number]
        # The CPU client may run the cells of one device side by side.
        self._blocks = runtime._recording is not None or self._device.platform == "cpu"
        self.times = np.full((5, len(self._program)), NEVER, np.int64)
        self.sums: dict[Any, Any] = {}  # the loss, and by stage the gradients
        self._passed: dict[Passed, Any] = {}
        self._held: dict[tuple[int, int], Values] = {}

    def run(self) -> None:
        """Runs the program."""
        for instruction in self._program:
            try:
                self._run(instruction)
            except BaseException as error:
                if not isinstance(error, _Stopped):
                    error.add_note(f"worker {self._number}, at {instruction}")
                for message in self._runtime.messages.values():
                    message.put(None)
                raise

    def _run(self, instruction: Instruction) -> None:
        now, times, index = time.perf_counter_ns, self.times, instruction.index
        times[0, index] = now()
        for each in (self._program[awaited] for awaited in instruction.waits):
            if each.kind == "recv" and times[3, each.index] == NEVER:
                message = self._runtime.messages[each.message].get()
                if message is None:
                    raise _Stopped
                self._passed[each.cell.gives], times[4, each.index] = message
                times[3, each.index] = now()
        times[1, index] = now()
        made: Any = None
        if instruction.kind == "compute":
            made = [self._compute(cell) for cell in instruction.cells]
        elif instruction.kind == "send":
            assert instruction.peer is not None
            value = self._passed.pop(instruction.cell.gives)
            made = jax.device_put(value, self._runtime.devices[instruction.peer])
        if self._blocks:
            jax.block_until_ready(made)  # type: ignore[no-untyped-call]
        if instruction.kind == "send":
            self._runtime.messages[instruction.message].put((made, now()))
        times[2, index] = now()

    def _compute(self, cell: Cell) -> Values:
        """Runs a cell; returns its results."""
        stage, microbatch = at = cell.stage, cell.microbatch
        is_last, plan = stage == len(self._plan.stages) - 1, self._plan
        values = self._held.pop(at, {})
        if cell.phase == "F" and stage == 0:
            values[INPUT] = jax.device_put(self._inputs[microbatch], self._device)
        elif cell.phase == "F":
            values[INPUT] = self._passed.pop(cell.takes)
        elif cell.phase in "BI" and not is_last:
            values[OUTPUT_GRADIENT] = self._passed.pop(cell.takes)
        own = plan.constants[stage] | self._runtime.own[self._number, stage]
        known = values | {("param", name): array for name, array in own.items()}
        made = _call(plan.stages[stage][KINDS[cell.phase]], known)
        if cell.phase in "FR" and is_last:
            target = jax.device_put(self._targets[microbatch], self._device)
            loss = _call(plan.loss, {OUTPUT: made[OUTPUT], TARGET: target})
            made[OUTPUT_GRADIENT] = loss[OUTPUT_GRADIENT]
            if cell.phase == "F":
                self._add_up("loss", loss["loss", ""])
        elif cell.phase == "F":
            self._passed[cell.gives] = made[OUTPUT]
        elif cell.phase in "BI" and stage > 0:
            self._passed[cell.gives] = made[INPUT_GRADIENT]
        if found := {name: each for (role, name), each in made.items() if role == "gradient"}:
            self._add_up(stage, found)
        if kept := plan.kept(cell):
            self._held[at] = {role: each for role, each in (values | made).items() if role in kept}
        return made

    def _add_up(self, what: Any, found: Any) -> None:
        self.sums[what] = _add(self.sums[what], found) if what in self.sums else found


def _call(part: Part, values: Values) -> Values:
    arguments = [values[role] for role in part.arguments]
    return dict(zip(part.results, part.function(*arguments), strict=True))

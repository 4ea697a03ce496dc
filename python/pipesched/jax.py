"""Schedules that train functions of JAX: one controller, with a thread for each worker.

from pipesched.jax import PipelineRuntime

runtime = PipelineRuntime(schedule, [embed, block, block, head], params, loss, jax.devices())
loss, gradients = runtime.step(inputs, targets)

docs/Jax.md is the guide.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from . import Cell, Instruction, Measurement, PipeSchedError, Schedule

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError(f"pipesched.jax needs JAX ({error}): pip install jax") from error

from .frontends.jaxpr import Part, flatten, loss_part, name_leaves, stage_parts
from .frontends.partition import Role, count_stages
from .results.measurement import NEVER, Clock, Stamps

__all__ = ["PipelineRuntime", "Recording"]

BACKWARDS = {"B": "backward", "I": "input_gradient", "W": "weight_gradient"}
"""The function that a cell calls."""
INPUT, OUTPUT = ("input", ""), ("output", "")
INPUT_GRADIENT, OUTPUT_GRADIENT = ("input_gradient", ""), ("output_gradient", "")

Values = dict[Role, Any]
"""The values of a stage and one microbatch."""
Key = tuple[bool, int, int]
"""The key of a value for another stage: whether it is an output, its stage and microbatch."""


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
        for number, (function, own) in enumerate(zip(runtime.stages, runtime.params, strict=True)):
            what = f"stage {number}"
            with _noting(f"while tracing {what}"):
                flat = flatten(function, own, value, number > 0, what)
            if flat.key not in known:
                known[flat.key] = {part.kind: _jitted(part) for part in stage_parts(flat)}
            self.stages.append(known[flat.key])
            names = name_leaves(own, what)[0]
            self.constants.append({k: v for k, v in flat.used.items() if k not in names})
            value = flat.value
        with _noting("while tracing the loss"):
            count = runtime.schedule.microbatches
            self.loss = _jitted(loss_part(runtime.loss, value, jnp.asarray(targets), count))

    def kept(self, stage: int, *kinds: str) -> set[Role]:
        """Returns the roles that functions of a stage read."""
        return {role for kind in kinds for role in self.stages[stage][kind].arguments}


@contextmanager
def _noting(where: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(where)
        raise


class Recording:
    """The times of the steps that run while it is open."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.steps: list[list[Any]] = []
        """By step and worker: the five rows of `Stamps`, by instruction, in ns."""

    def gather(self) -> Measurement:
        """Returns the `Measurement` of the steps. All threads have one clock."""
        if not self.steps:
            raise PipeSchedError("no step ran while times were recorded")
        zeros = (0.0,) * self._schedule.workers
        by_worker = zip(*self.steps, strict=True)
        return Measurement(
            schedule=self._schedule,
            receives="arrival" if self._schedule.kind == "schedule" else None,
            numbers=tuple(range(len(self.steps))),
            stamps=tuple(Stamps(*np.stack(tables, axis=1)) for tables in by_worker),
            clock=Clock(0.0, zeros, zeros),
            source="pipesched.jax",
        )


class PipelineRuntime:
    """Trains functions of JAX by a schedule.

    schedule: a schedule or program of F, B, I, W and R cells.
    stages: for each stage a function from its parameters and one array to one array.
    params: for each stage its parameters, any tree of arrays. Floats are trained.
    loss: from the output of the last stage and the targets of a microbatch to its loss.
    devices: one for each worker; by default the first devices of JAX.

    Raises PipeSchedError if these do not fit together.
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
        held = [[each.stage for each in schedule.stages(worker)] for worker in range(workers)]
        for worker, found in enumerate(held):
            if not found:
                raise PipeSchedError(f"worker {worker} of {schedule.name!r} has no stages")
        count = count_stages(schedule)
        if len(self.stages) != count:
            raise PipeSchedError(
                f"there are {len(self.stages)} functions; {schedule.name!r} has {count} stages"
            )
        if len(self.devices) != workers:
            raise PipeSchedError(
                f"there are {len(self.devices)} devices; {schedule.name!r} has {workers} workers"
            )
        self.holders = [[w for w in range(workers) if stage in held[w]] for stage in range(count)]
        """By stage: the workers that have it; several if it has replicas."""
        schedule.verify()
        self.programs = [tuple(schedule.program(worker)) for worker in range(workers)]
        self._refuse_others()
        self._pool = ThreadPoolExecutor(workers, "pipesched.jax")
        self._plans: dict[Any, _Plan] = {}
        self._recording: Recording | None = None
        self.params = params

    def _refuse_others(self) -> None:
        for worker, program in enumerate(self.programs):
            for each in program:
                if each.kind not in ("compute", "send", "recv") or any(
                    cell.phase not in "FBIWR" for cell in each.cells
                ):
                    raise PipeSchedError(
                        f"worker {worker} runs {each}, which this runtime has not; it runs "
                        "schedules of F, B, I, W and R cells"
                    )

    @property
    def params(self) -> list[Any]:
        """By stage its parameters, on the device of the first worker that has it. Setting them
        places them on all devices that need them.
        """
        return self._params

    @params.setter
    def params(self, params: Sequence[Any]) -> None:
        if len(params) != len(self.stages):
            raise PipeSchedError(
                f"there are {len(params)} trees of parameters; {self.schedule.name!r} has "
                f"{len(self.stages)} stages"
            )
        self._params, self.own = [], {}
        for stage, (tree, workers) in enumerate(zip(params, self.holders, strict=True)):
            placed = [jax.device_put(tree, self.devices[worker]) for worker in workers]
            self._params.append(placed[0])
            for worker, copy in zip(workers, placed, strict=True):
                self.own[worker, stage] = name_leaves(copy, f"stage {stage}")[0]

    def step(self, inputs: Any, targets: Any) -> tuple[Any, list[Any]]:
        """Runs one step. Returns the mean of the losses of all microbatches, and its gradients: a
        tree for each stage, like `params`. Arrays are cut along dimension 0 into equal
        microbatches.
        """
        parts = [self._cut(inputs, "inputs"), self._cut(targets, "targets")]
        examples = [jnp.asarray(each[0]) for each in parts]
        shapes = [jax.tree.map(lambda a: (a.shape, str(a.dtype)), examples)]
        shapes += [jax.tree.map(lambda a: (a.shape, str(a.dtype)), self.params)]
        plan = self._plans.get(repr(shapes))
        if plan is None:
            plan = self._plans[repr(shapes)] = _Plan(self, *examples)
        step = _Step(self, plan, parts, self._recording is not None)
        jobs = [self._pool.submit(step.run, worker) for worker in range(len(self.programs))]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, _Stopped)):
            raise error
        if self._recording is not None:
            self._recording.steps.append(step.times)
        return step.sum_losses(), step.sum_gradients()

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


class _Step:
    """One step. Each worker runs its program in a thread, and waits only for messages."""

    def __init__(
        self, runtime: PipelineRuntime, plan: _Plan, batch: list[list[Any]], is_timed: bool
    ) -> None:
        self._runtime, self._plan, self._is_timed = runtime, plan, is_timed
        self._inputs, self._targets = batch
        # The CPU client may run the cells of one device side by side.
        self._blocks = is_timed or runtime.devices[0].platform == "cpu"
        workers = range(len(runtime.programs))
        self.times = [np.full((5, len(p)), NEVER, np.int64) for p in runtime.programs]
        self._losses: list[Any] = [None for _ in workers]
        self._gradients: list[dict[int, Any]] = [{} for _ in workers]
        self._passed: list[dict[Key, Any]] = [{} for _ in workers]
        self._held: list[dict[tuple[int, int], Values]] = [{} for _ in workers]
        self._messages: dict[int, tuple[Any, int]] = {}
        self._has_changed, self._has_failed = threading.Condition(), False

    def run(self, worker: int) -> None:
        """Runs the program of a worker."""
        for instruction in self._runtime.programs[worker]:
            try:
                self._run(worker, instruction)
            except BaseException as error:
                if not isinstance(error, _Stopped):
                    error.add_note(f"worker {worker}, at {instruction}")
                with self._has_changed:
                    self._has_failed = True
                    self._has_changed.notify_all()
                raise

    def _run(self, worker: int, instruction: Instruction) -> None:
        now, program = time.perf_counter_ns, self._runtime.programs[worker]
        times, index = self.times[worker], instruction.index
        times[0, index] = now()
        for awaited in instruction.waits:
            if program[awaited].kind == "recv" and times[3, awaited] == NEVER:
                value, times[4, awaited] = self._take(program[awaited])
                times[3, awaited] = now()
                self._passed[worker][_key(program[awaited].cell)] = value
        times[1, index] = now()
        made: Any = None
        if instruction.kind == "compute":
            made = [self._compute(worker, cell) for cell in instruction.cells]
        elif instruction.kind == "send":
            assert instruction.message is not None and instruction.peer is not None
            value = self._passed[worker].pop(_key(instruction.cell))
            made = jax.device_put(value, self._runtime.devices[instruction.peer])
        for each in jax.tree.leaves(made) if self._blocks else ():
            each.block_until_ready()
        if instruction.kind == "send":
            with self._has_changed:
                self._messages[instruction.message or 0] = made, now()
                self._has_changed.notify_all()
        times[2, index] = now()

    def _take(self, receive: Instruction) -> tuple[Any, int]:
        """Waits for a message; returns it and when it arrived."""
        assert receive.message is not None
        with self._has_changed:
            self._has_changed.wait_for(
                lambda: receive.message in self._messages or self._has_failed
            )
            if receive.message not in self._messages:
                raise _Stopped
            return self._messages.pop(receive.message)

    def _compute(self, worker: int, cell: Cell) -> Any:
        """Runs a cell; returns its result."""
        at, held = (cell.stage, cell.microbatch), self._held[worker]
        if cell.phase in "FR":
            return self._forward(worker, cell)
        values = held.pop(at)
        is_last = cell.stage == len(self._plan.stages) - 1
        if cell.phase != "W" and not is_last:
            given = self._passed[worker].pop((False, cell.stage + 1, cell.microbatch))
            values[OUTPUT_GRADIENT] = given
        made = self._call(worker, cell.stage, BACKWARDS[cell.phase], values)
        if cell.phase == "I":
            kept = self._plan.kept(cell.stage, BACKWARDS["W"])
            held[at] = {role: each for role, each in (values | made).items() if role in kept}
        if cell.phase != "W" and cell.stage > 0:
            self._passed[worker][_key(cell)] = made[INPUT_GRADIENT]
        found = {name: each for (role, name), each in made.items() if role == "gradient"}
        if found:
            sums = self._gradients[worker]
            sums[cell.stage] = _add(sums[cell.stage], found) if cell.stage in sums else found
        return made

    def _forward(self, worker: int, cell: Cell) -> Values:
        """Runs F or R. A recomputed F has kept only its input."""
        at, held, passed = (cell.stage, cell.microbatch), self._held[worker], self._passed[worker]
        device = self._runtime.devices[worker]
        if cell.phase == "R":
            given = held[at][INPUT]
        elif cell.stage == 0:
            given = jax.device_put(self._inputs[cell.microbatch], device)
        else:
            given = passed.pop((True, cell.stage - 1, cell.microbatch))
        values = {INPUT: given}
        values |= self._call(worker, cell.stage, "forward", values)
        if cell.stage == len(self._plan.stages) - 1:
            target = jax.device_put(self._targets[cell.microbatch], device)
            piece, both = self._plan.loss, {OUTPUT: values[OUTPUT], ("target", ""): target}
            arguments = [both[role] for role in piece.arguments]
            loss, values[OUTPUT_GRADIENT] = piece.function(*arguments)
            if cell.phase == "F":
                before = self._losses[worker]
                self._losses[worker] = loss if before is None else _add(before, loss)
        elif cell.phase == "F":
            passed[_key(cell)] = values[OUTPUT]
        kept = {INPUT}
        if cell.phase == "R" or not cell.recomputed:
            kept = {OUTPUT_GRADIENT} | self._plan.kept(cell.stage, *BACKWARDS.values())
        held[at] = {role: each for role, each in values.items() if role in kept}
        return values

    def _call(self, worker: int, stage: int, kind: str, values: Values) -> Values:
        piece, own = self._plan.stages[stage][kind], self._runtime.own[worker, stage]
        known = self._plan.constants[stage]
        arguments = [
            (own[name] if name in own else known[name]) if kind == "param" else values[kind, name]
            for kind, name in piece.arguments
        ]
        return dict(zip(piece.results, piece.function(*arguments), strict=True))

    def sum_losses(self) -> Any:
        """Returns the loss of the step."""
        return self._sum([each for each in self._losses if each is not None])

    def sum_gradients(self) -> list[Any]:
        """Returns the gradients by stage, with the sum over replicas."""
        trees = []
        for stage, workers in enumerate(self._runtime.holders):
            found = [self._gradients[w][stage] for w in workers if stage in self._gradients[w]]
            own, tree = name_leaves(self._runtime.params[stage], f"stage {stage}")
            sums = self._sum(found) if found else {}
            leaves = [sums[name] if name in sums else jnp.zeros_like(own[name]) for name in own]
            trees.append(jax.tree_util.tree_unflatten(tree, leaves))
        return trees

    def _sum(self, parts: list[Any]) -> Any:
        total, device = parts[0], next(iter(jax.tree.leaves(parts[0])[0].devices()))
        for part in parts[1:]:
            total = _add(total, jax.device_put(part, device))
        return total


def _key(cell: Cell) -> Key:
    return cell.phase == "F", cell.stage, cell.microbatch

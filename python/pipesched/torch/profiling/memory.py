"""Memory of a rank while it trains, measured stage by stage, and from this predicted for any
schedule of the same placement.

An activation consists of the tensors that PyTorch really keeps after each of its cells:

    F      tensors that autograd keeps for the backward, with the message of the input if that
           is kept; the input alone if the stage is recomputed
    I      all of that still, since W goes through the same graph, and the gradients that W starts
           with
    D, B, W  nothing

In addition to activations it counts outputs and gradients that wait to be sent, and buffers of
messages from the start of their receive. A G, or a mean over pipelines, has buffers in which it
sums small gradients. Gradients of parameters are not counted, unless gradients of earlier steps
(`float16`, DTensors) are set aside from the first B or W of a stage until this step's are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipesched import Cell, Instruction, PipeSchedError, Schedule

from ..core.batch import units_of
from ..core.program import early_receives, needs
from ..core.values import Packet, places_of
from ..partition.placement import StageKey

if TYPE_CHECKING:
    from ..runtime.executor import Executor


@dataclass
class StageBytes:
    """The bytes that a stage holds of one microbatch, the most if sizes differ."""

    kept: int = 0
    """From F, or R, to the backward."""
    split: int = 0
    """From I to W."""
    input: int = 0
    """From an F that is recomputed to its R."""
    output: int = 0
    """The output until it is sent or taken, in addition to the activation."""
    upward: int = 0
    """The gradient of the input until it is sent or taken."""
    message: int = 0
    """A message with the input; 0 if the stage before is on the same rank."""
    gradient: int = 0
    """A message with the gradient of the output."""
    aside: int = 0
    """Gradients of earlier steps, kept until the sum of this step's; for all microbatches."""
    late: int = 0
    """Gradients of earlier steps, kept until the end of the step, as for tied parameters."""

    def note(self, name: str, found: int) -> None:
        setattr(self, name, max(getattr(self, name), found))


@dataclass
class Memory:
    """The memory of a rank in training steps."""

    schedule: Schedule
    rank: int
    has_tags: bool
    is_early: bool
    """Whether receives start before their places."""
    peak: int = 0
    """The most bytes of activations and messages after an instruction."""
    stages: dict[StageKey, StageBytes] = field(default_factory=dict)
    """By path and stage, of phases that have run."""
    bytes_of_sum: Callable[[range], int] = lambda _: 0
    """The size of the copies in which the gradients of blocks are summed."""
    bytes_of_mean: Callable[[StageKey], int] = lambda _: 0
    """The same for gradients of a stage that are averaged over pipelines after its backwards."""

    def look(self, instruction: Instruction, rank: Executor) -> None:
        self.peak = max(self.peak, sum(rank.places_held().values()))
        self.bytes_of_sum = rank.sums.joined_bytes
        self.bytes_of_mean = rank.sums.mean_bytes
        for cell in instruction.cells:
            if instruction.kind == "compute" and cell.phase in "FRIB":
                self._look_at(cell, rank)
            if instruction.kind == "compute" and cell.phase in "BW":
                aside, late = rank.sums.bytes_aside((cell.path, cell.stage))
                self._stage(cell).note("aside", aside)
                self._stage(cell).note("late", late)

    def _look_at(self, cell: Cell, rank: Executor) -> None:
        at, stage = (cell.stage, cell.microbatch), self._stage(cell)
        own = rank.held.get(at)
        others = [t for key, held in rank.held.items() if key != at for t in held.tensors()]
        known = rank.spared | places_of(others, ()).keys()
        if own is not None:
            found = sum(places_of(own.tensors(), known).values())
            is_input = cell.phase == "F" and cell.recomputed
            name = {"F": "input" if is_input else "kept", "R": "kept", "I": "split"}.get(cell.phase)
            if name is not None:
                stage.note(name, found)
            known |= places_of(own.tensors(), ()).keys()
        packet, name = rank.boxes.behind(cell)
        if packet is not None:
            stage.note(name, _size(packet, known))

    def take(self, cell: Cell, packet: Packet) -> None:
        """Notes the size of a message that has arrived, by the cell that sent it."""
        is_down = cell.phase == "F"
        key = cell.path, cell.stage + (1 if is_down else -1)
        stage = self.stages.setdefault(key, StageBytes())
        stage.note("message" if is_down else "gradient", _size(packet, ()))

    def _stage(self, cell: Cell) -> StageBytes:
        return self.stages.setdefault((cell.path, cell.stage), StageBytes())

    # Prediction

    def predict(self, schedule: Schedule) -> int:
        """Returns the most bytes that this rank will hold after an instruction of another schedule
        of the same stages and phases as the measured steps.
        """
        if schedule.stages(self.rank) != self.schedule.stages(self.rank):
            raise PipeSchedError(
                f"rank {self.rank} has other stages in the schedule than in the one that was "
                "measured"
            )
        program = units_of(schedule).program(self.rank)
        blocks_of = {(s.path, s.stage): s.blocks for s in schedule.stages(self.rank)}
        early = early_receives(program, in_order=not self.has_tags) if self.is_early else {}
        last = {
            (cell.path, cell.stage): cell
            for instruction in program
            for cell in instruction.cells
            if instruction.kind == "compute" and cell.phase in "BW"
        }
        walk = _Walk(self, set(last.values()))
        for instruction in program:
            for receive in early.get(instruction.index, ()):
                walk.receive(receive.cell)
            for awaited in needs(instruction, program):
                if awaited.kind == "all_reduce" and awaited.group is not None:
                    summed = schedule.groups[awaited.group].blocks
                    chosen = [key for key, own in blocks_of.items() if own[0] in summed]
                    walk.end_sum(awaited.group, chosen)
            if instruction.kind == "all_reduce" and instruction.group is not None:
                blocks = schedule.groups[instruction.group].blocks
                walk.begin_sum(instruction.group, self.bytes_of_sum(blocks))
            walk.run(instruction, has_begun=bool(early))
        return walk.peak


def _size(packet: Packet, known: Iterable[int]) -> int:
    return sum(places_of(packet.tensors, set(known)).values())


class _Walk:
    """A program, as bytes that are allocated and freed."""

    def __init__(self, memory: Memory, last: Collection[Cell]) -> None:
        self._memory, self._last = memory, last
        self._held: dict[tuple[str, int, int], int] = {}
        self.peak = 0

    def _of(self, cell: Cell, offset: int = 0) -> StageBytes:
        return self._memory.stages.get((cell.path, cell.stage + offset), StageBytes())

    def _put(self, what: str, stage: int, microbatch: int, nbytes: int) -> None:
        self._held[what, stage, microbatch] = nbytes

    def _drop(self, what: str, stage: int, microbatch: int) -> None:
        self._held.pop((what, stage, microbatch), None)

    def receive(self, cell: Cell) -> None:
        is_down = cell.phase == "F"
        stage = self._of(cell, 1 if is_down else -1)
        nbytes = stage.message if is_down else stage.gradient
        self._put("down" if is_down else "up", cell.stage, cell.microbatch, nbytes)

    def begin_sum(self, group: int, nbytes: int) -> None:
        self._put("sum", group, 0, nbytes)

    def end_sum(self, group: int, keys: Sequence[StageKey]) -> None:
        """Ends a sum, after which gradients of earlier steps of these stages are free."""
        self._drop("sum", group, 0)
        for path, stage in keys:
            self._drop("aside", stage, path)

    def run(self, instruction: Instruction, has_begun: bool) -> None:
        cell = instruction.cell
        if instruction.kind == "recv" and not has_begun:
            self.receive(cell)
        elif instruction.kind == "send":
            self._drop("down" if cell.phase == "F" else "up", cell.stage, cell.microbatch)
        elif instruction.kind == "offload":
            self._drop("activation", cell.stage, cell.microbatch)
        elif instruction.kind == "reload":
            self._put("activation", cell.stage, cell.microbatch, self._of(cell).kept)
        elif instruction.kind == "compute":
            for each in instruction.cells:
                self._compute(each)
        self.peak = max(self.peak, sum(self._held.values()))

    def _compute(self, cell: Cell) -> None:
        stage, sizes, number = cell.stage, self._of(cell), cell.microbatch
        phase = cell.phase
        if phase == "F":
            self._drop("down", stage - 1, number)
            self._put("activation", stage, number, sizes.input if cell.recomputed else sizes.kept)
            self._put("down", stage, number, sizes.output)
        elif phase == "R":
            self._put("activation", stage, number, sizes.kept)
        elif phase == "O" and not sizes.late:  # it waits for the sums over other pipelines
            self._drop("aside", stage, cell.path)
            self._drop("mean", stage, cell.path)
        elif phase == "W":
            self._put_gradients(cell)
            self._drop("activation", stage, number)
        elif phase in "BI":
            self._drop("up", stage + 1, number)
            self._put("up", stage, number, sizes.upward)
            if phase == "B":
                self._put_gradients(cell)
                self._drop("activation", stage, number)
            else:
                self._put("activation", stage, number, sizes.split)

    def _put_gradients(self, cell: Cell) -> None:
        """A stage's gradients and older accumulated ones are both kept until its last backward."""
        sizes = self._of(cell)
        self._put("aside", cell.stage, cell.path, sizes.aside)
        self._put("late", cell.stage, cell.path, sizes.late)
        if cell in self._last:
            mean = self._memory.bytes_of_mean((cell.path, cell.stage))
            self._put("mean", cell.stage, cell.path, mean)

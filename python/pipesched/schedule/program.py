"""Programs of workers as data, for the authors of runtimes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import OutOfRange, PipeSchedError, WrongType
from ..support.options import InstructionKind, Phase, names_of

if TYPE_CHECKING:
    import pandas as pd

    from .schedule import Schedule

PHASES: tuple[Phase, ...] = _core.phases()  # type: ignore[assignment]
"""By `Columns.phase`: the number that the library has for a phase. `_`, idle, is among them."""
COSTED_PHASES: tuple[Phase, ...] = _core.costed_phases()  # type: ignore[assignment]
"""Phases that profiles give times."""

RECOMPUTED, OFFLOADED = 1, 2
"""The bits of `Columns.activation`."""


def index_of(what: str, value: object, count: int) -> int:
    """Checks that the value is an integer from 0 to count - 1."""
    wanted = f"{what} is an integer from 0 to {count - 1}"
    try:
        index = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise WrongType(f"{wanted}; got {value!r}") from None
    if not 0 <= index < count:
        raise OutOfRange(f"{wanted}; got {index}")
    return index


Passed = tuple[bool, int, int]
"""A value that one stage passes to another: an output, or the gradient of an input, with its stage
and microbatch.
"""


class Cell(NamedTuple):
    """One cell of a table. `str` gives its name as in a row, `2F0`."""

    stage: int
    """A position on the path."""
    phase: Phase
    microbatch: int
    """After O and G, the path."""
    path: int
    """The path of the microbatch: an index into `Schedule.paths`."""
    recomputed: bool
    """Whether an R computes the activation of this stage and microbatch again, so that F need not
    keep it all. False for O and G."""
    offloaded: bool
    """Whether a D copies that activation to the host. False for O and G."""

    def __str__(self) -> str:
        return f"{self.stage}{self.phase}{self.microbatch}"

    @property
    def gives(self) -> Passed:
        """What F, B or I passes to another stage."""
        return self.phase == "F", self.stage, self.microbatch

    @property
    def takes(self) -> Passed:
        """What F, B or I needs of another stage."""
        is_output = self.phase == "F"
        return is_output, self.stage + (-1 if is_output else 1), self.microbatch


def trace_name(cells: Sequence[Cell], kind: str = "compute") -> str:
    """The name of an instruction in traces: `F 2 mb 3`, and `send F 2 mb 3` for its message."""
    names = " + ".join(f"{cell.phase} {cell.stage} mb {cell.microbatch}" for cell in cells)
    return names if kind == "compute" else f"{kind} {names}"


class Instruction(NamedTuple):
    """One instruction of a worker."""

    index: int  # type: ignore[assignment]  # tuples have a method of this name
    """Its position in the program of its worker, from 0."""
    kind: InstructionKind
    """compute: runs the cell, or both cells of an overlapped pair together.
    send, recv: one end of a message with the result of the cell: the output of F, or the gradient
    of the input that B, I or W computes (`Schedule.gradient_after`).
    offload, reload: D and U copy the tensors that F of the same stage and microbatch keeps for its
    backward to the host and back.
    wait: a join, which runs nothing; it is done when all its operands are done.
    all_reduce: sums gradients of `blocks` among the workers of `group`."""
    cells: tuple[Cell, ...]
    """One cell; two for an overlapped pair."""
    peer: int | None
    """send: the worker that receives; recv: the worker that sends; else None."""
    message: int | None
    """send, recv: the number of the message in the whole program, from 0 without gaps; the same at
    both ends. Else None."""
    sequence: int | None
    """send, recv: the number of earlier messages from the same sender to the same receiver; the
    same at both ends. Else None.
    """
    group: int | None
    """A collective: an index into `Schedule.groups`; else None."""
    blocks: range | None
    """all_reduce: the blocks of the model whose gradients are summed; else None."""
    holds: int | None
    """wait: the index of the first instruction that it holds, None if there is none."""
    waits: tuple[int, ...]
    """The earlier instructions of this worker that must be done before it starts. An instruction
    that a `wait` holds lists the `wait`."""

    @property
    def cell(self) -> Cell:
        """The cell; of an overlapped pair the first."""
        return self.cells[0]

    def __str__(self) -> str:
        kind = self.kind.replace("_", "-")
        to = {"send": f" to {self.peer}", "recv": f" from {self.peer}"}.get(self.kind, "")
        return f"{self.index}: {kind} {'+'.join(map(str, self.cells))}{to}"


class Stage(NamedTuple):
    """A stage that a worker holds."""

    path: int
    """An index into `Schedule.paths`."""
    stage: int
    """Its position on the path."""
    first_block: int
    end_block: int
    """It holds the blocks first_block to end_block - 1 of `Schedule.blocks`, which may be none.
    Embedding and head belong to the first and the last stage of each path."""
    sets: range
    """The sets of `Schedule.parameter_sets` that it holds: together they have its blocks. Empty for
    a stage without parameters."""
    owned_sets: range
    """The sets that the stage owns, which come first in `sets`: its O steps them and its G reduces
    their gradients. A stage that owns none has neither O nor G.
    """

    @property
    def blocks(self) -> range:
        return range(self.first_block, self.end_block)


class ParameterSet(NamedTuple):
    """Blocks that a worker holds once for all stages that use them."""

    blocks: range
    """The blocks of the model, in the unit of `Schedule.blocks`. The embedding belongs to the first
    set of stage 0 of a path, the head to the last set of its last stage; a set that has nothing
    else has no blocks."""
    stages: tuple[tuple[int, int], ...]
    """(path, stage) of each stage of the worker that uses it, ascending. The microbatches of all of
    them add to the gradient."""
    owner: tuple[int, int]
    """(path, stage) of the owner: the stage whose O steps the parameters and whose G reduces the
    gradient.
    """


class Group(NamedTuple):
    """The workers that meet in a collective: to sum the gradients of some blocks, or for a
    microbatch."""

    blocks: range
    """The blocks of the model, in the unit of `Schedule.blocks`. Empty if they meet for a
    microbatch."""
    workers: tuple[int, ...]
    """Ascending. A single worker is possible."""
    stages: tuple[tuple[int, int], ...]
    """(path, stage) of each stage that holds some of the blocks. The sum goes over all their
    microbatches; a worker with several of them adds up its own first and takes part once. For a
    microbatch, the stages by whose cells the workers take part."""
    kind: InstructionKind = "all_reduce"
    """The instruction of each member."""
    microbatch: int | None = None
    """The microbatch for which they meet; None if it is for blocks."""


Ints = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Columns:
    """The instructions of a worker as read-only NumPy views, one entry per instruction unless it
    says otherwise; -1 means "none".
    """

    kind: Codes
    """An index into `WorkerProgram.kinds`."""
    path: Ints
    stage: Ints
    microbatch: Ints
    """After O and G, the path."""
    phase: Codes
    """An index into `WorkerProgram.phases`."""
    activation: Codes
    """Sum of 1 if the activation is recomputed and 2 if it is offloaded."""
    second_path: Ints
    """This and the following columns describe the second cell of an overlapped pair; -1 if there is
    none.
    """
    second_stage: Ints
    second_microbatch: Ints
    second_phase: Codes
    second_activation: Codes
    """0 if there is no second cell."""
    peer: Ints
    message: Ints
    sequence: Ints
    group: Ints
    holds: Ints
    wait_begins: npt.NDArray[np.uint32]
    """Instructions + 1 entries: instruction i waits for `waits[wait_begins[i]:wait_begins[i + 1]]`.
    """
    waits: Ints
    """Indices of instructions of the same worker; as many as all instructions have waits."""


def _read_cells(columns: Columns, prefix: str = "") -> Iterator[Cell]:
    names = ("stage", "phase", "microbatch", "path", "activation")
    lists = [getattr(columns, prefix + name).tolist() for name in names]
    for stage, phase, microbatch, path, activation in zip(*lists, strict=True):
        recomputed, offloaded = bool(activation & RECOMPUTED), bool(activation & OFFLOADED)
        yield Cell(stage, PHASES[phase], microbatch, path, recomputed, offloaded)


class WorkerProgram(Sequence[Instruction]):
    """The instructions of one worker, in program order; `columns` has the same data as arrays."""

    kinds: tuple[InstructionKind, ...] = names_of(InstructionKind)
    phases: tuple[Phase, ...] = PHASES

    __slots__ = ("_groups", "columns", "worker")

    def __init__(
        self, worker: int, columns: dict[str, npt.NDArray[Any]], groups: tuple[Group, ...]
    ) -> None:
        self.worker = worker
        self.columns = Columns(**columns)
        self._groups = groups

    def __len__(self) -> int:
        return len(self.columns.kind)

    def __iter__(self) -> Iterator[Instruction]:
        return self._read(0, len(self))

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Instruction, ...]: ...
    def __getitem__(self, index: int | slice) -> Instruction | tuple[Instruction, ...]:
        if isinstance(index, slice):
            chosen = range(len(self))[index]
            if chosen.step == 1:
                return tuple(self._read(chosen.start, max(chosen.start, chosen.stop)))
            return tuple(map(self.__getitem__, chosen))
        at = operator.index(index)
        if not -len(self) <= at < len(self):
            raise IndexError(
                f"worker {self.worker} has {len(self)} instructions; got index {index}"
            )
        at %= len(self)
        return next(self._read(at, at + 1))

    def _read(self, begin: int, end: int) -> Iterator[Instruction]:
        """The instructions `begin` to `end` - 1."""
        of = self.columns
        part = Columns(**{f.name: getattr(of, f.name)[begin:end] for f in fields(Columns)})
        ends = of.wait_begins[begin : end + 1].tolist()
        waits = of.waits[ends[0] : ends[-1]].tolist()
        seconds = part.second_stage.tolist()
        rows = zip(
            part.kind.tolist(),
            _read_cells(part),
            _read_cells(part, "second_"),
            part.peer.tolist(),
            part.message.tolist(),
            part.sequence.tolist(),
            part.group.tolist(),
            part.holds.tolist(),
            strict=True,
        )
        for i, (kind, first, second, peer, message, sequence, group, holds) in enumerate(rows):
            is_message = message >= 0
            yield Instruction(
                begin + i,
                self.kinds[kind],
                (first,) if seconds[i] < 0 else (first, second),
                peer if is_message else None,
                message if is_message else None,
                sequence if is_message else None,
                None if group < 0 else group,
                self._blocks_of(group),
                None if holds < 0 else holds,
                tuple(waits[ends[i] - ends[0] : ends[i + 1] - ends[0]]),
            )

    def _blocks_of(self, group: int) -> range | None:
        """The blocks for which a group meets."""
        if group < 0 or self._groups[group].microbatch is not None:
            return None
        return self._groups[group].blocks

    def to_frame(self) -> pd.DataFrame:
        """One row per instruction: worker, index, kind and the columns other than waits."""
        from ..results.frames import program_frame

        return program_frame(self)

    def __repr__(self) -> str:
        return f"<program of worker {self.worker}: {len(self)} instructions>"


def programs_of(schedule: Schedule, phases: str, runtime: str) -> list[tuple[Instruction, ...]]:
    """Returns the programs of all workers for a runtime that runs these phases and trains all
    stages. Raises an error for workers without stages and for anything else that they run.
    """
    if any(path.frozen or path.forward_only for path in schedule.paths):
        raise PipeSchedError(
            f"{schedule.name!r} has stages without weight gradients; {runtime} trains all stages"
        )
    programs = [tuple(schedule.program(worker)) for worker in range(schedule.workers)]
    for worker, program in enumerate(programs):
        if not schedule.stages(worker):
            raise PipeSchedError(f"worker {worker} of {schedule.name!r} has no stages")
        for each in program:
            if any(cell.phase not in phases for cell in each.cells):
                raise PipeSchedError(
                    f"worker {worker} of {schedule.name!r} runs {each}, which {runtime} does not; "
                    f"it runs cells of {', '.join(phases)}"
                )
    return programs

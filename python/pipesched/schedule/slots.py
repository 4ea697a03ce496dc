"""Buffers for receives that are known before a run: how many, and which message lies in which."""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..support.options import ReceivePlacement, text_of
from .program import Cell, Instruction

if TYPE_CHECKING:
    from .schedule import Schedule

Received = Literal["input", "gradient"]
At = tuple[int, int, int]
"""Path, stage and microbatch."""
Pool = tuple[int, int, Received]
"""Path, stage and what it receives."""
Need = tuple[int, int, int, Received]
"""Path, stage and microbatch, and what they have received."""
_ACTION = re.compile(r"(\d+)(RECV_F|RECV_B|[FBIW])(\d+)")
"""What of an action of PyTorch's runtime says where buffers are taken and given back."""


class ReceivePool(NamedTuple):
    """The buffers for the messages that one stage of a worker gets in one direction."""

    path: int
    stage: int
    """The stage that gets the messages, a position on the path."""
    kind: Received
    """input: outputs of the stage before; gradient: what the stage behind gives back."""
    slots: tuple[tuple[int, ...], ...]
    """For each buffer the numbers of the messages that lie in it, one after the other."""

    @property
    def size(self) -> int:
        return len(self.slots)


def receiver_of(instruction: Instruction) -> tuple[At, Received]:
    """Who needs what a receive brings, and as what."""
    cell = instruction.cell
    is_down = cell.phase == "F"
    at = cell.path, cell.stage + (1 if is_down else -1), cell.microbatch
    return at, "input" if is_down else "gradient"


def receive_pools(
    program: Sequence[Instruction], begins: Mapping[int, int] | None = None
) -> tuple[ReceivePool, ...]:
    """The pools of a worker, by path, stage and kind. A message lies in its buffer from the start
    of its receive to the last compute of its stage and microbatch, or to the end of its offload:

        recv 1F0   1F0   ...   1I0   ...   1W0        input of 1F0
        |--------------- one slot ------------|       the next receive may take it behind 1W0

    Each buffer is taken again as soon as it is free, so that there are as many as messages lie
    there at once at most.

    begins: by the index of a receive, the index of the instruction before which it begins; by
        default its own.
    """
    ends = _ends(program)
    order = sorted(
        (each.index if begins is None else begins.get(each.index, each.index), each.index)
        for each in program
        if each.kind == "recv"
    )
    slots: dict[Pool, list[list[int]]] = {}
    free: dict[Pool, list[int]] = {}
    busy: list[tuple[int, int, Pool]] = []  # a heap, the next end first
    for begin, index in order:
        while busy and busy[0][0] < begin:
            _, number, left = heapq.heappop(busy)
            heapq.heappush(free[left], number)
        at, kind = receiver_of(program[index])
        pool: Pool = at[0], at[1], kind
        taken, open_ = slots.setdefault(pool, []), free.setdefault(pool, [])
        if not open_:
            taken.append([])
        number = heapq.heappop(open_) if open_ else len(taken) - 1
        message = program[index].message
        assert message is not None
        taken[number].append(message)
        heapq.heappush(busy, (max(begin, ends.get((*at, kind), begin)), number, pool))
    return tuple(
        ReceivePool(*pool, tuple(map(tuple, taken))) for pool, taken in sorted(slots.items())
    )


def slots_of(
    schedule: Schedule, worker: int, receives: ReceivePlacement | Literal["pytorch"] | None
) -> tuple[ReceivePool, ...]:
    """The pools of a worker of a schedule, with its receives in one of the orders."""
    if receives is not None:
        text_of("receives", receives)
    if receives == "pytorch":
        rows = schedule.to_csv("compute_comms").splitlines()
        return receive_pools(in_order_of(schedule.program(worker), rows[worker]))
    return receive_pools(schedule.program(worker, receives=receives))


def _ends(program: Sequence[Instruction]) -> dict[Need, int]:
    """The index of the last instruction that needs a received value, by who got it."""
    found: dict[Need, int] = {}
    leaving: dict[int, Need] = {}
    gone: set[Need] = set()
    for instruction in program:
        for cell in instruction.cells if instruction.kind == "compute" else ():
            needs = _needs(cell)
            for kind in needs:
                key = cell.path, cell.stage, cell.microbatch, kind
                if key not in gone:
                    found[key] = instruction.index
        if instruction.kind == "offload" and not instruction.cell.recomputed:
            cell = instruction.cell
            leaving[instruction.index] = cell.path, cell.stage, cell.microbatch, "input"
        elif instruction.kind in ("wait", "reload"):  # what waits for an offload finds it ended
            for index in instruction.waits:
                if index in leaving and leaving[index] not in gone:
                    gone.add(leaving[index])
                    found[leaving[index]] = instruction.index
    return found


def _needs(cell: Cell) -> tuple[Received, ...]:
    if cell.phase in ("F", "R"):
        return ("input",)
    return ("input", "gradient") if cell.phase in ("B", "I", "W") else ()


def in_order_of(program: Sequence[Instruction], row: str) -> list[Instruction]:
    """The receives and computes of a program in the order of PyTorch's `compute_comms`."""
    known: dict[tuple[int, str, int], Instruction] = {}
    for each in program:
        if each.kind == "recv":
            (_, stage, microbatch), kind = receiver_of(each)
            known[stage, "RECV_F" if kind == "input" else "RECV_B", microbatch] = each
        elif each.kind == "compute":
            known.update(((c.stage, c.phase, c.microbatch), each) for c in each.cells)
    found: list[Instruction] = []
    for stage, action, microbatch in _ACTION.findall(row):
        each = known[int(stage), action, int(microbatch)]
        found.append(each._replace(index=len(found), waits=()))
    return found

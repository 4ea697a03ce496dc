"""Facts that the runtime finds once in its program: waits of the host, and early receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipesched import Cell, Instruction

OF_HEAD = ("broadcast", "combine", "reduce")
"""The collectives of a head in shards."""
OF_EMBEDDING = ("reduce_lookups", "broadcast_gradient")
"""Collectives of an embedding in shards."""
COLLECTIVES = (*OF_HEAD, *OF_EMBEDDING)
AWAITED = frozenset(("recv", "all_reduce", "offload", "reload", *COLLECTIVES))
AHEAD = 2
"""The number of computes by which a receive starts early, to save messages a round trip."""
AHEAD_OF_SPLIT = 4
"""The same for split backwards: I and W are shorter than the whole."""


def needs(instruction: Instruction, program: Sequence[Instruction]) -> list[Instruction]:
    """Returns the instructions that the host awaits before one; the device orders messages and
    sums.
    """
    if instruction.kind in ("recv", "send", "offload", "all_reduce", *COLLECTIVES):
        return []
    awaited = [program[index] for index in instruction.waits]
    return [i for i in awaited if i.kind in AWAITED]


def early_receives(
    program: Sequence[Instruction], in_order: bool = False
) -> dict[int, list[Instruction]]:
    """By index of an instruction: the receives that start before it, AHEAD computes before their
    position (AHEAD_OF_SPLIT if backwards are split), after their dependences, and with `in_order`
    in their order. No instruction waits for the start of a receive, so programs cannot hang by it.
    """
    found: dict[int, list[Instruction]] = {}
    computes: list[int] = []
    last = 0
    is_split = any(cell.phase == "I" for i in program if i.kind == "compute" for cell in i.cells)
    ahead = AHEAD_OF_SPLIT if is_split else AHEAD
    for instruction in program:
        if instruction.kind == "compute":
            computes.append(instruction.index)
        elif instruction.kind == "recv":
            begin = computes[-ahead] if len(computes) >= ahead else 0
            begin = max([begin, *(index + 1 for index in instruction.waits)])
            begin = max(begin, last) if in_order else begin
            last = begin
            found.setdefault(min(begin, instruction.index), []).append(instruction)
    return found


Pair = tuple[Cell, Cell]
"""A forward and a backward whose layers may run in turn."""


@dataclass(slots=True)
class Prepared:
    """An instruction, as the passes of one mode run it."""

    instruction: Instruction
    cells: tuple[Cell, ...]
    """Cells that run; none if the instruction only has receives before it."""
    pair: Pair | None
    awaited: Sequence[Instruction]
    early: Sequence[Instruction]


def prepare_passes(
    program: Sequence[Instruction],
    early: Mapping[int, Sequence[Instruction]],
    runs: Callable[[Cell], bool],
    pair_of: Callable[[Sequence[Cell]], Pair | None],
) -> list[Prepared]:
    """Returns the instructions with cells that a pass runs; pair_of finds pairs of cells."""
    found = []
    for instruction in program:
        cells = tuple(cell for cell in instruction.cells if runs(cell))
        begun = [each for each in early.get(instruction.index, ()) if runs(each.cell)]
        if cells or begun:
            pair = pair_of(cells) if instruction.kind == "compute" else None
            awaited = needs(instruction, program)
            found.append(Prepared(instruction, cells, pair, awaited, begun))
    return found

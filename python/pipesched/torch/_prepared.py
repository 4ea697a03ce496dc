"""What an executor knows of its program before it runs: of each instruction what it waits for,
which of its cells a pass runs, and which receives begin before it. It is found once, since looking
for it takes as long as the backward of a small layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipesched import Cell, Instruction

from ._order import needs

Pair = tuple[Cell, Cell]
"""A forward and a backward whose layers may run in turn."""


class Prepared:
    """An instruction, as the passes of one mode run it."""

    __slots__ = ("awaited", "cells", "early", "instruction", "pair")

    def __init__(
        self,
        instruction: Instruction,
        cells: tuple[Cell, ...],
        pair: Pair | None,
        awaited: Sequence[Instruction],
        early: Sequence[Instruction],
    ) -> None:
        self.instruction = instruction
        self.cells = cells
        """Those that run; none if the instruction only has receives before it."""
        self.pair = pair
        self.awaited = awaited
        """What the host waits for before it."""
        self.early = early
        """The receives that begin before it."""


def prepare(
    program: Sequence[Instruction],
    early: Mapping[int, Sequence[Instruction]],
    runs: Callable[[Cell], bool],
    pair_of: Callable[[Sequence[Cell]], Pair | None],
) -> list[Prepared]:
    """The instructions of a program for which something is to be done, in order.

    runs: whether these passes run a cell.
    pair_of: the pair among cells that run together, if they are one.
    """
    found = []
    for instruction in program:
        cells = tuple(cell for cell in instruction.cells if runs(cell))
        begun = [each for each in early.get(instruction.index, ()) if runs(each.cell)]
        if cells or begun:
            pair = pair_of(cells) if instruction.kind == "compute" else None
            awaited = needs(instruction, program)
            found.append(Prepared(instruction, cells, pair, awaited, begun))
    return found

"""What of a program the host waits for, and what it begins early."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched import Instruction

OF_HEAD = ("broadcast", "combine", "reduce")
"""The collectives of a head in shards."""
OF_EMBEDDING = ("reduce_lookups", "broadcast_gradient")
"""Those of an embedding in shards."""
COLLECTIVES = (*OF_HEAD, *OF_EMBEDDING)
AWAITED = frozenset(("recv", "all_reduce", "offload", "reload", *COLLECTIVES))
AHEAD = 2
"""How many computes before its position a receive begins. A message that had to wait for its
receive would take a round trip longer.
"""
AHEAD_OF_SPLIT = 4
"""The same where backwards are split: I and W are shorter than what they are parts of."""


def needs(instruction: Instruction, program: Sequence[Instruction]) -> list[Instruction]:
    """The instructions for which the host waits before an instruction. It need not wait before
    messages, offloads and sums: the device runs them behind the instructions that were issued
    before them.
    """
    if instruction.kind in ("recv", "send", "offload", "all_reduce", *COLLECTIVES):
        return []
    awaited = [program[index] for index in instruction.waits]
    return [i for i in awaited if i.kind in AWAITED]


def early_receives(
    program: Sequence[Instruction], in_order: bool = False
) -> dict[int, list[Instruction]]:
    """By index of an instruction: the receives that begin before it. They begin AHEAD computes
    before their position (AHEAD_OF_SPLIT where backwards are split), but not before the
    instructions that they wait for, and with `in_order` not before receives that stand before
    them. Nothing waits for the start of a receive, so this cannot make a program hang.
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

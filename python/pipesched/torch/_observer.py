"""What looks at a rank while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pipesched import Cell, Instruction

from ._values import Packet

if TYPE_CHECKING:
    from ._executor import Executor


class Memory(Protocol):
    """Looks at what a rank holds."""

    def look(self, instruction: Instruction, executor: Executor) -> None:
        """Called after each instruction of a training step."""

    def take(self, cell: Cell, packet: Packet) -> None:
        """Called with each value that has come in a message, and the cell that sent it."""

"""What passes between the stages of a rank, and between them and messages. It lies in four places,
by stage and microbatch:

    inbox       the input of a stage, from the stage before it
    outbox      the output of a stage, until it is sent
    gradbox     the gradients of the outputs of a stage, from the stage behind it
    upbox       the gradients of the inputs of a stage, until they are sent
"""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

from pipesched import Cell

from ._errors import PipelineError
from ._placement import StageKey
from ._values import Packet

At = tuple[int, int]
"""(stage, microbatch)."""
Box = dict[At, Packet]


class Boxes:
    """The four places.

    stages: by path and stage, those of this rank; what passes to another one is sent.
    """

    __slots__ = ("_stages", "gradbox", "inbox", "outbox", "upbox")

    def __init__(self, stages: Collection[StageKey]) -> None:
        self._stages = stages
        self.clear()

    def clear(self) -> None:
        """Begins or ends a pass."""
        self.inbox: Box = {}
        self.outbox: Box = {}
        self.gradbox: Box = {}
        self.upbox: Box = {}

    def pop(self, box: Box, cell: Cell) -> Packet:
        """Takes what a cell needs out of one of the places."""
        found = box.pop((cell.stage, cell.microbatch), None)
        if found is None:
            raise PipelineError(f"the program of this rank runs {cell} before what it needs")
        return found

    def pop_sent(self, cell: Cell) -> Packet:
        """Takes what a cell has made for another rank."""
        return self.pop(self.outbox if cell.phase == "F" else self.upbox, cell)

    def put_received(self, cell: Cell, packet: Packet) -> None:
        """Stores what a cell of another rank has made."""
        if cell.phase == "F":
            self.inbox[cell.stage + 1, cell.microbatch] = packet
        else:
            self.gradbox[cell.stage - 1, cell.microbatch] = packet

    def pass_down(self, cell: Cell, packet: Packet) -> None:
        """Gives an output to the next stage, here or by a message."""
        if (cell.path, cell.stage + 1) in self._stages:
            self.inbox[cell.stage + 1, cell.microbatch] = packet
        else:
            self.outbox[cell.stage, cell.microbatch] = packet

    def pass_up(self, cell: Cell, packet: Packet) -> None:
        """Gives the gradients of an input to the stage before, here or by a message."""
        if (cell.path, cell.stage - 1) in self._stages:
            self.gradbox[cell.stage - 1, cell.microbatch] = packet
        else:
            self.upbox[cell.stage, cell.microbatch] = packet

    def behind(self, cell: Cell) -> tuple[Packet | None, str]:
        """What a cell has given to the next one, and what that is."""
        stage, number = cell.stage, cell.microbatch
        if cell.phase == "F":
            here = self.outbox.get((stage, number))
            return here or self.inbox.get((stage + 1, number)), "output"
        if cell.phase in "BI":
            here = self.upbox.get((stage, number))
            return here or self.gradbox.get((stage - 1, number)), "upward"
        return None, ""

    def tensors(self) -> list[Tensor]:
        """What lies in them."""
        boxes = (self.inbox, self.outbox, self.gradbox, self.upbox)
        return [tensor for box in boxes for packet in box.values() for tensor in packet.tensors]

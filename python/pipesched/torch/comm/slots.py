"""Receives into buffers that stay where they are: a slot for each place of the pools that
`Schedule.receive_slots` counts, allocated once and used again in every step.

A step that is captured, as a CUDA graph, reads and writes the addresses that it has seen. So what
comes in a message lies in the same slot in each step. What a stage gives on of it without a change
is copied (`Slots.apart`), since that may live longer than the slot; and a slot that anything still
refers to when the next message comes is an error, not another value of that reference.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pipesched import Cell, Instruction, ReceivePool

from ..core.errors import PipelineError
from ..core.values import HOST, local
from ..partition.placement import Placement

PATIENCE_SECONDS = 0.5
"""How long a thread that has waited for a message may take to forget it."""


def _count(tensor: Tensor) -> int:
    """Returns how many tensors and other objects refer to the storage of a tensor."""
    untyped: Any = torch._C
    return int(untyped._storage_Use_Count(tensor.untyped_storage()._cdata))


class _Slot:
    """A buffer."""

    def __init__(self) -> None:
        self.bytes: Tensor | None = None
        self.alone = 0
        """How many refer to the storage when no message lies in it."""

    def make(self, nbytes: int, device: torch.device) -> None:
        self.bytes = torch.empty(nbytes, dtype=torch.uint8, device=device)
        self.alone = _count(self.bytes)


class Slots:
    """The slots of a rank; none if its messages have no fixed places."""

    def __init__(
        self,
        program: Sequence[Instruction] = (),
        pools: Sequence[ReceivePool] = (),
        device: torch.device = HOST,
    ) -> None:
        self.pools = tuple(pools)
        self._device = device
        self._of_pool = [[_Slot() for _ in pool.slots] for pool in pools]
        by_message = {
            message: slot
            for pool, slots in zip(pools, self._of_pool, strict=True)
            for messages, slot in zip(pool.slots, slots, strict=True)
            for message in messages
        }
        self._of = {i.index: by_message[i.message] for i in program if i.message in by_message}
        self._places: dict[int, int] = {}

    def buffer(self, instruction: Instruction, nbytes: int) -> Tensor:
        """Returns the place for a message. The slot becomes larger if a message is larger than any
        before it, as in the first step.
        """
        slot = self._of[instruction.index]
        if slot.bytes is not None and slot.bytes.numel() >= nbytes:
            self._check(slot, instruction)
        else:
            slot.make(nbytes, self._device)
            self._places = {
                slot.bytes.untyped_storage()._cdata: slot.bytes.numel()
                for slots in self._of_pool
                for slot in slots
                if slot.bytes is not None
            }
        assert slot.bytes is not None
        return slot.bytes.narrow(0, 0, nbytes)

    def _check(self, slot: _Slot, instruction: Instruction) -> None:
        assert slot.bytes is not None
        if _count(slot.bytes) <= slot.alone:
            return
        gc.collect()  # cycles of objects that are not used any more
        end = time.monotonic() + PATIENCE_SECONDS
        while _count(slot.bytes) > slot.alone:
            if time.monotonic() > end:
                raise PipelineError(
                    f"{instruction} would overwrite what came into its slot before, and something "
                    "still refers to that: a stage, its loss or a hook keeps an input or a "
                    "gradient beyond the backward of its microbatch; let it keep a clone, or leave "
                    "receive_slots out"
                )
            time.sleep(0.001)

    @property
    def places(self) -> dict[int, int]:
        """The storages with their bytes."""
        return self._places

    @property
    def addresses(self) -> list[list[int]]:
        """By pool: where each slot begins in memory; 0 before its first message."""
        return [
            [0 if slot.bytes is None else slot.bytes.data_ptr() for slot in slots]
            for slots in self._of_pool
        ]

    @property
    def nbytes(self) -> int:
        """What all slots take."""
        return sum(self._places.values())

    def has(self, tensor: Tensor) -> bool:
        """Returns whether a tensor lies in a slot."""
        if not self._places:
            return False
        if tensor.layout != torch.strided:
            return any(map(self.has, _parts(tensor)))
        return tensor.untyped_storage()._cdata in self._places

    def copy_out(self, tensor: Tensor) -> Tensor:
        """Returns the tensor, or a copy if it lies in a slot."""
        return tensor.clone() if self.has(tensor) else tensor

    def free_gradients(self, placement: Placement, cell: Cell) -> None:
        """Copies the gradients that a cell has left in a slot: autograd makes what arrives at a
        parameter its gradient, without a copy where it can.
        """
        if not self._places:
            return
        modules = [placement.modules[cell.path, cell.stage]]
        if placement.loss is not None and cell.stage == placement.last[cell.path]:
            modules.append(placement.loss)
        for parameter in (p for module in modules for p in module.parameters()):
            if parameter.grad is not None and self.has(local(parameter.grad)):
                parameter.grad = parameter.grad.clone()


def _parts(tensor: Tensor) -> list[Tensor]:
    """Returns the dense tensors of a sparse one."""
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return []

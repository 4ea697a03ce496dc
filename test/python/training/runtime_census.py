"""Counts the activations that are alive in a process only by the storages of PyTorch, without the
counts of the runtime.

Each forward of a `Marked` block makes one tensor of a unique size, and autograd keeps it for the
backward. `Census` sees every tensor that is made, also by a reload, and when its storage dies.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from pipesched.torch import Event
from runtime_models import WIDTH, Plain
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MARK = 1237
"""Numbers of a mark."""
MARK_BYTES = 8 * MARK


class Marking(torch.autograd.Function):
    """x * w, which keeps a mark for its backward, and looks whether it is still as it was."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        mark = x.new_full((MARK,), float(x.sum()))
        ctx.save_for_backward(x, w, mark)
        return x * w

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        x, w, mark = ctx.saved_tensors
        assert bool((mark == float(x.sum())).all())
        return gradient * w, (gradient * x).sum(0)


class Marked(Plain):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.scale = torch.nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        apply: Any = Marking.apply
        result: Tensor = super().forward(apply(x, self.scale))
        return result


_Mode: Any = TorchDispatchMode  # Its methods have no types.


class Storages(_Mode):  # type: ignore[misc]
    """The bytes of all storages that operations make, while they are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        """The weight of each storage, by its number."""
        self.peak = 0
        self.counts: list[int] = []
        """The weight that is held after each instruction."""
        self._number = 0
        self._on_host: set[int] = set()
        self._new: list[int] = []
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def weight(self, storage: Any) -> int:
        nbytes: int = storage.nbytes()
        return nbytes

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        result = function(*arguments, **(options or {}))
        given = {t.untyped_storage() for t in _plain_of([arguments, options])}
        for each in _plain_of(result):
            if each.untyped_storage() not in given:
                self.note(each.untyped_storage())
        self.peak = max(self.peak, self.held)
        return result

    def note(self, storage: Any) -> None:
        if storage in self._seen or not (weight := self.weight(storage)):
            return
        self._number += 1
        number = self._seen[storage] = self._number
        self.alive[number] = weight
        self._new.append(number)
        weakref.finalize(storage, self.alive.pop, number, None)

    def look(self, event: Event) -> None:
        """Stores the number on the device after an instruction: copies of D are in host memory."""
        if event.instruction.kind == "offload":
            self._on_host.update(self._new)
        self._new = []
        self.counts.append(self.held)

    @property
    def held(self) -> int:
        alive = self.alive.copy()  # Storages may die in another thread.
        return sum(weight for n, weight in alive.items() if n not in self._on_host)


class Census(Storages):
    """The marks that are alive on the device; its peak is that after an instruction."""

    def weight(self, storage: Any) -> int:
        return int(storage.nbytes() == MARK_BYTES)

    def look(self, event: Event) -> None:
        super().look(event)
        self.peak = max(self.counts)

    @property
    def left(self) -> int:
        return len(self.alive)


def _plain_of(values: Any) -> list[Tensor]:
    """Returns the tensors that have memory; of a DTensor its local part."""
    leaves = [each for each in tree_leaves(values) if isinstance(each, Tensor)]
    parts = [each._local_tensor if isinstance(each, DTensor) else each for each in leaves]
    return [each for each in parts if each.layout == torch.strided]

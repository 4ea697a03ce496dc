"""Stages that change their input in place, and are recomputed: R needs the input as it was.

Which stages do that shows in the first step, in which each F that R will repeat gets a copy. From
then on the stages that have changed theirs get one, in F and in R.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch import Tensor

from pipesched import Cell

from ._activation import Activation
from ._placement import StageKey
from ._values import mapped

NOTHING = nullcontext()


class ChangedInputs:
    """Which stages of a rank change their input."""

    def __init__(self) -> None:
        self._found: set[StageKey] = set()
        self._is_first = True

    def settle(self) -> None:
        """Ends a training step."""
        self._is_first = False

    def spared(
        self, cell: Cell, activation: Activation, is_again: bool
    ) -> AbstractContextManager[None]:
        """Runs a forward on a copy of the input, where that may be needed: if the cell is
        recomputed, or recomputes (`is_again`).
        """
        if not is_again:
            return NOTHING
        key = cell.path, cell.stage
        is_unknown = self._is_first and cell.phase == "F"
        if not (is_unknown or key in self._found):
            return NOTHING
        return self._on_copies(key, activation)

    @contextmanager
    def _on_copies(self, key: StageKey, activation: Activation) -> Iterator[None]:
        kept, copies = activation.value, list[Tensor]()

        def copy(tensor: Tensor) -> Tensor:
            copies.append(tensor.clone())
            return copies[-1]

        activation.value = mapped(kept, copy)
        before = [tensor._version for tensor in copies]
        yield
        activation.value = kept
        changed = [i for i, tensor in enumerate(copies) if tensor._version != before[i]]
        activation.inputs.check_apart(changed)
        if changed:
            self._found.add(key)

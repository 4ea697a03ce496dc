"""The memory budget of a worker, checked while its program runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from pipesched import Cell

from ._activation import Activation
from ._errors import MemoryBudgetError, PipelineError

UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}


class Budget:
    """A limit on the number of activations, or on their bytes."""

    def __init__(self, given: int | str | None) -> None:
        self.counts_bytes = isinstance(given, str)
        self._given = given
        self._limit: int | None = None
        if isinstance(given, str):
            found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\w+)", given)
            if found is None or found[2] not in UNITS:
                raise PipelineError(
                    f"memory_budget is {given!r}; wanted a number of activations, or bytes with a "
                    f"unit ({', '.join(UNITS)})"
                )
            self._limit = int(float(found[1]) * UNITS[found[2]])
        elif given is not None:
            self._limit = int(given)

    def check(self, cell: Cell, held: Collection[Activation]) -> None:
        """Raises if these activations exceed a budget of activations."""
        if self._limit is not None and not self.counts_bytes:
            self._check(cell, sum(activation.counts for activation in held), "activations")

    def check_bytes(self, cell: Cell, found: int) -> None:
        """Raises if so many bytes exceed a budget of bytes."""
        if self.counts_bytes:
            self._check(cell, found, "bytes of activations")

    def _check(self, cell: Cell, found: int, unit: str) -> None:
        if self._limit is not None and found > self._limit:
            raise MemoryBudgetError(
                f"{cell} makes this rank hold {found} {unit}; the budget is {self._given}"
            )

    def growing(self, cell: Cell, places: dict[int, int], kept: int) -> Callable[[int, int], None]:
        """A function that checks the bytes when one more storage is kept, beside those of places
        and `kept`.
        """
        total = sum(places.values()) + kept

        def grow(place: int, nbytes: int) -> None:
            nonlocal total
            total += 0 if place in places else nbytes
            self.check_bytes(cell, total)

        return grow

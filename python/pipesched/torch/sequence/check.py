"""Checks whether stages give the same results for slices as for whole microbatches: a stage whose
attention does not call `with_earlier` silently trains another model. So the first step also runs
the first microbatch of each stage whole and compares, once more without random numbers if these
differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pipesched import Cell

from ..core.batch import TOKENS, has_tokens, join_values
from ..core.errors import PipelineError
from ..core.random import RandomState, calm
from ..core.values import arguments_of, flatten, map_tensors
from .kv_cache import Earlier

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""How far outputs may differ, relative to the largest of them; a stage that does not see earlier
tokens is off by about one."""
OF_OTHERS = 0.1


@dataclass
class _Seen:
    """Inputs and outputs of a stage for the slices of its first microbatch so far."""

    cells: list[Cell] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)


class Compared:
    """The comparison of the stages of a rank."""

    def __init__(self, earlier: Earlier) -> None:
        self._earlier = earlier
        self._seen: dict[tuple[int, int], _Seen] = {}
        self._done: set[tuple[int, int]] = set()

    def note(self, cell: Cell, module: nn.Module, value: Any, output: Any) -> None:
        """Notes a forward of the first step; the last slice of a microbatch compares."""
        microbatch, number = divmod(cell.microbatch, self._earlier.count)
        key = cell.path, cell.stage
        if key in self._done:
            return
        seen = self._seen.setdefault(key, _Seen())
        if seen.cells and seen.cells[0].microbatch // self._earlier.count != microbatch:
            return
        seen.cells.append(cell)
        seen.values.append(map_tensors(value, Tensor.detach))
        seen.outputs.append(map_tensors(output, Tensor.detach))
        if number + 1 == self._earlier.count:
            self._compare(cell, module, self._seen.pop(key))
            self._done.add(key)

    def _compare(self, cell: Cell, module: nn.Module, seen: _Seen) -> None:
        """Refuses a stage that does not see earlier tokens; random states and buffers stay."""
        device = next((t.device for t in flatten(seen.values)[0]), torch.device("cpu"))
        random = RandomState(device)
        try:
            with self._earlier.whole():
                found = self._run(module, [join_values(seen.values)])
            problem = self._difference(seen, found[0], seen.outputs)
            if problem and (calmed := self._calmly(cell, module, seen, random)) is not None:
                problem = calmed
        finally:
            random.restore()
        if problem:
            raise PipelineError(
                f"{self._earlier.place(cell)}: {problem}; what looks at earlier tokens takes them "
                "from `pipesched.torch.slices.with_earlier`, and what counts tokens begins at "
                "`first_token()`; check_slices=False leaves this comparison out"
            )

    def _calmly(
        self, cell: Cell, module: nn.Module, seen: _Seen, random: RandomState
    ) -> str | None:
        """Repeats the comparison with PyTorch's random numbers replaced, and returns its result;
        None if the stage draws none.
        """
        is_random = not random.is_now()
        slices = Earlier(self._earlier.count)
        slices.clear(set())
        each = zip(seen.cells, seen.values, strict=True)
        runs = [partial(slices.forward, *given) for given in each]
        problem = ""
        with calm() as mode:
            try:
                with self._earlier.whole():
                    whole = self._run(module, [join_values(seen.values)], random=random)[0]
                outputs = self._run(module, seen.values, runs, random)
                problem = self._difference(seen, whole, outputs)
            except Exception as error:  # PyTorch cannot make some subclasses of tensors here
                problem = mode.left = f"{type(error).__name__}: {error}"
        if not (is_random or mode.replaced or mode.left):
            return None
        if problem and mode.left:
            warnings.warn(
                f"path {cell.path}, stage {cell.stage} draws random numbers, and its slices cannot "
                f"be compared with a whole microbatch without them ({mode.left}): look yourself "
                "whether it sees earlier tokens",
                stacklevel=2,
            )
            return ""
        return problem and f"{problem}, without its random numbers"

    def _run(
        self,
        module: nn.Module,
        values: Sequence[Any],
        runs: Sequence[Callable[[], AbstractContextManager[None]]] = (nullcontext,),
        random: RandomState | None = None,
    ) -> list[Any]:
        """Returns the outputs of some inputs, one after the other, each in its context."""
        buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        found = []
        for value, run in zip(values, runs, strict=True):
            if random is not None:
                random.restore()
            args, kwargs = arguments_of(module, map_tensors(value, Tensor.clone))
            with torch.no_grad(), run():
                found.append(functional_call(module, buffers, args, kwargs))
        return found

    def _difference(self, seen: _Seen, whole: Any, outputs: Sequence[Any]) -> str:
        """Returns the difference between outputs of slices and of the whole, or ""."""
        tokens = sum(_tokens(value) for value in seen.values)
        by_slices = flatten(join_values(list(outputs)))[0]
        for i, (one, other) in enumerate(zip(flatten(whole)[0], by_slices, strict=True)):
            if not has_tokens(one) or one.shape[TOKENS] != tokens or one.shape != other.shape:
                continue
            if not one.is_floating_point():
                continue
            limit = TOLERANCE.get(one.dtype, OF_OTHERS) * float(one.abs().max())
            off = (one - other).abs().reshape(*one.shape[: TOKENS + 1], -1).amax(-1)
            if float(off.max()) > limit:
                return (
                    f"output {i} of the stage is not what it is of the whole microbatch: from "
                    f"token {int((off > limit).any(0).nonzero()[0])} on they differ, by up to "
                    f"{float(off.max()):.3g}"
                )
        return ""


def _tokens(value: Any) -> int:
    return next((t.shape[TOKENS] for t in flatten(value)[0] if has_tokens(t)), 0)

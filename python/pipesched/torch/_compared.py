"""Whether stages give of slices what they give of whole microbatches.

A stage whose attention does not call `with_earlier` trains another model without a word. So the
first step also runs the first microbatch of each stage as a whole, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pipesched import Cell

from ._activation import RandomState
from ._call import arguments_of
from ._earlier import Earlier
from ._errors import PipelineError
from ._units import TOKENS, has_tokens, joined
from ._values import flatten, mapped

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""How far outputs may differ, relative to the largest of them; a stage that does not see earlier
tokens is off by about one."""
OF_OTHERS = 0.1
"""That of types with fewer digits."""


@dataclass
class _Seen:
    """What a stage has got and given for the slices of its first microbatch so far."""

    microbatch: int
    values: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)


class Compared:
    """The comparison of the stages of a rank."""

    def __init__(self, earlier: Earlier, is_on: bool) -> None:
        self._earlier = earlier
        self._is_on = is_on and earlier.count > 1
        self._seen: dict[tuple[int, int], _Seen] = {}
        self._done: set[tuple[int, int]] = set()

    def note(self, cell: Cell, module: nn.Module, value: Any, output: Any) -> None:
        """Notes a forward of the first step; the last slice of a microbatch compares."""
        microbatch, number = divmod(cell.microbatch, self._earlier.count)
        key = cell.path, cell.stage
        if not self._is_on or key in self._done:
            return
        seen = self._seen.setdefault(key, _Seen(microbatch))
        if seen.microbatch != microbatch:
            return
        seen.values.append(mapped(value, Tensor.detach))
        seen.outputs.append(mapped(output, Tensor.detach))
        if number + 1 == self._earlier.count:
            self._compare(cell, module, self._seen.pop(key))
            self._done.add(key)

    def _compare(self, cell: Cell, module: nn.Module, seen: _Seen) -> None:
        tokens = sum(_tokens(value) for value in seen.values)
        whole = self._run(module, joined(seen.values))
        if whole is None:
            return
        by_slices = flatten(joined(seen.outputs))[0]
        for i, (one, other) in enumerate(zip(flatten(whole)[0], by_slices, strict=True)):
            if not has_tokens(one) or one.shape[TOKENS] != tokens or one.shape != other.shape:
                continue
            if not one.is_floating_point():
                continue
            limit = TOLERANCE.get(one.dtype, OF_OTHERS) * float(one.abs().max())
            off = (one - other).abs().reshape(*one.shape[: TOKENS + 1], -1).amax(-1)
            if float(off.max()) > limit:
                raise PipelineError(
                    f"{self._earlier.place(cell)}: output {i} of the stage is not what it is of "
                    f"the whole microbatch: from token {int((off > limit).any(0).nonzero()[0])} on "
                    f"they differ, by up to {float(off.max()):.3g}; what looks at earlier tokens "
                    "takes them from `pipesched.torch.slices.with_earlier`, and what counts tokens "
                    "begins at `first_token()`; check_slices=False leaves this comparison out"
                )

    def _run(self, module: nn.Module, value: Any) -> Any:
        """The outputs of a whole microbatch; None if they are random. No buffer changes."""
        device = next((t.device for t in flatten(value)[0]), torch.device("cpu"))
        state = RandomState(device)
        buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        args, kwargs = arguments_of(module, value)
        with torch.no_grad(), self._earlier.whole():
            found = functional_call(module, buffers, args, kwargs)
        is_random = not state.is_now()
        state.restore()
        return None if is_random else found


def _tokens(value: Any) -> int:
    return next((t.shape[TOKENS] for t in flatten(value)[0] if has_tokens(t)), 0)

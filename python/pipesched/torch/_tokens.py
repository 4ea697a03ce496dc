"""How many tokens the loss of each microbatch is a mean of.

Microbatches weigh alike unless the caller counts their tokens: the mean of their means is not the
mean over all tokens if one has fewer that count, as by an `ignore_index`. Where no count is given,
the first steps look how much a token weighs in each loss, and warn if that differs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from ._errors import PipelineError
from ._values import tensors_in

Count = Callable[[Any], Any]
"""From the target of a microbatch to the number of its tokens, or of whatever its loss is a mean
of."""
LOOKS = 16
"""In how many steps weights are compared."""
NODES = 64
"""In how many nodes of the graph of a loss a cross-entropy is looked for."""
IGNORED = -100
"""The target that PyTorch ignores by default."""
NEAR = 1.01
"""By what factor weights may differ, of which some types have few digits."""
MEAN = 1
"""The code of `reduction="mean"` in PyTorch's graphs."""


def counts_of(count: Count, targets: Sequence[Any]) -> Tensor:
    """The counts of all microbatches."""
    found = []
    for number, target in enumerate(targets):
        given: Any = count(target)
        if isinstance(given, Tensor) and given.numel() == 1:
            given = given.detach().item()
        if not isinstance(given, (int, float)) or not 0 <= given < float("inf"):
            raise PipelineError(
                f"`count` gives {given!r} for microbatch {number}; wanted a number of tokens"
            )
        found.append(float(given))
    return torch.tensor(found, dtype=torch.float64)


def _weights_in(loss: Tensor, target: Any) -> list[Any]:
    """How much a token weighs in each cross-entropy of a loss, as its graph says; if it has none,
    in a mean over the target.
    """
    nodes = [] if loss.grad_fn is None else [loss.grad_fn]
    found: list[Any] = []
    for node in nodes:  # grows
        if type(node).__name__.startswith("NllLoss"):
            untyped: Any = node
            edge = GradientEdge(node, 0)
            (given,) = torch.autograd.grad(loss, edge, retain_graph=True)
            is_mean = untyped._saved_reduction == MEAN
            found.append(given / untyped._saved_total_weight if is_mean else given.abs().max())
        below = [each for each, _ in node.next_functions if each is not None and each not in nodes]
        nodes += below[: NODES - len(nodes)]
    return found or [
        1 / torch.tensor(each.numel() if _is_real(each) else int((each != IGNORED).sum()))
        for each in tensors_in(target)
    ]


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class Tokens:
    """Looks at the losses of the first steps."""

    def __init__(self) -> None:
        self._left = LOOKS
        self._seen: dict[int, list[Any]] = {}

    @property
    def is_on(self) -> bool:
        """Whether the next step is looked at. One that is captured asks its device nothing."""
        is_captured = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        return self._left > 0 and not is_captured

    def note(self, number: int, loss: Tensor, target: Any) -> None:
        """Notes the loss of a microbatch."""
        self._seen[number] = _weights_in(loss, target)

    def note_count(self, number: int, count: Tensor) -> None:
        """Notes how many tokens a microbatch has, if that is known."""
        self._seen[number] = [1 / count]

    def end(self) -> None:
        """Ends a step: warns if its microbatches differ."""
        self._left -= 1
        seen, self._seen = self._seen, {}
        weights = [[abs(float(each)) for each in weights] for weights in seen.values()]
        for each in zip(*weights, strict=False):
            known = [weight for weight in each if 0 < weight < math.inf]
            if known and max(known) > NEAR * min(known):
                self._left = 0
                warnings.warn(
                    f"a token of one microbatch weighs {max(known) / min(known):.3g} times that of "
                    "another one: their losses are means over different numbers of tokens, and "
                    "weigh alike. For the mean over all tokens of a step give `count`, as "
                    "count=lambda target: (target != -100).sum(); count=lambda target: 1 says that "
                    "microbatches weigh alike",
                    stacklevel=4,
                )
                return

"""The loss of a microbatch, as it is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor

from pipesched import Cell

from ._errors import PipelineError
from ._parts import Batch
from ._values import tensors_in


def lose(
    function: Callable[[Any, Any], Tensor] | None,
    batch: Batch,
    cell: Cell,
    output: Any,
    target: Any,
) -> list[Tensor]:
    """What to differentiate of the loss of a microbatch, whose value the batch gets. Without a
    function the output is the loss.
    """
    if batch.targets is None and function is not None:
        raise PipelineError("this rank has a last stage, and needs `targets`")
    loss = output if function is None else function(output, target)
    if isinstance(loss, DTensor):  # of a loss over the parts of a tensor
        loss = loss.full_tensor()
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else loss
        raise PipelineError(f"the loss of a microbatch is {found!r}; wanted a scalar tensor")
    number = cell.microbatch
    batch.losses[number] = loss.detach().clone()
    if batch.mode != "train":
        return []
    if batch.tokens is not None and not (cell.phase == "F" and cell.recomputed):
        batch.tokens.note(number, loss, target)  # R has a graph
    if batch.weights is not None and not batch.weights[number]:
        return _nothing_of(output)
    return [batch.scaled(loss, number)]


def _nothing_of(output: Any) -> list[Tensor]:
    """What to differentiate of a microbatch without tokens, whose loss may be 0 / 0."""
    sums = [each.sum() for each in tensors_in(output) if each.requires_grad]
    return [sum(sums[1:], sums[0]) * 0] if sums else []

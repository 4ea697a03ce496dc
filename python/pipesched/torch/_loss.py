"""The loss of a microbatch, as it is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor

from pipesched import Cell

from ._errors import PipelineError
from ._parts import Batch


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
    batch.losses[cell.microbatch] = loss.detach().clone()
    return [batch.scale(loss)] if batch.mode == "train" else []

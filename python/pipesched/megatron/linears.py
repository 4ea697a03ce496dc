"""Splits the backward of Megatron's linear layers: I queues the product of a weight gradient, and W
computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from megatron.core.tensor_parallel.layers import VocabParallelEmbedding
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
)
from torch import Tensor, nn

from ..errors import PipeSchedError

Queue = list[tuple[nn.Parameter, Tensor, Tensor]]
"""A weight, the input of its layer, and the gradient of the output."""


class _Product(torch.autograd.Function):
    """The product of an input and a weight, which comes in a tuple, so that autograd does not see
    it: the hook of Megatron's DDP runs even for a gradient that is None, and refuses it.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, hidden: tuple[nn.Parameter], queue: Queue) -> Tensor:
        ctx.save_for_backward(value)
        (ctx.weight,), ctx.queue = hidden, queue
        return torch.matmul(value, ctx.weight.detach().t())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (value,) = ctx.saved_tensors
        ctx.queue.append((ctx.weight, value, gradient))
        return gradient.matmul(ctx.weight.detach()), None, None


class WeightQueues:
    """The products that wait for W, by stage and microbatch, of the linear layers of some chunks.
    Outside of cells of split backwards the layers run as Megatron has them.
    """

    def __init__(self, chunks: Sequence[nn.Module]) -> None:
        self.waiting: dict[tuple[int, int], Queue] = {}
        self.current: Queue | None = None
        """The queue that the running cell fills; None if backwards are whole."""
        for chunk in chunks:
            for name, module in chunk.named_modules():
                if isinstance(module, (ColumnParallelLinear, RowParallelLinear)):
                    _check_linear(name, module)
                    vars(module)["_forward_impl"] = partial(self._product, module._forward_impl)
                elif not isinstance(module, (VocabParallelEmbedding, nn.Embedding)):
                    _check_other(name, module)

    def enter(self, stage: int, microbatch: int, is_split: bool) -> None:
        """Says which cell runs until the next call."""
        self.current = self.waiting.setdefault((stage, microbatch), []) if is_split else None

    def run(self, stage: int, microbatch: int) -> None:
        """Computes the queue of a stage and microbatch, as W."""
        with torch.no_grad():
            for weight, value, gradient in self.waiting.pop((stage, microbatch)):
                found = gradient.flatten(0, -2).t().matmul(value.flatten(0, -2))
                if hasattr(weight, "main_grad"):
                    weight.main_grad.add_(found)  # DDP reads only this one; its hook does not run.
                elif weight.grad is None:
                    weight.grad = found
                else:
                    weight.grad.add_(found)

    def _product(
        self, usual: Any, input: Tensor, weight: nn.Parameter, bias: Tensor | None, **options: Any
    ) -> Any:
        if self.current is None or not (weight.requires_grad and input.requires_grad):
            return usual(input=input, weight=weight, bias=bias, **options)
        if options["sequence_parallel"]:
            input = gather_from_sequence_parallel_region(
                input, tensor_parallel_output_grad=True, group=options["tp_group"]
            )
        elif options["allreduce_dgrad"]:
            input = copy_to_tensor_model_parallel_region(input, group=options["tp_group"])
        found = _Product.apply(input, (weight,), self.current)  # type: ignore[no-untyped-call]
        return found if bias is None else found + bias


def _check_linear(name: str, module: Any) -> None:
    if module.gradient_accumulation_fusion:
        raise PipeSchedError(
            f"{name} fuses the accumulation of gradients (gradient_accumulation_fusion), which "
            "computes weight gradients in I; set it to False for a table with I and W"
        )


def _check_other(name: str, module: nn.Module) -> None:
    for own, parameter in module.named_parameters(recurse=False):
        if parameter.dim() > 1 and parameter.requires_grad:
            kind = type(module)
            is_engine = "transformer_engine" in kind.__module__
            reason = (
                "Transformer Engine before 2.3 cannot delay weight gradients, and from 2.3 on its "
                "delay_wgrad_compute is not supported here"
                if is_engine
                else "the weight product of this layer cannot be queued"
            )
            raise PipeSchedError(
                f"{name}.{own} is a weight of {kind.__name__}: {reason}; take Column- and "
                "RowParallelLinear (the local layer spec), or a table with whole backwards B"
            )

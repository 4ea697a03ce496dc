"""How long the children of an `nn.Sequential` take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..core.errors import PipelineError
from ..core.groups import from_first
from ..core.random import RandomState
from ..core.values import flatten, unflatten


def measure_children(
    module: nn.Sequential, example: Any, *, repeats: int = 5, group: dist.ProcessGroup | None = None
) -> list[float]:
    """Returns the seconds that each child takes for a forward and a backward, for
    `split_sequential`.

    example: a microbatch, as the first child takes it. Each child runs on what the one before it
    returns, with gradients of ones.
    repeats: how often the whole module runs, after a warm-up; the result is the median of each
    child.
    group: its first rank measures, and all get its times, so that they divide the module alike.

    Gradients, buffers and random states of the module stay as they were.
    """
    if repeats < 1:
        raise PipelineError(f"`repeats` is {repeats}; wanted at least 1")
    if group is None:
        return _measure(module, example, repeats)
    times: list[float] = from_first(lambda: _measure(module, example, repeats), group)
    return times


def _measure(module: nn.Sequential, example: Any, repeats: int) -> list[float]:
    tensors, _ = flatten(example)
    device = tensors[0].device if tensors else torch.device("cpu")
    passes = []
    with _keep_state(module, device), torch.enable_grad():
        for _ in range(repeats + 1):
            value, times = example, []
            for child in module:
                seconds, value = _run(child, value, device)
                times.append(seconds)
            passes.append(times)
    return [statistics.median(runs) for runs in zip(*passes[1:], strict=True)]


@contextmanager
def _keep_state(module: nn.Module, device: torch.device) -> Iterator[None]:
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    random = RandomState(device)
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for buffer, old in buffers:
            buffer.data.copy_(old)
        random.restore()


def _run(child: nn.Module, value: Any, device: torch.device) -> tuple[float, Any]:
    """Returns the seconds of a forward and a backward, and the output."""
    tensors, structure = flatten(value)
    leaves = [t.detach().requires_grad_(t.is_floating_point() or t.is_complex()) for t in tensors]
    _settle(device)
    begin = time.perf_counter()
    outputs, made = flatten(child(unflatten(leaves, structure)))
    roots = [output for output in outputs if output.requires_grad]
    ones: Sequence[Tensor] = [torch.ones_like(root) for root in roots]
    if roots:
        torch.autograd.backward(roots, ones)
    _settle(device)
    seconds = time.perf_counter() - begin
    return seconds, unflatten([output.detach() for output in outputs], made)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

"""What a stage repeats in I and W, in one process: nothing where it need not, and otherwise the
runtime says so.
"""

from __future__ import annotations

import re
import time
import warnings
from typing import Any

import pytest
from pipesched import PipeSchedWarning

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
from runtime_models import WIDTH, Plain, loss_of
from test_torch_parts import COUNT, batch, local, runtime_of
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("one_rank")


def work() -> None:
    """Computes for 4 ms, however loaded the machine is."""
    end = time.thread_time() + 0.004
    while time.thread_time() < end:
        pass


class Slow(torch.autograd.Function):
    """x * w, whose backward takes a while and computes both gradients."""

    runs = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        Slow.runs += 1
        x, w = ctx.saved_tensors
        work()
        return gradients[0] * w, (gradients[0] * x).sum(0)


class SlowLayer(Plain):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.scale = nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        apply: Any = Slow.apply
        result: Tensor = super().forward(apply(x, self.scale))
        return result


class SlowCheckpoint(SlowLayer):
    """Computes its forward again in each backward, which takes a while."""

    def inside(self, x: Tensor) -> Tensor:
        work()
        return Plain.forward(self, x * self.scale)

    def forward(self, x: Tensor) -> Tensor:
        function: Any = checkpoint
        result: Tensor = function(self.inside, x, use_reentrant=False)
        return result


def test_a_node_that_gives_all_gradients_runs_once() -> None:
    """And what W goes on from is right."""
    blocks = [SlowLayer(number) for number in range(3)]
    runtime = runtime_of(local(), *blocks)
    Slow.runs = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            runtime.zero_grad()
            runtime.step(*batch())
    assert Slow.runs == 4 * 3 * COUNT
    found = [p.grad for block in blocks for p in block.parameters()]
    runtime.zero_grad()
    inputs, targets = batch()
    for x, y in zip(inputs.chunk(COUNT), targets.chunk(COUNT), strict=True):
        torch.autograd.backward(loss_of(nn.Sequential(*blocks)(x), y) / COUNT)
    for one, parameter in zip(found, [p for b in blocks for p in b.parameters()], strict=True):
        assert one is not None and parameter.grad is not None
        assert torch.allclose(one, parameter.grad, rtol=1e-12, atol=1e-15)


def test_repeated_work_is_a_warning() -> None:
    runtime = runtime_of(local(), Plain(0), SlowCheckpoint(1), Plain(2))
    found = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(4):
            runtime.zero_grad()
            runtime.step(*batch())
            found.append([p.grad for p in runtime.parameters()])
    texts = [str(each.message) for each in said if each.category is PipeSchedWarning]
    (text,) = texts
    ratio = re.match(r"path 0, stage 1: I and W take (\d\.\d\d) times as long as a whole", text)
    assert ratio is not None and 1.5 < float(ratio[1]) < 6
    for later in found[1:]:  # Also in the steps that measure.
        for one, two in zip(found[0], later, strict=True):
            assert one is not None and two is not None and torch.equal(one, two)

"""Modules that are cut at names, in one process; module_cases.py trains with them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pipesched import generate

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
from pipesched.torch import PipelineError, measure_parts, split_model
from torch import Tensor, nn
from torch.distributed.pipelining import SplitPoint

TWO = generate("1f1b", workers=2, microbatches=2)
THREE = generate("1f1b", workers=3, microbatches=3)


class Model(nn.Module):
    """Layers of the model and of a submodule, and code between them."""

    def __init__(self, between: Any = lambda model, x: x) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.inner = nn.ModuleDict({"second": nn.Linear(4, 4), "third": nn.Linear(4, 4)})
        self.between = between
        self.count = 0

    def forward(self, x: Tensor, scale: float = 2.0, *, mask: Tensor | None = None) -> Tensor:
        hidden = self.between(self, self.first(x)) * scale
        if mask is not None:
            hidden = hidden * mask
        result: Tensor = self.inner["third"](self.inner["second"](hidden) + hidden)
        return result


def run(stages: Any, count: int, value: Any) -> Any:
    for number in range(count):
        value = stages(0, number)(value)
    return value


def test_parts_are_the_model() -> None:
    model, x = Model(), torch.rand(3, 4)
    ways: list[Any] = [
        ["inner.second", "inner.third"],
        {"first": SplitPoint.END, "inner.third": SplitPoint.BEGINNING},
    ]
    for at in ways:
        stages = split_model(model, THREE, at=at)
        assert torch.equal(run(stages, 3, x), model(x))
        names = [stages(0, i).whole_name(n) for i in range(3) for n in stages(0, i).state_dict()]
        assert names == list(model.state_dict())
    masked = split_model(model, TWO, at=["inner.second"], inputs=["mask"])
    mask = torch.rand(4)
    assert torch.equal(run(masked, 2, (x, mask)), model(x, mask=mask))


def test_cuts_are_chosen_among_names() -> None:
    model, x = Model(), torch.rand(3, 4)
    at = ["inner.third", "inner.second"]  # The forward comes to them in another order.
    for chosen, wanted in (
        ({"sizes": [2, 1]}, ["inner.third"]),
        ({"sizes": [1, 2]}, ["inner.second"]),
        ({"times": [1.0, 1.0, 5.0]}, ["inner.third"]),
        ({"times": [5.0, 1.0, 1.0]}, ["inner.second"]),
    ):
        options: Any = chosen
        stages = split_model(model, TWO, at=at, **options)
        simple = split_model(model, TWO, at=wanted)
        assert list(stages(0, 1).state_dict()) == list(simple(0, 1).state_dict())
        assert torch.equal(run(stages, 2, x), model(x))
    for options, text in (
        ({"sizes": [3, 0]}, "a block of a cut module is not empty"),
        ({"sizes": [1, 1]}, "divide 2 parts among 2 blocks; the module has 3 parts, and the plac"),
        ({"times": [1.0]}, "`times` has 1 entries; wanted 3, one per part of the module"),
        ({"times": [1.0], "sizes": [3]}, "both `sizes` and `times` are given"),
    ):
        with pytest.raises(PipelineError, match=text):
            split_model(model, TWO, at=at, **options)


def test_parts_are_measured() -> None:
    model = Model(lambda _, x: x.sin().cos())
    model.inner["third"].register_forward_hook(lambda *_: time.sleep(0.02))
    state = {name: each.clone() for name, each in model.state_dict().items()}
    at, batch = ["inner.third", "inner.second"], (torch.rand(3, 4), torch.rand(4))
    times = measure_parts(model, batch, at=at, inputs=["mask"])
    assert len(times) == 3 and times[2] >= 0.02 and min(times) > 0
    assert all(torch.equal(state[name], each) for name, each in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def counts(model: Any, x: Tensor) -> Tensor:
    model.count += 1
    return x


@pytest.mark.parametrize(
    ("between", "text"),
    [
        (lambda model, x: x * 2 if model.training else x, "something else in training than in eva"),
        (lambda model, x: x if x.sum() > 0 else -x, "cannot be traced: TraceError: symbolically"),
        (lambda model, x: x + torch.rand(4), "makes a tensor '_tensor_constant0', which would hap"),
        (counts, "sets 'count', which would happen once, when it is traced"),
    ],
)
def test_code_that_would_do_something_else_is_refused(between: Any, text: str) -> None:
    model = Model(between)
    with pytest.raises(PipelineError, match=text):
        split_model(model, TWO, at=["inner.second"])
    assert model.training and model.count == 0 and not hasattr(model, "_tensor_constant0")


def test_cuts_that_do_not_fit() -> None:
    model = Model()
    for at, text in (
        (["inner.second", "first"], "has 2 names, which make 3 blocks; the placement has 2"),
        (["other"], "names 'other', which is no module of the model"),
        (["inner"], "the forward does not call 'inner' by itself"),
    ):
        with pytest.raises(PipelineError, match=text):
            split_model(model, TWO, at=at)
    with pytest.raises(PipelineError, match="`inputs` names 'masks'; the forward has x, scale, ma"):
        split_model(model, TWO, at=["inner.second"], inputs=["masks"])
    behind, x = split_model(model, TWO, at={"inner.third": SplitPoint.END}), torch.rand(2, 4)
    assert torch.equal(run(behind, 2, x), model(x))  # Only the loss runs there.
    model.register_forward_hook(lambda *_: None)
    with pytest.raises(PipelineError, match="the model has hooks and is cut at 'inner.second'"):
        split_model(model, TWO, at=["inner.second"])


class Turning(nn.Module):
    """Cuts a buffer to the length of its input, between its modules."""

    turn: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.register_buffer("turn", torch.randn(9, 4))

    def forward(self, x: Tensor) -> Tensor:
        turn = self.turn[: x.shape[1]]
        for layer in self.layers:
            x = layer(x) * turn
        return x


def test_buffers_are_cut_to_the_length_of_inputs() -> None:
    model, x = Turning(), torch.randn(2, 3, 4)
    stages = split_model(model, TWO, at=["layers.1"])
    assert torch.equal(stages(0, 1)(stages(0, 0)(x)), model(x))

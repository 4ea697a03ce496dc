"""Models divided by times, their measurement, and names of the whole model, in one process."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipesched import Path, Schedule, generate

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
from pipesched.torch import PipelineError, PipelineRuntime, measure_children, split_sequential
from runtime_models import WIDTH, Counted, Dropped, Plain, loss_of
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("one_rank")


# Times


def sums_of(times: list[int], cuts: tuple[int, ...]) -> list[int]:
    ends = [0, *cuts, len(times)]
    return [sum(times[a:b]) for a, b in itertools.pairwise(ends)]


def worth(sums: list[int]) -> tuple[int, int]:
    return max(sums), sum(each * each for each in sums)


@given(st.data(), st.lists(st.integers(0, 20), min_size=2, max_size=9))
def test_the_slowest_block_is_as_fast_as_can_be(data: st.DataObject, times: list[int]) -> None:
    """Against all divisions."""
    count = data.draw(st.integers(2, len(times)))
    schedule = generate("1f1b", workers=count, microbatches=count)
    model = nn.Sequential(*(nn.Identity() for _ in times))
    sizes = split_sequential(model, schedule, times=times).sizes
    assert min(sizes) >= 1 and sum(sizes) == len(times) and len(sizes) == count
    found = sums_of(times, tuple(itertools.accumulate(sizes))[:-1])
    every = itertools.combinations(range(1, len(times)), count - 1)
    assert worth(found) == min(worth(sums_of(times, cuts)) for cuts in every)


def test_division_by_times() -> None:
    model = nn.Sequential(*(Plain(i) for i in range(5)))
    schedule = generate("interleaved-1f1b", workers=2, microbatches=2)
    stages = split_sequential(model, schedule, times=[4, 1, 1, 1, 3.5])
    assert stages.sizes == (1, 2, 1, 1)
    assert list(stages(0, 1).get_submodule("1").children()) == [model[1], model[2]]
    even = split_sequential(model, schedule, times=[1] * 5)
    assert even.sizes == split_sequential(model, schedule).sizes == (2, 1, 1, 1)


def test_children_that_stand_there_several_times() -> None:
    once = nn.Tanh()
    model = nn.Sequential(Plain(0), once, Plain(1), once, Plain(2), once)
    stages = split_sequential(model, generate("1f1b", workers=3, microbatches=3), times=[1] * 6)
    assert stages.sizes == (2, 2, 2)
    for number in range(3):
        block: Any = stages(0, number)[0]
        assert list(block) == [model[2 * number], once]
    assert len(measure_children(model, torch.zeros(2, WIDTH, dtype=torch.float64), repeats=1)) == 6


class Doubled(nn.Sequential):
    def forward(self, x: Tensor) -> Any:
        result: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return 2 * result


def test_modules_that_are_more_than_their_children_are_refused() -> None:
    schedule = generate("1f1b", workers=2, microbatches=2)
    layers = [Plain(0), Plain(1)]
    own, counted, hooked, patched = (nn.Sequential(*layers) for _ in range(4))
    own.register_parameter("scale", nn.Parameter(torch.ones(1)))
    counted.register_buffer("count", torch.zeros(1))
    hooked.register_forward_hook(lambda *_: None)
    patched.forward = lambda x: x  # type: ignore[method-assign]
    for model, text in (
        (Doubled(*layers), "the module is a Doubled with a method 'forward' of its own, which its"),
        (own, "is a Sequential with a parameter 'scale' of its own"),
        (counted, "is a Sequential with a buffer 'count' of its own"),
        (hooked, "is a Sequential with hooks in '_forward_hooks'"),
        (patched, "is a Sequential with a method 'forward' of its own"),
    ):
        with pytest.raises(PipelineError, match=text):
            split_sequential(model, schedule)
    wrong: Any = Plain(0)
    with pytest.raises(PipelineError, match="the module is a Plain; wanted an nn.Sequential"):
        split_sequential(wrong, schedule)
    split_sequential(nn.Sequential(Doubled(Plain(0)), hooked), schedule)


def test_times_that_do_not_fit() -> None:
    model = nn.Sequential(Plain(0), Plain(1))
    schedule = generate("1f1b", workers=2, microbatches=2)
    with pytest.raises(PipelineError, match="`times` has 3 entries; wanted 2, one per child"):
        split_sequential(model, schedule, times=[1, 2, 3])
    with pytest.raises(PipelineError, match="both `sizes` and `times` are given"):
        split_sequential(model, schedule, times=[1, 2], sizes=[1, 1])
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(PipelineError, match="for child 1; wanted a time >= 0"):
            split_sequential(model, schedule, times=[1, wrong])


class Sleeping(torch.autograd.Function):
    """Takes 10 ms forward and 20 ms backward."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        time.sleep(0.01)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        Sleeping.calls += 1
        time.sleep(0.02)
        return gradients[0]


class Slow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        apply: Any = Sleeping.apply
        result: Tensor = apply(x)
        return result


def test_measured_times() -> None:
    model = nn.Sequential(Plain(0), Slow(), Plain(1))
    x = torch.rand(2, WIDTH, dtype=torch.float64)
    times = measure_children(model, x, repeats=3)
    assert len(times) == 3 and min(times) > 0
    assert times[1] >= 0.03 and Sleeping.calls == 4
    with pytest.raises(PipelineError, match="`repeats` is 0; wanted at least 1"):
        measure_children(model, x, repeats=0)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, WIDTH, dtype=torch.float64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.table(x), x


class Joined(Plain):
    def forward(self, given: Any) -> Tensor:
        return super().forward(given[0])


def test_measuring_changes_nothing() -> None:
    model = nn.Sequential(Tokens(), Joined(0), Dropped(1), Counted(2))
    weight = model[1].get_parameter("inner.weight")
    weight.grad = torch.ones_like(weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    times = measure_children(model, torch.arange(8), repeats=2)
    assert len(times) == 4 and min(times) > 0
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(weight.grad, torch.ones_like(weight))
    others = [p.grad for p in model.parameters() if p is not weight]
    assert others == [None] * len(others)


# Names


def local(transform: str = "pipe-add-optimizer", stages: int = 2) -> Schedule:
    schedule = generate("greedy", workers=1, microbatches=2, paths=[[0] * stages])
    return schedule.transform(transform) if transform else schedule


def own_stages() -> dict[tuple[int, int], nn.Module]:
    return {(0, stage): Plain(stage) for stage in range(2)}


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def test_names_of_own_stages() -> None:
    schedule = local()
    wanted = [f"layers.{i}.{name}" for i in range(2) for name in Plain(0).state_dict()]
    for names in (
        {(0, 0): "layers.0", (0, 1): "layers.1."},
        lambda path, stage, name: f"layers.{stage}.{name}",
    ):
        runtime = PipelineRuntime(schedule, own_stages(), loss_of, names=names)
        assert list(runtime.state_dict()) == wanted
        assert len(runtime.parameters()) == len(wanted)
    runtime = PipelineRuntime(schedule, own_stages(), loss_of)
    with pytest.raises(PipelineError, match="what path 0, stage 0 is called in the whole model"):
        runtime.state_dict()
    runtime = PipelineRuntime(schedule, own_stages(), loss_of, names={(0, 0): "a"})
    with pytest.raises(PipelineError, match="`names` has none for path 0, stage 1; it has"):
        runtime.state_dict()
    runtime = PipelineRuntime(schedule, own_stages(), loss_of, names={(0, 0): "", (0, 1): ""})
    with pytest.raises(PipelineError, match="are both 'inner.weight' in the whole model; `names`"):
        runtime.state_dict()


TWICE = [Path([0], takes=[range(1)]), Path([0], takes=[range(1, 2)])]


def test_a_block_of_two_paths_is_named_once() -> None:
    schedule = generate("greedy", workers=1, microbatches=2, paths=TWICE)
    stages = split_sequential(nn.Sequential(Plain(0)), schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of)
    assert list(runtime.state_dict()) == [f"0.{name}" for name in Plain(0).state_dict()]


def stepped(runtime: PipelineRuntime) -> PipelineRuntime:
    both = torch.rand((2, 4, WIDTH), dtype=torch.float64)
    runtime.step(both[0], both[1])
    return runtime


def made(optimizer: Any = sgd) -> PipelineRuntime:
    schedule = local()
    stages = split_sequential(nn.Sequential(Plain(0), Plain(1)), schedule)
    return PipelineRuntime(schedule, stages, loss_of, optimizer=optimizer)


def test_state_of_optimizers() -> None:
    first, second = stepped(made()), made(lambda p: torch.optim.SGD(p, lr=0.5))
    state = first.optimizer_state_dict()
    assert state["param_groups.1.inner.bias.lr"] == 0.1
    second.load_optimizer_state_dict(state)
    for key, optimizer in second.optimizers.items():
        (group,) = getattr(optimizer, "param_groups")
        assert group["lr"] == 0.1 and group["momentum"] == 0.9, key
    found = second.optimizer_state_dict()
    assert state.keys() == found.keys()
    momentum = "state.0.inner.weight.momentum_buffer"
    assert torch.equal(state[momentum], found[momentum])
    assert state[momentum].data_ptr() != found[momentum].data_ptr()


def test_states_of_optimizers_that_do_not_fit() -> None:
    runtime = made()
    state = stepped(made()).optimizer_state_dict()
    other = {**state, "param_groups.0.outer.bias.lr": 0.2}
    with pytest.raises(PipelineError, match="has several values of 'lr' for parameters that are o"):
        runtime.load_optimizer_state_dict(other)
    short = {key: value for key, value in state.items() if ".0.outer.bias." not in key}
    with pytest.raises(PipelineError, match="rank 0: misses the optimizer state of '0.outer.bias'"):
        runtime.load_optimizer_state_dict(short)
    with pytest.raises(PipelineError, match="a parameter of shape .12, 6. that no stage of this"):
        runtime.optimizer_state_dict(sgd(Plain(0).parameters()))

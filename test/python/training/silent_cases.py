"""Mistakes that would train something else silently, in real processes: see module_cases.py."""

from __future__ import annotations

import random
import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from beside import Beside, layer, line, off, sgd
from case_runs import case
from module_cases import four, names_of, tied
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_cases import batch
from runtime_models import WIDTH, Plain, loss_of
from torch import Tensor, nn


@case(2, within=1e-9)
def repeated_parts(rank: int) -> dict[str, float]:
    """Whole blocks that occur in the model several times, and a layer in several of them."""

    def build() -> nn.Sequential:
        block, inner = nn.Sequential(layer(0), nn.Tanh(), layer(1)), layer(5)
        ends = [nn.Sequential(inner, nn.Tanh()), nn.Sequential(nn.Tanh(), inner)]
        return nn.Sequential(block, ends[0], block, ends[1], Plain(3), block, nn.GELU(), inner)

    return {f: Beside(line(family=f), build).train() for f in ("1f1b", "zb-v", "dualpipe-v")}


@case(2, within=1e-9)
def tied_in_a_mapping(rank: int) -> dict[str, float]:
    """Stages of the caller, one on each rank; the mapping has both."""
    found = {}
    for transform in ("", "pipe-add-recompute"):
        schedule, model = line(transform=transform), tied()
        blocks = list(model)
        stages = {(0, 0): nn.Sequential(*blocks[:3]), (0, 1): nn.Sequential(*blocks[3:])}
        both = Beside(schedule, tied, stages=stages, names=names_of(schedule))
        found[transform] = both.train()
    return found


def of_one_memory(is_turned: bool) -> nn.Sequential:
    """A weight in the memory of another one, as another parameter."""
    first, last = layer(0), layer(1)
    weight = first.weight.data
    last.weight = nn.Parameter(weight.t() if is_turned else weight)
    return nn.Sequential(first, nn.Tanh(), last, nn.Tanh())


@case(2, refused="'block 0: 0.weight' and 'block 1: 2.weight' share memory but are")
def parameters_of_one_memory(rank: int) -> None:
    split_sequential(of_one_memory(is_turned=True), line())


@case(2, refused="and ranks [0, 1] hold only one of them")
def stages_of_one_memory(rank: int) -> None:
    blocks = list(of_one_memory(is_turned=False))
    stages: dict[Any, nn.Module] = {(0, i): nn.Sequential(*blocks[2 * i :][:2]) for i in range(2)}
    PipelineRuntime(line(), stages, loss_of)


@case(2, refused="0.inner.weight' and 'block 1: 3.table' share memory")
def a_buffer_of_the_memory_of_a_parameter(rank: int) -> None:
    first, last = Plain(0), Plain(1)
    last.register_buffer("table", first.inner.weight.data[1:])
    split_sequential(nn.Sequential(first, nn.Tanh(), nn.Tanh(), last), line(family="zb-h1"))


def flat() -> nn.Sequential:
    """Parameters that are in one memory, one after the other."""
    model = nn.Sequential(*map(Plain, range(4)))
    memory = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    begin = 0
    for parameter in model.parameters():
        end = begin + parameter.numel()
        parameter.data = memory[begin:end].view_as(parameter)
        begin = end
    return model


@case(2, within=1e-9)
def parameters_in_a_row(rank: int) -> dict[str, float]:
    return {family: Beside(line(family=family), flat).train() for family in ("1f1b", "zb-v")}


@case(2, within=1e-9)
def gradients_that_add_up(rank: int) -> dict[str, float]:
    """Over several steps: gradients that are summed already count once."""
    found = {}
    for family in ("chimera", "1f1b"):
        for build in (four, tied):
            both = Beside(line(family=family), build)
            for seeds in ((0, 1, 2), (3,), (4, 5)):
                for seed in seeds:
                    both.step(seed)
                both.update()
            found[f"{family} {build.__name__}"] = both.finish()
    return found


class Twice(Plain):
    def forward(self, x: Tensor) -> Any:
        hidden = super().forward(x)
        return hidden, hidden


class Views(Plain):
    """Gives views that have no element in common, and one that has."""

    def forward(self, x: Tensor) -> Any:
        hidden = super().forward(x)
        return hidden[:, :3], hidden[:, 3:], hidden.detach().t()


class Changing(nn.Module):
    """Changes the first of several tensors in place."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer = Plain(number)

    def forward(self, one: Any, *others: Tensor) -> Tensor:
        if isinstance(one, tuple):  # in an nn.Sequential
            one, *others = one  # type: ignore[assignment]
        one.mul_(2)
        whole = torch.cat([one, others[0]], 1) if one.shape[1] == 3 else one + others[0]
        result: Tensor = self.layer(whole)
        return result


class Halves(Views):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x)[:2]


@case(2, refused="changes tensor 0 of its input in place, which has memory in common with")
def one_tensor_as_two(rank: int) -> None:
    stages: dict[Any, nn.Module] = {(0, 0): Twice(0), (0, 1): Changing(1)}
    PipelineRuntime(line(), stages, loss_of).step(*batch())


@case(1, refused="in place, which has memory in common with tensor 1, 2 of it")
def one_tensor_as_two_here(rank: int) -> None:
    """On one rank, where the next stage recomputes."""
    schedule = line(1, "zb-v", "pipe-add-recompute")
    stages: dict[Any, nn.Module] = {(0, 0): Views(0), (0, 1): Changing(1)}
    PipelineRuntime(schedule, stages, loss_of).step(*batch())


@case(2, within=1e-9)
def halves_of_a_tensor(rank: int) -> dict[str, float]:
    """Views without a common element may be changed in place."""
    found = {}
    for family in ("1f1b", "chimera"):
        schedule = line(family=family)
        both = Beside(schedule, lambda: nn.Sequential(Halves(0), Changing(1)))
        found[family] = both.train()
    return found


class Changed(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer = layer(number)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x.relu_())
        return result


@case(2, within=1e-9)
def recomputed_from_a_changed_input(rank: int) -> dict[str, float]:
    def build() -> nn.Sequential:
        return nn.Sequential(Plain(0), Changed(1), Plain(2), Changed(3))

    found = {}
    for family in ("1f1b", "zb-v", "chimera", "gpipe"):
        schedule = line(family=family, transform="pipe-add-recompute")
        found[family] = Beside(schedule, build).train()
    return found


class Rolling(Plain):
    def forward(self, x: Tensor) -> Tensor:
        hidden = super().forward(x)
        return (2 * hidden if random.random() < 0.5 else hidden) * float(np.random.rand())


@case(1, within=1e-9)
def recomputed_by_other_generators(rank: int) -> float:
    gradients = []
    for transform in ("", "pipe-add-recompute"):
        schedule, model = line(1, transform=transform), nn.Sequential(Rolling(0))
        runtime = PipelineRuntime(schedule, split_sequential(model, schedule), loss_of)
        random.seed(3)
        np.random.seed(3)
        runtime.step(*batch())
        gradients.append([p.grad for p in model.parameters()])
        assert random.random() != 0.23796462709189137  # The generators have moved on.
    return max(off(one, other) for one, other in zip(*gradients, strict=True))


def half_frozen(begin: int = 0) -> nn.Sequential:
    model = four()
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number >= begin and number % 2 == 0)
    return model


@case(2, refused="are trained now that no optimizer of its O cells has")
def unfrozen_after_its_optimizer(rank: int) -> None:
    both = Beside(line(transform="pipe-add-optimizer"), half_frozen, optimizer=sgd)
    both.step(0)
    for parameter in both.model.parameters():
        parameter.requires_grad_(True)
    both.runtime.step(*batch(1))


@case(2, within=1e-9)
def unfrozen_and_added_to_its_optimizer(rank: int) -> float:
    both = Beside(line(transform="pipe-add-optimizer"), half_frozen, optimizer=sgd)
    both.step(0)
    both.update()
    for model in (both.model, both.reference):
        for parameter in model.parameters():
            parameter.requires_grad_(True)
    for key, optimizer in both.runtime.optimizers.items():
        groups: Any = optimizer
        known = {id(p) for group in groups.param_groups for p in group["params"]}
        own = both.runtime._setup.placement.owned(key)
        groups.add_param_group({"params": [p for p in own if id(p) not in known]})
    both.step(1)
    both.update()
    return both.finish()


def step_now(parameter: Tensor) -> None:
    with torch.no_grad():
        assert parameter.grad is not None
        parameter -= 0.1 * parameter.grad


@case(2, within=1e-9)
def stepped_inside_without_zero_grad(rank: int) -> dict[str, float]:
    """Gradients used by O do not add up; gradients that the caller adds between steps do."""
    steps, found = "pipe-add-optimizer{all-reduce=eager}", {}
    for family in ("1f1b", "zb-v", "chimera"):
        both = Beside(line(family=family, transform=steps), tied, optimizer=sgd)
        for seed in range(4):
            both.step(seed)
            for own, like in both.pairs():
                both.worst = max(both.worst, off(own.grad, like.grad))
            both.optimizers[0].step()
            both.optimizers[0].zero_grad()
        found[family] = both.finish()
    both = Beside(line(transform=steps), four, optimizer=sgd)
    for seed in range(3):
        for parameter in (*both.mine(), *both.reference.parameters()):
            parameter.grad = torch.ones_like(parameter)
        both.step(seed)
        both.optimizers[0].step()
    found["added"] = max(off(own.detach(), like.detach()) for own, like in both.pairs())
    both.finish()
    return found


@case(1, refused="was changed inside of a step, as by an optimizer in a hook")
def optimizers_in_hooks(rank: int) -> None:
    """If a microbatch runs back before the next one comes, autograd sees no mistake."""
    schedule = line(1)
    model = nn.Sequential(Plain(0))
    for parameter in model.parameters():
        register: Any = parameter.register_post_accumulate_grad_hook
        register(step_now)
    PipelineRuntime(schedule, split_sequential(model, schedule), loss_of).step(*batch())


class Bounded(nn.Module):
    """A table that its forward changes, which is allowed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.table = nn.Embedding(9, WIDTH, max_norm=1.0, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.table((x[:, 0].detach().abs() * 9).long() % 9)
        return rows + x


@case(2, within=1e-9)
def tables_with_a_largest_norm(rank: int) -> float:
    return Beside(line(), lambda: nn.Sequential(Bounded(), Plain(1))).train()


@case(1, within=1e-9)
def compiled_stages(rank: int) -> dict[str, float]:
    """Whose backwards would give their buffers away, with I and W, next to B."""
    found = {}
    for family in ("1f1b", "zb-v"):
        schedule = line(1, family)

        def split(model: nn.Sequential, schedule: Any) -> Any:
            stages = split_sequential(model, schedule)
            for stage in schedule.stages(0):
                stages(stage.path, stage.stage).compile(backend="aot_eager")
            return stages

        found[family] = Beside(schedule, four, split=split).train()
    return found


# Uses of a model


class Mirrored(Plain):
    """Gives a negative and a conjugate, which PyTorch keeps as marks on the memory."""

    def forward(self, x: Any) -> Any:
        x, other = x if isinstance(x, tuple) else (x, None)
        hidden = super().forward(x)
        hidden = hidden if other is None else hidden + other.imag
        found = torch.complex(hidden, 2 * hidden + 1).conj()
        return found.imag, found.sin().conj()


class Folded(Plain):
    def forward(self, x: Any) -> Any:
        return super().forward(x[0]) + x[1].imag


@case(2, within=1e-9)
def negatives_and_conjugates(rank: int) -> dict[str, float]:
    def build() -> nn.Sequential:
        return nn.Sequential(Mirrored(0), Mirrored(1), Mirrored(2), Folded(3))

    families = "1f1b", "zb-v", "chimera", "dualpipe-v"
    lines = [line(family=family) for family in families]
    lines.append(line(family="zb-v", transform="pipe-add-recompute"))
    return {str(i): Beside(schedule, build).train() for i, schedule in enumerate(lines)}


class Transformed(Plain):
    """Computes a gradient in its forward, by a transform."""

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.func.grad(lambda value: self.inner(value).sin().sum())
        result: Tensor = super().forward(x) + inner(x)
        return result


def penalized(output: Tensor, target: Tensor) -> Tensor:
    """A loss that computes a gradient."""
    loss = loss_of(output, target)
    (slope,) = torch.autograd.grad(loss, output, create_graph=True)
    return loss + slope.pow(2).sum()


@case(2, within=1e-9)
def gradients_in_recomputed_forwards(rank: int) -> dict[str, float]:
    schedule = line(transform="pipe-add-recompute")

    def build() -> nn.Sequential:
        return nn.Sequential(Plain(0), Transformed(1), Transformed(2), Plain(3))

    return {
        "a transform": Beside(schedule, build).train(),
        "a penalty": Beside(schedule, four, penalized).train(),
    }


class Counting(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return loss_of(output, target) * (1 + 1 / self.calls)


@case(2, within=1e-9)
def buffers_of_a_recomputed_loss(rank: int) -> float:
    return Beside(line(transform="pipe-add-recompute"), four, Counting).train()


class Turning(Plain):
    """Counts its forwards, where nothing sees it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        result: Tensor = super().forward(x) * (1 + 0.1 * self.calls)
        return result


@case(2, refused="0R0 does not give what its F gave")
def recomputed_by_a_counter(rank: int) -> None:
    both = Beside(
        line(transform="pipe-add-recompute"), lambda: nn.Sequential(*map(Turning, range(2)))
    )
    both.runtime.evaluate(*batch())  # The first step of training looks, not the first pass.
    both.runtime.step(*batch())


@case(2, refused="of block 0, which other ranks train: they would not get that")
def a_penalty_of_all_weights(rank: int) -> None:
    model = four()

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return loss_of(output, target) + sum(p.pow(2).sum() for p in model.parameters())

    PipelineRuntime(line(), split_sequential(model, line()), loss).step(*batch())


class Using(nn.Module):
    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.own, self.others = Plain(7), [other]

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.own(x) + self.others[0](x)
        return result


@case(2, refused="of path 0, stage 0, which other ranks train: they would not get")
def a_layer_of_another_rank(rank: int) -> None:
    first = Plain(0)
    stages: dict[Any, nn.Module] = {(0, 0): first, (0, 1): Using(first)}
    PipelineRuntime(line(), stages, loss_of).step(*batch())


@case(1, refused="a tensor of inputs requires a gradient, which a pipeline does")
def inputs_that_want_a_gradient(rank: int) -> None:
    inputs, targets = batch()
    schedule = line(1)
    stages = split_sequential(nn.Sequential(Plain(0)), schedule)
    PipelineRuntime(schedule, stages, loss_of).step(layer(3)(inputs), targets)


@case(1, refused="child '2' of the model was replaced, added or removed after the")
def a_child_that_was_replaced(rank: int) -> None:
    model, schedule = four(), line(1)
    runtime = PipelineRuntime(schedule, split_sequential(model, schedule), loss_of)
    runtime.step(*batch())
    model[2] = Plain(9)
    runtime.step(*batch())


@case(1, refused="'block 0: 0.weight' has no shape yet, as those of lazy modules before their")
def a_lazy_model(rank: int) -> None:
    split_sequential(nn.Sequential(nn.LazyLinear(WIDTH)), line(1))


@case(2, within=1e-9)
def frozen_when_the_optimizer_was_made(rank: int) -> float:
    """As an optimizer of `model.parameters()` steps parameters that are unfrozen later."""
    both = Beside(line(), partial(half_frozen, 4))
    both.optimizers[1] = sgd(both.runtime.parameters())
    for seed in range(3):
        both.step(seed)
        both.update()
        for model in (both.model, both.reference):
            model.requires_grad_(True)
    return both.finish()


class Routed(Plain):
    left: Tensor

    def forward(self, x: Tensor) -> Tensor:
        hidden = super().forward(x)
        self.left = hidden.pow(2).mean()
        return hidden


@case(2)
def losses_left_on_modules(rank: int) -> list[str]:
    """The warnings."""
    schedule = line()
    stages = split_sequential(nn.Sequential(Routed(0), Routed(1)), schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            runtime.step(*batch())
    return [str(each.message) for each in caught]

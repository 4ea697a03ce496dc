"""Training that must be right for any module, in real processes: see case_runs.py.

A case returns the largest difference, relative to the largest value of a tensor, between gradients
and parameters of the pipeline and of the same model without one, over several steps.
"""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from beside import STEPS, Beside, layer, line, off, sgd
from case_runs import case
from pipesched import Schedule
from pipesched.torch import Arguments, PipelineError, PipelineRuntime, split_model, split_sequential
from runtime_cases import COUNT, batch
from runtime_models import WIDTH, Dropped, Plain, loss_of
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import SplitPoint

# Children that are in a model several times


def with_one_activation() -> nn.Sequential:
    activation = nn.Tanh()
    parts = [layer(0), activation, layer(1), activation, layer(2), activation, layer(3)]
    return nn.Sequential(*parts)


def with_one_layer() -> nn.Sequential:
    again = layer(0)
    return nn.Sequential(again, nn.Tanh(), layer(1), again, nn.Tanh(), again)


@case(2, within=1e-9)
def repeated_children(rank: int) -> dict[str, float]:
    found = {}
    for family in ("1f1b", "zb-v", "chimera"):
        for build in (with_one_activation, with_one_layer):
            found[f"{family} {build.__name__}"] = Beside(line(family=family), build).train()
    return found


class Counting(nn.Module):
    def __init__(self, is_on: bool) -> None:
        super().__init__()
        self.is_on = is_on
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        if self.is_on:
            self.calls += 1
        return x + self.calls


@case(2, refused="'1.calls' is one buffer of the whole model, and a step changed")
def one_buffer_on_two_ranks(rank: int) -> float:
    """A table that several stages use is right; statistics that they count together are not."""

    def build(is_on: bool) -> nn.Sequential:
        both = Counting(is_on)
        return nn.Sequential(layer(0), both, layer(1), both)

    worst = Beside(line(), partial(build, False)).train()
    assert worst < 1e-9, worst
    return Beside(line(), partial(build, True)).train()


# Parameters that are one


class Embedded(nn.Module):
    """A layer with a separate table, or with the table of another one."""

    def __init__(self, like: nn.Parameter | None = None) -> None:
        super().__init__()
        torch.manual_seed(7)
        own = nn.Parameter(torch.rand(WIDTH, WIDTH, dtype=torch.float64))
        self.table = own if like is None else like
        self.is_first = like is None

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ (self.table if self.is_first else self.table.t()))


def tied() -> nn.Sequential:
    first = Embedded()
    return nn.Sequential(first, *(Plain(i) for i in range(4)), Embedded(first.table))


@case(2, within=1e-9)
def tied_by_the_model(rank: int) -> dict[str, float]:
    found = {}
    for family in ("1f1b", "zb-v", "chimera", "dualpipe-v"):
        steps = "pipe-add-optimizer{all-reduce=eager}"
        found[family] = Beside(line(family=family), tied).train()
        found[f"{family} steps"] = Beside(
            line(family=family, transform=steps), tied, optimizer=sgd
        ).train()
    return found


@case(2, within=1e-9)
def tied_on_one_rank_with_replicas(rank: int) -> float:
    """Stages of the caller; gradients of two steps add up before each update."""
    schedule = line(family="chimera")
    model = tied()
    blocks = list(model)
    parts = {0: nn.Sequential(*blocks[:3]), 1: nn.Sequential(*blocks[3:])}
    stages = {(s.path, s.stage): parts[s.first_block] for s in schedule.stages(rank)}
    both = Beside(schedule, tied, stages=stages, names=names_of(schedule))
    for seed in range(2):
        both.step(2 * seed)
        both.step(2 * seed + 1)
        both.update()
    return both.finish()


def names_of(schedule: Schedule) -> Any:
    blocks = {(s.path, s.stage): s.first_block for w in (0, 1) for s in schedule.stages(w)}

    def name(path: int, stage: int, inner: str) -> str:
        number, _, rest = inner.partition(".")
        return f"{int(number) + 3 * blocks[path, stage]}.{rest}"

    return name


# Parameters that change between steps


def four() -> nn.Sequential:
    return nn.Sequential(*(Plain(i) for i in range(4)))


def frozen(number: int, parameters: Any) -> None:
    for index, parameter in enumerate(parameters):
        parameter.requires_grad_(number == 2 or index % 2 == number % 2)


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.weights = nn.Parameter(torch.rand(WIDTH, dtype=torch.float64) + 0.5)

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return (self.weights * (output - target) ** 2).mean()


@case(2, within=1e-9)
def parameters_that_are_unfrozen(rank: int) -> dict[str, float]:
    found = {}
    for family in ("1f1b", "chimera", "zb-v"):
        both = Beside(line(family=family), four)
        for seed in range(STEPS):
            chosen(both, seed)
            both.step(seed)
            both.update()
        found[family] = both.finish()
    return found


def chosen(both: Beside, seed: int) -> None:
    own = {id(like): own for own, like in both.pairs()}
    for number, like in enumerate(both.reference.parameters()):
        for each in (like, own.get(id(like), like)):
            each.requires_grad_(seed == 2 or number % 2 == seed % 2)


@case(2, within=1e-9)
def parameters_that_are_added(rank: int) -> float:
    """A layer of replicas is replaced by a wider one after the first step."""
    both = Beside(line(family="chimera"), four)
    both.step(0)
    both.update()
    for model in (both.model, both.reference):
        part: Any = model[1]
        part.outer = layer(11)
        part.inner = layer(12)
    both.optimizers = [sgd(both.reference.parameters()), sgd(both.mine())]
    both.step(1)
    both.update()
    return both.finish()


@case(2, within=1e-9)
def parameters_of_a_loss(rank: int) -> dict[str, float]:
    steps = "pipe-add-optimizer{all-reduce=eager}"
    return {
        "1f1b": Beside(line(), four, Weighted).train(),
        "chimera": Beside(line(family="chimera"), four, Weighted).train(),
        "steps": Beside(
            line(family="chimera", transform=steps), four, Weighted, optimizer=sgd
        ).train(),
    }


@case(2, within=1e-9)
def unfrozen_beside(rank: int) -> float:
    """In two pipelines of one rank, with a loss that has parameters."""
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "pp"))
    schedule = line(1)
    options = {"data_parallel": mesh["dp"], "group": mesh["pp"].get_group()}
    both = Beside(schedule, four, Weighted, **options)
    for seed in range(STEPS):
        frozen(seed, both.model.parameters())
        frozen(seed, both.reference.parameters())
        both.runtime.step(*batch(2 * seed + rank))
        for number in range(2):
            inputs, targets = batch(2 * seed + number)
            torch.autograd.backward(both.losses[1](both.reference(inputs), targets) / 2)
        both.compare()
        both.update()
    return both.finish()


@case(2, refused="a parameter of shape [6] that is in no module of this rank")
def a_parameter_outside_of_replicas(rank: int) -> None:
    """Nothing would sum its gradients."""
    weights = nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return loss_of(output * weights, target)

    Beside(line(family="chimera"), four, loss).step(0)


# Norms


@case(2, within=1e-9)
def norms(rank: int) -> list[float]:
    found: list[float] = []
    for family in ("1f1b", "chimera"):
        for kind in (2.0, 1.0, 3.5, float("inf")):
            both = Beside(line(family=family), tied, Weighted)
            both.step(0)
            parameters = [*both.reference.parameters(), *both.losses[1].parameters()]
            wanted = nn.utils.clip_grad_norm_(parameters, 0.01, kind)
            total = both.runtime.clip_grad_norm_(0.01, kind)
            assert wanted > 0.01
            both.compare()
            found += [abs(total.item() / wanted.item() - 1), both.finish()]
    return found


@case(2)
def norms_inside(rank: int) -> str:
    runtime = Beside(line(transform="pipe-add-optimizer"), four, optimizer=sgd).runtime
    try:
        runtime.clip_grad_norm_(1.0)
    except PipelineError as error:
        return str(error)
    return ""


# Values between stages


@dataclass
class Hidden(OrderedDict[str, Any]):
    state: Tensor
    mask: Tensor | None = None

    def __post_init__(self) -> None:
        self.update(state=self.state, mask=self.mask)


class Masking(Plain):
    """Passes a mask on next to its output."""

    def forward(self, x: Any) -> Any:
        x = x.state if isinstance(x, Hidden) else x
        mask = (x > 0).double()
        return Hidden(super().forward(x), mask)


class Masked(Plain):
    def forward(self, x: Any) -> Any:
        hidden = super().forward(x.state) ** 2
        x.mask.mul_(0.5)
        return hidden * x.mask


class Named(Plain):
    def forward(self, x: Tensor) -> Any:
        return Arguments(super().forward(x), scale=x.detach().abs() + 1)


class Scaled(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer = Plain(number)

    def forward(self, x: Tensor, scale: Tensor) -> Any:
        return self.layer(x) * scale


class Images(nn.Module):
    """Convolutions in channels last, which is looked at on both sides."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.layer = nn.Conv2d(2, 2, 1, dtype=torch.float64)
        self.is_first = number == 0

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = (
                x.reshape(-1, 3, 1, 2)
                .permute(0, 3, 1, 2)
                .contiguous(memory_format=torch.channels_last)
            )
        assert x.is_contiguous(memory_format=torch.channels_last)
        result: Tensor = torch.tanh(self.layer(x))
        if not self.is_first:  # which works only in channels last
            result = result.permute(0, 2, 3, 1).view(-1, WIDTH)
        return result


def by_name() -> nn.Sequential:
    class Both(nn.Sequential):
        def forward(self, x: Tensor) -> Any:
            first, second = self
            given = first(x)
            return second(*given.args, **given.kwargs)

    return Both(Named(0), Scaled(1))


@case(2, within=1e-9)
def values_between_stages(rank: int) -> dict[str, float]:
    found = {}
    for family in ("1f1b", "chimera"):
        schedule = line(family=family)
        masks = Beside(schedule, lambda: nn.Sequential(Masking(0), Masked(1)))
        found[f"{family} masks"] = masks.train()
        images = Beside(schedule, lambda: nn.Sequential(Images(0), Images(1)))
        found[f"{family} images"] = images.train()
        parts = by_name()
        stages = {(s.path, s.stage): parts[s.first_block] for s in schedule.stages(rank)}
        blocks = {(s.path, s.stage): str(s.first_block) for w in (0, 1) for s in schedule.stages(w)}
        found[f"{family} names"] = Beside(schedule, by_name, stages=stages, names=blocks).train()
    return found


# Any module, cut at names


class Scaling(Plain):
    """A block with control flow that depends on values, and a mode."""

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        hidden = super().forward(x)
        if hidden.sum() > 0:
            hidden = 2 * hidden
        return hidden * scale if self.training else hidden


class Skipping(nn.Module):
    """A model with skips, a shared parameter, a number of the input, and an unused argument."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = Scaling(0)
        self.activation = nn.Tanh()
        self.blocks = nn.ModuleList([Scaling(number) for number in range(1, 4)])
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.5, dtype=torch.float64))
        self.head = Scaling(9)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = x.shape[0]
        skip = self.activation(self.embed(x)) * self.scale
        hidden = skip
        for block in self.blocks:
            hidden = self.activation(block(hidden, scale=0.5))
        if mask is not None:
            hidden = hidden * mask
        result: Tensor = self.head(hidden + skip * self.scale) * rows
        return result


CUTS: dict[int, Any] = {
    2: ["blocks.1"],
    3: {"blocks.0": SplitPoint.END, "head": SplitPoint.BEGINNING},
    4: ["blocks.0", "blocks.2", "head"],
}


@case(2, within=1e-9)
def cut_at_names(rank: int) -> dict[str, float]:
    def cut(model: nn.Module, schedule: Schedule) -> Any:
        return split_model(model, schedule, at=CUTS[schedule.blocks])

    found = {}
    for family in ("1f1b", "zb-v", "chimera"):
        both = Beside(line(family=family), Skipping, split=cut)
        found[family] = both.train()
        outputs = Beside(line(family=family), Skipping, split=cut).runtime.evaluate(batch()[0])
        model = Skipping().eval()
        for x, output in zip(batch()[0].chunk(COUNT), outputs or (), strict=False):
            if output is not None:
                found[family] = max(found[family], off(output, model(x).detach()))
    again = line(family="zb-v", transform="pipe-add-recompute")
    found["recomputed"] = Beside(again, Skipping, split=cut).train()
    return found


# Checkpoints


@case(2, within=1e-9)
def training_that_goes_on(rank: int) -> float:
    """A checkpoint has the states of a scheduler, a scaler, dropout and a loss."""
    store: Any = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("folder", tempfile.mkdtemp())
    folder = store.get("folder").decode()
    ends = []
    for number in range(2):
        torch.manual_seed(number + 7 * rank)
        schedule = line(family="zb-v")
        model = nn.Sequential(*(Dropped(i + number) for i in range(schedule.blocks)))
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=1)
        loss = Weighted()
        runtime = PipelineRuntime(schedule, split_sequential(model, schedule), loss, scaler=scaler)
        optimizer = torch.optim.Adam(runtime.parameters(), lr=0.05)
        rates = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        others: dict[str, Any] = {"rates": rates, "scaler": scaler}
        for step in range(4):
            if step == 2 and number == 0:
                runtime.save(folder, optimizer, others=others)
            if step == 2 and number == 1:
                runtime.load(folder, optimizer, others=others, random=True)
            if step < 2 and number == 1:
                continue
            runtime.step(*batch(step))
            scaler.step(optimizer)
            scaler.update()
            rates.step()
            runtime.zero_grad()
        state = [p.detach().clone() for p in runtime.parameters()]
        ends.append([*state, torch.tensor([scaler.get_scale(), *rates.get_last_lr()])])
        runtime.close()
    missing = ""
    try:
        runtime.load(folder, optimizer, others={"other": rates})
    except PipelineError as error:
        missing = str(error)
    assert "misses 'others.other'" in missing
    return max(off(one, two) for one, two in zip(*ends, strict=True))


# Sparse gradients


class Looked(nn.Module):
    def __init__(self, like: nn.Parameter | None = None) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.table = nn.Embedding(40, WIDTH, sparse=True, dtype=torch.float64)
        if like is not None:
            self.table.weight = like

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.tanh(self.table((x[:, 0].detach().abs() * 9).long() % 40)) + x
        return result


class Headed(nn.Module):
    def __init__(self, like: nn.Parameter) -> None:
        super().__init__()
        self.table = like

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(x @ self.table.t()).mean(1, keepdim=True)


def looked(kind: str) -> nn.Sequential:
    first = Looked()
    shared: Any = first.table.weight
    last: dict[str, nn.Module] = {
        "alone": Plain(1),
        "twice": Looked(shared),
        "head": Headed(shared),
    }
    return nn.Sequential(first, Plain(2), Plain(3), last[kind])


@case(2, within=1e-9)
def sparse_gradients(rank: int) -> dict[str, float]:
    """With ties, replicas and a scaler: a gradient has the rows that it has without a pipeline."""
    found = {}
    for family in ("1f1b", "chimera"):
        for kind in ("alone", "twice", "head"):
            scaler = torch.amp.GradScaler("cpu", init_scale=1.0, enabled=kind != "head")
            both = Beside(line(family=family), partial(looked, kind), scaler=scaler)
            for seed in range(2):
                both.step(2 * seed)
                both.step(2 * seed + 1)
                for own, like in both.pairs():
                    assert own.grad.is_sparse == like.grad.is_sparse
                    if own.grad.is_sparse:
                        rows = [each.grad.coalesce().indices() for each in (own, like)]
                        assert torch.equal(*rows)
                both.runtime.clip_grad_norm_(1e9)
                for optimizer in both.optimizers:
                    optimizer.param_groups[0]["momentum"] = 0.0
                both.update()
            found[f"{family} {kind}"] = both.finish()
    return found


@case(2)
def overflow_of_sparse_gradients(rank: int) -> list[Any]:
    """One rank has gradients that are not finite; the other has only sparse ones."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    model = nn.Sequential(Looked(), Plain(1))
    runtime = PipelineRuntime(line(), split_sequential(model, line()), loss_of, scaler=scaler)
    optimizer = torch.optim.SGD(runtime.parameters(), lr=0.1)
    before = [p.detach().clone() for p in runtime.parameters()]
    inputs, targets = batch()
    if rank:
        weight: Any = runtime.parameters()[0]
        weight.register_hook(lambda gradient: gradient * float("inf"))
    runtime.step(inputs, targets)
    scaler.step(optimizer)
    scaler.update()
    same = [torch.equal(a, b) for a, b in zip(before, runtime.parameters(), strict=True)]
    return [scaler.get_scale(), all(same)]

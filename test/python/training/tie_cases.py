"""Parameters that are one in the model, and in the loss: see module_cases.py."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
import torch._dynamo  # fully_shard loads it; once for all ranks, which are forked.
import torch.distributed as dist
from beside import line
from case_runs import case
from module_cases import Embedded, tied
from pipesched import Schedule
from pipesched.torch import PipelineRuntime, split_model, split_sequential
from runtime_cases import batch
from runtime_models import WIDTH, Plain, loss_of
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

FAMILIES = "1f1b", "zb-v", "chimera"
Split = Callable[[nn.Sequential, Schedule], Any]


class Around(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


def each(wrap: Callable[[nn.Module], Any]) -> Split:

    def split(model: nn.Sequential, schedule: Schedule) -> Any:
        stages = split_sequential(model, schedule)
        made: dict[nn.Module, Any] = {}

        def wrapped(path: int, stage: int) -> Any:
            module = stages(path, stage)
            if module not in made:
                made[module] = wrap(module)
            return made[module]

        return wrapped

    return split


def own(model: nn.Sequential, schedule: Schedule) -> Any:
    """A mapping of only the stages of this rank, whose source is gone."""
    stages = split_sequential(model, schedule)
    mine = schedule.stages(dist.get_rank())
    return {(s.path, s.stage): stages(s.path, s.stage) for s in mine}


def through(model: nn.Sequential, schedule: Schedule) -> Any:
    stages = split_sequential(model, schedule)
    return partial(lambda found, path, stage: found(path, stage), stages)


def cut(model: nn.Sequential, schedule: Schedule) -> Any:
    children = len(model)
    at = [str(i * children // schedule.blocks) for i in range(1, schedule.blocks)]
    stages = split_model(model, schedule, at=at)
    return lambda path, stage: stages(path, stage)


def flat(stage: nn.Module) -> nn.Module:
    return nn.Sequential(*(part for block in stage.children() for part in block.children()))


def parallel(stage: nn.Module) -> nn.Module:
    return DistributedDataParallel(stage, process_group=alone())


def alone() -> Any:
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    return groups[dist.get_rank()]


def compiled(stage: nn.Module) -> nn.Module:
    made: Any = torch.compile(stage, backend="eager")
    module: nn.Module = made
    return module


WRAPPED: dict[str, Split] = {
    "a function": each(lambda stage: stage),
    "partial": through,
    "a mapping of own stages": own,
    "cut": cut,
    "DDP": each(parallel),
    "compiled": each(compiled),
    "a module": each(Around),
    "flat": each(flat),
}


def trained(split: Split, schedule: Schedule, **options: Any) -> float:
    """The largest error of the gradients of ties, under any names in the stages."""
    model, reference = tied(), tied()
    runtime = PipelineRuntime(schedule, split(model, schedule), loss_of, **options)
    inputs, targets = batch()
    runtime.step(inputs, targets)
    for x, y in zip(inputs.chunk(4), targets.chunk(4), strict=True):
        torch.autograd.backward(loss_of(reference(x), y) / 4)
    held = {id(parameter) for parameter in runtime.parameters()}
    worst, count = 0.0, 0
    like = dict(reference.named_parameters(remove_duplicate=False))
    for name, found in model.named_parameters(remove_duplicate=False):
        if id(found) in held:
            count += 1
            gradient: Any = found.grad
            gradient = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
            worst = max(worst, (gradient - like[name].grad).abs().max().item())
    assert count > 1
    runtime.close()
    return worst


@case(2, within=1e-12)
def ties_of_wrapped_stages(rank: int) -> dict[str, float]:
    found = {}
    for name, split in WRAPPED.items():
        # A stage of several paths that holds some blocks of another one is an nn.Sequential.
        families = FAMILIES if name in ("a function", "a mapping of own stages") else FAMILIES[:2]
        for family in families:
            found[f"{name} {family}"] = trained(split, line(family=family))
    return found


@case(2, within=1e-12)
def ties_of_sharded_stages(rank: int) -> dict[str, float]:
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "pp"))

    def shard(stage: nn.Module) -> nn.Module:
        for block in stage.children():
            fully_shard(block, mesh=mesh["dp"])
        result: Any = fully_shard(stage, mesh=mesh["dp"])
        return cast(nn.Module, result)

    return {f: trained(each(shard), line(family=f)) for f in ("1f1b", "zb-v")}


@case(2, refused="(0, 0, '0.0.table') and (0, 1, '1.5.table') of ranks that do not")
def ties_that_nothing_shows(rank: int) -> None:
    """Copies of the stages, whose parameters are not the model's objects."""
    trained(each(copy.deepcopy), line())


@case(2, refused="name it, tied=[[(0, 0, '0.table'), (0, 1, '2.table')]], or give the")
def ties_of_own_modules(rank: int) -> None:
    model = list(tied())
    trained(lambda *_: lambda path, stage: nn.Sequential(*model[3 * stage :][:3]), line())


@case(2, within=1e-12)
def ties_that_are_named(rank: int) -> float:
    def split(model: nn.Sequential, schedule: Schedule) -> Any:
        return lambda path, stage: nn.Sequential(*list(model)[3 * stage :][:3])

    return trained(split, line(), tied=[[(0, "0.table"), (1, "2.table")]])


@case(2)
def stages_of_one_seed(rank: int) -> list[str]:
    """Warned of, or not if the caller says that they are several."""
    found = []
    for several in (None, ()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runtime = PipelineRuntime(line(), lambda *_: Plain(3), loss_of, tied=several)
            runtime.step(*batch())
            runtime.close()
        found.append(" ".join(str(each.message) for each in caught))
    return found


class Ranged(nn.Module):
    """Starts with values of a rule, which many stages have."""

    def __init__(self, name: str) -> None:
        super().__init__()
        values = torch.arange(1.0, 1 + WIDTH, dtype=torch.float64).log().repeat(WIDTH, 1)
        setattr(self, name, nn.Parameter(values))

    def forward(self, x: Tensor) -> Tensor:
        return x @ next(self.parameters())


@case(2)
def stages_of_one_rule(rank: int) -> None:
    stages = lambda path, stage: Ranged(f"number{stage}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PipelineRuntime(line(), stages, loss_of).step(*batch())


# The loss


class Fused(nn.Module):
    """A loss with the head in it, which is the table of the first layer."""

    def __init__(self, table: nn.Parameter) -> None:
        super().__init__()
        self.table = table
        self.scale = nn.Parameter(torch.ones(1, WIDTH, dtype=torch.float64))

    def forward(self, hidden: Tensor, target: Tensor) -> Tensor:
        return loss_of(self.scale * hidden @ self.table.t(), target)


def table_of(model: nn.Sequential) -> nn.Parameter:
    return cast(nn.Parameter, model[0].table)


def with_loss(schedule: Schedule, split: Split = split_sequential, **options: Any) -> list[float]:
    """The errors of norms and parameters in three steps, with clipped gradients."""
    models = [nn.Sequential(Embedded(), *(Plain(i) for i in range(4))) for _ in range(2)]
    losses: list[Any] = [Fused(table_of(model)) for model in models]
    runtime = PipelineRuntime(schedule, split(models[0], schedule), losses[0], **options)
    both = nn.ModuleList([models[1], losses[1]])
    optimizers = [torch.optim.SGD(p, lr=0.1) for p in (runtime.parameters(), both.parameters())]
    worst = [0.0, 0.0]
    for seed in range(3):
        inputs, targets = batch(seed)
        runtime.step(inputs, targets)
        for x, y in zip(inputs.chunk(4), targets.chunk(4), strict=True):
            torch.autograd.backward(losses[1](models[1](x), y) / 4)
        norms = [float(runtime.clip_grad_norm_(0.01)), 0.0]
        norms[1] = float(nn.utils.clip_grad_norm_(both.parameters(), 0.01))
        worst[0] = max(worst[0], abs(norms[0] / norms[1] - 1))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    mine = {id(parameter) for parameter in runtime.parameters()}
    held = nn.ModuleList([models[0], losses[0]])
    for found, wanted in zip(held.parameters(), both.parameters(), strict=True):
        if id(found) in mine:
            worst[1] = max(worst[1], (found - wanted).abs().max().item())
    runtime.close()
    return worst


@case(2, within=1e-12)
def ties_of_the_loss(rank: int) -> dict[str, float]:
    found = {}
    for family in (*FAMILIES, "dualpipe-v"):
        found[family] = max(with_loss(line(family=family)))
    for name in ("a function", "a mapping of own stages", "DDP"):
        found[name] = max(with_loss(line(), WRAPPED[name]))
    named: Any = [[(0, "0.table"), ("loss", "table")]]
    found["named"] = max(with_loss(line(), unseen, tied=named))
    return found


def unseen(model: nn.Sequential, schedule: Schedule) -> Any:
    parts = [list(model)[:3], list(model)[3:]]
    return lambda path, stage: nn.Sequential(*copy.deepcopy(parts[stage]))


@case(2, within=1e-12)
def a_tie_of_the_loss_with_steps_inside(rank: int) -> float:
    """O of a stage of the tie steps at the end of the step."""

    def sgd(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1)

    model, reference = (nn.Sequential(Embedded(), Plain(1)) for _ in range(2))
    loss, like = Fused(table_of(model)), Fused(table_of(reference))
    schedule = line(transform="pipe-add-optimizer{all-reduce=eager}")
    stages = split_sequential(model, schedule)
    PipelineRuntime(schedule, stages, loss, optimizer=sgd).step(*batch())
    for x, y in zip(*(each.chunk(4) for each in batch()), strict=True):
        torch.autograd.backward(like(reference(x), y) / 4)
    sgd([*nn.ModuleList([reference, like]).parameters()]).step()
    return (table_of(model) - table_of(reference)).abs().max().item()


@case(2, refused="tied=[[('loss', 'table'), (0, 0, '0.table')]]")
def a_tie_of_the_loss_that_nothing_shows(rank: int) -> None:
    with_loss(line(), unseen)


@case(2, refused="0.0.table' and 'the loss: table' share memory but are not")
def a_loss_in_the_memory_of_a_stage(rank: int) -> None:
    model = nn.Sequential(Embedded(), Plain(1))
    loss = Fused(nn.Parameter(table_of(model).data))
    PipelineRuntime(line(), split_sequential(model, line()), loss)


@case(2, refused="uses 0.table of block 0, which other ranks train")
def a_loss_function_with_a_weight_of_a_stage(rank: int) -> None:
    """A lambda around `stages` hides the parameters that other ranks train."""
    model = nn.Sequential(Embedded(), Plain(1))
    loss = Fused(table_of(model))
    stages = split_sequential(model, line())
    runtime = PipelineRuntime(
        line(), lambda path, stage: stages(path, stage), lambda output, y: loss(output, y)
    )
    runtime.step(*batch())


@case(2, refused="'table' of the loss and '0.table' of block 0")
def a_tie_of_a_sharded_stage_and_a_whole_loss(rank: int) -> None:
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "pp"))
    with_loss(line(), each(lambda stage: fully_shard(stage, mesh=mesh["dp"])))

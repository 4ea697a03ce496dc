"""Tensor parallelism inside of stages, in real processes: see case_runs.py.

Ranks form a mesh of pipelines by parts of tensors. A case returns the largest difference between
gradients, relative to the largest value of a tensor, of the pipeline and of the whole model.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.distributed as dist
from beside import line, off
from case_runs import case
from pipesched import Schedule
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_cases import COUNT, batch, broken
from runtime_models import WIDTH, loss_of
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

CLASSES = 8


class Block(nn.Module):
    """A residual layer whose norm works on parts of the samples."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.norm = nn.LayerNorm(WIDTH, dtype=torch.float64)
        self.inner = nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.float64)
        self.outer = nn.Linear(2 * WIDTH, WIDTH, dtype=torch.float64)
        self.fails_at = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.fails_at:
            self.fails_at -= 1
            if not self.fails_at:
                broken()
        result: Tensor = x + self.outer(torch.tanh(self.inner(self.norm(x))))
        return result


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(99)
        self.head = nn.Linear(WIDTH, CLASSES, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(x)
        return result


def cut(module: nn.Module, mesh: DeviceMesh) -> None:
    """Divides the tensors of a block or of the head over a mesh."""
    if isinstance(module, Head):
        columns = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
        parallelize_module(module, mesh, {"head": columns})
        return
    parallelize_module(
        module,
        mesh,
        {
            "norm": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(0)),
            "inner": PrepareModuleInput(
                input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_output=True
            ),
            "outer": RowwiseParallel(),
        },
    )
    parallelize_module(module.get_submodule("norm"), mesh, SequenceParallel(sequence_dim=0))
    parallelize_module(module.get_submodule("inner"), mesh, ColwiseParallel())


class Parallel:
    """A pipeline of blocks whose tensors are divided, and the whole model."""

    def __init__(self, schedule: Schedule, mesh: DeviceMesh, head: bool = False, **options: Any):
        def whole() -> nn.Sequential:
            blocks: list[nn.Module] = [Block(i) for i in range(schedule.blocks)]
            return nn.Sequential(*blocks[: -1 if head else None], *([Head()] if head else []))

        self.model, self.reference = whole(), whole()
        self.count = schedule.microbatches
        for module in self.model:
            cut(module, mesh["tp"])
        prepare = options.pop("prepare", lambda model: None)
        prepare(self.model)
        stages = split_sequential(self.model, schedule)
        loss = options.pop("loss", loss_of)
        group = mesh["pp"].get_group()
        self.runtime = PipelineRuntime(schedule, stages, loss, group, **options)

    def off(self) -> float:
        """The difference between gradients here and of the whole model."""
        like = dict(self.reference.named_parameters())
        worst = 0.0
        for name, own in self.runtime._state._own().items():
            gradient = own.grad.full_tensor() if isinstance(own.grad, DTensor) else own.grad
            worst = max(worst, off(gradient, like[name].grad))
        return worst


def meshed(*sizes: int) -> DeviceMesh:
    return init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp", "pp"))


@case(4, within=1e-9)
def parts_of_tensors(rank: int) -> dict[str, float]:
    """With replicas, recomputation and offload; norms and clipping, too."""
    mesh, found = meshed(1, 2, 2), {}
    for family, transform in (
        ("1f1b", ""),
        ("zb-v", ""),
        ("zb-h1", "pipe-add-offload{keep=1}"),
        ("chimera", ""),
        ("1f1b", "pipe-add-recompute"),
    ):
        both = Parallel(line(family=family, transform=transform), mesh)
        for seed in range(2):
            inputs, targets = batch(seed)
            both.runtime.step(inputs, targets)
            for x, y in zip(inputs.chunk(COUNT), targets.chunk(COUNT), strict=True):
                torch.autograd.backward(loss_of(both.reference(x), y) / COUNT)
        worst = both.off()
        wanted = nn.utils.clip_grad_norm_(both.reference.parameters(), 0.01)
        total = both.runtime.clip_grad_norm_(0.01)
        found[f"{family} {transform}"] = max(worst, abs(total / wanted - 1).item(), both.off())
        both.runtime.close()
    return found


@case(4, within=1e-9)
def losses_of_parts(rank: int) -> dict[str, float]:
    """Logits that no rank has whole."""
    mesh, found = meshed(1, 2, 2), {}
    for family in ("1f1b", "zb-v"):
        both = Parallel(line(family=family), mesh, True, loss=nn.functional.cross_entropy)
        inputs, _ = batch()
        targets = torch.arange(len(inputs)) % CLASSES
        with loss_parallel():
            loss = both.runtime.step(inputs, targets)
        wanted = nn.functional.cross_entropy(both.reference(inputs), targets)
        torch.autograd.backward(wanted)
        assert loss is None or (type(loss) is Tensor and abs(loss / wanted - 1) < 1e-9)
        found[family] = both.off()
        both.runtime.close()
    return found


@case(4, within=1e-9)
def parts_beside(rank: int) -> dict[str, float]:
    """Two pipelines of one rank each with separate batches, divided into parts of tensors."""
    mesh, found = meshed(2, 2, 1), {}

    def shard(model: nn.Module) -> None:
        for module in model:  # type: ignore[attr-defined]
            fully_shard(module, mesh=mesh["dp"])

    for name, options in (
        ("data_parallel", {"data_parallel": mesh["dp"]}),
        ("fully_shard", {"prepare": shard}),
    ):
        both = Parallel(line(1), mesh, **options)
        own = mesh["dp"].get_local_rank()
        both.runtime.step(*batch(own))
        for number in range(2):
            inputs, targets = batch(number)
            torch.autograd.backward(loss_of(both.reference(inputs), targets) / 2)
        gradients = [p.grad for p in both.reference.parameters() if p.grad is not None]
        wanted = nn.utils.get_total_norm(gradients)
        worst = both.off()
        total = both.runtime.clip_grad_norm_(1e9)
        found[name] = max(worst, abs(total / wanted - 1).item())
        both.runtime.close()
    return found


@case(4, within=1e-9)
def states_of_parts(rank: int) -> float:
    """A checkpoint of a pipeline in parts, loaded by the whole model."""
    store: Any = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("folder", tempfile.mkdtemp())
    folder = store.get("folder").decode()
    both = Parallel(line(), meshed(1, 2, 2))
    optimizer = torch.optim.Adam(both.runtime.parameters(), lr=0.1)
    both.runtime.step(*batch())
    optimizer.step()
    both.runtime.save(folder, optimizer)
    state = {"model": both.reference.state_dict()}
    load(state, checkpoint_id=folder, no_dist=True)
    both.reference.load_state_dict(state["model"])
    like = dict(both.reference.named_parameters())
    worst = 0.0
    for name, own in both.runtime._state._own().items():
        worst = max(worst, off(own.detach().full_tensor(), like[name].detach()))
    for parameter in both.runtime.parameters():
        with torch.no_grad():
            parameter.zero_()
    both.runtime.load(folder, optimizer)
    for name, own in both.runtime._state._own().items():
        worst = max(worst, off(own.detach().full_tensor(), like[name].detach()))
    return worst


@case(4)
def exception_in_a_part(rank: int) -> None:
    """The other part waits in the middle of a cell."""
    both = Parallel(line(), meshed(1, 2, 2))
    if rank == 3:
        both.model[1].fails_at = 3  # type: ignore[assignment]
    both.runtime.step(*batch())

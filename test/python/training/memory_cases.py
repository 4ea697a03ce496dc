"""The bytes that ranks hold, in real processes: see case_runs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from case_runs import case
from pipesched import Schedule, generate
from pipesched.torch import Event, PipelineError, PipelineRuntime, split_sequential
from runtime_cases import COUNT
from runtime_census import Storages
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WIDE, ROWS = 128, 256
"""Sizes at which an activation is much larger than everything else."""
TOKENS = 32


class Wide(nn.Module):
    """Keeps the input, and the output of each of its layers."""

    def __init__(self, number: int, layers: int = 4) -> None:
        super().__init__()
        torch.manual_seed(number)
        parts = [(nn.Linear(WIDE, WIDE), nn.Tanh(), nn.GELU()) for _ in range(layers)]
        self.layers = nn.Sequential(*(each for part in parts for each in part))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Attending(nn.Module):
    def __init__(self, number: int, heads: int = 4) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(WIDE) for _ in range(2))
        self.into, self.out = nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)
        self.rest = nn.Sequential(nn.Linear(WIDE, 2 * WIDE), nn.GELU(), nn.Linear(2 * WIDE, WIDE))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.into(self.norms[0](x)).view(-1, TOKENS, 3, self.heads, WIDE // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.drop(self.out(found.transpose(1, 2).reshape(x.shape)))
        result: Tensor = x + self.drop(self.rest(self.norms[1](x)))
        return result


def line(workers: int, family: str, transform: str = "") -> Schedule:
    schedule = generate(family, workers=workers, microbatches=COUNT)
    return schedule.transform(transform) if transform else schedule


Layer = Callable[[int], nn.Module]


def wide_runtime(schedule: Schedule, layer: Layer = Wide, **options: Any) -> PipelineRuntime:
    model = nn.Sequential(*(layer(i) for i in range(schedule.blocks)))
    stages = split_sequential(model, schedule)
    return PipelineRuntime(schedule, stages, nn.functional.mse_loss, **options)


def wide_batch(count: int) -> tuple[Tensor, Tensor]:
    return torch.rand(ROWS * count, WIDE), torch.rand(ROWS * count, WIDE)


def alive(schedule: Schedule, layer: Layer = Wide) -> int:
    """Returns the most bytes after an instruction, without gradients that exist before."""
    return alive_in(wide_runtime(schedule, layer), lambda: wide_batch(schedule.microbatches))


def alive_in(runtime: PipelineRuntime, make: Callable[[], tuple[Tensor, Tensor]]) -> int:
    """The same of the second step of a runtime, with batches that a function makes."""
    census = Storages()
    runtime.step(*make())
    found = [0]

    def look(event: Event) -> None:
        census.look(event)  # Without messages that other ranks have not taken yet.
        found.append(census.held - runtime._watch.kept_bytes)

    runtime.on_instruction = look
    data = make()
    with census:
        runtime.step(*data)
    runtime.close()
    return max(found)


def measured(schedule: Schedule, layer: Layer = Wide) -> Any:
    runtime = wide_runtime(schedule, layer)
    with runtime.measure_memory() as memory:
        runtime.step(*wide_batch(schedule.microbatches))
    runtime.close()
    return memory


@case(4)
def memory_as_predicted(rank: int) -> dict[str, list[float]]:
    """Peaks of several schedules: alive, predicted from one of them, and the size of a message."""
    found = {}
    straight = {
        "zb-h1": ("zb-h1", ""),
        "1f1b": ("1f1b", ""),
        "offloaded": ("zb-h1", "pipe-add-offload{keep=1}"),
        "recomputed": ("1f1b", "pipe-add-recompute"),
    }
    around = {"zb-v": ("zb-v", ""), "v-half": ("v-half", ""), "offloaded v": ("zb-v", AWAY)}
    for kinds in (straight, around):
        made = {name: line(4, *each) for name, each in kinds.items()}
        recomputed = measured(made["recomputed"]) if "recomputed" in made else None
        split = measured(made["zb-h1" if kinds is straight else "v-half"])
        for name, schedule in made.items():
            sizes: Any = recomputed if name == "recomputed" else split
            found[name] = [alive(schedule), sizes.predict(schedule), 4 * ROWS * WIDE]
        found["measured"] = [split.peak, split.predict(split.schedule), 0]
    return found


AWAY = "pipe-add-offload{keep=1}"
SUMMED = "pipe-add-optimizer{all-reduce=eager}"


@case(4)
def memory_of_replicas(rank: int) -> dict[str, list[float]]:
    """The same of replicas whose gradients add up over two steps, with attention."""
    found = {}
    recomputed = measured(line(4, "chimera", "pipe-add-recompute"), Attending)
    for transform in ("", "pipe-add-recompute", SUMMED):
        schedule = line(4, "chimera", transform)
        predicted = recomputed.predict(schedule)
        found[transform] = [alive(schedule, Attending), predicted, 4 * ROWS * WIDE]
    return found


FEW = 16
"""Rows of a microbatch with which gradients of parameters are as large as activations."""


@case(4)
def memory_of_halves(rank: int) -> dict[str, list[float]]:
    """The same in float16, predicted from a step that sets no gradients aside."""
    found: dict[str, list[float]] = {}

    def make() -> tuple[Tensor, Tensor]:
        return torch.rand(FEW * COUNT, WIDE).half(), torch.rand(FEW * COUNT, WIDE).half()

    def layer(number: int) -> nn.Module:
        return Wide(number).half()

    runtime = wide_runtime(line(4, "chimera", "pipe-add-recompute"), layer)
    with runtime.measure_memory() as fresh:
        runtime.step(*make())
    with runtime.measure_memory() as memory:
        runtime.step(*make())
    runtime.close()
    for transform in ("", "pipe-add-recompute", SUMMED):
        schedule = line(4, "chimera", transform)
        most = alive_in(wide_runtime(schedule, layer), make)
        found[transform] = [most, memory.predict(schedule), 2 * FEW * WIDE, fresh.predict(schedule)]
    return found


def in_parts(number: int, mesh: DeviceMesh) -> nn.Module:
    plan: dict[str, Any] = {
        f"layers.{3 * i}": RowwiseParallel() if i % 2 else ColwiseParallel() for i in range(4)
    }
    return parallelize_module(Wide(number), mesh, plan)


@case(4)
def memory_of_parts_of_tensors(rank: int) -> dict[str, list[float]]:
    """The same for halves of tensors (DTensor), averaged over two pipelines."""
    mesh = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("dp", "tp", "pp"))
    group = mesh["pp"].get_group()
    found: dict[str, list[float]] = {}

    def make() -> tuple[Tensor, Tensor]:
        return torch.rand(FEW * COUNT, WIDE), torch.rand(FEW * COUNT, WIDE)

    def runtime_of(schedule: Schedule) -> PipelineRuntime:
        model = nn.Sequential(*(in_parts(i, mesh["tp"]) for i in range(schedule.blocks)))
        stages = split_sequential(model, schedule)
        loss = nn.functional.mse_loss
        return PipelineRuntime(schedule, stages, loss, group, data_parallel=mesh["dp"])

    made = {
        family: generate(family, workers=1, microbatches=COUNT, chunks=2)
        for family in ("interleaved-1f1b", "interleaved-zb")
    }
    runtime = runtime_of(made["interleaved-zb"])
    with runtime.measure_memory() as fresh:
        runtime.step(*make())
    with runtime.measure_memory() as memory:
        runtime.step(*make())
    runtime.close()
    for family, schedule in made.items():
        most = alive_in(runtime_of(schedule), make)
        found[family] = [most, memory.predict(schedule), 0, fresh.predict(schedule)]
    return found


@case(2)
def budget_of_all_bytes(rank: int) -> list[str]:
    """A budget of the bytes that are alive is held, and a smaller one of one rank raises."""
    schedule = line(2, "zb-h1")
    most = alive(schedule)
    texts = []
    for share in (1.1, 0.9 if rank == 1 else 1.1):
        budget = int(share * most)
        runtime = wide_runtime(schedule, memory_budget=f"{budget}B")
        try:
            runtime.step(*wide_batch(schedule.microbatches))
            texts.append("")
        except PipelineError as error:
            texts.append(type(error).__name__)
    return texts

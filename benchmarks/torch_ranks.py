"""Ranks on this machine that run a schedule by PyTorch's own `_PipelineScheduleRuntime`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched import Schedule
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.multiprocessing.spawn import start_processes

Step = Callable[[], Any]


def run_ranks(function: Callable[..., None], ranks: int, folder: Path, *arguments: Any) -> None:
    """Calls `function(rank, folder, *arguments)` in a process for each rank of a gloo group."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    everything = (function, ranks, folder, arguments)
    start_processes(_enter_group, everything, ranks, start_method="fork")


def _enter_group(
    rank: int, function: Callable[..., None], ranks: int, folder: Path, arguments: Any
) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store-{ranks}"
    dist.init_process_group("gloo", store, rank=rank, world_size=ranks)
    function(rank, folder, *arguments)
    dist.barrier()
    dist.destroy_process_group()


def pytorch_step(
    schedule: Schedule, rank: int, x: Tensor, make_stage: Callable[[int], nn.Module], file: Path
) -> tuple[Step, list[Any]]:
    """A step of PyTorch's runtime with the export of the schedule, and the stages of the rank."""
    (path,) = schedule.paths
    numbers = [s for s, worker in enumerate(path.workers) if worker == rank]
    count, device = len(path.workers), torch.device("cpu")
    stages: list[Any] = [PipelineStage(make_stage(s), s, count, device) for s in numbers]
    kind: Any = _PipelineScheduleRuntime
    runtime = kind(stages, schedule.microbatches, loss_fn=nn.functional.mse_loss)
    file.write_text(schedule.to_csv("compute_only"))
    runtime._load_csv(str(file), format="compute_only")

    def step() -> None:
        arguments = [x] if 0 in numbers else []
        options = {"target": x, "losses": []} if count - 1 in numbers else {}
        runtime.step(*arguments, **options)

    return step, stages

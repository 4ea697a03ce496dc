"""Trains a model of torchtitan by schedules in CSV, as torchtitan does, on gloo and CPUs.

usage: titan_ranks.py FOLDER SECONDS, started as `runtime_ranks.py` is.
"""

from __future__ import annotations

import copy
import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from runtime_ranks import main, train_each
from test_torch_titan import MICROBATCHES, RANKS, TitanJob
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

if importlib.util.find_spec("triton") is None:
    # The build of PyTorch for CPUs comes without it, and these kernels, of mixtures of experts, are
    # declared with it. The model here has none.
    kernels = ModuleType("torchtitan.models.moe.kernels")
    vars(kernels).update(generate_permute_indices=None)
    sys.modules[kernels.__name__] = kernels

from torchtitan.config import JobConfig
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.llama3 import Transformer, TransformerModelArgs

STEPS = 2
LENGTH, VOCABULARY = 16, 64


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """Divided by the microbatches, since torchtitan's runtime does not scale gradients."""
    flat = output.flatten(0, 1).double()
    return nn.functional.cross_entropy(flat, target.flatten()) / MICROBATCHES


def model() -> Any:
    torch.manual_seed(0)
    made = Transformer(
        TransformerModelArgs(
            dim=16, n_layers=14, n_heads=2, vocab_size=VOCABULARY, max_seq_len=LENGTH
        )
    )
    with torch.no_grad():
        made.init_weights()
    return made.double()


def config(job: TitanJob) -> Any:
    found = JobConfig()
    found.training.local_batch_size = MICROBATCHES
    found.parallelism.pipeline_parallel_degree = RANKS
    found.parallelism.pipeline_parallel_microbatch_size = 1
    found.parallelism.pipeline_parallel_schedule = job.kind
    found.parallelism.pipeline_parallel_schedule_csv = job.file
    return found


def batch(step: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCABULARY, (MICROBATCHES, LENGTH + 1), generator=chance)
    return tokens[:, :-1], tokens[:, 1:]


def run(job: TitanJob, _: dist.ProcessGroup) -> list[float]:
    """Returns the largest errors of losses and gradients."""
    mesh, whole = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("pp",)), model()
    dims: Any = SimpleNamespace(pp=RANKS, get_mesh=lambda name: mesh)
    schedule, parts, is_first, is_last = pipeline_llm(
        copy.deepcopy(whole),
        dims,
        config(job),
        torch.device("cpu"),
        whole.model_args,
        lambda part, *_: part,
        loss_of,
    )
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (whole, *parts)]
    worst = [0.0, 0.0]
    for step in range(STEPS):
        inputs, labels = batch(step)
        losses: list[Tensor] = []
        options = {"target": labels, "losses": losses} if is_last else {}
        schedule.step(*([inputs] if is_first else []), **options)
        pairs = zip(inputs.chunk(MICROBATCHES), labels.chunk(MICROBATCHES), strict=True)
        wanted = torch.stack([loss_of(whole(x), y) for x, y in pairs])
        torch.autograd.backward(wanted.sum())
        if is_last:
            worst[0] = max(worst[0], (torch.stack(losses) - wanted).abs().max().item())
        like = dict(whole.named_parameters())
        for part in parts:
            for name, parameter in part.named_parameters():
                error = (parameter.grad - like[name].grad).abs().max() / like[name].grad.abs().max()
                worst[1] = max(worst[1], error.item())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return worst


if __name__ == "__main__":
    train = partial(train_each, run=run)
    sys.exit(main(train, Path(sys.argv[1]), float(sys.argv[2])))

"""Trains a model of torchtitan by schedules in CSV, as torchtitan does, on gloo and CPUs."""

from __future__ import annotations

import copy
import gc
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from test_torch_titan import LENGTH, MICROBATCHES, RANKS, TOKENS, TitanJob
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

if not torch.cuda.is_available():  # which torchtitan assumes
    torch._utils._get_available_device_type = lambda: "cpu"

if importlib.util.find_spec("triton") is None:
    # The build of PyTorch for CPUs comes without it, and these kernels, of mixtures of experts, are
    # declared with it. The model here does not use them.
    kernels = ModuleType("torchtitan.models.moe.kernels")
    vars(kernels).update(generate_permute_indices=None)
    sys.modules[kernels.__name__] = kernels

from torchtitan.components.loss import cross_entropy_loss
from torchtitan.config import JobConfig
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.llama3 import Transformer, TransformerModelArgs, get_train_spec
from torchtitan.protocols import train_spec
from torchtitan.tools.utils import NoColor
from torchtitan.train import Trainer

STEPS, VOCABULARY = 2, 64


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """Divided by the microbatches, since torchtitan's runtime does not scale gradients."""
    flat = output.flatten(0, 1).double()
    return nn.functional.cross_entropy(flat, target.flatten()) / MICROBATCHES


def sizes() -> TransformerModelArgs:
    return TransformerModelArgs(
        dim=16, n_layers=14, n_heads=2, vocab_size=VOCABULARY, max_seq_len=LENGTH
    )


def model() -> Any:
    torch.manual_seed(0)
    made = Transformer(sizes())
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
    found.parallelism.pipeline_parallel_layers_per_stage = job.layers
    return found


def batch(step: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCABULARY, (MICROBATCHES, LENGTH + 1), generator=chance)
    return tokens[:, :-1], tokens[:, 1:]


def norm(gradients: Iterable[Any]) -> float:
    found: float = torch.stack([each.norm() for each in gradients]).norm().item()
    return found


def run(job: TitanJob) -> list[float]:
    """Returns the largest errors of losses and gradients, and the norm in norms of the mean's."""
    loss = cross_entropy_loss if job.is_own else loss_of
    mesh, whole = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("pp",)), model()
    dims: Any = SimpleNamespace(pp=RANKS, get_mesh=lambda name: mesh)
    schedule, parts, is_first, is_last = pipeline_llm(
        copy.deepcopy(whole),
        dims,
        config(job),
        torch.device("cpu"),
        whole.model_args,
        lambda part, *_: part,
        loss,
    )
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (whole, *parts)]
    worst = [0.0, 0.0, 1.0]
    for step in range(STEPS):
        inputs, labels = batch(step)
        losses: list[Tensor] = []
        options = {"target": labels, "losses": losses} if is_last else {}
        schedule.step(*([inputs] if is_first else []), **options)
        pairs = list(zip(inputs.chunk(MICROBATCHES), labels.chunk(MICROBATCHES), strict=True))
        like = dict(whole.named_parameters())
        wanted = torch.stack([loss(whole(x), y) for x, y in pairs])
        torch.autograd.backward(wanted.sum())
        if is_last:
            worst[0] = max(worst[0], (torch.stack(losses) - wanted).abs().max().item())
        own = {name: each.grad for part in parts for name, each in part.named_parameters()}
        for name, gradient in own.items():
            error = (gradient - like[name].grad).abs().max() / like[name].grad.abs().max()
            worst[1] = max(worst[1], error.item())
        if step == 0 and job.is_own:
            mean = torch.stack([loss_of(whole(x), y) for x, y in pairs]).sum()
            means = torch.autograd.grad(mean, [like[name] for name in own])
            worst[2] = norm(own.values()) / norm(means)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return worst


class Log(list[tuple[float, float]]):
    """The losses and the norms of the gradients that the Trainer would print."""

    def __init__(self, *_: Any) -> None:
        super().__init__()
        self.color = NoColor()
        stats = SimpleNamespace(max_reserved_gib=0.0, max_reserved_pct=0.0)
        self.device_memory_monitor = SimpleNamespace(
            device_name="cpu", get_peak_stats=lambda: stats
        )
        self.ntokens_since_last_log = 0
        self.data_loading_times: list[float] = []

    def should_log(self, _: int) -> bool:
        return True

    def log(self, _: int, loss: float, __: float, norm: float, **___: Any) -> None:
        self.append((loss, norm))


def batches() -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    for step in range(STEPS):
        inputs, labels = batch(step)
        yield {"input": inputs}, labels


def run_trainer(job: TitanJob) -> list[tuple[float, float]]:
    """Returns loss and norm of each step of torchtitan's own Trainer (loss -1: other ranks)."""
    loss = cross_entropy_loss
    if not job.is_own:
        loss = lambda output, target: cross_entropy_loss(output, target) / TOKENS
    spec = replace(
        get_train_spec(),
        model_args={"tiny": sizes()},
        build_tokenizer_fn=None,
        build_dataloader_fn=lambda **_: list(batches()),
        build_loss_fn=lambda *_, **__: loss,
        build_metrics_processor_fn=Log,
    )
    train_spec._extra_train_specs["tiny"] = spec
    found = config(job)
    found.model.name = found.model.flavor = "tiny"
    found.training.seq_len, found.training.steps, found.debug.seed = LENGTH, STEPS, 1
    found.activation_checkpoint.mode = "none"
    os.environ["LOCAL_RANK"] = "0"
    trainer = Trainer(found)
    try:
        given = trainer.batch_generator(trainer.dataloader)
        for _step in range(STEPS):
            trainer.step += 1
            trainer.train_step(given)
        return list(trainer.metrics_processor)
    finally:
        gc.enable()  # which the Trainer has switched off


def run_job(job: TitanJob, group: dist.ProcessGroup, _: Path) -> Any:
    return run_trainer(job) if job.has_trainer else run(job)

"""Trains a model of torchtitan by schedules in CSV, as torchtitan does, on gloo and CPUs.

usage: titan_ranks.py FOLDER

FOLDER/jobs.json has the jobs: name, file, and what `pipeline_parallel_schedule` says. Each rank
writes the largest errors of losses and gradients to FOLDER/<rank>.json.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import multiprocessing
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

if importlib.util.find_spec("triton") is None:
    # The build of PyTorch for CPUs comes without it, and these kernels, of mixtures of experts, are
    # declared with it. The model here has none.
    kernels = ModuleType("torchtitan.models.moe.kernels")
    vars(kernels).update(generate_permute_indices=None)
    sys.modules[kernels.__name__] = kernels

from torchtitan.config import JobConfig  # noqa: E402
from torchtitan.distributed.pipeline_parallel import pipeline_llm  # noqa: E402
from torchtitan.models.llama3 import Transformer, TransformerModelArgs  # noqa: E402

RANKS, MICROBATCHES, STEPS = 2, 4, 2
LENGTH, VOCABULARY = 16, 64


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """As torchtitan, whose runtime does not scale gradients: divided by the microbatches."""
    flat = output.flatten(0, 1).double()
    return nn.functional.cross_entropy(flat, target.flatten()) / MICROBATCHES


def model() -> Any:
    torch.manual_seed(0)
    made = Transformer(
        TransformerModelArgs(
            dim=16, n_layers=6, n_heads=2, vocab_size=VOCABULARY, max_seq_len=LENGTH
        )
    )
    with torch.no_grad():
        made.init_weights()
    return made.double()


def config(job: dict[str, str]) -> Any:
    found = JobConfig()
    found.training.local_batch_size = MICROBATCHES
    found.parallelism.pipeline_parallel_degree = RANKS
    found.parallelism.pipeline_parallel_microbatch_size = 1
    found.parallelism.pipeline_parallel_schedule = job["kind"]
    found.parallelism.pipeline_parallel_schedule_csv = job["file"]
    return found


def batch(step: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCABULARY, (MICROBATCHES, LENGTH + 1), generator=chance)
    return tokens[:, :-1], tokens[:, 1:]


def run(job: dict[str, str], mesh: Any) -> list[float]:
    whole = model()
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


def rank_process(folder: Path, rank: int) -> None:
    with open(folder / f"{rank}.err", "wb") as errors:
        os.dup2(errors.fileno(), 2)
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=RANKS)
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("pp",))
        jobs = json.loads((folder / "jobs.json").read_text())
        found = {job["name"]: run(job, mesh) for job in jobs}
        (folder / f"{rank}.json").write_text(json.dumps(found))
        dist.barrier()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def main(folder: Path) -> int:
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=rank_process, args=(folder, rank)) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
        rank.kill()
    return int(any(rank.exitcode for rank in ranks))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

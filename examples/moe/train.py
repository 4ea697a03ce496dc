"""Trains the model of this folder by pipelines side by side, which share the experts:

    torchrun --nproc-per-node 4 train.py --pipelines 2 --schedule combined-1f1b --chunks 2

Pipeline p of P has the ranks p W to p W + W - 1; rank w of each has the same stages, and 1/P of the
experts of their layers.
"""

from __future__ import annotations

import argparse
from typing import Any

import pipesched
import torch
import torch.distributed as dist
from model import batches, loss, model
from pipesched.torch import PipelineRuntime, split_sequential


def groups(pipelines: int, workers: int) -> tuple[Any, Any]:
    """The group of the pipeline of this rank, and the group of the ranks that share its experts."""
    rows = [list(range(p * workers, (p + 1) * workers)) for p in range(pipelines)]
    columns = [list(ranks) for ranks in zip(*rows, strict=True)]
    mine, _ = dist.new_subgroups_by_enumeration(rows)
    peers, _ = dist.new_subgroups_by_enumeration(columns)
    return mine, peers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipelines", type=int, default=2)
    parser.add_argument("--schedule", default="combined-1f1b")
    parser.add_argument("--chunks", type=int, default=2, help="of combined-1f1b")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    workers = dist.get_world_size() // options.pipelines
    pipeline, peers = groups(options.pipelines, workers)
    more: dict[str, Any] = {"chunks": options.chunks} if options.schedule == "combined-1f1b" else {}
    schedule = pipesched.generate(
        options.schedule, workers=workers, microbatches=options.microbatches, **more
    )
    torch.manual_seed(0)
    stages = split_sequential(model(group=peers), schedule)
    runtime = PipelineRuntime(
        schedule, stages, loss, pipeline, data_parallel=peers, expert_parallel=["*.experts.*"]
    )
    optimizer = torch.optim.AdamW(runtime.parameters(), lr=0.003)
    data = batches(4 * options.microbatches, seed=dist.get_rank(peers))
    for step in range(options.steps):
        found = runtime.step(*next(data))
        optimizer.step()
        runtime.zero_grad()
        if found is not None and step in (0, options.steps - 1):
            number = dist.get_rank(peers)
            print(f"pipeline {number}, step {step}: loss {found.item():.4f}", flush=True)
    runtime.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

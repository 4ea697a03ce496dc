"""One rank of a pipeline that fails, as a separate process; its environment says which.

usage: leaving_ranks.py raise|freeze

Rank 1 raises, or rank 0 is stopped, which has the store that all ranks meet in.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from pipesched.torch import PipelineRuntime
from runtime_cases import Failing, batch, broken, line
from runtime_models import loss_of


def main(mode: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    actions: dict[str, tuple[int, Any]] = {
        "raise": (1, broken),
        "freeze": (0, lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    }
    guilty, action = actions[mode]
    stages = {(0, rank): Failing(6 if rank == guilty else 0, action)}
    runtime = PipelineRuntime(line(3), stages, loss_of, timeout=60 if mode == "raise" else 2)
    for seed in range(3):
        runtime.step(*batch(seed))


if __name__ == "__main__":
    main(sys.argv[1])

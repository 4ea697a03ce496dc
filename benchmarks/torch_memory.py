#!/usr/bin/env python3
"""The memory of each rank in a step: `pipesched.torch`, its prediction, and PyTorch's own
`_PipelineScheduleRuntime`, which runs the export of the same schedule.

Four ranks are processes of this machine on gloo. Held are the bytes of all storages that operations
make in the third step and that are alive at once, at most; gradients of parameters are there
before. PyTorch's buffers for receives, which it keeps between steps, count too. Predicted is the
peak after an instruction, by `measure_memory` of one schedule of each placement.

Usage: .venv/bin/python benchmarks/torch_memory.py [--width N] [--rows N] [--microbatches N]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import weakref
from pathlib import Path
from typing import Any

import pipesched
import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_ranks import pytorch_step, run_ranks

RANKS = 4
CASES = {
    # Name: family, transformation, the case whose measured sizes predict it.
    "1f1b": ("1f1b", "", "zb-h1"),
    "zb-h1": ("zb-h1", "", "zb-h1"),
    "1f1b, R": ("1f1b", "pipe-add-recompute", "1f1b, R"),
    "zb-h1, D and U": ("zb-h1", "pipe-add-offload{keep=1}", "zb-h1"),
    "zb-v": ("zb-v", "", "v-half"),
    "v-half": ("v-half", "", "v-half"),
}
MIB = 1 << 20
_Mode: Any = TorchDispatchMode  # Its methods have no types.


class Alive(_Mode):  # type: ignore[misc]
    """The bytes of the storages that operations make, while they are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.peak = 0
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._new: list[tuple[Any, int]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        given = {t.untyped_storage() for t in _plain([arguments, options])}
        result = function(*arguments, **(options or {}))
        if "set_" in function.__name__:  # a tensor on an existing storage makes none
            given |= {t.untyped_storage() for t in _plain([arguments, options])}
        for tensor in _plain(result):
            storage = tensor.untyped_storage()
            if storage not in given and storage not in self._seen:
                self._seen.add(storage)
                self._add(storage.nbytes())
                end = weakref.finalize(storage, self._add, -storage.nbytes())
                self._new.append((end, storage.nbytes()))
        return result

    def _add(self, nbytes: int) -> None:
        self.held += nbytes
        self.peak = max(self.peak, self.held)

    def settle(self, event: Any) -> None:
        """Counts the output of a D as host memory."""
        if event.instruction.kind == "offload":
            for end, nbytes in self._new:
                if end.detach() is not None:
                    self._add(-nbytes)
        self._new = []


def _plain(values: Any) -> list[Tensor]:
    tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor)]
    return [tensor for tensor in tensors if tensor.layout == torch.strided]


def schedule_of(name: str, microbatches: int) -> Schedule:
    family, transform, _ = CASES[name]
    schedule = pipesched.generate(family, workers=RANKS, microbatches=microbatches)
    return schedule.transform(transform) if transform else schedule


def stage(number: int, width: int) -> nn.Module:
    torch.manual_seed(number)
    layers = [(nn.Linear(width, width), nn.Tanh(), nn.GELU()) for _ in range(4)]
    return nn.Sequential(*(each for layer in layers for each in layer))


def ours(schedule: Schedule, x: Tensor, width: int) -> tuple[int, Any]:
    """The most that is held, and the measured sizes."""
    loss = nn.functional.mse_loss
    runtime = PipelineRuntime(schedule, lambda _, s: stage(s, width), loss)
    runtime.step(x, x)
    with runtime.measure_memory() as memory:
        runtime.step(x, x)
    alive = Alive()
    runtime.on_instruction = alive.settle
    with alive:
        runtime.step(x, x)
    runtime.close()
    return alive.peak, memory


def theirs(schedule: Schedule, rank: int, x: Tensor, width: int, file: Path) -> int:
    step, stages = pytorch_step(schedule, rank, x, lambda number: stage(number, width), file)
    step()
    step()
    alive = Alive()
    kept: dict[Any, int] = {}
    for each in stages:
        for infos in (*each.args_recv_info.values(), *each.grad_recv_info.values()):
            for info in infos:
                if isinstance(getattr(info, "buffer", None), Tensor):
                    storage = info.buffer.untyped_storage()
                    kept[storage._cdata] = storage.nbytes()
    with alive:
        step()
    return alive.peak + sum(kept.values())


def rank_process(rank: int, folder: Path, options: argparse.Namespace) -> None:
    x = torch.rand(options.rows * options.microbatches, options.width)
    held, memories, other = {}, {}, {}
    for name, (_, transform, _) in CASES.items():
        schedule = schedule_of(name, options.microbatches)
        held[name], memories[name] = ours(schedule, x, options.width)
        if not transform:
            other[name] = theirs(schedule, rank, x, options.width, folder / f"{rank}.csv")
        dist.barrier()
    rows = {
        name: {
            "held": held[name],
            "predicted": memories[by].predict(schedule_of(name, options.microbatches)),
            "pytorch": other.get(name),
        }
        for name, (_, _, by) in CASES.items()
    }
    (folder / f"{rank}.json").write_text(json.dumps(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rows", type=int, default=512, help="samples of a microbatch")
    parser.add_argument("--microbatches", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        run_ranks(rank_process, RANKS, folder, options)
        found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
    print("| schedule | held, MiB, by rank | predicted | PyTorch's runtime |")
    print("|---|---|---|---|")
    for name in CASES:
        cells = []
        for kind in ("held", "predicted", "pytorch"):
            values = [rank[name][kind] for rank in found]
            none = None in values
            cells.append("" if none else ", ".join(f"{value / MIB:.1f}" for value in values))
        print(f"| `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

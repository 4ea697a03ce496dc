#!/usr/bin/env python3
"""How far `pipesched fit` predicts sizes that it has not seen, on the processor of this machine.

Usage: .venv/bin/python benchmarks/fit_held_out.py [--sizes N] [--repeats N] [--rounds N]

Matrix products and copies of float32 with one thread, and messages over gloo between two processes
are measured in many sizes, all sizes in turn, again and again; a size counts by its median. Every
second size is fitted, the others are predicted. On a machine with other work `chrt -r 5` before
the command keeps that from delaying it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from pipesched.fitting import Sample
from pipesched.fitting._system import predict

import pipesched

SYSTEM: dict[str, Any] = {
    "name": "this-machine",
    "description": "a core of this machine; peaks above all that it does",
    "sources": {"matrix": "measured here"},
    "accelerators": 1,
    "accelerators_per_node": 1,
    "matrix": {"tflops": 0.5},
    "vector": {"tflops": 0.5},
    "memory": {"capacity_gb": 8, "bandwidth_gb_per_s": 400},
    "link": {"bandwidth_gb_per_s": 10, "latency_us": 20},
    "network": {"bandwidth_gb_per_s": 10, "latency_us": 20},
}
Measured = dict[tuple[str, int], list[float]]
"""Seconds by part and size."""


def timed(call: Callable[[], Any], least_seconds: float = 0.002) -> float:
    """Seconds of a call, of as many in a row as take some time."""
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    count = max(1, int(least_seconds / once))
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def kernels(sizes: int) -> dict[tuple[str, int], Callable[[], Any]]:
    """Products of n x n by n x n, and copies of n bytes."""
    found: dict[tuple[str, int], Callable[[], Any]] = {}
    for number in np.geomspace(32, 1024, sizes):
        n = round(number)
        a, b, c = (torch.rand(n, n) for _ in range(3))
        found["matrix", n] = lambda a=a, b=b, c=c: torch.mm(a, b, out=c)
    for number in np.geomspace(1 << 12, 1 << 26, sizes):
        x = torch.rand(round(number) // 4)
        y = torch.empty_like(x)
        found["memory", x.nbytes] = lambda x=x, y=y: y.copy_(x)
    return found


def message(rank: int, buffer: torch.Tensor) -> float:
    """Seconds of one way, by a message there and one back, whose receives have begun before."""
    dist.barrier()
    start = time.perf_counter()
    if rank == 0:
        back = dist.irecv(torch.empty_like(buffer), 1)
        assert back is not None
        dist.send(buffer, 1)
        back.wait()
    else:
        dist.recv(buffer, 0)
        dist.send(buffer, 0)
    return (time.perf_counter() - start) / 2


def rank_process(rank: int, folder: Path, options: argparse.Namespace, found: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    random = np.random.default_rng(0)
    buffers = [
        torch.rand(round(n) // 4) for n in np.geomspace(1 << 10, 1 << 25, options.sizes)
    ]
    calls = list(kernels(options.sizes).items()) if rank == 0 else []
    times: Measured = {}
    for _ in range(options.repeats):
        for number in random.permutation(len(calls)):
            key, call = calls[number]
            times.setdefault(key, []).append(timed(call))
        for buffer in buffers:
            times.setdefault(("network", buffer.nbytes), []).append(message(rank, buffer))
    if rank == 0:
        found.put(times)
    dist.barrier()
    dist.destroy_process_group()


def measured(options: argparse.Namespace) -> Measured:
    context = multiprocessing.get_context("fork")
    found: Any = context.Queue()
    with tempfile.TemporaryDirectory() as text:
        ranks = [
            context.Process(target=rank_process, args=(rank, Path(text), options, found))
            for rank in range(2)
        ]
        for rank in ranks:
            rank.start()
        times: Measured = found.get()
        for rank in ranks:
            rank.join()
    return times


def sample(part: str, size: int, seconds: float) -> Sample:
    if part == "matrix":
        n_bytes = 12 * size**2
        return Sample("matrix", "gemm", seconds, 2 * size**3, n_bytes, dtype="float32")
    if part == "memory":
        return Sample("memory", "kernel", seconds, 0, 2 * size)
    return Sample("network", "message", seconds, 0, size)


def errors_of(times: Measured) -> dict[str, list[float]]:
    """The errors of every second size, by the fit of the others."""
    rows = sorted(times.items())
    samples = [sample(part, size, statistics.median(found)) for (part, size), found in rows]
    fit = pipesched.fit(system=SYSTEM, samples=samples[::2], dtype="float32")
    errors: dict[str, list[float]] = {}
    for each in samples[1::2]:
        errors.setdefault(each.part, []).append(predict(each, fit.system) / each.seconds - 1)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, default=40, help="of each kind")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=3, help="measurements, each with its fit")
    options = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    print("| round | part | sizes | median error | nine in ten within |\n|---|---|---|---|---|")
    for number in range(options.rounds):
        for part, errors in errors_of(measured(options)).items():
            sizes = np.sort(np.abs(errors))
            most = f"{np.quantile(sizes, 0.9):.1%} |"
            print(f"| {number} | {part} | {len(sizes)} | {np.median(sizes):.1%} | {most}")


if __name__ == "__main__":
    main()

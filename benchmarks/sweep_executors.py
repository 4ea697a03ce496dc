#!/usr/bin/env python3
"""What executors cost a sweep: overhead per task, scaling over workers, and the client's part.

Usage: .venv/bin/python benchmarks/sweep_executors.py [--executors LIST] [--workers LIST]

Tasks are those of a sweep: they take `--points` points and give as many lines back. In the first
part they do nothing else, so that their time is overhead. In the second each sleeps for `--sleep`
seconds instead of computing, so that workers need no cores of their own and a small machine shows
how executors scale; efficiency is the time of sleeping, divided by the workers, over the wall time.
The last part is a real sweep, in which CPU time of the client is told from that of the workers.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

from pipesched import Grid
from pipesched.grid import Point
from pipesched.sweeps import lines_of, lines_of_task, task_of

GRID = {
    "workers": "4,8",
    "microbatches": "8:256:8",
    "model": "paper-gpt",
    "microbatch_size": 1,
    "system": ["baseline", "fast_nw_fast_cp", "slow_nw_slow_cp"],
}
LINE = "x" * 900 + "\n"
"""About as long as a row."""


def sent(points: bytes, sleep: float) -> str:
    """A task that only sleeps."""
    if sleep:
        time.sleep(sleep)
    return LINE * len(pickle.loads(points))


def cpu_seconds(who: int = resource.RUSAGE_SELF) -> float:
    """CPU time of this process, or of its children that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def started(kind: str, workers: int) -> Iterator[Executor]:
    """An executor whose workers have all started."""
    if kind == "dask":
        from distributed import Client, LocalCluster

        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            yield client.get_executor(pure=False)
    elif kind == "mpi":
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as pool:
            pool.bootup()
            yield pool
    else:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as processes:
            yield processes


def measured(executor: Executor, tasks: int, points: list[Point], sleep: float) -> list[float]:
    """Wall time and CPU time of the client."""
    wall, cpu = time.monotonic(), cpu_seconds()
    futures = [executor.submit(sent, task_of(points), sleep) for _ in range(tasks)]
    for future in futures:
        lines_of_task(future.result())
    return [time.monotonic() - wall, cpu_seconds() - cpu]


def swept(executor: Executor) -> list[float]:
    """Rows of a sweep, and CPU time of the client for each."""
    grid = Grid(GRID)
    with tempfile.TemporaryDirectory() as folder:
        cpu = cpu_seconds()
        rows = len(lines_of(grid, executor=executor, file=Path(folder) / "sweep.jsonl"))
        return [float(rows), (cpu_seconds() - cpu) / rows]


def run(arguments: argparse.Namespace, kind: str, workers: int) -> dict[str, list[float]]:
    """The figures of one executor with some workers."""
    points = Grid(GRID).points()[: arguments.points]
    per_worker = arguments.tasks // workers or 1
    with started(kind, workers) as executor:
        measured(executor, 4 * workers, points, 0.05)
        idle = measured(executor, arguments.tasks, points, 0)
        asleep = measured(executor, per_worker * workers, points, arguments.sleep)
        client = swept(executor) if arguments.sweep else [0.0, 0.0]
    ideal = per_worker * arguments.sleep
    overhead = [each / arguments.tasks for each in idle]
    return {"overhead": overhead, "scaling": [ideal, asleep[0]], "client": client}


def on_mpi(arguments: argparse.Namespace, workers: int) -> dict[str, list[float]]:
    """The same in processes that MPI starts."""
    command = [arguments.mpiexec, "-n", str(workers + 1), sys.executable, "-m", "mpi4py.futures"]
    command += [__file__, "--inside", str(workers), "--points", str(arguments.points)]
    command += ["--tasks", str(arguments.tasks), "--sleep", str(arguments.sleep)]
    command += ["--sweep"] if arguments.sweep else []
    # Open MPI refuses the superuser, and more processes than cores, unless it is asked.
    asked = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    done = subprocess.run(
        command, env={**os.environ, **asked}, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executors", default="processes,dask,mpi")
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--points", type=int, default=250, help="points of a task")
    parser.add_argument("--tasks", type=int, default=160)
    parser.add_argument("--sleep", type=float, default=0.1, help="seconds of a sleeping task")
    parser.add_argument("--sweep", action="store_true", help="also a real sweep")
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        print(json.dumps(run(arguments, "mpi", arguments.inside)))
        return
    print(
        "| executor | workers | wall per task | client CPU per task | sleeping | efficiency"
        " | client CPU per row |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in arguments.executors.split(","):
        for workers in map(int, arguments.workers.split(",")):
            is_mpi = kind == "mpi"
            found = on_mpi(arguments, workers) if is_mpi else run(arguments, kind, workers)
            wall, cpu = found["overhead"]
            ideal, asleep = found["scaling"]
            rows, client = found["client"]
            per_row = f"{1e6 * client:.0f} us" if rows else "-"
            print(
                f"| {kind} | {workers} | {1e3 * wall:.2f} ms | {1e3 * cpu:.2f} ms |"
                f" {asleep:.2f} s | {100 * ideal / asleep:.0f} % | {per_row} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

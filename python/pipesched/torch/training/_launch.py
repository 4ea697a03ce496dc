"""The processes of a training: started here, one per worker, or by torchrun."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import Store

import pipesched.torch
from pipesched import PipeSchedError
from pipesched.torch import PipelineError, PipelineTimeout, RemoteError

from ._trainer import Job, Outcome, Report, Trainer, device_of

STORE = "PIPESCHED_STORE"
"""The variable that names the file through which the ranks of this machine meet."""

GRACE = 10.0
"""The seconds that all ranks have to end after one has failed. Then they are killed."""

LOOK = 0.5
"""The seconds between two looks for ranks that are stopped, after one has failed."""

PASSED_ON = tuple(
    str(Path(module.__file__).parent)
    for module in (pipesched.torch, nn, dist)
    if module.__file__ is not None
)
"""Source folders whose frames are of no use to the user."""

Kind = Literal["killed", "failed", "waited", "lost", "remote"]
ORDER: tuple[Kind, ...] = ("killed", "failed", "waited", "lost", "remote")
"""The order in which failures count as the cause of others."""

LOST = ("gloo/transport", "onnection reset by peer", "onnection closed by peer", "Broken pipe")
"""Messages of PyTorch about a connection that has ended."""


class RankFailed(PipeSchedError):
    """A rank did not finish. The text has its exception, and the cell in which it happened."""


@dataclass
class Failure:
    """How a rank ended before its time."""

    kind: Kind
    rank: int
    text: str


def failure_of(error: BaseException, rank: int) -> Failure:
    """Describes an exception without the frames that only pass on calls."""
    if isinstance(error, RemoteError):
        return Failure("remote", rank, f"rank {rank}: {error}")
    if isinstance(error, PipelineTimeout):
        return Failure("waited", rank, str(error))
    if isinstance(error, RuntimeError) and any(each in str(error) for each in LOST):
        text = str(error).split(". This is typically caused by", 1)[0]
        if "Timed out" in text:
            return Failure("waited", rank, f"rank {rank} waited for another rank: {text}")
        return Failure(
            "lost",
            rank,
            f"rank {rank} lost its connection to another rank: {text}\nif no rank has ended, "
            "another program has connected to a port of this run, which gloo does not notice; "
            "run again",
        )
    said = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in said.stack if not frame.filename.startswith(PASSED_ON)]
    said.stack = traceback.StackSummary.from_list(frames)
    shown = "".join(said.format(chain=False)).rstrip() if frames else _line(error)
    return Failure("failed", rank, f"rank {rank} failed:\n{shown}")


def _line(error: BaseException) -> str:
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


def train(job: Job, report: Report, store: Store | None = None) -> list[Outcome]:
    """Trains as one rank. The environment gives its number, and the store unless one is passed."""
    device_of(job.backend)
    try:
        dist.init_process_group(
            job.backend,
            store=store,
            rank=int(os.environ["RANK"]) if store else -1,
            world_size=int(os.environ["WORLD_SIZE"]) if store else -1,
            timeout=datetime.timedelta(seconds=job.timeout),
        )
    except RuntimeError as error:
        text = f"rank {os.environ['RANK']} did not connect to the other ranks: {error}"
        is_late = "timeout" in text.lower() or "timed out" in text.lower()
        raise (PipelineTimeout if is_late else PipelineError)(text) from error
    outcomes = Trainer(job, report if dist.get_rank() == 0 else lambda text: None).run()
    dist.destroy_process_group()
    return outcomes


def join(job: Job, report: Report) -> list[Outcome] | None:
    """Trains as a rank of torchrun; returns the outcomes on rank 0. Raises RankFailed."""
    rank = int(os.environ["RANK"])
    try:
        outcomes = train(job, report)
    except Exception as error:
        raise RankFailed(failure_of(error, rank).text) from None
    return None if rank else outcomes


# Ranks of this machine


@dataclass
class Rank:
    """A process, as its parent sees it."""

    number: int
    process: subprocess.Popen[bytes]
    connection: Connection
    has_ended: bool = False

    def is_stopped(self) -> bool:
        """Whether its process waits for SIGCONT."""
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.process.pid, how) is not None
        return False


@dataclass
class Run:
    """The messages of the ranks."""

    ranks: list[Rank]
    report: Report
    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    silent: str = ""
    """The ranks that did not end after a failure of others, in words."""
    explained: tuple[Kind, ...] = ()
    """The kinds of failures that these ranks cause."""

    def follow(self) -> None:
        """Reads messages until all ranks have ended, after a failure at most `GRACE` seconds."""
        end = float("inf")
        while waiting := {r.connection: r for r in self.ranks if not r.has_ended}:
            if self.failures:
                end = min(end, time.monotonic() + GRACE)
            ready = wait(list(waiting), LOOK if self.failures else None)
            if not ready and self._are_silent(list(waiting.values()), time.monotonic() >= end):
                return
            for connection in ready:
                assert isinstance(connection, Connection)
                self._hear(waiting[connection])

    def _are_silent(self, ranks: list[Rank], is_late: bool) -> bool:
        """Whether these ranks are not waited for: all of them are stopped, or it is late."""
        stopped = [str(rank.number) for rank in ranks if rank.is_stopped()]
        if stopped and (is_late or len(stopped) == len(ranks)):
            self.silent = f"rank {', '.join(stopped)} is stopped (SIGSTOP, or a debugger)"
            self.explained = ("waited", "lost", "remote")
        elif is_late:
            numbers = ", ".join(str(rank.number) for rank in ranks)
            self.silent = f"rank {numbers} did not answer, and was killed"
            self.explained = ("waited",)
        return bool(self.silent)

    def _hear(self, rank: Rank) -> None:
        try:
            kind, value = rank.connection.recv()
        except (EOFError, ConnectionResetError):
            rank.has_ended = True
            self._check_status(rank)
            return
        if kind == "progress":
            self.report(value)
        elif kind == "failure":
            self.failures.append(value)
        else:
            self.outcomes = value

    def _check_status(self, rank: Rank) -> None:
        status = rank.process.wait()
        if status < 0:
            name = signal.Signals(-status).name
            text = f"rank {rank.number} was killed by {name}"
            self.failures.append(Failure("killed", rank.number, text))
        elif status and not any(f.rank == rank.number for f in self.failures):
            text = f"rank {rank.number} ended with exit status {status}"
            self.failures.append(Failure("killed", rank.number, text))

    def cause(self) -> Failure | None:
        """The failure that caused the others; waits are caused by ranks that do not answer."""
        found = min(self.failures, key=lambda f: ORDER.index(f.kind), default=None)
        if found is not None and found.kind in self.explained:
            return replace(found, text=f"{self.silent}\n{found.text}")
        return found


def launch(job: Job, report: Report) -> list[Outcome]:
    """Starts a process per worker; returns the outcomes. Raises RankFailed. The ranks meet in a
    private folder: anybody could reach a port.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pipesched-", ignore_cleanup_errors=True) as folder,
        _processes(job, os.path.join(folder, "store")) as ranks,
    ):
        run = Run(ranks, report)
        run.follow()
        cause = run.cause()
    if cause is not None:
        raise RankFailed(cause.text)
    return run.outcomes


@contextmanager
def _processes(job: Job, store: str) -> Iterator[list[Rank]]:
    ranks: list[Rank] = []
    try:
        for number in range(job.workers):
            ranks.append(_start(job, number, store))
        for rank in ranks:
            with suppress(OSError):  # it has ended already, and `Run` notices that
                rank.connection.send(job)
        yield ranks
    finally:
        _end(ranks)


def _start(job: Job, number: int, store: str) -> Rank:
    parent, child = Pipe()
    ranking = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": job.workers}
    # Gloo and NCCL listen as well; keep them on this machine, even if the user has set an interface
    # for several machines.
    meeting = {STORE: store, "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), job.threads)
    given: Mapping[str, Any] = {**os.environ, **ranking, **meeting, **threads}
    environment = {key: str(value) for key, value in given.items()}
    module = "pipesched.torch.training._rank"
    with child:
        process = subprocess.Popen(
            # With -P no file of the current folder takes the place of a module.
            [sys.executable, "-P", "-m", module, str(child.fileno())],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=2,  # output of the model is not an answer of the command
            pass_fds=[child.fileno()],
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the ranks.
        )
    return Rank(number, process, parent)


def _end(ranks: list[Rank]) -> None:
    """Ends the processes that are left."""
    for rank in ranks:
        rank.connection.close()  # ranks that still train end when they read this
        if rank.process.poll() is None:
            rank.process.kill()
    for rank in ranks:
        rank.process.wait()

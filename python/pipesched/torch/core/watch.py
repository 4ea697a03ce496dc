"""Waits that cannot hang: every wait ends when its condition holds, when another rank fails, or at
the time limit. Another thread waits inside PyTorch, which nothing can interrupt; the runtime
waits for the thread and looks for failures meanwhile.

The store of torch.distributed has three kinds of keys:

    failed           the first failure of any rank, as JSON
    left             that the rank which failed first ends
    place/RANK       where a rank was when it saw that failure
    meet/NAME/RANK   the value of a rank that comes to a meeting of all ranks

The store may be in a process that is stopped, so that another thread asks it too. Before the
interpreter ends, threads that still wait for messages are ended (`_break_waits`): one that returned
from PyTorch later would abort the process. Ranks that did not fail end after the one that did,
which launchers such as torchrun take for the cause.
"""

from __future__ import annotations

import atexit
import datetime
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from .errors import PipelineError, PipelineTimeout, RemoteError

LOOK_SECONDS = 0.2
"""Seconds between looks for failures, plus one per thousand ranks: one process serves all."""
CLOSE_SECONDS = 5.0
PLACES_SECONDS = 3.0
LEAVE_SECONDS = 5.0
"""The time that a rank waits at its end for the end of the rank that failed first."""
BEHIND_SECONDS = 1.5
"""How much later it ends. Launchers look at processes ten times a second, and note seconds."""
SPIN_SECONDS = 0.0002
"""The time to poll for a message before another thread waits for it, which takes as long."""
BREAK_TAG = 32_767
"""A tag without messages: tags of messages are multiples of 4 plus at most 2."""
MOVE_SECONDS = 1.0
"""The interval of checks whether something that all ranks do together makes progress."""
KEPT_BYTES = 1 << 16
"""The most sent bytes to keep until the end of a step; more are released when they are sent."""
_pause: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))


class Failure(NamedTuple):
    rank: int
    is_timeout: bool
    text: str
    origin: str = ""
    """The name of the pipeline, if the rank belongs to another pipeline as well."""


What = Callable[[], str]
Lane = SimpleQueue[Any]
"""Calls that another thread runs one after the other."""


class Job:
    """Waits inside PyTorch, in turn, and the objects that must live until they end."""

    def __init__(self, calls: list[tuple[Callable[[], Any], What]], keeps: Any) -> None:
        self.calls = calls
        self.keeps = keeps
        self.what: What = calls[0][1]
        """A description of the call that runs, or that failed."""
        self.error: BaseException | None = None
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        try:
            for call, what in self.calls:
                self.what = what
                call()
        except BaseException as error:
            self.error = error
        self.calls, self.keeps = [], None
        self._running.release()

    def is_over(self, seconds: float = 0.0) -> bool:
        """Waits up to some seconds, and returns whether the thread has ended."""
        is_ended = self._running.acquire(timeout=seconds)
        if is_ended:
            self._running.release()
        return is_ended


def _serve(jobs: Lane) -> None:
    while (job := jobs.get()) is not None:
        job.run()


_failed: list[Watch] = []
"""The watches of this process that know of the failure of another rank."""


def _leave_in_order() -> None:
    """Lets the process of the rank that failed first end before this one."""
    for watch in _failed:
        watch.await_leaving()
    if _failed:
        time.sleep(BEHIND_SECONDS)


atexit.register(_leave_in_order)


def _break_waits(carrier: Any, rank: int, size: int) -> None:
    """Ends all waits in a process group of gloo, also of other threads, as a timeout does."""
    try:
        empty = torch.empty(1, dtype=torch.uint8)
        work = carrier.recv([empty], (rank + 1) % size, BREAK_TAG)
        work.wait(datetime.timedelta(milliseconds=1))
    except RuntimeError:
        pass


class Watch:
    """The waits of one rank, and the failures that it knows of."""

    def __init__(self, store: Store, rank: int, size: int, limit: float) -> None:
        self.rank, self.size, self.limit = rank, size, limit
        self.place: Callable[[], str] = lambda: "outside of step()"
        self.failure: Failure | None = None
        self.waits_for: What | None = None
        self.store = store
        untyped: Any = store
        self._second_store: Store = untyped.clone()  # threads that share a store take turns
        self._shared: list[tuple[Store, str]] = []
        self._kept: list[tuple[Callable[[], Any], What]] = []
        self._kept_buffers: list[Tensor] = []
        self._kept_bytes = 0
        self._unseen: list[Job] = []
        self._is_deaf = False
        """Whether the store has once not answered in time."""
        self._carriers: list[tuple[Any, int, int]] = []
        self._inside: list[tuple[Any, int, int]] = []
        self._active = threading.Event()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lanes: list[Lane] = []
        self._waits, self._sends, self._questions = self.lane(), self.lane(), self.lane()
        self._start_thread(self._look)

    def _start_thread(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        """Ends its threads: the interpreter must not end while one is inside PyTorch."""
        if not self._closing.is_set() and self.failure is not None:
            self._leave()
        self._closing.set()
        for lane in self._lanes:
            lane.put(None)
        self._active.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(CLOSE_SECONDS if self.failure is None else LOOK_SECONDS)

    def carry(self, carrier: Any, rank: int, size: int, is_inside: bool = False) -> None:
        """Notes a process group of gloo in which this rank may wait, also inside of a cell."""
        which = (carrier, rank, size)
        if size > 1 and which not in self._carriers:
            self._carriers.append(which)
        if size > 1 and is_inside:
            self._inside.append(which)

    def _leave(self) -> None:
        """Ends the waits of other threads after a failure."""
        if any(thread.is_alive() for thread in self._threads):
            for carrier, rank, size in self._carriers:
                _break_waits(carrier, rank, size)
        failure = self.failure
        assert failure is not None
        if failure.rank == self.rank and not failure.origin:
            self.ask(lambda: self.store.set("left", ""), None)

    def await_leaving(self) -> None:
        """Waits until the rank that failed first says that it ends."""
        end = time.monotonic() + LEAVE_SECONDS
        try:
            while time.monotonic() < end and not self._has("left") and not self._is_deaf:
                time.sleep(0.02)
        except Exception:  # the store is gone, as the rank may be
            pass

    def ask(self, call: Callable[[], Any], default: Any, seconds: float = PLACES_SECONDS) -> Any:
        """Asks the store; the default if it does not answer in time."""
        found = [default]

        def run() -> None:
            found[0] = call()

        if self._is_deaf:
            return default
        if self._closing.is_set():  # the thread that asks has ended
            return call()
        job = Job([(run, lambda: "the store")], None)
        self._questions.put(job)
        if not job.is_over(seconds):
            self._is_deaf = True
            return default
        if job.error is not None:
            raise job.error
        return found[0]

    # Failures

    def share(self, store: Store, origin: str) -> None:
        """Shares failures with other pipelines that use a store; origin: this one's name."""
        untyped: Any = store
        self._shared.append((untyped.clone(), origin))
        if self.failure is not None:
            self._pass_on(self.failure)

    def _pass_on(self, failure: Failure) -> None:
        for store, origin in self._shared:
            told = failure if failure.origin else failure._replace(origin=origin)
            store.compare_set("failed", "", json.dumps(told))

    def start(self) -> None:
        self.check()
        self._active.set()

    def stop(self) -> None:
        self._active.clear()

    @contextmanager
    def looking(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.stop()

    def _look(self) -> None:
        seconds = LOOK_SECONDS + self.size / 1000
        while not self._closing.is_set():
            self._active.wait()
            self._closing.wait(seconds)  # most short steps end without a look at the store
            if self._closing.is_set() or not self._active.is_set():
                continue
            self._hear()
            if self.failure:
                for carrier, rank, size in self._inside:
                    _break_waits(carrier, rank, size)
                self._active.clear()

    def _hear(self) -> None:
        try:
            for store in (self._second_store, *(store for store, _ in self._shared)):
                if self.failure is None and store.check(["failed"]):
                    self._see(Failure(*json.loads(store.get("failed"))))
        except Exception as error:
            text = f"the store of torch.distributed does not answer: {error}"
            self.failure = self.failure or Failure(-1, False, text)

    def hear_inside(self) -> None:
        """Looks for a failure at once: the end of another rank may cause errors of modules."""
        if self._inside and self.failure is None:
            self._hear()

    def _see(self, failure: Failure) -> None:
        self._second_store.compare_set("failed", "", json.dumps(failure))
        self._second_store.set(f"place/{self.rank}", self.place())
        self.failure = failure
        self._pass_on(failure)

    def check(self) -> None:
        failure = self.failure
        if failure is None:
            return
        if failure.is_timeout:
            raise PipelineTimeout(f"{failure.text}\n{self._places()}")
        if failure.rank == self.rank and not failure.origin:
            raise PipelineError(f"this runtime has failed before: {failure.text}")
        if self not in _failed and failure.rank >= 0:
            _failed.append(self)
        name = f"rank {failure.rank}{failure.origin}"
        raise RemoteError(f"{name} failed: {failure.text}", failure.rank)

    def check_others(self, cause: BaseException) -> None:
        """Raises an earlier failure of another rank from the error that it has caused."""
        failure = self.failure
        if failure is not None and (failure.rank != self.rank or failure.origin):
            try:
                self.check()
            except PipelineError as error:
                raise error from cause

    def fail(self, error: BaseException, where: str, is_timeout: bool = False) -> None:
        """Reports a failure of this rank to all ranks, unless another rank failed first."""
        if self.failure is not None:
            return
        text = str(error) if is_timeout else f"{where}: {type(error).__name__}: {error}"
        failure = Failure(self.rank, is_timeout, text)
        own = json.dumps(failure)
        place = ""

        def tell() -> Any:
            first = self.store.compare_set("failed", "", own)
            self.store.set(f"place/{self.rank}", place)
            return first

        try:
            place = self.place()  # which may ask the store as well
            failure = Failure(*json.loads(self.ask(tell, own)))
        except Exception:  # the store is gone, and its other users notice that themselves
            pass
        self.failure = failure
        try:
            self.ask(lambda: self._pass_on(failure), None)
        except Exception:
            pass

    def _places(self) -> str:
        """Returns where each rank is; first ranks that do not answer."""
        end = time.monotonic() + PLACES_SECONDS
        keys = {rank: f"place/{rank}" for rank in range(self.size)}
        lines: list[str] = []
        silent: list[str] = []
        for rank, key in keys.items():
            try:
                while not self._has(key) and time.monotonic() < end and not self._is_deaf:
                    time.sleep(0.02)
                known = self._has(key)
                found = self.ask(partial(self._read, key), None) if known else None
            except Exception:
                found = None
            lines.append(f"rank {rank}: {found or 'no answer: outside of step(), or gone'}")
            silent += [] if found else [str(rank)]
        if silent and not self._is_deaf:
            lines.insert(0, f"no answer from rank {', '.join(silent)}: stopped, busy, or gone")
        return "\n".join(lines)

    def _read(self, key: str) -> str:
        return self.store.get(key).decode()

    def _has(self, key: str) -> bool:
        return bool(self.ask(lambda: self.store.check([key]), False))

    # Waits

    def wait(
        self,
        call: Callable[[], Any],
        what: What,
        keeps: Any = None,
        words: Any = None,
        has_come: Callable[[], bool] | None = None,
        moves: Callable[[], Any] | None = None,
    ) -> None:
        """Waits until a call of PyTorch returns, and keeps its buffers until then. moves: the
        progress of the call on all ranks, from which the limit counts. words: the trailer of a
        received buffer, whose second word is 0 until all has arrived; polling it or `has_come`
        spares another thread.
        """
        if words is not None:
            has_come = lambda: bool(words[1])
        if has_come is not None and self._sees(has_come):
            self.start_call(call, what)  # returns at once
            return
        job = Job([(call, what)], keeps)
        self._waits.put(job)
        self._await(job, moves)

    def wait_for(self, tensor: Tensor, work: Any, what: What) -> None:
        """Waits for a collective; on an accelerator only the stream of this thread waits."""
        if tensor.device.type == "cpu":
            self.wait(work.wait, what)
        else:
            self.start_call(work.wait, what)

    def _sees(self, has_come: Callable[[], bool]) -> bool:
        """Polls for a message for a short time; returns whether it has arrived."""
        if has_come():
            return True
        end = time.perf_counter() + SPIN_SECONDS
        while time.perf_counter() < end:
            _pause()
            if has_come():
                return True
        return False

    def keep(self, call: Callable[[], Any], buffer: Tensor, what: What) -> None:
        """Keeps the buffer of a send; another thread releases many bytes when they are sent."""
        self._kept.append((call, what))
        self._kept_buffers.append(buffer)
        self._kept_bytes += buffer.nbytes
        if self._kept_bytes > KEPT_BYTES:
            self._hand_over()

    @property
    def kept_bytes(self) -> int:
        """The bytes of messages that are not known to be sent."""
        waiting = [job.keeps or () for job in self._unseen if not job.is_over()]
        return self._kept_bytes + sum(int(buffer.nbytes) for kept in waiting for buffer in kept)

    def _hand_over(self) -> None:
        self._unseen = [job for job in self._unseen if job.error or not job.is_over()]
        if self._kept:
            job = Job(self._kept, self._kept_buffers)
            self._unseen.append(job)
            self._sends.put(job)
        self._kept, self._kept_buffers, self._kept_bytes = [], [], 0

    def flush(self) -> None:
        self._hand_over()
        unseen, self._unseen = self._unseen, []
        for job in unseen:
            self._await(job)

    def _await(self, job: Job, moves: Callable[[], Any] | None = None) -> None:
        look, seen = time.monotonic(), None
        end = look + self.limit
        self.waits_for = what = lambda: job.what()
        while not job.is_over(0.05):
            if moves is not None and time.monotonic() > look:
                found, look = moves(), time.monotonic() + MOVE_SECONDS
                if found != seen:
                    seen, end = found, time.monotonic() + self.limit
            self._hold(end, what)
        self.waits_for = None
        if job.error is not None:
            self._lose(job.error, what)

    def lane(self) -> Lane:
        made: Lane = SimpleQueue()
        self._lanes.append(made)
        self._start_thread(_serve, made)
        return made

    def later(self, lane: Lane, call: Callable[[], Any], what: What) -> Job:
        """Runs a call in the thread of a lane, after all earlier calls; `wait_job` waits."""
        job = Job([(call, what)], None)
        lane.put(job)
        return job

    def wait_job(self, job: Job) -> None:
        self._await(job)

    def start_call(self, call: Callable[[], Any], what: What) -> Any:
        """Runs a call of PyTorch that starts to send or receive, and returns its result."""
        try:
            return call()
        except RuntimeError as error:
            self._lose(error, what)

    def _lose(self, error: BaseException, what: What) -> NoReturn:
        """Raises the failure of the rank that failed, or the error for a lost peer."""
        last = time.monotonic() + 3 * LOOK_SECONDS + self.size / 500
        while time.monotonic() < last:
            self.check()
            time.sleep(0.02)
        raise PipelineError(f"lost {what()}: {error}") from error

    def poll(self, is_done: Callable[[], bool], what: What) -> None:
        end = time.monotonic() + self.limit
        pause = 0.0005
        self.waits_for = what
        while not is_done():
            self._hold(end, what)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        self.waits_for = None

    def _hold(self, end: float, what: What) -> None:
        self.check()
        if time.monotonic() >= end:
            self._time_out(what)

    def _time_out(self, what: What) -> NoReturn:
        text = f"rank {self.rank} waited {self.limit:g} s for {what()}"
        self.fail(PipelineTimeout(text), "", is_timeout=True)
        self.check()
        raise PipelineTimeout(text)

    def meet(self, name: str, saying: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        """Waits until all ranks, or these, come, and returns their values (JSON)."""
        everyone = range(self.size) if ranks is None else ranks
        return self.meet_in(self.store, name, saying, self.rank, everyone, "rank")

    def meet_in(
        self, store: Store, name: str, saying: Any, own: int, everyone: Sequence[int], who: str
    ) -> list[Any]:
        """Runs `meet` in a store of other ranks; `who` precedes their numbers in messages."""
        keys = {number: f"meet/{name}/{number}" for number in everyone}
        self.ask(lambda: store.set(keys[own], json.dumps(saying)), None, self.limit)

        def are_here(*chosen: str, seconds: float = PLACES_SECONDS) -> bool:
            return bool(self.ask(lambda: store.check(list(chosen)), False, seconds))

        def missing() -> str:
            absent = [str(number) for number, key in keys.items() if not are_here(key)]
            if self._is_deaf:
                return f"the store of torch.distributed to answer about {name!r}"
            return f"{who} {', '.join(absent)} to come to {name!r}"

        self.poll(lambda: are_here(*keys.values(), seconds=self.limit), missing)
        told = self.ask(lambda: [store.get(key) for key in keys.values()], None, self.limit)
        if told is None:
            self._time_out(missing)
        return [json.loads(each) for each in told]

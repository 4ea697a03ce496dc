"""Waiting without hanging: every wait ends with what it waits for, with the failure of another
rank, or with the time limit.

A thread of its own waits inside PyTorch, since nothing can interrupt that; the runtime waits for
the thread and looks for failures meanwhile. The store of torch.distributed has three kinds of keys:

    failed        the first failure of any rank, as JSON
    place/RANK    where a rank was when it saw that failure
    meet/NAME/RANK  what a rank says when it comes to a meeting of all ranks
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn

from torch.distributed.distributed_c10d import Store

from ._errors import PipelineError, PipelineTimeout, RemoteError

LOOK_SECONDS = 0.2
"""How often a rank in a step looks for failures of others; per thousand ranks a second more, since
one process serves them all."""
CLOSE_SECONDS = 5.0
"""How long to wait for a thread to end."""
PLACES_SECONDS = 3.0
"""How long to wait for the places of other ranks after a time limit."""


class Failure(NamedTuple):
    """The first failure of any rank."""

    rank: int
    is_timeout: bool
    text: str
    origin: str = ""
    """If it is a rank of another pipeline beside this one, which pipeline in words."""


class _Job:
    """A wait inside PyTorch, with what must live until it ends."""

    def __init__(self, call: Callable[[], Any], keeps: Any) -> None:
        self.call = call
        self.keeps = keeps
        self.done = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.call()
        except BaseException as error:
            self.error = error
        self.keeps = None
        self.done.set()


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.run()


class Watch:
    """The waits of one rank, and what it knows of the others."""

    def __init__(self, store: Store, rank: int, size: int, limit: float) -> None:
        self.rank, self.size, self.limit = rank, size, limit
        self.place: Callable[[], str] = lambda: "outside of step()"
        self.failure: Failure | None = None
        self.waits_for: Callable[[], str] | None = None
        """What it waits for now, in words."""
        self.store = store
        untyped: Any = store
        self._second_store: Store = untyped.clone()  # Threads that share one take turns.
        self._shared: list[tuple[Store, str]] = []
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._behind: SimpleQueue[_Job | None] = SimpleQueue()
        self._unseen: list[tuple[_Job, str]] = []
        self._active = threading.Event()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        for target, arguments in (
            (_serve, (self._jobs,)),
            (_serve, (self._behind,)),
            (self._look, ()),
        ):
            thread = threading.Thread(target=target, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Ends its threads, and waits for them: the interpreter must not end while one of them is
        inside PyTorch. A wait that a failure has left behind never ends.
        """
        self._closing.set()
        self._jobs.put(None)
        self._behind.put(None)
        self._active.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(CLOSE_SECONDS if self.failure is None else LOOK_SECONDS)

    # Failures

    def share(self, store: Store, origin: str) -> None:
        """Passes failures on to the ranks of other pipelines that use this store, and takes theirs.
        `origin` says in words where those of this pipeline come from.
        """
        untyped: Any = store
        self._shared.append((untyped.clone(), origin))
        if self.failure is not None:
            self._pass_on(self.failure)

    def _pass_on(self, failure: Failure) -> None:
        for store, origin in self._shared:
            told = failure if failure.origin else failure._replace(origin=origin)
            store.compare_set("failed", "", json.dumps(told))

    def start(self) -> None:
        """Begins to look for failures."""
        self.check()
        self._active.set()

    def stop(self) -> None:
        """Ends looking for them."""
        self._active.clear()

    def _look(self) -> None:
        seconds = LOOK_SECONDS + self.size / 1000
        while True:
            self._active.wait()
            if self._closing.is_set():
                return
            try:
                for store in (self._second_store, *(store for store, _ in self._shared)):
                    if self.failure is None and store.check(["failed"]):
                        self._see(Failure(*json.loads(store.get("failed"))))
            except Exception as error:
                text = f"the store of torch.distributed does not answer: {error}"
                self.failure = self.failure or Failure(-1, False, text)
            if self.failure:
                self._active.clear()
            self._closing.wait(seconds)

    def _see(self, failure: Failure) -> None:
        self._second_store.compare_set("failed", "", json.dumps(failure))
        self._second_store.set(f"place/{self.rank}", self.place())
        self.failure = failure
        self._pass_on(failure)

    def check(self) -> None:
        """Raises if a rank has failed."""
        failure = self.failure
        if failure is None:
            return
        if failure.is_timeout:
            raise PipelineTimeout(f"{failure.text}\n{self._places()}")
        if failure.rank == self.rank and not failure.origin:
            raise PipelineError(f"this runtime has failed before: {failure.text}")
        name = f"rank {failure.rank}{failure.origin}"
        raise RemoteError(f"{name} failed: {failure.text}", failure.rank)

    def fail(self, error: BaseException, where: str, is_timeout: bool = False) -> None:
        """Tells all ranks of a failure of this one, unless another one was first."""
        if self.failure is not None:
            return
        text = str(error) if is_timeout else f"{where}: {type(error).__name__}: {error}"
        failure = Failure(self.rank, is_timeout, text)
        try:
            first = self.store.compare_set("failed", "", json.dumps(failure))
            self.store.set(f"place/{self.rank}", self.place())
            failure = Failure(*json.loads(first))
        except Exception:  # The store is gone; its other users see that by themselves.
            pass
        self.failure = failure
        try:
            self._pass_on(failure)
        except Exception:
            pass

    def _places(self) -> str:
        """Where each rank is."""
        end = time.monotonic() + PLACES_SECONDS
        keys = {rank: f"place/{rank}" for rank in range(self.size)}
        lines = []
        for rank, key in keys.items():
            try:
                while not self.store.check([key]) and time.monotonic() < end:
                    time.sleep(0.02)
                found = self.store.get(key).decode() if self.store.check([key]) else None
            except Exception:
                found = None
            lines.append(f"rank {rank}: {found or 'no answer: outside of step(), or gone'}")
        return "\n".join(lines)

    # Waits

    def wait(self, call: Callable[[], Any], what: Callable[[], str], keeps: Any = None) -> None:
        """Waits until a call of PyTorch returns, and keeps buffers of it until then. `what` says in
        words what it waits for.
        """
        job = _Job(call, keeps)
        self._jobs.put(job)
        self._await(job, what)

    def wait_behind(self, call: Callable[[], Any], keeps: Any, what: str) -> None:
        """Lets another thread wait; `flush` sees how it ended."""
        self._unseen = [(job, name) for job, name in self._unseen if not self._is_over(job)]
        job = _Job(call, keeps)
        self._unseen.append((job, what))
        self._behind.put(job)

    @staticmethod
    def _is_over(job: _Job) -> bool:
        return job.done.is_set() and job.error is None

    def flush(self) -> None:
        """Waits for all that other threads wait for."""
        unseen, self._unseen = self._unseen, []
        for job, name in unseen:
            self._await(job, lambda name=name: name)  # type: ignore[misc]

    def _await(self, job: _Job, what: Callable[[], str]) -> None:
        end = time.monotonic() + self.limit
        self.waits_for = what
        while not job.done.wait(0.05):
            self._hold(end, what)
        self.waits_for = None
        if job.error is not None:
            self._lose(job.error, what)

    def start_call(self, call: Callable[[], Any], what: Callable[[], str]) -> Any:
        """What a call of PyTorch returns that begins to send or receive."""
        try:
            return call()
        except RuntimeError as error:
            self._lose(error, what)

    def _lose(self, error: BaseException, what: Callable[[], str]) -> NoReturn:
        """Raises for a peer that is gone: if a rank has failed, that tells more."""
        last = time.monotonic() + 3 * LOOK_SECONDS + self.size / 500
        while time.monotonic() < last:
            self.check()
            time.sleep(0.02)
        raise PipelineError(f"lost {what()}: {error}") from error

    def poll(self, is_done: Callable[[], bool], what: Callable[[], str]) -> None:
        """Waits until a condition holds."""
        end = time.monotonic() + self.limit
        pause = 0.0005
        self.waits_for = what
        while not is_done():
            self._hold(end, what)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        self.waits_for = None

    def _hold(self, end: float, what: Callable[[], str]) -> None:
        self.check()
        if time.monotonic() < end:
            return
        text = f"rank {self.rank} waited {self.limit:g} s for {what()}"
        self.fail(PipelineTimeout(text), "", is_timeout=True)
        self.check()

    def meet(self, name: str, saying: Any) -> list[Any]:
        """Waits for all ranks to come here; returns what each of them says (JSON)."""
        self.store.set(f"meet/{name}/{self.rank}", json.dumps(saying))
        keys = [f"meet/{name}/{rank}" for rank in range(self.size)]

        def missing() -> str:
            absent = [rank for rank, key in enumerate(keys) if not self.store.check([key])]
            return f"rank {', '.join(map(str, absent))} to come to {name!r}"

        self.poll(lambda: self.store.check(keys), missing)
        return [json.loads(self.store.get(key)) for key in keys]

"""A rank that `launch` has started: `python -P -m pipesched.torch.training._rank NUMBER`, the
descriptor of a connection to the parent for the job, progress and outcomes.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Lock, Thread
from typing import Any

from torch.distributed import FileStore  # type: ignore[attr-defined]

from ._launch import STORE, failure_of, train


def end_with(parent: Connection) -> None:
    """Ends this process with its parent, and removes the folder of the store."""
    try:
        parent.recv()
    except (EOFError, OSError):
        with suppress(OSError):
            os.unlink(os.environ[STORE])
        with suppress(OSError):
            os.rmdir(os.path.dirname(os.environ[STORE]))
        os._exit(1)


def main() -> int:
    """Trains, and returns the exit status."""
    parent, lock = Connection(int(sys.argv[1])), Lock()
    rank = int(os.environ["RANK"])

    def say(kind: str, value: Any) -> None:
        with lock:
            parent.send((kind, value))

    job = parent.recv()
    Thread(target=end_with, args=(parent,), daemon=True).start()
    try:
        store = FileStore(os.environ[STORE], int(os.environ["WORLD_SIZE"]))
        outcomes = train(job, lambda text: say("progress", text), store)
    except BaseException as error:
        say("failure", failure_of(error, rank))
        return 1
    if rank == 0:
        say("outcomes", outcomes)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # Threads of a process group that has failed may never end.

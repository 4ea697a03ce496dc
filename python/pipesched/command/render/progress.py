"""What surrounds a search: Ctrl-C ends it with its result, and a bar shows the time."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def keep_result() -> Iterator[list[bool]]:
    """Within this block Ctrl-C once ends the search with its result; the list tells it."""
    seen: list[bool] = []

    def note(*_: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(True)

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def progress(limit: float) -> Iterator[None]:
    """A bar of the time on standard error if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    ended = threading.Event()
    columns = (TextColumn("searching"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=limit)
        begin = time.monotonic()

        def tick() -> None:
            while not ended.wait(0.2):
                bar.update(task, completed=min(limit, time.monotonic() - begin))

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

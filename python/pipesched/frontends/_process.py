"""Running torch-mlir in a separate process, whose end by a signal is an error like others."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

_SCRIPT = Path(__file__).with_name("_worker.py")


class Failure(Exception):
    """A request that failed; the text has the reason."""


class Worker:
    """The process, which starts with the first request and again after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def lower(self, text: str, passes: Sequence[str], dialects: str = "") -> str:
        """The text of a module after pipelines of passes, or raises Failure."""
        return str(self._ask("lower", text, list(passes), dialects))

    def run(self, text: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of the function `main`, as integers with the bits of the numbers, or raises
        Failure.
        """
        return list(self._ask("run", text, list(arguments)))

    def _ask(self, *request: Any) -> Any:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            kind, answer = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self._process = None
            process.stdin.close()
            process.stdout.close()
            code = process.wait()
            raise Failure(f"ends torch-mlir by {_name(code)}") from None
        if kind == "error":
            raise Failure(answer)
        return answer


def _name(code: int) -> str:
    """`SIGSEGV` of -11."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit status {code}"

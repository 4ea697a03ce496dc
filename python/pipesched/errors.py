"""Errors, warnings and remarks, with their places."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "remark", "note"]
_Raw = tuple[Severity, str, tuple[str, int, int] | None, list["_Raw"]]

_log = logging.getLogger("pipesched")


@dataclass(frozen=True)
class Location:
    """A place in a file or text; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One diagnostic: its message, its place if that is known, and notes with details."""

    severity: Severity
    message: str
    location: Location | None = None
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        lines = [f"{place}{self.severity}: {self.message}", *map(str, self.notes)]
        return "\n".join(lines)


class PipeSchedError(Exception):
    """Something could not be read, generated, verified, transformed or timed.

    `diagnostics` has everything that was reported, in order, errors included.
    """

    def __init__(self, diagnostics: str | Iterable[Diagnostic]) -> None:
        if isinstance(diagnostics, str):
            diagnostics = [Diagnostic("error", diagnostics)]
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


@contextmanager
def needing(module: str, package: str, advice: str) -> Iterator[None]:
    """Raises an ImportError that names the missing package and how to install it, if an import in
    the block fails.
    """
    try:
        yield
    except ImportError as error:
        text = f"{module} needs {package}, which pipesched does not install"
        raise ImportError(f"{text} ({error}): {advice}") from error


class WrongType(PipeSchedError, TypeError):
    """An argument has a wrong type."""


class OutOfRange(PipeSchedError, IndexError):
    """A number of a worker, stage or microbatch that a schedule does not have."""


class VerificationError(PipeSchedError):
    """A schedule or program was examined, and the proof failed; the diagnostics give the place."""


class PipeSchedWarning(UserWarning):
    """A call succeeded, but probably not as the user wanted."""


def _read(raw: _Raw) -> Diagnostic:
    severity, message, place, notes = raw
    location = Location(*place) if place else None
    return Diagnostic(severity, message, location, tuple(map(_read, notes)))


def said_by(error: Exception) -> str:
    """Returns the message of an error, without its place."""
    return error.diagnostics[0].message if isinstance(error, PipeSchedError) else str(error)


def error_of(raw: Sequence[_Raw]) -> PipeSchedError:
    """The exception for these diagnostics of the library."""
    return PipeSchedError(map(_read, raw) if raw else "failed without saying why")


def report(raw: Sequence[_Raw]) -> None:
    """Reports the diagnostics of a call that succeeded: warnings as such, remarks in the log."""
    for diagnostic in map(_read, raw):
        if diagnostic.severity == "warning":
            warnings.warn(str(diagnostic), PipeSchedWarning, stacklevel=3)
        else:
            _log.info("%s", diagnostic)

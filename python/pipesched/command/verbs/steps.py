"""`pipesched fit` with measured steps of own trainings, which correct a system."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import pipesched
from pipesched import PipeSchedError
from pipesched.fitting import Correction, fit_steps
from pipesched.fitting.files import head_of, is_steps

from ..options.arguments import UsageError, source
from ..render.output import Column, say, seconds, signed_percent, write_rows

OF_SAMPLES = ("settings", "message_bytes", "dtype", "samples")
"""Options that are about samples of kernels and messages."""

COLUMNS = (
    Column("step", "name", left=True, wraps=True),
    Column("measured", "measured_s", seconds),
    Column("predicted before", "before_s", seconds, detail=1),
    Column("error", "error_before", signed_percent),
    Column("predicted after", "after_s", seconds, detail=1),
    Column("error", "error_after", signed_percent),
)


def are_steps(files: Sequence[str]) -> bool:
    """Whether the files have measured steps. Refuses them beside samples."""
    kinds = {file: os.path.isfile(file) and is_steps(head_of(Path(file))) for file in files}
    if any(kinds.values()) and not all(kinds.values()):
        steps = next(file for file, has in kinds.items() if has)
        raise PipeSchedError(
            f"{steps} has measured steps, which correct a system, and others have samples, which"
            " make one; fit the samples first, and the steps with --system and what that saves"
        )
    return all(kinds.values()) and bool(kinds)


def _terms(made: Correction) -> list[str]:
    """What was corrected, one line for each field."""
    lines = []
    for term in made.terms:
        if term.is_determined:
            lines.append(
                f"{term.term}: {term.field} {term.before:g} to {term.after:g}, times"
                f" {term.factor:g} on what it takes alone"
            )
    return lines


def _remarks(made: Correction) -> list[str]:
    return ["", *_terms(made), "", *(f"- {note}" for note in made.notes)]


def run(arguments: argparse.Namespace, command: str) -> int:
    """Corrects the system, writes it if asked to, and prints the steps before and after."""
    for name in OF_SAMPLES:
        if getattr(arguments, name):
            flag = arguments.shown[name]
            raise UsageError(f"{flag} is about samples, and the files have measured steps")
    made = fit_steps(
        *arguments.files, system=source(arguments.system, pipesched.systems), command=command
    )
    if arguments.name:
        made.system["name"] = arguments.name
    if arguments.format != "text":
        for line in [*_terms(made), *made.notes]:
            say(line)
    if arguments.save:
        made.save(arguments.save)
        say(f"wrote {arguments.save}")
    write_rows(arguments, made.rows(), COLUMNS, remarks=_remarks(made))
    return 0

"""Input of verbs that take one file, or generate the schedule of a family in its place."""

from __future__ import annotations

import argparse

import pipesched
from pipesched import Schedule

from . import files, passes
from .arguments import UsageError, canonical, read_family_options

METAVAR = "FILE|FAMILY"
HELP = "IR, bytecode or PyTorch's CSV, - for standard input; or a family, with its sizes"


def refuse_sizes(arguments: argparse.Namespace, about: str) -> None:
    """Raises an error if an option of families is given; `about` names their use."""
    given = read_family_options(arguments)
    for name in ("workers", "microbatches", *given):
        if name in given or getattr(arguments, name) is not None:
            raise UsageError(f"{arguments.shown.get(name, '--option')} is about {about}")


def family_of(arguments: argparse.Namespace) -> str | None:
    """The family that replaces a file. Raises an error for options of families without one."""
    families = files.split_words([arguments.file])[1] if arguments.file is not None else []
    if not families:
        refuse_sizes(arguments, "a family, and none is named")
        return None
    if len(families) > 1:
        raise UsageError(f"give one family, not {', '.join(families)}; simulate takes several")
    if not arguments.workers or not arguments.microbatches:
        raise UsageError(f"{families[0]} is a family: give --pp and --microbatches")
    return families[0]


def read(arguments: argparse.Namespace) -> tuple[files.Origin, list[Schedule]]:
    """The schedules of the file, or the generated one, which has the name that was given."""
    family = family_of(arguments)
    if family is None:
        return files.read(arguments)
    schedule = pipesched.generate(
        family,
        workers=arguments.workers,
        microbatches=arguments.microbatches,
        name=arguments.name or "schedule",
        **read_family_options(arguments),
    )
    return files.Origin(), [schedule]


def generate(arguments: argparse.Namespace) -> list[str]:
    """The passes that make the schedule; none if a file has it."""
    family = family_of(arguments)
    if family is None:
        return []
    name, size = arguments.name or "schedule", (arguments.workers, arguments.microbatches)
    return passes.generate(canonical(family), name, *size, read_family_options(arguments))


def origin_of(arguments: argparse.Namespace) -> files.Origin:
    return files.Origin() if family_of(arguments) else files.origin_of(arguments.file)

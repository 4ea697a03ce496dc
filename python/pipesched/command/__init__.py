"""The command `pipesched`: one module per verb.

A verb's module has `add`, which adds its parser, and a function that runs it. It reads its
arguments with `arguments`, writes with `output`, and prints the equivalent passes with `passes`.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

import pipesched
from pipesched import PipeSchedError, PipeSchedWarning

from . import (
    compare,
    convert,
    fit,
    generate,
    optimize,
    plan,
    reproduce,
    run,
    show,
    simulate,
    sweep,
    verify,
)
from .arguments import Run, UsageError
from .output import say

VERBS = (
    show,
    generate,
    simulate,
    compare,
    optimize,
    plan,
    run,
    sweep,
    verify,
    convert,
    fit,
    reproduce,
)

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit statuses: the answer is no or there is none; wrong command line; Ctrl-C."""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; see `pipesched --help`."""
    root = argparse.ArgumentParser(
        prog="pipesched",
        description="Which pipeline schedule, with which placement, on my cluster, and why.",
        epilog="`pipesched VERB --help` has an example of each.",
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"pipesched {pipesched.__version__}")
    verbs = root.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in VERBS:
        verb.add(verbs)
    return root


def _run(arguments: argparse.Namespace) -> int:
    run: Run = arguments.run
    try:
        return run(arguments)
    except UsageError as error:
        say(f"pipesched {arguments.verb}: error: {error}")
        return MISUSED
    except PipeSchedError as error:
        say(str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        place = f"{error.filename}: " if error.filename else ""
        say(f"error: {place}{error.strerror or error}")
    return FAILED


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Says at once what was warned of: it may be about what takes long."""
    say(str(message))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit status."""
    words = sys.argv[1:] if argv is None else argv
    arguments = parser().parse_args(words)
    arguments.flags = frozenset(w.partition("=")[0] for w in words if w.startswith("--"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", PipeSchedWarning)
            warnings.showwarning = _say_warning
            return _run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED

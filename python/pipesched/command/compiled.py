"""`pipesched run` with `--backend loopback` or `mpi`: the compiled schedules of `pipesched-run`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Iterator

from pipesched import PipeSchedError

from .arguments import UsageError, given_family_options

BACKENDS = ("loopback", "mpi")
"""Those that compile; the others train in PyTorch."""

TOOL = "pipesched-run"

_VALUES = {
    "select": ("NAME", "the schedule to run, of a file with several"),
    "pipeline": ("PASSES", "passes that change the schedule"),
    "stage-pipeline": ("PASSES", "passes that change the functions of stages"),
    "load-pass-plugin": ("FILE", "load passes for these pipelines from a plugin"),
    "load-dialect-plugin": ("FILE", "load dialects from a plugin"),
    "form": ("FORM", "how instructions are written: table or straight"),
    "blas": ("LIBRARY", "the BLAS library that multiplies matrices; none: plain loops"),
    "messages": ("MODE", "when a send ends: buffered or rendezvous"),
    "parameters": ("DIR", "start from the files stage<S>.<name>.npy of this folder"),
    "save-parameters": ("DIR", "write the parameters after the last step"),
    "tolerance": ("ERROR", "relative error that --check accepts (default 1e-5)"),
    "trace": ("FILE", "write the median step, measured beside predicted, for Perfetto"),
    "profile": ("FILE", "predict from the times of this file"),
    "write-profile": ("FILE", "write the measured times as a profile"),
    "mpicc": ("PROGRAM", "the compiler of MPI"),
    "mpirun": ("PROGRAM", "the launcher of MPI, with its options"),
}
_FLAGS = {
    "check": "compare with the unpipelined model",
    "blocking": "a send returns when it has ended",
    "no-update": "do not step the parameters",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the file and the options that only compiled schedules have."""
    parser.add_argument(
        "program",
        nargs="?",
        metavar="MODEL.mlir",
        help="a schedule with functions of stages, for --backend loopback and mpi",
    )
    group = parser.add_argument_group("compiled schedules (--backend loopback and mpi)")
    for name, (value, summary) in _VALUES.items():
        group.add_argument(f"--{name}", metavar=value, help=summary)
    for name, summary in _FLAGS.items():
        group.add_argument(f"--{name}", action="store_true", help=summary)
    group.add_argument(
        "--tool", default=TOOL, metavar="PROGRAM", help=f"the tool (default {TOOL}, from PATH)"
    )


def refuse_options(arguments: argparse.Namespace) -> None:
    """Refuses what only compiled schedules have. Raises UsageError."""
    given = ["MODEL.mlir"] if arguments.program is not None else []
    for name in (*_VALUES, *_FLAGS):
        if getattr(arguments, name.replace("-", "_")):
            given.append(f"--{name}")
    if given:
        raise UsageError(
            f"{given[0]} belongs to --backend loopback and mpi, found {arguments.backend}"
        )


def _options(arguments: argparse.Namespace) -> Iterator[str]:
    """The options of the tool."""
    yield f"--backend={arguments.backend}"
    if arguments.schedule is not None:
        if len(arguments.schedule) != 1:
            raise UsageError(
                f"--backend {arguments.backend} runs one schedule at a time, found "
                f"{len(arguments.schedule)}"
            )
        yield f"--schedule={arguments.schedule[0]}"
    for name in ("workers", "microbatches", "steps", "seed"):
        if getattr(arguments, name) is not None:
            yield f"--{name}={getattr(arguments, name)}"
    for option, value in given_family_options(arguments).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield f"--{option.replace('_', '-')}={text}"
    for name in _VALUES:
        if getattr(arguments, name.replace("-", "_")) is not None:
            yield f"--{name}={getattr(arguments, name.replace('-', '_'))}"
    for name in _FLAGS:
        if getattr(arguments, name.replace("-", "_")):
            yield f"--{name}"


def run(arguments: argparse.Namespace) -> int:
    """Calls the tool, whose output and status are those of the verb."""
    if arguments.model is not None:
        raise UsageError(
            f"--model belongs to --backend gloo and nccl; {arguments.backend} runs the functions "
            "of a file: pipesched run --backend loopback model.mlir"
        )
    own = ("-o", "output"), ("--html", "html"), ("--columns", "columns")
    for flag, value in ((flag, getattr(arguments, name)) for flag, name in own):
        if value is not None:
            raise UsageError(
                f"{flag} belongs to --backend gloo and nccl; --trace and --write-profile are the"
                f" files of {arguments.backend}"
            )
    if arguments.program is None:
        raise UsageError(f"--backend {arguments.backend} needs a file with functions of stages")
    options = list(_options(arguments))
    tool = shutil.which(arguments.tool)
    if tool is None:
        raise PipeSchedError(
            f"{arguments.tool} is not found; build it (cmake --build --preset release --target "
            f"{TOOL}) and put its folder into PATH, or name it by --tool"
        )
    return subprocess.run([tool, arguments.program, *options], check=False).returncode

"""`pipesched run` with `--backend loopback` or `mpi`: the compiled schedules of `pipesched-run`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Iterator

from pipesched import PipeSchedError

from ..options import table
from ..options.arguments import UsageError, read_family_options
from ..options.table import Rare, yes_or_no

BACKENDS = ("loopback", "mpi")
"""Those that compile; the others train in PyTorch."""

TOOL = "pipesched-run"

_VALUES = {
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


FREQUENT = ("parameters", "save-parameters", "profile", "write-profile", "check")
"""The options of them that have a flag; `--set` gives the others."""

RARE = {
    **{
        name.replace("-", "_"): Rare(f"{value}: {summary}")
        for name, (value, summary) in _VALUES.items()
        if name not in (*FREQUENT, "pipeline", "trace")
    },
    **{
        name.replace("-", "_"): Rare(f"true|false: {summary}", yes_or_no, False)
        for name, summary in _FLAGS.items()
        if name not in FREQUENT
    },
    "tool": Rare(f"PROGRAM: the tool (default {TOOL}, from PATH)", default=TOOL),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("compiled schedules (--backend loopback and mpi)")
    for name in FREQUENT:
        if name in _FLAGS:
            group.add_argument(f"--{name}", action="store_true", help=_FLAGS[name])
        else:
            value, summary = _VALUES[name]
            group.add_argument(f"--{name}", metavar=value, help=summary)
    table.add(group, "pipeline", "name")
    parser.set_defaults(program=None)


def refuse_options(arguments: argparse.Namespace) -> None:
    """Refuses what only compiled schedules have. Raises UsageError."""
    given = []
    for name in (*_VALUES, *_FLAGS):
        if getattr(arguments, name.replace("-", "_")):
            given.append(arguments.shown[name.replace("-", "_")])
    if given:
        raise UsageError(
            f"{given[0]} belongs to --backend loopback and mpi, found {arguments.backend}"
        )


def _options(arguments: argparse.Namespace) -> Iterator[str]:
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
    for option, value in read_family_options(arguments).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield f"--{option.replace('_', '-')}={text}"
    for name in _VALUES:
        if getattr(arguments, name.replace("-", "_")) is not None:
            yield f"--{name}={getattr(arguments, name.replace('-', '_'))}"
    for name in _FLAGS:
        if getattr(arguments, name.replace("-", "_")):
            yield f"--{name}"
    if arguments.name is not None:
        yield f"--select={arguments.name}"


def run(arguments: argparse.Namespace) -> int:
    """Calls the tool, whose output and status are those of the verb."""
    own = ("-o", "output"), ("--draw", "html"), ("--columns", "columns")
    for flag, value in ((flag, getattr(arguments, name)) for flag, name in own):
        if value is not None:
            raise UsageError(
                f"{flag} belongs to --backend gloo and nccl; a drawn trace and --write-profile are"
                f" the files of {arguments.backend}"
            )
    if arguments.program is None:
        raise UsageError(f"--backend {arguments.backend} needs a file with functions of stages")
    given = list(_options(arguments))
    tool = shutil.which(arguments.tool)
    if tool is None:
        from pipesched import _core  # loads the extension

        if not _core.has_compiler:
            raise PipeSchedError(
                f"{arguments.tool} is not found, and this build of PipeSched has no compiler "
                "(PIPESCHED_ENABLE_COMPILE=OFF): name the pipesched-run of another build by --tool"
            )
        raise PipeSchedError(
            f"{arguments.tool} is not found; build it (cmake --build --preset release --target "
            f"{TOOL}) and put its folder into PATH, or name it by --set tool"
        )
    return subprocess.run([tool, arguments.program, *given], check=False).returncode

"""`pipesched fit`: a system file from measurements."""

from __future__ import annotations

import argparse
import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pipesched
from pipesched import PipeSchedError
from pipesched.fitting import Correction, fit_steps
from pipesched.fitting.files import head_of, is_steps

from ..options import table
from ..options.arguments import UsageError, source
from ..options.table import positive
from ..render.output import (
    Column,
    Row,
    add_output,
    percent,
    say,
    seconds,
    signed_percent,
    write_rows,
)

EXAMPLE = """  pipesched fit measured.csv --system h100-sxm --save fitted.json
  pipesched fit steps.json --system h100-sxm --save mine.json
  pipesched show --system fitted.json"""

PART_UNITS = {"flops": ((1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1, "FLOP"))}
BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def size(value: float, unit: str) -> str:
    """`12.3 MB`, `4 GFLOP`."""
    for scale, name in PART_UNITS.get(unit, BYTES):
        if value >= scale:
            return f"{value / scale:.4g} {name}"
    return f"{value:.4g} {PART_UNITS.get(unit, BYTES)[-1][1]}"


COLUMNS = (
    Column("part", "part", left=True),
    Column("kind", "kind", left=True),
    Column("use", "use", left=True),
    Column("samples", "samples", detail=2),
    Column("sizes", "sizes", detail=3),
    Column("from", "from", detail=1),
    Column("to", "to", detail=1),
    Column("median error", "median_error", percent),
    Column("worst error", "worst_error", signed_percent),
    Column("of", "worst", left=True, wraps=True),
)
SAMPLES = (
    Column("part", "part", left=True),
    Column("kind", "kind", left=True),
    Column("name", "name", left=True, wraps=True),
    Column("type", "dtype", left=True, detail=2),
    Column("size", "size"),
    Column("ranks", "group", detail=1),
    Column("samples", "count", detail=2),
    Column("measured", "measured_s", seconds),
    Column("predicted", "predicted_s", seconds),
    Column("error", "error", signed_percent),
    Column("use", "use", left=True),
)


def _field(text: str) -> tuple[str, float | int | str]:
    """Parses `memory.capacity_gb=80`."""
    path, separator, value = text.partition("=")
    path = path.strip()
    if not separator or not path or not value.strip():
        raise argparse.ArgumentTypeError(f"expected FIELD=VALUE, found {text!r}")
    try:
        number = float(value)
    except ValueError:
        return path, value.strip()
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{path}: expected a number, found {value!r}")
    return path, int(number) if number == int(number) else number


_SETTING: dict[str, Any] = {"type": _field, "action": "append"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="tables as CSV or JSON lines, output of nccl-tests, traces of PyTorch's profiler "
        "(.json or .json.gz, folders of them), measurements of schedules; or measured steps of own "
        "trainings, which correct the system",
    )
    table.add(parser, "save")
    group = parser.add_argument_group("what is not measured")
    table.add(group, "system", "settings", settings={**_SETTING, "default": []})
    group.add_argument(
        "--message-bytes", type=positive, metavar="V", help="of measurements without a model"
    )
    group = parser.add_argument_group("fit")
    table.add(group, "name", "dtype")
    group.add_argument(
        "--points", type=positive, default=6, metavar="N", help="of a curve, at most; 6"
    )
    group.add_argument("--samples", action="store_true", help="show every size, not only each part")
    add_output(parser)


def _command(arguments: argparse.Namespace) -> str:
    """The command line, for sources."""
    words = ["pipesched", "fit", *arguments.files]
    for option in ("system", "message_bytes", "name", "dtype"):
        value = getattr(arguments, option)
        if value is not None:
            words += [f"--{option.replace('_', '-')}", str(value)]
    for path, value in arguments.settings:
        words += ["--set", f"{path}={value}"]
    if arguments.points != 6:
        words += ["--points", str(arguments.points)]
    return shlex.join(words)


def _rows(fit: pipesched.Fit, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    is_text = arguments.format == "text"
    rows = fit.rows() if arguments.samples else fit.summary()
    for row in rows:
        if not is_text:
            continue
        row["use"] = "fitted" if row["fitted"] else "predicted"
        unit = "flops" if row["part"] in ("matrix", "vector") else "bytes"
        if arguments.samples:
            row["size"] = size(row[unit], unit)
            row["group"] = row["group"] if row["group"] > 1 else None
        else:
            row["from"], row["to"] = size(row["smallest"], unit), size(row["largest"], unit)
    return rows


def fields_text(fit: pipesched.Fit) -> list[str]:
    """`network: bandwidth_gb_per_s 45, latency_us 12` for each part that was fitted."""
    return [
        f"{part}: {', '.join(f'{name} {value}' for name, value in fit.system[part].items())}"
        for part in fit.parts
    ]


def _remarks(fit: pipesched.Fit) -> list[str]:
    """Fitted fields, the worst samples, assumptions, and omissions."""
    lines = ["", *fields_text(fit), ""]
    for row in fit.worst():
        unit = "flops" if row["part"] in ("matrix", "vector") else "bytes"
        lines.append(
            f"- worst: {row['name']} of {size(row[unit], unit)} ({row['part']}): measured "
            f"{seconds(row['measured_s'])}, predicted {seconds(row['predicted_s'])}, "
            f"{signed_percent(row['error'])}; {row['place']}"
        )
    lines += [f"- assumed: {text}" for text in fit.assumptions]
    shown = list(fit.unknown.items())
    for name, share in shown[:8]:
        lines.append(f"- left out: {name}, {percent(share)} of the time: its work is not known")
    if len(shown) > 8:
        rest = sum(share for _, share in shown[8:])
        lines.append(f"- left out: {len(shown) - 8} others, {percent(rest)} of the time")
    return lines


# Measured steps of own trainings, which correct a system

OF_SAMPLES = ("settings", "message_bytes", "dtype", "samples")
"""Options that are about samples of kernels and messages."""

STEPS = (
    Column("step", "name", left=True, wraps=True),
    Column("measured", "measured_s", seconds),
    Column("predicted before", "before_s", seconds, detail=1),
    Column("error", "error_before", signed_percent),
    Column("predicted after", "after_s", seconds, detail=1),
    Column("error", "error_after", signed_percent),
)


def _are_steps(files: Sequence[str]) -> bool:
    """Whether the files have measured steps. Refuses them together with samples."""
    kinds = {file: os.path.isfile(file) and is_steps(head_of(Path(file))) for file in files}
    if any(kinds.values()) and not all(kinds.values()):
        steps = next(file for file, has in kinds.items() if has)
        raise PipeSchedError(
            f"{steps} has measured steps, which correct a system, and others have samples, which"
            " make one; fit the samples first, and the steps with --system and what that saves"
        )
    return all(kinds.values()) and bool(kinds)


def _terms(made: Correction) -> list[str]:
    """The corrections, one line for each field."""
    return [
        f"{term.term}: {term.field} {term.before:g} to {term.after:g}, times {term.factor:g} on"
        " what it takes alone"
        for term in made.terms
        if term.is_determined
    ]


def _run_steps(arguments: argparse.Namespace, command: str) -> int:
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
    remarks = ["", *_terms(made), "", *(f"- {note}" for note in made.notes)]
    write_rows(arguments, made.rows(), STEPS, remarks=remarks)
    return 0


def run(arguments: argparse.Namespace) -> int:
    if arguments.show_passes:
        raise UsageError("--show-passes: a fit is not the work of passes")
    if arguments.save == "-":
        raise UsageError("--save needs a file; standard output has the errors of the fit")
    if _are_steps(arguments.files):
        return _run_steps(arguments, _command(arguments))
    fit = pipesched.fit(
        *arguments.files,
        system=source(arguments.system, pipesched.systems),
        given=dict(arguments.settings),
        name=arguments.name,
        dtype=arguments.dtype,
        message_bytes=arguments.message_bytes,
        max_points=arguments.points,
        command=_command(arguments),
    )
    columns: Sequence[Column] = SAMPLES if arguments.samples else COLUMNS
    rows: Sequence[Row] = _rows(fit, arguments)
    if arguments.format != "text":
        for text in fit.assumptions:
            say(f"assumed: {text}")
    if arguments.save:
        fit.save(arguments.save)
        say(f"wrote {arguments.save}")
    write_rows(arguments, rows, columns, remarks=_remarks(fit))
    return 0

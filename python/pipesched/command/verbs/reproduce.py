"""`pipesched reproduce`: published results, computed again, next to the printed ones."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipesched
from pipesched import PipeSchedError
from pipesched.paper import TARGETS, Finding, Study, Target, find, picture_files
from pipesched.paper.setting import SYSTEMS, MessageVolume
from pipesched.paper.table1 import Durations
from pipesched.support.files import check_folder
from pipesched.support.options import Slots, names_of

from ..options import table
from ..options.arguments import UsageError, source
from ..options.table import Rare, one_of, positive, some_of
from ..render.output import (
    FORMATS,
    Column,
    View,
    add_output,
    csv_text,
    json_text,
    plain,
    say,
    table_text,
    terminal_width,
    view_of,
    wrap,
    write_text,
)

if TYPE_CHECKING:
    import pandas as pd

EXAMPLE = """  pipesched reproduce table1
  pipesched reproduce table1 --system baseline,dgx-h100 --set network.bandwidth=0.5x
  pipesched reproduce figure6 --set ratio=1:3 --pp 4 --microbatches 8,16 -o pictures"""

ALL = "all"
PICTURES = "out"


FLAGGED = ("workers", "microbatches", "transport")
RARE = {
    "systems": Rare("NAMES: some of the nine", some_of(SYSTEMS)),
    "durations": Rare("where F, I and W come from", one_of(names_of(Durations))),
    "message_volume": Rare(
        "messages of a microbatch, or of one size whatever N is", one_of(names_of(MessageVolume))
    ),
    "ratio": Rare("A:B: first half of a path to its second half"),
    "blocks": Rare("a number: layers of the model", positive),
    "slots": Rare("what tables are filled by", one_of(names_of(Slots))),
}
OPTIONS = ("stages", *FLAGGED[1:], *RARE, "settings")
"""The arguments of studies that have options."""


def add(parser: argparse.ArgumentParser) -> None:
    listed = "; ".join(f"{target.name}: {target.summary}" for target in TARGETS.values())
    parser.add_argument("target", metavar="TARGET", help=f"{listed}; {ALL}")
    group = parser.add_argument_group("options of targets", _having())
    table.add(group, *FLAGGED, many=FLAGGED[:2], workers={"dest": "stages"})
    table.add(group, "system", many=("system",), system={"dest": "systems"})
    table.add_set(parser, group, RARE)
    add_output(parser, FORMATS)
    parser.set_defaults(folders={"output": (".png", ".svg")})


def _having() -> str:
    listed = (
        f"{target.name}: {', '.join(each.replace('_', '-') for each in target.options)}"
        for target in TARGETS.values()
        if target.options
    )
    return f"stages is --pp; -o is the folder of pictures. {'; '.join(listed)}"


# Runs


def _given(arguments: argparse.Namespace, targets: Sequence[Target]) -> dict[str, Any]:
    """The given options; each must belong to some target, and no value may occur twice."""
    given = {name: getattr(arguments, name) for name in OPTIONS}
    given = {
        name: list(dict.fromkeys(value)) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None and (name != "settings" or value)
    }
    if "systems" in given:
        given["systems"] = [source(each, pipesched.systems) for each in given["systems"]]
    for name in given:
        if not any(name in target.options for target in targets):
            having = [target.name for target in TARGETS.values() if name in target.options]
            raise UsageError(
                f"{arguments.target} has no {arguments.shown[name]}, which is for"
                f" {', '.join(having)}"
            )
    return given


def _studies(arguments: argparse.Namespace) -> dict[str, Study]:
    is_all = arguments.target == ALL
    targets = list(TARGETS.values()) if is_all else [find(arguments.target)]
    given = _given(arguments, targets)
    return {
        target.name: target.function(
            **{name: value for name, value in given.items() if name in target.options}
        )
        for target in targets
    }


# Tables

UNITS = {
    "_s": "{:.2f} s",
    "_percent": "{:.2f} %",
    "_points": "{:+.2f} points",
    "_gib": "{:.1f} GiB",
}
"""The text form of values, by the ending of their name."""


def _plainly(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _column(key: str, *, left: bool) -> Column:
    for ending, unit in UNITS.items():
        if key.endswith(ending):
            return Column(key.removesuffix(ending).replace("_", " "), key, unit.format)
    return Column(key.replace("_", " "), key, _plainly, left)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = (
        {str(key): plain(value) for key, value in row.items()} for row in frame.to_dict("records")
    )
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The columns of single values. In a terminal the first three stay, and the right ones are
    dropped first.
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = []
    for key in keys:
        values = [row[key] for row in rows if key in row]
        if not any(isinstance(value, list) for value in values):
            columns.append(_column(key, left=any(isinstance(value, str) for value in values)))
    return [
        replace(column, detail=at if at > 2 else 0, wraps=column.left)
        for at, column in enumerate(columns)
    ]


def _head_of(finding: Finding) -> str:
    return f"finding {finding.number}, {finding.verdict}: {finding.claim}"


def _finding_text(finding: Finding, width: int | None) -> str:
    marks = {True: "yes", False: "no "}
    lines = [_head_of(finding)]
    for check in finding.checks:
        mark = f"  {marks[bool(check.holds)]}  "
        room = None if width is None else width - len(mark)
        said = wrap(f"{check.says}: {check.found}", room)
        lines.append(mark + said.replace("\n", "\n" + " " * len(mark)))
    return "\n".join(lines) + "\n"


def _text(name: str, study: Study, view: View, width: int | None) -> str:
    rows = _rows(study.frame if study.digest is None else study.digest)
    parts = [f"{study.title}\n{table_text(rows, _columns(rows), view)}"]
    if name == "findings":
        parts.append("".join(f"{_head_of(finding)}\n" for finding in study.findings))
    else:
        parts += [_finding_text(finding, width) for finding in study.findings]
    basis = study.basis
    parts.append(f"given: {basis.given}\nfitted: {basis.fitted}\nopen: {basis.open}\n")
    return wrap("\n".join(parts), width)


def _answer(arguments: argparse.Namespace, studies: Mapping[str, Study]) -> str:
    if arguments.format == "text":
        # Only pictures are written to the folder of --output.
        view = view_of(argparse.Namespace(**{**vars(arguments), "output": None}))
        width = terminal_width()
        return "\n".join(_text(name, study, view, width) for name, study in studies.items())
    rows: list[dict[str, Any]] = []
    for name, study in studies.items():
        tag = {"target": name} if len(studies) > 1 else {}
        rows += [{**tag, **row} for row in _rows(study.frame)]
    return json_text(rows) if arguments.format == "json" else csv_text(rows)


# Pictures


def _write_pictures(folder: str, studies: Mapping[str, Study]) -> None:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for study in studies.values():
        for name, contents in picture_files(study.draw).items():
            write_text(contents, str(target / name))
            say(f"wrote {target / name}")


def _passes(arguments: argparse.Namespace, studies: Mapping[str, Study]) -> str:
    if arguments.settings:
        raise UsageError("--set changes numbers of files; no pass does, so write them to a file")
    lines = [line for study in studies.values() for line in study.passes]
    if not lines:
        raise PipeSchedError(f"{arguments.target} has no command line of passes")
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def run(arguments: argparse.Namespace) -> int:
    if arguments.show_passes:
        write_text(_passes(arguments, _studies(arguments)))
        return 0
    folder = arguments.output or (PICTURES if arguments.format == "text" else None)
    if folder:
        check_folder(folder)
    studies = _studies(arguments)
    if folder:
        _write_pictures(folder, studies)
    write_text(_answer(arguments, studies))
    return 0

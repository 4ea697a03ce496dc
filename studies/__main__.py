"""Runs a study by its name and prints its numbers: `python -m studies validation`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pipesched import PipeSchedError
from pipesched.paper import Study, picture_files

from . import (
    deepseek,
    groups,
    memory,
    overlap,
    plans,
    residuals,
    routing,
    slices,
    unknowns,
    unseen,
    validation,
    vocabulary,
    zero_bubble,
)

STUDIES: dict[str, Callable[..., Study]] = {
    "validation": validation.validation,
    "groups": groups.groups,
    "switched-off": groups.switched_off,
    "unknowns": unknowns.unknowns,
    "unseen": unseen.unseen,
    "residuals": residuals.residual_rows,
    "coverage": residuals.coverage,
    "memory": memory.memory,
    "deepseek": deepseek.deepseek,
    "plans": plans.plans,
    "routing": routing.routing,
    "overlap": overlap.overlap,
    "slices": slices.slices,
    "vocabulary": vocabulary.vocabulary,
    "zero-bubble": zero_bubble.zero_bubble,
}

UNITS = {
    "_s": "{:.2f} s",
    "_percent": "{:.2f} %",
    "_points": "{:+.2f} points",
    "_gib": "{:.1f} GiB",
}
"""The text form of values, by the ending of the name of their column."""


def _cell(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return "-"
    default = "{:.2f}" if isinstance(value, float) else "{}"
    return (unit or default).format(value)


def table(frame: pd.DataFrame) -> str:
    """Returns the frame as text, with the units in the cells and texts at the left.

    >>> print(table(pd.DataFrame({"case": ["a", "long"], "step_s": [1.5, None]})))
    case    step
    a     1.50 s
    long       -
    """
    columns = []
    for name in map(str, frame):
        ending = next((each for each in UNITS if name.endswith(each)), "")
        cells = [_cell(value, UNITS.get(ending, "")) for value in frame[name]]
        lines = [name.removesuffix(ending).replace("_", " "), *cells]
        is_text = any(isinstance(value, str) for value in frame[name])
        width = max(map(len, lines))
        columns.append([line.ljust(width) if is_text else line.rjust(width) for line in lines])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def text(study: Study) -> str:
    """Returns the table of a study, its findings, and where its numbers come from."""
    frame, basis = study.frame if study.digest is None else study.digest, study.basis
    findings = ""
    for finding in study.findings:
        findings += f"\nfinding {finding.number}, {finding.verdict}: {finding.claim}\n"
        for check in finding.checks:
            findings += f"  {'yes' if check.holds else 'no '}  {check.says}: {check.found}\n"
    sources = f"given: {basis.given}\nfitted: {basis.fitted}\nopen: {basis.open}"
    return f"{study.title}\n{table(frame)}\n{findings}\n{sources}\n"


def json_lines(frame: pd.DataFrame) -> str:
    """Returns the rows as JSON, one on each line, without values that are not known."""
    rows = (
        {name: value for name, value in row.items() if value is not None and value == value}
        for row in frame.to_dict("records")
    )
    return "[" + ",\n ".join(map(json.dumps, rows)) + "]\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study that the arguments name."""
    parser = argparse.ArgumentParser("python -m studies", description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text")
    parser.add_argument("-o", "--output", metavar="DIR", help="where pictures go")
    parser.add_argument(
        "--search", metavar="RUNS", help="runs for which `plans` also searches a plan, or all"
    )
    given = parser.parse_args(arguments)
    function = STUDIES[given.study]
    if given.search:
        if given.study != "plans":
            parser.error(f"--search is for plans, found {given.study}")
        function = partial(function, given.search.split(","))
    try:
        study = function()
    except PipeSchedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if given.output:
        folder = Path(given.output)
        folder.mkdir(parents=True, exist_ok=True)
        for name, contents in picture_files(study.draw).items():
            (folder / name).write_bytes(contents)
    if given.format == "csv":
        sys.stdout.write(study.frame.to_csv(index=False))
    else:
        sys.stdout.write(text(study) if given.format == "text" else json_lines(study.frame))
    return 0


if __name__ == "__main__":
    sys.exit(main())

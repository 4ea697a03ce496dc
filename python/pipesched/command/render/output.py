"""Output of verbs: tables for people, JSON and CSV for programs; messages are printed on standard
error. Rich and pandas take longer to import than most verbs to answer, so functions import them.
"""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pipesched import PipeSchedError, Schedule
from pipesched.results.report import IdleByCause
from pipesched.schedule.generation import announcement
from pipesched.support.files import write_whole
from pipesched.support.text import printable, printable_lines, valid

from ..options import table

Row = Mapping[str, Any]
FORMATS = ("text", "json", "csv")
PAPERS = ("latex", "bibtex")
"""Further formats of tables."""

TABLES = ("text", "latex")
"""Formats with columns, which may be chosen."""


NARROWEST, TEXT = 40, 24
"""The least width of a table in a terminal, and of texts in it that take several lines."""

WIDEST = 1_000_000
"""Maximal width of tables, which are as wide as their contents; `less -S` scrolls."""


def add_output(
    parser: argparse.ArgumentParser,
    formats: Sequence[str] = (*FORMATS, *PAPERS),
    *,
    columns: bool = True,
    passes: bool = True,
    **changed: Mapping[str, Any],
) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format",
        choices=formats,
        default="text",
        help="latex: the table for a paper; bibtex: the sources of its families",
    )
    table.add(group, "output", **changed)
    if columns:
        group.add_argument(
            "--columns",
            type=lambda text: table.names(text.casefold()),
            metavar="NAMES|all",
            help="of the table, such as schedule,step,idle; in a terminal those that fit",
        )
    if passes:
        table.add(group, "show_passes")


def write_text(contents: str | bytes, path: str | None = None) -> None:
    """Writes to a file, which appears whole or not at all, or to standard output."""
    if isinstance(contents, str):
        contents = contents.encode(errors="surrogateescape")
    if path is None or path == "-":
        if sys.stdout is None:  # The caller has closed it.
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")
        sys.stdout.flush()
        sys.stdout.buffer.write(contents)
        sys.stdout.buffer.flush()
        return
    write_whole(path, contents)


# JSON and CSV


def plain(value: Any) -> Any:
    """A value for JSON: null if it is not known."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    pandas = sys.modules.get("pandas")  # if pandas is not loaded, no value is its NA
    if pandas is not None and value is pandas.NA:
        return None
    return value


def cells(schedule: Schedule) -> list[dict[str, Any]]:
    return [
        {str(key): value for key, value in row.items()}
        for row in schedule.to_frame().to_dict("records")
    ]


def json_text(rows: Sequence[Row]) -> str:
    """One JSON array with one object per line."""
    lines = ",\n ".join(json.dumps(plain(row), ensure_ascii=False) for row in rows)
    return valid(f"[{lines}]\n")


def csv_text(rows: Sequence[Row]) -> str:
    """CSV with a header and a line per row; lists and objects are written as JSON."""
    flat = [
        {k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in plain(row).items()}
        for row in rows
    ]
    import pandas as pd

    return pd.DataFrame(flat, dtype=object).to_csv(index=False, lineterminator="\n")


# Tables


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, the key of its values and their text form."""

    heading: str
    key: str
    show: Callable[[Any], str] = str
    left: bool = False
    detail: int = 0
    """Columns of the largest detail are left out first if a terminal is too narrow; 0 stays."""
    wraps: bool = False
    behind: Callable[[Row], str] = lambda row: ""
    """The text after the value."""
    reason: str | None = None
    """The key of an error, whose column `--columns` does not hide."""


@dataclass(frozen=True)
class View:
    """The width and the columns of a table."""

    width: int | None = None
    """The width of a terminal; None for a file or a pipe, which take all columns."""
    names: tuple[str, ...] | None = None
    """The requested columns; None for all that fit."""


def view_of(arguments: argparse.Namespace) -> View:
    """The view that was asked for, or that the terminal has room for."""
    names = getattr(arguments, "columns", None)
    width = terminal_width(arguments.output)
    if names is not None and arguments.format not in TABLES:
        from ..options.arguments import UsageError

        raise UsageError("--columns is about tables; other formats have all columns")
    if names == ["all"]:
        return View()
    return View(width) if names is None else View(None, tuple(names))


def terminal_width(output: str | None = None) -> int | None:
    """The width of the terminal of this output; None for a file or a pipe."""
    is_terminal = output in (None, "-") and sys.stdout is not None
    if not is_terminal or not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size((100, 24)).columns, NARROWEST)


def wrap(text: str, width: int | None) -> str:
    """Prose in lines of at most this width, which break between words; further lines of a sentence
    are indented. Lines that start with a space, or have two, are tables or lines to copy, and stay.

    >>> print(wrap("- one two three", 9))
    - one two
      three
    """
    if width is None:
        return text
    return "\n".join(_break_line(line, width) for line in text.split("\n"))


def _break_line(line: str, width: int) -> str:
    from rich.cells import cell_len

    if cell_len(line) <= width or line.startswith(" ") or "  " in line:
        return line
    lines = [""]
    for word in line.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1].strip() and cell_len(longer) > width:
            lines.append(f"  {word}")
        else:
            lines[-1] = longer
    return "\n".join(lines)


def seconds(value: float) -> str:
    """`1.234 s`, `12.3 ms`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if abs(value) >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value:g} s"


def percent(value: float) -> str:
    """`12.34 %`."""
    return f"{100 * value:.2f} %"


def signed_percent(value: float) -> str:
    """`+1.23 %`."""
    return f"{100 * value:+.2f} %"


def gibibytes(value: int) -> str:
    """`71.3 GiB`."""
    return f"{value / 2**30:.1f} GiB"


def tenths(value: float) -> str:
    """`12`, `5.5`."""
    return f"{round(value, 1):g}"


def thousands(value: float) -> str:
    """`12,345`."""
    return f"{value:,.0f}"


EXPENSES = (
    Column("days", "days", tenths),
    Column("cost", "cost_dollars", lambda dollars: f"${dollars:,.0f}"),
    Column("energy", "energy_kwh", lambda energy: f"{energy:,.0f} kWh"),
    Column("cost/10^12", "trillion_cost_dollars", lambda dollars: f"${dollars:,.0f}", detail=1),
    Column("energy/10^12", "trillion_energy_kwh", lambda energy: f"{energy:,.0f} kWh", detail=1),
)
"""For all tokens and for 10^12, if requested."""


PER_GPU, PER_WORKER = "peak_bytes_per_gpu", "peak_bytes"
"""Peak memory of the fullest worker: of an accelerator, which tables prefer, and of all."""

BAND = (
    Column("from", "step_low_s", seconds, detail=2),
    Column("to", "step_high_s", seconds, detail=2),
)
"""The band of a step: between which times measured ones are."""

MAY_BE_FIRST = Column("within error", "may_be_first", lambda may: "yes" if may else "no", detail=2)
"""Whether the step is within the prediction error of the fastest."""

_RESULTS = {
    column.key: column
    for column in (
        Column("step", "expected_s", seconds),
        *BAND,
        MAY_BE_FIRST,
        Column("idle", "idle_ratio", percent),
        Column("fill", "fill_ratio", percent, detail=3),
        Column("drain", "drain_ratio", percent, detail=3),
        Column("dependency", "dependency_ratio", percent, detail=3),
        Column("queue order", "queue_order_ratio", percent, detail=3),
        Column("communication", "communication_ratio", percent, detail=3),
        Column("imbalance", "imbalance_ratio", percent, detail=3),
        Column("weights", "weights_ratio", percent, detail=3),
        Column("experts", "experts_ratio", percent, detail=3),
        Column("context", "context_ratio", percent, detail=3),
        Column(
            *("formula", "formula_bubble_ratio", percent),
            detail=2,
            behind=lambda row: " of span" if row.get("formula_of") == "span" else "",
        ),
        Column("table", "table_bubble_ratio", percent, detail=2),
        Column("span", "span_bubble_ratio", percent, detail=2),
        Column("tokens/s", "tokens_per_s", thousands, detail=1),
        Column("MFU", "mfu", percent),
        Column("activations", "activations", tenths, detail=1),
        Column("memory/GPU", PER_GPU, gibibytes),
        Column("memory/worker", PER_WORKER, gibibytes),
        Column("fits", "fits", lambda fits: "yes" if fits else "no"),
    )
}


CAUSES = tuple(f"{cause.name}_ratio" for cause in fields(IdleByCause))
"""Keys of idle time by cause."""
RARE_CAUSES = ("imbalance_ratio", "weights_ratio", "experts_ratio", "context_ratio")


def results(*left_out: str) -> tuple[Column, ...]:
    """Columns for a timed schedule, except these keys."""
    return tuple(column for key, column in _RESULTS.items() if key not in left_out)


def per_gpu(worker_bytes: int | None, accelerators: int | None) -> int | None:
    """The share of each accelerator of a worker; None if either is not known."""
    return -(-worker_bytes // accelerators) if worker_bytes and accelerators else None


def show_cell(column: Column, row: Row) -> str:
    """A value as text for people; a dash if there is none."""
    value = plain(row.get(column.key))
    return "-" if value is None else printable(column.show(value) + column.behind(row))


def keep_columns(rows: Sequence[Row], columns: Sequence[Column]) -> list[Column]:
    """Returns the columns with a value in some row. Causes that only some systems or divisions have
    also need a value that is not 0. Memory of workers is left out if the memory of accelerators is
    shown for every row that has any.
    """

    def has(row: Row, key: str) -> bool:
        value = plain(row.get(key))
        return value is not None and (value != 0 or key not in RARE_CAUSES)

    keys = {column.key for column in columns}
    if PER_GPU in keys and all(has(row, PER_GPU) for row in rows if has(row, PER_WORKER)):
        keys.discard(PER_WORKER)
    return [c for c in columns if c.key in keys and any(has(row, c.key) for row in rows)]


def choose_columns(
    rows: Sequence[Row], columns: Sequence[Column], names: Sequence[str]
) -> list[Column]:
    """The columns of these headings or keys, in this order."""
    has_value = keep_columns(rows, columns)
    found = []
    for name in names:
        named = [c for c in columns if name in (c.heading.casefold(), c.key.casefold())]
        if not named:
            from pipesched.support.text import closest

            known = [column.heading or column.key for column in has_value]
            raise PipeSchedError(f"--columns: no column {name!r}{closest(name, known)}")
        found += [c for c in named if c in has_value] or named[:1]
    return list(dict.fromkeys(found))


def _widths(rows: Sequence[Row], columns: Sequence[Column]) -> dict[Column, int]:
    from rich.cells import cell_len

    return {
        column: 2
        + max(cell_len(text) for text in (column.heading, *(show_cell(column, r) for r in rows)))
        for column in columns
    }


def fit_columns(rows: Sequence[Row], columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that a width has room for: the details on the right are dropped first."""
    wide = _widths(rows, columns)
    left = {c: min(size, TEXT) if c.wraps else size for c, size in wide.items()}
    while sum(left.values()) - 2 > width:
        details = [column for column in left if column.detail]
        if not details:
            break
        most = max(column.detail for column in details)
        del left[[column for column in details if column.detail == most][-1]]
    return list(left)


def _reasons(rows: Sequence[Row], columns: Sequence[Column]) -> list[Column]:
    """The columns that say why some row has no answer."""

    def is_said(column: Column) -> bool:
        key = column.reason
        return key is not None and any(plain(row.get(key)) is not None for row in rows)

    return [column for column in columns if is_said(column)]


def table_columns(rows: Sequence[Row], columns: Sequence[Column], view: View) -> list[Column]:
    """The columns of a table that has room for all of them."""
    if view.names is not None:
        found = choose_columns(rows, columns, view.names)
        return [*found, *(c for c in _reasons(rows, columns) if c not in found)]
    return keep_columns(rows, columns)


def table_text(rows: Sequence[Row], columns: Sequence[Column], view: View = View()) -> str:
    """The rows as a table, as far as the view shows them; a line names columns without room."""
    shown = all_of_them = table_columns(rows, columns, view)
    if view.names is None and view.width is not None:
        shown = fit_columns(rows, shown, view.width)
    text = _draw(rows, shown, view.width)
    hidden = [column.heading for column in all_of_them if column not in shown]
    if hidden:
        text += wrap(f"(no room for {', '.join(hidden)}: --columns all)\n", view.width)
    return text


def _draw(rows: Sequence[Row], columns: Sequence[Column], width: int | None) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_narrow = width is not None and sum(_widths(rows, columns).values()) - 2 > width
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        # Columns that do not wrap keep their width, even if a terminal has to break lines.
        wraps = is_narrow and column.wraps
        table.add_column(
            column.heading,
            justify="left" if column.left else "right",
            no_wrap=not wraps,
            overflow="fold",
            min_width=None if wraps else _widths(rows, [column])[column] - 2,
        )
    for row in rows:
        table.add_row(*(Text(show_cell(column, row)) for column in columns))
    fixed = sum(size for c, size in _widths(rows, columns).items() if not c.wraps)
    console = Console(
        width=max(width or 0, fixed + TEXT) if is_narrow else WIDEST, color_system=None
    )
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def write_rows(
    arguments: argparse.Namespace,
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    title: str | None = None,
    above: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> None:
    """Writes the answer. `above` is printed on standard error in other formats than text; remarks
    are for text.
    """
    view, width = view_of(arguments), terminal_width(arguments.output)
    if arguments.format == "text":
        lines = (printable(line) for line in (title, *above) if line)
        head = "".join(f"{wrap(line, width)}\n" for line in lines)
        foot = "".join(f"{wrap(printable_lines(remark), width)}\n" for remark in remarks)
        text = head + table_text(rows, columns, view) + foot
    else:
        if arguments.format != "latex":
            say_lines(above)
        text = other_text(arguments.format, rows, columns, title=title, above=above, view=view)
    write_text(text, arguments.output)


def other_text(
    name: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    title: str | None = None,
    above: Sequence[str] = (),
    view: View = View(),
) -> str:
    if name in PAPERS:
        from . import papers

        if name == "bibtex":
            return papers.bibtex(rows)
        return papers.latex_table(rows, columns, title=title, above=above, view=view)
    return json_text(rows) if name == "json" else csv_text(rows)


def say_lines(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


def announce_cells(sizes: Iterable[tuple[int, int]]) -> None:
    """Announces a long wait for schedules that `generate` does not make, which announces others."""
    if large := announcement(sizes):
        say(large)


@contextmanager
def progress() -> Iterator[Callable[[float, float], None]]:
    """Shows a bar on standard error if that is a terminal. Yields a function that takes the amount
    that is done, and the whole.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def say(message: str) -> None:
    print(printable_lines(message), file=sys.stderr, flush=True)

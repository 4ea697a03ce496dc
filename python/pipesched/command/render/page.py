"""The HTML page of `compare`, `show` and `plan`: tables and findings above timelines, by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipesched import Simulation
from pipesched.viz.pages import Html, document, text_of, timelines
from pipesched.viz.pictures import Pictures

from ..options.entries import Size
from .output import Column, Row, keep_columns, plain, show_cell

Pair = tuple[Row, Simulation | None]
"""A row, and its report if there is one."""

_LEGEND = """Idle is the part of workers times step in which workers do nothing: before their
first cell (fill), after their last one (drain), because data was not computed yet (dependency),
because its message waited in a queue after one that was not ready (queue order), or because it was
being sent or waited for bandwidth (communication). Formula, table and span are the same by closed
formula, by slots, and by the time between the first and last cell of the worker where these are the
furthest apart. Memory is that of the fullest worker, divided by its accelerators where the column
says so. Band: between which times 80 % of measured steps are that resemble the predicted one, in
the unit of the step."""


_LEGEND_OF_RUN = """For each schedule the predicted step is above the measured one, which is the
median of the measured steps. Idle is the part of workers times step in which workers compute
nothing. What cells waited for and the critical path are known only of predicted steps."""


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    shown = keep_columns(rows, columns)

    def cell(tag: str, column: Column, text: str, row: Row, number: str = "") -> str:
        kind = "left" if column.left else "behind" if column.behind(row) else ""
        named = f' class="{kind}"' if kind else ""
        return f"<{tag}{named}{number}>{text_of(text)}</{tag}>"

    def line(row: Row) -> str:
        return "".join(cell("td", c, _show(c, row), row, _number(c, row)) for c in shown)

    body = "".join(
        f"<tr{' class=best' if row.get('rank') == 1 else ''}>{line(row)}</tr>\n" for row in rows
    )
    head = "".join(cell("th", column, column.heading, {}) for column in shown)
    parts = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    return f'<div class="scroll"><table>{parts}</table></div>\n'


def _show(column: Column, row: Row) -> str:
    """The text of a cell of the page; one cell shows both ends of a band."""
    low, high = plain(row.get("step_low_s")), plain(row.get("step_high_s"))
    if column.key != "step_low_s" or low is None or high is None:
        return show_cell(column, row)
    scale = next((unit for unit in (1.0, 1e-3, 1e-6) if row["step_s"] >= unit), 1e-9)
    return f"{low / scale:.3g}\u2013{high / scale:.3g}"


def _number(column: Column, row: Row) -> str:
    """The number by which the page sorts a cell, as an attribute; empty for a text."""
    value = plain(row.get(column.key))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f' data-value="{value!r}"' if is_number else ""


def _findings(text: str) -> str:
    items = "".join(f"<li>{text_of(line)}</li>" for line in text.splitlines())
    return f'<ul class="findings">{items}</ul>\n' if items else ""


def _section(size: Size, pairs: Sequence[Pair], columns: Sequence[Column], findings: str) -> str:
    workers, microbatches = size
    simulations = [simulation for _, simulation in pairs if simulation]
    drawn = timelines(simulations) if simulations else ""
    heading = f"<h2>{workers} workers, {microbatches} microbatches</h2>\n"
    table = _table([row for row, _ in pairs], columns)
    return f"<section>\n{heading}{table}{_findings(findings)}{drawn}</section>\n"


def comparison(
    title: str,
    groups: Mapping[Size, Sequence[Pair]],
    columns: Sequence[Column],
    findings: Mapping[Size, str],
) -> Html:
    """The page: by size the rows, the findings, and timelines on one scale in the order of the
    rows.
    """
    left_out = ("workers", "microbatches", "step_high_s", "may_be_first")
    shown = [
        replace(column, heading="band") if column.key == "step_low_s" else column
        for column in columns
        if column.key not in left_out
    ]
    sections = [
        _section(size, pairs, shown, findings.get(size, "")) for size, pairs in groups.items()
    ]
    return document(title, f"{''.join(sections)}<p>{_LEGEND}</p>\n")


def training(
    title: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    findings: str,
    drawn: Sequence[Pictures],
) -> Html:
    """The page of measured schedules: the rows, the findings, and all timelines on one scale."""
    body = f"{_table(rows, columns)}{_findings(findings)}{timelines(drawn)}"
    return document(title, f"<section>\n{body}</section>\n<p>{_LEGEND_OF_RUN}</p>\n")

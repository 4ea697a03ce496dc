"""The HTML page of `compare --html` and `plan --html`: tables and findings above timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pipesched import Simulation
from pipesched.pages import Html, document, timelines

from .output import Column, Row, show_cell, shown_columns

_LEGEND = """Idle is the part of workers times step in which workers do nothing: before their
first cell (fill), after their last one (drain), because data was not computed yet (dependency),
because its message stood in a queue behind one that was not ready (queue order), or because it was
under way or waited for bandwidth (communication). Formula, table and span are the same by closed
formula, by slots, and by the time between the first and last cell of the worker where these are the
furthest apart. Memory is that of the fullest worker, divided by its accelerators where the column
says so."""


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    shown = shown_columns(rows, columns)

    def line(tag: str, texts: Sequence[str]) -> str:
        cells = zip(shown, texts, strict=True)
        return "".join(
            f'<{tag} class="left">{escape(text)}</{tag}>'
            if column.left
            else f"<{tag}>{escape(text)}</{tag}>"
            for column, text in cells
        )

    body = "".join(
        f"<tr{' class=best' if row.get('rank') == 1 else ''}>"
        f"{line('td', [show_cell(column, row) for column in shown])}</tr>\n"
        for row in rows
    )
    head = line("th", [column.heading for column in shown])
    parts = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    return f'<div class="scroll"><table>{parts}</table></div>\n'


def _findings(text: str) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in text.splitlines())
    return f'<ul class="findings">{items}</ul>\n' if items else ""


def _section(
    microbatches: int,
    rows: Sequence[Row],
    columns: Sequence[Column],
    simulations: Sequence[Simulation],
    findings: str,
) -> str:
    order = {row["schedule"]: index for index, row in enumerate(rows)}
    ranked = sorted(simulations, key=lambda simulation: order[simulation.schedule])
    drawn = timelines(ranked) if ranked else ""
    heading = f"<h2>{microbatches} microbatches</h2>\n"
    return f"<section>\n{heading}{_table(rows, columns)}{_findings(findings)}{drawn}</section>\n"


def comparison(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    simulations: Sequence[Simulation],
    findings: Mapping[int, str],
) -> Html:
    """The page: for each number of microbatches the rows, the findings, and timelines."""
    sections = [
        _section(
            n,
            [row for row in rows if row["microbatches"] == n],
            [column for column in columns if column.key != "microbatches"],
            [simulation for simulation in simulations if simulation.microbatches == n],
            findings.get(n, ""),
        )
        for n in dict.fromkeys(row["microbatches"] for row in rows)
    ]
    return document(title, f"{''.join(sections)}<p>{_LEGEND}</p>\n")

"""The HTML page of `pipesched compare --html`: one self-contained file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pipesched
from pipesched import Simulation
from pipesched._simulation import MOST_CELLS

from .output import Column, Row, show_cell, shown_columns

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f23; --dim: #5c6670; --ground: #fff; --line: #d5d9dd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --dim: #a0a8b0; --ground: #16181b; --line: #3a3f45; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       margin: 2rem auto; padding: 0 1.5rem; max-width: 90rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p, .findings { color: var(--dim); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; }
.left { text-align: left; } .best td { font-weight: 600; }
.picture { background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: .5rem; }
.picture svg { display: block; }
"""

_LEGEND = """Idle is the part of workers times step in which workers do nothing: before their
first cell (fill), after their last one (drain), because data was not computed yet (dependency),
because its message stood in a queue behind one that was not ready (queue order), or because it was
under way or waited for bandwidth (communication). Formula, table and span are the same by closed
formula, by slots, and by the time between the first and last cell of each worker. Memory is that
of the fullest worker."""


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


def _scoped(rule: re.Match[str], scope: str) -> str:
    return ",".join(f"#{scope} {selector.strip()}" for selector in rule[1].split(",")) + "{"


def _picture(simulations: Sequence[Simulation], scope: str) -> str:
    """The timelines on one scale; the style of the picture applies only to it."""
    cells = sum(simulation._evaluation.num_cells for simulation in simulations)
    if cells > MOST_CELLS:
        return f"<p>{cells} cells are too many to draw here; at most {MOST_CELLS} are drawn.</p>\n"
    svg = re.sub(r"^<\?xml.*?\?>\s*", "", pipesched.draw(*simulations))
    head, style, rest = re.split(r"(?s)(<style>.*?</style>)", svg, maxsplit=1)
    style = re.sub(r"(?m)^([^<{}\n]+)\{", lambda rule: _scoped(rule, scope), style)
    return f'<div class="scroll picture" id="{scope}">{head}{style}{rest}</div>\n'


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
    picture = _picture(ranked, f"timelines-{microbatches}") if ranked else ""
    heading = f"<h2>{microbatches} microbatches</h2>\n"
    return f"<section>\n{heading}{_table(rows, columns)}{_findings(findings)}{picture}</section>\n"


def comparison(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    simulations: Sequence[Simulation],
    findings: Mapping[int, str],
) -> str:
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
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Pipeline schedules: {escape(title)}</title>\n<style>{_STYLE}</style>\n"
        "</head>\n<body>\n"
        f"<h1>Pipeline schedules</h1>\n<p>{escape(title)}</p>\n"
        f"{''.join(sections)}<p>{_LEGEND}</p>\n</body>\n</html>\n"
    )

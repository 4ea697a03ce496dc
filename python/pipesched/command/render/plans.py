"""The table of a plan, for terminals, pages and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipesched.planning.expenses import KEYS
from pipesched.planning.proposals import TIGHT
from pipesched.support.text import gib
from pipesched.viz.pages import text_of

from .output import (
    BAND,
    EXPENSES,
    MAY_BE_FIRST,
    Column,
    gibibytes,
    keep_columns,
    percent,
    seconds,
    show_cell,
    thousands,
)


def _mark_full(row: Mapping[str, Any]) -> str:
    """Marks rows that leave almost nothing of the usable memory."""
    used, usable = row.get("peak_bytes_per_gpu"), row.get("usable_bytes")
    is_tight = used is not None and usable and TIGHT * usable < used <= usable
    return " (full)" if is_tight else ""


COLUMNS = (
    Column("", "name", left=True),
    Column("step", "expected_s", seconds),
    Column("disturbed", "expected_disturbed_s", seconds),
    *(replace(column, detail=0) for column in BAND),
    replace(MAY_BE_FIRST, detail=9),
    Column("runs in", "runs_in", lambda n: "both" if len(n) > 1 else n[0], left=True, detail=3),
    Column("tokens/s/GPU", "tokens_per_s_per_gpu", thousands, detail=9),
    Column("MFU", "mfu", percent, detail=7),
    *EXPENSES,
    Column("memory/GPU", "peak_bytes_per_gpu", gibibytes, behind=_mark_full),
    Column("missing/GPU", "missing_bytes_per_gpu", lambda n: gib(n) if n else "-", detail=1),
    Column("tensor", "tensor"),
    Column("context", "context", detail=2),
    Column("exchange", "context_exchange", left=True, detail=8),
    Column("pp", "pipeline"),
    Column("data", "data", detail=7),
    Column("expert", "expert", detail=2),
    Column("B", "microbatch_size", detail=6),
    Column("N", "microbatches", detail=8),
    Column("chunks", "chunks", detail=3),
    Column("slices", "slices", detail=3),
    Column("layers", "uneven_layers", left=True, detail=6),
    Column("vocabulary", "vocabulary", left=True, detail=2),
    Column("receives", "receive_placement", left=True, detail=6),
    Column("placement", "placement", left=True, detail=9),
    Column("recompute", "recompute", left=True, detail=5),
    Column("free in", "free_in", left=True, detail=6),
    Column("sharding", "sharding", left=True, detail=4),
    Column("idle", "idle_ratio", percent, detail=9),
)
"""A terminal without room for all of them leaves out first columns that follow from others."""

SHARED = (
    *("runs_in", "tensor", "context", "context_exchange", "pipeline", "data", "expert"),
    *("microbatch_size", "microbatches", "chunks", "slices", "vocabulary", "receive_placement"),
    *("placement", "recompute", "sharding"),
)
"""Keys of choices. A line above the table of a terminal has the keys that all rows share."""

PAGE_COLUMNS = (Column("schedule", "schedule", left=True), *COLUMNS[1:])


_USUAL = {
    **dict.fromkeys(("context", "expert", "slices"), 1),
    "vocabulary": "whole",
    "receive_placement": "arrival",
}
"""The values that need no column if all rows have them."""


def drop_alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without columns that are equal in all of them."""
    uneven = any("+" in row["layers"] for row in rows)
    alike = {
        key: None
        for key, usual in _USUAL.items()
        if all(row.get(key) in (None, usual) for row in rows)
    }
    if all({"total_tokens", "price"}.isdisjoint(row.get("request", ())) for row in rows):
        alike |= dict.fromkeys(KEYS)
    if not any(row.get("missing_bytes_per_gpu") for row in rows):
        alike["missing_bytes_per_gpu"] = None
    exchanges = {row.get("context_exchange") for row in rows} - {None}
    if len(exchanges) < 2:
        alike["context_exchange"] = None
    return [
        {
            **row,
            **alike,
            "uneven_layers": row["layers"] if uneven else None,
            "free_in": row["optimized"] and _freedoms(row["optimized"]["freedoms"]),
        }
        for row in rows
    ]


def same_line(rows: list[dict[str, Any]]) -> list[str]:
    """The line that says the choices that all rows share, which then have no columns."""
    if len(rows) < 2:
        return []
    found = []
    for column in keep_columns(rows, [each for each in COLUMNS if each.key in SHARED]):
        texts = {show_cell(column, row) for row in rows}
        if len(texts) == 1:
            found.append(f"{column.heading} {texts.pop()}")
            for row in rows:
                row[column.key] = None
    return [f"all rows: {'; '.join(found)}"] if found else []


def _freedoms(freedoms: dict[str, Any]) -> str:
    recompute = freedoms["recompute"]
    found = ["offload"] if freedoms["offload"] else []
    found += [f"recompute {recompute}"] if recompute != "none" else []
    return ", ".join(["order", *found])


def html_table(rows: list[dict[str, Any]]) -> str:
    """The table for a notebook, which has no style sheet."""
    shown = drop_alike(rows)
    columns = keep_columns(shown, COLUMNS)

    def cell(tag: str, column: Column, text: str) -> str:
        side = "left" if column.left else "right"
        return f'<{tag} style="text-align: {side}">{text_of(text)}</{tag}>'

    head = "".join(cell("th", column, column.heading) for column in columns)
    body = ""
    for row in shown:
        faded = ' style="opacity: 0.6"' if row["fits"] is False else ""
        cells = "".join(cell("td", column, show_cell(column, row)) for column in columns)
        body += f"<tr{faded}>{cells}</tr>\n"
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"

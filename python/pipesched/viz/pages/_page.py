"""The document: its head, timelines as data, the scripts that draw them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from pipesched import _core
from pipesched.support.options import text_of as title_of
from pipesched.support.text import printable
from pipesched.viz.pictures import Pictures, evaluations_of
from pipesched.viz.streams import streams_of

from ._columns import pack

_SCRIPTS = ("columns.js", "drawing.js", "timeline.js", "tables.js", "page.js")

MOST_STATIC_CELLS = 300
"""Up to which number of cells a page has a picture too, for readers without scripts."""


class Html(str):
    """The text of a page."""

    __slots__ = ()


@cache
def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON for a script element, in which no tag may end."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _static(simulations: Sequence[Pictures], cells: int) -> str:
    """What is shown without scripts."""
    if cells > MOST_STATIC_CELLS:
        return (
            f"<noscript><p>Scripts are off, so these timelines ({cells:,} cells) are not drawn."
            " Switch them on, or write a picture: <code>--svg</code>.</p></noscript>\n"
        )
    svg = _core.svg([simulation._evaluation for simulation in simulations], 0)
    data = base64.b64encode(svg.encode()).decode()
    return f'<noscript><img alt="timelines" src="data:image/svg+xml;base64,{data}"></noscript>\n'


def timelines(simulations: Sequence[Pictures]) -> str:
    """A part of a page: timelines on one scale, which zoom together."""
    parts, cells = [], 0
    for simulation in simulations:
        header, data = pack(simulation._evaluation)
        if (streams := streams_of(simulation)) is not None:
            header["streams"] = streams.drawn()
        cells += header["cells"]
        parts.append(
            f'<script type="application/json" class="facts">{_json(header)}</script>\n'
            f'<script type="text/plain">{data}</script>\n'
        )
    inner = "".join(parts) + _static(simulations, cells)
    return f'<div class="timelines">\n{inner}</div>\n'


def text_of(text: str) -> str:
    """Text as HTML, without characters that pages may not have or that would hide others."""
    return escape(printable(text))


def document(title: str, body: str) -> Html:
    """A whole page around a body that is HTML already."""
    scripts = "\n".join(_resource(name) for name in _SCRIPTS)
    return Html(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text_of(title) or 'Pipeline schedules'}</title>\n"
        f"<style>\n{_resource('page.css')}</style>\n</head>\n<body>\n"
        f"<h1>Pipeline schedules</h1>\n<p>{text_of(title)}</p>\n{body}"
        f"<script>\n(() => {{\n'use strict';\n{scripts}}})();\n</script>\n</body>\n</html>\n"
    )


def page(simulations: Sequence[Pictures], *, title: str | None = None) -> Html:
    """One HTML file with the timelines on one scale, to zoom, pan and ask what each cell waited
    for. It needs no network, and draws every cell of schedules of any size (docs/Pictures.md).

    >>> import pipesched
    >>> run = pipesched.generate("1f1b", workers=2, microbatches=4).simulate(times="F=1ms,B=2ms")
    >>> text = pipesched.page([run], title="two workers")
    >>> text.startswith("<!doctype html>") and "two workers" in text
    True
    """
    evaluations_of("page takes a list of simulations, such as page([a.simulate()])", simulations)
    named = "" if title is None else title_of("title", title)
    return document(named, timelines(simulations))

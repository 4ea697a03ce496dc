"""What LaTeX takes: text without special characters, and pictures as TikZ, of the shapes of the
SVG.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from ..errors import PipeSchedError
from .image import NAMESPACE, Shapes, number_of, read_shapes, read_width, size_of_text

DEFAULT_WIDTH = "160mm"
"""Of a picture: a page of A4 with margins of 25 mm."""

_PT_PER_INCH = 72.27
_PX_PER_INCH = 96.0
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "·": r"\textperiodcentered{}",
    "×": r"\texttimes{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_ANCHORS = {"middle": "base", "end": "base east"}


def latex_of(text: str) -> str:
    """A text in which no character means anything to LaTeX. Values do not break from their units.

    >>> latex_of("7.5 % of a_b")
    '7.5~\\\\% of a\\\\_b'
    """
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    return re.sub(r"(?<=\d) (?=\\%|[GMK]iB\b|[munp]?s\b)", "~", escaped)


def _place(x: float, y: float) -> str:
    return f"({x:.5g},{y:.5g})"


class _Colours:
    """The colours of a picture under names of LaTeX."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, colour: str) -> str:
        """The name of `#abc` or `#aabbcc`."""
        digits = colour.removeprefix("#").upper()
        if len(digits) == 3:
            digits = "".join(2 * digit for digit in digits)
        return self._names.setdefault(digits, f"pipesched{digits}")

    def definitions(self) -> Iterator[str]:
        """One line of LaTeX for each."""
        for digits, name in self._names.items():
            yield f"  \\definecolor{{{name}}}{{HTML}}{{{digits}}}"


def _rectangles(shapes: Shapes, colours: _Colours, scale: float) -> Iterator[str]:
    each = zip(shapes.rectangles, shapes.fills, shapes.edges, shapes.edge_widths, strict=True)
    for (x0, y0, x1, y1), fill, edge, width in list(each)[1:]:  # The first one is the paper.
        options = []
        if isinstance(fill[0], str):
            options.append(f"fill={colours.name(fill[0])}")
            options += [f"fill opacity={fill[1]:g}"] if fill[1] < 1 else []
        if isinstance(edge, str):
            options.append(f"draw={colours.name(edge)},line width={width * scale:.3g}pt")
        if options:
            yield f"  \\path[{','.join(options)}] {_place(x0, y0)} rectangle {_place(x1, y1)};"


def _lines(shapes: Shapes, colours: _Colours, scale: float) -> Iterator[str]:
    for (begin, end), style in zip(shapes.lines, shapes.line_styles, strict=True):
        width = float(style.get("stroke-width", "1")) * scale
        options = f"draw={colours.name(style['stroke'])},line width={width:.3g}pt"
        yield f"  \\path[{options}] {_place(*begin)} -- {_place(*end)};"


def _text(shapes: Shapes, element: ElementTree.Element, colours: _Colours, scale: float) -> str:
    parts = [part for part in element if part.tag == f"{NAMESPACE}tspan"] or [element]
    plain = {**shapes.styles["text"], **shapes.styles.get(element.get("class", ""), {})}
    words = []
    for part in parts:
        style = {**plain, **shapes.styles.get(part.get("class", ""), {})}
        size = size_of_text(part, style) * scale
        bold = "\\bfseries" if style.get("font-weight") == "bold" else ""
        slanted = "\\itshape" if style.get("font-style") == "italic" else ""
        gap = number_of(part, "dx") * scale
        space = f"\\hspace{{{gap:.3g}pt}}" if gap else ""
        font = f"\\fontsize{{{size:.3g}}}{{{1.2 * size:.3g}}}\\selectfont{bold}{slanted}"
        colour = f"\\color{{{colours.name(style['fill'])}}}"
        words.append(f"{space}{{{font}{colour} {latex_of(part.text or '')}}}")
    anchor = _ANCHORS.get(plain.get("text-anchor", ""), "base west")
    place = _place(number_of(element, "x"), number_of(element, "y"))
    return f"  \\node[anchor={anchor},inner sep=0pt] at {place} {{\\sffamily{''.join(words)}}};"


def tikz_of(svg: str, width: float | str | None = None) -> str:
    """A picture of the library as TikZ (package `tikz`). `width` is in pixels, or a length such as
    `"120mm"`; by default 160 mm.
    """
    shapes = read_shapes(svg)
    wanted = read_width(DEFAULT_WIDTH if width is None else width)
    inches = wanted.inches or (wanted.px or 0.0) / _PX_PER_INCH
    scale = inches * _PT_PER_INCH / shapes.size[0]
    if not 0 < scale * max(shapes.size) < 16383:
        raise PipeSchedError(
            f"a picture of TikZ is at most 16383pt high and wide; {width!r} is wider, or too wide "
            "for its height"
        )
    colours = _Colours()
    body = [
        *_lines(shapes, colours, scale),
        *_rectangles(shapes, colours, scale),
        *(_text(shapes, element, colours, scale) for element in shapes.texts),
    ]
    unit = f"{scale:.6g}pt"
    paper = f"  \\useasboundingbox (0,0) rectangle {_place(*shapes.size)};"
    head = ["% needs \\usepackage{tikz}", f"\\begin{{tikzpicture}}[x={unit},y=-{unit}]"]
    return "\n".join([*head, paper, *colours.definitions(), *body, "\\end{tikzpicture}"]) + "\n"

"""Pictures as PNG and PDF: the shapes of the library's SVG (lib/Target/Svg.cpp), drawn by
Matplotlib.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast
from xml.etree import ElementTree

import numpy as np

from ..errors import PipeSchedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

ImageFormat = Literal["png", "pdf"]
Style = Mapping[str, str]

_PX_PER_INCH = 96.0
"""Pixels per inch of CSS, for widths in px."""
_PRINTED_PX_PER_INCH = 300.0
"""Pixels per inch of a PNG whose width is a length on paper."""
_INCHES = {"in": 1.0, "mm": 1 / 25.4, "cm": 1 / 2.54, "pt": 1 / 72}
_MOST_PX = 30_000
_FONT = "DejaVu Sans"
_FONT_SCALE = 0.92
"""The font size is reduced, because this font is wider than the layout expects."""
NAMESPACE = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Width:
    """The width of a picture, in pixels or in inches."""

    px: float | None = None
    inches: float | None = None


def read_width(width: float | str) -> Width:
    """Reads `1600`, `"1600px"`, `"180mm"`, `"18cm"`, `"7in"`, `"504pt"`.

    >>> read_width("7in").inches, read_width(800).px
    (7.0, 800.0)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*(px|in|mm|cm|pt)?\s*", str(width))
    try:
        number = float(found[1]) if found else 0.0
    except ValueError:
        number = 0.0
    if not found or not 0 < number < float("inf"):
        raise PipeSchedError(
            f"expected a width such as 1600, 1600px, 180mm, 18cm, 7in or 504pt, found {width!r}"
        )
    unit = found[2] or "px"
    return Width(px=number) if unit == "px" else Width(inches=number * _INCHES[unit])


def scaled(svg: str, width: float | str) -> str:
    """The SVG in another width; its shapes keep their proportions."""
    wanted = read_width(width)
    head = re.search(r'(<svg [^>]*?)width="([0-9.]+)" height="([0-9.]+)"', svg)
    assert head is not None
    ratio = float(head[3]) / float(head[2])
    number, unit = (wanted.px, "") if wanted.px else (wanted.inches or 0.0, "in")
    sizes = f'width="{number:g}{unit}" height="{number * ratio:.6g}{unit}"'
    return svg[: head.start()] + head[1] + sizes + svg[head.end() :]


# Reading the SVG


@dataclass
class Shapes:
    """The shapes of a picture, in px, in the order in which they are drawn."""

    size: tuple[float, float]
    styles: dict[str, Style]
    rectangles: list[tuple[float, ...]] = field(default_factory=list)
    fills: list[Any] = field(default_factory=list)
    edges: list[Any] = field(default_factory=list)
    edge_widths: list[float] = field(default_factory=list)
    lines: list[tuple[tuple[float, float], tuple[float, float]]] = field(default_factory=list)
    line_styles: list[Style] = field(default_factory=list)
    texts: list[ElementTree.Element] = field(default_factory=list)


def _styles(text: str) -> dict[str, Style]:
    rules = re.findall(r"(?m)^\.?(\w+)\{([^}]*)\}", text)
    return {
        name: dict(part.split(":", 1) for part in body.split(";") if part) for name, body in rules
    }


def number_of(element: ElementTree.Element, name: str, whole: float = 0.0) -> float:
    """Returns the number of an attribute, 0 if it is missing; a percentage is a part of `whole`."""
    text = element.get(name, "0")
    return whole * float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _add_rectangle(shapes: Shapes, element: ElementTree.Element) -> None:
    style = shapes.styles.get(element.get("class", ""), {})
    x, y = number_of(element, "x"), number_of(element, "y")
    width = number_of(element, "width", shapes.size[0])
    height = number_of(element, "height", shapes.size[1])
    shapes.rectangles.append((x, y, x + width, y + height))
    fill = element.get("fill") or style.get("fill", "#000")
    opacity = float(element.get("opacity", "1"))
    shapes.fills.append((0, 0, 0, 0) if fill == "none" else (fill, opacity))
    shapes.edges.append(style.get("stroke", (0, 0, 0, 0)))
    shapes.edge_widths.append(float(style.get("stroke-width", 0)))


def read_shapes(svg: str) -> Shapes:
    """The shapes of a picture of the library."""
    root = ElementTree.fromstring(svg.encode())
    sheet = root.find(f"{NAMESPACE}style")
    size = (float(root.get("viewBox", "").split()[2]), float(root.get("viewBox", "").split()[3]))
    shapes = Shapes(size, _styles((sheet.text if sheet is not None else "") or ""))
    for element in root:
        match element.tag.removeprefix(NAMESPACE):
            case "rect":
                _add_rectangle(shapes, element)
            case "line":
                ends = [number_of(element, name) for name in ("x1", "y1", "x2", "y2")]
                shapes.lines.append(((ends[0], ends[1]), (ends[2], ends[3])))
                shapes.line_styles.append(shapes.styles[element.get("class", "")])
            case "text":
                shapes.texts.append(element)
            case "title" | "style":
                pass
            case other:
                raise PipeSchedError(
                    f"cannot draw the shape {other!r} of this SVG; expected rect, line and text"
                )
    return shapes


# Drawing


def _draw_rectangles(axes: Axes, shapes: Shapes, scale: float) -> None:
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import to_rgba

    color = lru_cache(maxsize=None)(to_rgba)
    x0, y0, x1, y1 = np.array(shapes.rectangles).T
    corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1], axis=1).reshape(-1, 4, 2)
    behind = PolyCollection([corners[0]], facecolors=[color(shapes.fills[0])], zorder=0)
    boxes = PolyCollection(
        cast(Any, corners[1:]),
        facecolors=[color(fill) for fill in shapes.fills[1:]],
        edgecolors=[color(edge) for edge in shapes.edges[1:]],
        linewidths=[width * scale * 72 / _PX_PER_INCH for width in shapes.edge_widths[1:]],
        zorder=2,
    )
    lines = LineCollection(
        shapes.lines,
        colors=[style["stroke"] for style in shapes.line_styles],
        linewidths=[
            float(style["stroke-width"]) * scale * 72 / _PX_PER_INCH for style in shapes.line_styles
        ],
        zorder=1,
    )
    for collection in (behind, lines, boxes):
        axes.add_collection(cast(Any, collection), autolim=False)


@lru_cache(maxsize=4096)
def _outline(text: str, size: float) -> Path:
    """The outline of a text that is centred at 0."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    path = TextPath((0, 0), text, size=size * _FONT_SCALE, prop=FontProperties(family=_FONT))
    box = path.get_extents()
    return path.transformed(Affine2D().translate(-(box.x0 + box.x1) / 2, 0))


def size_of_text(element: ElementTree.Element, style: Style) -> float:
    """The size of the letters of a text, in px."""
    own = re.search(r"font-size:([0-9.]+)px", element.get("style", ""))
    return float(own[1] if own else style.get("font-size", "11px").removesuffix("px"))


def _draw_numbers(axes: Axes, shapes: Shapes, scale: float) -> list[ElementTree.Element]:
    """Draws the many numbers in cells; returns the other texts."""
    from matplotlib.collections import PathCollection
    from matplotlib.transforms import Affine2D

    others = []
    places: dict[tuple[str, float, str], list[tuple[float, float]]] = defaultdict(list)
    for element in shapes.texts:
        if element.get("class") not in ("l", "d"):
            others.append(element)
            continue
        key = (element.text or "", size_of_text(element, {}), element.get("class", ""))
        places[key].append((number_of(element, "x"), number_of(element, "y")))
    to_display = Affine2D().scale(scale / _PX_PER_INCH) + axes.figure.dpi_scale_trans
    for (text, size, name), at in places.items():
        numbers = PathCollection(
            [_outline(text, size)],
            offsets=at,
            offset_transform=axes.transData,
            facecolors=shapes.styles[name]["fill"],
            linewidths=0,
            zorder=3,
        )
        numbers.set_transform(to_display)
        axes.add_collection(cast(Any, numbers), autolim=False)
    return others


def _draw_text(axes: Axes, shapes: Shapes, element: ElementTree.Element, scale: float) -> None:
    parts = [part for part in element if part.tag == f"{NAMESPACE}tspan"] or [element]
    x, y = number_of(element, "x"), number_of(element, "y")
    plain = shapes.styles["text"]
    for part in parts:
        style = {**plain, **shapes.styles.get(part.get("class", ""), {})}
        x += number_of(part, "dx")
        size = size_of_text(part, style) * _FONT_SCALE
        aligned = {"end": "right", "middle": "center"}.get(style.get("text-anchor", ""), "left")
        drawn = axes.text(
            x,
            y,
            (part.text or "").replace("$", r"\$"),
            fontsize=size * scale * 72 / _PX_PER_INCH,
            fontfamily=_FONT,
            fontweight=style.get("font-weight", "normal"),
            fontstyle=cast(Any, style.get("font-style", "normal")),
            color=style["fill"],
            ha=cast(Any, aligned),
            va="baseline",
            zorder=4,
        )
        if part is not parts[-1]:
            box = drawn.get_window_extent().transformed(axes.transData.inverted())
            x += abs(box.x1 - box.x0)


def _check_pixels(wide: float, tall: float) -> None:
    wrong = ""
    if max(wide, tall) > _MOST_PX:
        wrong = f"too large, at most {_MOST_PX} on a side; give a smaller width"
    elif min(wide, tall) < 1:
        wrong = "too small, at least 1 on a side; give a larger width"
    if wrong:
        found = f"{wide:.0f} x {tall:.0f}"
        raise PipeSchedError(f"a PNG of {found} pixels is {wrong}, or write SVG or PDF")


def render(svg: str, format: ImageFormat, width: float | str | None = None) -> bytes:
    """Draws a picture of the library as `png` or `pdf`.

    `width` is in pixels, or a length such as `"180mm"` (a PNG then has 300 pixels per inch); by
    default it is the width of the SVG. Errors: no width; no pixel or more than 30,000 on a side.
    """
    from matplotlib.figure import Figure

    shapes = read_shapes(svg)
    wanted = read_width(width) if width is not None else Width(px=shapes.size[0])
    inches = wanted.inches or cast(float, wanted.px) / _PX_PER_INCH
    dpi = _PRINTED_PX_PER_INCH if wanted.inches else _PX_PER_INCH
    ratio = shapes.size[1] / shapes.size[0]
    if format == "png":
        _check_pixels(inches * dpi, inches * dpi * ratio)
    scale = inches * _PX_PER_INCH / shapes.size[0]
    figure = Figure(figsize=(inches, inches * ratio), dpi=dpi)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, shapes.size[0]), ylim=(shapes.size[1], 0))
    axes.axis("off")
    _draw_rectangles(axes, shapes, scale)
    for element in _draw_numbers(axes, shapes, scale):
        _draw_text(axes, shapes, element, scale)
    file = io.BytesIO()
    metadata = {"CreationDate": None} if format == "pdf" else None
    figure.savefig(file, format=format, dpi=dpi, metadata=cast(Any, metadata))
    return file.getvalue()


# LaTeX

DEFAULT_WIDTH = "160mm"
"""Size of a picture: a page of A4 with margins of 25 mm."""

_PT_PER_INCH = 72.27
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
    """A text in which no character is special to LaTeX. Values do not break from their units.

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
        """A line of LaTeX for each."""
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

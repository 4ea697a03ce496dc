"""Pictures of timelines: SVG, PNG, PDF, and the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _core
from ..errors import PipeSchedError, WrongType
from ..support.files import write_whole
from ..support.options import SvgVariant, code_of, path_of, text_of
from . import image as _image

if TYPE_CHECKING:
    from .pages import Html

MOST_CELLS = 20_000
"""Notebooks do not draw schedules with more cells; `to_svg` does."""

PICTURES = (".svg", ".png", ".pdf", ".tikz")
"""Endings of pictures, which take a width."""


class Svg(str):
    """The text of an SVG picture, which notebooks draw."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def scaled(self, width: float | str) -> Svg:
        """The same picture in a width: pixels, or a length such as `180mm`, `18cm`, `7in`."""
        return Svg(_image.scaled(self, width))

    def to_png(self, width: float | str | None = None) -> bytes:
        """As PNG. `width` is in pixels, or a length on paper (300 pixels per inch); by default the
        picture's.
        """
        return _image.render(self, "png", width)

    def to_pdf(self, width: float | str | None = None) -> bytes:
        """As PDF, whose shapes stay sharp. `width` is a length, or px of 1/96 inch."""
        return _image.render(self, "pdf", width)

    def to_tikz(self, width: float | str | None = None) -> str:
        """As TikZ, with text in the font of the document. `width` is a length, or px of 1/96 inch;
        by default 160 mm.
        """
        return _image.tikz_of(self, width)

    def contents(self, suffix: str, width: float | str | None = None) -> bytes:
        """The contents of a file with this ending, `.svg`, `.png`, `.pdf` or `.tikz`."""
        text_of("suffix", suffix)
        if suffix == ".tikz":
            return self.to_tikz(width).encode()
        if suffix == ".svg":
            return (self if width is None else self.scaled(width)).encode()
        return self.to_png(width) if suffix == ".png" else self.to_pdf(width)


class Pictures:
    """The drawings of a timeline."""

    _evaluation: _core.Evaluation

    def to_svg(self, variant: SvgVariant = "timed") -> Svg:
        """The timeline, or the table in its slots, as papers draw it."""
        return draw(self, variant=variant)

    def to_html(self, title: str | None = None) -> Html:
        """A page on which the timeline is zoomed, with the waits of each cell."""
        from .pages import page

        return page([self], title=title)

    def to_chrome_trace(self) -> str:
        """The timeline for Perfetto and chrome://tracing."""
        from .streams import chrome_trace

        return chrome_trace([self])

    def save(self, path: str | os.PathLike[str], *, width: float | str | None = None) -> None:
        """Writes the timeline by the file's ending: `.svg`, `.png`, `.pdf` and `.tikz` (of this
        width, as in `Svg.scaled`), `.html` (the page) or `.json` (the Chrome trace). The file
        appears whole or not at all.
        """
        file = Path(path_of("path", path))
        texts: dict[str, Callable[[], str]] = {".html": self.to_html, ".json": self.to_chrome_trace}
        if width is not None and file.suffix not in PICTURES:
            raise PipeSchedError(f"{file.name}: only {', '.join(PICTURES)} have a width")
        if file.suffix in PICTURES:
            write_whole(path, self.to_svg().contents(file.suffix, width))
        elif file.suffix in texts:
            write_whole(path, texts[file.suffix]().encode())
        else:
            known = ", ".join((*PICTURES, *texts))
            raise PipeSchedError(f"cannot save as {file.suffix!r}; known endings: {known}")

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if self._evaluation.num_cells <= MOST_CELLS else None


def evaluations_of(wanted: str, given: Iterable[Pictures]) -> list[_core.Evaluation]:
    """The drawable of each argument. Raises a TypeError that names the wanted types."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise WrongType(f"{wanted}; got {given!r}")
    found = []
    for each in given:
        if not isinstance(each, Pictures):
            raise WrongType(f"{wanted}; got {each!r}")
        found.append(each._evaluation)
    return found


def draw(*simulations: Pictures, variant: SvgVariant = "timed") -> Svg:
    """Draws timelines, or tables in their slots, on one scale, so that lengths can be compared."""
    wanted = "draw takes simulations, one argument each, such as draw(a.simulate())"
    evaluations = evaluations_of(wanted, simulations)
    return Svg(_core.svg(evaluations, code_of(SvgVariant, "variant", variant)))

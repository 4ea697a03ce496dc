"""Options that draw timelines: the page, pictures in three formats, the trace."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pipesched
from pipesched import Simulation
from pipesched._image import read_width

from .arguments import UsageError
from .output import write_text

WIDTH = "of pictures: pixels, or a length such as 180mm, 18cm, 7in; a PNG has 300 pixels per inch"
KINDS = {"svg": "SVG", "png": "PNG", "pdf": "PDF", "tikz": "TikZ, for LaTeX"}
PICTURES = tuple(KINDS)


def width(text: str) -> str:
    """Parses `1600` or `180mm`."""
    try:
        read_width(text)
    except pipesched.PipeSchedError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def add_drawings(parser: argparse.ArgumentParser) -> None:
    """Adds `--html`, `--svg`, `--png`, `--pdf`, `--tikz`, `--trace` and `--width`."""
    group = parser.add_argument_group("drawings, beside the answer; several schedules on one scale")
    group.add_argument("--html", metavar="FILE", help="a page to zoom, with what cells waited for")
    for name in PICTURES:
        group.add_argument(f"--{name}", metavar="FILE", help=f"the timeline as {KINDS[name]}")
    group.add_argument("--width", type=width, help=WIDTH)
    group.add_argument("--trace", metavar="FILE", help="the timeline for Perfetto")


def write_drawings(
    arguments: argparse.Namespace, simulations: Sequence[Simulation], title: str = ""
) -> None:
    """Writes the files that were asked for; the title is that of the page."""
    pictures = {name: getattr(arguments, name) for name in PICTURES}
    if arguments.width and not any(pictures.values()):
        raise UsageError("--width is that of --svg, --png, --pdf or --tikz")
    if any(pictures.values()):
        svg = pipesched.draw(*simulations)
        for name, file in pictures.items():
            if file:
                write_text(svg.contents(f".{name}", arguments.width), file)
    if arguments.html:
        write_text(pipesched.page(simulations, title=title), arguments.html)
    if arguments.trace:
        from pipesched._streams import chrome_trace

        write_text(chrome_trace(simulations), arguments.trace)

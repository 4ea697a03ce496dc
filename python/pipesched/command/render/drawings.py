"""`--draw`: the page, pictures in four formats, and the trace."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pipesched
from pipesched import Simulation

from ..options import table
from ..options.arguments import UsageError
from .output import write_text

WIDTH = "of pictures: pixels, or a length such as 180mm, 18cm, 7in; a PNG has 300 pixels per inch"
PICTURES = ("svg", "png", "pdf", "tikz")
KINDS = ("html", *PICTURES, "trace")
ENDINGS = {f".{kind}": kind for kind in KINDS} | {".htm": "html", ".tex": "tikz", ".json": "trace"}


def width(text: str) -> str:
    """Parses `1600` or `180mm`."""
    from pipesched.viz.image import read_width  # imports numpy

    try:
        read_width(text)
    except pipesched.PipeSchedError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


class Draw(argparse.Action):
    """Keeps a file under the kind of drawing that it gets, such as `svg`."""

    def __init__(self, *, kinds: Sequence[str], **given: Any) -> None:
        super().__init__(**given)
        self.kinds = tuple(kinds)

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        kind, colon, file = values.partition(":")
        if not colon or kind not in KINDS:
            kind, file = ENDINGS.get(Path(values).suffix, ""), values
        if kind not in self.kinds:
            listed = ", ".join(self.kinds)
            raise argparse.ArgumentError(
                self, f"draws {listed}; found {values!r}; KIND:FILE says what a file gets"
            )
        if getattr(namespace, kind) is not None:
            raise argparse.ArgumentError(self, f"one {kind} is drawn, found another in {file!r}")
        setattr(namespace, kind, file)


def add_draw(parser: argparse.ArgumentParser, kinds: Sequence[str] = KINDS) -> None:
    table.add(parser, "draw", draw={"action": Draw, "kinds": kinds})
    parser.set_defaults(**dict.fromkeys(kinds))


def add_width(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--width", type=width, help=WIDTH)


def write_drawings(arguments: argparse.Namespace, simulations: Sequence[Simulation]) -> None:
    """Writes the pictures and the trace, without the page."""
    pictures = {name: getattr(arguments, name) for name in PICTURES}
    if arguments.width and not any(pictures.values()):
        raise UsageError("--width is that of drawn pictures: svg, png, pdf or tikz")
    if any(pictures.values()):
        svg = pipesched.draw(*simulations)
        for name, file in pictures.items():
            if file:
                write_text(svg.contents(f".{name}", arguments.width), file)
    if arguments.trace:
        from pipesched.viz.streams import chrome_trace

        write_text(chrome_trace(simulations), arguments.trace)

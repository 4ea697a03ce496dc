"""A headless Chromium for tests of pages, and queries on it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OPENS_MS = 120_000
"""Tells a page that does not open from a slow machine."""

try:
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError:
    pytest.skip("playwright is not installed; the extra `test` has it", allow_module_level=True)

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@contextmanager
def running() -> Iterator[Browser]:
    """The browser of Debian's package `chromium`, or the one that CHROMIUM names."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium, or set CHROMIUM")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page in a browser. `complaints` has the reports of its scripts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def goto(self, file: Path) -> None:
        self.page.goto(file.as_uri(), timeout=OPENS_MS)
        self.page.wait_for_selector("html[data-opened]", state="attached", timeout=OPENS_MS)

    def ask(self, expression: str, argument: Any = None) -> Any:
        """The value of an expression of `page`, `panel`, `figure` and `timeline`, the first ones,
        and of `given`.
        """
        return self.page.evaluate(
            """([expression, given]) => {
                 const page = pipeschedPage, panel = page.panels[0], figure = panel.figures[0];
                 return new Function('page', 'panel', 'figure', 'timeline', 'given',
                                     `return ${expression}`)(page, panel, figure, figure.timeline,
                                                             given);
               }""",
            [expression, argument],
        )

    def settle(self) -> None:
        """Waits until the requested picture is drawn."""
        self.page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def place(self, row: int, ps: float, figure: int = 0) -> tuple[float, float]:
        """The position of the middle of a row on the screen at a time."""
        x, y = self.ask(
            """(() => {
                 const figure = panel.figures[given.figure];
                 const box = figure.canvas.getBoundingClientRect();
                 const layout = figure.timeline.layout(panel.show);
                 const top = given.row * layout.pitch - figure.plot.scrollTop;
                 return [box.left + figure.x(given.ps), box.top + top + layout.row / 2];
               })()""",
            {"row": row, "ps": ps, "figure": figure},
        )
        return x, y

    def hover(self, row: int, ps: float, figure: int = 0) -> list[str]:
        """The lines of the tip over a row at a time."""
        self.page.mouse.move(*self.place(row, ps, figure))
        tip = self.page.locator(".tip")
        return tip.inner_text().splitlines() if tip.is_visible() else []

    def picture(self, figure: int = 0) -> str:
        """The pixels of a canvas."""
        self.settle()
        return str(self.ask("panel.figures[given].canvas.toDataURL()", figure))

    @property
    def view(self) -> tuple[float, float]:
        """The visible times, in ps."""
        begin, end = self.ask("[panel.view.from, panel.view.to]")
        return begin, end

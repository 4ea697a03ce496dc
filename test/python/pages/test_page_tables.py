"""Tables of pages in a browser: sorted, searched, and whole on narrow screens and paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import Opened, running
from pipesched.command import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COSTS = ["--model", "llama3-70b", "--system", "dgx-h100", "--global-batch", "16"]
FAMILIES = "1f1b,gpipe,zb-h1,zb-h2,zb-v,interleaved-1f1b,interleaved-zb"
LINE = ["simulate", "--pp", "4", "--microbatches", "8,16", "--schedules", FAMILIES, *COSTS]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("page") / "page.html"
    assert main([*LINE, "--draw", str(found), "-o", str(found.with_suffix(".txt"))]) == 0
    return found


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = Opened(context.new_page())
    page.goto(file)
    yield page
    context.close()
    assert page.complaints == []


def column(opened: Opened, heading: str) -> list[str]:
    """The visible cells of a column of the first table."""
    found: list[str] = opened.page.evaluate(
        """(heading) => {
             const table = document.querySelector('.scroll table');
             const heads = [...table.tHead.rows[0].cells].map((head) => head.innerText.trim());
             const place = heads.indexOf(heading);
             return [...table.tBodies[0].rows].filter((row) => !row.hidden)
                 .map((row) => row.cells[place].innerText);
           }""",
        heading,
    )
    return found


def sort(opened: Opened, heading: str) -> None:
    opened.page.locator(".scroll table").first.get_by_role("button", name=heading).first.click()


def numbers(texts: list[str]) -> list[float]:
    units = {"s": 1.0, "ms": 1e-3, "%": 1.0, "GiB": 1.0}
    pairs = (text.replace(",", "").split() for text in texts)
    return [float(number) * units[unit[0]] if unit else float(number) for number, *unit in pairs]


def test_sorted_by_numbers(opened: Opened) -> None:
    """By the meaning of numbers, not by their texts: 969 ms before 1.1 s."""
    for heading in ("step", "idle", "tokens/s", "activations"):
        before = numbers(column(opened, heading))
        sort(opened, heading)
        assert numbers(column(opened, heading)) == sorted(before)
        sort(opened, heading)
        assert numbers(column(opened, heading)) == sorted(before, reverse=True)


def test_sorted_by_text(opened: Opened) -> None:
    sort(opened, "schedule")
    assert column(opened, "schedule") == sorted(FAMILIES.split(","))
    rows = dict(zip(column(opened, "schedule"), column(opened, "rank"), strict=True))
    sort(opened, "rank")
    again = dict(zip(column(opened, "schedule"), column(opened, "rank"), strict=True))
    assert rows == again  # rows stay together


def test_cells_without_a_value_come_last(opened: Opened) -> None:
    opened.page.evaluate(
        """(() => {
             const cell = document.querySelector('tbody tr').cells[3];
             cell.textContent = '-';
             delete cell.dataset.value;
           })()"""
    )
    heading = opened.page.locator(".scroll th").nth(3).inner_text().strip()
    for _ in range(2):
        sort(opened, heading)
        assert column(opened, heading)[-1] == "-"


def test_search(opened: Opened) -> None:
    field = opened.page.locator("input[name=search]")
    field.fill("ZB h")
    assert sorted(column(opened, "schedule")) == ["zb-h1", "zb-h2"]
    assert opened.page.locator(".search").inner_text().split() == "4 of 14 rows".split()
    field.fill("nothing")
    assert column(opened, "schedule") == []
    field.press("c")  # types, and switches nothing
    assert not opened.page.locator("input[name=critical]").first.is_checked()
    field.fill("")
    assert len(column(opened, "schedule")) == 7


@pytest.mark.parametrize("width", [1024, pytest.param(1920, marks=pytest.mark.long)])
def test_no_column_is_cut_off(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.settle()
    cut = """[...document.querySelectorAll('.scroll')].map((each) =>
        each.scrollWidth - each.clientWidth)"""
    assert opened.page.evaluate(cut) == [0, 0]
    sizes = "parseFloat(getComputedStyle(document.querySelector('.scroll table')).fontSize)"
    assert opened.page.evaluate(sizes) >= 9


def test_paper(opened: Opened) -> None:
    """All columns are on the paper, and colours are printed."""
    opened.page.emulate_media(media="print")
    opened.ask("page.print(true)")
    width: Any = opened.page.evaluate("document.querySelector('.scroll table').offsetWidth")
    assert width <= 1000
    adjust = "getComputedStyle(document.querySelector('.swatch')).printColorAdjust"
    assert opened.page.evaluate(adjust) == "exact"
    assert "landscape" in Path(opened.page.url.removeprefix("file://")).read_text()
    opened.ask("page.print(false)")


def test_keys_work_at_once(opened: Opened) -> None:
    """The keys work without a click, all panels follow, and the page lists the keys."""
    for key, name in {"c": "critical", "I": "idle", "m": "messages", "y": "memory"}.items():
        boxes = opened.page.locator(f"input[name={name}]")
        before = [boxes.nth(i).is_checked() for i in range(boxes.count())]
        opened.page.keyboard.press(key)
        after = [boxes.nth(i).is_checked() for i in range(boxes.count())]
        assert after == [not before[0]] * len(before) and len(after) == 2
        assert key.upper() in opened.page.locator(".toolbar kbd").all_inner_texts()
    begin, end = opened.view
    opened.page.keyboard.press("+")
    assert opened.view[1] - opened.view[0] == (end - begin) / 2
    opened.page.locator("canvas").first.focus()
    opened.page.keyboard.press("c")  # only the timeline, and only once
    boxes = opened.page.locator("input[name=critical]")
    assert [boxes.nth(i).is_checked() for i in (0, 1)] == [False, True]
    assert "C I M Y" in opened.page.locator(".help").first.inner_text()

"""The page of `compare` and `show`: a section for each size, with its rows and timelines."""

import json
import re
from pathlib import Path

import pipesched
import pytest
from pipesched.command import main
from test_command import Capture, failure_of, rows_of

TIMES = ["--times", "F=1ms,I=1ms,W=1ms,comm=0.1ms"]

Section = tuple[str, list[str], list[str], str]


def sections(page: Path) -> list[Section]:
    """The heading of each section, the names in its table and in its timelines, and its text."""
    found = []
    for text in page.read_text().split("<section>")[1:]:
        heading = re.search("<h2>(.*?)</h2>", text)
        assert heading
        body = text[: text.index("</section>")]
        rows = re.findall("<tr.*?</tr>", body[body.index("<tbody>") :], re.DOTALL)
        names = [re.findall('<td class="left">(.*?)</td>', row)[0] for row in rows]
        facts = re.findall('class="facts">(.*?)</script>', body, re.DOTALL)
        found.append((heading[1], names, [json.loads(each)["title"] for each in facts], body))
    return found


def test_sizes_have_sections_of_their_own(tmp_path: Path, capsys: Capture) -> None:
    """Schedules of as many microbatches on other workers are not ranked with each other."""
    files = []
    for workers in (2, 4):
        files.append(str(tmp_path / f"on{workers}.mlir"))
        made = pipesched.generate("gpipe", workers=workers, microbatches=8, name=f"on{workers}")
        made.save(files[-1])
    page = tmp_path / "page.html"
    line = ["simulate", *files, "--schedules", "zb-h1,1f1b", *TIMES, "--draw", str(page)]
    rows = rows_of(capsys, *line)
    assert [row["rank"] for row in rows] == [1, 2, 3, 1, 2, 3]
    found = sections(page)
    assert [heading for heading, *_ in found] == [
        "2 workers, 8 microbatches",
        "4 workers, 8 microbatches",
    ]
    for workers, (_, names, drawn, text) in zip((2, 4), found, strict=True):
        ranked = [row["schedule"] for row in rows if row["workers"] == workers]
        assert names == drawn == ranked
        assert text.count("<tr class=best>") == 1
        assert text.count("<li>fastest: ") == 1


def two(tmp_path: Path) -> str:
    """A file with a fast and a slow schedule, the slow one first."""
    file = tmp_path / "two.mlir"
    made = [pipesched.generate(f, workers=4, microbatches=8, name=f) for f in ("gpipe", "zb-h1")]
    file.write_text("".join(each.to_text() for each in made))
    return str(file)


def test_show_writes_the_page_of_compare(tmp_path: Path, capsys: Capture) -> None:
    file = two(tmp_path)
    pages = [tmp_path / "show.html", tmp_path / "compare.html"]
    assert main(["show", file, "--draw", str(pages[0])]) == 0
    said = capsys.readouterr()
    assert said.err == f"wrote {pages[0]}\n" and said.out.startswith("gpipe  ")
    assert main(["simulate", file, "--draw", str(pages[1])]) == 0
    assert sections(pages[0]) == sections(pages[1])
    assert sections(pages[0])[0][1:3] == (["zb-h1", "gpipe"], ["zb-h1", "gpipe"])
    assert f"<p>{file}, unit slots of 1 us</p>" in pages[0].read_text()


@pytest.mark.parametrize("format", ["text", "json"])
def test_show_draws_the_named_schedule(format: str, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "show.html"
    line = ["show", two(tmp_path), "--name", "gpipe", "--format", format]
    assert main([*line, "--draw", str(page)]) == 0
    assert [names for _, names, _, _ in sections(page)] == [["gpipe"]]
    assert main([*line]) == 0
    said = capsys.readouterr().out
    assert said == said[: len(said) // 2] * 2 != ""


def test_show_takes_the_costs_of_the_file(tmp_path: Path, capsys: Capture) -> None:
    file, page = tmp_path / "timed.mlir", tmp_path / "show.html"
    schedule = pipesched.generate("1f1b", workers=4, microbatches=8)
    timed = schedule.transform('pipe-attach-profile{times="F=1ms,B=2ms"}')
    timed.save(file)
    assert main(["show", str(file), "--draw", str(page)]) == 0
    assert f"{file}, times of their own" in page.read_text()
    assert ">33 ms</td>" in sections(page)[0][3]


@pytest.mark.parametrize("what", [["--models"], ["--model", "toy"], ["--families"]])
def test_pages_are_of_files(what: list[str], tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "show.html"
    assert "--draw draws schedules; give a file or a family" in failure_of(
        capsys, "show", *what, "--draw", str(page), status=2
    )
    assert not page.exists()

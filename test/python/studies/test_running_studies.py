"""The studies as scripts: their output equals the pages, and their examples hold."""

import doctest
import importlib
import json
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT

from studies.__main__ import STUDIES, json_lines, main, table

Capture = pytest.CaptureFixture[str]

MODULES = sorted(file.stem for file in (ROOT / "studies").glob("[!_]*.py"))
ON_PAGES = {
    "validation": "Validation",
    "groups": "Validation",
    "switched-off": "Validation",
    "unknowns": "Validation",
    "coverage": "Validation",
    "unseen": "Validation",
    "routing": "Validation",
    "overlap": "Validation",
    "slices": "Validation",
    "memory": "Planning",
    "deepseek": "Planning",
    "plans": "Planning",
}
SHORTENED = ("validation", "unknowns", "switched-off", "coverage", "slices")
"""Pages show some of their rows."""


def printed(capsys: Capture, *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ON_PAGES)
def test_pages_have_what_is_printed(name: str, capsys: Capture) -> None:
    page = (ROOT / "docs" / f"{ON_PAGES[name]}.md").read_text()
    text = printed(capsys, name).split("\n\n")[0].split("\n", 1)[1]
    shown = page.partition(f"python -m studies {name}")[2].partition("```text\n")[2]
    shown = shown.partition("\n```")[0]
    if name in SHORTENED:
        lines = text.splitlines()
        assert lines[0] == shown.splitlines()[0] and {*shown.splitlines()} < {*lines}
    else:
        assert shown == text


def test_residuals_that_ship_are_current(capsys: Capture) -> None:
    file = ROOT / "python" / "pipesched" / "bands" / "residuals.json"
    assert printed(capsys, "residuals", "--format", "json") == file.read_text()


def test_formats_and_pictures(tmp_path: Path, capsys: Capture) -> None:
    rows = printed(capsys, "zero-bubble", "--format", "csv", "-o", str(tmp_path)).splitlines()
    assert rows[0].startswith("model,microbatches,schedule,") and len(rows) == 37
    found = sorted(file.name for file in tmp_path.iterdir())
    assert found == ["zero-bubble.png", "zero-bubble.svg"]


def test_tables_and_json_by_hand() -> None:
    frame = pd.DataFrame({"case": ["a", "long"], "n": [1, 2], "is_met": [True, False]})
    frame["error_percent"] = [1.234, None]
    assert table(frame).splitlines() == [
        "case  n  is met   error",
        "a     1     yes  1.23 %",
        "long  2      no       -",
    ]
    first, second = json.loads(json_lines(frame))
    assert first == {"case": "a", "n": 1, "is_met": True, "error_percent": 1.234}
    assert "error_percent" not in second


def test_wrong_arguments_are_named(capsys: Capture) -> None:
    assert main(["plans", "--search", "gpt5"]) == 1
    assert "no published run 'gpt5'; there are 405b-8192" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["memory", "--search", "all"])
    assert "--search is for plans, found memory" in capsys.readouterr().err


def test_the_readme_names_all_studies() -> None:
    readme = (ROOT / "studies" / "README.md").read_text()
    rows = [line.split("|")[1] for line in readme.splitlines() if line.startswith("| `")]
    assert {name for name in STUDIES if any(f"`{name}`" in row for row in rows)} == {*STUDIES}
    files = {file.name for file in (ROOT / "studies" / "data").iterdir()}
    assert {name for name in files if f"`{name}`" in readme} == files


@pytest.mark.parametrize("name", ["__main__", *MODULES])
def test_examples_of_studies(name: str) -> None:
    module = importlib.import_module(f"studies.{name}")
    assert doctest.testmod(module).failed == 0

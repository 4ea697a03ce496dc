"""The output of verbs fits a terminal: tables, and the sentences above and below them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pipesched.command import main
from pipesched.command.render.output import View, table_text, wrap
from pipesched.command.verbs.fit import STEPS
from rich.cells import cell_len
from test_command_tables import COSTS, LINE, LINES, in_terminal

SLOW = ["--disturbance", "worker3=1.3", "--disturbance", "jitter=5%"]
EXPERTS = ["--model", "qwen3-30b-a3b", "--system", "dgx-h100", "--microbatch-size", "1"]
VERBS: dict[str, list[str]] = {
    **LINES,
    "disturbed": [*LINE, *SLOW],
    "disturbed plan": [*LINES["plan"], "--top", "3", "--disturbance", "worker1=1.3"],
    "explained": [*LINES["plan"], "--explain"],
    "unfit": [*LINES["plan"], "--memory", "24GiB"],
    "vocabulary": [*LINES["plan"], "--set", "vocabulary=whole,vocab-1"],
    "overlap": ["simulate", "--order", "all", *EXPERTS, "--ep", "8", "--dp", "8"],
    "optimize": ["optimize", "--pp", "4", "--microbatches", "8", *COSTS[:4],
                 "--microbatch-size", "1", "--set", "accelerators=8", "--time", "1s"],
    "reproduce": ["reproduce", "table1"],
}  # fmt: skip


def is_to_copy(line: str) -> bool:
    """Flags of launchers, which a break would damage."""
    return re.match(r" +(-|#|[A-Za-z_.]+=|\w+\()", line) is not None


def too_long(lines: list[str], columns: int) -> list[str]:
    """The lines that a break between words would shorten."""
    wide = [line for line in lines if cell_len(line) > columns and not is_to_copy(line)]
    return [line for line in wide if " " in line.strip()]


def own_steps(folder: Path) -> str:
    """Measured steps with long names."""
    given = {"model": "llama3-8b", "system": "h100-sxm-load", "gpus": 8, "global_batch": 16}
    given |= {"tensor": 1, "stages": 8, "microbatch_size": 1, "sharding": "none"}
    rows = [
        {**given, "name": f"a training of ours on the second cluster, run {n}", "measured_s": s}
        for n, s in enumerate((3.1, 3.3, 3.2))
    ]
    file = folder / "steps.json"
    file.write_text(json.dumps(rows))
    return str(file)


@pytest.mark.parametrize("columns", [100, 80])
@pytest.mark.parametrize("name", VERBS)
def test_no_line_is_longer_than_the_terminal(
    name: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = in_terminal(columns, *VERBS[name])
    assert lines and too_long(lines, columns) == []


@pytest.mark.parametrize("columns", [100, 80])
def test_own_steps_fit(tmp_path: Path, columns: int) -> None:
    lines = in_terminal(columns, "fit", own_steps(tmp_path))
    assert too_long(lines, columns) == [] and any("run 2" in line for line in lines)


def test_own_steps_keep_what_they_are_about() -> None:
    row = {
        **{"name": "a training with a name that is long " * 2, "measured_s": 1.2345678},
        **{"before_s": 1.2345678, "error_before": -0.12345},
        **{"after_s": 1.2345678, "error_after": 0.12345},
    }
    for width in (100, 80, 60):
        lines = table_text([row] * 2, STEPS, View(width)).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert "measured" in lines[0] and lines[0].count("error") == 2
    assert "no room" not in table_text([row], STEPS, View())


def test_nothing_of_prose_is_lost() -> None:
    sentence = "- best: 1f1b on 8 workers, tensor 1; of its step workers compute 54.2 %"
    for width in (40, 60, 100):
        text = wrap(sentence, width)
        assert max(map(cell_len, text.splitlines())) <= width
        assert " ".join(text.split()) == sentence
        assert all(line.startswith("  ") for line in text.splitlines()[1:])
    table = "schedule      step\n1f1b      1.234 s and more than that"
    assert wrap(table, 20).splitlines()[0] == table.splitlines()[0]
    assert wrap("  --flag one two three", 10) == "  --flag one two three"
    assert wrap("/a/path/that/is/longer/than/that is", 10).splitlines() == [
        "/a/path/that/is/longer/than/that",
        "  is",
    ]
    assert max(map(cell_len, wrap("宽 " * 10, 12).splitlines())) <= 12  # two columns each
    assert wrap(sentence, None) == sentence


def test_files_and_pipes_have_whole_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.txt"
    assert in_terminal(80, *LINES["plan"], "-o", str(file)) == []
    assert main(LINES["plan"]) == 0
    printed = capsys.readouterr().out
    assert file.read_text() == printed
    whole = [line for line in printed.splitlines() if line.startswith("- ")]
    assert max(map(len, whole)) > 100
    wrapped_lines = " ".join(" ".join(in_terminal(80, *LINES["plan"])).split())
    assert all(" ".join(line.split()) in wrapped_lines for line in whole)

"""Input of verbs: standard input in every format, and files without schedules."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pipesched
import pytest
from pipesched.command import main
from test_command import Capture, failure_of, rows_of, text_of

MADE = pipesched.generate("1f1b", workers=2, microbatches=4, name="made")
TEXTS = {
    "IR": MADE.to_text().encode(),
    "bytecode": MADE.to_bytecode(),
    "CSV": MADE.to_csv().encode(),
    "CSV with a mark": b"\xef\xbb\xbf" + MADE.to_csv().encode(),
    "CSV with messages": MADE.to_csv("compute_comms").encode(),
    "CSV of slots": MADE.transform("pipe-align-slots").to_csv().encode(),
    "CSV of pairs": pipesched.generate("dualpipe-v", workers=2, microbatches=4).to_csv().encode(),
}


def give(monkeypatch: pytest.MonkeyPatch, contents: bytes) -> None:
    """Puts the contents into standard input."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(contents)))


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("line", [["check"], ["show"], ["simulate"], ["convert", "--to", "report"]])
def test_standard_input(
    line: list[str], kind: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, TEXTS[kind])
    assert main([*line, *(["-", "-"] if line[0] == "convert" else ["-"])]) == 0
    printed = capsys.readouterr()
    assert printed.out and not printed.err


def test_optimize_reads_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, TEXTS["CSV"])
    line = ["optimize", "-", "--times", "F=1ms,I=1ms,W=1ms,B=2ms", "--max-evaluations", "50"]
    (row,) = rows_of(capsys, *line)
    assert (row["workers"], row["microbatches"]) == (2, 4)


@pytest.mark.parametrize("kind", ["IR", "CSV"])
def test_passes_read_the_same_input(
    kind: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, TEXTS[kind])
    line = text_of(capsys, "check", "-", "--show-passes")
    assert line.startswith("pipesched-translate --import-torch-csv - | ") == (kind == "CSV")


@pytest.mark.parametrize("kind", ["IR", "CSV"])
@pytest.mark.parametrize("line", [["show", "-"], ["convert", "-", "out.svg"]])
def test_passes_of_an_input_that_is_not_read(
    line: list[str], kind: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input of the call before has no effect."""
    give(monkeypatch, TEXTS["CSV" if kind == "IR" else "IR"])
    assert main(["check", "-"]) == 0
    capsys.readouterr()
    give(monkeypatch, TEXTS[kind])
    found = text_of(capsys, *line, "--show-passes")
    assert found.startswith("pipesched-translate --import-torch-csv - | ") == (kind == "CSV")


@pytest.mark.parametrize(
    ("times", "are_free"), [("F=1ms,B=2ms", True), ("F=1ms,B=2ms,comm=1us", False)]
)
def test_own_times_without_messages(
    times: str, are_free: bool, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "timed.mlir"
    MADE.transform(f'pipe-attach-profile{{times="{times}"}}').save(file)
    printed = text_of(capsys, "simulate", str(file))
    assert ("messages free (no comm) in made, " in printed) == are_free


def test_standard_input_has_a_name(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dash in a table means nothing, so a file is called otherwise."""
    file = tmp_path / "other.mlir"
    MADE.save(file)
    give(monkeypatch, TEXTS["IR"])
    printed = text_of(capsys, "simulate", "-", str(file))
    assert "<stdin>" in printed and " stdin " in printed and " other " in printed


@pytest.mark.parametrize("contents", ["", "module {}", "// nothing\n"])
@pytest.mark.parametrize("verb", ["check", "show", "simulate"])
def test_files_without_schedules_are_no_answer(
    verb: str, contents: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "empty.mlir"
    file.write_text(contents)
    assert f"{file} has no schedule or program" in failure_of(capsys, verb, str(file))


def test_programs_are_not_optimized(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "program.mlir"
    MADE.transform("convert-pipe-to-exec").save(file)
    said = failure_of(capsys, "optimize", str(file))
    assert f"{file}: made is a program; optimize takes schedules" in said


@pytest.mark.parametrize(
    "given",
    [
        ["--sequence", "4096"],
        ["--microbatch-size", "2"],
        ["--precision", "fp8"],
        ["--recompute", "full"],
        ["--set attention", "attention=fused"],
        ["--times", "F=1ms,B=2ms", "--global-batch", "8"],
    ],
)
def test_options_of_models_need_one(given: list[str], capsys: Capture) -> None:
    line = ["simulate", "--pp", "2", "--microbatches", "4", "--schedules", "1f1b"]
    flag = given[-2]
    given = [*given[:-2], *flag.split()[:1], given[-1]]
    assert f"{flag} is about --model; none is given" in failure_of(capsys, *line, *given, status=2)

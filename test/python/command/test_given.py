"""`show` and `check` take a family in the place of a file."""

import shlex
from pathlib import Path

import pipesched
import pytest
from pipesched.command import main
from test_command import Capture, failure_of, rows_of, run_passes, text_of

SIZES = ("--pp", "3", "--microbatches", "6")
FAMILIES = (
    *(("1f1b",), ("VPP", "--vpp", "3"), ("zb-v",)),
    ("chimera", "--option", "construction=concat"),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_stands_for_its_file(
    family: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    file = str(tmp_path / "made.mlir")
    sizes = ("--pp", "4", "--microbatches", "8")
    assert main(["convert", *family, *sizes, "-o", file]) == 0
    for verb in ("show", "check"):
        found = []
        for what in ((file,), (*family, *sizes)):
            capsys.readouterr()
            found.append(text_of(capsys, verb, *what))
        assert found[0] == found[1] != ""
        assert rows_of(capsys, verb, file) == rows_of(capsys, verb, *family, *sizes)


def test_the_schedule_gets_the_name_that_is_given(capsys: Capture) -> None:
    (row,) = rows_of(capsys, "check", "1f1b", *SIZES, "--name", "mine")
    assert row["schedule"] == "mine" and row["valid"]


def test_groups_that_megatron_core_refuses_are_noted(capsys: Capture) -> None:
    """A schedule may be valid and yet need a flag of Megatron-LM, or be refused by it."""
    for sizes, said in (
        ((9, 20), "stage 10; without it Megatron-LM interleaves 9 microbatches at a time, which"),
        ((8, 4), "interleaves 8 or more microbatches here, not 4"),
        ((4, 8), ""),
    ):
        given = ["VPP", "--vpp", "2", "--pp", str(sizes[0]), "--microbatches", str(sizes[1])]
        assert said in (out := text_of(capsys, "check", *given)) and ("note:" in out) == bool(said)


def test_a_page_is_written(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    assert main(["show", "1f1b", *SIZES, "--draw", str(page)]) == 0
    assert "1f1b, unit slots of 1 us" in page.read_text()


@pytest.mark.parametrize("verb", ["show", "check"])
@pytest.mark.parametrize(
    ("given", "why", "status"),
    [
        (("1f1b",), "1f1b is a family: give --pp and --microbatches", 2),
        (("1f1b,zb-v", *SIZES), "give one family, not 1f1b, zb-v", 2),
        (("FILE", "--vpp", "2"), "--vpp is about a family, and none is named", 2),
        (("FILE", "--pp", "2"), "--pp is about a family, and none is named", 2),
        (("1f1c", *SIZES), "there is no such file, and there is no schedule family '1f1c'", 1),
        (("1f1b", *SIZES, "--vpp", "2"), "chunks", 1),
    ],
)
def test_what_is_wrong_is_said(
    verb: str, given: tuple[str, ...], why: str, status: int, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "made.mlir"
    pipesched.generate("1f1b", workers=2, microbatches=2).save(file)
    line = [str(file) if each == "FILE" else each for each in given]
    assert why in failure_of(capsys, verb, *line, status=status)


def test_lists_take_no_options_of_families(capsys: Capture) -> None:
    error = failure_of(capsys, "show", "models", "--pp", "2", status=2)
    assert "--pp is about a family, and none is named" in error


@pytest.mark.parametrize("verb", ["show", "check"])
def test_passes_make_the_family(verb: str, capsys: Capture) -> None:
    said = text_of(capsys, verb, "VPP", *SIZES, "--vpp", "3")
    made = run_passes(capsys, verb, "VPP", *SIZES, "--vpp", "3")
    assert made == said if verb == "show" else "interleaved-1f1b" in made


@pytest.mark.parametrize("verb", ["convert", "simulate", "show", "check"])
def test_no_pass_calls_a_function(verb: str, tmp_path: Path, capsys: Capture) -> None:
    code = tmp_path / "own.py"
    code.write_text(
        "import pipesched\n\n\ndef mine(problem):\n"
        "    sizes = {'workers': problem.workers, 'microbatches': problem.microbatches}\n"
        "    return pipesched.generate('1f1b', **sizes)\n"
    )
    line = (f"{code}:mine", *SIZES)
    if verb == "show":
        assert "worker 2  ·  ·  F0 B0" in text_of(capsys, verb, *line)
    error = failure_of(capsys, verb, *line, "--show-passes")
    assert "is a Python function, which no pass calls" in error
    assert shlex.quote("-o") in error

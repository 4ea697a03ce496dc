"""Names and paths with blanks, quotes, braces and control characters."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pipesched
import pytest
from pipesched import PipeSchedError, PipeSchedWarning, Schedule, load, models, problem, systems
from pipesched.command import main
from pipesched.command.render.output import announce_cells
from pipesched.support.options import pass_options
from test_command import run_passes

Capture = pytest.CaptureFixture[str]
ODD = ["a b", "it's", 'say "so"', "{braces}", "a {b c} d", "semi;colon, = $HOME `x` \\ *"]


@pytest.mark.parametrize("name", ODD)
def test_passes_read_names_as_they_are(name: str) -> None:
    pipeline = "pipe-create" + pass_options({"name": name, "workers": 2, "microbatches": 2})
    made = problem(workers=1, microbatches=1, name="other")._module.run(pipeline)
    assert made.describe(1)["name"] == name


@pytest.mark.parametrize("name", ["a}b", "{", "}{", 'it\'s "so"', " ahead", "behind "])
def test_names_that_no_pipeline_can_say(name: str) -> None:
    with pytest.raises(PipeSchedError, match=r"name: .* has .*; rename it"):
        pass_options({"name": name})


@pytest.fixture(params=["with a blank", "it's {odd}"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / str(request.param)
    made.mkdir()
    for kind, fields in (("model", models()["toy"]), ("system", systems()["toy"])):
        described = {**fields, "name": f"an odd {kind}", "aliases": []}
        (made / f"the {kind}.json").write_text(json.dumps(described))
    return made


def described(folder: Path) -> list[str]:
    return ["--model", str(folder / "the model.json"), "--system", str(folder / "the system.json")]


def test_every_verb_takes_odd_paths(folder: Path, capsys: Capture) -> None:
    file = str(folder / "the schedule.mlir")
    assert main(["convert", "1f1b", "--pp", "4", "--microbatches", "8", "-o", file]) == 0
    verbs = [
        ["show", file],
        ["check", file],
        ["simulate", file, *described(folder)],
        ["simulate", "--pp", "4", "--microbatches", "8", *described(folder)],
        ["sweep", "--pp", "4", "--microbatches", "8", *described(folder)],
        ["convert", file, str(folder / "the schedule.svg")],
    ]
    for verb in verbs:
        assert main(verb) == 0, verb
        capsys.readouterr()


NAMES = [b"new\nline.mlir", b"a\x1b\\b.mlir", "\u00fc\u202e.mlir".encode(), b"not\xffutf.mlir"]


@pytest.mark.parametrize("name", NAMES)
def test_every_verb_takes_names_of_any_bytes(name: bytes, tmp_path: Path, capsys: Capture) -> None:
    """Two files with schedules of one name have the names of their files."""
    file, other = str(tmp_path / os.fsdecode(name)), str(tmp_path / "other.mlir")
    for made in (file, other):
        assert main(["convert", "1f1b", "--pp", "2", "--microbatches", "2", "-o", made]) == 0
    times = ["--times", "F=1ms,B=2ms"]
    drawn = [f"--{kind}={file}.{kind}" for kind in ("html", "svg", "png", "pdf", "trace")]
    for words in (
        ["show", file],
        ["check", file],
        ["simulate", file, other, *times, *drawn],
        ["simulate", file, other, *times, f"--html={file}.page"],
        ["simulate", file, other, *times, "--format", "csv", "-o", f"{file}.csv"],
        ["convert", file, f"{file}.copy.mlir"],
    ):
        capsys.readouterr()
        assert main(words) == 0, capsys.readouterr().err
        said = capsys.readouterr()
        hidden = {"\x1b", "\u202e", "\udcff"}
        assert not hidden & set(said.out + said.err)
    assert main(["simulate", file, other, *times, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["file"] == file
    if os.fsencode(file).isascii():  # the capture of the output reads text
        assert "2 workers" in run_passes(capsys, "show", file)
    assert Schedule.from_file(f"{file}.copy.mlir").workers == 2


def test_paths_of_descriptions_are_utf8(capsys: Capture) -> None:
    for option in ("model", "system"):
        assert main(["show", f"--{option}", os.fsdecode(b"not\xffutf.json")]) == 1
        assert "the path of a description has to be UTF-8" in capsys.readouterr().err


def test_plans_are_saved_and_shown(folder: Path, capsys: Capture) -> None:
    saved = folder / "saved plans"
    plan = ["plan", *described(folder), "--gpus", "4", "--global-batch", "16", "--top", "2"]
    assert main([*plan, "--save", str(saved)]) == 0
    capsys.readouterr()
    assert len(list(saved.glob("*.mlir"))) == 2
    for file in saved.glob("*.mlir"):
        assert len(load(file)) == 1


def test_show_passes_quotes_for_the_shell(folder: Path, capsys: Capture) -> None:
    file = str(folder / "the schedule.mlir")
    Schedule.save(problem(workers=2, microbatches=2).transform("pipe-schedule-1f1b"), file)
    verbs = [
        ["check", file],
        ["simulate", file, *described(folder)],
        ["simulate", "--pp", "4", "--microbatches", "8", *described(folder)],
        ["show", "--model", str(folder / "the model.json")],
        ["plan", *described(folder), "--gpus", "4", "--global-batch", "16", "--top", "1"],
    ]
    for verb in verbs:
        assert run_passes(capsys, *verb)


CONTROLS = "a\x1b[2J\x07b\x9bc\u202ed"
SHOWN = r"a\x1b[2J\x07b\x9bc\u202ed"


def obeyed(text: str) -> bool:
    """Whether a terminal would obey some of the text."""
    return any(letter in text for letter in "\x1b\x07\x9b\u202e")


def test_control_characters_are_shown(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "odd.mlir"
    made = problem(workers=2, microbatches=2, name=CONTROLS).transform("pipe-schedule-1f1b")
    made.save(file)
    for verb in (["show"], ["check"], ["simulate"]):
        assert main([*verb, str(file)]) == 0
        out = capsys.readouterr().out
        assert SHOWN in out and not obeyed(out), verb
    assert main(["check", str(file), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["schedule"] == CONTROLS
    assert main(["show", str(file), "--name", CONTROLS + "!"]) == 1
    said = capsys.readouterr().err
    assert SHOWN in said and not obeyed(said)


@pytest.mark.parametrize(
    "words", [["no\x1b[2Jsuch"], ["show", "a", "b\x1b[2J"], ["show", "a", "--x\x9b"]]
)
def test_control_characters_of_arguments_are_shown(words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(words)
    said = capsys.readouterr().err
    assert "\\x" in said and not {"\x1b", "\x9b"} & set(said)


def test_control_characters_of_diagnostics_are_shown(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "odd.json"
    file.write_text(json.dumps({**systems()["toy"], CONTROLS: 1}))
    assert main(["show", "--system", str(file)]) == 1
    said = capsys.readouterr().err
    assert SHOWN in said and not obeyed(said)


def test_large_schedules_are_announced(capsys: Capture) -> None:
    announce_cells([(512, 16_400), (4, 8), (4096, 1_000_000)])
    assert capsys.readouterr().err == (
        "1 of 3 schedules have more than 16,777,216 cells, the largest at least 16,793,600: "
        "up to 3.6 GiB, and about 7 s for all, with the report\n"
    )
    announce_cells([(64, 512)])
    assert capsys.readouterr().err == ""


def test_generate_warns_before_it_starts() -> None:
    text = "the schedule has more than 16,777,216 cells, at least 16,793,600: up to 3.6 GiB, and"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # so that no schedule is made
        with pytest.raises(PipeSchedWarning, match=text):
            pipesched.generate("gpipe", workers=512, microbatches=16_400)
        with pytest.raises(PipeSchedWarning, match=text):
            pipesched.Configuration("gpipe", 512, 16_400).generate()


@pytest.mark.parametrize("verb", [["convert", "gpipe"], ["simulate", "--schedule", "gpipe"]])
def test_verbs_say_it_once(
    verb: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = [*verb, "--pp", "4", "--microbatches", "8"]
    assert main(line) == 0
    assert "cells" not in capsys.readouterr().err
    monkeypatch.setattr("pipesched.schedule.generation.ANNOUNCED_CELLS", 63)
    assert main(line) == 0
    said = capsys.readouterr().err
    assert said.count("the schedule has more than 63 cells, at least 64: up to 0.0 GiB") == 1

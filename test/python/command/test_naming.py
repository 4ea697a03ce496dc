"""Aliases of options, families among files, and hints for wrong names."""

import json
import subprocess
import sys
from pathlib import Path

import pipesched
import pytest
from pipesched.command import VERBS, main
from pipesched.command.options.names import ELSEWHERE
from test_command import Capture, failure_of, rows_of, text_of
from test_option_table import parser_of

SIZES = ["--pp", "4", "--microbatches", "8"]
COSTS = ["--model", "llama3-8b", "--system", "dgx-h100", "--microbatch-size", "1"]


def flags_of(verb: str) -> dict[str, str]:
    """The flags of a verb with the names of their values in Python."""
    return {flag: action.dest for flag, action in parser_of(verb)._option_string_actions.items()}


# Names


def test_names_mean_the_same(capsys: Capture) -> None:
    lines = {
        ("simulate", "--microbatches", "8"): (
            ["--pp=4", "--schedules", "1f1b,gpipe"],
            ["--pipeline-parallel", "4", "--schedule", "1f1b", "gpipe"],
            ["1f1b", "gpipe", "--pp", "4"],
            ["1f1b,gpipe", "--pp", "4"],
        ),
        ("sweep", "--microbatches", "8"): (
            ["--schedules", "1f1b,gpipe", "--pp", "4"],
            ["--schedule", "1f1b,gpipe", "--pipeline-parallel", "4"],
        ),
        ("plan", *COSTS[:4], "--gpus", "16", "--global-batch", "32"): (
            ["--schedules", "1f1b", "--pp", "4", "--cp", "1"],
            ["--schedule", "1f1b", "--pipeline-parallel", "4", "--context-parallel", "1"],
        ),
        ("simulate", *SIZES, *COSTS, "--schedules", "1f1b"): (
            ["--set", "accelerators=4"],
            ["--tp", "4"],
        ),
        ("simulate", *SIZES, *COSTS, "--schedules", "1f1b", "--cp", "2"): (
            ["--set", "accelerators=4"],
            ["--tp", "2"],
        ),
    }
    for verb, options in lines.items():
        answers = []
        for each in options:
            made = rows_of(capsys, *verb, *each)
            for row in made:
                row.pop("key", None)
            answers.append(sorted(map(json.dumps, made)))
        assert all(answer == answers[0] for answer in answers), verb


def test_aliases_are_given(capsys: Capture) -> None:
    """`assumed:` leaves out values given under another name."""
    for given in (["--tp", "4"], ["--set", "accelerators=4"]):
        line = ["simulate", *SIZES, *COSTS, "--schedules", "1f1b", *given]
        assert "GPUs/worker" not in text_of(capsys, *line)


def test_tensor_and_accelerators_exclude_each_other(capsys: Capture) -> None:
    line = ["simulate", *SIZES, *COSTS, "--tp", "4", "--set", "accelerators=4"]
    assert "give either --tp or --set accelerators" in failure_of(capsys, *line, status=2)
    line = ["sweep", *SIZES, *COSTS, "--tp", "4", "--cp", "2"]
    assert "--tp goes with --cp 1" in failure_of(capsys, *line, status=2)


def test_families_among_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    pipesched.generate("zb-h1", workers=4, microbatches=8).save("own.mlir")
    pipesched.generate("zb-v", workers=4, microbatches=8).save("gpipe.mlir")
    Path("gpipe.mlir").rename("gpipe")
    Path("plain").write_bytes(Path("own.mlir").read_bytes())
    rows = rows_of(capsys, "simulate", "own.mlir", "1f1b", "plain", "gpipe", "./gpipe", "VPP")
    found = {(row["family"], row["file"]) for row in rows if row.get("error") is None}
    own = {("zb-h1", "own.mlir"), ("zb-h1", "plain"), ("zb-v", "./gpipe")}
    assert found == {*own, ("1f1b", None), ("gpipe", None), ("interleaved-1f1b", None)}
    wrong = failure_of(capsys, "simulate", "gpip", *SIZES)
    assert "gpip: there is no such file" in wrong and "gpipe" in wrong
    assert "simulate takes several" in failure_of(capsys, "show", "1f1b,gpipe", *SIZES, status=2)
    for verb in ("check", "show", "convert"):
        said = failure_of(capsys, verb, "1f1b", status=2)
        assert "1f1b is a family: give --pp and --microbatches" in said
    assert main(["optimize", "1f1b", *SIZES, "--times", "F=1ms,I=1ms,W=1ms", "--time", "1s"]) == 0


def test_one_way_to_name_what_is_made(tmp_path: Path, capsys: Capture) -> None:
    """`convert` takes families as other verbs do, and its output with or without `-o`."""
    made = text_of(capsys, "convert", "gpipe", "--pp", "2", "--microbatches", "2")
    file = tmp_path / "s.mlir"
    file.write_text(made, encoding="utf-8")
    for words in ([], ["-"], ["-o", "-", "--to", "mlir"]):
        assert text_of(capsys, "convert", str(file), *words) == made
    twice = ("convert", str(file), "a.svg", "-o", "b.svg")
    assert "give OUTPUT once" in failure_of(capsys, *twice, status=2)


# Hints


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("simulate --schedul 1f1b", "--schedul; did you mean --schedule?"),
        ("simulate --tp-size 3", "--tp-size; did you mean --tp?"),
        ("simulate --gpus 3", "--gpus; did you mean --pp?"),
        ("plan --modell llama3-8b", "--modell; did you mean --model?"),
        ("plan --bandwidth 3", "--bandwidth; did you mean --set?"),
        ("simulate --json", "--json; did you mean --format?"),
        ("optimize --reserve 3", "--reserve; simulate, plan, whatif and sweep have it"),
        ("simulate --nonsense 3", "unrecognized arguments: --nonsense\n"),
        ("simulate --recompute ful", "invalid choice: 'ful', the closest is 'full'"),
        ("simulat 1f1b", "invalid choice: 'simulat', the closest is 'simulate'"),
    ],
)
def test_did_you_mean(line: str, wanted: str, capsys: Capture) -> None:
    assert wanted in failure_of(capsys, *line.split(), status=2)


def test_hints_name_options() -> None:
    """Each option that other tools' names may mean is an option of some verb."""
    known = {flag for verb in VERBS for flag in flags_of(verb)}
    assert {f"--{name}" for names in ELSEWHERE.values() for name in names} <= known


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "pipesched", "convert", "1f1b", *SIZES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pipe.schedule @schedule" in done.stdout
    wrong = subprocess.run([*command[:3], "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "usage: pipesched" in wrong.stderr


def test_a_close_name_that_other_verbs_have(capsys: Capture) -> None:
    """A hint of a similar option does not hide that others have the very one."""
    said = failure_of(capsys, "simulate", *SIZES, "--model-option", "layers=2", status=2)
    assert "did you mean --option? run has --model-option" in said
    assert len(said.splitlines()) == 2 and "usage" not in said  # which has 40 lines

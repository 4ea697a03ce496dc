"""One name for one thing: aliases of options, families among files, hints for wrong names, and
completion in the shells.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pipesched
import pytest
from pipesched.command import VERBS, VerbParser, main, parser
from pipesched.command.completion import script
from pipesched.command.naming import ELSEWHERE, SAME
from test_command import Capture, failure_of, rows_of

SIZES = ["--workers", "4", "--microbatches", "8"]
COSTS = ["--model", "llama3-8b", "--system", "dgx-h100", "--microbatch-size", "1"]


def flags_of(verb: str) -> dict[str, str]:
    """The flags of a verb with the names of their values in Python."""
    (verbs,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    made: VerbParser = verbs.choices[verb]
    made.fill()
    return {flag: action.dest for flag, action in made._option_string_actions.items()}


# Names


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("names", SAME)
def test_all_names_or_none(verb: str, names: tuple[str, ...]) -> None:
    """A verb that knows a thing takes all its names for it."""
    found = [flags_of(verb)[name] for name in names if name in flags_of(verb)]
    assert len(found) in (0, len(names)) and len(set(found)) <= 1


def test_names_mean_the_same(capsys: Capture) -> None:
    lines = {
        ("compare", "--microbatches", "8"): (
            ["--workers=4", "--schedules", "1f1b,gpipe"],
            ["--stages", "4", "--families", "1f1b,gpipe"],
            ["--stages", "4", "--schedule", "1f1b", "gpipe"],
            ["1f1b", "gpipe", "--workers", "4"],
            ["1f1b,gpipe", "--workers", "4"],
        ),
        ("simulate", "--microbatches", "8"): (
            ["--schedule", "1f1b", "--workers", "4"],
            ["--schedules", "1f1b", "--stages", "4"],
            ["1f1b", "--stages", "4"],
        ),
        ("sweep", "--microbatches", "8"): (
            ["--schedules", "1f1b,gpipe", "--workers", "4"],
            ["--family", "1f1b,gpipe", "--stages", "4"],
        ),
        ("plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16",
         "--global-batch", "32"): (
            ["--schedules", "1f1b", "--workers", "4", "--context", "1"],
            ["--family", "1f1b", "--stages", "4", "--context-parallel", "1"],
        ),
        ("compare", *SIZES, *COSTS, "--schedules", "1f1b"): (
            ["--accelerators", "4"],
            ["--tensor", "4"],
        ),
        ("compare", *SIZES, *COSTS, "--schedules", "1f1b", "--context", "2"): (
            ["--accelerators", "4"],
            ["--tensor", "2"],
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
    """`assumed:` leaves out what was given under another name."""
    for flag in ("--tensor", "--accelerators"):
        line = ["compare", *SIZES, *COSTS, "--schedules", "1f1b", flag, "4"]
        assert main(line) == 0
        assert "GPUs/worker" not in capsys.readouterr().out


def test_tensor_and_accelerators_exclude_each_other(capsys: Capture) -> None:
    line = ["compare", *SIZES, *COSTS, "--tensor", "4", "--accelerators", "4"]
    assert "give either --tensor or --accelerators" in failure_of(capsys, *line, status=2)
    line = ["sweep", *SIZES, *COSTS, "--tensor", "4", "--context", "2"]
    assert "--tensor goes with context 1" in failure_of(capsys, *line, status=2)


def test_families_among_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    pipesched.generate("zb-h1", workers=4, microbatches=8).save("own.mlir")
    pipesched.generate("zb-v", workers=4, microbatches=8).save("gpipe.mlir")
    Path("gpipe.mlir").rename("gpipe")
    Path("plain").write_bytes(Path("own.mlir").read_bytes())
    rows = rows_of(capsys, "compare", "own.mlir", "1f1b", "plain", "gpipe", "./gpipe", "VPP")
    found = {(row["family"], row["file"]) for row in rows if row.get("error") is None}
    own = {("zb-h1", "own.mlir"), ("zb-h1", "plain"), ("zb-v", "./gpipe")}
    assert found == {*own, ("1f1b", None), ("gpipe", None), ("interleaved-1f1b", None)}
    wrong = failure_of(capsys, "compare", "gpip", *SIZES)
    assert "gpip: there is no such file" in wrong and "gpipe" in wrong
    assert "compare takes several" in failure_of(
        capsys, "simulate", "1f1b", "gpipe", *SIZES, status=2
    )
    said = failure_of(capsys, "convert", "1f1b", "made.csv")
    assert "pipesched generate 1f1b --workers D" in said
    for verb in ("verify", "show"):
        said = failure_of(capsys, verb, "1f1b", status=2)
        assert "1f1b is a family: give --workers and --microbatches" in said
    assert main(["optimize", "1f1b", *SIZES, "--times", "F=1ms,I=1ms,W=1ms", "--time", "1s"]) == 0


def test_one_way_to_name_what_is_made(tmp_path: Path, capsys: Capture) -> None:
    """`generate` takes its family as other verbs do, and `convert` its output."""
    sizes = ["--stages", "2", "--microbatches", "2"]
    made = []
    for words in (["gpipe", *sizes], ["--schedule", "gpipe", *sizes], ["--family=gpipe", *sizes]):
        assert main(["generate", *words]) == 0
        made.append(capsys.readouterr().out)
    assert made[0] == made[1] == made[2]
    file = tmp_path / "s.mlir"
    file.write_text(made[0], encoding="utf-8")
    assert main(["convert", str(file), "-", "--to", "mlir"]) == 0
    by_place = capsys.readouterr().out
    assert main(["convert", str(file), "-o", "-", "--to", "mlir"]) == 0
    assert capsys.readouterr().out == by_place
    assert "one family" in failure_of(capsys, "generate", *sizes, status=2)
    twice = ["generate", "gpipe", "--schedule", "1f1b", *sizes]
    assert "one family" in failure_of(capsys, *twice, status=2)
    assert "give OUTPUT once" in failure_of(capsys, "convert", str(file), status=2)
    with pytest.raises(SystemExit):
        main(["convert", str(file), "a.svg", "-o", "b.svg"])
    assert "give OUTPUT once" in capsys.readouterr().err


# Hints


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("compare --schedul 1f1b", "--schedul; did you mean --schedules?"),
        ("compare --worker 3", "--worker; did you mean --workers?"),
        ("compare --tp 3", "--tp; did you mean --tensor?"),
        ("compare --gpus 3", "--gpus; did you mean --workers?"),
        ("plan --accelerators 8", "--accelerators; did you mean --gpus or --tensor?"),
        ("plan --modell llama3-8b", "--modell; did you mean --model?"),
        ("plan --bandwidth 3", "--bandwidth; did you mean --set?"),
        ("simulate --json", "--json; did you mean --format?"),
        ("optimize --reserve 3", "--reserve; compare, plan, whatif and sweep have it"),
        ("compare --nonsense 3", "unrecognized arguments: --nonsense\n"),
        ("compare --recompute ful", "invalid choice: 'ful', the closest is 'full'"),
        ("compar 1f1b", "invalid choice: 'compar', the closest is 'compare'"),
    ],
)
def test_did_you_mean(line: str, wanted: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert wanted in capsys.readouterr().err


def test_hints_name_options() -> None:
    """What other tools' names may mean is an option of some verb."""
    known = {flag for verb in VERBS for flag in flags_of(verb)}
    assert {f"--{name}" for names in ELSEWHERE.values() for name in names} <= known


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "pipesched", "generate", "1f1b", *SIZES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pipe.schedule @schedule" in done.stdout
    wrong = subprocess.run([*command[:3], "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "usage: pipesched" in wrong.stderr


# Completion

LINES = [
    ("pipesched com", {"compare", "completion"}),
    ("pipesched compare --wor", {"--workers"}),
    ("pipesched plan --system dgx-h", {"dgx-h100", "dgx-h200"}),
    ("pipesched compare --schedules 1f1b,zb-h", {"zb-h1", "zb-h2"}),
    ("pipesched compare --stages 4 --recompute f", {"full"}),
    ("pipesched compare kept", {"kept.mlir"}),
    ("pipesched simulate zb-", {name for name in pipesched.families() if name[:3] == "zb-"}),
    ("pipesched show --model llama3-8", {"llama3-8b"}),
    ("pipesched reproduce tab", {"table1"}),
    ("pipesched completion z", {"zsh"}),
]


def completed(shell: str, line: str, folder: Path) -> set[str]:
    """What a shell offers at the end of a line, without what the list has before it."""
    (folder / "script").write_text(script(shell))
    words = line.split(" ")
    if shell == "bash":
        quoted = " ".join(words)
        code = f"""source ./script; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_pipesched pipesched "{words[-1]}" "{words[-2]}"; printf '%s\\n' "${{COMPREPLY[@]}}" """
    else:
        code = f"""compadd() {{ shift; print -l -- "$@" }}; _files() {{ print -l -- *(N) }}
compset() {{ : }}; compdef() {{ : }}; source ./script
words=({line}); CURRENT={len(words)}; _pipesched"""
    command = [shell, "--norc", "-c"] if shell == "bash" else [shell, "-f", "-c"]
    done = subprocess.run(
        [*command, code], capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert done.stderr == ""
    last = words[-1].rpartition(",")[2]
    offered = {word.rpartition(",")[2] for word in done.stdout.split()}
    return {word for word in offered if word.startswith(last)}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "kept.mlir").write_text("")
    for line, wanted in LINES:
        assert completed(shell, line, tmp_path) == wanted, line


def test_a_close_name_that_other_verbs_have(capsys: Capture) -> None:
    """A hint of a similar option does not hide that others have the very one."""
    with pytest.raises(SystemExit):
        main(["compare", *SIZES, "--model-option", "layers=2"])
    said = capsys.readouterr().err
    assert "did you mean --option? run and export have --model-option" in said
    assert len(said.splitlines()) == 2 and "usage" not in said  # which has 40 lines
    with pytest.raises(SystemExit):
        main(["plan", "--accelerators", "8"])
    said = capsys.readouterr().err
    assert "did you mean --gpus or --tensor?" in said and "have --accelerators" not in said

"""No verb writes a file twice, or over one that it reads, by any spelling; all is checked first."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import pytest
from pipesched import generate, systems
from pipesched.command import VERBS, main
from pipesched.command.options.paths import READ, WRITTEN
from test_files import refuse
from test_option_table import parser_of

Capture = pytest.CaptureFixture[str]

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)

NEEDED = {"plan": ["--gpus", "8", "--global-batch", "8"], "reproduce": ["table1"]}
"""Inputs, other than files, without which a verb cannot be parsed."""

POSITIONAL = {"check": "file", "convert": "file", "fit": "files", "whatif": "file"}
"""Files that a verb cannot be parsed without, and options likewise."""
OPTIONS = {"plan": ["--system", "toy"], "show": ["families"]}

SPELLINGS: dict[str, Callable[[Path], str]] = {
    "same": str,
    "other": lambda path: f"{path.parent}/./{path.name}",
    "relative": lambda path: os.path.relpath(path),
    "link": lambda path: made(path, Path.symlink_to),
    "hard link": lambda path: made(path, Path.hardlink_to),
}


def dash(path: Path) -> str:
    """Standard output."""
    return "-"


def made(path: Path, link: Callable[[Path, Path], None]) -> str:
    """Another name of a file."""
    other = path.with_name(f"link-{path.name}")
    link(other, path)
    return str(other)


def written_by(verb: str) -> dict[str, list[str]]:
    """The words before the path of each output that is one file."""
    parser = parser_of(verb)
    folders = parser.get_default("folders")
    found = {}
    for action in parser._actions:
        name = action.dest.replace("_", "-")
        if name in WRITTEN and name not in folders:
            found[name] = [f"--{name}"] if action.option_strings else []
    return found


def read_by(verb: str) -> dict[str, list[str]]:
    """The words of each input, with PATH in the place of its path."""
    found = {}
    for action in parser_of(verb)._actions:
        if action.dest not in READ or action.dest == "parameters":
            continue
        flags = [flag for flag in action.option_strings if flag.startswith("--")][:1]
        value = "PATH"
        if action.dest == "pipeline":
            value = "pipe-attach-profile{file=PATH}"
        elif READ[action.dest] is READ["schedules"]:
            value = "PATH:own"
        found[action.dest] = [*flags, value]
    return found


def line_of(verb: str, named: dict[str, list[str]], output: list[str]) -> list[str]:
    """A command line with these inputs, and the others that are needed to parse it."""
    words = [verb, *NEEDED.get(verb, [])]
    if (needed := POSITIONAL.get(verb)) and needed not in named:
        words.append("other.mlir")
    if verb in OPTIONS and not (named.keys() & {"system", "file", "model"}):
        words += OPTIONS[verb]
    if verb == "plan" and "system" not in named:
        words += [] if "--system" in words else OPTIONS[verb]
    for each in named.values():
        words += each
    if verb == "convert" and not output:
        output = ["x.svg"]
    return [*words, *output]


CASES = [
    (verb, read, written)
    for verb in VERBS
    for read, written in product(read_by(verb), written_by(verb))
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("verb", "read", "written"), CASES)
def test_no_output_is_an_input(
    verb: str,
    read: str,
    written: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr(importlib.import_module(f"pipesched.command.verbs.{verb}"), "run", refuse)
    words = read_by(verb)[read]
    suffix = ".py" if words[-1] == "PATH:own" else ".json"
    file = folder / f"kept{suffix}"
    for name, spelled in SPELLINGS.items():
        file.write_text("as it was")
        given = [word.replace("PATH", str(file)) for word in words]
        other = spelled(file)
        before = sorted(os.listdir())
        line = line_of(verb, {read: given}, [*written_by(verb)[written], other])
        assert main(line) == 2, (name, line)
        said = capsys.readouterr().err
        shown = parser_of(verb).get_default("shown")
        assert f"{shown[written.replace('-', '_')]} names the file that is read as" in said, name
        assert f" {shown[read]}, " in said and str(file) in said and other in said
        assert sorted(os.listdir()) == before and file.read_text() == "as it was"
        for path in folder.iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("verb", "one", "other"),
    [(verb, *pair) for verb in VERBS for pair in combinations(written_by(verb), 2)],
)
def test_no_file_is_two_outputs(
    verb: str, one: str, other: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(importlib.import_module(f"pipesched.command.verbs.{verb}"), "run", refuse)
    file = folder / "kept"
    for spelled in (*SPELLINGS.values(), dash):
        file.write_text("as it was")
        given = spelled(file)
        first = "/dev/stdout" if given == "-" else str(file)
        before = sorted(os.listdir())
        words = written_by(verb)
        output = [*words[one], first, *words[other], given]
        assert main(line_of(verb, {}, output)) == 2, output
        said = capsys.readouterr().err
        assert "name the same file" in said and first in said and given in said
        assert all(f"--{name}" in said or name == "output" for name in (one, other))
        assert sorted(os.listdir()) == before and file.read_text() == "as it was"
        for path in folder.iterdir():
            path.unlink()


def test_what_names_files_is_in_a_table() -> None:
    """An option that is in none of them is not checked."""
    known = {*READ, *(name.replace("-", "_") for name in WRITTEN)}
    found: set[str] = set()
    for verb in VERBS:
        for action in parser_of(verb)._actions:
            found.add(action.dest)
            text = str(action.metavar or "")
            names_files = re.search(r"FILE|DIR|FOLDER|PAGE|GRID|OUTPUT|TIMES|\.json|\.mlir", text)
            kinds = getattr(action, "kinds", [action.dest])  # of drawings
            assert not names_files or known.issuperset(kinds), (verb, action.dest)
            found.update(kinds)
        found.update(parser_of(verb)._defaults)  # paths of rare options
    assert known <= found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "run --backend loopback m.mlir --parameters p --save-parameters ./p",
            "--save-parameters may write over files that are read as --parameters, ./p and p",
        ),
        (
            "run --backend loopback m.mlir --parameters p --draw trace:p/stage0.w.npy",
            "--draw names the file that is read as --parameters, p/stage0.w.npy and p",
        ),
        (
            "fit traces --save traces/a.json",
            "--save names the file that is read as FILE, traces/a.json and traces",
        ),
        (
            "plan --system plans/s.svg --model toy --gpus 8 --global-batch 8 --save plans",
            "--save may write over the file that is read as --system, plans and plans/s.svg",
        ),
        (
            "plan --system toy --model toy --gpus 8 --global-batch 8 --save plans -o plans/x.csv",
            "--output and --save may name the same file, plans/x.csv and plans",
        ),
        (
            "optimize c/k.txt --times F=1ms,B=1ms --cache c",
            "--cache may write over the file that is read as FILE, c and c/k.txt",
        ),
        (
            "sweep grid.json -o system.json",
            "--output names the file that is read as a system of grid.json, system.json",
        ),
        (
            "sweep grid.json --allow-code -o own.py",
            "--output names the file that is read as a family of grid.json, own.py",
        ),
    ],
)
def test_folders_and_files_in_files(line: str, said: str, folder: Path, capsys: Capture) -> None:
    names = ("p/stage0.w.npy", "p/gpu.so", "traces/a.json", "plans/s.svg", "c/k.txt", "m.mlir")
    for path in names:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("as it was")
    Path("system.json").write_text(json.dumps({**systems()["toy"], "name": "own", "aliases": []}))
    Path("own.py").write_text("def rows(problem): return [['0F0', '0B0']]\n")
    axes = {"family": "own.py:rows" if "code" in line else "1f1b", "workers": 1, "microbatches": 1}
    Path("grid.json").write_text(json.dumps({**axes, "system": "./system.json", "model": "toy"}))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(line.split()) == 2
    found = capsys.readouterr().err
    assert said in found.replace(f"{folder}/", "").replace(" and ./system.json", "")
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == {**before, **{p: b for p, b in after.items() if "__pycache__" in p.parts}}


def test_what_is_no_clash(folder: Path) -> None:
    """New files next to others of a folder, and devices."""
    (folder / "out").mkdir()
    generate("1f1b", workers=2, microbatches=2).save("out/a.mlir")
    assert main(["simulate", "out/a.mlir", "--draw", "out/a.html", "-o", "out/a.txt"]) == 0
    twice = ["--draw", "svg:/dev/null", "--draw", "png:/dev/null"]
    assert main(["simulate", "out/a.mlir", *twice]) == 0
    assert main(["show", "--model", "toy", "-o", "toy"]) == 0
    assert main(["show", "--model", "toy", "-o", "toy"]) == 0  # a name that ships is not a file


@needs_torch
def test_trainings_spare_what_they_read(folder: Path, capsys: Capture) -> None:
    (folder / "out").mkdir()
    (folder / "new").mkdir()
    generate("1f1b", workers=2, microbatches=2, name="own").save("out/own.mlir")
    words = ["run", "gpt", "--steps", "8", "--schedules", "out/own.mlir"]
    before = Path("out/own.mlir").read_text()
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "--output names the file that is read as --schedules, out/own.mlir" in said
    assert main([*words, "-o", "new", "--draw", "html:new/own.svg"]) == 2
    assert "--output and --draw name the same file, new/own.svg" in capsys.readouterr().err
    assert sorted(map(str, Path().rglob("*"))) == ["new", "out", "out/own.mlir"]
    assert Path("out/own.mlir").read_text() == before


def test_parsers_know_what_arguments_are_called() -> None:
    parser: argparse.ArgumentParser = parser_of("sweep")
    shown = parser.get_default("shown")
    assert shown["axis_family"] == "--schedules" and shown["grid"] == "GRID"

"""No file names code that runs, unless the command line says so: neither now nor by a later change.

Every call of the package that can make code of text, of bytes or of a path is in a list here, with
its input. A new call fails a test until somebody has checked whether a file can reach it.
"""

from __future__ import annotations

import ast
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pipesched
import pytest
from pipesched import Grid, Measurement, PipeSchedError, Schedule, generate, load, sweep
from pipesched.command import main
from pipesched.sweeps.file import _seal
from test_command_paths import needs_torch

PACKAGE = Path(pipesched.__file__).parent

RUNS = {
    *("exec", "eval", "compile", "__import__", "execfile"),
    *("import_module", "spec_from_file_location", "exec_module", "run_path", "run_module"),
    *("unpickle", "Unpickler", "read_pickle", "dynamic_import"),
    *("SourceFileLoader", "module_from_spec", "entry_points"),
}
"""Functions that run their argument, by their last name."""

RUNS_OF = {
    ("pickle", "load"),
    ("pickle", "loads"),
    ("marshal", "load"),
    ("marshal", "loads"),
    ("torch", "load"),
    ("yaml", "load"),
    ("os", "system"),
    ("os", "popen"),
    ("shelve", "open"),
    ("numpy", "load"),
    ("np", "load"),
    ("joblib", "load"),
}
"""The same of a module."""

KNOWN = {
    ("__init__.py", "import_module"): "modules of the package",
    ("command/__init__.py", "import_module"): "verbs of the package",
    ("schedule/registry.py", "spec_from_file_location"): "families by place; grids name none",
    ("schedule/registry.py", "module_from_spec"): "the same",
    ("schedule/registry.py", "exec_module"): "the same",
    ("schedule/registry.py", "import_module"): "the same",
    ("planning/launch/recipes.py", "yaml.load"): "a SafeLoader, which reads tags as plain fields",
    ("sweeps/sweep.py", "pickle.loads"): "tasks from the process of the sweep, not from files",
    ("frontends/_process.py", "pickle.load"): "answers of the process that it has started",
    ("frontends/_worker.py", "pickle.load"): "requests of the process that has started it",
    ("torch/training/_source.py", "spec_from_file_location"): "the model of --model",
    ("torch/training/_source.py", "module_from_spec"): "the same",
    ("torch/training/_source.py", "exec_module"): "the same",
    ("torch/checkpoint/files.py", "Unpickler"): "only classes of metadata",
    ("torch/checkpoint/files.py", "torch.load"): "with weights_only",
    ("torch/checkpoint/state.py", "torch.load"): "with weights_only",
}
"""Calls of the package, and why a file cannot reach code by them."""


def called(tree: ast.AST) -> Iterator[tuple[str, ast.Call | ast.ClassDef]]:
    """The functions that are called or inherited from and that may run code."""
    for node in ast.walk(tree):
        names = [node.func] if isinstance(node, ast.Call) else []
        names += node.bases if isinstance(node, ast.ClassDef) else []
        assert isinstance(node, ast.Call | ast.ClassDef) or not names
        for name in names:
            if isinstance(name, ast.Name) and name.id in RUNS:
                yield name.id, node  # type: ignore[misc]
            elif isinstance(name, ast.Attribute):
                module = name.value.id if isinstance(name.value, ast.Name) else ""
                if (module, name.attr) in RUNS_OF:
                    yield f"{module}.{name.attr}", node  # type: ignore[misc]
                elif name.attr in RUNS and module != "re":
                    yield name.attr, node  # type: ignore[misc]


def test_what_can_run_code_is_known() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        for name, node in called(ast.parse(path.read_text(encoding="utf-8"))):
            found.add((file, name))
            if name == "torch.load":
                assert isinstance(node, ast.Call)
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert given.get("weights_only") == "True", (file, node.lineno)
    assert found == KNOWN.keys()


def test_nothing_is_imported_as_another_name() -> None:
    """`from pickle import loads` would hide from the test above."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for each in node.names if isinstance(node, ast.ImportFrom) else ():
                assert isinstance(node, ast.ImportFrom)
                assert (node.module, each.name) not in RUNS_OF, path
                assert each.name not in RUNS or each.asname is None, path


MARK = """import pathlib
pathlib.Path({mark!r}).touch()
def own(problem): return [["0F0", "0B0"]]
def model(**_): raise SystemExit
loss = batches = model
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = tmp_path / "code.py"
    file.write_text(MARK.format(mark=str(tmp_path / "ran")))
    return file


@pytest.mark.parametrize("key", ["family", "families", "schedules", "schedule"])
@pytest.mark.parametrize("shape", ["one", "listed", "last of parts"])
def test_grids_name_no_code(key: str, shape: str, code: Path, tmp_path: Path) -> None:
    """By none of the names of the axis; `schedule` is not one of them, and an error."""
    sizes: dict[str, object] = {"workers": 1, "microbatches": 1}
    place = f"{code}:own"
    given = [{**sizes, key: ["1f1b", place] if shape == "listed" else place}]
    if shape == "last of parts":
        given.insert(0, {**sizes, "family": "1f1b"})
    grid = tmp_path / "grid.json"
    grid.write_text(json.dumps(given))
    wanted = "a file may name code only with --allow-code|unknown key"
    with pytest.raises(PipeSchedError, match=wanted):
        Grid.from_file(grid)
    assert main(["sweep", str(grid), "-o", str(tmp_path / "rows.jsonl")]) == 1
    assert main(["sweep", str(grid), "--show-passes"]) == 1
    assert not (tmp_path / "ran").exists() and not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize("axis", ["model", "system", "times"])
def test_other_axes_import_nothing(axis: str, code: Path, tmp_path: Path) -> None:
    grid = tmp_path / "grid.json"
    for value in (str(code), f"{code}:own"):
        sizes = {"family": "1f1b", "workers": 1, "microbatches": 1}
        grid.write_text(json.dumps({**sizes, axis: value}))
        assert main(["sweep", str(grid)]) == 1
    assert not (tmp_path / "ran").exists()


def test_schedules_name_no_code(code: Path, tmp_path: Path) -> None:
    """The family of a schedule file may be any text, and is one."""
    text = generate("1f1b", workers=2, microbatches=2).to_text()
    file = tmp_path / "own.mlir"
    file.write_text(text.replace('family "1f1b"', f'family "{code}:own"'))
    (schedule,) = load(file)
    assert schedule.family == f"{code}:own"
    for line in (["show"], ["simulate"], ["check"], ["compare"]):
        main([*line, str(file)])
    Schedule.from_frame(schedule.to_frame())
    assert not (tmp_path / "ran").exists()


def test_rows_of_sweeps_name_no_code(code: Path, tmp_path: Path) -> None:
    """A file of rows that is continued."""
    rows = tmp_path / "rows.jsonl"
    grid = {"family": "1f1b", "workers": 1, "microbatches": 1}
    sweep(grid, file=rows)
    row = json.loads(rows.read_text())
    del row["crc32"]
    row["family"] = f"{code}:own"
    rows.write_text(_seal(json.dumps(row)))
    with pytest.raises(PipeSchedError):
        sweep(grid, file=rows)
    assert not (tmp_path / "ran").exists()


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_pickles_are_not_read(tmp_path: Path) -> None:
    """Under all names that files of verbs have."""
    mark = tmp_path / "ran"
    for ending in (".mlir", ".mlirbc", ".csv", ".json", ".jsonl", ".pt", ".npy"):
        file = tmp_path / f"harmful{ending}"
        file.write_bytes(pickle.dumps(Harmful(mark)))
        for line in (["show"], ["fit"], ["sweep"], ["optimize"], ["show", "--model"]):
            assert main([*line, str(file)]) != 0
        with pytest.raises(PipeSchedError):
            Measurement.from_file(file)
    assert not mark.exists()


@needs_torch
def test_folders_and_files_of_trainings(code: Path, tmp_path: Path) -> None:
    """Only --model names code: neither a schedule nor a measurement does."""
    (tmp_path / "model.py").write_text(code.read_text())
    words = ["run", "--schedule", str(code), "--model", "gpt", "--pp", "2"]
    assert main([*words, "--microbatches", "2", "-o", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "ran").exists()

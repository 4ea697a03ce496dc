"""Imports: `import pipesched` and each verb load only the modules that they need."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pipesched
import pytest
from pipesched.command import VERBS

COMMAND = "from pipesched.command import main\ntry:\n    main({})\nexcept SystemExit:\n    pass"
GENERATE = ["convert", "1f1b", "--pp", "4", "--microbatches", "8", "-o", "schedule.mlir"]


@cache
def modules_after(code: str, folder: Path | None = None) -> frozenset[str]:
    """The modules that a new process has loaded after it ran `code`."""
    line = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    command = [sys.executable, "-c", line]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return frozenset(json.loads(done.stderr.splitlines()[-1]))


def loaded_by(code: str, folder: Path | None = None) -> tuple[set[str], set[str]]:
    """The modules of the package, and the names of other packages, that `code` loads. Packages of
    Python itself are left out, and packages that every process of this environment loads.
    """
    found = modules_after(code, folder) - modules_after("pass")
    own = {name for name in found if name.partition(".")[0] == "pipesched"}
    others = {name.partition(".")[0] for name in found - own}
    return own, others - sys.stdlib_module_names


# The package


def test_import_loads_nothing_else() -> None:
    assert loaded_by("import pipesched") == ({"pipesched"}, set())


def test_each_name_has_a_home() -> None:
    """A type checker reads the same names that `__getattr__` finds."""
    tree = ast.parse(Path(pipesched.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    said = {
        alias.asname: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert said == {name: (home, name) for name, home in pipesched._HOMES.items()}
    assert set(said) <= set(dir(pipesched))


def test_each_home_can_be_the_first() -> None:
    """Modules import each other; a cycle shows where one of them is imported before all others."""
    for home in sorted({*pipesched._HOMES.values(), "_core"}):
        assert f"pipesched.{home}" in modules_after(f"import pipesched.{home}")


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'pipesched' has no attribute 'simulte'"):
        getattr(pipesched, "simulte")
    assert not hasattr(pipesched, "_nothing")


def test_parts_are_attributes() -> None:
    code = "import pipesched; pipesched.planning.plan, pipesched.fitting.fit"
    assert loaded_by(code)[0] >= {"pipesched.planning", "pipesched.fitting"}


def test_timing_a_schedule_needs_no_frames_or_pictures() -> None:
    made = "pipesched.generate('1f1b', workers=4, microbatches=8)"
    code = f"import pipesched; {made}.simulate(times='F=1ms,B=2ms').execution"
    own, others = loaded_by(code)
    assert others <= {"numpy", "nanobind_backend"}
    assert not own & {"pipesched.planning", "pipesched.fitting", "pipesched.sweeps"}


def test_pytorch_is_imported_by_its_part_alone() -> None:
    own, others = loaded_by("from pipesched import *")
    assert "torch" not in others and "pipesched.torch" not in own


# The command


def test_help_loads_no_verb() -> None:
    found = loaded_by(COMMAND.format(["--help"]))
    assert found == ({"pipesched", "pipesched.command"}, set())


def test_a_verb_loads_no_other() -> None:
    own, others = loaded_by(COMMAND.format(["check", "--help"]))
    verbs = {name for name in VERBS if f"pipesched.command.verbs.{name}" in own}
    assert verbs == {"check"}
    assert others <= {"numpy", "nanobind_backend"}


def test_generating_needs_no_frames_or_tables(tmp_path: Path) -> None:
    _, others = loaded_by(COMMAND.format(GENERATE), tmp_path)
    assert (tmp_path / "schedule.mlir").exists()
    assert others <= {"numpy", "nanobind_backend"}


def test_simulating_loads_no_planner(tmp_path: Path) -> None:
    line = ["simulate", "1f1b", "zb-h1", "--pp", "4", "--microbatches", "8"]
    line += ["--model", "llama3-8b", "--system", "dgx-h100"]
    own, _ = loaded_by(COMMAND.format(line), tmp_path)
    assert not {name for name in own if name.startswith("pipesched.planning")}

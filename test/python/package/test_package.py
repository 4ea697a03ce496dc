"""The package as a whole: types, command, documentation, and other libraries in its process."""

import ctypes
import doctest
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pipesched
import pytest
from conftest import ROOT
from pipesched import _core


def test_version() -> None:
    assert pipesched.__version__ == importlib.metadata.version("pipesched")
    assert f"VERSION {pipesched.__version__} " in (ROOT / "CMakeLists.txt").read_text()


def test_page_of_the_package() -> None:
    """Its README is its page; only its own tests need fixed versions of others."""
    metadata = importlib.metadata.metadata("pipesched").json
    assert metadata["license_expression"] == "Apache-2.0 WITH LLVM-exception"
    assert metadata["description_content_type"] == "text/markdown"
    assert str(metadata["description"]).lstrip().startswith("# PipeSched\n")
    needed = importlib.metadata.requires("pipesched") or []
    assert not [line for line in needed if "torch" in line and "extra ==" not in line]
    fixed = [line for line in needed if "==" in line.split(";")[0]]
    assert {line.split(";")[1].strip() for line in fixed} == {'extra == "test"'}


def test_all_is_there() -> None:
    assert all(hasattr(pipesched, name) for name in pipesched.__all__)
    assert sorted(pipesched.__all__) == pipesched.__all__


def test_options_are_those_of_the_library() -> None:
    known = {name.replace("-", "_") for name, _, _ in _core.family_options()}
    assert set(pipesched.FamilyOptions.__annotations__) == known
    for family in pipesched.families().values():
        assert set(family.options) <= known


def test_catalogue() -> None:
    assert pipesched.families()["1f1b"].source.startswith("Narayanan")
    assert pipesched.models()["toy"]["hidden"] > 0
    assert "dgx-h100" in pipesched.systems()


# Types


@pytest.mark.parametrize(
    "target", [["-p", "pipesched"], ["test/python", "studies"], ["examples/stages"]]
)
def test_types(target: list[str]) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", *target]
    mypy = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert mypy.returncode == 0, mypy.stdout + mypy.stderr


def test_types_are_shipped() -> None:
    folder = Path(pipesched.__file__).parent
    assert (folder / "py.typed").exists()
    assert "class Evaluation:" in (folder / "_core.pyi").read_text()


# Other libraries in the process


def test_nothing_of_llvm_is_seen_from_outside() -> None:
    library = ctypes.CDLL(_core.__file__)
    assert hasattr(library, "PyInit__core")
    for name in ("mlirContextCreate", "pipeschedSweep", "LLVMContextCreate", "_ZTIN4llvm5ErrorE"):
        assert not hasattr(library, name)


def test_what_is_said_without_pytorch() -> None:
    code = "import sys; sys.modules['torch'] = None; import pipesched.torch"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: pipesched.torch needs PyTorch, which pipesched does not" in found.stderr


def test_no_shared_llvm_is_loaded() -> None:
    code = "import pipesched._core; print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "_core" in maps.stdout
    assert "libMLIR" not in maps.stdout
    assert "libLLVM" not in maps.stdout


# The command


def test_command_is_installed() -> None:
    command = Path(sys.executable).parent / "pipesched"
    printed = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert printed.stdout == f"pipesched {pipesched.__version__}\n"


# Documentation


def run_examples(examples: doctest.DocTest) -> int:
    """Runs the examples of a session, which must pass, and returns their number."""
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert results.failed == 0
    return results.attempted


PAGES = ["README.md", "docs/Exchange.md", "docs/Paper.md", "docs/Planning.md", "docs/Python.md"]


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_pages(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the python blocks of a page in order, as one session."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    session = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    parser = doctest.DocTestParser()
    assert run_examples(parser.get_doctest(session, {}, page, page, 0)) > 0


def test_examples_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the first import of Megatron-Core
        importlib.import_module("pipesched.megatron")
    names = [module.name for module in pkgutil.walk_packages(pipesched.__path__, "pipesched.")]
    if importlib.util.find_spec("torch") is None:
        names = [name for name in names if not name.startswith("pipesched.torch")]
    named = [pipesched, *map(importlib.import_module, names)]
    public = {name: getattr(pipesched, name) for name in pipesched.__all__}
    finder = doctest.DocTestFinder()
    found = [test for module in named for test in finder.find(module, extraglobs=public)]
    assert sum(map(run_examples, found)) > 20

"""The wheel that scripts/wheel.sh builds: its tags, and that its contents run once it is installed.
The script itself installs it on machines without LLVM.
"""

import importlib.metadata
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pipesched
import pytest
from conftest import ROOT
from pipesched import _core

TOOLS = {f"pipesched-{name}" for name in ("opt", "optimize", "translate", "lsp-server", "run")}


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel in dist/."""
    found = sorted((ROOT / "dist").glob(f"pipesched-{pipesched.__version__}-*.whl"))
    if not found:
        pytest.skip("dist/ has no wheel; scripts/wheel.sh builds it")
    return found[0]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the wheel, without its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True)
    return folder


def with_wheel(folder: Path) -> dict[str, str]:
    """An environment in which the wheel comes before every other PipeSched."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}


def tag_of(text: str) -> str:
    (tag,) = re.findall(r"^Tag: (.*)$", text, re.MULTILINE)
    return str(tag)


def test_one_module_for_every_python() -> None:
    assert _core.__file__.endswith("_core.abi3.so")
    metadata = importlib.metadata.distribution("pipesched").read_text("WHEEL")
    assert metadata is not None
    assert tag_of(metadata).startswith("cp311-abi3-")


def test_tags(wheel: Path) -> None:
    named = re.fullmatch(r"pipesched-[\d.]+-cp311-abi3-manylinux_2_(\d+)_\w+\.whl", wheel.name)
    assert named
    # Debian 12, where arc4random would need glibc 2.36.
    if os.confstr("CS_GNU_LIBC_VERSION") == "glibc 2.36":
        assert int(named[1]) <= 35
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert wheel.name.endswith(tag_of(archive.read(name).decode()) + ".whl")


def test_tools_are_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        tools = [name for name in names if re.search(r"\.data/scripts/.", name)]
        assert {Path(name).name for name in tools} == TOOLS
        assert all(archive.read(name).startswith(b"\x7fELF") for name in tools)
    assert "pipesched/PipeSchedPlugin.so" in names
    assert not [name for name in names if re.search(r"\.libs/|libMLIR|libLLVM", name)]


@pytest.mark.skipif(shutil.which("ldd") is None, reason="needs ldd")
def test_tools_need_the_c_library_alone(installed: Path) -> None:
    for tool in TOOLS:
        line = ["ldd", str(installed / "bin" / tool)]
        listed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"^\s*(?:/\S*/)?(\S+?)\.so", listed, re.MULTILINE))
        assert {name for name in needed if not name.startswith(("linux-vdso", "ld-"))} == {
            "libc",
            "libm",
        }


def test_shown_lines_run_by_the_tools_inside(installed: Path) -> None:
    command = [str(installed / "bin" / "pipesched"), "simulate", "--schedule", "zb-h1"]
    command += ["--workers", "4", "--microbatches", "8", "--times", "F=1ms,I=1ms,W=1ms"]
    environment = with_wheel(installed)

    def output(*line: str) -> str:
        result = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
        return result.stdout

    where = output("bash", "-c", "command -v pipesched-opt pipesched-translate").split()
    assert [Path(path).parent for path in where] == [installed / "bin"] * 2
    passes = output(*command, "--show-passes")
    (report,) = json.loads(output("bash", "-o", "pipefail", "-c", passes))
    (wanted,) = json.loads(output(*command, "--format", "json"))
    assert report["execution"] == wanted["execution"]


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="needs mlir-opt-22")
def test_stock_mlir_loads_the_plugin_inside(installed: Path) -> None:
    code = "import pipesched; print(pipesched.plugin_path())"
    line = [sys.executable, "-c", code]
    plugin = subprocess.check_output(line, env=with_wheel(installed), text=True).strip()
    assert Path(plugin) == installed / "pipesched" / "PipeSchedPlugin.so"
    passes = "builtin.module(pipe-create{workers=2 microbatches=2},pipe-schedule-1f1b)"
    stock = ["mlir-opt-22", f"--load-dialect-plugin={plugin}", f"--load-pass-plugin={plugin}"]
    printed = subprocess.run(
        [*stock, f"--pass-pipeline={passes}"],
        input="module {}",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "worker 0 runs [0F0 0F1 0B0 0B1]" in printed


def test_plugin_is_missed_outside_of_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipesched.support.files._PLUGIN", Path("/nowhere/PipeSchedPlugin.so"))
    with pytest.raises(FileNotFoundError, match=r"^/nowhere.*only wheels of scripts/wheel\.sh"):
        pipesched.plugin_path()


# The script that checks a wheel where LLVM is not


CHECK = ROOT / "scripts" / "lib" / "check-wheel.py"


def test_a_check_beside_llvm_is_refused() -> None:
    found = subprocess.run([sys.executable, str(CHECK)], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (1, "")
    assert "means nothing on a machine that has [" in found.stderr


@pytest.mark.parametrize("line", ["false", "true", "false | echo some", "echo some | false"])
def test_a_line_that_fails_or_writes_nothing_is_found(line: str) -> None:
    run = runpy.run_path(str(CHECK))["run"]
    with pytest.raises(SystemExit, match="wanted 0 and some"):
        run(line)
    assert run("echo some") == "some\n"

"""Files and numbers that no one writes by hand: they end in errors of the package, on one line."""

from __future__ import annotations

import json
from pathlib import Path

import pipesched
import pytest
from pipesched.command import main
from pipesched.costs.stage_times import entries_of

ODD_NAME = """pipe.schedule @"\\FF" workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
"""

TWO_PATHS = """pipe.schedule @s workers 2 microbatches 3 family "hand" gradient after W {
  path on [0, 1] takes [0:3:2] weights [1, 2]
  path on [1, 0] takes [1] blocks [3, 5]
  worker 0 runs [0F0 _12 0F2+1F1 0I0 0W0 1B1 0I2 0W2]
  worker 1 runs []
}
"""


def test_a_name_that_is_no_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "odd.mlir"
    file.write_text(ODD_NAME)
    assert pipesched.load(file)[0].name == "\ufffd"
    assert main(["check", str(file)]) == 0
    assert main(["simulate", str(file), "--format", "json"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said[said.index("[") :])[0]["schedule"] == "\ufffd"


def test_damaged_bytecode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "damaged.mlirbc"
    file.write_bytes(b"ML\xefR\x0d\xff\xfe\x00" + bytes(range(256)))
    assert main(["check", str(file)]) == 1
    said = capsys.readouterr().err
    assert "error: " in said and "Traceback" not in said


def test_changed_bytes_of_bytecode() -> None:
    """MLIR's reader ends the process at some of these files: they are read in a child."""
    code = pipesched.Schedule.from_text(TWO_PATHS).to_bytecode()
    refused = []
    for place in range(200, len(code), 3):
        changed = bytearray(code)
        changed[place] = 0
        try:
            pipesched.loads(bytes(changed))
        except pipesched.PipeSchedError as error:
            refused.append(str(error))
    assert len(refused) > 16
    assert any("is not valid bytecode: it crashes MLIR's reader" in said for said in refused)


def test_deep_ir() -> None:
    deep = "module {\n" * 5000 + "}\n" * 5000
    with pytest.raises(
        pipesched.PipeSchedError,
        match="<text>:257:8: more than 256 brackets or values are inside each other",
    ):
        pipesched.loads(deep)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"format": 1e400}', "the number 1e400 is too large"),
        (f'{{"format": {2**64}}}', "the number 18446744073709551616 is outside of 64 bits"),
        (f'{{"format": {10**400}}}', "is outside of 64 bits"),
        ("[]", "expected"),
        ('"\udcff"', "is not UTF-8"),
    ],
)
def test_odd_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, wanted: str
) -> None:
    file = tmp_path / "times.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(pipesched.PipeSchedError, match=wanted):
        entries_of(str(file))
    words = ["simulate", "1f1b", "--pp", "2", "--microbatches", "2", "--times", str(file)]
    assert main(words) != 0
    said = capsys.readouterr().err
    assert "error: " in said and said.count("\n") == 1


def test_a_number_that_no_float_holds() -> None:
    with pytest.raises(pipesched.PipeSchedError, match="expert_balance is a number from 1"):
        pipesched.Costs(system="h100-sxm", expert_balance=10**400)

"""`simulate` ends training steps as a configuration does."""

from pathlib import Path

import pipesched
import pytest
from pipesched import Configuration, Costs, FamilyOptions
from pipesched.command import main
from pipesched.support.options import OptimizerStep
from test_command import Capture, failure_of, rows_of, text_of

COSTS = ("--model", "llama3-8b", "--system", "dgx-h100", "--microbatch-size", "1")
SEVERAL = (*COSTS, "--data-parallel", "4")
ENDS: tuple[OptimizerStep, ...] = ("none", "overlapped", "exposed")


@pytest.mark.parametrize("family", ["1f1b", "zb-v", "chimera"])
def test_a_step_ends_as_in_a_configuration(family: str, capsys: Capture) -> None:
    found = []
    for end in ENDS:
        line = (family, "--pp", "4", "--microbatches", "8", *SEVERAL, "--optimizer-step", end)
        (row,) = rows_of(capsys, "simulate", *line)
        costs = Costs(
            model="llama3-8b",
            system="dgx-h100",
            microbatch_size=1,
            accelerators=8,
            data_parallel=4,
            parameter_bytes=(2, 4, 12),
        )
        point = Configuration(family, 4, 8, FamilyOptions(), costs=costs, optimizer_step=end)
        step_ps = row["execution"]["makespan_ps"]
        assert step_ps == point.simulate().execution.makespan_ps
        found.append(step_ps)
    assert found[0] < found[1] < found[2]


def test_a_file_gets_the_end_that_was_asked_for(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "bare.mlir"
    pipesched.generate("1f1b", workers=4, microbatches=8).save(file)
    line = ("--pp", "4", "--microbatches", "8", *SEVERAL, "--optimizer-step", "exposed")
    (of_file,) = rows_of(capsys, "simulate", str(file), *SEVERAL, "--optimizer-step", "exposed")
    (of_family,) = rows_of(capsys, "simulate", "1f1b", *line)
    assert of_file["execution"] == of_family["execution"]


def test_the_end_is_assumed_where_rows_have_none(tmp_path: Path, capsys: Capture) -> None:
    bare = pipesched.generate("1f1b", workers=4, microbatches=8)
    costs = "pipe-attach-system{name=dgx-h100},pipe-attach-model{name=llama3-8b microbatch-size=1}"
    whole = bare.transform(f"{costs},pipe-add-optimizer{{all-reduce=eager}}")
    bare.transform(costs).save(tmp_path / "bare.mlir")
    whole.save(tmp_path / "whole.mlir")
    for name in ("bare", "whole"):
        assert main(["simulate", str(tmp_path / f"{name}.mlir")]) == 0
        assert ("optimizer step none" in capsys.readouterr().out) == (name == "bare")
    file = str(tmp_path / "whole.mlir")
    error = failure_of(capsys, "simulate", file, "--optimizer-step", "exposed")
    assert "the schedule has optimizer steps or all-reduces already" in error
    assert file in error


def test_a_formula_is_of_a_step_without_end(capsys: Capture) -> None:
    line = ("1f1b", "--pp", "4", "--microbatches", "8")
    (bare,) = rows_of(capsys, "simulate", *line)
    (whole,) = rows_of(capsys, "simulate", *line, "--optimizer-step", "overlapped")
    assert bare["formula"] and not whole["formula"]


def test_passes_end_the_step_likewise(capsys: Capture) -> None:
    line = ("1f1b", "--pp", "4", "--microbatches", "8", *SEVERAL)
    shown = text_of(capsys, "simulate", *line, "--optimizer-step", "overlapped", "--show-passes")
    assert "pipe-add-optimizer{all-reduce=eager}" in shown and "gradient-buckets=layers" in shown

"""Slices in a search that names no schedules: where sequences are long."""

import pytest
from pipesched.command import main
from pipesched.planning import plan


def found(sequence: int) -> list[tuple[str, int]]:
    """The schedules of the best plans without context parallelism, and their slices."""
    plans = plan(
        "llama3-8b",
        "dgx-h100",
        gpus=64,
        global_batch=8,
        sequence=sequence,
        context=[1],
        top=8,
    )
    return [(each.candidate.schedule, each.candidate.slices) for each in plans.fitting]


def test_long_sequences_are_sliced() -> None:
    family, slices = found(131072)[0]
    assert family in ("seq1f1b", "slimpipe")
    assert slices > 1


def test_slices_have_4096_tokens_or_more() -> None:
    slices = {slices for _, slices in found(32768)}
    assert slices <= {1, 2, 4, 8}
    assert len(slices) > 1


def test_short_sequences_are_whole() -> None:
    assert {slices for _, slices in found(16384)} == {1}


def test_launchers_say_that_they_run_none(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "64"]
    line += ["--global-batch", "8", "--sequence", "131072", "--context", "1"]
    assert main(line) == 0
    out = capsys.readouterr().out
    assert "torchtitan runs whole microbatches; pipesched.torch runs slices" in out
    assert main([*line, "--for", "torchtitan"]) == 0
    assert "slices" not in capsys.readouterr().out.split("best:")[1].splitlines()[0]

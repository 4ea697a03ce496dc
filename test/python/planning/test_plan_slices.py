"""Slices in a search that names no schedules: where sequences are long."""

import re
from typing import Any

from pipesched.command import main
from pipesched.planning import Request, plan
from pipesched.planning.space.space import Space
from test_command import Capture, text_of


def found(sequence: int) -> list[tuple[str, int]]:
    """The schedules of the best plans without context parallelism, and their slices: first the one
    that no framework runs.
    """
    given: dict[str, Any] = {"gpus": 64, "global_batch": 8, "context": [1], "top": 8}
    given |= {"rates": "data-sheet", "attention": "fused", "tensor_overlap": "none"}
    plans = plan("llama3-8b", "dgx-h100", sequence=sequence, **given)
    rows = [each for each in (plans.elsewhere, *plans.fitting) if each]
    return [(each.candidate.schedule, each.candidate.slices) for each in rows]


def test_long_sequences_are_sliced() -> None:
    family, slices = found(131072)[0]
    assert family in ("seq1f1b", "slimpipe")
    assert slices > 1


def test_slices_have_4096_tokens_or_more() -> None:
    given: dict[str, Any] = {"gpus": 64, "global_batch": 8, "tensor": [8], "sequence": 32768}
    request = Request(model="llama3-8b", system="dgx-h100", **given)
    slices = {candidate.slices for candidate in Space(request).candidates()}
    assert slices == {1, 2, 4, 8}


def test_short_sequences_are_whole() -> None:
    assert {slices for _, slices in found(16384)} == {1}


def test_launchers_say_that_they_run_none(capsys: Capture) -> None:
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "64"]
    line += ["--global-batch", "8", "--sequence", "131072", "--cp", "1"]
    assert re.search(r"faster with pipesched.torch: .* slices", text_of(capsys, *line))
    out = text_of(capsys, *line, "--schedules", "seq1f1b")
    assert "torchtitan runs whole microbatches; pipesched.torch runs slices" in out
    assert main([*line, "--for", "torchtitan"]) == 0
    assert "slices" not in capsys.readouterr().out.split("best:")[1].splitlines()[0]


def test_optimized_rows_have_slices() -> None:
    """The optimizer takes the slices of the best schedule of a setting. Other transports time its
    rows a little differently.
    """
    made = plan(
        "llama3-8b",
        "dgx-h100",
        gpus=64,
        global_batch=8,
        sequence=131072,
        cp=[1],
        tp=[8],
        pp=[8],
        schedules=["seq1f1b"],
        optimize="3s",
        top=20,
    )
    (optimized, *_) = [each for each in made.proposals if each.optimized]
    assert optimized.candidate.slices > 1
    assert optimized.schedule == "optimized"
    rows = optimized.optimized
    assert rows is not None and rows.schedule.slices == optimized.candidate.slices
    assert rows.found.lower_bound_ps <= rows.found.objective_ps
    family = next(each for each in made.proposals if not each.optimized)
    assert optimized.step_s <= family.step_s * 1.02

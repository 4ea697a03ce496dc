"""Schedules with slices train the same as whole microbatches (docs/Torch.md, "Slices")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

from pipesched import Schedule, generate
from runtime_runs import RankFailed, run
from slice_ranks import SliceJob

NEAR = 1e-12
CROSSING = [[0, 1], [1, 0]]
WHOLE = ["seq1f1b", "slimpipe", "terapipe"]
FAMILIES = [*WHOLE, "zb-h1", "zb-h2", "zb-v", "greedy"]


def made(family: str, passes: str = "", **options: Any) -> Schedule:
    given = {"workers": 2, "microbatches": 4, "slices": 3, **options}
    schedule = generate(family, **given)
    return schedule.transform(passes) if passes else schedule


def check(found: dict[str, list[list[float]]], limit: float = NEAR) -> None:
    for name, ranks in found.items():
        for losses, gradients, values in ranks:
            assert max(losses, gradients, values) < limit, name


def jobs() -> list[SliceJob]:
    steps = "pipe-add-optimizer{all-reduce=eager}"
    tables = {
        **{family: made(family) for family in FAMILIES},
        **{f"{f} interleaved": made(f, chunks=2) for f in ("seq1f1b", "slimpipe")},
        **{f"{f} split": made(f, "pipe-split-backward") for f in WHOLE},
        **{f"{f} recomputed": made(f, "pipe-add-recompute") for f in (*WHOLE, "zb-h1")},
        **{f"{f} offloaded": made(f, "pipe-add-offload{amount=half}") for f in (*WHOLE, "zb-v")},
        "gradient after W": made("seq1f1b", "pipe-split-backward{gradient-after=W}"),
        "one worker": made("seq1f1b", workers=1),
        "one microbatch": made("terapipe", microbatches=1, workers=3),
        "replicas": made("greedy", f"pipe-split-backward,{steps}", paths=CROSSING, microbatches=6),
    }
    found = [SliceJob(name, schedule) for name, schedule in tables.items()]
    found.append(SliceJob("in order", made("seq1f1b"), options={"messages": "ordered"}))
    found.append(SliceJob("uneven", made("slimpipe"), is_uneven=True))
    return found


def test_gradients_are_those_of_whole_microbatches(tmp_path: Path) -> None:
    check(run(jobs(), tmp_path, "slice_ranks"))


def test_a_forward_inside_of_a_backward_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match=r"asks for earlier tokens in its backward"):
        run([SliceJob("again", made("seq1f1b"), "checkpointed")], tmp_path, "slice_ranks")


def test_sizes_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match=r"whose dimension 1 cannot be cut into 5 equal slices"):
        run([SliceJob("cut", made("seq1f1b", slices=5))], tmp_path, "slice_ranks")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("blind", "slice 2 of microbatch 0: output 0 of the stage is not"),
        ("drawing blind", "slice 2 of microbatch 0: output 0 of .* without its random numbers"),
        ("dropping blind", "slice 2 of microbatch 0: output 0 of .* without its random numbers"),
    ],
)
def test_a_stage_that_does_not_see_earlier_tokens_is_refused(
    model: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(RankFailed, match=said):
        run([SliceJob("blind", made("seq1f1b"), model)], tmp_path, "slice_ranks")


def test_stages_that_draw_are_compared_without_it(tmp_path: Path) -> None:
    """And they draw the same numbers as without a comparison."""
    jobs = [SliceJob(f, made(f), "drawing") for f in ("seq1f1b", "slimpipe")]
    check(run(jobs, tmp_path, "slice_ranks"))
    assert "its slices cannot" not in "".join(f.read_text() for f in tmp_path.glob("*.err"))


def test_stages_that_draw_otherwise_are_warned_of(tmp_path: Path) -> None:
    run([SliceJob("seq1f1b", made("seq1f1b"), "choosing blind")], tmp_path, "slice_ranks")
    said = (tmp_path / "0.err").read_text()
    assert "a whole microbatch without them (randperm): look yourself" in said

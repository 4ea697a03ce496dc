"""The lines of launchers that plans print: each family has them, or a reason."""

from __future__ import annotations

import pipesched
import pytest
from pipesched.planning.launch.launchers import TORCH_NAMES, needs_csv
from pipesched.planning.request import check_limits
from pipesched.schedule.families import placement_kind
from points import SLICED, SPREAD
from test_plan import check, flags, small


def test_names_of_torch() -> None:
    """The names of PyTorch's classes are aliases of these families."""
    canonical = {
        name: pipesched.generate(name, workers=2, microbatches=4).family
        for name in TORCH_NAMES.values()
    }
    assert canonical == {torch: family for family, torch in TORCH_NAMES.items()}


def test_each_family_has_lines_or_a_reason() -> None:
    made = [
        small(
            schedules=[family],
            pp=[4],
            context=[1],
            sharding=["optimizer"],
            chunks=[2, 4],
            top=1,
            memory="200GB",
        ).fitting[0]
        for family in pipesched.families()
        if family not in SPREAD
    ]
    for proposal in made:
        check(proposal)
        launchers = proposal.launchers("saved")
        is_megatron = proposal.schedule in ("1f1b", "interleaved-1f1b")
        assert (launchers.megatron.lines is not None) == is_megatron
        has_csv = proposal.schedule not in SLICED
        is_torch = has_csv and proposal.placement in ("linear", "interleaved", "v")
        assert (launchers.torchtitan.lines is not None) == is_torch
        if is_torch and needs_csv(proposal.candidate):
            found = flags(launchers.torchtitan.lines or ())
            file = found["--parallelism.pipeline_parallel_schedule_csv"]
            assert file == f"saved/{proposal.name}.csv"
            assert proposal.generate().to_csv()


def test_megatron_interleaves_whole_groups() -> None:
    best = small(schedules=["VPP"], gpus=8, pp=[4], global_batch=6, microbatch_size=[1]).fitting
    assert best[0].shape.microbatches % 4
    assert "which do not divide" in (best[0].launchers().megatron.reason or "")


def test_placements() -> None:
    assert placement_kind([(0, 1, 2)], 3) == "linear"
    assert placement_kind([(0, 1, 1, 0, 0, 1, 1, 0)], 2) == "wave"
    assert placement_kind([(0, 1), (1, 0)], 2) == "bidirectional"
    assert placement_kind([(1, 0)], 2) == "other"


def test_recomputation_and_precision() -> None:
    best = small(recompute=["full"], precision="fp8", schedules=["1f1b"]).fitting[0]
    megatron = flags(best.launchers().megatron.lines or ())
    assert megatron["--recompute-granularity"] == "full"
    assert megatron["--fp8-format"] == "hybrid"
    assert "--fp8-param-gather" in megatron
    torch = small(
        recompute=["full"], precision="fp8", schedules=["1f1b"], launcher="torchtitan", pp=[2]
    ).fitting[0]
    launcher = torch.launchers().torchtitan
    assert launcher.lines and launcher.lines[-1] == "activation-checkpoint:full"
    assert any("FP8" in note for note in launcher.notes)
    assert best.step_s < small(recompute=["full"], schedules=["1f1b"]).fitting[0].step_s


def test_the_old_name_of_pp_is_understood() -> None:
    with pytest.warns(pipesched.PipeSchedWarning, match=r"is now plan\(pp="):
        assert check_limits({"stages": [2]}) == {"pp": [2]}

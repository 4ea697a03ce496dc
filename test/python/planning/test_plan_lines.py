"""The lines of launchers that plans print: each family has them, or a reason."""

from __future__ import annotations

import argparse
from inspect import signature
from typing import Any

import pipesched
import pytest
from pipesched import PipeSchedError
from pipesched.command.verbs import plan as _plan_verb
from pipesched.planning import Limits, Proposal
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
            cp=[1],
            sharding=["optimizer"],
            vpp=[2, 4],
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


@pytest.mark.parametrize(("batch", "group"), [(6, 6), (10, 5), (12, None)])
def test_megatron_interleaves_groups_of_the_schedule(batch: int, group: int | None) -> None:
    best = small(schedules=["VPP"], gpus=4, pp=[4], global_batch=batch, microbatch_size=[1])
    lines = flags(best.fitting[0].launchers().megatron.lines or ())
    found = lines.get("--microbatch-group-size-per-virtual-pipeline-stage")
    assert found == (None if group is None else str(group))


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


def recomputing(layers: object, **limits: Any) -> Proposal:
    """The best plan on two stages of 16 layers for a model that recomputes some of its layers."""
    model = {**pipesched.models()["llama3-8b"], "recomputed_layers": layers}
    given = {"schedules": ["1f1b"], "pp": [2], "tp": [2], "sharding": ["optimizer"], **limits}
    found: Proposal = pipesched.plan(model, "dgx-h100", gpus=16, global_batch=32, **given).fitting[
        0
    ]
    return found


def test_models_that_recompute_some_layers() -> None:
    some = recomputing([0, 1, 16, 17], launcher="megatron")
    megatron = flags(some.launchers().megatron.lines or ())
    assert some.candidate.layers == ((16, 16),)
    assert megatron["--recompute-method"] == "block"
    assert megatron["--recompute-num-layers"] == "2"
    assert some.launchers().torchtitan.lines is None
    every = recomputing({"first": 0, "every": 1}, launcher="megatron")
    lines = flags(every.launchers().megatron.lines or ())
    assert lines["--recompute-num-layers"] == str(max(every.candidate.layers[0]))
    assert every.step_s > some.step_s
    assert every.peak_bytes < some.peak_bytes


def test_layers_that_megatron_does_not_recompute() -> None:
    launcher = recomputing([0, 1, 2]).launchers().megatron
    assert launcher.lines is None
    assert "equally many layers of each stage" in str(launcher.reason)
    with pytest.raises(PipeSchedError, match="full recomputation is of all layers"):
        recomputing([0, 16], recompute=["full"])


def test_arguments_of_plan_have_the_names_of_options() -> None:
    """Each option that is not about the output is an argument of the same name."""
    parser = argparse.ArgumentParser()
    _plan_verb.add(parser)
    shown = {"--help", "--explain", "--save", "--draw", "--format", "--output", "--columns"}
    shown |= {"--show-passes"}
    flags = {next(f for f in a.option_strings if f[:2] == "--") for a in parser._actions}
    options = {flag[2:].replace("-", "_") for flag in flags - shown}
    named = {*signature(pipesched.plan).parameters, *Limits.__annotations__}
    assert options - named == {"for"}
    assert check_limits({"for": "megatron", "tp": [2]}) == {"launcher": "megatron", "tensor": [2]}


def test_old_names_of_arguments_are_understood() -> None:
    assert check_limits({"stages": [2], "chunks": [4]}) == {"pp": [2], "chunks": [4]}
    assert check_limits({"workers": [2]}) == {"pp": [2]}
    with pytest.raises(PipeSchedError, match="plan takes tp as tensor too; give one of them"):
        check_limits({"tp": [2], "tensor": [2]})
    with pytest.raises(PipeSchedError, match="plan takes no argument 'tpp', the closest is 'tp'"):
        check_limits({"tpp": [2]})


def test_texts_of_options_mean_the_same_as_arguments() -> None:
    given: dict[str, Any] = {"schedules": ["1f1b"], "pp": [2], "tp": [2], "cp": [1], "top": 1}
    text = small(**given, disturbance="worker1=1.5,jitter=5%,seeds=3").fitting[0]
    made = small(**given, slow_workers={1: 1.5}, jitter="5%", seeds=3).fitting[0]
    assert text.disturbed_step_s == made.disturbed_step_s
    plain = small(**given).fitting[0]
    assert small(**given, set=["matrix.tflops=0.5x"]).fitting[0].step_s > plain.step_s
    with pytest.raises(PipeSchedError, match="worker 1 is given twice"):
        small(**given, disturbance="worker1=2,worker1=3")

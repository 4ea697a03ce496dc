"""Plans with measured times of layers, and layers moved between stages."""

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import PipeSchedError
from pipesched.command import main
from pipesched.command.render.output import CAUSES
from pipesched.planning.request import Request
from pipesched.planning.search.moves import Ends, move_layers, move_of_best, try_moves
from pipesched.planning.search.search import Search
from pipesched.planning.space.space import Space
from test_command import Capture, failure_of, rows_of, run_passes, text_of

TIMES: dict[str, Any] = {
    "layers": {"count": 94, "F": "20ms", "I": "20ms", "W": "20ms"},
    "embedding": {"F": "1ms", "W": "1ms", "I": 0},
    "head": {"F": "60ms", "I": "60ms", "W": "60ms"},
    "comm": "1ms",
    "O": "3ms",
}
TIMES["layers"]["O"] = TIMES.pop("O")
SMALL: dict[str, Any] = {"gpus": 32, "global_batch": 32, "tensor": [4], "microbatch_size": [1]}


def plan(model: str | None = None, times: Any = TIMES, **given: Any) -> pipesched.Plan:
    return pipesched.plan(model, "dgx-h100", times=times, **{**SMALL, **given})


def test_layers_are_divided_for_every_number_of_stages() -> None:
    """The work of a step is the same to the picosecond, wherever its layers are."""
    made = plan(top=200)
    works = set()
    pipelines = set()
    for proposal in made.fitting:
        shape = proposal.shape
        pipelines.add(shape.pipeline)
        assert all(sum(layers) == 94 for layers in proposal.candidate.layers)
        configuration = proposal.configuration
        assert configuration is not None
        table = pipesched.Configuration(
            **{**configuration.__dict__, "optimizer_step": "none"}
        ).simulate()
        works.add(int(table.execution.busy_ps.sum()) * shape.data)
    assert works == {32 * (94 * 60 + 2 + 180) * 10**9}
    assert pipelines == {1, 2, 4, 8}


def test_cells_wait_for_weights_beside_measured_times(tmp_path: Path, capsys: Capture) -> None:
    """Measured times are only compute: gathers and reductions of full sharding are added to them,
    and take as long as without measured times.
    """
    line = [
        "--model",
        "llama3-8b",
        "--gpus",
        "16",
        "--global-batch",
        "16",
        "--pp",
        "2",
        "--tp",
        "1",
    ]
    line += ["--microbatch-size", "1", "--times", "F=11ms,B=22ms,comm=0.4ms", "--memory", "2TB"]
    line += ["--schedules", "1f1b", "--sharding", "full", "--recompute", "none"]
    rows = []
    for slower in (1, 100):
        slow = ["--set", f"system.network.bandwidth_gb_per_s={50 / slower}"]
        slow += ["--set", f"system.link.bandwidth_gb_per_s={450 / slower}"]
        rows.append(rows_of(capsys, "plan", "--system", "dgx-h100", *line, *slow)[0])
        assert main(["plan", "--system", "dgx-h100", *line, *slow]) == 0
        assert "times without what sharding=full moves in cells" in capsys.readouterr().out
    fast, late = rows
    assert late["step_s"] > 5 * fast["step_s"]
    assert 0 < fast["weights_ratio"] < 0.5 and late["weights_ratio"] > 0.6
    causes = sum(value for key, value in late.items() if key in CAUSES)
    assert causes == pytest.approx(late["idle_ratio"])


def test_without_a_model_it_says_what_is_not_known(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(json.dumps(TIMES))
    line = ["plan", "--system", "dgx-h100", "--gpus", "32", "--global-batch", "32", "--top", "2"]
    line += ["--times", str(file), "--tp", "4", "--microbatch-size", "1"]
    printed = text_of(capsys, *line).splitlines()
    assert printed[1] == (
        "times are those of 94 layers, at tensor 4, microbatches of 1 and recompute none; no"
        " others are searched"
    )
    assert printed[2] == (
        "without a model tokens, memory, FLOPs and the reduction of gradients are not known: all"
        " configurations count as if they fit"
    )
    assert "memory/GPU" not in printed[4] and "tokens" not in printed[4]
    row = json.loads(text_of(capsys, *line, "--sequence", "4096", "--format", "json"))[0]
    assert row["fits"] is None and row["peak_bytes_per_gpu"] is None and row["mfu"] is None
    assert row["tokens_per_s_per_gpu"] == pytest.approx(32 * 4096 / row["expected_s"] / 32)
    assert row["launcher"]["megatron"] or row["launcher"]["torchtitan"]


def test_with_a_model_there_is_memory(capsys: Capture) -> None:
    made = plan("qwen3-235b-a22b", pp=[8], recompute=["full"])
    proposal = made.proposals[0]
    assert proposal.shape.recompute == "full" and proposal.peak_bytes > 2**30
    assert proposal.report.memory is not None
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "8", "--top", "2"]
    line += ["--global-batch", "16", "--times", "F=10ms,B=20ms,head.F=20ms,head.B=40ms"]
    line += ["--tp", "1", "--microbatch-size", "1", "--schedules", "1f1b,VPP"]
    rows = json.loads(text_of(capsys, *line, "--format", "json"))
    reports = [json.loads(line) for line in _reports(run_passes(capsys, *line))]
    steps = [report["execution"]["makespan_ps"] / 1e12 for report in reports]
    assert steps == [row["step_s"] for row in rows]


def _reports(printed: str) -> list[str]:
    decoder, found, begin = json.JSONDecoder(), [], 0
    while begin < len(printed.rstrip()):
        reports, begin = decoder.raw_decode(printed, begin)
        found += [json.dumps(report) for report in reports]
        begin += len(printed[begin:]) - len(printed[begin:].lstrip())
    return found


def test_times_of_stages_are_divided_again() -> None:
    eight = {"F": ["80ms"] * 8, "B": ["160ms"] * 8}
    given: dict[str, Any] = {"schedules": ["1f1b"], "memory": "1TiB"}
    by_list = plan("llama3-70b", times=eight, times_of="stage", top=200, **given)
    assert {p.shape.pipeline for p in by_list.proposals} != {8}
    one = plan("llama3-70b", times="F=80ms,B=160ms", pp=[8], **given)
    same = [p for p in by_list.proposals if p.shape.pipeline == 8]
    assert [p.step_s for p in same[:1]] == [p.step_s for p in one.proposals[:1]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tensor": None}, r"the one tensor degree at which they were measured; say which"),
        ({"tensor": [2, 4]}, r"say which \(tensor\); found 2, 4"),
        ({"microbatch_size": None}, "the one microbatch size at which"),
        ({"recompute": ["none", "full"]}, "the one kind of recomputation at which"),
        ({"times": "F=1ms,B=2ms"}, "times of one stage hold for one number of stages"),
        ({"times": "F=1ms,B=2ms", "pp": [8]}, "divided among the layers of a model; give a"),
        ({"times": None}, "give a model, or times"),
        ({"times_of": "worker"}, "so that they are not of a worker"),
        ({"model": "llama3-70b"}, "their number is given as 94, the model has 80"),
        (
            {"model": "llama3-70b", "times": {"F": ["1ms"] * 7}},
            "times of 7 stages: the model has 80 layers",
        ),
    ],
)
def test_what_times_need(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PipeSchedError, match=said):
        plan(**given)


def test_neither_model_nor_times(capsys: Capture) -> None:
    line = ["plan", "--system", "dgx-h100", "--gpus", "8", "--global-batch", "8"]
    assert "give --model, or --times" in failure_of(capsys, *line, status=2)


def test_times_that_are_too_short_are_noticed() -> None:
    made = plan("llama3-8b", times="F=1us,B=2us", pp=[2], schedules=["1f1b"])
    assert any("times are shorter than the accelerators allow" in line for line in made.why())


# Moves


def _searched(**given: Any) -> tuple[Search, Any]:
    whole: dict[str, Any] = {"model": "llama3-8b", "system": "dgx-h100", "reserve": 0}
    whole |= {"gpus": 8, "global_batch": 32, **given}
    search = Search(Space(Request(**whole)), None, None)
    return search, search.run(5, 3)


def test_a_move_keeps_all_layers() -> None:
    search, found = _searched(tensor=[1], pp=[8], schedules=["1f1b"], memory="120GiB")
    candidate = next(o.candidate for o in found.fitting if o.candidate.is_even)
    changes = dict(move_layers(candidate, Ends([7, 0], [3, 7])))
    assert list(changes) == [
        "a layer moved from the last stage to stage 3",
        "2 layers moved from the last stage to stage 3",
        "a layer moved from the first stage to stage 3",
        "2 layers moved from the first stage to stage 3",
        "a layer moved from the first stage to the last stage",
        "2 layers moved from the first stage to the last stage",
    ]
    other = changes["2 layers moved from the last stage to stage 3"]
    assert other.layers == ((4, 4, 4, 6, 4, 4, 4, 2),)


def test_moving_a_layer_may_make_it_fit() -> None:
    """Worker 0 of 1F1B has the most activations, and misses less than a layer's."""
    given: dict[str, Any] = {"tensor": [1], "pp": [8], "schedules": ["1f1b"], "gpus": 8}
    given["reserve"] = 0
    free = pipesched.plan(
        "llama3-8b", "dgx-h100", **given, global_batch=32, recompute=["selective"], memory="120GiB"
    )
    peak = free.fitting[0].peak_bytes
    made = pipesched.plan(
        "llama3-8b",
        "dgx-h100",
        **given,
        global_batch=32,
        recompute=["selective"],
        memory=peak - 2**30,
    )
    assert made.fitting and not made.fitting[0].candidate.is_even
    assert made.fitting[0].peak_bytes <= peak - 2**30
    before, after = free.fitting[0].candidate.layers[0], made.fitting[0].candidate.layers[0]
    assert after[0] < before[0] and sum(after) == sum(before) == 32
    without = Search(Space(made.request), None, None).run(5, 3)
    assert not without.fitting or without.fitting[0].step_ps > made.fitting[0].step_s * 1e12


def test_help_names_the_stages() -> None:
    """The best fits only because layers were moved, which the one that misses names."""
    given: dict[str, Any] = {"gpus": 64, "global_batch": 256, "tensor": [4], "pp": [4]}
    given |= {"microbatch_size": [1], "recompute": ["none"], "schedules": ["VPP"], "chunks": [8]}
    given |= {"model": "llama3-70b", "system": "dgx-h100", "reserve": 0}
    given |= {"context": [1], "sharding": ["optimizer"], "rates": "data-sheet"}
    given |= {"attention": "fused", "tensor_overlap": "none"}
    peak = pipesched.plan(**given, memory="150GiB").fitting[0].peak_bytes
    made = pipesched.plan(**given, memory=peak - 2**28)
    helps = [h for p in made.missing for h in p.help if h.change.startswith("a layer moved from")]
    assert [h for h in helps if h.fits and h.step_s == made.fitting[0].step_s]
    assert "with a layer moved from the first stage to stage " in "".join(made.why())


def test_a_slow_last_stage_is_told() -> None:
    """With evenly divided layers the last stage, with the head, is slowest: moving a layer from it
    is proposed, with the resulting step.
    """
    search, found = _searched(tensor=[1], pp=[8], schedules=["1f1b"], memory="120GiB")
    even = next(o for o in found.fitting if o.candidate.is_even)
    move = move_of_best(search, even)
    assert move is not None and move.stage == "the last stage" and move.above_mean > 0.01
    assert "moved from the last stage" in move.change
    assert move.outcome.step_ps < move.before_ps
    assert sum(move.outcome.candidate.layers[0]) == 32
    found.fitting = [even]
    try_moves(search, found)
    assert found.fitting[0].step_ps <= move.outcome.step_ps
    last = move_of_best(search, found.fitting[0])
    assert last is None or last.outcome.step_ps >= found.fitting[0].step_ps

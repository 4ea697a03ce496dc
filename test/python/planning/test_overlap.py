"""Forward and backward of layers with experts, part by part on two streams."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from pipesched import Configuration, Costs, PipeSchedError, overlap
from pipesched.command import main
from pipesched.costs.pairs import says_nothing_gained
from pipesched.costs.segments import PARTS, read_segments, segments_of
from test_command import Capture, failure_of, rows_of, text_of

SCHEMA: dict[str, Any] = json.loads(
    (ROOT / "docs" / "schemas" / "layer-segments.schema.json").read_text()
)
LAYER: dict[str, Any] = {
    "attention": {"F": 4, "I": 4, "W": 2},
    "dispatch": {"F": 3, "I": 3},
    "mlp": {"F": 6, "I": 6, "W": 6},
    "combine": {"F": 3, "I": 3},
}
TOY = {"layers": [LAYER]}
MODEL: dict[str, Any] = {
    "model": "qwen3-30b-a3b",
    "system": "h100-sxm-load",
    "data_parallel": 16,
    "expert_parallel": 16,
    "microbatch_size": 1,
    "accelerators": 1,
}


def error_of(value: Any, **options: Any) -> str:
    with pytest.raises(PipeSchedError) as caught:
        overlap(value, **options)
    return caught.value.diagnostics[0].message


# Segments


def test_examples_of_the_schema_are_read(tmp_path: Path) -> None:
    file = tmp_path / "segments.json"
    dense, whole = SCHEMA["examples"]
    file.write_text(json.dumps(dense))
    read = read_segments(file)
    assert [(kind.name, kind.count) for kind in read.kinds] == [("dense", 3), ("experts", 13)]
    assert read.contention == (1.1, 1.05)
    assert read.kinds[1].time_of("combine", "F") == 1_100_000_000
    assert overlap(whole, whole_backward=True).pair_ps > 0
    assert "give I and W, or a whole backward" in error_of(whole)


def test_the_schema_knows_the_parts() -> None:
    known = SCHEMA["$defs"]["layer"]["properties"]
    assert tuple(known) == ("name", "count", *PARTS)
    assert set(SCHEMA["properties"]) == {"$schema", "layers", "contention"}


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_part_is_named(part: str) -> None:
    broken = deepcopy(TOY)
    del broken["layers"][0][part]
    assert f"segments: layers[0]: has no {part}" in error_of(broken)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("mlp", "I"), -1, "layers[0]: mlp: I: expected 0 or more picoseconds"),
        (("mlp", "F"), "-1ms", "layers[0]: mlp: F: "),
        (("mlp", "F"), "1 parsec", "layers[0]: mlp: F: "),
        (("mlp", "F"), True, "layers[0]: mlp: F: expected a time"),
        (("mlp", "B"), 3, "layers[0]: mlp: gives I beside B"),
        (("combine", "W"), 0, "layers[0]: combine: unknown field 'W'"),
        (("combine",), 3, "layers[0]: combine: expected times by phase"),
        (("count",), 0, "layers[0]: count: expected a positive number"),
        (("name",), 3, "layers[0]: name: expected a text"),
        (("experts",), {}, "layers[0]: unknown field 'experts'"),
    ],
)
def test_wrong_values_name_their_place(path: tuple[str, ...], value: Any, said: str) -> None:
    broken = deepcopy(TOY)
    owner: Any = broken["layers"][0]
    for name in path[:-1]:
        owner = owner[name]
    owner[path[-1]] = value
    assert f"segments: {said}" in error_of(broken)


def test_wrong_files_name_themselves(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text, said in (
        ('{"layers": [}', f"{file}:1:13: "),
        ('{"layers": []}', f"{file}: layers: expected a list of layers, found []"),
        ('{"layers": [1], "layers": [2]}', f"{file}: the field 'layers' is given twice"),
        ("[]", f"{file}: expected an object"),
        ('{"layers": [{}], "order": 1}', f"{file}: unknown field 'order'"),
    ):
        file.write_text(text)
        assert said in error_of(str(file))
    assert "gone.json: No such file" in error_of(tmp_path / "gone.json")
    contention = {**TOY, "contention": {"compute": 0.5}}
    assert "contention: compute: expected a factor from 1 to 10" in error_of(contention)


# Pairs


def test_an_exchange_is_hidden_or_seen() -> None:
    pair = overlap(TOY)
    assert (pair.pair_ps, pair.exposed_ps, pair.hidden) == (28, 0, 1.0)
    assert pair.hidden_by_part() == {
        "dispatch.F": (3, 3),
        "dispatch.I": (3, 3),
        "combine.F": (3, 3),
        "combine.I": (3, 3),
    }
    # A backward by itself hides dispatch.I during mlp.W.
    assert (pair.forward_ps, pair.backward_ps, pair.in_turn_ps) == (16, 21, 40)
    turned = overlap(TOY, order="in-turn", whole_backward=True)
    assert (turned.pair_ps, turned.hidden_ps, turned.gain) == (40, 0, 0)


def test_what_is_seen_adds_up() -> None:
    """The pair is compute and the exposed part; the hidden part is that of the parts."""
    slow = deepcopy(TOY)
    slow["layers"] = [{**LAYER, "count": 3, "dispatch": {"F": 9, "I": 14}}]
    for order in ("in-turn", "deepseek", "megatron", "best"):
        for contention in (1, (1.25, 1.5)):
            pair = overlap(slow, order=order, contention=contention)
            assert pair.pair_ps == pair.compute_ps + pair.exposed_ps
            parts = pair.hidden_by_part().values()
            assert pair.hidden_ps == sum(hidden for _, hidden in parts)
            assert pair.exchange_ps == sum(ran for ran, _ in parts)
            assert pair.pair_ps >= pair.bound_ps


def test_layers_of_cells() -> None:
    two = {"layers": [{**LAYER, "count": 2}, {**LAYER, "dispatch": {"F": 0, "I": 0}}]}
    pair = overlap(two, forward=(0, 2), backward=(2, 3))
    frame = pair.to_frame()
    assert frame[frame.phase == "F"].layer.nunique() == 2
    assert frame[frame.phase == "I"].layer.nunique() == 1
    assert pair.in_turn_ps == 2 * 16 + 21
    assert "expected layers within 0:3, found 2:4" in error_of(two, forward=(2, 4))


def test_orders() -> None:
    given = "combine.I,attention.F,mlp.I,dispatch.F,dispatch.I,mlp.F,attention.I,combine.F"
    whole = overlap(TOY, order=given, whole_backward=True)
    assert (whole.order, whole.pair_ps) == ("given", overlap(TOY, whole_backward=True).pair_ps)
    assert "the order leaves out attention.W" in error_of(TOY, order=given)
    turned = given.replace("combine.I,attention.F,mlp.I", "mlp.I,attention.F,combine.I")
    turned = turned.replace("dispatch.F,", "").replace("attention.F,", "attention.F,dispatch.F,")
    said = error_of(TOY, order=turned, whole_backward=True)
    assert "the order has a cycle at layer 0: mlp.I, which needs combine.I" in said
    assert "order is one of in-turn, deepseek, megatron, best, fluid" in error_of(TOY, order="fast")


def test_a_gain_of_nothing_is_said() -> None:
    few = {"layers": [{**LAYER, "dispatch": {"F": 0, "I": 0}, "combine": {"F": 0, "I": 0}}]}
    assert "no rows are on their way" in str(says_nothing_gained(overlap(few)))
    slowed = {"layers": [LAYER], "contention": {"compute": 3, "exchange": 3}}
    assert "what compute loses" in str(says_nothing_gained(overlap(slowed)))
    assert says_nothing_gained(overlap(TOY)) is None


def test_a_trace_has_both_streams() -> None:
    pair = overlap(TOY)
    events = json.loads(pair.trace())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["compute", "exchange"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == 10 and {e["tid"] for e in spans} == {0, 1}
    assert max(e["ts"] + e["dur"] for e in spans) == pytest.approx(28e-6)


# Models


@pytest.mark.parametrize("launch", ["single", "graphs"])
@pytest.mark.parametrize("dispatch", ["all-to-all", "per-rank"])
def test_parts_of_a_model_add_up_to_its_cells(launch: Any, dispatch: Any) -> None:
    """They are the additional time of cells of a longer model, which is long enough that the host
    is not ahead of its layers because of the head.
    """

    def cells(layers: int) -> tuple[int, int]:
        import pipesched

        fields = {**pipesched.models()["qwen3-30b-a3b"], "layers": layers}
        costs = Costs(**{**MODEL, "model": fields}, kernel_launch=launch, expert_dispatch=dispatch)
        frame = Configuration("1f1b", 1, 1, costs=costs).simulate().to_frame()
        forward, backward = (frame.end_ps - frame.start_ps).tolist()
        return forward, backward

    costs = Costs(**MODEL, kernel_launch=launch, expert_dispatch=dispatch)
    (kind,) = segments_of(costs).kinds
    more, fewer = cells(1001), cells(1000)
    assert sum(kind.times[0::3]) == pytest.approx(more[0] - fewer[0], rel=1e-9)
    backward = sum(kind.times[1::3]) + sum(kind.times[2::3])
    assert backward == pytest.approx(more[1] - fewer[1], rel=1e-9)
    assert (kind.time_of("dispatch", "F") > 0) == ((launch, dispatch) != ("single", "per-rank"))


def test_kinds_of_layers() -> None:
    options = {**MODEL, "model": "deepseek-v3"}
    dense, experts, *_ = segments_of(Costs(**options)).kinds
    assert (dense.count, experts.count) == (3, 58)
    assert dense.time_of("dispatch", "F") == dense.time_of("combine", "I") == 0
    assert dense.time_of("mlp", "F") > 0 and experts.time_of("combine", "F") > 0


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize("microbatches", [-8, 0, 2**62])
def test_no_microbatches(size: int | None, microbatches: int) -> None:
    batch = 64 if size is None else None
    costs = Costs(**{**MODEL, "microbatch_size": size, "global_batch": batch})
    with pytest.raises(PipeSchedError, match=f"1 to 2147483647; got {microbatches}"):
        overlap(costs=costs, microbatches=microbatches)


def test_few_ranks_gain_less() -> None:
    def gain(ranks: int) -> float:
        given = {**MODEL, "expert_parallel": ranks, "expert_dispatch": "all-to-all"}
        return overlap(costs=Costs(**given), forward=(0, 4)).gain

    gains = [gain(ranks) for ranks in (1, 4, 16)]
    assert gains == sorted(gains) and gains[0] == 0 and gains[2] > 0.2


def test_pairs_of_a_schedule_take_the_time() -> None:
    """FB of a pair replaces the sum of two cells in DualPipe."""
    segments = {"layers": [{**LAYER, "count": 2}]}
    pair = overlap(segments)
    with_pairs = Configuration("dualpipe", 4, 16, costs=Costs(times=pair.times())).simulate()
    alone = pair.times().rpartition(",")[0]
    assert pair.input_ps + pair.weights_ps + pair.forward_ps == pair.in_turn_ps
    without = Configuration("dualpipe", 4, 16, costs=Costs(times=alone)).simulate()
    assert with_pairs.execution.makespan_ps < without.execution.makespan_ps


# The verb


def test_rows_of_the_verb(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "segments.json"
    file.write_text(json.dumps(TOY))
    rows = rows_of(capsys, "overlap", str(file))
    assert [row["order"] for row in rows] == ["in-turn", "deepseek", "megatron", "best"]
    assert rows[1]["pair_s"] == pytest.approx(28e-12)
    trace = tmp_path / "trace.json"
    said = text_of(capsys, "overlap", str(file), "--order", "deepseek", "--draw", str(trace))
    assert "assumed: contention 1,1" in said
    assert "--times F=16ps,B=21ps,I=16ps,W=8ps,FB=28ps" in said
    assert len(json.loads(trace.read_text())["traceEvents"]) == 12
    slow = rows_of(capsys, "overlap", str(file), "--contention", "1.5,2", "--order", "deepseek")
    assert slow[0]["pair_s"] > 28e-12


def test_refusals_of_the_verb(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "segments.json"
    file.write_text(json.dumps(TOY))
    model = ["--model", "qwen3-30b-a3b", "--system", "dgx-h100"]
    for line, said in (
        ([], "give a file of segments, or --model and --system"),
        ([str(file), *model], "give a file of segments, or --model and --system"),
        ([str(file), "--times", "F=1ms"], "--times has times of whole cells"),
        ([str(file), "--show-passes"], "not the work of passes"),
        ([*model, "--microbatch-size", "1", "--set", "expert-exposed=50"], "--order finds it"),
    ):
        assert said in failure_of(capsys, "overlap", *line, status=2)
    for option, value, said in (
        ("--order", "megatro", "the closest is 'megatron'"),
        ("--layers", "x", "expected layers such as 12:24"),
        ("--contention", "0.9", "expected factors from 1 to 10"),
        ("--contention", "1,2,3", "expected factors from 1 to 10"),
    ):
        assert said in failure_of(capsys, "overlap", str(file), option, value, status=2)


def test_the_verb_says_what_it_assumes(capsys: Capture) -> None:
    """A batch that was not given is the model's."""
    line = ("overlap", "--model", "llama3-8b", "--system", "h100-sxm", "--layers", "2")
    said = text_of(capsys, *line, "--order", "in-turn")
    assert "microbatch size 512 (the model's batch of 512)" in said
    assert "rates under load" in said
    assert main([*line, "--order", "in-turn", "--microbatch-size", "1"]) == 0
    assert "microbatch size 512" not in capsys.readouterr().out
    assert main([*line, "--order", "in-turn", "--rates", "data-sheet"]) == 0
    assert "rates under load" not in capsys.readouterr().out

"""Megatron's combined 1F1B, and the exchanges of experts that schedules of pairs hide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import PipeSchedError, Schedule, generate, overlap
from pipesched.command import main
from pipesched.schedule.megatron import hidden_in, plain, trace_of
from pipesched.support.options import Phase
from test_command import Capture, failure_of, rows_of, text_of
from test_overlap import LAYER, TOY


def combined_1f1b(workers: int, microbatches: int, chunks: int = 1, **group: Any) -> Schedule:
    sizes: dict[str, Any] = {"workers": workers, "microbatches": microbatches, "chunks": chunks}
    return generate("combined-1f1b", name="combined_1f1b", **sizes, **group)


def test_refusals() -> None:
    for sizes, said in (
        ((4, 9, 2), "2 does not divide 9; the nearest are 8 and 10, or give a group"),
        ((0, 4, 1), "workers"),
    ):
        with pytest.raises(PipeSchedError, match=said):
            combined_1f1b(*sizes)
    said = "takes a group of at least 4 and at most all 8 microbatches, found 2"
    with pytest.raises(PipeSchedError, match=said):
        combined_1f1b(4, 8, 2, group=2)


def test_one_worker_by_hand() -> None:
    """A forward, four pairs and a backward: 16 + 4 * 28 + 21."""
    pair = overlap(TOY)
    found = hidden_in(combined_1f1b(1, 5), pair)
    assert found.makespan_ps == 16 + 4 * 28 + 21
    assert found.exchange_ps == {"warm_up": 6, "steady": 4 * 12, "drain": 6}
    # The backward by itself hides dispatch.I during mlp.W.
    assert found.hidden_ps == {"warm_up": 0, "steady": 4 * 12, "drain": 3}
    assert found.seen_ps == 6 + 3
    without = plain(pair, 1, 5, 1, None)
    assert without.makespan_ps == 5 * 40
    assert without.seen_ps == 5 * 12 and without.share() == 0


def test_more_chunks_and_whole_backwards() -> None:
    pair = overlap(TOY, whole_backward=True)
    found = hidden_in(combined_1f1b(2, 8, 2), pair)
    assert found.hidden_ps["drain"] == found.hidden_ps["warm_up"] == 0
    assert found.share("steady") == pair.hidden
    assert sum(found.exchange_ps.values()) == 2 * 2 * 8 * 12
    assert found.makespan_ps < plain(pair, 2, 8, 2, None).makespan_ps


def test_rows_of_the_verb(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "segments.json"
    file.write_text(json.dumps({"layers": [{**LAYER, "count": 2}]}))
    sizes = ["--pp", "2", "--microbatches", "8", "--vpp", "2"]
    rows = rows_of(capsys, "overlap", str(file), *sizes)
    names = ["interleaved-1f1b", "combined-1f1b", "dualpipe-v"]
    assert [row["schedule"] for row in rows] == names
    assert rows[0]["hidden"] == 0 and rows[1]["step_s"] < rows[0]["step_s"]
    assert rows[1]["hidden_steady"] == 1 and rows[1]["hidden_warm_up"] == 0
    trace = tmp_path / "trace.json"
    rows_of(capsys, "overlap", str(file), *sizes, "--draw", str(trace))
    assert json.loads(trace.read_text())["traceEvents"]
    for line, said in (
        (["--vpp", "2"], "give --pp"),
        (
            [*sizes, "--set", "forward=1", "--set", "backward=2"],
            "stages of a schedule hold the same",
        ),
    ):
        assert said in failure_of(capsys, "overlap", str(file), *line, status=2)


def test_trace_of_a_step_by_hand() -> None:
    """One worker: a forward of 16 ps, a pair of 28 and a backward of 21, on both streams."""
    events = json.loads(trace_of(combined_1f1b(1, 2), overlap(TOY)))["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert threads == {0: "compute", 1: "exchange", 2: "cells", 3: "second cells of pairs"}
    spans = {
        (threads[e["tid"]], e["name"], e["args"]["microbatch"]): (
            round(e["ts"] * 1e6),
            round((e["ts"] + e["dur"]) * 1e6),
        )
        for e in events
        if e["ph"] == "X"
    }
    assert spans["cells", "0F0", 0] == (0, 16)
    assert spans["cells", "0F1+", 1] == spans["second cells of pairs", "0B0+", 0] == (16, 44)
    assert spans["cells", "0B1", 1] == (44, 65)
    assert spans["exchange", "combine.I", 0] == (16, 19)
    assert spans["compute", "attention.F", 1] == (16, 20)
    assert len(spans) == 4 + 2 * (4 + 6)
    # No stream of the worker runs two parts at once.
    for stream in ("compute", "exchange"):
        found = sorted(span for (thread, *_), span in spans.items() if thread == stream)
        assert all(end <= begin for (_, end), (begin, _) in zip(found, found[1:], strict=False))


def test_parts_of_split_cells_are_in_turn() -> None:
    """DualPipe-V runs some I and W by themselves."""
    pair = overlap(TOY)
    made = pipesched.generate("dualpipe-v", workers=2, microbatches=4)
    events = json.loads(trace_of(made, pair))["traceEvents"]
    cells = [e for e in events if e["ph"] == "X" and e["cat"] == "cell"]
    wanted: tuple[tuple[Phase, int, int], ...] = (
        ("I", 4, pair.input_ps),
        ("W", 2, pair.weights_ps),
    )
    for phase, count, ps in wanted:
        chosen = [e for e in cells if phase in e["name"]]
        assert chosen and all(round(e["dur"] * 1e6) == ps for e in chosen)
        assert [run.end_ps for run in pair.alone_runs[phase]][-1] == ps
        assert len(pair.alone_runs[phase]) == count


def test_what_delayed_weight_gradients_hide(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "segments.json"
    layer = {part: {p: f"{t}ms" for p, t in times.items()} for part, times in LAYER.items()}
    file.write_text(json.dumps({"layers": [layer]}))
    said = text_of(capsys, "overlap", str(file), "--order", "deepseek")
    assert "is there 2 ms (7.14 %) before the pair ends" in said
    assert main(["overlap", str(file), "--order", "deepseek", "--whole-backward"]) == 0
    assert "no W hides its message" in capsys.readouterr().out

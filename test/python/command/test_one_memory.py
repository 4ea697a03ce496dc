"""One rule for memory in all verbs: bytes of a parameter, and the reserve."""

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Costs, PipeSchedError
from pipesched.command import main
from pipesched.support.units import reserve_of
from test_command import Capture, failure_of, rows_of, run_passes, text_of

COSTS = ["--model", "llama3-8b", "--system", "dgx-h100"]
PLAN = [
    *("plan", *COSTS, "--gpus", "8", "--global-batch", "16", "--pp", "4"),
    *("--schedules", "1f1b", "--cp", "1", "--tp", "2", "--microbatch-size", "1"),
    *("--recompute", "none", "--top", "1"),
]
SAME = [*COSTS, "--pp", "4", "--microbatches", "16", "--microbatch-size", "1"]
MORE = ["--set", "accelerators=2"]


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_all_verbs_count_the_same(precision: str, capsys: Capture) -> None:
    given = ["--precision", precision]
    planned = rows_of(capsys, *PLAN, *given)[0]
    given += ["--set", "balance=cost"]
    (compared,) = rows_of(capsys, "simulate", "1f1b", *SAME, *MORE, *given)
    (swept,) = rows_of(capsys, "sweep", "--schedules", "1f1b", *SAME, *MORE, *given)
    assert len({row["peak_bytes_per_gpu"] for row in (planned, compared, swept)}) == 1
    assert compared["fits"] == swept["fits"] == (planned["missing_bytes_per_gpu"] == 0)


def test_the_run_that_disagreed(capsys: Capture) -> None:
    """Between a memory and the memory minus the reserve, no verb says that it fits."""
    line = ["1f1b", *COSTS, "--pp", "4", "--microbatches", "16", "--microbatch-size", "3"]
    (row,) = rows_of(capsys, "simulate", *line, "--set", "accelerators=2")
    whole = 84_900_000_000
    usable = whole - reserve_of("parts", whole)
    assert row["usable_bytes_per_gpu"] == usable
    assert usable < row["peak_bytes_per_gpu"] < whole
    assert row["fits"] is False
    (free,) = rows_of(capsys, "simulate", *line, "--set", "accelerators=2", "--reserve", "0")
    assert free["fits"] is True and free["peak_bytes_per_gpu"] == row["peak_bytes_per_gpu"]
    rows = rows_of(capsys, "simulate", *line, *MORE, "--memory", "84.9GB")
    assert rows[0]["budget_bytes_per_gpu"] == usable
    assert rows[0]["uses"] != "nothing"


@pytest.mark.parametrize("verb", ["simulate", "sweep", "optimize"])
def test_it_is_assumed(verb: str, capsys: Capture) -> None:
    first = ["--schedules", "1f1b"] if verb in ("simulate", "sweep") else ["--schedule", "1f1b"]
    search = ["--max-evaluations", "1"] if verb == "optimize" else []
    assert main([verb, *first, *SAME, *MORE, *search]) == 0
    (said,) = (s for s in capsys.readouterr().out.splitlines() if s.startswith("assumed:"))
    assert "memory as in Megatron-LM (2 + 4 + 12 bytes a parameter)" in said
    assert ("reserve CUDA context 0.95GiB" in said) == (verb in ("simulate", "sweep"))


def test_passes_count_the_same(capsys: Capture) -> None:
    line = ["simulate", "1f1b", *SAME, *MORE]
    (row,) = rows_of(capsys, *line)
    assert str(row["peak_bytes"]) in run_passes(capsys, *line)
    assert "parameter-bytes=2,4,12" in text_of(capsys, *line, "--show-passes")


def test_models_may_say_it_themselves(tmp_path: Path, capsys: Capture) -> None:
    """A description that names bytes keeps them, and so does `--set`."""
    fields: dict[str, Any] = dict(pipesched.models()["llama3-8b"])
    fields["gradient_bytes_per_parameter"] = 2
    file = tmp_path / "model.json"
    file.write_text(json.dumps(fields))
    own = ["--model", str(file), *SAME[2:], *MORE]
    found = {
        verb: rows_of(capsys, verb, "--schedules", "1f1b", *own)[0]
        for verb in ("simulate", "sweep")
    }
    (usual,) = rows_of(capsys, "simulate", "1f1b", *SAME, *MORE)
    assert found["simulate"]["peak_bytes"] == found["sweep"]["peak_bytes"] < usual["peak_bytes"]
    assert "memory as in" not in text_of(capsys, "simulate", "1f1b", *own)


def test_names_of_frameworks() -> None:
    costs: dict[str, Any] = {"model": "llama3-8b", "system": "dgx-h100", "microbatch_size": 1}

    def peak(**more: Any) -> int:
        found = pipesched.Configuration("1f1b", 4, 8, costs=Costs(**costs, **more)).simulate()
        assert found.memory is not None
        return int(found.memory.peak_bytes.max())

    assert peak(parameter_bytes="megatron") == peak(parameter_bytes=(2, 4, 12))
    fp8 = peak(parameter_bytes="megatron", precision="fp8")
    assert fp8 == peak(parameter_bytes=(4, 4, 12), precision="fp8")
    full: dict[str, Any] = {"sharding": "full", "data_parallel": 2}
    assert peak(parameter_bytes="torchtitan", **full) == peak(parameter_bytes=(2, 4, 10), **full)
    with pytest.raises(PipeSchedError, match="parameter_bytes"):
        Costs(**costs, parameter_bytes="megatro")  # type: ignore[arg-type]


def test_a_reserve_of_everything(capsys: Capture) -> None:
    line = ["simulate", "1f1b", *SAME, "--memory", "60GiB", "--reserve", "60GiB"]
    assert "leaves nothing of 60.0 GiB" in failure_of(capsys, *line, status=2)

"""Equal memory: each schedule is the fastest of its ways that fits, and none beats the bound."""

from pathlib import Path

import pytest
from pipesched import Configuration, Costs
from test_command import Capture, failure_of, rows_of, text_of

COSTS = ["--model", "llama3-70b", "--system", "dgx-h100", "--global-batch", "16"]
LINE = ["simulate", "--pp", "4", "--microbatches", "16", *COSTS, "--reserve", "0"]
FAMILIES = ["1f1b", "gpipe", "zb-h1", "zb-v", "VPP"]


def ways(family: str) -> list[tuple[float, int]]:
    """Steps and bytes of an accelerator of all ways to run a family, simulated here."""
    found = []
    for recompute in ("none", "selective", "full"):
        costs = Costs(
            model="llama3-70b",
            system="dgx-h100",
            global_batch=16,
            recompute=recompute,
            parameter_bytes="megatron",
        )
        point = Configuration(family, 4, 16, costs=costs)
        try:
            reports = [point.simulate()]
        except Exception:
            continue
        for amount in ("half", "all"):
            made = point.generate().transform(f"pipe-add-offload{{amount={amount}}}")
            reports.append(made.simulate(costs))
        for report in reports:
            assert report.memory is not None
            peak = -(-int(report.memory.peak_bytes.max()) // 8)
            found.append((report.execution.makespan_ps / 1e12, peak))
    return found


@pytest.mark.parametrize("gib", [90, 60, 48])
def test_fastest_that_fits(gib: int, capsys: Capture) -> None:
    rows = rows_of(capsys, *LINE, *FAMILIES, "--memory", f"{gib}GiB")
    *own, bound = rows
    assert bound["schedule"] == "bound" and bound["rank"] is None
    for row in own:
        tried = ways(row["family"])
        fitting = [step for step, peak in tried if peak <= gib * 2**30]
        assert row["fits"] == bool(fitting)
        if fitting:
            assert row["step_s"] == pytest.approx(min(fitting)), row["schedule"]
            assert row["missing_bytes_per_gpu"] == 0 and row["rank"] >= 1
        else:
            least = min(peak for _, peak in tried)
            assert row["peak_bytes_per_gpu"] == least and row["rank"] is None
            assert row["missing_bytes_per_gpu"] == least - gib * 2**30
        assert bound["step_s"] <= row["step_s"] * (1 + 1e-9)
    steps = [row["step_s"] for row in own if row["fits"]]
    assert steps == sorted(steps)
    assert [row["fits"] for row in own] == sorted((r["fits"] for r in own), reverse=True)


def test_limits_of_families(capsys: Capture) -> None:
    """The option `memory` of a family is chosen, too, unless it is given."""
    tried = {}
    for limit in range(2, 8):
        (row,) = rows_of(capsys, *LINE, "zb-auto", "--memory", str(limit), "--recompute", "none")
        if row.get("error") is None:
            tried[limit] = row["step_s"], row["peak_bytes_per_gpu"]
    budget = sorted(peak for _, peak in tried.values())[len(tried) // 2]
    (row, bound) = rows_of(
        capsys, *LINE, "zb-auto", "--memory", f"{budget}B", "--recompute", "none"
    )
    assert row["fits"]
    assert row["step_s"] <= min(step for step, peak in tried.values() if peak <= budget)
    assert bound["step_s"] <= row["step_s"]


def test_given_recomputation_is_kept(capsys: Capture) -> None:
    rows = rows_of(capsys, *LINE, *FAMILIES, "--memory", "60GiB", "--recompute", "full")
    assert {row["recompute"] for row in rows[:-1]} == {"full"}


def test_own_files(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "own.mlir"
    Configuration("gpipe", 4, 16).generate("mine").save(file)
    rows = rows_of(capsys, *LINE, str(file), "gpipe", "--memory", "60GiB")
    own, family = rows[:2]
    assert {own["file"], family["file"]} == {str(file), None}
    assert own["step_s"] == family["step_s"] and own["uses"] == family["uses"]


def test_page_and_text(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    text = text_of(capsys, *LINE, "1f1b", "zb-v", "--memory", "60GiB", "--draw", str(page))
    assert "60.0 GiB an accelerator" in text and "above what any rows can reach" in text
    assert ">bound<" in page.read_text()
    assert "nothing fits" in text_of(capsys, *LINE, "1f1b", "--memory", "1GiB", status=1)


def test_refusals(capsys: Capture) -> None:
    times = ["simulate", "1f1b", "--pp", "4", "--microbatches", "8", "--times", "F=1ms,B=2ms"]
    assert "needs --model and --system" in failure_of(capsys, *times, "--memory", "60GiB", status=2)
    said = failure_of(capsys, *LINE, "--memory", "60GB/s", status=2)
    assert "--memory: memory is a number of bytes" in said
    failure_of(capsys, *LINE, "--activations", "0", status=2)
    said = failure_of(capsys, *LINE, "--memory", "9GiB", "--show-passes", status=2)
    assert "--show-passes" in said


def test_activations_with_times(capsys: Capture) -> None:
    """With --times a limit of activations holds for all schedules, also without such an option."""
    line = ["simulate", "1f1b", "gpipe", "--pp", "4", "--microbatches", "8"]
    *own, bound = rows_of(capsys, *line, "--times", "F=1ms,B=2ms", "--activations", "4")
    assert [(row["schedule"], row["fits"], row["missing_activations"]) for row in own] == [
        ("1f1b", True, 0),
        ("gpipe", False, 4),
    ]
    assert {row["uses"] for row in own} == {"nothing"}  # copies without times are not free
    assert bound["step_s"] <= own[0]["step_s"]
    copies = ["--times", "F=1ms,B=2ms,D=0.5ms,U=0.5ms", "--activations", "3"]
    *own, bound = rows_of(capsys, *line, *copies)
    assert {row["uses"] for row in own} == {"offload all"} and all(row["fits"] for row in own)


def test_the_bound_is_that_of_the_slices_too(capsys: Capture) -> None:
    """Sliced rows may be faster than any that are whole."""
    line = ["simulate", "1f1b", "seq1f1b", "--slices", "4", "--pp", "4", "--microbatches", "4"]
    line += ["--model", "llama3-8b", "--system", "dgx-h100", "--microbatch-size", "1"]
    line += ["--sequence", "65536", "--set", "slice-cut=work"]
    line += ["--reserve", "0", "--memory", "70GiB"]
    *own, bound = rows_of(capsys, *line)
    assert {row["family"] for row in own} == {"1f1b", "seq1f1b"}
    assert bound["uses"].endswith("slices 1, 4")
    assert all(bound["step_s"] <= row["step_s"] for row in own)
    *_, alone = rows_of(capsys, *line[:2], *line[5:])
    assert alone["uses"].endswith("GiB") and bound["step_s"] < alone["step_s"]

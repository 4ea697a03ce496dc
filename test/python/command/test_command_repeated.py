"""Options that are given several times, and booleans as people write them."""

from pathlib import Path

import pytest
from pipesched.command import main
from pipesched.support.text import truth
from test_command import Capture, failure_of, rows_of, run_passes, text_of

COMPARE = [
    *("simulate", "--pp", "4", "--microbatches", "8", "--schedules", "1f1b,zb-h1"),
    *("--model", "llama3-8b", "--microbatch-size", "1"),
]


def test_systems_are_compared(capsys: Capture) -> None:
    alone = {
        system: rows_of(capsys, *COMPARE, "--system", system) for system in ("dgx-h100", "dgx-a100")
    }
    both = rows_of(capsys, *COMPARE, "--system", "dgx-h100", "--system", "dgx-a100")
    assert len(both) == 4
    assert [row["rank"] for row in both] == [1, 2, 3, 4]
    for row in both:
        (same,) = (r for r in alone[row["system"]] if r["schedule"] == row["schedule"])
        assert row["step_s"] == same["step_s"] and row["mfu"] == same["mfu"]
    assert {row["system"] for row in alone["dgx-h100"]} == {None}


def test_text_names_the_systems(capsys: Capture) -> None:
    line = [*COMPARE, "--system", "dgx-h100", "--system", "dgx-a100", "--disturbance", "jitter=5%"]
    printed = text_of(capsys, *line)
    assert "llama3-8b on dgx-h100 and dgx-a100" in printed
    for system in ("dgx-h100", "dgx-a100"):
        assert f"- on {system}: 8 microbatches: workers idle mostly by fill" in printed
        assert f"sensitivity on {system}" in printed
    headings = [line.split()[:4] for line in printed.splitlines()]
    assert ["N", "rank", "schedule", "system"] in headings


def test_what_is_assumed_for_some_systems_names_them(capsys: Capture) -> None:
    names = ("dgx-h100", "dgx-h200", "mi300x-oam")
    systems = [word for name in names for word in ("--system", name)]
    printed = text_of(capsys, *COMPARE, *systems, "--set", "network.bandwidth=0.5x").splitlines()
    assumed = {line.partition(": ")[0]: line for line in printed if line.startswith("assumed")}
    assert "GPUs/worker 1," in assumed["assumed on mi300x-oam"]
    changed = [line.partition(": ")[0] for line in printed if line.startswith("changed")]
    assert changed == ["changed on dgx-h100 and dgx-h200", "changed on mi300x-oam"]
    assert main([*COMPARE, "--system", "dgx-h100", "--system", "dgx-h200"]) == 0
    assert "assumed on" not in capsys.readouterr().out


def test_passes_of_all_systems(capsys: Capture) -> None:
    line = [*COMPARE, "--system", "dgx-h100", "--system", "dgx-a100"]
    rows = rows_of(capsys, *line)
    printed = run_passes(capsys, *line)
    for row in rows:
        assert f"{round(row['step_s'] * 1e12)}" in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--model", "llama3-8b", "--model", "llama3-70b"],
        ["plan", "--gpus", "8", "--system", "dgx-h100", "--system", "dgx-a100"],
        ["sweep", "--times", "F=1ms", "--times", "F=2ms,B=1ms", "--model=a", "--model=b"],
        ["optimize", "--system", "dgx-h100", "--system", "dgx-a100"],
    ],
)
def test_no_value_is_dropped_in_silence(arguments: list[str], capsys: Capture) -> None:
    flag = arguments[-1].partition("=")[0] if "=" in arguments[-1] else arguments[-2]
    said = failure_of(capsys, *arguments, status=2)
    takes = "one list, a,b" if arguments[0] == "sweep" else "one value"
    assert f"argument {flag}: takes {takes}, found " in said


def test_the_same_twice_is_no_contradiction(capsys: Capture) -> None:
    """Nor is a later value of a general option, which scripts add."""
    line = ["simulate", "--pp", "2", "--pp", "4", "--microbatches", "8"]
    rows = rows_of(capsys, *line, "--times", "F=1ms,B=2ms,I=1ms,W=1ms", "--set", "times-of=worker")
    assert {row["workers"] for row in rows} == {4}


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("Yes", True), ("ON", True), ("False", False), ("no", False), ("off", False)],
)
def test_booleans(text: str, value: bool) -> None:
    assert truth(text) is value
    with pytest.raises(ValueError, match="expected true or false"):
        truth(f"{text}e")


def test_booleans_of_models(tmp_path: Path, capsys: Capture) -> None:
    source = pytest.importorskip("pipesched.torch.training._source")
    file = tmp_path / "model.py"
    file.write_text(
        "def model(tie=False, layers=2): return []\n"
        "def loss(output, target): return output\n"
        "def batches(size, seed): return []\n"
    )
    for text, value in (("true", True), ("False", False), ("yes", True), ("off", False)):
        assert source.Source.load(file, {"tie": text}).for_model["tie"] is value
    with pytest.raises(Exception, match="option tie is 'maybe'; wanted true or false"):
        source.Source.load(file, {"tie": "maybe"})

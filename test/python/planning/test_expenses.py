"""Days, money and energy of a training, from its step, a price and the power of the system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import PipeSchedError
from pipesched.command import main
from pipesched.support.units import count_of
from test_command import Capture, rows_of, text_of
from test_plan import small

FEW: dict[str, Any] = {"schedules": ["1f1b"], "pp": [2], "tp": [2], "cp": [1], "top": 1}


def test_numbers_by_hand() -> None:
    power = {"watts": 1000, "busy_share": 0.8, "idle_share": 0.2}
    system = {**pipesched.systems()["dgx-h100"], "power": power}
    limits: dict[str, Any] = {**FEW, "gpus": 16, "global_batch": 32, "tokens": "2T", "price": 3}
    (row, *_) = pipesched.plan("llama3-8b", system, **limits).to_dicts()
    hours = 2e12 / row["tokens_per_s_per_gpu"] / 3600
    watts = 800 * (1 - row["idle_ratio"]) + 200 * row["idle_ratio"]
    assert row["days"] == pytest.approx(hours / 16 / 24)
    assert row["cost_dollars"] == pytest.approx(3 * hours)
    assert row["energy_kwh"] == pytest.approx(hours * watts / 1000)
    for name in ("cost_dollars", "energy_kwh"):
        assert row[f"trillion_{name}"] == pytest.approx(row[name] / 2)


def test_what_is_not_asked_or_known_is_left_out(capsys: Capture) -> None:
    row = small(**FEW).to_dicts()[0]
    assert (row["days"], row["cost_dollars"], row["energy_kwh"]) == (None, None, None)
    assert row["trillion_energy_kwh"] > 0
    line = ["plan", "--model", "llama3-8b", "--gpus", "16", "--global-batch", "32", "--pp", "2"]
    line += ["--tp", "2", "--cp", "1", "--schedules", "1f1b", "--system"]
    assert "energy" not in text_of(capsys, *line, "dgx-h100")
    printed = text_of(capsys, *line, "mi300x-oam", "--tokens", "2T")
    assert "are estimates" in printed and "the system states no power" in printed
    assert "days" in printed and "kWh" not in printed


def test_what_if_the_price_changes(tmp_path: Path, capsys: Capture) -> None:
    plan = str(tmp_path / "plan.json")
    sizes = ["--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16", "--global-batch", "32"]
    sizes += ["--pp", "2", "--tp", "2", "--cp", "1", "--schedules", "1f1b", "--top", "1"]
    given = ["--tokens", "1T", "--price", "2", "--format", "json", "-o", plan]
    assert main(["plan", *sizes, *given]) == 0
    planned, changed = rows_of(capsys, "whatif", plan, "--price", "3")
    assert changed["cost_dollars"] == pytest.approx(1.5 * planned["cost_dollars"])
    assert changed["energy_kwh"] == planned["energy_kwh"] > 0
    assert changed["why"] == "price 2 to 3"


@pytest.mark.parametrize(("text", "number"), [("2T", 2 * 10**12), ("1.5b", 1.5e9), ("300", 300)])
def test_numbers_of_tokens(text: str, number: float) -> None:
    assert count_of("tokens", text) == number


@pytest.mark.parametrize("given", ["2X", "", "0", "-1T", 0])
def test_wrong_numbers_of_tokens(given: Any) -> None:
    with pytest.raises(PipeSchedError, match="tokens"):
        small(**FEW, tokens=given)


def test_wrong_power_is_refused() -> None:
    system = pipesched.systems()["dgx-h100"]
    power = {"watts": 1275, "busy_share": 1.2, "idle_share": 0.3}
    with pytest.raises(PipeSchedError, match="busy_share: expected an efficiency of at most 1"):
        small_on({**system, "power": power})


def small_on(system: dict[str, Any]) -> None:
    pipesched.plan("llama3-8b", system, gpus=16, global_batch=32, **FEW)

"""Recent runs: the contents of their rows, their groups, and their predicted order."""

from typing import Any

import pandas as pd
import pipesched
import pytest
from conftest import ROOT
from pipesched.costs.catalogue import take_rates

from studies import groups, recent_runs, validation
from studies.study import flops_per_token

PAGE = (ROOT / "docs" / "Validation.md").read_text()
ROWS: list[dict[str, Any]] = recent_runs.published()["rows"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return groups.groups().frame.set_index("group")


def test_rows_have_sources_and_whole_batches() -> None:
    for row in ROWS:
        source = recent_runs.published()["sources"][row["source"]]
        assert {*source} - {"gradient_bytes", "separate_loss"} == {"where", "says", "open"}
        assert all(source.values())
        ranks = row.get("tensor", 1) * row.get("context", 1) * row.get("pipeline", 1)
        assert row["gpus"] % ranks == 0, row["case"]
        assert row["batch"] % (row["gpus"] // ranks * row["microbatch"]) == 0, row["case"]


def test_sizes_of_models_are_those_of_the_printed_flops() -> None:
    """The table of NeMo prints tokens/s and TFLOP/s: 736 at 22,521, 653 at 12,701, 678 at 322."""
    printed = {"GPT3 5B, 64 GPUs": 736 / 22521, "Nemotron 8B, 64 GPUs": 653 / 12701}
    printed |= {"Nemotron 340B, 128 GPUs": 678 / 322, "Llama 2 13B, 16 GPUs": 754 / 8646}
    for row in ROWS:
        if row["case"] in printed:
            costs = recent_runs.point(row).costs
            assert costs is not None
            tflops = flops_per_token(costs) / 1e12
            assert tflops == pytest.approx(printed[row["case"]], rel=0.01), row["case"]


def test_a_layer_is_what_its_experts_add() -> None:
    """Mixtral's experts compute 3 x 2 x 8192 x 4096 x 14336 FLOPs on each rank: at 720 TFLOP/s 4.0
    ms, and rows are on their way twice.
    """
    row = next(row for row in ROWS if row["case"] == "Mixtral, BF16, all-to-all")
    milliseconds = recent_runs.predicted(row)
    assert 4.0 < milliseconds < 5.2


def test_shipped_numbers_are_those_of_the_fits() -> None:
    shipped = take_rates(pipesched.systems()[recent_runs.LOADED], "load")
    assert shipped["sustained"] == recent_runs.fitted_sustained()
    assert f"| {recent_runs.async_exposed()} % |" in PAGE
    # Fitted rows are not shown among the predicted rows.
    fitted = [row for row in ROWS if recent_runs.group(row) == "rows of fits"]
    assert {row["case"] for row in fitted} == {
        *recent_runs.FITTED,
        recent_runs.FITTED_BLACKWELL[0],
        recent_runs.FITTED_AT_500W[0],
    }
    assert len(fitted) == len(recent_runs.FITTED) + 2


def test_a_lower_power_limit_is_fitted_to_one_row() -> None:
    """It is 0.89 of the clock at 700 W, if power grows with the third power of it."""
    share = recent_runs.SUSTAINED_AT_500W
    assert share == recent_runs.fitted_at_500w() and f"| {share:.2f} | `sustained` of H100" in PAGE
    by_power = recent_runs.fitted_sustained() * (500 / 700) ** (1 / 3)
    assert share == pytest.approx(by_power, rel=0.03)
    row = next(row for row in ROWS if row["case"] == "8B, BF16" and "tensor" not in row)
    assert row["system"] == "h100-500w" and row["quantity"] == "throughput"
    assert recent_runs.predicted(row) == pytest.approx(row["measured"], rel=0.05)
    # Without sustained shares it has the clocks of the data sheet, as others have.
    assert recent_runs.predicted(row, "sustained") > 1.3 * recent_runs.predicted(row)


def test_what_is_ranked_is_in_order(frame: pd.DataFrame) -> None:
    """95 % of pairs are right whose predictions claim to know the order."""
    ranked = frame.ranked["all but memory"]
    assert (frame.ranked <= frame.pairs).all()
    assert ranked >= 10 and frame.ranked_in_order["all but memory"] >= 0.95 * ranked
    assert frame.typical_percent["all but memory"] < 10
    of_steps = frame[~frame.index.str.startswith("memory")]
    assert (of_steps.typical_percent < 15).all()


def test_blackwell_is_fitted_to_one_row() -> None:
    """The share of a dense step in FP8 on B200 holds for GB200 and for experts in BF16."""
    for name in (recent_runs.BLACKWELL_LOADED, "gb200-nvl72"):
        shipped = take_rates(pipesched.systems()[name], "load")
        assert shipped["sustained"] == recent_runs.fitted_blackwell()
    for case, least, most in (
        ("DeepSeek-V3 BF16, 25.11", 0.9, 1.1),
        ("Qwen3 235B BF16, 25.11", 0.9, 1.1),
        ("Llama 3 70B FP8, 25.11", 0.9, 1.1),
    ):
        row = next(r for r in ROWS if r["case"] == case and r["system"] == "gb200-nvl72")
        assert least < recent_runs.predicted(row) / row["measured"] < most, case


def test_exchanges_hide_behind_other_microbatches() -> None:
    """Two runs of one layout, with and without the overlap, are predicted in order."""
    plain = next(row for row in ROWS if row["case"] == "Qwen3 235B, EP 32, PP 8")
    hidden = next(r for r in ROWS if r["case"] == "Qwen3 235B, EP 32, PP 8, exchange overlapped")
    assert recent_runs.predicted(hidden) < 0.95 * recent_runs.predicted(plain)
    assert recent_runs.predicted(hidden, "rows hidden") == recent_runs.predicted(plain)


def test_products_in_blocks_are_slower() -> None:
    """Layers are predicted with the scales of their blocks half as far off as without them."""
    rows = [row for row in ROWS if row.get("fp8_blocks") and row["quantity"].startswith("layer")]
    errors = []
    for row in rows:
        found, without = (recent_runs.predicted(row, off) for off in (None, "scales of blocks"))
        assert found > 1.08 * without
        errors.append([abs(each / row["measured"] - 1) for each in (found, without)])
    assert len(errors) == 6
    assert sum(first for first, _ in errors) < 0.5 * sum(second for _, second in errors)


def test_terms_can_be_switched_off() -> None:
    row = next(row for row in ROWS if row["case"] == "Llama 2 13B, 16 GPUs")
    assert recent_runs.predicted(row, "sustained") > 1.1 * recent_runs.predicted(row)
    small = next(row for row in ROWS if row["case"] == "Qwen3 30B FP8, 26.02")
    assert recent_runs.predicted(small, "host") > 2 * recent_runs.predicted(small)
    rack = next(row for row in ROWS if row["case"] == "DeepSeek-V3 BF16, 25.11")
    assert recent_runs.predicted(rack) > 2 * recent_runs.predicted(rack, "domains")


def test_layouts_of_one_cluster() -> None:
    """None of these pairs was in order before."""
    counted = groups.pairs(row for row in validation.all_rows() if row.cluster == "Qwen3 235B")
    assert counted.number == 9 and counted.right >= 5


def _row(measured: float, predicted: float, cluster: str = "c") -> validation.Row:
    point: Any = None
    return validation.Row(
        "s", "case", "throughput", "tokens/s", measured, predicted, "none", point, "g", cluster
    )


def test_pairs_by_hand() -> None:
    rows = [_row(100, 90), _row(110, 95), _row(120, 80)]
    assert groups.pairs(rows) == (3, 1, 0, 0)
    # Half a percent makes no order, and neither are rows of two clusters.
    assert groups.pairs([_row(100, 1), _row(100.5, 2)])[:2] == (0, 0)
    assert groups.pairs([_row(100, 1), _row(110, 2, "d")])[:2] == (0, 0)
    # Equal predictions are in no order.
    assert groups.pairs([_row(100, 1), _row(110, 1)])[:2] == (1, 0)


def test_too_fast_is_above_zero() -> None:
    row = _row(100, 110)
    assert groups.faster_percent(row) == pytest.approx(10)
    step = row._replace(quantity="step")
    assert groups.faster_percent(step) == pytest.approx(100 * (100 / 110 - 1))


def test_every_row_is_in_one_group(frame: pd.DataFrame) -> None:
    assert frame.rows.drop("all but memory").sum() == len(validation.all_rows())
    memory = frame.index.str.startswith("memory")
    assert frame.rows[~memory].drop("all but memory").sum() == frame.rows["all but memory"]
    assert (frame.in_order <= frame.pairs).all()

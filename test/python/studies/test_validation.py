"""Measured and predicted times: which data the fit uses, and the page that prints them."""

import statistics

import pandas as pd
import pipesched
import pytest
from conftest import ROOT

from studies import deepseek, large_runs, recent_runs, unknowns, validation
from studies.study import data, flops_per_token

PAGE = (ROOT / "docs" / "Validation.md").read_text()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return validation.validation().frame


def test_every_measurement_is_there(frame: pd.DataFrame) -> None:
    published = data("validation.json")
    layers = published["sequence_parallel_2205_05198"]["layer_22b_ms"]
    steps = published["sequence_parallel_2205_05198"]["rows"]
    titan = published["h100"]["rows"]
    bubbles = data("zero_bubble_iclr24.json")["rows"]
    large = data("large_runs.json")
    measured = [
        *(layer[phase] for layer in layers.values() for phase in "FB"),
        *(row[key] for row in steps for key in ("full_recompute_s", "selective_sp_s")),
        *(row["derived_s"] for row in published["megatron_sc21_table1"]["rows"] for _ in range(2)),
        *(
            row[key][schedule]
            for row in titan
            for schedule in ("1F1B", "interleaved")
            for key in ("tokens_per_s_per_gpu", "memory_gib")
        ),
        *(value for row in bubbles for value in row["measured_samples_per_gpu_s"].values()),
        *(row["tflops_per_gpu"] for row in large["llama3_2407_21783_table4"]["rows"]),
        *(
            row[key]
            for row in large["torchtitan_2024_12_table6"]["rows"]
            for key in ("tokens_per_s_per_gpu", "memory_gib")
        ),
        deepseek.MEASURED,
        *(row["measured"] for row in data("recent_runs.json")["rows"]),
    ]
    assert frame.measured.tolist() == measured
    assert not frame.isna().any().any()


def test_errors_are_of_what_is_measured(frame: pd.DataFrame) -> None:
    ratio = frame.predicted / frame.measured
    assert (frame.error_percent - 100 * (ratio - 1)).abs().max() < 1e-9


def test_half_is_within_ten_percent(frame: pd.DataFrame) -> None:
    """The rows whose settings the publications state; recent runs have a separate test."""
    frame = frame[~frame.source.isin(recent_runs.published()["sources"])]
    errors = frame.error_percent.abs()
    assert errors.median() < 10
    # The result must also hold without the many rows of zero bubble.
    assert errors[frame.curves != "profiled"].median() < 10
    medians = errors.groupby([frame.source, frame.quantity]).median()
    assert medians["2205.05198 table 5", "step"] < 6
    assert medians["2104.04473 table 1", "step"] < 10
    assert medians["2401.10241 table 4", "throughput"] < 10


@pytest.mark.parametrize("setting", validation.SETTINGS)
def test_layers_are_predicted_by_others(setting: str, frame: pd.DataFrame) -> None:
    others = [other for other in validation.SETTINGS if other != setting]
    predicted = validation.layer_times(setting, validation.fit(others))
    rows = frame[frame.case == f"22B, {setting.replace('_', ' ')}"]
    assert tuple(rows.predicted) == predicted
    # The fit is inside its grid, so the grid does not limit it.
    scales = validation.fit(others)
    for values, found in zip(zip(*validation.GRID, strict=True), scales, strict=True):
        assert min(values) < found < max(values)


def test_h100_rates_come_of_other_rows() -> None:
    rates = validation.titan_rates()
    assert 0.5 < rates.matrix < 1 < rates.link < 3
    assert 0.4 < rates.pieces < 1.2
    plain, asynchronous = (row["tokens_per_s_per_gpu"] for row in validation._titan_rows(4))
    alone = validation.TitanRates(rates.matrix)
    assert validation._titan_70b(alone) == pytest.approx(plain, rel=0.01)
    assert validation._titan_70b(rates) == pytest.approx(asynchronous, rel=0.01)


def test_8b_rows_that_are_not_fitted() -> None:
    """One factor is fitted to three sequences that ranks divide; the whole one is predicted."""
    rates = validation.titan_rates()
    errors = {
        row["cp"]: validation.titan_8b(row, rates) / row["tokens_per_s_per_gpu"] - 1
        for row in validation._titan_rows(2)
    }
    assert abs(errors.pop(1)) < 0.3
    assert min(errors.values()) < 0 < max(errors.values())


def test_llama3_counts_as_the_formula_that_it_cites() -> None:
    """6 N + 12 L H Q T of arXiv 2204.02311, appendix B; N without the embedding."""
    row = large_runs.published()["llama3_2407_21783_table4"]["rows"][2]
    costs = large_runs.llama3_step(row).costs
    assert costs is not None
    layer = 16384 * (2 * 16384 + 2 * 8 * 128) + 3 * 16384 * 53248
    matrices = 126 * layer + 16384 * 128256
    scores = 12 * 126 * 128 * 128 * 131072
    assert flops_per_token(costs) == 6 * matrices + scores
    assert flops_per_token(costs, counts_masked=False) == 6 * matrices + scores / 2


def test_curve_of_fp8_is_that_of_published_kernels() -> None:
    matrix = pipesched.systems()["h800-sxm"]["matrix"]
    curve = deepseek.kernel_curve(matrix["fp8_tflops"], are_older=False)
    assert matrix["fp8_efficiency_by_gflop"] == curve
    older = deepseek.kernel_curve(matrix["fp8_tflops"], are_older=True)
    assert all(was[1] <= now[1] for was, now in zip(older, curve, strict=True))
    # The largest shapes: 4 and 8 groups of 32,768 rows in all, and one of 4,096.
    mean = statistics.harmonic_mean([1297, 1099, 1288, 1093, 1358])
    assert curve[-1][1] == round(mean / 1978.9, 3)


def test_unknowns_change_one_setting(frame: pd.DataFrame) -> None:
    changes = unknowns.unknowns().frame
    plain = changes[changes.setting == "as predicted"]
    predicted = frame[frame.source.isin(changes.source) & (frame.quantity == "throughput")]
    assert sorted(plain.error_percent) == pytest.approx(sorted(predicted.error_percent))
    for _, group in changes.groupby(["source", "case"]):
        errors = group.set_index(["setting", "value"]).error_percent
        assert errors["attention", "flash-3"] > errors["as predicted", ""]
        if "recompute" in set(group.setting):
            assert errors["recompute", "selective"] != errors["as predicted", ""]


def test_page_says_the_factors_and_errors(frame: pd.DataFrame) -> None:
    rates, text = validation.titan_rates(), " ".join(PAGE.split())
    for factor in rates:
        assert f"| {factor:.2f} |" in text
    errors = [
        100 * (validation.titan_8b(row, each) / row["tokens_per_s_per_gpu"] - 1)
        for each in (rates, rates._replace(pieces=1.0))
        for row in validation._titan_rows(2)
    ]
    whole, two, four, eight, _, *without = (f"{error:.0f}" for error in errors)
    assert f"errors of {two} % (2 ranks), {four} % (4) and {eight} % (8)" in text
    assert "without it {}, {} and {} %".format(*without) in text
    assert f"is predicted {whole} % too fast" in text
    frame = frame[~frame.source.isin(recent_runs.published()["sources"])]
    found = frame.error_percent.abs()
    timed = found[frame.quantity != "memory"]
    assert f"to DeepSeek-V3 the median error is {found.median():.1f} %" in text
    assert f"median is {timed.median():.1f} %, and the largest {timed.max():.1f} %" in text
    assert found.median() < 7 and timed.max() < 15


def test_page_says_the_errors_of_peaks(frame: pd.DataFrame) -> None:
    """Without a pipeline torchtitan's allocator reserves a little more than we count."""
    text, peaks = " ".join(PAGE.split()), frame[frame.quantity == "memory"]
    of_titan = peaks[peaks.source.str.startswith("torchtitan")]
    whole = of_titan[of_titan.case.str.startswith("8B")].error_percent
    assert len(whole) == 10 and whole.abs().max() < 5
    assert f"| {whole.min():.1f} to {whole.max():.1f} %, median {whole.median():.1f} % |" in text
    runs = of_titan[of_titan.case.str.startswith("405B")].set_index("case").error_percent
    interleaved = runs.pop("405B FP8, interleaved")
    assert len(runs) == 5 and runs.abs().median() < 10
    assert f"| {runs.max():.1f} to {runs.min():.1f} %, median {runs.median():.1f} % |" in text
    assert f"| the same, interleaved | the same | {interleaved:.1f} % |" in text
    megatron = peaks[peaks.source == "megatron-release"].error_percent
    assert megatron.abs().max() < 8 and f"| {megatron.iloc[0]:.1f} % |" in text

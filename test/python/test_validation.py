"""Measured and predicted times: which data the fit uses, and the page that prints them."""

import json
import statistics
from pathlib import Path

import pandas as pd
import pipesched
import pytest
from conftest import ROOT
from pipesched.command import main
from pipesched.studies import deepseek, large_runs, validation

DATA = ROOT / "test" / "data"
PAGE = (ROOT / "docs" / "Validation.md").read_text()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return validation.validation().frame


def test_every_measurement_is_there(frame: pd.DataFrame) -> None:
    data = json.loads((DATA / "validation.json").read_text())
    layers = data["sequence_parallel_2205_05198"]["layer_22b_ms"]
    steps = data["sequence_parallel_2205_05198"]["rows"]
    titan = data["h100"]["rows"]
    bubbles = json.loads((DATA / "zero_bubble_iclr24.json").read_text())["rows"]
    large = json.loads((DATA / "large_runs.json").read_text())
    measured = [
        *(layer[phase] for layer in layers.values() for phase in "FB"),
        *(row[key] for row in steps for key in ("full_recompute_s", "selective_sp_s")),
        *(row["derived_s"] for row in data["megatron_sc21_table1"]["rows"] for _ in range(2)),
        *(
            row[key][schedule]
            for row in titan
            for schedule in ("1F1B", "interleaved")
            for key in ("tokens_per_s_per_gpu", "memory_gib")
        ),
        *(value for row in bubbles for value in row["measured_samples_per_gpu_s"].values()),
        *(
            row["tflops_per_gpu"]
            for row in large["llama3_2407_21783_table4"]["rows"]
            for _ in large_runs.LLAMA_CHUNKS
        ),
        *(
            row[key]
            for row in large["torchtitan_2024_12_table6"]["rows"]
            for key in ("tokens_per_s_per_gpu", "memory_gib")
        ),
        deepseek.MEASURED,
    ]
    assert frame.measured.tolist() == measured
    assert not frame.isna().any().any()


def test_errors_are_of_what_is_measured(frame: pd.DataFrame) -> None:
    ratio = frame.predicted / frame.measured
    assert (frame.error_percent - 100 * (ratio - 1)).abs().max() < 1e-9


def test_half_is_within_ten_percent(frame: pd.DataFrame) -> None:
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
    # The fit lies inside its grid, so the grid does not limit it.
    scales = validation.fit(others)
    for values, found in zip(zip(*validation.GRID, strict=True), scales, strict=True):
        assert min(values) < found < max(values)


def test_h100_rates_come_of_another_row() -> None:
    scale = validation.titan_scale()
    assert 0.5 < scale < 1
    tokens = validation._titan_70b(scale)
    assert abs(tokens / validation.TITAN_70B_TOKENS - 1) < 0.01


@pytest.mark.parametrize("name", ["validation.json", "large_runs.json"])
def test_data_are_packaged(name: str) -> None:
    packaged = Path(pipesched.__file__).parent / "studies" / "data" / name
    assert packaged.read_bytes() == (DATA / name).read_bytes()


def test_curve_of_fp8_is_that_of_published_kernels() -> None:
    matrix = pipesched.systems()["h800-sxm"]["matrix"]
    curve = deepseek.kernel_curve(matrix["fp8_tflops"], are_older=False)
    assert matrix["fp8_efficiency_by_gflop"] == curve
    older = deepseek.kernel_curve(matrix["fp8_tflops"], are_older=True)
    assert all(was[1] <= now[1] for was, now in zip(older, curve, strict=True))
    # The largest shapes: 4 and 8 groups of 32,768 rows in all, and one of 4,096.
    mean = statistics.harmonic_mean([1297, 1099, 1288, 1093, 1358])
    assert curve[-1][1] == round(mean / 1978.9, 3)


def test_page_is_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "validation", "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.split("\n\n")[0].split("\n", 1)[1]
    assert f"```text\n{printed}\n```" in PAGE

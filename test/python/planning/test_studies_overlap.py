"""Measured steps with and without overlap of the experts' exchanges."""

import pandas as pd
import pytest
from pipesched.studies import study
from pipesched.studies.overlap import overlapped_ps, published, step_ps


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return study("overlap").frame.set_index(["case", "quantity"])


def test_ratios_are_within_a_tenth(rows: pd.DataFrame) -> None:
    ratios = rows[rows.index.get_level_values("quantity").str.startswith("ratio")]
    assert len(ratios) == 3
    assert (ratios.error_percent.abs() <= 10).all() and (ratios.verdict == "met").all()


def test_published_ratios(rows: pd.DataFrame) -> None:
    published_ratio = rows.published["Qwen3 30B, all-to-all", "ratio, overlapped"]
    assert published_ratio == pytest.approx(31.31 / 41.25)


def test_verdicts_are_honest(rows: pd.DataFrame) -> None:
    assert ((rows.error_percent.abs() <= 10) == (rows.verdict == "met")).all()
    assert rows.verdict["Qwen3 30B, all-to-all", "step [s]"] == "not met"


def test_a_step_saves_what_its_pairs_save() -> None:
    """64 microbatches make 63 pairs; contention makes the step longer."""
    run = published()["runs"][0]
    free, pair = overlapped_ps(run, delays=False, factor=1.0)
    assert step_ps(run) - free == 63 * (pair.in_turn_ps - pair.pair_ps)
    assert overlapped_ps(run, delays=False, factor=1.3)[0] > free

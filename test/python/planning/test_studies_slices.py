"""Published numbers of schedules of slices."""

import pandas as pd
import pytest
from pipesched.studies import study


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return study("slices").frame


def of(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    found = rows[rows.quantity == quantity]
    assert len(found)
    return found


def test_slimpipe_has_its_published_bubble_and_activations(rows: pd.DataFrame) -> None:
    assert round(of(rows, "bubble [%]").ours.iloc[0], 2) == 1.08
    assert of(rows, "activations of slices [GiB]").error_percent.abs().max() < 0.2
    held = of(rows, "activations of slices [GiB]").ours.iloc[0]
    whole = of(rows, "with gradients of keys and values [GiB]").ours.iloc[0]
    # The gradients of 15 slices: keys and values of a layer in 2 bytes, of 5 chunks at most.
    one = 15 / 16 * 2 * 2 * 5120 * 262144 / 8 / 2**30
    assert one < whole - held <= 5 * one


def test_seq1f1b_gains_what_was_measured(rows: pd.DataFrame) -> None:
    steps = of(rows, "step to 1F1B's")
    assert steps.error_percent.abs().min() < 1
    assert steps.ours.is_monotonic_increasing  # a longer step has less of a bubble to save


def test_seq1f1b_holds_what_was_measured(rows: pd.DataFrame) -> None:
    """The number of layers that recompute is the one with which 1F1B holds what was measured."""
    whole, ratio = of(rows, "memory of 1F1B [GB]"), of(rows, "memory to 1F1B's")
    nearest = whole.error_percent.abs().to_numpy().argmin()
    assert abs(whole.error_percent.iloc[nearest]) < 6
    assert abs(ratio.error_percent.iloc[nearest]) < 5
    # More of what slices save is left where less is recomputed.
    assert ratio.ours.is_monotonic_increasing and whole.ours.is_monotonic_decreasing

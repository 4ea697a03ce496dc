"""Measured gains and memory of vocabulary parallelism."""

import pandas as pd
import pytest
from pipesched.studies import study


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return study("vocabulary").frame


def test_gains_are_near_the_measured_ones(rows: pd.DataFrame) -> None:
    gains = rows[rows.quantity == "MFU to baseline's"]
    assert len(gains) == 24
    assert gains.error_percent.abs().max() < 8
    assert (gains.error_percent.abs() <= 5).sum() >= 21


def test_methods_are_in_the_measured_order(rows: pd.DataFrame) -> None:
    """Of the methods of a size, each pair that was measured more than 5 % apart."""
    gains = rows[rows.quantity == "MFU to baseline's"].assign(
        size=lambda frame: frame.case.str.rpartition(",")[0]
    )
    pairs = 0
    for _, group in gains.groupby("size"):
        found = list(zip(group.case, group.published, group.ours, strict=True))
        for one, published, ours in found:
            for other, less, own in found:
                if published > 1.05 * less:
                    assert ours > own, (one, other)
                    pairs += 1
    assert pairs > 10


def test_memory_is_near_the_measured_one(rows: pd.DataFrame) -> None:
    """Also where vocabularies are large, since shards divide the embedding too."""
    errors = rows[rows.quantity == "memory [GiB]"].error_percent
    assert len(errors) == 32
    assert errors.abs().max() < 11
    assert (errors.abs() <= 10).sum() >= 30


def test_shards_scale_on_a_node_as_measured(rows: pd.DataFrame) -> None:
    """On more workers each has the time of its launches, which the system does not have."""
    scaling = rows[rows.quantity == "S and T, linear scaling [%]"]
    node = scaling[scaling.case.str.contains(", 8 workers")]
    assert (len(node), len(scaling)) == (4, 12)
    assert node.error_percent.abs().max() < 3
    assert scaling.error_percent.between(-1, 15).all()

"""Published schedules of slices, of vocabulary parallelism, of overlapped exchanges, of uneven
experts, and zero-bubble ones: the errors of our numbers.
"""

import pandas as pd
import pytest
from pipesched import Configuration, Costs, simulate_batch
from pipesched.costs.costs import NATURAL_BALANCE

from studies import overlap, routing, slices, vocabulary, zero_bubble
from studies.study import data


def chosen(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    found = rows[rows.quantity == quantity]
    assert len(found)
    return found


# Slices


@pytest.fixture(scope="module")
def sliced() -> pd.DataFrame:
    return slices.slices().frame


def test_slimpipe_has_its_published_bubble_and_activations(sliced: pd.DataFrame) -> None:
    assert round(chosen(sliced, "bubble [%]").ours.iloc[0], 2) == 1.08
    assert chosen(sliced, "activations of slices [GiB]").error_percent.abs().max() < 0.2
    held = chosen(sliced, "activations of slices [GiB]").ours.iloc[0]
    whole = chosen(sliced, "with gradients of keys and values [GiB]").ours.iloc[0]
    # The gradients of 15 slices: keys and values of a layer in 2 bytes, of 5 chunks at most.
    one = 15 / 16 * 2 * 2 * 5120 * 262144 / 8 / 2**30
    assert one < whole - held <= 5 * one


def test_seq1f1b_gains_what_was_measured(sliced: pd.DataFrame) -> None:
    steps = chosen(sliced, "step to 1F1B's")
    assert steps.error_percent.abs().min() < 1
    assert steps.ours.is_monotonic_increasing  # a longer step has less of a bubble to save


def test_seq1f1b_holds_what_was_measured(sliced: pd.DataFrame) -> None:
    """The number of recomputed layers is the one with which 1F1B holds the measured memory."""
    whole, ratio = chosen(sliced, "memory of 1F1B [GB]"), chosen(sliced, "memory to 1F1B's")
    nearest = whole.error_percent.abs().to_numpy().argmin()
    assert abs(whole.error_percent.iloc[nearest]) < 6
    assert abs(ratio.error_percent.iloc[nearest]) < 5
    # The less is recomputed, the more memory slices save.
    assert ratio.ours.is_monotonic_increasing and whole.ours.is_monotonic_decreasing


# Vocabulary parallelism


@pytest.fixture(scope="module")
def sharded() -> pd.DataFrame:
    return vocabulary.vocabulary().frame


def test_gains_are_near_the_measured_ones_and_in_their_order(sharded: pd.DataFrame) -> None:
    """At each size, all pairs of methods measured more than 5 % from each other are in order."""
    gains = chosen(sharded, "MFU to baseline's")
    gains = gains.assign(size=gains.case.str.rpartition(",")[0])
    assert len(gains) == 24
    assert gains.error_percent.abs().max() < 8
    assert (gains.error_percent.abs() <= 5).sum() >= 21
    pairs = gains.merge(gains, on="size", suffixes=("", "_less"))
    pairs = pairs[pairs.published > 1.05 * pairs.published_less]
    assert len(pairs) > 10 and (pairs.ours > pairs.ours_less).all()


def test_memory_is_near_the_measured_one(sharded: pd.DataFrame) -> None:
    """Also where vocabularies are large, since shards divide the embedding too."""
    errors = chosen(sharded, "memory [GiB]").error_percent
    assert len(errors) == 32
    assert errors.abs().max() < 11
    assert (errors.abs() <= 10).sum() >= 30


def test_shards_scale_on_a_node_as_measured(sharded: pd.DataFrame) -> None:
    """On more workers each has the time of its launches, which the system does not have."""
    scaling = chosen(sharded, "S and T, linear scaling [%]")
    node = scaling[scaling.case.str.contains(", 8 workers")]
    assert (len(node), len(scaling)) == (4, 12)
    assert node.error_percent.abs().max() < 3
    assert scaling.error_percent.between(-1, 15).all()


# Experts


def test_ratios_of_overlap_are_within_a_tenth() -> None:
    rows = overlap.overlap().frame.set_index(["case", "quantity"])
    assert ((rows.error_percent.abs() <= 10) == (rows.verdict == "met")).all()
    ratios = rows[rows.index.get_level_values("quantity").str.startswith("ratio")]
    assert len(ratios) == 3 and (ratios.verdict == "met").all()
    assert rows.verdict["Qwen3 30B, all-to-all", "step [s]"] == "met"
    assert rows.verdict["Qwen3 30B, HybridEP", "step [s]"] == "not met"
    published_ratio = rows.published["Qwen3 30B, all-to-all", "ratio, overlapped"]
    assert published_ratio == pytest.approx(31.31 / 41.25)


def test_a_step_saves_what_its_pairs_save() -> None:
    """64 microbatches make 63 pairs; contention makes the step longer."""
    run = overlap.published()["runs"][0]
    free, pair = overlap.overlapped_ps(run, delays=False, factor=1.0)
    assert overlap.step_ps(run) - free == 63 * (pair.in_turn_ps - pair.pair_ps)
    assert overlap.overlapped_ps(run, delays=False, factor=1.3)[0] > free


def test_one_balance_is_fitted_to_a_row_and_predicts_the_others() -> None:
    assert routing.fitted_balance() == NATURAL_BALANCE
    errors = routing.routing().frame.error_percent.abs()
    assert errors.iloc[0] < 0.5
    assert errors.iloc[1:].max() < 3


# Zero bubble


def test_zero_bubble_rates_are_the_published_ones() -> None:
    frame = zero_bubble.zero_bubble().frame
    assert len(frame) == 36
    assert [row.rates for row in zero_bubble.published()] == [
        row["published_bubble_rate"] for row in data("zero_bubble_iclr24.json")["rows"]
    ]
    for row in frame.itertuples():
        printed = row.published_bubble_percent
        if row.schedule in ("1F1B", "ZB-H1", "ZB-H2", "ZB-1p"):
            assert row.same_digits
            assert row.bubble_percent == pytest.approx(printed, abs=0.0051)
        elif row.schedule == "1F1B-I":
            assert row.less_d_messages_percent == pytest.approx(printed, abs=0.0051)
        else:
            assert not row.same_digits


def test_rates_of_zb_v_and_the_least_rates_are_those_of_the_page() -> None:
    rows = zero_bubble.published()
    points = [
        Configuration(
            "zb-v",
            row.workers,
            row.microbatches,
            costs=Costs(times={k: ps // (1 if k == "comm" else 2) for k, ps in row.times.items()}),
            transport="delay",
        )
        for row in rows
    ]
    rates = 100 * simulate_batch(points).span_bubble_ratio
    assert [round(float(rate), 2) for rate in rates] == [7.28, 5.63, 3.07, 4.46, 3.58, 1.83]

    def least(row: zero_bubble.Measured, held: int) -> float:
        """The least rate of a worker that holds this many whole activations until their W."""
        times = row.times
        idle = (row.workers - 1) * (times["F"] + times["I"] + 2 * times["comm"])
        idle -= (held - 1) * times["W"]
        return idle / (row.microbatches * sum(times[phase] for phase in "FIW") + idle)

    for row in rows:
        assert least(row, 2 * row.workers - 1) == pytest.approx(row.rates["ZB-H2"], abs=5.1e-5)
        assert least(row, 2 * row.workers) > row.rates["ZB-2p"]
    bounds = [round(100 * least(row, 2 * row.workers), 2) for row in rows]
    assert bounds == [10.15, 7.84, 4.15, 6.07, 4.9, 2.58]

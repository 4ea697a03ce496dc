"""The contents of bands, the row that each band leaves out, and the share of bands that hold."""

import math

import pipesched
import pytest
from pipesched.bands import LEVEL, Residual, residuals

from studies import recent_runs, unseen, validation
from studies.apart import WITH_DEFAULTS
from studies.residuals import coverage, held, left_out

# Data of bands


def validated() -> list[Residual]:
    """The rows of `validation`."""
    return [row for row in residuals() if not row.source.endswith(WITH_DEFAULTS)]


def test_rows_with_defaults_are_those_of_unseen() -> None:
    timed = unseen.answers()
    timed = timed[(timed.measured_s > 0) & (timed.computed_s > 0)]
    assert len(residuals()) - len(validated()) == len(timed) > 200
    ratios = sorted(row.ratio for row in residuals() if row.source.endswith(WITH_DEFAULTS))
    assert ratios == pytest.approx(sorted(timed.measured_s / timed.computed_s), abs=1e-4)


def test_no_row_is_among_those_that_it_was_fitted_to() -> None:
    cases = {(row.case, row.traits.rates) for row in residuals()}
    alone, *hidden = (f"{case}, H100" for case in recent_runs.FITTED)
    limited = f"{recent_runs.FITTED_AT_500W[0]}, H100"
    for case in (alone, limited, f"{recent_runs.FITTED_BLACKWELL[0]}, B200"):
        assert (case, "under load") not in cases and (case, "data sheet") in cases
    assert {*hidden}.isdisjoint(case for case, _ in cases)


def test_every_other_step_is_there() -> None:
    steps = {
        (row.source, row.case)
        for row in validation.all_rows()
        if row.quantity in ("step", "throughput")
    }
    found = {(row.source, row.case) for row in validated()}
    hidden = {f"{case}, H100" for case in recent_runs.FITTED[1:]}
    assert found == {row for row in steps if row[1] not in hidden}


def test_ratios_are_those_of_validation() -> None:
    """Above 1 a step took longer than predicted."""
    steps = [row for row in validation.all_rows() if row.quantity in ("step", "throughput")]
    rows = {(row.source, row.case): row for row in steps}
    adjusted = {(r.source, r.case) for r in validated() if r.traits.rates == "under load"}
    for residual in validated():
        key = residual.source, residual.case
        row = rows[key]
        if row.curves == "this row" or (residual.traits.rates == "data sheet" and key in adjusted):
            continue
        slower = row.predicted / row.measured
        slower = 1 / slower if row.quantity == "step" else slower
        assert residual.ratio == pytest.approx(slower, abs=1e-4), residual


def test_rates_as_sold_are_predicted_again() -> None:
    case = "Llama 3 70B FP8, 25.11"
    row = next(row for row in recent_runs.published()["rows"] if row["case"] == case)
    sold = pipesched.systems()["h100-sxm"]
    fields = {name: each for name, each in sold.items() if name not in ("aliases", "sources")}
    wanted = recent_runs.predicted(row, system=fields) / row["measured"]
    (found,) = (
        residual.ratio
        for residual in residuals()
        if residual.case == f"{case}, H100" and residual.traits.rates == "data sheet"
    )
    assert found == pytest.approx(wanted, abs=1e-4)


# How often they hold


def test_bands_hold_what_they_say() -> None:
    frame = coverage().frame.set_index("class")
    # Classes of one run have no bands.
    assert (frame.runs[frame.held_percent.isna()] <= 2).all()
    frame = frame[frame.held_percent.notna()]
    # At most a fifth of the rows of a class is outside of its band, rounded up: one row of four.
    outside = frame.rows * (1 - frame.held_percent / 100)
    assert (outside.round() <= ((1 - LEVEL) * frame.rows).apply(math.ceil)).all()
    assert frame.held_percent["all"] >= 100 * LEVEL
    # Also without all rows of the same publication, model and hardware.
    assert frame.held_by_other_runs_percent["all"] >= 100 * LEVEL
    assert frame.rows["all"] == len(residuals())


def test_a_row_never_predicts_itself() -> None:
    for row in residuals()[::7]:
        same = (row.source, row.case)
        others = left_out(row, whole_runs=False)
        assert len(others) in (len(residuals()) - 1, len(residuals()) - 2)
        assert not any((other.source, other.case) == same for other in others)
        assert not any(other.run == row.run for other in left_out(row, whole_runs=True))
        # However long it took, its band is the same.
        longer = row._replace(ratio=50.0)
        assert left_out(longer, whole_runs=False) == others
        found = held(longer, whole_runs=False)
        if found is None:
            assert len({other.run for other in others if other.traits[:4] == row.traits[:4]}) < 2
        else:
            assert found[0] is False


def test_the_pairs_of_the_page_are_among_them() -> None:
    """`groups` counts the order in the clusters of the residuals, without layers."""
    rows = [row for row in validation.all_rows() if not row.quantity.startswith("layer")]
    clusters = {validation.cluster_of(row) for row in rows} - {""}
    assert {row.cluster for row in validated()} - {""} == clusters

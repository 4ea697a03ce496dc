"""Published runs as users predict them: by the command, with its defaults."""

import pandas as pd
import pytest

from studies import unseen
from studies.groups import pairs
from studies.validation import all_rows

LEAST = {
    **{"A100 layouts": 9, "A100 ZeRO-1 scaling": 16, "A100 FSDP": 18, "MI300X schedules": 5},
    **{"MI355X schedules": 5, "TPU v6e": 9, "Blackwell dense": 5, "H100 dense": 7},
    **{"H100 experts": 11, "Blackwell experts": 12, "H100 FSDP": 7, "H100 FSDP2+EP": 14},
    "tiny, host-bound": 20,
}
"""By group: the typical error in percent that no change may exceed."""


@pytest.fixture(scope="module")
def digest() -> pd.DataFrame:
    found = unseen.unseen().digest
    assert found is not None
    return found.set_index("group")


def test_every_row_is_predicted_or_refused(digest: pd.DataFrame) -> None:
    steps = [row for row in unseen.published()["rows"] if "step_s" in row]
    assert len(steps) - digest.rows.sum() <= 1


def test_typical_errors_do_not_grow(digest: pd.DataFrame) -> None:
    for group, limit in LEAST.items():
        assert digest.typical_percent[group] < limit, group


def test_ranked_pairs_are_in_order() -> None:
    """Only by the rows of other publications, with the rows of `validation`."""
    found = unseen.answers()
    timed = found[found.measured_s.notna() & found.predicted_s.notna()]
    by_default, stated = unseen.count_pairs(timed), pairs(all_rows())
    apart = by_default.apart + stated.apart
    assert apart >= 240 and stated.apart >= 10
    assert by_default.apart_right + stated.apart_right >= 0.95 * apart


def test_layouts_fit_that_ran() -> None:
    rows = unseen.answers()
    layouts = rows[(rows.group == "A100 layouts") & rows.fits.notna()]
    assert len(layouts) == 289
    assert (layouts.fits == layouts.ran).sum() >= 271


def test_the_fastest_prediction_is_nearly_the_fastest_run() -> None:
    regret = unseen.regrets().regret_percent
    assert len(regret) >= 14
    assert regret.mean() <= 3
    assert regret.max() <= 10

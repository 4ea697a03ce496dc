"""The study of rank stability, and Kendall's tau in it."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pipesched
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipesched import Configuration, Costs
from pipesched.paper import picture_files

from studies.stability import compared, kendall, scaled, stability

# Kendall's tau


@pytest.mark.parametrize(
    ("left", "right", "tau"),
    [
        # the documentation of scipy.stats.kendalltau
        ([12, 2, 1, 12, 2], [1, 4, 7, 1, 0], -0.47140452079103173),
        # scipy's tests: Kendall's own example of two rankings of ten
        ([5, 2, 1, 3, 6, 4, 7, 8], [5, 2, 6, 3, 1, 8, 7, 4], 0.0),
        ([0, 5, 2, 1, 3, 6, 4, 7, 8], [5, 2, 0, 6, 3, 1, 8, 7, 4], 0.0),
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([1, 2, 3, 4], [8, 6, 4, 2], -1.0),
        ([1, 2, 3], [1, 1, 2], 2 / math.sqrt(6)),
        ([1, 1, 2, 2], [1, 2, 1, 2], 0.0),
    ],
)
def test_known_taus(left: list[float], right: list[float], tau: float) -> None:
    assert kendall(left, right) == pytest.approx(tau)


@pytest.mark.parametrize(("left", "right"), [([], []), ([1], [2]), ([1, 1], [1, 2])])
def test_no_tau_without_order(left: list[float], right: list[float]) -> None:
    assert math.isnan(kendall(left, right))


def counted(left: list[int], right: list[int]) -> float:
    """Counts pairs by the definition."""
    alike = unlike = ordered_left = ordered_right = 0
    for i, j in itertools.combinations(range(len(left)), 2):
        way = (left[i] - left[j]) * (right[i] - right[j])
        alike += way > 0
        unlike += way < 0
        ordered_left += left[i] != left[j]
        ordered_right += right[i] != right[j]
    return (alike - unlike) / math.sqrt(ordered_left * ordered_right)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_tau_is_the_definition(pairs: list[tuple[int, int]]) -> None:
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    tau = kendall(left, right)
    if len(set(left)) < 2 or len(set(right)) < 2:
        assert math.isnan(tau)
        return
    assert tau == pytest.approx(counted(left, right))
    assert -1 - 1e-12 <= tau <= 1 + 1e-12
    assert kendall(right, left) == pytest.approx(tau)
    assert kendall([-a for a in left], right) == pytest.approx(-tau)
    assert kendall([a**3 for a in left], right) == pytest.approx(tau)
    assert kendall(left, left) == pytest.approx(1)


# What is compared


def evaluated(**levels: list[float | None]) -> pd.DataFrame:
    """A frame with one case of families a, b, c, ..."""
    size = len(levels["execution"])
    case = {"stages": 4, "microbatches": 8, "compute": 1.0, "network": 1.0}
    families = {"family": list("abcdef"[:size])}
    return pd.DataFrame({**families, **levels}).assign(**case).astype(dict.fromkeys(levels, float))


def test_ties_and_what_has_no_formula() -> None:
    frame = evaluated(
        formula=[0.1, 0.1, 0.3, None], table=[0.4, 0.3, 0.2, 0.1], execution=[4, 5, 6, 8]
    )
    (row,) = compared(frame).to_dict("records")
    assert (row["schedules"], row["with_formula"]) == (4, 3)
    assert row["first_by_formula"] == "a/b"
    assert row["first_by_table"] == "d"
    assert row["first_by_execution"] == "a"
    assert row["tau_formula_execution"] == pytest.approx(2 / math.sqrt(6))
    assert row["tau_formula_table"] == pytest.approx(-2 / math.sqrt(6))
    assert row["tau_table_execution"] == pytest.approx(-1)
    assert row["lost_by_formula_percent"] == 0
    assert row["lost_by_table_percent"] == pytest.approx(100)


def test_nothing_has_a_formula() -> None:
    frame = evaluated(formula=[None, None], table=[0.1, 0.2], execution=[1, 2])
    (row,) = compared(frame).to_dict("records")
    assert row["first_by_formula"] == ""
    assert math.isnan(row["tau_formula_table"]) and math.isnan(row["lost_by_formula_percent"])
    assert row["tau_table_execution"] == 1


# The study

SMALL: dict[str, Any] = {
    "stages": [4, 8],
    "microbatches": [8, 16],
    "families": ["gpipe", "1f1b", "chimera", "dualpipe", "zb-auto"],
    "factors": [1, 10],
}


def test_systems_are_scaled() -> None:
    ships = pipesched.systems()
    made = scaled(ships["baseline"], compute=0.1, network=10)
    for section in ("matrix", "vector", "memory", "network"):
        assert made[section] == pytest.approx(ships["fast_nw_slow_cp"][section])
    assert ships["baseline"] == pipesched.systems()["baseline"]


def test_study_is_its_simulations() -> None:
    study = stability(**SMALL)
    frame = study.frame
    assert len(frame) == 2 * 2 * 4
    case = frame[(frame.stages == 4) & (frame.compute == 10) & (frame.network == 1)].iloc[1]
    assert case.microbatches == 16
    costs = Costs(model="paper-gpt", system=scaled(pipesched.systems()["baseline"], 10, 1))
    made = [Configuration(f, 4, 16, costs=costs).simulate() for f in SMALL["families"]]
    steps = [simulation.execution.makespan_ps for simulation in made]
    bubbles = [simulation.table.bubble_ratio for simulation in made if simulation.table]
    assert case.tau_table_execution == pytest.approx(kendall(np.round(bubbles, 12), steps))
    assert case.first_by_execution == SMALL["families"][steps.index(min(steps))]
    ratios = [(s.formula.bubble_ratio, step) for s, step in zip(made, steps) if s.formula]
    assert case.with_formula == len(ratios) == 4
    assert case.tau_formula_execution == pytest.approx(kendall(*map(list, zip(*ratios))))
    assert case.first_by_table in ("gpipe/1f1b", "chimera", "dualpipe", "zb-auto", "1f1b/gpipe")


def test_what_is_left_out_is_said() -> None:
    study = stability(**SMALL)
    assert "left out beside one: zb-auto" in study.basis.open
    assert "dualpipe at (8,8)" in study.basis.open
    digest = study.digest
    assert digest is not None
    assert digest.schedules.tolist() == [5, 5, 4, 5]
    assert digest.with_formula.tolist() == [4, 4, 3, 4]


def test_findings_can_fail() -> None:
    """Two schedules on one system, which all levels rank equally."""
    (finding,) = stability([4], [16], families=["1f1b", "zb-h1"], factors=[0.1]).findings
    assert finding.verdict == "not met"
    (finding,) = stability(microbatches=[8], factors=[0.1, 1, 10]).findings
    assert finding.verdict == "met"


def test_pictures() -> None:
    files = picture_files(stability(**SMALL).draw)
    assert sorted(files) == [f"stability-{d}.{ending}" for d in (4, 8) for ending in ("png", "svg")]
    assert files["stability-4.png"].startswith(b"\x89PNG")
    again = picture_files(stability(**SMALL).draw)
    assert again == files

"""Which of several predicted steps can be ranked, and which runs decide."""

import math
from itertools import combinations

import pipesched
import pytest
from pipesched.bands import (
    Residual,
    Step,
    Traits,
    of_layouts,
    of_schedules,
    order_of,
    residuals,
    tell,
    tolerances,
)
from pipesched.command import main
from test_command import Capture, rows_of, text_of

LOADED = Traits("computed", "Hopper", "under load", "dense")
EXPERTS = LOADED._replace(kind="experts")


def steps(*seconds: float, layouts: str = "", traits: Traits = LOADED) -> list[Step]:
    """Steps a, b, c, ... on layouts by letter; without them all on one."""
    names = "abcdefghij"[: len(seconds)]
    each = layouts or "x" * len(seconds)
    return [Step(n, s, p, traits) for n, s, p in zip(names, seconds, each, strict=True)]


def without(run: str) -> list[Residual]:
    return [row for row in residuals() if row.run != run]


# From where on steps are ranked


def test_what_is_off_in_common_does_not_matter() -> None:
    """Ratios of a cluster that are all twice as large give the same tolerances."""
    rows = [row for row in residuals() if row.traits.rates == "under load"]
    by_run = [row._replace(ratio=row.ratio * (1 + len(row.run))) for row in rows]
    by_case = [row._replace(ratio=row.ratio * (1 + len(row.case) % 2)) for row in rows]
    for of_pairs in (of_layouts, of_schedules):
        wanted = of_pairs(rows)
        assert wanted is not None and of_pairs(by_run) == pytest.approx(wanted)
        assert of_pairs(by_case) != pytest.approx(wanted)


def test_tolerances_by_hand() -> None:
    def row(ratio: float, layout: str, cluster: str = "c") -> Residual:
        return Residual("s", "case", cluster, cluster, layout, LOADED, ratio)

    # Two clusters with two schedules each: differences of 10 and 20 % in logarithms.
    rows = [row(math.exp(each), "x", name) for each, name in ((0, "c"), (0.1, "c"), (0, "d"))]
    found = of_schedules([*rows, row(math.exp(0.2), "x", "d")])
    assert found is not None and (found.differences, found.runs) == (2, 2)
    spread = math.sqrt((2 * 0.05**2 + 2 * 0.1**2) / 2)
    assert found.spread == pytest.approx(spread)
    assert found.log == pytest.approx(4.3027 * spread * math.sqrt(2))
    assert of_layouts(rows) is None  # one layout in each
    assert of_schedules(rows) is None  # one difference
    # A run of many differences counts as one of few.
    many = [
        row(math.exp(each), "x", name) for name, e in (("c", 0.1), ("d", 0.2)) for each in (0, e)
    ]
    many += [row(math.exp(each), "x", "d") for each in (0, 0.2)]
    found = of_schedules(many)
    by_run = math.sqrt((2 * 0.05**2 + 4 * 0.1**2 / 3) / 2)
    assert found is not None and found.log == pytest.approx(4.3027 * by_run * math.sqrt(2))
    # More differences of the same runs do not add degrees of freedom.
    more = [row(math.exp(each), "x", name) for name in "cd" for each in (0, 0.1, 0.2)]
    found = of_schedules(more)
    assert found is not None and (found.differences, found.runs) == (4, 2)
    assert found.log == pytest.approx(4.3027 * 0.1 * math.sqrt(2))
    assert of_schedules([each for each in more if each.run == "c"]) is None  # one run


def test_most_pairs_of_schedules_are_within_their_tolerance() -> None:
    """Each pair of one layout, with the tolerance of all other runs."""
    held = []
    for first, second in combinations(residuals(), 2):
        same = first.cluster and first.cluster == second.cluster
        if same and first.layout == second.layout and first.traits.rates == second.traits.rates:
            tolerance = of_schedules(without(first.run))
            assert tolerance is not None
            held.append(abs(math.log(first.ratio / second.ratio)) <= tolerance.log)
    assert len(held) >= 40 and sum(held) / len(held) >= 0.9


def test_experts_are_ranked_least() -> None:
    dense, experts = tolerances(LOADED), tolerances(EXPERTS)
    assert dense.schedules == experts.schedules
    assert 1 < dense.schedules.ratio < dense.layouts.ratio < experts.layouts.ratio
    given = tolerances(Traits("given times"))
    assert given.layouts.ratio > given.schedules.ratio


# Orders


def test_steps_of_one_layout() -> None:
    close = tolerances(LOADED).schedules.ratio
    order = order_of(steps(1, close * 0.99, close * 1.01))
    assert order == ((0, 1), (0, 1), ())
    assert order_of(steps(1, close * 1.01)) == ((0,), (), ())


def test_layouts_are_ranked_later() -> None:
    apart = tolerances(LOADED).schedules.ratio * 1.02
    assert order_of(steps(1, apart, layouts="xy")).first == (0, 1)
    assert order_of(steps(1, apart, layouts="xx")).first == (0,)
    # Known to be slower than the second, which need not be the first.
    assert order_of(steps(1, 1.01, 1.01 * apart, layouts="xyy")).first == (0, 1)


def test_the_fewest_runs() -> None:
    """Steps that are as fast as another one on their layout need no run."""
    order = order_of(steps(1, 1.005, 1.03, 1.035, 1.038, layouts="xxyyy"))
    assert order.runs == (0, 2) and order.alike == ((1, 0), (3, 2), (4, 2))
    assert order_of(steps(1, 1.005)) == ((0, 1), (), ((1, 0),))
    # On another layout it does.
    assert order_of(steps(1, 1.005, layouts="xy")).runs == (0, 1)
    # Every step that is left out of the runs is tied with a run or known to be slower.
    many = steps(1, 1.02, 1.04, 1.06, 1.3, 1.6, layouts="xyzxyz")
    found = order_of(many)
    assert {*found.runs, *(i for i, _ in found.alike)} == {*found.first}


def test_sentences() -> None:
    one, two = steps(1, 1.005), steps(1, 2)
    assert tell(one[:1], order_of(one[:1])) == []
    (alike,) = tell(one, order_of(one))
    assert alike.endswith("; b is within 1 % of a on its layout") and "decide" not in alike
    (apart,) = tell(two, order_of(two))
    assert apart.startswith("a is the fastest by more than predictions are off: published rows")
    (several,) = tell(found := steps(1, 1.02, 1.025, layouts="xyy"), order_of(found))
    assert "layouts from" in several and "schedules of one layout only from" in several
    assert "short runs of a and b decide; c is within 1 % of b on its layout" in several


# Verbs


COMPARE = ["simulate", "gpipe", "1f1b", "zb-v", "VPP", "--pp", "8", "--microbatches", "16,32"]
MODEL = ["--model", "llama3-70b", "--set", "accelerators=4", "--global-batch", "32"]


def test_compare_shares_the_first_rank(capsys: Capture) -> None:
    rows = rows_of(capsys, *COMPARE, *MODEL, "--system", "h100-sxm-load")
    for microbatches in (16, 32):
        group = [row for row in rows if row["microbatches"] == microbatches]
        limit = group[0]["step_s"] * tolerances(LOADED).schedules.ratio
        for row in group:
            assert row["may_be_first"] == (row["step_s"] <= limit)
            assert (row["rank"] == 1) == row["may_be_first"]
    ranks = [row["rank"] for row in rows if row["microbatches"] == 32]
    assert ranks == [1, 1, 3, 3]


def test_compare_says_what_decides(capsys: Capture) -> None:
    text = text_of(capsys, *COMPARE, *MODEL, "--system", "h100-sxm-load")
    assert (
        "order: 8 workers, 32 microbatches: interleaved-1f1b is within the prediction error of zb-v"
    ) in text
    assert "short runs of zb-v and interleaved-1f1b decide" in text
    assert main([*COMPARE[:-1], "8", *MODEL, "--system", "h100-sxm-load"]) == 0
    assert "order: zb-v is the fastest by more than" in capsys.readouterr().out
    text = text_of(capsys, *COMPARE, "--times", "F=1ms,B=2ms", "--set", "times-of=worker")
    assert "order:" not in text and "within error" not in text


def test_compare_at_equal_memory(capsys: Capture) -> None:
    words = ["simulate", "1f1b", "VPP", "--pp", "8", "--microbatches", "32", *MODEL]
    rows = rows_of(capsys, *words, "--system", "h100-sxm-load", "--memory", "70GiB")
    ranked = [row for row in rows if row.get("rank")]
    assert ranked and any(row["may_be_first"] for row in ranked)
    bound = [row for row in rows if row["schedule"] == "bound"]
    assert all(row.get("may_be_first") is None for row in bound)


def test_systems_have_orders_of_their_own(capsys: Capture) -> None:
    words = ["simulate", "1f1b", "VPP", "--pp", "8", "--microbatches", "32", *MODEL]
    words += ["--system", "b200-sxm", "--system", "h100-sxm"]
    rows = rows_of(capsys, *words)
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]  # of all systems, by their steps
    for system in ("h100-sxm", "b200-sxm"):
        own = [row["may_be_first"] for row in rows if row["system"] == system]
        assert own[0] is True
    text = text_of(capsys, *words)
    assert "\nband on h100-sxm: " in text and "\norder: b200-sxm, 8 workers, 32" in text


def test_plan_says_what_decides(capsys: Capture) -> None:
    made = pipesched.plan("llama3-70b", "dgx-h100", gpus=64, global_batch=256, top=6)
    rows = made.to_dicts()
    best = made.fitting[0]
    assert best.band is not None
    known = tolerances(best.band.traits)
    for row, proposal in zip(rows, made.proposals, strict=True):
        if not proposal.fits:
            assert row["may_be_first"] is None and row["run_decides"] is None
            continue
        tolerance = known.schedules if proposal.shape == best.shape else known.layouts
        if row["may_be_first"]:
            assert proposal.step_s <= best.step_s * tolerance.ratio
        assert not row["run_decides"] or row["may_be_first"]
    said = ("within the prediction error", "by more than")
    sentence = next(each for each in made.why() if any(words in each for words in said))
    named = [row["name"] for row in rows if row["run_decides"]]
    assert all(name in sentence for name in named)


@pytest.mark.parametrize(
    ("schedules", "is_open"), [("interleaved-1f1b,zb-h1", True), ("1f1b,zb-v", False)]
)
def test_findings_do_not_contradict_the_order(
    schedules: str, is_open: bool, capsys: Capture
) -> None:
    """The line `order:` replaces the finding if several may be the fastest."""
    line = ["simulate", "--pp", "8", "--microbatches", "16", "--schedules", schedules]
    line += ["--model", "llama3-70b", "--system", "dgx-h100", "--global-batch", "16"]
    printed = text_of(capsys, *line)
    assert ("within the prediction error of" in printed) == is_open
    assert ("fastest: " in printed) == (not is_open)
    if not is_open:
        assert "order: zb-v is the fastest" in printed and "fastest: zb-v, " in printed

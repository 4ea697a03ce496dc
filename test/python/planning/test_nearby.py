"""Plans say which numbers of accelerators are better where the one that is given divides badly."""

from __future__ import annotations

from typing import Any

from pipesched import plan
from pipesched.planning import Plan, Request
from pipesched.planning.search import nearby
from pipesched.planning.search.nearby import _computing, _fills_nodes


def planned(gpus: int, **limits: Any) -> Plan:
    given: dict[str, Any] = {"global_batch": 256, "top": 1, "misses": 0, **limits}
    return plan("llama3-70b", "dgx-b200", gpus=gpus, **given)


def test_fewer_accelerators_that_are_faster_are_said() -> None:
    """63 are the stages of one pipeline, or one of them has no part of the batch."""
    made = planned(63)
    fewer, more = made.nearby
    assert fewer.fits and fewer.shape.gpus < 63 < more.shape.gpus == 64
    assert fewer.step_s < made.fitting[0].step_s
    for each in made.nearby:
        own = planned(each.shape.gpus).fitting[0]
        assert own.step_s / 1.02 <= each.step_s <= 1.02 * own.step_s
    least = 1 - fewer.expected_s / made.fitting[0].expected_s
    line = f"fewer accelerators are faster than 63: {fewer.shape.gpus} take"
    (said,) = (text for text in made.why() if text.startswith(line))
    assert f"{100 * least:.1f} % less; 64 take" in said
    rows = made.to_dicts()
    assert [each["gpus"] for each in rows[0]["nearby"]] == [fewer.shape.gpus, 64]


def test_numbers_that_divide_well_cost_no_search(monkeypatch: Any) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a search for another number began")

    monkeypatch.setattr(nearby, "Search", never)
    for gpus in (64, 56, 8):
        assert planned(gpus, recompute=["full"]).nearby == ()


def test_limits_that_allow_no_other_number_are_no_error() -> None:
    assert planned(63, pp=[63]).nearby == ()


def test_the_estimate_by_hand() -> None:
    request = Request(model="llama3-70b", system="dgx-b200", gpus=63, global_batch=256)
    # 64 replicas of four microbatches; 63 stages, the largest with two layers.
    assert _computing(request, 64) == 64
    assert _computing(request, 63) == 63 * (80 / 126) * (256 / 318)
    assert [g for g in range(48, 64) if _fills_nodes(request, g)] == [
        *(48, 49, 50, 52, 54, 55, 56, 60, 63)
    ]

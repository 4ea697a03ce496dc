"""Lists of plans: rows differ, slower rows that do not fit are left out, and no sentence is about
nothing.
"""

import re
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pipesched import Plan, Proposal, plan
from pipesched.command.render.plans import COLUMNS, drop_alike
from pipesched.planning.explain.reasons import _against, _missing
from pipesched.support.text import gib
from test_command import Capture, text_of

LINE = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16"]
MEMORY = ("peak_bytes_per_gpu", "missing_bytes_per_gpu")
BANDS = ("step_low_s", "step_high_s", "may_be_first")
NUMBERS = ("step_s", "expected_s", *BANDS, "tokens_per_s_per_gpu", "mfu", *MEMORY, "idle_ratio")


@pytest.fixture(scope="module")
def made() -> Plan:
    """A plan whose best configurations often differ only in the layers of their stages."""
    alike = {"context": [1], "tensor": [1], "pp": [2, 4], "sharding": ["optimizer"]}
    return plan("llama3-8b", "dgx-h100", gpus=16, global_batch=64, top=40, **cast(Any, alike))


def test_rows_say_what_differs(made: Plan) -> None:
    keys = [c.key for c in COLUMNS if c.key not in (*NUMBERS, "name")]
    rows = drop_alike(made.to_dicts())
    chosen = Counter((row["schedule"], *(str(row[key]) for key in keys)) for row in rows)
    assert max(chosen.values()) == 1
    degrees = ("tensor", "context", "pipeline", "data", "expert", "schedule")
    assert len({tuple(row[key] for key in degrees) for row in rows if row["fits"]}) == len(
        made.fitting
    )


def test_layers_are_those_of_the_paths(made: Plan) -> None:
    for proposal in made.proposals:
        (first, *_) = proposal.candidate.layers
        text = proposal.candidate.layers_text.split("|")[0]
        found: list[int] = []
        for part in text.split("+"):
            count, _, times = part.partition("x")
            found += [int(count)] * int(times or 1)
        if proposal.candidate.is_even:
            found *= len(first)
        assert tuple(found) == first


def test_optimized_rows_say_what_was_free() -> None:
    freedoms = {"split_backward": True, "offload": True, "recompute": "full"}
    alone = {"layers": "4", "context": 1, "expert": 1}
    optimized = {**alone, "optimized": {"freedoms": freedoms}}
    family = {**alone, "optimized": None}
    first, second = drop_alike([optimized, family])
    assert first["free_in"] == "order, offload, recompute full"
    assert second["free_in"] is None
    freedoms.update(offload=False, recompute="none")
    assert drop_alike([optimized])[0]["free_in"] == "order"


def test_the_table_has_the_columns(capsys: Capture) -> None:
    lines = text_of(capsys, *LINE, "--global-batch", "64", "--top", "3").splitlines()
    heading = next(line for line in lines if "tokens/s/GPU" in line)
    for name in ("memory/GPU", "missing/GPU", "layers"):
        assert name in heading.split()


def all_plans() -> Iterator[Plan]:
    for model, system, sizes in (
        ("llama3-8b", "dgx-h100", {"gpus": 16, "global_batch": 64}),
        ("llama3-8b", "dgx-h100", {"gpus": 16, "global_batch": 32, "memory": "40GiB"}),
        ("mistral-7b", "dgx-a100", {"gpus": 16, "global_batch": 32}),
    ):
        yield plan(model, system, **cast(Any, sizes), misses=10)


def test_what_does_not_fit_would_be_faster() -> None:
    for made in all_plans():
        assert made.fitting
        fastest = min(proposal.step_s for proposal in made.fitting)
        assert all(proposal.step_s < fastest for proposal in made.missing)


def test_changes_are_distinguished() -> None:
    for made in all_plans():
        for proposal in made.missing:
            changes = [help.change for help in proposal.help]
            assert len(set(changes)) == len(changes)


def test_schedules_that_help_have_their_layers(made: Plan) -> None:
    """Two divisions of the layers that both fit are two changes."""
    from pipesched.planning.candidate import Shape
    from pipesched.planning.proposals import _others
    from pipesched.planning.request import Request
    from pipesched.planning.search.search import Search
    from pipesched.planning.space.space import Space

    request = Request(model="llama3-8b", system="dgx-h100", gpus=16, global_batch=64)
    space = Space(request)
    shape = Shape(1, 8, 2, 1, 32, "selective", "optimizer")
    first = next(c for c in space.candidates_of(shape) if c.schedule == "eager-1f1b")
    changes = Counter(change for change, _ in _others(Search(space, None, None), first))
    assert max(changes.values()) == 1
    assert {c for c in changes if c.startswith("schedule dualpipe,")}


def test_nothing_is_said_of_no_difference(made: Plan) -> None:
    best = made.fitting[0]

    def scaled(factor: float, **more: object) -> SimpleNamespace:
        step = best.step_s * factor
        known = {"candidate": best.candidate, "middle": best.middle}
        return SimpleNamespace(step_s=step, ranked_s=step, **known, **more)

    alike, slow = scaled(1.0001), scaled(1.02)
    assert _against(best, cast(Proposal, alike)) == "as fast"
    assert _against(best, cast(Proposal, slow)) == "2.0 % slower"
    missing = scaled(0.9999, peak_cell=None, worst_worker=0, missing_bytes=2**20, help=())
    said = _missing(cast(Proposal, missing), made)
    assert "would be as fast as the best that fits but misses 1.0 MiB on worker 0" in said
    for other in all_plans():
        for sentence in other.why():
            assert not re.search(r"(?<![\d.])0\.0 % (slower|faster|less|more)", sentence)
            assert "misses 0.0" not in sentence


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0.0 GiB"), (2**30, "1.0 GiB"), (2**20, "1.0 MiB"), (1, "0.1 MiB")]
)
def test_little_memory_is_not_none(size: int, text: str) -> None:
    assert gib(size) == text


def test_what_lacks_half_of_the_memory_is_left_out() -> None:
    for made in all_plans():
        most = made.request.capacity_bytes / 2
        assert all(proposal.missing_bytes <= most for proposal in made.missing)
    none = plan("llama3-70b", "dgx-h100", gpus=8, global_batch=64, misses=1)
    assert not none.fitting and none.missing[0].missing_bytes > none.request.capacity_bytes


def test_nearly_full_rows_are_marked(made: Plan) -> None:
    memory = next(column for column in COLUMNS if column.key == "peak_bytes_per_gpu")
    for proposal, row in zip(made.proposals, made.to_dicts(), strict=True):
        usable = proposal.request.usable_bytes
        assert bool(memory.behind(row)) == (0.98 * usable < proposal.peak_bytes <= usable)
    full = {"peak_bytes_per_gpu": 99, "usable_bytes": 100}
    assert memory.behind(full) == " (full)" and not memory.behind({**full, "usable_bytes": 98})

"""Models with recurrences: how steps grow, what is divided, and what launchers are told."""

from typing import Any

import pytest
from pipesched import Configuration, Costs, PipeSchedError, plan
from pipesched.costs.settings import _fields_of
from pipesched.planning.launch.scripts import model_arguments

HYBRIDS = ("qwen3-next-80b-a3b", "nemotron-h-8b")


def step_s(model: Any, sequence: int, **given: Any) -> float:
    """A step of one microbatch of one sequence on four workers."""
    costs = Costs(model=model, system="dgx-h100", sequence=sequence, microbatch_size=1, **given)
    return Configuration("1f1b", 4, 1, costs=costs).simulate().execution.makespan_ps / 1e12


@pytest.mark.parametrize("model", HYBRIDS)
def test_recurrences_grow_with_the_sequence(model: str) -> None:
    """Eight times the tokens take less than all attention would: most layers have none."""
    fields = {**_fields_of("model", model), "attention_heads": 16, "key_value_heads": 16}
    for name in ("linear_attention", "attention_gate", "sources", "aliases", "key_value_heads"):
        fields.pop(name, None)
    grown = step_s(model, 1 << 17) / step_s(model, 1 << 14)
    attention = step_s(fields, 1 << 17) / step_s(fields, 1 << 14)
    assert 7 < grown < 0.8 * attention


def test_ranks_divide_groups() -> None:
    """Tensor parallelism divides what layers of both kinds share: 8 heads, 2 groups."""
    fields = dict(_fields_of("model", "nemotron-h-8b"))
    fields["linear_attention"] = {**fields["linear_attention"], "key_heads": 2}
    given: dict[str, Any] = {"gpus": 8, "global_batch": 8, "pp": [1], "top": 1}
    given["recompute"] = ["full"]
    assert plan(fields, "dgx-h100", tensor=[2], **given).proposals
    with pytest.raises(PipeSchedError, match="tensor 4 does not divide 2"):
        plan(fields, "dgx-h100", tensor=[4], **given)


@pytest.mark.parametrize("degree", [2, 4])
def test_ranks_that_divide_sequences_exchange(degree: int) -> None:
    """The all-to-alls around recurrences are exposed, as the report says."""
    costs = Costs(
        model="nemotron-h-8b",
        system="dgx-h100",
        microbatch_size=1,
        accelerators=degree,
        context_parallel=degree,
    )
    execution = Configuration("1f1b", 4, 4, costs=costs).simulate().execution
    exposed, sent = execution.exposed_context_exchange_ps, execution.context_exchange_bytes
    assert exposed is not None and (exposed > 0).all()
    assert sent is not None and (sent > 0).all()


@pytest.mark.parametrize("model", HYBRIDS)
def test_launchers_ask_for_the_model(model: str) -> None:
    """No arguments are made up for parts of models that the list of arguments does not say."""
    assert model_arguments(_fields_of("model", model)) is None

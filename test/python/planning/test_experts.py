"""Experts against counts of published configurations, and exchanges that pairs hide."""

import json
from typing import Any

import pytest
from conftest import ROOT
from pipesched import Configuration, Costs

DATA = ROOT / "test" / "data" / "huggingface"
PUBLISHED_ROWS = json.loads((DATA / "published.json").read_text())
CONFIGS = {row["name"]: row.get("config") for row in PUBLISHED_ROWS}

PUBLISHED = {
    # Billions of parameters: of experts, in all, and those that a token uses.
    "deepseek-v3": (653.9, 671.0, 37.6),  # arXiv 2412.19437: 671B, 37B
    "qwen3-235b-a22b": (227.1, 235.1, 22.2),  # arXiv 2505.09388: 235B, 22B
    "mixtral-8x7b": (45.1, 46.7, 12.9),  # arXiv 2401.04088: 47B, 13B
}


def config_of(name: str) -> dict[str, Any]:
    found = CONFIGS[name] or json.loads((DATA / f"{name}.json").read_text())
    return dict(found)


class Count:
    """Experts of a configuration, counted matrix by matrix."""

    def __init__(self, name: str) -> None:
        config = config_of(name)
        names = ("n_routed_experts", "num_experts", "num_local_experts")
        self.experts: int = next(config[name] for name in names if name in config)
        self.per_token: int = config["num_experts_per_tok"]
        self.hidden: int = config["hidden_size"]
        width: int = config.get("moe_intermediate_size", config["intermediate_size"])
        dense = config.get("first_k_dense_replace", 0)
        self.layers = len(range(dense, config["num_hidden_layers"]))
        matrices = [(self.hidden, width), (self.hidden, width), (width, self.hidden)]
        self.of_one: int = sum(rows * columns for rows, columns in matrices)

    @property
    def parameters(self) -> int:
        return self.of_one * self.layers * self.experts

    @property
    def flops_per_token(self) -> int:
        """A multiply and an add for each element, forward and for both gradients."""
        return 3 * 2 * self.of_one * self.layers * self.per_token


def costs(name: str, **options: Any) -> Costs:
    sizes: dict[str, Any] = {"system": "h100-sxm", "sequence": 4096, "microbatch_size": 1}
    return Costs(model=config_of(name), **(sizes | options))


@pytest.mark.parametrize("name", PUBLISHED)
def test_experts_are_counted(name: str) -> None:
    count, summary = Count(name), costs(name).model_summary()
    assert summary["expert_parameters"] == count.parameters
    assert summary["expert_weight_bytes"] == 2 * count.parameters
    assert summary["expert_flops_per_token"] == count.flops_per_token
    found = [summary[f"{kind}parameters"] / 1e9 for kind in ("expert_", "", "active_")]
    assert found == pytest.approx(PUBLISHED[name], rel=2e-3)


def test_dense_models_have_none() -> None:
    summary = costs("llama-3-8b").model_summary()
    assert summary["expert_parameters"] is None
    assert summary["expert_flops_per_token"] is None


@pytest.mark.parametrize(("family", "hides"), [("1f1b", False), ("dualpipe", True)])
def test_pairs_hide_rows(family: str, hides: bool) -> None:
    """DualPipe hides all-to-alls of its pairs; 1F1B has none."""
    divided = costs("qwen3-30b-a3b", data_parallel=16, expert_parallel=16)
    simulation = Configuration(family, 4, 16, costs=divided).simulate()
    frame = simulation.worker_frame()
    for every, seen in zip(frame.all_to_all_ps, frame.exposed_all_to_all_ps, strict=True):
        assert 0 < seen < every if hides else 0 < seen == every
    assert simulation.execution.context_exchange_ps is None

"""Experts and sequences divided over ranks, against counts of published configurations."""

import json
from typing import Any

import pytest
from conftest import ROOT
from pipesched import Configuration, Costs, PipeSchedError

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


def block_of(summary: dict[str, Any], name: str) -> dict[str, Any]:
    return next(block for block in summary["blocks"] if block["name"] == name)


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


@pytest.mark.parametrize("sharding", ["none", "optimizer"])
def test_memory_is_that_of_the_ranks(sharding: str) -> None:
    """DeepSeek-V3's 64-way expert parallelism in 128 pipelines, one layer per stage: a GPU has the
    other parameters of its layer and 4 of 256 experts.
    """
    count = Count("deepseek-v3")
    layer = block_of(costs("deepseek-v3").model_summary(), "expert_layer")
    experts = 256 * count.of_one
    others = layer["parameters"] - experts
    divided = costs("deepseek-v3", data_parallel=128, expert_parallel=64, sharding=sharding)
    memory = Configuration("1f1b", 61, 8, costs=divided).simulate().memory
    assert memory is not None
    held = others + experts // 64
    state = 12 * held if sharding == "none" else 12 * (others + experts) / 128
    assert memory.persistent_bytes[30] == pytest.approx((2 + 2) * held + state, abs=1)


def test_whole_experts_do_not_fit() -> None:
    whole = costs("deepseek-v3", data_parallel=128, sharding="optimizer")
    memory = Configuration("1f1b", 61, 8, costs=whole).simulate().memory
    assert memory is not None
    assert memory.persistent_bytes[30] > 4 * 256 * Count("deepseek-v3").of_one


def makespan(made: Costs, stages: int = 4) -> int:
    return Configuration("1f1b", stages, 8, costs=made).simulate().execution.makespan_ps


def test_rows_take_their_way() -> None:
    """Fewer bytes cross nodes if each token does so once per node; uneven rows take longer."""
    near = {"accelerators": 8, "data_parallel": 8, "expert_parallel": 64}
    once = makespan(costs("qwen3-30b-a3b", **near, expert_dispatch="per-node"))
    each = makespan(costs("qwen3-30b-a3b", **near))
    uneven = makespan(costs("qwen3-30b-a3b", **near, expert_balance=1.5))
    assert once < each < uneven


@pytest.mark.parametrize(("family", "hides"), [("1f1b", False), ("dualpipe", True)])
def test_pairs_hide_rows(family: str, hides: bool) -> None:
    """DualPipe hides all-to-alls of its pairs; 1F1B has none."""
    divided = costs("qwen3-30b-a3b", data_parallel=16, expert_parallel=16)
    simulation = Configuration(family, 4, 16, costs=divided).simulate()
    frame = simulation.worker_frame()
    for every, seen in zip(frame.all_to_all_ps, frame.exposed_all_to_all_ps, strict=True):
        assert 0 < seen < every if hides else 0 < seen == every
    assert simulation.execution.context_exchange_ps is None


def test_sequences_are_divided() -> None:
    """A ring hides behind long attention; a gather is seen."""
    whole = {"sequence": 131072, "accelerators": 8}
    ring = makespan(costs("llama-3-8b", **whole, context_parallel=8))
    gather = makespan(costs("llama-3-8b", **whole, context_parallel=8, context_exchange="gather"))
    tensor = makespan(costs("llama-3-8b", **whole))
    assert ring < gather < tensor


@pytest.mark.parametrize("exchange", ["ring", "gather"])
def test_what_is_passed_on(exchange: Any) -> None:
    """Of 8 ranks each passes on its eighth of keys and values of 2 x 1,024 x 2 bytes a token: 7
    times in F, and in I 7 times with as many of gradients, of which a ring takes one more home.
    Each of 4 stages has 8 layers and runs 8 microbatches. Long attention hides a ring, nothing a
    gather.
    """
    split: dict[str, Any] = {"accelerators": 8, "context_parallel": 8, "context_exchange": exchange}
    made = costs("llama-3-8b", sequence=131072, **split)
    simulation = Configuration("1f1b", 4, 8, costs=made).simulate()
    keys_values = 2 * 1024 * 2 * 131072
    sent = 7 + 2 * 7 + (1 if exchange == "ring" else 0)
    frame = simulation.worker_frame()
    assert frame.context_exchange_bytes.tolist() == [8 * 8 * sent * keys_values] * 4
    for every, seen in zip(
        frame.context_exchange_ps, frame.exposed_context_exchange_ps, strict=True
    ):
        assert 0 < seen < every if exchange == "ring" else 0 < seen == every
    assert simulation.execution.all_to_all_ps is None


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("llama-3-8b", {"expert_parallel": 2, "data_parallel": 2}, "has no experts for 2-way"),
        (
            "mixtral-8x7b",
            {"expert_parallel": 16, "data_parallel": 16},
            "16-way expert parallelism does not divide the 8 experts of block 'layer'; "
            "the nearest degrees that do are 8",
        ),
        (
            "mixtral-8x7b",
            {"accelerators": 8, "context_parallel": 8, "sequence": 4104},
            "the nearest that are have 4096 and 4112 tokens",
        ),
    ],
)
def test_what_does_not_divide_is_said(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PipeSchedError, match=message):
        makespan(costs(name, **options))

"""Overlapped pairs train part by part, with experts over the ranks of several pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from part_ranks import PartJob, PartResult  # noqa: E402
from pipesched import generate  # noqa: E402
from pipesched.torch import PipelineError  # noqa: E402
from pipesched.torch.overlap.chain import Chain, check_order, steps_of  # noqa: E402
from pipesched.torch.parts import AllToAll, LayerInParts  # noqa: E402
from runtime_runs import run  # noqa: E402

NEAR = 1e-12
OWN_ORDER = (
    "combine.I,attention.F,dispatch.F,mlp.I,mlp.F,mlp.W,dispatch.I,attention.I,combine.F,"
    "attention.W"
)
WHOLE = "combine.I,attention.F,mlp.I,dispatch.F,dispatch.I,mlp.F,attention.I,combine.F"


def made(family: str, workers: int, microbatches: int, **options: Any) -> Any:
    return generate(family, workers=workers, microbatches=microbatches, **options)


def jobs() -> dict[str, PartJob]:
    combined = made("combined-1f1b", 2, 4, chunks=2)
    kinds = {
        "combined": PartJob("combined", combined, 6),
        "own order": PartJob("own order", combined, 6, options={"parts_order": OWN_ORDER}),
        "no W": PartJob("no W", combined, 6, options={"parts_order": WHOLE}),
        "whole": PartJob("whole", combined, 6, how="whole"),
        "silent": PartJob("silent", combined, 6, how="silent"),
        "recomputed": PartJob("recomputed", combined.transform("pipe-add-recompute{stages=1}"), 6),
        "one chunk": PartJob("one chunk", made("combined-1f1b", 2, 5), 3),
        "dualpipe-v": PartJob(
            "dualpipe-v", made("dualpipe-v", 2, 5), 7, options={"parts_order": "megatron"}
        ),
        "zb-h1": PartJob("zb-h1", made("zb-h1", 2, 3)),
        "spied": PartJob("spied", made("combined-1f1b", 1, 3), 1, peers=4, how="spied"),
        "memory": PartJob("memory", combined, 6, options={"memory_budget": "1GiB"}),
    }
    averaged = {
        "averaged": combined,
        "averaged and split": made("zb-h1", 2, 3),
        "averaged over replicas": made("chimera", 2, 4).transform(
            "pipe-add-optimizer{all-reduce=end}"
        ),  # the ranks of a pipeline have the same experts
    }
    layers = {"averaged": 6, "averaged and split": 4, "averaged over replicas": 2}
    for name, schedule in averaged.items():
        kinds[name] = PartJob(name, schedule, layers[name], averages=True)
    return kinds


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[PartResult]]:
    return run(list(jobs().values()), tmp_path_factory.mktemp("pairs"), "part_ranks")


@pytest.mark.parametrize("name", jobs())
def test_gradients_are_those_of_the_model_on_one_rank(
    trained: dict[str, list[PartResult]], name: str
) -> None:
    job = jobs()[name]
    assert len(trained[name]) == job.ranks
    for result in trained[name]:
        assert result.loss < NEAR and result.gradients < NEAR
        assert bool(result.notes) == (name != "whole")
        if job.averages:
            assert result.norm < NEAR and result.experts > 0


def texts(result: PartResult) -> list[str]:
    return [f"{each.does} {each.name} {each.microbatch}" for each in result.notes]


PAIR = [
    "runs output.I 0", "starts combine.I 0",
    "runs attention.F 1",
    "waits combine.I 0", "runs combine.I 0", "runs mlp.I 0",
    "runs dispatch.F 1", "starts dispatch.F 1",
    "starts dispatch.I 0",
    "runs mlp.W 0",
    "waits dispatch.F 1", "runs mlp.F 1",
    "waits dispatch.I 0", "runs dispatch.I 0", "runs attention.I 0",
    "runs attention.W 0",
    "runs combine.F 1", "starts combine.F 1",
    "waits combine.F 1", "runs output.F 1",
]  # fmt: skip
"""By DeepSeek's order: an exchange is waited for where the next part reads it."""


def test_pairs_are_issued_in_their_order(trained: dict[str, list[PartResult]]) -> None:
    for result in trained["spied"]:
        found = texts(result)
        begin = found.index(PAIR[0])
        assert found[begin : begin + len(PAIR)] == PAIR
        # The first forward and the last backward run by themselves.
        assert [each.split()[-1] for each in found[:begin]] == ["0"] * begin
        assert found[-5:] == [
            "runs mlp.W 2",
            "waits dispatch.I 2",
            "runs dispatch.I 2",
            "runs attention.I 2",
            "runs attention.W 2",
        ]


def test_notes_are_what_layers_and_exchanges_see(trained: dict[str, list[PartResult]]) -> None:
    """They see no W, and of a part that is an exchange only the exchange."""
    for result in trained["spied"]:
        kept = [
            f"{each.does} {each.name}"
            for each in result.notes
            if each.phase != "W"
            and not (each.does == "runs" and each.name in ("dispatch.I", "combine.I"))
        ]
        assert result.seen == kept


def test_layers_of_a_pair_go_towards_each_other(trained: dict[str, list[PartResult]]) -> None:
    """The first layer of the forward pairs with the last of the backward."""
    (first, _, other, _) = trained["one chunk"]
    for result in (first, other):
        names = "output.I", "attention.F"
        runs = [
            (each.name, each.microbatch, each.layer)
            for each in result.notes
            if each.does == "runs" and each.name in names
        ]
        begin = runs.index(("output.I", 0, 1))
        assert runs[begin : begin + 4] == [
            ("output.I", 0, 1),
            ("attention.F", 3, 0),
            ("output.I", 0, 0),
            ("attention.F", 3, 1),
        ]


def test_orders_are_checked() -> None:
    for order, said in (
        ("best", "depends on times"),
        ("fast", "parts_order"),
        ("combine.I,attention.F", "leaves out"),
        (OWN_ORDER.replace("mlp.W", "mlp.X"), "has 'mlp.X', which is not a phase of a part"),
        (
            "attention.I,attention.W,combine.I,mlp.I,mlp.W,dispatch.I,"
            "attention.F,dispatch.F,mlp.F,combine.F",
            "has a cycle at layer 0: attention.I, which needs dispatch.I",
        ),
    ):
        with pytest.raises(PipelineError, match=said):
            check_order(order)


def test_a_missing_part_is_named() -> None:
    class Half(LayerInParts):
        def attention(self, value: Any) -> Any:
            return value

    for call in (lambda: Chain.of(Half()), lambda: Half()(1)):
        with pytest.raises(PipelineError, match=r"Half has no part 'dispatch'; a layer in parts"):
            call()


def test_an_exchange_of_other_rows_is_refused(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    rows = torch.zeros(3, 2)
    try:
        with pytest.raises(PipelineError, match="sends 2 rows, and has 3"):
            AllToAll(rows, [2], [2])
        with pytest.raises(PipelineError, match="receives of an all-to-all has 2 numbers; wanted"):
            AllToAll(rows, [3], [1, 2])
    finally:
        torch.distributed.destroy_process_group()


def test_what_one_cell_has_more_runs_behind() -> None:
    steps = steps_of("deepseek", 1, 2)
    assert [layer for _, phase, layer in steps if phase == "F"] == [0] * 4
    backward = [(part, layer) for part, phase, layer in steps if phase == "I"]
    assert backward == [
        (part, layer) for layer in (1, 0) for part in ("combine", "mlp", "dispatch", "attention")
    ]

"""Megatron-Core trains by tables of PipeSched on gloo and CPUs as by its own 1F1B."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipesched import Schedule, generate, problem
from runtime_runs import run

if TYPE_CHECKING:
    from pipesched.torch.runtime.setup import MessageKind

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("megatron") is None,
        reason="needs megatron-core: pip install 'pipesched[test]'",
    ),
    pytest.mark.filterwarnings("ignore"),  # of Megatron's imports
]

RANKS = 4
FAMILIES: dict[str, dict[str, Any]] = {
    "1f1b": {},
    "gpipe": {},
    "eager-1f1b": {},
    "zb-h1": {},
    "zb-h2": {},
    "greedy": {},
    "interleaved-1f1b": {},
    "interleaved-zb": {},
    "looped-bfs": {},
    "zb-v": {},
    "v-half": {},
    "v-min": {},
    "combined-1f1b": {},
}


@dataclass(frozen=True)
class MegatronJob:
    """A table that trains like Megatron's own 1F1B, over pipelines of its workers."""

    name: str
    table: Schedule
    ranks: int = RANKS
    ddp: bool = False
    """Under Megatron's DDP with overlap_grad_reduce, over as many pipelines as the ranks allow."""
    tied: bool = False
    messages: MessageKind | None = None
    config: dict[str, Any] = field(default_factory=dict)
    loop: bool = False
    """Whether Megatron's own layout of layers is kept, and its own placement."""
    plain: bool = False
    per_token: bool = False
    """Whether losses are sums over tokens, whose number the loss function gives."""
    extra: bool = False
    """Whether a chunk has a weight of a layer that is not Megatron's."""


@dataclass(frozen=True)
class Refusal(MegatronJob):
    """A job that all ranks refuse with the same error."""


def table(family: str, workers: int = RANKS, microbatches: int = 4, **options: Any) -> Schedule:
    return generate(family, workers=workers, microbatches=microbatches, **options)


def jobs() -> list[MegatronJob]:
    zb_v, loop = table("zb-v"), table("interleaved-zb")
    ordered = [MegatronJob(f"{f} ordered", table(f), messages="ordered") for f in ("1f1b", "zb-v")]
    two = [
        MegatronJob(f"{f} ddp", table(f, 2), ddp=True, tied=tied)
        for f, tied in (("1f1b", True), ("zb-h1", True), ("interleaved-zb", True), ("zb-v", False))
    ]
    whole = [MegatronJob(f, table(f, **options)) for f, options in FAMILIES.items()]
    fused = {"gradient_accumulation_fusion": True}
    return [
        *whole,
        *ordered,
        *two,
        MegatronJob("zb-v per token", table("zb-v", 2), ddp=True, per_token=True),
        Refusal("tied V", zb_v, tied=True),
        Refusal("ends of a loop", zb_v, loop=True),
        Refusal("layers of a loop", zb_v, plain=True),
        Refusal("other chunks", table("1f1b"), loop=True),
        Refusal("microbatches", table("1f1b", microbatches=6)),
        Refusal("fused", loop, config=fused),
        Refusal("other layers", loop, extra=True),
        Refusal("lengths", loop, config={"variable_seq_lengths": True}),
    ]


WANTED = {
    "tied V": "embedding and output weights are shared, and the table has the first stage on "
    "rank 0 and the last stage on rank 0",
    "ends of a loop": "the chunk of stage 7 has pre_process, post_process and layers "
    "(False, False, [8]), wanted (False, True, [8])",
    "layers of a loop": "layer_layout(table, layers), which must be pipeline_model_parallel_layout",
    "other chunks": "the table has stages [0] here, and the model 2 chunks",
    "microbatches": "has 6 microbatches, and the step 4",
    "fused": "gradient_accumulation_fusion=True): wanted Column- and RowParallelLinear",
    "other layers": "weight gradient of extra (torch.nn.modules.linear.Linear, ",
    "lengths": "variable_seq_lengths works only with Megatron's own schedules",
}


def test_megatron_trains_by_tables(tmp_path: Path) -> None:
    for name, ranks in run(jobs(), tmp_path, "megatron_ranks", 120).items():
        if name in WANTED:
            assert any(WANTED[name] in found for found in ranks), (name, ranks)
            assert all(isinstance(found, str) and found != "not refused" for found in ranks), ranks
            continue
        for losses, gradients, count in ranks:
            assert count > 0 and losses <= 1e-12 and gradients <= 1e-12, (name, ranks)


def test_the_page_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "Megatron.md").read_text(encoding="utf-8")
    blocks = {kind: page.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text")}
    exec(compile(blocks["python"], "Megatron.md", "exec"), {})
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == blocks["text"].splitlines()


def test_other_tables_are_refused() -> None:
    from pipesched import PipeSchedError
    from pipesched.megatron import forward_backward

    empty = problem(workers=3, microbatches=2, paths=[[0, 2, 0]])
    with pytest.raises(PipeSchedError, match=r"\[2, 0, 1\] stages on its ranks"):
        forward_backward(empty)
    with pytest.raises(PipeSchedError, match="2 paths"):
        forward_backward(generate("chimera", workers=2, microbatches=4))
    with pytest.raises(PipeSchedError, match="0R0, which Megatron-Core does not"):
        forward_backward(table("1f1b").transform("pipe-add-recompute"))
    with pytest.raises(PipeSchedError, match=r"stage 0 .* in the order \[1, 0\]"):
        forward_backward(Schedule.from_rows(["0F1 0F0 0B1 0B0"]))

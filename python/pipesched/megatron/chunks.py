"""Places Megatron's chunks and layers as a table does, and checks that they are placed so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.common.language_module.language_module import LanguageModule
from megatron.core.transformer.enums import LayerType
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
from megatron.core.utils import get_attr_wrapped_model
from torch import nn

from ..errors import PipeSchedError
from ..schedule.schedule import Schedule

TIED_ON_V = (
    "embedding and output weights are shared, and the table has the first stage on rank {first} "
    "and the last stage on rank {last}: Megatron sums their gradients between the first and the "
    "last rank, and waits without end where both are on one; set "
    "share_embeddings_and_output_weights to False, or place the last stage on the last rank"
)


def placement_of(table: Schedule) -> list[list[int]]:
    """Returns the stages of each rank, ascending: chunk v of a rank is the v-th of them."""
    if table.slices > 1 or len(table.paths) > 1:
        raise PipeSchedError(
            f"{table.name} has {len(table.paths)} paths and {table.slices} slices; Megatron-Core "
            "runs one path of whole microbatches"
        )
    placement = [[each.stage for each in table.stages(rank)] for rank in range(table.workers)]
    for rank, stages in enumerate(placement):
        if not stages:
            raise PipeSchedError(
                f"rank {rank} has no stage in {table.name}; Megatron-Core needs a chunk on each"
            )
        if len(stages) != len(placement[0]):
            raise PipeSchedError(
                f"rank {rank} has {len(stages)} stages in {table.name}, and rank 0 has "
                f"{len(placement[0])}; Megatron-Core needs equally many"
            )
    return placement


def _tied_on_v(placement: list[list[int]]) -> str | None:
    last = max(map(max, placement))
    first, last = (next(r for r, s in enumerate(placement) if n in s) for n in (0, last))
    if (first, last) == (0, len(placement) - 1):
        return None
    return TIED_ON_V.format(first=first, last=last)


class _PlacedLayout(PipelineParallelLayerLayout):  # type: ignore[misc]
    """A layout whose chunk v of rank r is the stage that the table has there. Megatron's own is
    stage v D + r always, which gives the layers of a V the wrong numbers.
    """

    def __init__(self, layers: list[list[str]], placement: list[list[int]]) -> None:
        super().__init__(layers, len(placement))
        self._layers, self._placement = layers, placement
        kinds = [[LayerType[name] for name in stage] for stage in layers]
        self.layout = [[kinds[stage] for stage in stages] for stages in placement]

    def get_layer_offset(
        self,
        layer_type: Any = LayerType.decoder,
        vp_stage: int | None = None,
        pp_rank: int | None = None,
    ) -> int:
        """Returns the number of layers in all earlier stages."""
        rank = parallel_state.get_pipeline_model_parallel_rank() if pp_rank is None else pp_rank
        stage = self._placement[rank][vp_stage or 0]
        return sum(each.count(layer_type.name) for each in self._layers[:stage])


def layer_layout(table: Schedule, num_layers: int) -> PipelineParallelLayerLayout:
    """Returns the `pipeline_model_parallel_layout` for a TransformerConfig: layers on stages as in
    the table, divided equally if it has fewer blocks.
    """
    placement = placement_of(table)
    if num_layers % table.blocks:
        raise PipeSchedError(
            f"{num_layers} layers are not divisible by the {table.blocks} blocks of {table.name}"
        )
    each = num_layers // table.blocks
    layers: dict[int, list[str]] = {}
    for rank in range(table.workers):
        for stage in table.stages(rank):
            layers[stage.stage] = ["decoder"] * (each * len(stage.blocks))
    found = [layers[stage] for stage in sorted(layers)]
    found[0].insert(0, "embedding")
    found[-1].append("loss")
    return _PlacedLayout(found, placement)


def build_chunks(table: Schedule, build: Callable[..., nn.Module]) -> list[nn.Module]:
    """Returns the chunks of this rank. build: called with pre_process, post_process and vp_stage,
    as Megatron's model providers are.
    """
    placement = placement_of(table)
    stages = placement[parallel_state.get_pipeline_model_parallel_rank()]
    last, reason = max(map(max, placement)), _tied_on_v(placement)

    def refuse(_: Any) -> bool:
        raise PipeSchedError(f"{reason}")

    def make() -> list[nn.Module]:
        return [
            build(
                pre_process=stage == 0,
                post_process=stage == last,
                vp_stage=chunk if len(stages) > 1 else None,
            )
            for chunk, stage in enumerate(stages)
        ]

    if reason is None:
        return make()
    with patch.object(LanguageModule, "_is_in_embd_group", refuse):  # where Megatron would hang
        chunks = make()
    if any(getattr(chunk, "share_embeddings_and_output_weights", False) for chunk in chunks):
        raise PipeSchedError(reason)  # on ranks without embedding, which would wait
    return chunks


def _describe(
    table: Schedule, chunks: Sequence[nn.Module], microbatches: int, group: dist.ProcessGroup
) -> list[tuple[int, list[int]]]:
    """Returns stage and layer numbers of each chunk of this rank; raises if they do not fit."""
    placement = placement_of(table)
    if len(placement) != group.size():
        raise PipeSchedError(
            f"{table.name} has {len(placement)} workers, and the pipeline {group.size()} ranks"
        )
    if table.microbatches != microbatches:
        raise PipeSchedError(
            f"{table.name} has {table.microbatches} microbatches, and the step {microbatches}"
        )
    stages, last = placement[group.rank()], max(map(max, placement))
    if len(chunks) != len(stages):
        raise PipeSchedError(
            f"the table has stages {stages} here, and the model {len(chunks)} chunks"
        )
    found = []
    for stage, chunk in zip(stages, chunks, strict=True):
        model = get_attr_wrapped_model(chunk, "pre_process", return_model_obj=True)
        ends = {"pre_process": stage == 0, "post_process": stage == last}
        for name, wanted in ends.items():
            if getattr(model, name) != wanted:
                raise PipeSchedError(
                    f"the chunk of stage {stage} has {name}={getattr(model, name)}, wanted {wanted}"
                )
        if getattr(model, "share_embeddings_and_output_weights", False):
            if reason := _tied_on_v(placement):
                raise PipeSchedError(reason)
        layers = getattr(getattr(model, "decoder", None), "layers", ())
        found.append((stage, [layer.layer_number for layer in layers]))
    return found


def check_chunks(
    table: Schedule,
    chunks: Sequence[nn.Module],
    microbatches: int,
    group: dist.ProcessGroup,
    check_here: Callable[[], None],
) -> None:
    """Compares the chunks of all ranks with the stages. An error of one rank, also of `check_here`,
    is raised on all of them.
    """
    mine: Any
    try:
        check_here()
        mine = _describe(table, chunks, microbatches, group), str(table)
    except PipeSchedError as error:
        mine = f"rank {group.rank()}: {str(error).removeprefix('error: ')}"
    everyone: list[Any] = [None] * group.size()
    dist.all_gather_object(everyone, mine, group=group)
    for one in everyone:
        if isinstance(one, str):
            raise PipeSchedError(one)
    if differing := [rank for rank, one in enumerate(everyone) if one[1] != everyone[0][1]]:
        raise PipeSchedError(f"rank {differing[0]} has another table than rank 0")
    after = 1
    for stage, layers in sorted(found for one in everyone for found in one[0]):
        if layers != list(range(after, after + len(layers))):
            raise PipeSchedError(
                f"stage {stage} has the layers {layers}, wanted {len(layers)} from {after} on: "
                "pipeline_model_parallel_layout of the TransformerConfig must be "
                "layer_layout(table, layers)"
            )
        after += len(layers)

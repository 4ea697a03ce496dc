"""Runs any table as the schedule of Megatron-Core (docs/Megatron.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from inspect import signature
from itertools import chain, cycle
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .errors import PipeSchedError, needing
from .schedule.program import programs_of
from .schedule.schedule import Schedule
from .torch import PipelineRuntime

with needing(__name__, "Megatron-Core", "pip install megatron-core==0.16.1"):
    from megatron.core import parallel_state, tensor_parallel

from megatron.core.models.common.language_module.language_module import LanguageModule
from megatron.core.pipeline_parallel import schedules
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.enums import LayerType
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset
from megatron.core.utils import get_attr_wrapped_model, get_model_config

REFUSED = (
    "variable_seq_lengths",
    "defer_embedding_wgrad_compute",
    "num_microbatches_with_partial_activation_checkpoints",
    "overlap_moe_expert_parallel_comm",
    "fine_grained_activation_offloading",
    "hybrid_context_parallel",
)
"""Fields of Megatron's configuration that only its own schedules implement."""


def _workers_of(table: Schedule) -> list[int]:
    """Returns the rank of each stage. Chunk v of a rank is the v-th of its stages."""
    ranks = range(table.workers)
    workers = [r for _, r in sorted((each.stage, r) for r in ranks for each in table.stages(r))]
    counts = list(map(workers.count, ranks))
    if table.slices > 1 or len(table.paths) > 1 or not min(counts) == max(counts) > 0:
        raise PipeSchedError(
            f"{table.name} has {len(table.paths)} paths, {table.slices} slices and {counts} stages "
            "on its ranks; Megatron-Core runs one path of whole microbatches, with equally many "
            "stages on all ranks"
        )
    return workers


def _stages_of(workers: Sequence[int], rank: int) -> list[int]:
    return [stage for stage, worker in enumerate(workers) if worker == rank]


class _PlacedLayout(PipelineParallelLayerLayout):  # type: ignore[misc]
    """A layout whose chunk v of rank r is the stage that the table has there. Megatron's own is
    stage v D + r always, which gives the layers of a V the wrong numbers.
    """

    def __init__(self, layers: list[list[str]], workers: list[int]) -> None:
        size = 1 + max(workers)
        super().__init__(layers, size)
        self.workers = workers
        self.stages = [[LayerType[name] for name in stage] for stage in layers]
        self.layout = [[self.stages[s] for s in _stages_of(workers, r)] for r in range(size)]

    def get_layer_offset(
        self, layer_type: Any = LayerType.decoder, vp_stage: Any = None, pp_rank: Any = None
    ) -> int:
        """Returns the number of layers of all earlier stages."""
        rank = parallel_state.get_pipeline_model_parallel_rank() if pp_rank is None else pp_rank
        stage = _stages_of(self.workers, rank)[vp_stage or 0]
        return sum(layers.count(layer_type) for layers in self.stages[:stage])


def layer_layout(table: Schedule, num_layers: int) -> PipelineParallelLayerLayout:
    """Returns the `pipeline_model_parallel_layout` for a TransformerConfig: layers on stages as in
    the table, divided equally if it has fewer blocks.
    """
    workers = _workers_of(table)
    each, rest = divmod(num_layers, table.blocks)
    if rest:
        raise PipeSchedError(
            f"{num_layers} layers are not divisible by the {table.blocks} blocks of {table.name}"
        )
    stages = sorted(chain(*map(table.stages, range(table.workers))))
    layers = [["decoder"] * (each * len(stage.blocks)) for stage in stages]
    layers[0].insert(0, "embedding")
    layers[-1].append("loss")
    return _PlacedLayout(layers, workers)


def build_chunks(table: Schedule, build: Callable[..., nn.Module]) -> list[nn.Module]:
    """Returns the chunks of this rank. build: called with pre_process, post_process and vp_stage,
    as Megatron's model providers are.
    """
    workers = _workers_of(table)
    stages = _stages_of(workers, parallel_state.get_pipeline_model_parallel_rank())
    last, is_virtual = len(workers) - 1, len(stages) > 1
    is_in_group = LanguageModule._is_in_embd_group
    check = lambda model: is_in_group(_check_tied(model, workers))  # where Megatron would hang
    with patch.object(LanguageModule, "_is_in_embd_group", check):
        chunks = [
            build(pre_process=s == 0, post_process=s == last, vp_stage=v if is_virtual else None)
            for v, s in enumerate(stages)
        ]
    return [_check_tied(chunk, workers) for chunk in chunks]  # on ranks without embedding, too


def _check_tied(model: Any, workers: Sequence[int]) -> Any:
    """Returns a model whose weights Megatron can tie on this placement."""
    is_tied = getattr(model, "share_embeddings_and_output_weights", False)
    if is_tied and (workers[0], workers[-1]) != (0, max(workers)):
        raise PipeSchedError(
            "embedding and output weights are shared, and the table has the first stage on rank "
            f"{workers[0]} and the last stage on rank {workers[-1]}: Megatron sums their gradients "
            "between the first and the last rank, and waits without end where both are on one; set "
            "share_embeddings_and_output_weights to False, or place the last stage on the last rank"
        )
    return model


def _split_linears(chunk: nn.Module) -> None:
    """Replaces Megatron's products, which compute both gradients at once, by PyTorch's."""
    linears = tensor_parallel.ColumnParallelLinear, tensor_parallel.RowParallelLinear
    embeddings = tensor_parallel.VocabParallelEmbedding, nn.Embedding
    for name, module in chunk.named_modules():
        own = [p for p in module.parameters(recurse=False) if p.requires_grad and p.dim() > 1]
        fused = getattr(module, "gradient_accumulation_fusion", False)
        if isinstance(module, linears) and not fused:
            vars(module)["_forward_impl"] = _product
        elif own and not isinstance(module, embeddings):
            kind = f"{type(module).__module__}.{type(module).__name__}"
            raise PipeSchedError(
                f"W cannot compute the weight gradient of {name} ({kind}, "
                f"gradient_accumulation_fusion={fused}): wanted Column- and RowParallelLinear "
                "without fusion (the local layer spec); Transformer Engine before 2.3 cannot delay "
                "weight gradients, and its delay_wgrad_compute is not used. Tables with whole "
                "backwards B run all layers"
            )


def _product(input: Tensor, weight: Tensor, bias: Tensor | None, **options: Any) -> Tensor:
    group = options["tp_group"]
    if options["sequence_parallel"]:
        input = tensor_parallel.gather_from_sequence_parallel_region(input, True, group)
    elif options["allreduce_dgrad"]:
        input = tensor_parallel.copy_to_tensor_model_parallel_region(input, group)
    return nn.functional.linear(input, weight, bias)


class _Stage(nn.Module):
    """A chunk as a stage of the runtime. arguments: of Megatron's forward step."""

    def __init__(self, chunk: Any, **arguments: Any) -> None:
        super().__init__()
        self.chunk, self.arguments = chunk, arguments
        self.tokens: Any = 0

    def forward(self, value: Tensor) -> Any:
        """Runs the next microbatch; returns its output, or its loss as it is differentiated."""
        now, given = self.arguments, value if value.numel() else None
        output, tokens = schedules.forward_step(model=self.chunk, input_tensor=given, **now)
        self.tokens += tokens.to(output.device, torch.int)
        now["current_microbatch"] += 1
        now["is_first_microbatch"] = False
        scale = now["config"].grad_scale_func
        is_loss = now["is_last_stage"] and torch.is_grad_enabled()
        return scale(output) if is_loss and scale is not None else output


class _Steps:
    """Runs the steps of one table on this rank."""

    runtime: PipelineRuntime

    def __init__(self, table: Schedule, options: dict[str, Any]) -> None:
        self.table, self.options, self.workers = table, options, _workers_of(table)
        self.chunks: list[nn.Module] = []
        self.stages: dict[int, _Stage] = {}
        programs = programs_of(table, "FBIW", "Megatron-Core")
        cells = [c for each in chain(*programs) if each.kind == "compute" for c in each.cells]
        self.is_split = any(cell.phase == "W" for cell in cells)
        for stage in range(len(self.workers)):
            order = [c.microbatch for c in cells if c.phase == "F" and c.stage == stage]
            if order != sorted(order):
                raise PipeSchedError(
                    f"stage {stage} takes its microbatches in the order {order}; data iterators "
                    "give them in ascending order only"
                )

    def _prepare(self, chunks: list[nn.Module], group: Any) -> None:
        """Makes the runtime for a model. An error of one rank ends all of them."""
        self.stages, self.chunks = {}, []
        find = lambda _, stage: self._stage(chunks, stage)
        self.runtime = PipelineRuntime(
            self.table, find, group=group, tied=(), adds_up=True, **self.options
        )
        self.chunks = chunks
        for stage, each in self.stages.items():
            # The hooks of DDP are off in a step, so it is told when gradients are complete.
            if getattr(getattr(each.chunk, "ddp_config", None), "overlap_grad_reduce", False):
                self.runtime.after_backwards(0, stage, each.chunk.start_grad_sync)

    def _stage(self, chunks: Sequence[nn.Module], stage: int) -> _Stage:
        """Returns the chunk of a stage. Raises an error if it is another one."""
        rank, last = self.workers[stage], len(self.workers) - 1
        stages = _stages_of(self.workers, rank)
        if len(chunks) != len(stages):
            raise PipeSchedError(
                f"the table has stages {stages} here, and the model {len(chunks)} chunks"
            )
        number = stages.index(stage)
        chunk = chunks[number]
        model = get_attr_wrapped_model(chunk, "pre_process", return_model_obj=True)
        for name in REFUSED:
            if getattr(model.config, name, None):
                raise PipeSchedError(f"{name} works only with Megatron's own schedules; unset it")
        _check_tied(model, self.workers)
        layers = [each.layer_number for each in model.decoder.layers]
        first = 1 + get_transformer_layer_offset(model.config, number, rank)
        found = model.pre_process, model.post_process, layers
        wanted = stage == 0, stage == last, list(range(first, first + len(layers)))
        loop = [s % self.table.workers for s in range(last + 1)]  # as Megatron places stages
        placed = getattr(model.config.pipeline_model_parallel_layout, "workers", loop)
        if found != wanted or placed != self.workers:
            raise PipeSchedError(
                f"the chunk of stage {stage} has pre_process, post_process and layers {found}, "
                f"wanted {wanted} by layer_layout(table, layers), which must be "
                "pipeline_model_parallel_layout of the TransformerConfig"
            )
        if self.is_split:
            _split_linears(chunk)
        virtual = number if len(stages) > 1 else None
        self.stages[stage] = _Stage(chunk, vp_stage=virtual, is_last_stage=stage == last)
        return self.stages[stage]

    def __call__(self, **given: Any) -> list[Any]:
        """Runs a step; returns the results of the loss function on the rank of the last stage."""
        bound = signature(schedules.forward_backward_no_pipelining).bind(**given)
        bound.apply_defaults()
        of, count = SimpleNamespace(**bound.arguments), self.table.microbatches
        if of.num_microbatches != count:
            raise PipeSchedError(
                f"{self.table.name} has {count} microbatches, and the step {of.num_microbatches}"
            )
        chunks, iterators = (
            each if isinstance(each, list) else [each] for each in (of.model, of.data_iterator)
        )
        groups = of.pg_collection or ProcessGroupCollection.use_mpu_process_groups()
        if list(map(id, chunks)) != list(map(id, self.chunks)):
            self._prepare(chunks, groups.pp)
        config, found = get_model_config(chunks[0]), list[Any]()
        for each, iterator in zip(self.stages.values(), cycle(iterators)):
            each.tokens = 0
            each.arguments.update(
                current_microbatch=0,
                forward_step_func=of.forward_step_func,
                data_iterator=iterator,
                num_microbatches=count,
                forward_data_store=found,
                config=config,
                cp_group_size=groups.cp.size(),
                collect_non_loss_data=of.collect_non_loss_data,
                is_first_microbatch=not of.forward_only or of.first_val_step in (None, True),
            )
        # No values, but a shape, from which the shapes of messages follow.
        inputs = [torch.empty(of.seq_length, of.micro_batch_size, 0)] * count
        if of.forward_only:
            self.runtime.evaluate(inputs)
            return found
        with ExitStack() as stack:
            for chunk in chunks:
                stack.enter_context(getattr(chunk, "no_sync", nullcontext)())
            self.runtime.step(inputs)
        if config.finalize_model_grads_func is not None:
            tokens = None
            if config.calculate_per_token_loss:
                # Megatron takes the number of the last rank, which need not have the last stage.
                tokens = sum(each.tokens for each in self.stages.values())
                dist.all_reduce(tokens, group=groups.pp)
            config.finalize_model_grads_func(
                chunks, tokens, pg_collection=groups, force_all_reduce=of.force_all_reduce
            )
        return found


def forward_backward(table: Schedule, **options: Any) -> Callable[..., list[Any]]:
    """Returns a function with the signature of the result of `get_forward_backward_func`, which
    runs a step in the order of the table. options: of `pipesched.torch.PipelineRuntime`, which the
    function has as `runtime` after its first call.
    """
    return _Steps(table, options)

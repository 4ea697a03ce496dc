"""Trains a GPT of Megatron-Core by tables and by its own 1F1B, on gloo and CPUs."""

from __future__ import annotations

import zlib
from functools import partial
from pathlib import Path
from typing import Any

import megatron_cpu  # noqa: F401  # before Megatron
import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.distributed.finalize_model_grads import finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from pipesched import PipeSchedError
from pipesched.megatron import build_chunks, forward_backward, layer_layout
from pipesched.torch import PipelineError
from runtime_ranks import difference
from test_megatron import MegatronJob, Refusal
from torch import Tensor

LAYERS, MICROBATCHES, STEPS = 8, 4, 2
LENGTH, VOCABULARY, WIDTH = 8, 16, 16


def start(stages: int, virtual: int | None) -> None:
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=stages, virtual_pipeline_model_parallel_size=virtual
    )
    tensor_parallel.random.initialize_rng_tracker(inference_rng_tracker=True, force_reset=True)


def config(stages: int, layout: Any, **options: Any) -> Any:
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=WIDTH,
        num_attention_heads=2,
        pipeline_model_parallel_size=stages,
        pipeline_model_parallel_layout=layout,
        params_dtype=torch.float64,
        pipeline_dtype=torch.float64,
        use_cpu_initialization=True,
        batch_p2p_comm=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        persist_layer_norm=False,
        gradient_accumulation_fusion=False,
        **options,
    )


def gpt(given: Any, tied: bool, **ends: Any) -> Any:
    return GPTModel(
        given,
        get_gpt_layer_local_spec(),
        VOCABULARY,
        LENGTH,
        share_embeddings_and_output_weights=tied,
        **ends,
    ).double()


def named(chunks: list[Any]) -> dict[str, Any]:
    found = {}
    for chunk in chunks:
        model = getattr(chunk, "module", chunk)
        for name, parameter in model.named_parameters():
            parts = name.split(".")
            if parts[:2] == ["decoder", "layers"]:
                parts[2] = str(model.decoder.layers[int(parts[2])].layer_number)
            found[".".join(parts)] = parameter
    return found


def fill(chunks: list[Any]) -> None:
    """Gives each parameter values by its name; tied copies get the values of the embedding."""
    for name, parameter in named(chunks).items():
        if getattr(parameter, "shared", False):
            name = "embedding.word_embeddings.weight"
        chance = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        with torch.no_grad():
            values = torch.randn(parameter.shape, generator=chance, dtype=torch.float64)
            parameter.copy_(0.2 * values + (1.0 if "norm" in name and "weight" in name else 0.0))


def batches(step: int, pipeline: int) -> list[Tensor]:
    chance = torch.Generator().manual_seed(100 * step + pipeline)
    return [
        torch.randint(VOCABULARY, (2, LENGTH + 1), generator=chance) for _ in range(MICROBATCHES)
    ]


def forward_step(data: Any, model: Any, per_token: bool) -> Any:
    tokens = next(data)
    places = torch.arange(LENGTH).expand(2, LENGTH)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).triu(1)
    output = model(tokens[:, :-1], places, mask, labels=tokens[:, 1:])
    if per_token:
        count = torch.tensor(tokens[:, 1:].numel(), dtype=torch.int)
        return output, lambda losses: (losses.sum(), count, losses.mean().detach().clone())
    return output, lambda losses: (losses.mean(), losses.mean().detach().clone())


def train(step_of: Any, chunks: list[Any], job: MegatronJob) -> list[tuple[list[Any], Any]]:
    """Losses and gradients of the whole model for each step, of all ranks of the pipeline."""
    is_wrapped = job.ddp
    group, found = parallel_state.get_pipeline_model_parallel_group(), []
    for step in range(STEPS):
        pipeline = parallel_state.get_data_parallel_rank()
        for chunk in chunks:
            if is_wrapped:
                chunk.zero_grad_buffer()
            chunk.zero_grad()
        losses = step_of(
            forward_step_func=partial(forward_step, per_token=job.per_token),
            data_iterator=[iter(batches(step, pipeline)) for _ in chunks],
            model=chunks,
            num_microbatches=MICROBATCHES,
            seq_length=LENGTH,
            micro_batch_size=2,
        )
        own = named(chunks)
        gradients = {n: p.main_grad if is_wrapped else p.grad for n, p in own.items()}
        everyone: list[Any] = [None] * group.size()
        dist.all_gather_object(everyone, ([x.item() for x in losses], gradients), group=group)
        merged = {n: g.clone() for _, each in everyone for n, g in each.items()}
        found.append(([loss for each in everyone for loss in each[0]], merged))
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.sub_(0.1 * gradients[name])
    return found


def wrapped(chunks: list[Any], given: Any, overlap: bool) -> list[Any]:
    options = DistributedDataParallelConfig(overlap_grad_reduce=overlap)
    given.finalize_model_grads_func = finalize_model_grads
    return [
        DistributedDataParallel(given, options, chunk, disable_bucketing=number > 0)
        for number, chunk in enumerate(chunks)
    ]


known: dict[Any, Any] = {}


def reference(job: MegatronJob) -> Any:
    """The results of Megatron's own 1F1B for the model of a job, over as many ranks."""
    workers = job.table.workers
    key = workers, job.ddp, job.tied, job.per_token
    if key not in known:
        start(workers, None)
        given = config(workers, None, calculate_per_token_loss=job.per_token)
        rank = parallel_state.get_pipeline_model_parallel_rank()
        ends = {"pre_process": rank == 0, "post_process": rank == workers - 1}
        chunks = [gpt(given, job.tied, **ends)]
        fill(chunks)
        chunks = wrapped(chunks, given, overlap=False) if job.ddp else chunks
        known[key] = train(get_forward_backward_func(), chunks, job)
    return known[key]


def chunks_of(job: MegatronJob) -> Any:
    workers, own = job.table.workers, {"virtual_pipeline_model_parallel_size": 2}
    layout = layer_layout(job.table, LAYERS)
    virtual = layout.virtual_pipeline_model_parallel_size
    if job.loop:
        start(workers, 2)
        given = config(workers, layout) if virtual == 2 else config(workers, None, **own)
        rank = parallel_state.get_pipeline_model_parallel_rank()
        ends = [(rank == 0, False), (False, rank == workers - 1)]
        return given, [
            gpt(given, job.tied, pre_process=first, post_process=last, vp_stage=number)
            for number, (first, last) in enumerate(ends)
        ]
    start(workers, virtual if virtual > 1 else None)
    more = {"calculate_per_token_loss": job.per_token}
    given = config(workers, None, **own) if job.plain else config(workers, layout, **more)
    chunks = build_chunks(job.table, partial(gpt, given, job.tied))
    if job.extra:
        chunks[0].extra = torch.nn.Linear(2, 2)
    for name, value in job.config.items():  # Megatron itself refuses some of them on CPUs
        setattr(given, name, value)
    for chunk in chunks if job.config.get("gradient_accumulation_fusion") else ():
        for module in chunk.modules():
            if hasattr(module, "gradient_accumulation_fusion"):
                module.gradient_accumulation_fusion = True  # type: ignore[assignment]
    return given, chunks


def run_job(job: MegatronJob, _: dist.ProcessGroup, __: Path) -> Any:
    """Returns the largest errors of losses and gradients, and the number of comparisons."""
    if isinstance(job, Refusal):
        try:
            _, chunks = chunks_of(job)
            train(forward_backward(job.table), chunks, job)
        except (PipeSchedError, PipelineError) as error:
            return str(error)
        return "not refused"
    wanted = reference(job)
    given, chunks = chunks_of(job)
    fill(chunks)
    chunks = wrapped(chunks, given, overlap=True) if job.ddp else chunks
    step: Any = forward_backward(job.table, messages=job.messages)
    found = train(step, chunks, job)
    if job.name == "zb-v":
        with step.runtime.record() as recording:
            train(step, chunks, job)
        assert recording.gather().steps == STEPS
    losses = gradients = 0.0
    for (mine, own), (theirs, like) in zip(found, wanted, strict=True):
        assert len(mine) == len(theirs) == MICROBATCHES and own.keys() == like.keys()
        losses = max([losses, *(abs(a - b) for a, b in zip(mine, theirs, strict=True))])
        gradients = max([gradients, *(difference(own[name], like[name]) for name in like)])
    return losses, gradients, len(wanted[0][1])

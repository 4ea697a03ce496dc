"""The step of a table over Megatron's own forward and backward steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, get_args

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.pipeline_parallel.schedules import (
    backward_step,
    check_first_val_step,
    deallocate_output_tensor,
    forward_step,
    get_tensor_shapes,
)
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.utils import get_model_config, get_model_type

from ..errors import PipeSchedError
from ..schedule.program import Cell, Instruction
from ..schedule.schedule import Schedule
from ..torch.comm.messages import batches_of
from ..torch.runtime.setup import MessageKind
from .chunks import check_chunks, placement_of
from .linears import WeightQueues

REFUSED = (
    "variable_seq_lengths",
    "defer_embedding_wgrad_compute",
    "num_microbatches_with_partial_activation_checkpoints",
    "overlap_moe_expert_parallel_comm",
    "fine_grained_activation_offloading",
    "hybrid_context_parallel",
)
"""Fields of Megatron's configuration that only its own schedules implement."""


def forward_backward(
    table: Schedule, *, messages: MessageKind | None = None
) -> Callable[..., list[Any]]:
    """Returns a function with the signature of the result of `get_forward_backward_func`, which
    runs a step in the order of the table. messages: whether messages find each other by tags, as
    with gloo and MPI, or by their order; by default as the backend of the pipeline's group does it.
    """
    if messages not in (None, *get_args(MessageKind)):
        raise PipeSchedError(f"messages is {messages!r}; wanted tags or ordered")
    placement_of(table)
    return _Steps(table, messages)


def _groups() -> ProcessGroupCollection:
    found = ProcessGroupCollection()
    found.tp = parallel_state.get_tensor_model_parallel_group()
    found.cp = parallel_state.get_context_parallel_group()
    found.pp = parallel_state.get_pipeline_model_parallel_group()
    found.embd = parallel_state.get_embedding_group(check_initialized=False)
    found.pos_embd = parallel_state.get_position_embedding_group(check_initialized=False)
    found.dp_cp = parallel_state.get_data_parallel_group(
        with_context_parallel=True, partial_data_parallel=False
    )
    return found


class _Steps:
    """State of a table kept between steps."""

    def __init__(self, table: Schedule, messages: MessageKind | None) -> None:
        self.table, self.messages = table, messages
        self.program: list[Instruction] = []
        self.batches: dict[int, list[Instruction]] = {}
        """Messages that are issued together, by the index of the first."""
        self.chunk_of: dict[int, int] = {}
        self.split: set[tuple[int, int]] = set()
        self.queues: WeightQueues | None = None
        self.has_tags = True
        self.prepared: list[Any] | None = None

    def prepare(self, chunks: list[Any], microbatches: int, config: Any, group: Any) -> None:
        """Checks all that does not change, once for each model."""
        if self.prepared is not None and list(map(id, self.prepared)) == list(map(id, chunks)):
            return
        check_here = lambda: self._prepare_here(chunks, config, group)
        check_chunks(self.table, chunks, microbatches, group, check_here)
        self.prepared = chunks

    def _prepare_here(self, chunks: list[Any], config: Any, group: Any) -> None:
        if group.size() != self.table.workers:
            return  # The comparison of the chunks says so.
        for name in REFUSED:
            if getattr(config, name, None):
                raise PipeSchedError(f"{name} works only with Megatron's own schedules; unset it")
        kind = str(dist.get_backend(group))
        self.has_tags = self.messages == "tags" or (
            self.messages is None and kind in ("gloo", "mpi")
        )
        for rules in ("unbounded",) if self.has_tags else ("fifo", "batched"):
            self.table.verify(rules)  # type: ignore[arg-type]
        self.program = list(self.table.program(group.rank()))
        self.batches = {batch[0].index: batch for batch in batches_of(self.program)}
        stages = [each.stage for each in self.table.stages(group.rank())]
        self.chunk_of = {stage: number for number, stage in enumerate(stages)}
        cells = [cell for one in self.program if one.kind == "compute" for cell in one.cells]
        self._check_cells(cells)
        self.split = {(cell.stage, cell.microbatch) for cell in cells if cell.phase == "W"}
        if self.split:
            self.queues = WeightQueues(chunks)

    def _check_cells(self, cells: list[Cell]) -> None:
        kinds = {one.kind for one in self.program} - {"compute", "send", "recv", "wait"}
        odd = [str(cell) for cell in cells if cell.phase not in "FBIW"]
        if kinds or odd:
            what = ", ".join([*sorted(kinds), *odd[:3]])
            raise PipeSchedError(f"{self.table.name} has {what}; Megatron-Core runs F, B, I and W")
        for stage in self.chunk_of:
            order = [c.microbatch for c in cells if c.phase == "F" and c.stage == stage]
            if order != sorted(order):
                raise PipeSchedError(
                    f"stage {stage} takes its microbatches in the order {order}; data iterators "
                    "give them in ascending order only"
                )

    def __call__(
        self,
        *,
        forward_step_func: Callable[..., Any],
        data_iterator: Iterator[Any] | list[Iterator[Any]],
        model: Any,
        num_microbatches: int,
        seq_length: int,
        micro_batch_size: int,
        decoder_seq_length: int | None = None,
        forward_only: bool = False,
        collect_non_loss_data: bool = False,
        first_val_step: bool | None = None,
        adjust_tensor_shapes_fn: Callable[..., Any] | None = None,
        p2p_communicator: Any = None,
        pg_collection: Any = None,
        force_all_reduce: bool | None = False,
    ) -> list[Any]:
        """Runs a step; returns the results of the loss function for each microbatch, on the rank of
        the last stage, and otherwise an empty list.
        """
        chunks = list(model) if isinstance(model, list) else [model]
        data = data_iterator if isinstance(data_iterator, list) else [data_iterator] * len(chunks)
        if adjust_tensor_shapes_fn is not None:
            raise PipeSchedError("adjust_tensor_shapes_fn is not supported")
        config, groups = get_model_config(chunks[0]), pg_collection or _groups()
        self.prepare(chunks, num_microbatches, config, groups.pp)
        (shape,) = get_tensor_shapes(
            seq_length=seq_length,
            micro_batch_size=micro_batch_size,
            decoder_seq_length=decoder_seq_length,
            config=config,
            tp_group=groups.tp,
            cp_group=groups.cp,
        )
        step = _Step(self, chunks, data, config, groups, shape, forward_only)
        step.options = {
            "forward_step_func": forward_step_func,
            "collect_non_loss_data": collect_non_loss_data,
            "first_val_step": first_val_step,
        }
        with ExitStack() as stack:
            for chunk in chunks if not forward_only else ():
                if hasattr(chunk, "no_sync"):
                    stack.enter_context(chunk.no_sync())
            step.run()
        if config.finalize_model_grads_func is not None and not forward_only:
            tokens = None
            if config.calculate_per_token_loss:
                # Megatron takes the number of the last rank, which need not have the last stage.
                dist.all_reduce(step.tokens, group=groups.pp)
                tokens = step.tokens
            config.finalize_model_grads_func(
                chunks, tokens, pg_collection=groups, force_all_reduce=force_all_reduce
            )
        return step.found


class _Step:
    """State kept during a step."""

    options: dict[str, Any]

    def __init__(
        self,
        steps: _Steps,
        chunks: list[Any],
        data: list[Any],
        config: Any,
        groups: Any,
        shape: tuple[int, ...],
        forward_only: bool,
    ) -> None:
        self.steps, self.chunks, self.data = steps, chunks, data
        self.config, self.groups, self.shape = config, groups, shape
        self.forward_only = forward_only
        self.device = next(chunks[0].parameters()).device
        self.tokens = torch.zeros([], dtype=torch.int, device=self.device)
        self.found: list[Any] = []
        self.boxes: dict[tuple[str, int, int], Any] = {}
        """Inputs (x), outputs (y), their gradients (dx, dy), and the tensors that a backward needs
        (kept), by stage and microbatch.
        """
        self.coming: dict[tuple[str, int, int], Any] = {}
        self.sending: list[Any] = []
        self.last = max(map(max, placement_of(steps.table)))
        cells = (cell for one in steps.program if one.kind == "compute" for cell in one.cells)
        self.left = Counter(cell.stage for cell in cells if cell.phase in "BIW")

    def run(self) -> None:
        """Runs the program of this rank."""
        for one in self.steps.program:
            if one.index in self.steps.batches:
                self._exchange(self.steps.batches[one.index])
            for cell in one.cells if one.kind == "compute" else ():
                if cell.phase == "F":
                    self._forward(cell)
                elif not self.forward_only:
                    self._backward(cell)
        for work, _ in self.sending:
            work.wait()

    def _exchange(self, batch: list[Instruction]) -> None:
        """Starts to send and receive messages that do not need each other."""
        batch = [one for one in batch if one.cell.phase == "F" or not self.forward_only]
        calls = [self._call(one) for one in batch]
        works: list[Any] = dist.batch_isend_irecv(calls) if calls else []
        if len(works) < len(calls):  # NCCL has one for all
            works = works * len(calls)
        self.sending = [each for each in self.sending if not each[0].is_completed()]
        for one, call, work in zip(batch, calls, works, strict=True):
            if one.kind == "send":
                self.sending.append((work, call.tensor))
                continue
            cell = one.cell
            place = ("x", cell.stage + 1) if cell.phase == "F" else ("dy", cell.stage - 1)
            self.coming[(*place, cell.microbatch)] = work, call.tensor

    def _call(self, one: Instruction) -> Any:
        assert one.peer is not None and one.sequence is not None
        cell, peer = one.cell, dist.get_global_rank(self.groups.pp, one.peer)
        tag = one.sequence % 32_768 if self.steps.has_tags else 0
        if one.kind == "recv":
            buffer = torch.empty(self.shape, dtype=self.config.pipeline_dtype, device=self.device)
            return dist.P2POp(dist.irecv, buffer, peer, self.groups.pp, tag)
        made = "y" if cell.phase == "F" else "dx"
        value = self.boxes.pop((made, cell.stage, cell.microbatch)).contiguous()
        return dist.P2POp(dist.isend, value, peer, self.groups.pp, tag)

    def _take(self, what: str, stage: int, microbatch: int) -> Any:
        place = (what, stage, microbatch)
        if place in self.coming:
            work, buffer = self.coming.pop(place)
            work.wait()
            return buffer
        return self.boxes.pop(place, None)

    def _enter(self, cell: Cell) -> None:
        if self.steps.queues is not None:
            place = cell.stage, cell.microbatch
            self.steps.queues.enter(*place, place in self.steps.split and not self.forward_only)

    def _forward(self, cell: Cell) -> None:
        stage, microbatch = cell.stage, cell.microbatch
        number = self.steps.chunk_of[stage]
        value = self._take("x", stage, microbatch)
        if value is not None and not self.forward_only:
            value.requires_grad_()
        self._enter(cell)
        output, tokens = forward_step(
            self.options["forward_step_func"],
            self.data[number],
            self.chunks[number],
            self.steps.table.microbatches,
            value,
            self.found,
            self.config,
            self.groups.cp.size(),
            self.options["collect_non_loss_data"],
            None,
            check_first_val_step(
                self.options["first_val_step"], self.forward_only, microbatch == 0
            ),
            microbatch,
            vp_stage=number if len(self.chunks) > 1 else None,
            is_last_stage=stage == self.last,
        )
        self.tokens += tokens.to(self.device)
        if stage < self.last:
            here = stage + 1 in self.steps.chunk_of
            place = ("x", stage + 1) if here else ("y", stage)
            self.boxes[(*place, microbatch)] = output.detach()
            if not self.forward_only:
                deallocate_output_tensor(output, self.config.deallocate_pipeline_outputs)
        if not self.forward_only:
            self.boxes["kept", stage, microbatch] = value, output

    def _backward(self, cell: Cell) -> None:
        stage, microbatch = cell.stage, cell.microbatch
        chunk = self.chunks[self.steps.chunk_of[stage]]
        if cell.phase == "W":
            assert self.steps.queues is not None
            self.steps.queues.run(stage, microbatch)
        else:
            self._enter(cell)
            value, output = self.boxes.pop(("kept", stage, microbatch))
            gradient = self._take("dy", stage, microbatch)
            found = backward_step(value, output, gradient, get_model_type(chunk), self.config)
            if stage > 0:
                here = stage - 1 in self.steps.chunk_of
                place = ("dy", stage - 1) if here else ("dx", stage)
                self.boxes[(*place, microbatch)] = found
        self.left[stage] -= 1
        if not self.left[stage]:
            # The hooks of DDP do not see W, so W reports when gradients are complete.
            if getattr(getattr(chunk, "ddp_config", None), "overlap_grad_reduce", False):
                chunk.start_grad_sync()

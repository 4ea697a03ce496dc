"""Training steps of one rank by a schedule."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import DeviceMesh

from pipesched import Measurement, Schedule
from pipesched.support.options import PairOrder, ReceivePlacement

from ..autograd.activation import refuse_graphs
from ..checkpoint.state import Flat, Misfit, Names
from ..checkpoint.state import Optimizers as StoredOptimizers
from ..core.batch import Batch, Count, Mode, Tokens, counts_of, cut_units, join_slices, units_of
from ..core.errors import PipelineError
from ..core.groups import store_of
from ..core.values import in_mode
from ..core.watch import Watch
from ..grad_sync.clip import Norm, clip, total_norm, values_of, with_infinity
from ..grad_sync.data_parallel import BufferRule, check_patterns
from ..grad_sync.reduce import checksum
from ..partition.placement import Stages, Tied
from ..profiling.memory import Memory
from ..profiling.record import Clocks, Event, Recording, gather
from ..vocabulary import VocabularyEmbedding, VocabularyHead
from .executor import Executor
from .setup import MessageKind, Optimizers, Options, Setup, Steps


def _group_of(given: dist.ProcessGroup | None) -> dist.ProcessGroup:
    if not dist.is_initialized():
        raise PipelineError("torch.distributed is not initialized: call init_process_group")
    found = given if given is not None else dist.group.WORLD
    assert found is not None
    return found


class PipelineRuntime:
    """One rank of a pipeline. Every rank of the group makes one, with the same arguments except
    `stages`, `optimizer` and `device`, and calls the same methods in the same order
    (docs/Torch.md).

    schedule: a schedule or program; worker w is rank w of the group.
    stages: the modules of this rank, as a mapping or function from (path, stage), asked only for
    stages of this rank. Stages of the same blocks are one module. A stage gets the entries of a
    tuple as arguments, unless it is an nn.Sequential, and any other value as one argument.
    loss: from output and target of a microbatch to its loss, a scalar; by default the output.
    group: a process group with one rank per worker; by default that of all ranks.
    optimizer: for O cells: a function from parameters to an optimizer, called for each stage
    with an O (`optimizers` has the results), or a mapping from (path, stage) to optimizers.
    scaler: a `torch.amp.GradScaler`, which scales losses; after `step` all ranks agree on whether
    gradients are finite.
    tied: parameters that stages share and whose gradients are added up: a list of ties, each a list
    of (stage, parameter name), on all paths, (path, stage, parameter name), or ("loss", parameter
    name). Ties that the runtime sees need no names. Without `tied`, equal values under different
    names on ranks that do not see each other's stages are refused; `tied=()` says that they are
    several parameters.
    vocabulary: the shard of the head of this rank, for a schedule with S and T cells
    (`pipesched.torch.vocabulary`). The last stage gives the input of the head, and the loss is the
    mean cross-entropy, with which a given `loss` is compared. All ranks need targets.
    embedding: the shard of the embedding, for a schedule with E and V cells. The first stage takes
    the output of the embedding, and all ranks need inputs.
    data_parallel: the same rank in other pipelines, with other batches: a process group, or a
    dimension of a device mesh (`mesh["dp"]`), over which gradients are averaged before O steps.
    Stages under DistributedDataParallel or fully_shard need it not.
    expert_parallel: patterns (`fnmatch`) of the names in a stage of parameters that `data_parallel`
    divides, as ["*.experts.*"]. Their gradients are sums over the pipelines already, by the
    exchanges of the stages, and are only divided by the number of pipelines.
    buffers: the treatment, at the end of a step, of buffers that several ranks hold: "own"
    (default), "average", or "first", the first replica's (default under DDP with
    `broadcast_buffers`).
    names: names of parameters and buffers in the whole model, for `state_dict`, `save` and `load`:
    a function from (path, stage, name), or a mapping from (path, stage) to a prefix.
    device: where tensors are wanted; by default that of the first parameter.
    receives: where the receives of a schedule are, as in `Schedule.program`.
    messages: "tags" (default for gloo and MPI) or "ordered". With "ordered", shapes, types and
    structures of messages must follow from the shapes of the batch, unless `static_shapes` is
    False.
    count: the tokens of which the loss of a microbatch is a mean, from its target, as `lambda
    target: (target != -100).sum()`. The loss of a step is then the mean over all tokens of all
    pipelines; otherwise microbatches weigh alike.
    adds_up: whether the loss of a step is the sum of the microbatches' losses, not their mean.
    check_slices: whether the first step compares slices with whole microbatches in each stage.
    parts_order: the order of parts of an overlapped pair (`pipesched.torch.parts`) on all ranks:
    "deepseek", "megatron", "in-turn", or the parts, "combine.I,attention.F,...".
    memory_budget: the most that this rank may hold: activations, or bytes that autograd keeps, with
    a unit ("2GiB").
    timeout: the longest time of every wait, in seconds.
    on_instruction: called with the times of each instruction.

    Raises PipelineError if the arguments do not fit together, or if the program could hang.
    """

    _recording: Recording | None = None
    _passes = _steps = 0
    _stepped: Sequence[weakref.ref[Tensor]] = ()

    def __init__(
        self,
        schedule: Schedule,
        stages: Stages,
        loss: Callable[[Any, Any], Tensor] | None = None,
        group: dist.ProcessGroup | None = None,
        *,
        optimizer: Optimizers | None = None,
        scaler: torch.amp.GradScaler | None = None,
        tied: Tied | None = None,
        vocabulary: VocabularyHead | None = None,
        embedding: VocabularyEmbedding | None = None,
        data_parallel: dist.ProcessGroup | DeviceMesh | None = None,
        expert_parallel: Sequence[str] = (),
        buffers: BufferRule | None = None,
        names: Names | None = None,
        device: torch.device | str | None = None,
        receives: ReceivePlacement | None = None,
        messages: MessageKind | None = None,
        static_shapes: bool = True,
        count: Count | None = None,
        adds_up: bool = False,
        check_slices: bool = True,
        parts_order: PairOrder | str = "deepseek",
        memory_budget: int | str | None = None,
        timeout: float = 300.0,
        on_instruction: Callable[[Event], Any] | None = None,
    ) -> None:
        found = _group_of(group)
        self._units = units_of(schedule)
        options = Options(
            schedule=self._units,
            stages=stages,
            loss=loss,
            group=found,
            optimizer=optimizer,
            tied=tied,
            vocabulary=vocabulary,
            embedding=embedding,
            device=device,
            receives=receives,
            messages=messages,
            static_shapes=static_shapes,
            memory_budget=memory_budget,
            data_parallel=data_parallel,
            expert_parallel=check_patterns(expert_parallel),
            buffers=buffers,
            order=parts_order,
            weighs=(count is not None, adds_up),
            slices=schedule.slices,
            checks_slices=check_slices,
        )
        self.schedule, self.on_instruction = schedule, on_instruction
        self._group, self._scaler = found, scaler
        if adds_up and count is not None:
            raise PipelineError("`count` weighs losses, which with `adds_up` do not have weights")
        self._count, self._tokens, self._adds_up = count, Tokens(), adds_up
        self._receives = receives or "arrival" if schedule.kind == "schedule" else None
        self._watch = self._watch_over(found, timeout)
        with self._guard(lambda: "making the runtime"):
            self._setup = setup = Setup(options, self._watch)
            self._clocks = Clocks(setup.link)
            self._clocks.compare()
        self._averages = setup.averages
        self._state, self._copies = setup.state(names), setup.copies()
        self._watch.stop()
        self.optimizers: dict[tuple[int, int], Steps] = setup.optimizers
        """The optimizers of O cells, by path and stage."""
        self._executor = Executor(setup)
        place = weakref.WeakMethod(self._executor.place)  # the watch lives longer
        self._watch.place = lambda: ((call := place()) is not None and call()) or "no step"

    def _watch_over(self, group: dist.ProcessGroup, timeout: float) -> Watch:
        rank, size = dist.get_rank(group), dist.get_world_size(group)
        watch = Watch(store_of(group), rank, size, timeout)
        if "gloo" in str(dist.get_backend(group)):
            watch.carry(group, rank, size)
        weakref.finalize(self, watch.close)  # before the interpreter ends
        watch.start()
        return watch

    @property
    def rank(self) -> int:
        """The rank in the group, which is the worker of the schedule."""
        return self._watch.rank

    def close(self) -> None:
        """Ends the threads of the runtime. No step can follow."""
        self._watch.close()

    # Steps

    def step(self, inputs: Any = None, targets: Any = None) -> Tensor | None:
        """Runs one step, and adds the gradients of the mean of the losses of all microbatches to
        the parameters of this rank. Gradients by which O cells have stepped are dropped when the
        next step starts. Returns the mean of the losses that this rank computed, None if it
        computed none.

        inputs, targets: a batch, whose tensors are cut along dimension 0 into equal microbatches (a
        tensor, or a tuple or dict of them), or a list of all microbatches. Ranks without a first
        stage need no inputs, ranks without a last stage no targets. If the schedule has slices,
        microbatches are cut along dimension 1, the tokens, into equal slices, unless a microbatch
        of the list is a list of its slices; a loss is the loss of a slice.

        Raises the exception of a stage or of the loss, with a note that names the cell; RemoteError
        if another rank failed; PipelineTimeout. After an error the runtime cannot be used any more.
        """
        self._drop_stepped()
        self._check_trains()
        batch = self._batch("train", inputs, targets)
        self._run(batch)
        if self._scaler is not None:
            # The exchange waits for other ranks, which may fail meanwhile.
            looking_for = lambda: "looking for gradients that are not finite"
            with self._watch.looking(), self._guard(looking_for):
                self._share_overflow()
        self._steps += 1
        if self.optimizers:
            found = [p.grad for p in self.parameters() if p.grad is not None]
            self._stepped = [weakref.ref(gradient) for gradient in found]
        if batch.tokens is not None:
            batch.tokens.end()
        return batch.mean()

    def _check_trains(self) -> None:
        if any(path.forward_only for path in self.schedule.paths):
            raise PipelineError("the schedule has no backwards: call evaluate()")
        with self._guard(lambda: "looking for trained parameters of frozen stages"):
            self._setup.placement.check_frozen()

    def _drop_stepped(self) -> None:
        """Drops the gradients by which O has stepped, unless the caller has replaced them."""
        known = {id(gradient) for each in self._stepped if (gradient := each()) is not None}
        for parameter in self.parameters() if known else ():
            if id(parameter.grad) in known:
                parameter.grad = None
        self._stepped = []

    def evaluate(self, inputs: Any = None, targets: Any = None) -> Any:
        """Runs only the forwards, without gradients and with the modules in evaluation mode. With
        targets it returns the same as `step`; without them a list of the outputs of all
        microbatches, None for outputs of other ranks. Ranks without a last stage return None.
        """
        batch = self._batch("evaluate", inputs, targets)
        modules = [m for root in self._setup.placement.roots() for m in root.modules()]
        with in_mode(modules, is_training=False):
            self._run(batch)
        if batch.losses:
            return batch.mean()
        if not batch.outputs:
            return None
        found = [batch.outputs.get(number) for number in range(self._units.microbatches)]
        return join_slices(found, self.schedule.slices)

    def parameters(self) -> list[nn.Parameter]:
        """Returns the parameters of this rank, each once, for an optimizer, also frozen ones, as
        `nn.Module.parameters` gives them: they may be unfrozen later. On ranks that compute losses
        also the parameters of the loss, if it is a module.

        They are a part of the model: `torch.nn.utils.clip_grad_norm_` would clip each rank by its
        own norm. Use `clip_grad_norm_` of the runtime.
        """
        return self._setup.placement.distinct_parameters()

    def clip_grad_norm_(
        self, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
    ) -> Tensor:
        """Scales the gradients of all ranks so that their norm together is at most `max_norm`, as
        `torch.nn.utils.clip_grad_norm_` does with the whole model. Replicas and tied parameters
        count once, shards of `fully_shard` together. Returns the norm before, the same on all
        ranks. All ranks of all pipelines call it, between `step` and the step of the optimizer;
        with a GradScaler after `scaler.unscale_`.
        """
        if self.optimizers:
            raise PipelineError(
                "the O cells of the schedule have stepped already when step() returns: to clip "
                "gradients, take a schedule without O and step after clipping"
            )
        shared = self._setup.sums.shared
        with self._watch.looking(), self._guard(lambda: "clipping gradients"):
            norm = Norm(norm_type, self._watch, self._setup.device)
            mine = self.parameters()
            chosen = [p for p in mine if id(p) not in self._find_counted_twice()]
            total = total_norm(chosen, shared, norm, self._watch, self._averages)
        if error_if_nonfinite and not bool(total.isfinite()):
            raise RuntimeError(
                f"the norm of order {norm_type:g} of the gradients is {total.item()}, which is "
                "not finite, so they cannot be clipped; give error_if_nonfinite=False to scale "
                "them by it all the same"
            )
        clip(mine, total, float(max_norm))
        return total

    def _find_counted_twice(self) -> set[int]:
        """Returns the shard of a head that is a part of a tied embedding."""
        shards = self._setup.shards
        return {id(p) for p in shards.tied_parameters[:1]} if shards is not None else set()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all modules of this rank to None, or to zero."""
        for module in self._setup.placement.roots():
            module.zero_grad(set_to_none)

    @contextmanager
    def record(self) -> Iterator[Recording]:
        """Collects the `Event`s of the block; `Recording.gather` joins all ranks in a
        `Measurement`.
        """
        recording = Recording(self._gather)
        before = self.on_instruction, self._recording
        self.on_instruction, self._recording = recording.append, recording
        self._setup.link.observe = recording.observe
        try:
            yield recording
        finally:
            self.on_instruction, self._recording = before
            outer = self._recording
            self._setup.link.observe = None if outer is None else outer.observe
            recording.close()

    @contextmanager
    def measure_memory(self) -> Iterator[Memory]:
        """Measures the memory of this rank in the training steps of the block: `peak`, in bytes,
        the memory of a microbatch on each stage, and by `predict` the peak of other schedules. The
        runtime then reads every tensor that autograd keeps.
        """
        messages = self._setup.messages
        found = Memory(self._units, self.rank, messages.has_tags, messages.begins_early)
        self._executor.memory = found
        try:
            yield found
        finally:
            self._executor.memory = None

    def after_backwards(self, path: int, stage: int, call: Callable[[], Any]) -> None:
        """Calls something in each training step after the last backward of a stage that has one."""
        self._setup.around.add(self._setup.cells, {(path, stage)}, call)

    # State

    def state_dict(self) -> dict[str, Any]:
        """Returns the parameters and buffers of this rank under the names of the whole model. A
        head in shards is whole on the rank of the last stage, and on no other; then all ranks call
        it.
        """
        return self._state.gather_rows_of_head(self._state.model())

    def load_state_dict(self, state: Flat) -> None:
        """Loads the entries of this rank from a state of the whole model. All ranks call it, with
        `expert_parallel` the ranks of all pipelines.

        Raises PipelineError on all ranks, and changes nothing, if a rank misses a name, if a shape
        differs, or if there is a name that no rank has.
        """
        with self._guard(lambda: "loading a state"):
            self._state.load_model(state)

    def optimizer_state_dict(self, optimizer: StoredOptimizers | None = None) -> dict[str, Any]:
        """Returns the state of optimizers of this rank, by default of the optimizers of O cells,
        flat: with keys as "state.3.weight.exp_avg" and "param_groups.3.weight.lr", as
        `torch.distributed.checkpoint.state_dict` makes them with `flatten_optimizer_state_dict`. A
        head in shards is treated as in `state_dict`.
        """
        return self._state.gather_rows_of_head(self._state.optimizer(self._choose(optimizer)))

    def load_optimizer_state_dict(
        self, state: Flat, optimizer: StoredOptimizers | None = None
    ) -> None:
        """Loads the state of optimizers of this rank from the whole model's. All ranks call it.
        Entries of other ranks are ignored.

        Raises PipelineError on all ranks, and changes nothing, if a parameter has no entries, or if
        the parameters of one group have different options.
        """
        with self._guard(lambda: "loading a state"):
            self._state.load_optimizer(state, self._choose(optimizer))

    def save(
        self,
        folder: str | os.PathLike[str],
        optimizer: StoredOptimizers | None = None,
        process_group: dist.ProcessGroup | None = None,
        *,
        others: Mapping[str, Stateful] = MappingProxyType({}),
    ) -> None:
        """Writes a checkpoint of `torch.distributed.checkpoint`, with "model" and, if there are
        optimizers, "optimizer". All ranks of all pipelines call it, the ranks of `process_group`;
        by default the ranks of the pipeline, or of the job if it has other pipelines.

        others: other objects with a state that is the same on all ranks, by any names: schedulers
            of learning rates, a GradScaler. That of the first rank is written. Random states of
            each rank are written always.
        """
        self._state.save(folder, self._choose(optimizer), process_group, others, self._steps)

    def load(
        self,
        folder: str | os.PathLike[str],
        optimizer: StoredOptimizers | None = None,
        process_group: dist.ProcessGroup | None = None,
        *,
        others: Mapping[str, Stateful] = MappingProxyType({}),
        random: bool = False,
    ) -> None:
        """Reads a checkpoint of the whole model, or one that `save` wrote under any schedule and
        placement. Ranks and errors are as in `save` and `load_state_dict`.

        others: as in `save`; the checkpoint must have these names.
        random: whether random states are set as they were; the checkpoint must be one of at least
            as many ranks.
        """
        with self._guard(lambda: "loading a state"):
            chosen = self._choose(optimizer)
            self._steps = self._state.load(folder, chosen, process_group, others, random)

    def _choose(self, given: StoredOptimizers | None) -> Sequence[torch.optim.Optimizer]:
        if given is None:
            own: list[Any] = list(self.optimizers.values())
            return own
        return [given] if isinstance(given, torch.optim.Optimizer) else list(given)

    # Inside

    def _batch(self, mode: Mode, inputs: Any, targets: Any) -> Batch:
        count = 1 if self._adds_up else self._units.microbatches
        with self._guard(lambda: "cutting the batch"):
            given = None if inputs is None else cut_units(inputs, self.schedule, "inputs")
            wanted = None if targets is None else cut_units(targets, self.schedule, "targets")
            if mode == "train":
                refuse_graphs(given, "inputs")
                refuse_graphs(wanted, "targets")
        number, self._passes = self._passes, self._passes + 1
        found = Batch(mode, given, wanted, self._scaler, number, count, self.on_instruction)
        found.adds_up = self._adds_up
        if mode == "train" and self._count is None and count > 1 and self._tokens.is_on:
            found.tokens = self._tokens
        if self._recording is not None:
            self._recording.step = number
            found.note_done = self._recording.note_done
        return found

    def _weigh(self, batch: Batch) -> None:
        """Weighs microbatches by their tokens, summed over all pipelines."""
        if self._count is None or batch.targets is None:
            return
        counts = counts_of(self._count, batch.targets)
        total, pipelines = counts.sum(), 1
        for peers in self._averages.peers_of_losses() if batch.mode == "train" else ():
            work = peers.begin_sum(total)
            self._watch.wait_for(total, work, lambda: "the number of tokens of other pipelines")
            pipelines *= peers.size
        batch.weights = (counts * pipelines / total).nan_to_num(0.0).tolist()

    def _gather(self, recording: Recording) -> Measurement:
        with self._watch.looking(), self._guard(lambda: "gathering what was recorded"):
            found = gather(
                recording,
                self._units,
                self._receives,
                self._setup.program,
                self._watch,
                self._clocks,
            )
        if found is None:
            raise PipelineError(
                "the recording has no training step that all ranks ran from its beginning to its "
                "end; call step() inside of `with runtime.record() as recording:`, on all ranks"
            )
        return found

    def _run(self, batch: Batch) -> None:
        self._watch.start()
        torch.clear_autocast_cache()
        try:
            with self._guard(self._executor.where):
                for origin in self._setup.placement.origins:
                    origin.check()
                if batch.number == 0:
                    self._check_replicas()
                if self._scaler is not None:  # the scaler then knows its scale on every rank
                    self._scaler.scale(torch.zeros((), device=self._setup.device))
                self._weigh(batch)
                self._executor.run(batch)
        finally:
            self._watch.stop()
            torch.clear_autocast_cache()

    @contextmanager
    def _guard(self, place: Callable[[], str]) -> Iterator[None]:
        """Tells the other ranks of an error, unless all of them raise it."""
        self._watch.check()
        try:
            yield
        except Misfit:
            raise
        except BaseException as error:
            where = place()
            if isinstance(error, RuntimeError) and not isinstance(error, PipelineError):
                self._watch.hear_inside()
            if self._watch.failure is None:
                error.add_note(f"in the pipeline: rank {self.rank}, {where}")
            self._watch.fail(error, where)
            if isinstance(error, RuntimeError) and not isinstance(error, PipelineError):
                self._watch.check_others(error)  # their failure may have caused it
            raise

    def _check_replicas(self) -> None:
        """Raises if ranks that hold the same parameters have different values of them."""
        shared = self._setup.sums.shared
        mine = {each.name: checksum(each.distinct) for each in shared}
        said = self._watch.meet("values", [mine, self._copies.digests()])
        self._copies.check([digests for _, digests in said], self._watch)
        for rank, (theirs, _) in enumerate(said):
            for name in mine.keys() & theirs.keys():
                if mine[name] != theirs[name]:
                    raise PipelineError(
                        f"{name}: its parameters have other values on rank {rank} than on this "
                        "rank; initialize or load all replicas alike before the first step"
                    )
        for peers in self._averages.known:
            averaged = {
                each.name: checksum([p for p in each.distinct if self._averages.of(p) is peers])
                for each in shared
            }
            for number, theirs in enumerate(peers.meet("values", averaged)):
                wrong = [name for name in averaged if averaged[name] != theirs[name]]
                if wrong:
                    raise PipelineError(
                        f"{wrong[0]}: its parameters have other values in pipeline {number} than "
                        f"in pipeline {peers.rank}; initialize or load all pipelines alike before "
                        "the first step"
                    )

    def _share_overflow(self) -> None:
        """Makes all gradients infinite if any rank's are not finite, so that all skip the step."""
        assert self._scaler is not None
        found_here = [p.grad for p in self._setup.placement.parameters() if p.grad is not None]
        gradients = [values_of(gradient) for gradient in found_here]
        scale = self._scaler.get_scale()
        device = self._setup.device
        found = torch.tensor([0.0, scale, -scale], dtype=torch.float64, device=device)
        for gradient in gradients:  # on the device; only the last line waits for it
            found[:1] += (~gradient.isfinite()).any()
        for group in (self._group, *(peers.group for peers in self._averages.known)):
            work = dist.all_reduce(found, dist.ReduceOp.MAX, group=group, async_op=True)
            assert work is not None
            self._watch.wait_for(found, work, lambda: "the gradients of other ranks to be checked")
        most = found.tolist()
        if most[1] != -most[2]:
            raise PipelineError(
                f"ranks have scales from {-most[2]:g} to {most[1]:g}; wanted one scale"
            )
        if most[0]:
            for parameter in self._setup.placement.parameters():
                if parameter.grad is not None:
                    parameter.grad = with_infinity(parameter.grad)

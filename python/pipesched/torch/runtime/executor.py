"""Walks the program of one worker, instruction by instruction, and runs its cells.

An instruction only waits for its inputs: a compute for the messages in its `waits`, O for the
all-reduce before it, a join for copies. Values that pass between the stages of a rank, and between
them and messages, are in boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pipesched import Cell, Instruction

from ..autograd.activation import Activation, Inputs, Saved
from ..autograd.backward import (
    Root,
    input_backward,
    may_run_again,
    root_of_loss,
    roots_of,
    whole_backward,
)
from ..autograd.injected import Injected
from ..autograd.recompute import Again, Left, compare, explain
from ..comm.messages import At, Boxes, await_device
from ..core.batch import Batch, Mode, lose
from ..core.errors import PipelineError
from ..core.program import COLLECTIVES, Prepared, prepare_passes
from ..core.random import RandomState
from ..core.values import (
    Packet,
    as_sent,
    call,
    flatten,
    local,
    map_tensors,
    overlapping,
    places_of,
    storages_of,
    tensors_in,
    unflatten,
)
from ..grad_sync.data_parallel import mark
from ..overlap.chain import Backward, StagesInParts
from ..partition.placement import StageKey
from ..profiling.memory import Memory
from ..profiling.record import Event, named, times_of
from ..sequence.check import Compared
from ..sequence.kv_cache import Earlier
from ..vocab_parallel.head import FORWARD
from .setup import Setup

NOTHING = nullcontext()


class Executor:
    """Runs passes over the program of a worker."""

    def __init__(self, setup: Setup) -> None:
        self._setup, options = setup, setup.options
        self._placement, self._messages = setup.placement, setup.messages
        self._budget, self._around, self._loss = setup.budget, setup.around, options.loss
        self._program, self._stored = setup.program, setup.stored
        self._shards: Any = setup.shards
        self._lookups: Any = None if setup.shards is None else setup.shards.lookups
        self._watch, self._device = setup.watch, setup.device
        self.sums = setup.sums
        self._early = self._messages.early
        self.current: Instruction | None = None
        self._splits = any(cell.phase == "W" for cell in setup.cells)
        self._again = Again(self._placement, self._device)
        self._left = Left()
        self._times = times_of(self._device)
        stream: Any = torch.cuda.Stream
        is_cuda = self._device.type == "cuda"
        self._streams = [stream(self._device) if is_cuda else None for _ in "DU"]
        self._earlier = Earlier(options.slices) if options.slices > 1 else None
        is_compared = self._earlier is not None and options.checks_slices
        self._compared = Compared(self._earlier) if self._earlier and is_compared else None
        # Slices of a microbatch pass on keys and values, which no pair of cells supports.
        in_parts = {} if self._earlier is not None else self._placement.modules
        self._stages = StagesInParts(in_parts, options.order, self.sums, self._watch)
        self._has_chains = bool(self._stages.chains)
        self._injected = Injected(self._placement, options.slices)
        self.boxes = Boxes()
        prepare = partial(prepare_passes, self._program, self._early, pair_of=self._stages.pair)
        self._prepared: dict[Mode, list[Prepared]] = {
            "train": prepare(runs=lambda _: True),
            "evaluate": prepare(runs=lambda cell: cell.phase in FORWARD),
        }
        """The cells that passes of each mode run."""
        self._looks = False
        """Whether the memory is read after each instruction."""
        self.memory: Memory | None = None
        """Called for each instruction of a training step."""
        self._clear()

    def _clear(self) -> None:
        self.boxes.clear()
        self.held: dict[At, Activation] = {}
        self._coming: set[int] = set()
        self._reducing: set[int] = set()

    def place(self) -> str:
        waits = self._watch.waits_for
        doing = "running" if waits is None else f"waiting for {waits()}"
        return f"{self.where()}, {doing}"

    def where(self) -> str:
        return "outside of its program" if self.current is None else f"at {self.current}"

    def run(self, batch: Batch) -> None:
        """Runs one pass. A pass that evaluates runs only the forwards."""
        self._batch = batch
        self._clear()
        self.spared = storages_of([*self._stored, batch.inputs, batch.targets])
        roots = self._placement.modules.values()
        if self._earlier is not None:
            self._earlier.clear(self.spared)
        self._buffered = storages_of([local(b) for root in roots for b in root.buffers()])
        program = self._program
        self._messages.begin(batch.mode, program, [batch.inputs, batch.targets])
        is_training = batch.mode == "train"
        splits = self._splits and is_training
        counts = self._budget.counts_bytes or self.memory is not None
        self._looks = is_training and counts
        with torch.set_grad_enabled(is_training), may_run_again(splits):
            if batch.record is not None:
                self._times.begin()
            if self._shards is not None:
                self._shards.begin(batch)
            if is_training:
                self._injected.begin(batch.count)
                self.sums.begin()
            for work in self._prepared[batch.mode]:
                for receive in work.early:
                    self._receive(receive)
                if work.cells:
                    self.current = work.instruction
                    self._run(work)
            self.current = None
            self._finish(is_training)
            if batch.record is not None:
                self._times.end()
            if is_training:
                self._again.end_step()
        self._clear()

    def _run(self, work: Prepared) -> None:
        instruction, record = work.instruction, self._batch.record
        times, number = self._times, self._batch.number
        moments = [] if record is None else [times.now()]
        for awaited in work.awaited:
            self._settle(instruction, awaited)
        if record is not None:
            moments.append(times.now())
        self._execute(work)
        if record is not None:
            moments.append(times.now())
        if self._looks:
            self._note_memory(instruction)
        if record is not None:
            times.when_known(lambda: record(Event(number, instruction, *map(times.ns, moments))))

    def _note_memory(self, instruction: Instruction) -> None:
        if self._budget.counts_bytes:
            self._budget.check_bytes(instruction.cell, self.bytes_held())
        if self.memory is not None:
            self.memory.look(instruction, self)

    def _settle(self, instruction: Instruction, awaited: Instruction) -> None:
        if awaited.kind == "recv":
            self._take(awaited)
        elif awaited.kind == "all_reduce":
            self._finish_sum(awaited.index)
        elif awaited.kind in COLLECTIVES:
            if self._shards.finish(awaited.index, instruction.cell):
                self._note_done(awaited.index)
        else:
            self._settle_copy(instruction, awaited)

    def _settle_copy(self, instruction: Instruction, copy: Instruction) -> None:
        activation = self.held.get((copy.cell.stage, copy.cell.microbatch))
        if activation is None or activation.saved is None:
            return
        if instruction.kind == "wait":
            activation.saved.join()  # the memory is free only when the host knows
        else:
            activation.saved.await_on_device()
        self._note_done(copy.index)

    def _execute(self, work: Prepared) -> None:
        instruction = work.instruction
        if instruction.kind == "recv":
            self._coming.add(instruction.index)
            if not self._early:
                self._receive(instruction)
        elif instruction.kind != "compute":
            with named(instruction.cell, kind=instruction.kind):
                self._move(instruction)
        elif work.pair is None:
            for each in work.cells:
                with named(each):
                    self._compute(each)
        else:
            with named(*work.pair):
                self._compute_pair(*work.pair)

    def _receive(self, instruction: Instruction) -> None:
        with named(instruction.cell, kind="recv"):
            self._messages.receive(instruction)

    def _move(self, instruction: Instruction) -> None:
        """Starts to send, to copy or to sum."""
        cell = instruction.cell
        if instruction.kind == "send":
            self._messages.send(instruction, self.boxes.pop_sent(cell))
        elif instruction.kind == "offload":
            self._find_saved(cell).offload(self._streams[0])
        elif instruction.kind == "reload":
            saved = self._find_saved(cell)
            saved.reload(self._streams[1])
            self._check_budget(cell)
        elif instruction.kind in COLLECTIVES:
            self._shards.start(instruction)
        elif instruction.group is not None:
            self._reducing.add(instruction.index)
            self.sums.groups[instruction.group].start(self._watch)

    def _take(self, instruction: Instruction) -> None:
        """Stores a received value in the place from which a cell takes it."""
        if instruction.index not in self._coming:
            return
        self._coming.remove(instruction.index)
        packet = self._messages.take(instruction.index)
        self._note_done(instruction.index)
        if self.memory is not None and self._batch.mode == "train":
            self.memory.take(instruction.cell, packet)
        self.boxes.give(instruction.cell, packet)

    def _find_saved(self, cell: Cell) -> Saved:
        activation = self.held.get((cell.stage, cell.microbatch))
        if activation is None or activation.saved is None:
            raise PipelineError(f"the program of this rank runs {cell} without an activation")
        return activation.saved

    def _finish_sum(self, index: int) -> None:
        if index in self._reducing:
            self._reducing.remove(index)
            instruction = self._program[index]
            assert instruction.group is not None
            self.sums.groups[instruction.group].finish(self._watch, lambda: str(instruction))
            self._note_done(index)

    def _note_done(self, index: int) -> None:
        note, times = self._batch.note_done, self._times
        if note is not None:
            moment = times.now()
            times.when_known(lambda: note(index, times.ns(moment)))

    def _finish(self, is_training: bool) -> None:
        for index in sorted(self._coming):
            self._take(self._program[index])
        for index in sorted(self._reducing):
            self._finish_sum(index)
        if self._shards is not None:
            for index in self._shards.finish_all():
                self._note_done(index)
        if is_training:
            self._injected.end()
            self.sums.end()
            if self._shards is not None:
                self._shards.end_step()
            for call in self._around.late:
                call()
        for call in (*self._around.ends, self._messages.finish):
            call()
        self._watch.flush()
        if self._device.type == "cuda":
            await_device(self._device, self._watch)

    # Cells

    def _before(self, cell: Cell) -> None:
        for before in self._around.before.get(mark(cell), ()):
            self.spared |= storages_of(before())

    def _after(self, cell: Cell) -> None:
        for after in self._around.after.get(mark(cell), ()):
            after()

    def _compute_pair(self, forward: Cell, backward: Cell) -> None:
        """Runs a forward and a backward in turn, part by part, if both stages have parts."""
        activation = self.held.get((backward.stage, backward.microbatch))
        if activation is None or activation.parts is None:
            self._compute(forward)
            return self._compute(backward)
        self._before(backward)
        with self._in_parts(backward, activation) as run:
            self._stages.put_beside(run)
            self._compute(forward)
        return self._after(backward)

    def _compute(self, cell: Cell) -> None:
        self._before(cell)
        phase = cell.phase
        if phase == "F":
            self._forward(cell)
        elif phase in ("B", "I", "W"):
            if torch.is_autocast_enabled(self._device.type):
                with torch.autocast(self._device.type, enabled=False):
                    self._backward(cell)
            else:
                self._backward(cell)
        elif phase == "R":
            self._recompute(cell)
        elif phase == "O":
            stepper = self._setup.steppers.get((cell.path, cell.stage))
            if stepper is not None:
                stepper()
                torch.clear_autocast_cache()
        elif phase in "STEV" and self._shards is not None:
            self._shards.compute(cell)
        else:
            raise PipelineError(f"this runtime cannot compute a cell of phase {phase}: {cell}")
        self._after(cell)

    def _forward(self, cell: Cell) -> None:
        at = cell.stage, cell.microbatch
        has_backward = self._placement.backward_of(cell.path, cell.stage) != "none"
        is_training = self._batch.mode == "train" and has_backward
        activation = self._begin(cell)
        is_again = cell.recomputed and is_training
        if is_again:
            activation.again = self._again.remember(cell, activation.inputs)
        is_seen = cell.offloaded or self._budget.counts_bytes or self.memory is not None
        if is_training and is_seen:
            activation.saved = Saved(self.spared, self._device)
        if is_training:
            self.held[at] = activation
            self._watch_growth(cell, activation)
        begun = self._injected.now()
        with self._again.copy_input(cell, activation) if is_again else NOTHING:
            outputs, packet = self._apply(cell, activation, is_again)
        activation.inputs.tell()
        if activation.again is not None:
            self._again.note(outputs, activation.again)
        if packet is not None:
            self.boxes.give(cell, packet)
        if is_training and not is_again:
            activation.hold(outputs, self._computes_loss(cell))
            self._injected.look(cell, activation, begun)
            self._check_budget(cell)
        if not is_training and self._earlier is not None:
            self._earlier.end(cell)

    def _is_last(self, cell: Cell) -> bool:
        return cell.stage == self._placement.last[cell.path]

    def _computes_loss(self, cell: Cell) -> bool:
        """Returns whether the output of a forward is the loss, not a head's input."""
        return self._is_last(cell) and self._shards is None

    def _begin(self, cell: Cell) -> Activation:
        target = None
        if self._is_last(cell) and self._batch.targets is not None:
            target = map_tensors(self._batch.targets[cell.microbatch], lambda t: t.to(self._device))
        if cell.stage == 0:
            if self._batch.inputs is None:
                raise PipelineError("this rank has a first stage, and needs `inputs`")
            value = map_tensors(self._batch.inputs[cell.microbatch], self._place)
            found = list(tensors_in(value))
            inputs = Inputs(found)
            if self._lookups is not None:
                inputs = self._lookups.inputs(cell, found, self._batch.mode, self._has_edges(cell))
            return Activation(value, inputs, target)
        packet = self.boxes.take(cell)
        inputs = Inputs.of(packet, self._batch.mode == "train", self._has_edges(cell))
        return Activation(unflatten(inputs.tensors, packet.structure), inputs, target)

    def _place(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to(self._device)

    def _has_edges(self, cell: Cell) -> bool:
        """Returns whether more than a whole backward needs the gradients of an input."""
        is_looked_at = self._splits or self.sums.is_unchecked((cell.path, cell.stage))
        return is_looked_at or (self._has_chains and self._stages.chain(cell) is not None)

    def _apply(
        self, cell: Cell, activation: Activation, drops_graph: bool = False
    ) -> tuple[list[Tensor], Packet | None]:
        """Runs a stage; returns tensors to differentiate, and the packet for the next stage."""
        if drops_graph and activation.again is not None:
            run = partial(self._apply_in, cell, activation, NOTHING)
            return self._again.run(cell, activation.again, run)
        hooks: Any = NOTHING
        if activation.saved is not None:
            hooks = activation.saved.collecting()
        return self._apply_in(cell, activation, hooks)

    def _apply_in(
        self, cell: Cell, activation: Activation, hooks: Any
    ) -> tuple[list[Tensor], Packet | None]:
        key, is_last = (cell.path, cell.stage), self._is_last(cell)
        module, value = self._placement.modules[key], activation.value
        is_training = self._batch.mode == "train"
        looks_up, lookup = cell.stage == 0 and self._lookups is not None, NOTHING
        if looks_up:
            lookup = self._lookups.enter_stage(cell, activation.inputs)
        with hooks:
            try:
                with (
                    lookup,
                    NOTHING if self._earlier is None else self._earlier.forward(cell, value),
                    self._left.watch(cell, module, is_training and not is_last),
                ):
                    if self._has_chains:
                        output = self._stages.call(cell, activation, module, self._batch.mode)
                    else:
                        output = call(module, value)
            except RuntimeError as error:
                explain(error, cell)
                raise
            shards, entering = self._shards, None
            if is_last and shards is not None:
                entering = shards.enter(cell, output)
            is_first = cell.phase == "F" and self._batch.number == 0
            if self._compared is not None and is_first and not looks_up:
                self._compared.note(cell, module, value, output)
            if entering is not None:
                self._check(key, entering, activation)
                return entering, None
            if is_last:
                if self._batch.mode == "evaluate" and self._batch.targets is None:
                    self._batch.outputs[cell.microbatch] = output
                    return [], None
                losses = lose(self._loss, self._batch, cell, output, activation.target)
                self._check(key, losses, activation)
                return losses, None
        tensors, structure = flatten(output)
        if is_training:
            self._check(key, tensors, activation)
        wants = [tensor.requires_grad for tensor in tensors]
        sent = [as_sent(tensor, self._buffered) for tensor in tensors]
        return tensors, Packet(sent, wants, structure, overlapping(sent))

    def _check(self, key: StageKey, outputs: Sequence[Tensor], activation: Activation) -> None:
        """Refuses a forward that uses parameters outside of all sums; looks once at each stage."""
        if self.sums.is_unchecked(key):
            self.sums.check(key, outputs, activation.ends)

    def _recompute(self, cell: Cell) -> None:
        activation = self.held[cell.stage, cell.microbatch]
        again = activation.again
        if again is None:
            raise PipelineError(f"the program of this rank runs {cell} twice, or without its F")
        if [tensor._version for tensor in activation.inputs.tensors] != again.versions:
            raise PipelineError(
                f"the input of {cell} was changed in place after its F, so that R would compute "
                "something else"
            )
        self._watch_growth(cell, activation)
        now = RandomState(self._device)
        again.random.restore()
        begun = self._injected.now()
        try:
            with again.buffers.replay(), self._again.copy_input(cell, activation):
                outputs, _ = self._apply(cell, activation)
        finally:
            now.restore()
        compare(cell, outputs, again)
        activation.again = None
        activation.hold(outputs, self._computes_loss(cell))
        self._injected.look(cell, activation, begun)
        self._check_budget(cell)

    def _backward(self, cell: Cell) -> None:
        at = cell.stage, cell.microbatch
        activation = self.held.get(at)
        if activation is None or not activation.is_held:
            raise PipelineError(f"the program of this rank runs {cell} without an activation")
        if cell.phase == "W":
            if activation.weights is None:
                raise PipelineError(f"the program of this rank runs {cell} before its I")
            with self._inside(cell):
                activation.weights.run()
            self._drop(cell)
            return
        if activation.parts is not None:
            with self._in_parts(cell, activation) as run:
                self._stages.run_alone(run)
            return
        roots = self._roots(cell, activation)
        inputs = activation.inputs
        with self._inside(cell):
            if self._is_whole(cell):
                whole_backward(roots)
                found = inputs.gradients()
            else:
                found, activation.weights = input_backward(roots, inputs.edges)
        self._end_backward(cell, activation, found)

    @contextmanager
    def _in_parts(self, cell: Cell, activation: Activation) -> Iterator[Backward]:
        """Starts a backward that runs part by part, and ends it after the block."""
        assert activation.parts is not None
        roots = self._roots(cell, activation)
        with self._inside(cell):
            run = self._stages.backward(activation.parts, cell, roots, self._device)
            yield run
            found = run.finish()
        activation.weights, activation.parts = run.take_weights(), None
        self._end_backward(cell, activation, found)

    def _end_backward(self, cell: Cell, activation: Activation, found: list[Any]) -> None:
        inputs, found = activation.inputs, self._injected.scale_down(cell, found)
        if self._is_whole(cell):
            self._drop(cell)
        activation.roots = []
        if cell.stage == 0 and self._lookups is not None:
            self._lookups.leave(cell, found)
        if cell.stage > 0 and self._placement.backward_of(cell.path, cell.stage - 1) != "none":
            if len(found) < inputs.count:
                given = dict(zip(inputs.wanted, found, strict=True))
                found = [given.get(number) for number in range(inputs.count)]
            self._pass_up(cell, found)

    def _is_whole(self, cell: Cell) -> bool:
        """Returns whether no W follows a B or an I."""
        kind = self._placement.backward_of(cell.path, cell.stage)
        return cell.phase == "B" or kind == "input"

    def _inside(self, cell: Cell) -> AbstractContextManager[None]:
        """Runs a backward, which may add to gradients and in which no forward may run again."""
        inside = NOTHING if self._earlier is None else self._earlier.backward(cell)
        return self._injected.backward(cell, inside)

    def _drop(self, cell: Cell) -> None:
        del self.held[cell.stage, cell.microbatch]
        if self._earlier is not None:
            self._earlier.end(cell)

    def _roots(self, cell: Cell, activation: Activation) -> list[Root]:
        """Finds the roots to differentiate, with the gradients of the outputs."""
        return self._injected.scale_up(cell, self._find_roots(cell, activation))

    def _find_roots(self, cell: Cell, activation: Activation) -> list[Root]:
        outputs = activation.roots
        if activation.is_loss:
            return [root_of_loss(edge) for edge in outputs if edge is not None]
        if self._shards is not None and self._is_last(cell):
            gradient = self._shards.gradient_of(cell)
            return [(edge, gradient) for edge in outputs if edge is not None]
        packet = self.boxes.take(cell)
        return roots_of(cell, outputs, unflatten(packet.tensors, packet.structure))

    def _pass_up(self, cell: Cell, gradients: list[Tensor | None]) -> None:
        """Gives the gradients of an input to the stage before, here or by a message."""
        given = [g if g is None else g.detach() for g in gradients]
        tensors, structure = flatten(given)
        self.boxes.give(cell, Packet(tensors, [False] * len(tensors), structure))

    def _check_budget(self, cell: Cell) -> None:
        self._budget.check(cell, self.held.values())
        if self._budget.counts_bytes:
            self._budget.check_bytes(cell, self.bytes_held())

    def _watch_growth(self, cell: Cell, activation: Activation) -> None:
        """Checks a budget of bytes whenever autograd keeps one more storage in a forward."""
        if activation.saved is not None and self._budget.counts_bytes:
            places, kept = self.places_held(), self._watch.kept_bytes
            activation.saved.on_growth = self._budget.growing(cell, places, kept)

    def places_held(self) -> dict[int, int]:
        """Returns the storages, with bytes, that activations and messages hold on the device."""
        found = places_of(
            [
                *self.boxes.tensors(),
                *(tensor for held in self.held.values() for tensor in held.tensors()),
                *self._messages.coming(),
                *(() if self._shards is None else self._shards.tensors()),
            ],
            self.spared,
        )
        found |= places_of(self.sums.tensors(), ())
        if self._earlier is not None:
            found |= places_of(self._earlier.tensors(), ())
        return found

    def bytes_held(self) -> int:
        """Returns the bytes of messages and of activations, the latter as `Saved` sees them."""
        return sum(self.places_held().values()) + self._watch.kept_bytes

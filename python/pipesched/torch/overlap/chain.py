"""Stages whose layers run part by part, so that a backward can run between the parts of a forward.

A stage is a chain of links: the parts of its layers, and the modules before, between and after
them. Each link has a separate graph, which starts at leaves, so that gradients pass link by link:

    x | attention | dispatch | mlp | combine | output | attention | .. | output
        layer 0       ~>              ~>                 layer 1                    ~> exchange

After a link with an exchange its rows are on their way; the next link that reads them waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from pipesched import Cell, PipeSchedError, _core
from pipesched.support.options import PairOrder, code_of

from ..autograd.activation import Activation
from ..autograd.backward import Root, WeightBackward, input_backward
from ..core.errors import PipelineError
from ..core.values import arguments_of, call, map_tensors, tensors_in
from ..core.watch import Watch
from ..grad_sync.sums import Sums
from ..partition.placement import StageKey
from ..partition.split import HOOKS, check_plain
from ..parts import METHODS, PARTS, Arriving, Exchange, LayerInParts, entries_of, note

Step = tuple[str, str, int]
_UNIT = (1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0)
"""F, I and W of each part."""


@cache
def steps_of(order: str, forward: int, backward: int) -> tuple[Step, ...]:
    """Returns the order of issue of the parts of these layers, as in `pipesched.overlap`."""
    pattern = order if "," in order else ""
    options: dict[str, Any] = {
        "order": 0 if pattern else code_of(PairOrder, "parts_order", order),
        "pattern": pattern,
        "delays_weights": not pattern or ".W" in pattern,
        "compute_percent": 100,
        "exchange_percent": 100,
    }
    found = _core.schedule_pair([_UNIT] * forward, [_UNIT] * backward, **options)
    letters = _core.phases()
    return tuple((PARTS[part], letters[phase], layer) for part, phase, layer, _, _ in found["runs"])


def check_order(order: str) -> None:
    if order == "best":
        raise PipelineError(
            "parts_order 'best' depends on times: give the parts that `pipesched simulate --order`"
            " finds"
        )
    try:
        steps_of(order, 1, 1)
        steps_of(order, 2, 2)
    except PipeSchedError as error:
        reason = error.diagnostics[0].message if error.diagnostics else str(error)
        raise PipelineError(f"parts_order {order!r}: {reason}") from None


# Links


@dataclass(frozen=True)
class _Link:
    """A part of a layer, or a module by itself."""

    layer: int
    """The layer, or for other modules the next one."""
    part: str
    function: Callable[..., Any]


def _is_plain(module: nn.Module) -> bool:
    if not isinstance(module, nn.Sequential):
        return False
    try:
        check_plain(module, "")
    except PipelineError:
        return False
    return True


def _has_hooks(module: nn.Module) -> bool:
    untyped: Any = module
    return any(getattr(untyped, name, None) for name in HOOKS)


def _children(module: nn.Module) -> list[nn.Module]:
    if not _is_plain(module):
        return [module]
    return [each for child in module.children() for each in _children(child)]


class Chain:
    """A stage that has layers in parts."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.links: list[_Link] = []
        self.layers = 0
        self._places: dict[tuple[int, str], int] = {}
        for module in modules:
            if isinstance(module, LayerInParts) and not _has_hooks(module):
                module.check()
                for part in METHODS:
                    self._places[self.layers, part] = len(self.links)
                    self.links.append(_Link(self.layers, part, getattr(module, part)))
                self.layers += 1
            else:
                self.links.append(_Link(self.layers, "", module))

    @staticmethod
    def of(module: nn.Module) -> Chain | None:
        """Returns the chain of a stage, None if none of its layers has parts."""
        made = Chain(_children(module))
        return made if made.layers else None

    def place(self, layer: int, part: str) -> int:
        return self._places[layer, part]

    def first_of(self, layer: int) -> int:
        """Returns the first link that belongs to the attention of a layer."""
        return self._places[layer - 1, "output"] + 1 if layer else 0


@dataclass
class _Ran:
    """A link as it ran: the places where gradients enter and leave its graph."""

    inputs: list[GradientEdge | None]
    outputs: list[GradientEdge | None] = field(default_factory=list)
    same: dict[int, int] = field(default_factory=dict)
    """Outputs that are an unchanged input."""
    exchanges: dict[int, tuple[Exchange, torch.Size, Tensor]] = field(default_factory=dict)
    """By output: the way back of its gradient, the shape of its input, and a tensor of its type."""


Look = Callable[[list[Tensor], list[GradientEdge]], None]
"""Reads the outputs of a link, and the ends of its gradients."""


def _edge(tensor: Tensor) -> GradientEdge | None:
    return get_gradient_edge(tensor) if tensor.requires_grad else None


class Forward:
    """The forward of a stage, link by link."""

    def __init__(
        self,
        chain: Chain,
        cell: Cell,
        watch: Watch,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        entered: tuple[list[Tensor], list[GradientEdge]],
        look: Look | None,
    ) -> None:
        self.chain = chain
        self.cell = cell
        self.watch = watch
        self.ran: list[_Ran] = []
        self.ends: list[GradientEdge | None] = []
        """The place where the gradients of the outputs of the stage arrive."""
        self._arguments = arguments
        self._entered = entered
        self._look = look
        self._value: Any = None
        self._leaves: list[Tensor] = []
        self._coming: dict[int, Arriving] = {}

    def run(self, part: str, layer: int) -> None:
        """Runs everything up to a part, and starts its sends."""
        self._run_to(self.chain.place(layer, part))

    def finish(self) -> Any:
        """Runs the rest. Returns the output, from leaves."""
        self._run_to(len(self.chain.links) - 1)
        value = self._await_leaves()
        self.ends = [_edge(leaf) for leaf in self._leaves]
        self._leaves, self._value, self._entered = [], None, ([], [])
        return value

    def _run_to(self, number: int) -> None:
        while len(self.ran) <= number:
            self._run_link(self.chain.links[len(self.ran)])

    def _run_link(self, link: _Link) -> None:
        named: dict[str, Any] = {}
        if not self.ran:
            arguments, named = self._arguments
            self._leaves, edges = self._entered
            made = _Ran(list(edges))
        else:
            value = self._await_leaves()
            arguments = entries_of(value, bool(link.part) and link.part != "attention")
            made = _Ran([_edge(leaf) for leaf in self._leaves])
        self._note("runs", link)
        output = link.function(*arguments, **named)
        self.ran.append(made)
        self._take(link, made, output)

    def _take(self, link: _Link, made: _Ran, output: Any) -> None:
        """Cuts the graph after a link, and starts its exchanges."""
        known = {id(leaf): number for number, leaf in enumerate(self._leaves)}
        tensors: list[Tensor] = []
        entries = []
        coming: dict[int, Arriving] = {}
        for entry in entries_of(output, is_part=True):
            if isinstance(entry, Exchange):
                if not link.part:
                    raise PipelineError(f"{link.function} returns an exchange, and is no part")
                rows, entry.rows = entry.rows, entry.rows.detach()
                self._note("starts", link)
                coming[len(tensors)] = entry.start(entry.rows)
                shape = coming[len(tensors)].rows.shape
                made.exchanges[len(tensors)] = entry, shape, rows.new_empty(0)
                entry.rows = rows.new_empty(0)
                entry = rows
            tensors += tensors_in(entry)
            entries.append(entry)
        if self._look is not None:
            self._look(tensors, [edge for edge in made.inputs if edge is not None])
        made.outputs = [_edge(tensor) for tensor in tensors]
        made.same = {
            i: known[id(tensor)] for i, tensor in enumerate(tensors) if id(tensor) in known
        }
        self._leaves = [
            tensor if i in coming else tensor.detach().requires_grad_(tensor.requires_grad)
            for i, tensor in enumerate(tensors)
        ]
        self._coming = coming
        self._value = tuple(entries) if type(output) is tuple else entries[0]

    def _await_leaves(self) -> Any:
        """Returns the results of the link before, from leaves, when all of them have arrived."""
        for number, arriving in self._coming.items():
            link = self.chain.links[len(self.ran) - 1]
            self._note("waits", link)
            self.watch.wait_for(arriving.rows, arriving.work, lambda: f"rows of {self.cell}")
            needs = self._leaves[number].requires_grad
            self._leaves[number] = arriving.rows.requires_grad_(needs)
        self._coming = {}
        leaves = iter(self._leaves)
        return map_tensors(self._value, lambda _: next(leaves))

    def _note(self, does: str, link: _Link) -> None:
        if link.part:
            note(does, link.part, "F", self.cell.stage, self.cell.microbatch, link.layer)


Gradients = list[Tensor | None]


class Backward:
    """The backward of a stage, link by link; the graph of each is free after it and its weights
    ran. cell: a B, or an I whose weights are left for W. is_whole: whether W of a B runs with I.
    """

    def __init__(
        self,
        forward: Forward,
        cell: Cell,
        roots: list[Root],
        device: torch.device,
        is_whole: bool = False,
    ) -> None:
        self._is_whole = is_whole and cell.phase == "B"
        self._forward, self._cell, self._device = forward, cell, device
        self.chain, self._ran = forward.chain, forward.ran
        self._at = len(self._ran)
        """Links from here on have run."""
        self._weights: dict[int, WeightBackward] = {}
        self._waiting: dict[int, tuple[Exchange, Tensor]] = {}
        self._coming: dict[int, Arriving] = {}
        self._given = self._enter(roots)
        self._note_exchanges()

    def _enter(self, roots: list[Root]) -> Gradients:
        """Returns the gradients of the outputs, through the loss if the stage has it."""
        ends = self._forward.ends
        places = {edge.node: i for i, edge in enumerate(ends) if edge is not None}
        given: Gradients = [None] * len(ends)
        rest: list[Root] = []
        for root in roots:
            if (place := places.get(root[0].node)) is not None:
                _add(given, place, root[1])
            else:
                rest.append(root)
        if rest:
            wanted = [edge for edge in ends if edge is not None]
            found, self._weights[len(self._ran)] = input_backward(rest, wanted)
            for edge, further in zip(wanted, found, strict=True):
                _add(given, places[edge.node], further)
        return given

    def run(self, part: str, phase: str, layer: int) -> None:
        """Runs a part: I up to its send, W if the weights are not left for a W."""
        if self._cell.phase == "I" and phase == "W":
            return None
        if not torch.is_autocast_enabled(self._device.type):
            return self._run(part, phase, layer)
        with torch.autocast(self._device.type, enabled=False):
            return self._run(part, phase, layer)

    def _run(self, part: str, phase: str, layer: int) -> None:
        place = self.chain.place
        if phase == "W":
            is_last = layer + 1 == self.chain.layers
            last = len(self._ran) if is_last else place(layer, "output")
            first = place(layer, "mlp") if part == "mlp" else self.chain.first_of(layer)
            end = last if part == "mlp" else place(layer, "dispatch")
            self._note("runs", part, "W", layer)
            self._run_weights(first, end)
        elif part == "attention":
            self._run_to(self.chain.first_of(layer))
        elif part in ("mlp", "dispatch"):
            self._run_to(place(layer, "mlp"))
            if part == "dispatch":
                self._send()
        else:
            self._run_to(place(layer, "output"))
            self._send()

    def finish(self) -> Gradients:
        """Runs the rest. Returns the wanted gradients of the inputs of the stage."""
        self._run_to(0)
        if self._cell.phase == "B":
            self._run_weights(0, len(self._ran))
        return self._given

    def take_weights(self) -> WeightBackward:
        merged = WeightBackward()
        for each in self._weights.values():
            merged.groups += each.groups
            merged.noted.update(each.noted)
            merged.loose += each.loose
        return merged

    def _run_weights(self, first: int, last: int) -> None:
        for number in range(last, first - 1, -1):
            if (weights := self._weights.pop(number, None)) is not None:
                weights.run()

    def _run_to(self, number: int) -> None:
        while self._at > number:
            self._settle()
            self._at -= 1
            link, ran = self.chain.links[self._at], self._ran[self._at]
            if link.part:
                self._note("runs", link.part, "I", link.layer)
            self._given, self._weights[self._at] = _back(ran, self._given)
            if self._is_whole:
                self._run_weights(self._at, self._at + 1)
            ran.inputs = []
            self._note_exchanges()

    def _note_exchanges(self) -> None:
        """Finds the gradients that the next link gets by an exchange of all ranks."""
        if self._at == 0:
            return
        ran = self._ran[self._at - 1]
        for number, (exchange, shape, like) in ran.exchanges.items():
            if ran.outputs[number] is None and number not in ran.same:
                continue
            given = self._given[number]
            if given is None:
                given = torch.zeros(shape, dtype=like.dtype, device=like.device)
            self._waiting[number] = exchange, given

    def _send(self) -> None:
        """Starts to send gradients back."""
        for number, (exchange, gradient) in self._waiting.items():
            link = self.chain.links[self._at - 1]
            self._note("starts", link.part, "I", link.layer)
            self._coming[number] = exchange.start_back(gradient)
        self._waiting = {}

    def _settle(self) -> None:
        """Waits for the gradients that the next link reads."""
        self._send()
        for number, arriving in self._coming.items():
            link = self.chain.links[self._at - 1]
            self._note("waits", link.part, "I", link.layer)
            self._forward.watch.wait_for(
                arriving.rows, arriving.work, lambda: f"gradients of rows of {self._cell}"
            )
            self._given[number] = arriving.rows
        self._coming = {}

    def _note(self, does: str, part: str, phase: str, layer: int) -> None:
        note(does, part, phase, self._cell.stage, self._cell.microbatch, layer)


def _add(given: Gradients, place: int, gradient: Tensor | None) -> None:
    old = given[place]
    given[place] = gradient if old is None else old if gradient is None else old + gradient


def _back(ran: _Ran, given: Gradients) -> tuple[Gradients, WeightBackward]:
    """Returns the gradients of the inputs of a link, and the work that it leaves for W."""
    roots = [
        (edge, gradient)
        for i, (edge, gradient) in enumerate(zip(ran.outputs, given, strict=True))
        if edge is not None and gradient is not None and i not in ran.same
    ]
    wanted = [i for i, edge in enumerate(ran.inputs) if edge is not None]
    edges = [edge for edge in ran.inputs if edge is not None]
    gradients: Gradients = [None] * len(ran.inputs)
    found, weights = input_backward(roots, edges)
    for number, gradient in zip(wanted, found, strict=True):
        gradients[number] = gradient
    for output, number in ran.same.items():
        if ran.inputs[number] is not None:
            _add(gradients, number, given[output])
    return gradients, weights


# Pairs


class StagesInParts:
    """The stages of a rank whose layers have parts, and the order in which pairs issue them."""

    def __init__(
        self, modules: Mapping[StageKey, nn.Module], order: str, sums: Sums, watch: Watch
    ) -> None:
        self._order, self._sums, self._watch = order, sums, watch
        self._is_whole = "," in order and ".W" not in order
        found = {key: Chain.of(module) for key, module in modules.items()}
        self.chains = {key: chain for key, chain in found.items() if chain is not None}
        self._beside: Backward | None = None

    def chain(self, cell: Cell) -> Chain | None:
        """Returns the chain of a forward whose graph is kept."""
        if cell.phase != "F" or cell.recomputed:
            return None
        return self.chains.get((cell.path, cell.stage))

    def pair(self, cells: Sequence[Cell]) -> tuple[Cell, Cell] | None:
        """Returns the forward and the backward of cells that can run in turn."""
        if len(cells) != 2 or not self.chains:
            return None
        forward, backward = sorted(cells, key=lambda cell: cell.phase != "F")
        is_pair = self.chain(forward) is not None and backward.phase in ("B", "I")
        return (forward, backward) if is_pair else None

    def call(self, cell: Cell, activation: Activation, module: nn.Module, mode: str) -> Any:
        """Runs a stage, part by part if its graph is kept, next to a given backward."""
        chain = self.chain(cell) if mode == "train" else None
        if chain is None:
            return call(module, activation.value)
        key, inputs = (cell.path, cell.stage), activation.inputs
        run = activation.parts = Forward(
            chain,
            cell,
            self._watch,
            arguments_of(module, activation.value),
            ([inputs.tensors[number] for number in inputs.wanted], inputs.edges),
            partial(self._sums.look, key) if self._sums.is_unchecked(key) else None,
        )
        backward, self._beside = self._beside, None
        if backward is not None:
            steps = steps_of(self._order, chain.layers, backward.chain.layers)
            for part, phase, layer in steps:
                if phase == "F":
                    run.run(part, layer)
                else:
                    backward.run(part, phase, layer)
        return run.finish()

    def backward(
        self, forward: Forward, cell: Cell, roots: list[Root], device: torch.device
    ) -> Backward:
        return Backward(forward, cell, roots, device, self._is_whole)

    def put_beside(self, backward: Backward) -> None:
        """Lets the next forward overlap with a backward."""
        self._beside = backward

    def run_alone(self, backward: Backward) -> None:
        for part, phase, layer in steps_of(self._order, 0, backward.chain.layers):
            backward.run(part, phase, layer)

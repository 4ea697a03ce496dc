"""The batch of one pass: its microbatches and slices, their losses, and the weights of these.

Microbatches have equal weights unless the caller counts their tokens: the mean of their means is
not the mean over all tokens if one has fewer that count. Without a count, the first steps compare
the weights of a token in each loss, and warn if they differ. Slices run as microbatches.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.distributed.tensor import DTensor

from pipesched import Cell, Schedule

from .errors import PipelineError
from .values import flatten, tensors_in, unflatten

Mode = Literal["train", "evaluate"]


PARTS = "microbatch", "microbatches"
"""Pieces that `cut` makes of a batch: the words for one and for several."""


def cut(
    value: Any, count: int, what: str, dimension: int = 0, kind: tuple[str, str] = PARTS
) -> list[Any]:
    """Returns microbatches: a list unchanged, tensors, tuples and dicts in equal parts."""
    if isinstance(value, list):
        if len(value) != count:
            raise PipelineError(
                f"{what} has {len(value)} entries, wanted {count}, one per {kind[0]}"
            )
        return value
    tensors, structure = flatten(value)
    if not tensors:
        raise PipelineError(f"{what} has no tensors; wanted tensors to cut, or a list of {count}")
    for tensor in tensors:
        size = tensor.shape[dimension] if tensor.dim() > dimension else 0
        if size % count or not size:
            raise PipelineError(
                f"{what} has a tensor of shape {list(tensor.shape)}, whose dimension {dimension} "
                f"cannot be cut into {count} equal {kind[1]}; give a list of {count} for unequal "
                "ones"
            )
    parts = [tensor.chunk(count, dimension) for tensor in tensors]
    return [unflatten([each[i] for each in parts], structure) for i in range(count)]


TOKENS = 1
"""The dimension of tokens in inputs and outputs of stages; dimension 0 has samples."""
_CELL = re.compile(r"(\d+)([A-NP-Za-z])(\d+)(?:\.(\d+))?")
"""A cell of a microbatch or slice. O has a path in its place, and so has G."""


def units_of(schedule: Schedule) -> Schedule:
    """Returns the schedule in which slice s of microbatch m of k slices is microbatch m * k + s."""
    count = schedule.slices
    if count == 1:
        return schedule

    def renamed(cell: re.Match[str]) -> str:
        stage, phase, microbatch, part = cell.groups()
        if phase == "G":
            return cell[0]
        return f"{stage}{phase}{int(microbatch) * count + int(part or 0)}"

    rows = [[_CELL.sub(renamed, word) for word in row] for row in schedule.rows]
    paths = [
        replace(
            path, takes=[range(m * count, (m + 1) * count) for taken in path.takes for m in taken]
        )
        for path in schedule.paths
    ]
    return Schedule.from_rows(
        rows,
        name=schedule.name,
        microbatches=schedule.microbatches * count,
        paths=paths,
        gradient_after=schedule.gradient_after,
        recompute=schedule.recompute,
    )


def has_tokens(tensor: Tensor) -> bool:
    return tensor.dim() > TOKENS


def cut_units(value: Any, schedule: Schedule, what: str) -> list[Any]:
    """Returns the slices of the microbatches of a batch; other microbatches than lists are cut."""
    microbatches = cut(value, schedule.microbatches, what)
    count = schedule.slices
    if count == 1:
        return microbatches
    kind = "slice", "slices"
    return [part for each in microbatches for part in cut(each, count, what, TOKENS, kind)]


def join_slices(outputs: list[Any], count: int) -> list[Any]:
    """Returns the outputs of whole microbatches, from outputs of their slices."""
    if count == 1:
        return outputs
    groups = [outputs[i : i + count] for i in range(0, len(outputs), count)]
    return [None if group[0] is None else join_values(group) for group in groups]


def join_values(slices: list[Any]) -> Any:
    """Returns a value of a whole microbatch, from the values of its slices."""
    flat = [flatten(value) for value in slices]
    parts = zip(*(tensors for tensors, _ in flat), strict=True)
    whole = [torch.cat(part, TOKENS) if has_tokens(part[0]) else part[0] for part in parts]
    return unflatten(whole, flat[0][1])


@dataclass
class Batch:
    """The inputs and results of one pass."""

    mode: Mode
    inputs: list[Any] | None
    targets: list[Any] | None
    scaler: Any
    number: int
    count: int
    """The divisor of losses."""
    record: Callable[[Any], Any] | None = None
    """Called with the `Event` of each instruction."""
    note_done: Callable[[int, int], Any] | None = None
    """Called with the index of an instruction that is done, and when in ns."""
    weights: Sequence[float] | None = None
    """The weights of the losses of microbatches; None if they are equal."""
    tokens: Tokens | None = None
    """Checks whether equal weights are wrong."""
    adds_up: bool = False
    losses: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Any] = field(default_factory=dict)

    def scaled(self, loss: Tensor, number: int) -> Tensor:
        """Returns the value that is differentiated for the loss of a microbatch."""
        scaled: Tensor = loss if self.scaler is None else self.scaler.scale(loss)
        return scaled / self.count if self.weights is None else scaled * self.weights[number]

    def mean(self) -> Tensor | None:
        """Returns the mean, or the sum, of the losses that this rank has computed."""
        numbers = sorted(self.losses)
        if self.weights is not None:
            numbers = [number for number in numbers if self.weights[number]] or numbers
        if not numbers:
            return None
        losses = torch.stack([self.losses[number].reshape(()) for number in numbers])
        if self.weights is None:
            return losses.sum() if self.adds_up else losses.mean()
        weights = losses.new_tensor([self.weights[number] for number in numbers])
        return (losses * weights).sum() / weights.sum()


def lose(
    function: Callable[[Any, Any], Tensor] | None,
    batch: Batch,
    cell: Cell,
    output: Any,
    target: Any,
) -> list[Tensor]:
    """Returns tensors to differentiate for the loss of a microbatch, whose value the batch gets."""
    if batch.targets is None and function is not None:
        raise PipelineError("this rank has a last stage, and needs `targets`")
    loss = output if function is None else function(output, target)
    if isinstance(loss, DTensor):  # of a loss over the parts of a tensor
        loss = loss.full_tensor()
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else loss
        raise PipelineError(f"the loss of a microbatch is {found!r}; wanted a scalar tensor")
    number = cell.microbatch
    batch.losses[number] = loss.detach().clone()
    if batch.mode != "train":
        return []
    if batch.tokens is not None and not (cell.phase == "F" and cell.recomputed):
        batch.tokens.note(number, loss, target)  # R has a graph
    if batch.weights is not None and not batch.weights[number]:
        return _nothing_of(output)
    return [batch.scaled(loss, number)]


def _nothing_of(output: Any) -> list[Tensor]:
    """Returns tensors to differentiate of a microbatch without tokens, whose loss may be 0 / 0."""
    sums = [each.sum() for each in tensors_in(output) if each.requires_grad]
    return [sum(sums[1:], sums[0]) * 0] if sums else []


Count = Callable[[Any], Any]
"""Returns from a target the number of tokens over which its loss is a mean."""
LOOKS = 16
"""The number of steps in which weights are compared."""
NODES = 64
"""The number of nodes of a loss's graph in which a cross-entropy is searched."""
IGNORED = -100
"""The target that PyTorch ignores by default."""
NEAR = 1.01
"""The factor by which weights may differ, since some types have few digits."""
MEAN = 1
"""The code of `reduction="mean"` in PyTorch's graphs."""


def counts_of(count: Count, targets: Sequence[Any]) -> Tensor:
    found = []
    for number, target in enumerate(targets):
        given: Any = count(target)
        if isinstance(given, Tensor) and given.numel() == 1:
            given = given.detach().item()
        if not isinstance(given, (int, float)) or not 0 <= given < float("inf"):
            raise PipelineError(
                f"`count` gives {given!r} for microbatch {number}; wanted a number of tokens"
            )
        found.append(float(given))
    return torch.tensor(found, dtype=torch.float64)


def _weights_in(loss: Tensor, target: Any) -> list[Any]:
    """Returns the weight of a token in each cross-entropy of a loss, by its graph or its target."""
    nodes = [] if loss.grad_fn is None else [loss.grad_fn]
    found: list[Any] = []
    for node in nodes:  # grows
        if type(node).__name__.startswith("NllLoss"):
            untyped: Any = node
            edge = GradientEdge(node, 0)
            (given,) = torch.autograd.grad(loss, edge, retain_graph=True)
            is_mean = untyped._saved_reduction == MEAN
            found.append(given / untyped._saved_total_weight if is_mean else given.abs().max())
        below = [each for each, _ in node.next_functions if each is not None and each not in nodes]
        nodes += below[: NODES - len(nodes)]
    return found or [
        1 / torch.tensor(each.numel() if _is_real(each) else int((each != IGNORED).sum()))
        for each in tensors_in(target)
    ]


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class Tokens:
    """Compares the weights of tokens in the losses of the first steps."""

    def __init__(self) -> None:
        self._left = LOOKS
        self._seen: dict[int, list[Any]] = {}

    @property
    def is_on(self) -> bool:
        return self._left > 0

    def note(self, number: int, loss: Tensor, target: Any) -> None:
        self._seen[number] = _weights_in(loss, target)

    def note_count(self, number: int, count: Tensor) -> None:
        self._seen[number] = [1 / count]

    def end(self) -> None:
        """Ends a step: warns if its microbatches differ."""
        self._left -= 1
        seen, self._seen = self._seen, {}
        weights = [[abs(float(each)) for each in weights] for weights in seen.values()]
        for each in zip(*weights, strict=False):
            known = [weight for weight in each if 0 < weight < math.inf]
            if known and max(known) > NEAR * min(known):
                self._left = 0
                warnings.warn(
                    f"a token of one microbatch weighs {max(known) / min(known):.3g} times that of "
                    "another one: their losses are means over different numbers of tokens, and "
                    "weigh alike. For the mean over all tokens of a step give `count`, as "
                    "count=lambda target: (target != -100).sum(); count=lambda target: 1 says that "
                    "microbatches weigh alike",
                    stacklevel=4,
                )
                return

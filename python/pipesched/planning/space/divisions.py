"""How accelerators and the batch are divided: degrees of parallelism and sizes of microbatches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

from ...costs.frameworks import no_pipeline, sharding_of
from ...support.options import ContextExchange, Recompute, Sharding
from ..candidate import Shape
from ..launch.launchers import why_not_tensor
from ..request import Request, divisors

ALONE_EXCHANGE: tuple[ContextExchange, ...] = ("ring",)
"""The value for the exchange if sequences are whole."""


class Split(NamedTuple):
    """The workers of a pipeline, and the replicas."""

    pipeline: int
    data: int


class Base(NamedTuple):
    """The facts, besides its size, that decide the time of a microbatch through all layers."""

    tensor: int
    context: int
    exchange: ContextExchange
    expert: int
    recompute: Recompute

    @property
    def worker(self) -> int:
        return self.tensor * self.context

    def shape(self, split: Split, size: int, count: int = 1, sharding: Sharding = "none") -> Shape:
        """A shape with a number of microbatches of a size."""
        return Shape(
            *(self.tensor, split.pipeline, split.data, size, count, self.recompute, sharding),
            context=self.context,
            expert=self.expert,
            exchange=self.exchange,
        )


def base_of(shape: Shape) -> Base:
    return Base(shape.tensor, shape.context, shape.exchange, shape.expert, shape.recompute)


class Divisions:
    """The divisions that a request allows."""

    def __init__(self, request: Request, left_out: Counter[str]) -> None:
        self.request = request
        self.left_out = left_out
        """The reasons why divisions were left out, with the number for each."""
        self._sizes: dict[int, tuple[int, ...]] = {}
        self._shardings: dict[tuple[bool, int, int], tuple[Sharding, ...]] = {}

    # Degrees

    def _tensor_degrees(self) -> list[int]:
        request = self.request
        heads = request.sizes["key_value_heads"]
        found = []
        for tensor in request.tensor or divisors(gcd(heads, request.gpus)):
            if request.gpus % tensor:
                self.left_out[f"tensor {tensor} does not divide {request.gpus} accelerators"] += 1
            elif tensor > 1 and request.no_link:
                self.left_out[request.no_link] += 1
            elif tensor > 1 and request.experts and not request.sequence_parallel:
                # Megatron-Core's router raises an error (transformer/moe/moe_layer.py).
                self.left_out["experts and tensors need sequence parallelism"] += 1
            elif reason := why_not_tensor(request, tensor):
                self.left_out[reason] += 1
            else:
                found.append(tensor)
        return found

    def _context_degrees(self, tensor: int) -> list[int]:
        """All that both launchers run. These cut a sequence into twice as many pieces, and each
        part has an early and a late one, since a causal mask leaves less work for early ones.
        """
        request, found = self.request, []
        sequence = request.sizes["sequence"]
        rest = divisors(request.gpus // tensor)
        default = [c for c in rest if c == 1 or sequence % (2 * c) == 0]
        for context in request.context or default:
            if request.gpus % (tensor * context):
                self.left_out[
                    f"tensor {tensor} and context {context} do not divide {request.gpus}"
                    " accelerators"
                ] += 1
            elif context > 1 and request.no_link:
                self.left_out[request.no_link] += 1
            elif request.sizes["group_unit"] % (tensor * context):
                self.left_out[
                    f"tensor {tensor} and context {context} do not divide the accelerators of each"
                    " group of nodes"
                ] += 1
            elif context > 1 and sequence % (2 * context):
                below = sequence // (2 * context) * 2 * context
                self.left_out[
                    f"context {context} divides sequences into {2 * context} pieces, which"
                    f" {sequence} tokens do not give; {below or 2 * context} do"
                ] += 1
            else:
                found.append(context)
        return found

    def _pipeline_degrees(self, worker: int) -> list[int]:
        request, layers = self.request, self.request.sizes["layers"]
        rest = request.gpus // worker
        found = []
        for pipeline in request.pp or divisors(rest):
            if rest % pipeline:
                self.left_out[
                    f"pp {pipeline} and workers of {worker} do not divide"
                    f" {request.gpus} accelerators"
                ] += 1
            elif pipeline > layers:
                self.left_out[f"pp {pipeline} is more than {layers} layers"] += 1
            elif reason := no_pipeline(request.launcher, request.has_tied_head, pipeline):
                self.left_out[reason] += 1
            else:
                found.append(pipeline)
        return found

    def _expert_degrees(self, stage: int) -> list[int]:
        """Degrees for the `stage` accelerators that hold a stage, and divide its state if it is
        sharded, which divide both them and the experts.
        """
        request, experts = self.request, self.request.experts
        found = []
        for expert in request.expert or (divisors(gcd(stage, experts)) if experts else [1]):
            if expert > 1 and not experts:
                self.left_out[f"expert {expert}: the model has no experts"] += 1
            elif expert > max(experts, 1):
                self.left_out[f"expert {expert} is more than the {experts} experts"] += 1
            elif expert > 1 and experts % expert:
                near = nearest_divisors(experts, expert)
                self.left_out[f"expert {expert} does not divide {experts} experts; {near} do"] += 1
            elif stage % (ranks := request.expert_ranks(expert)):
                by = f" by expert-tensor {ranks // expert}" if ranks > expert else ""
                self.left_out[
                    f"expert {expert}{by} does not divide the {stage} accelerators of a stage;"
                    f" {nearest_divisors(stage, ranks)} do"
                ] += 1
            else:
                found.append(expert)
        return found

    # The batch

    def _microbatch_sizes(self, data: int) -> list[int]:
        request = self.request
        if request.global_batch % data:
            self.left_out[
                f"a global batch of {request.global_batch} cannot be dealt to {data} replicas"
            ] += 1
            return []
        local = request.global_batch // data
        sizes = request.microbatch_size or divisors(local)
        for size in sizes:
            if local % size:
                self.left_out[
                    f"microbatches of {size} do not divide the {local} sequences of a replica"
                ] += 1
        return [size for size in sizes if local % size == 0]

    def shardings(self, pipeline: int, data: int, context: int) -> tuple[Sharding, ...]:
        """The state that the framework shards over replicas of parameters: the data-parallel
        replicas and the parts of sequences. A single one has nothing to shard over.
        """
        if data * context == 1:
            return ("none",)
        framework, groups = self.request.framework, self.request.held["shard_groups"]
        found: dict[Sharding, None] = {}
        for given in self.request.sharding or ():
            made = sharding_of(framework.name, pipeline, given)
            if made is None:
                self.left_out[
                    f"{framework.title} has no sharding like {given}"
                    + ("" if pipeline > 1 else " without a pipeline")
                ] += 1
            elif made != "none" and data % groups:
                self.left_out[f"shard-groups {groups} does not divide {data} replicas"] += 1
            else:
                found[made] = None
        return tuple(found)

    # All of them

    def _degrees(self) -> Iterator[tuple[int, int, Split]]:
        """Tensor and context parallelism, and the workers and replicas."""
        for tensor in self._tensor_degrees():
            for context in self._context_degrees(tensor):
                for pipeline in self._pipeline_degrees(tensor * context):
                    data = self.request.gpus // (tensor * context * pipeline)
                    yield tensor, context, Split(pipeline, data)

    def bases(self) -> dict[Base, list[Split]]:
        """All choices that decide the time of a microbatch except its size, and the numbers of
        workers and replicas that each of them leaves.
        """
        found: dict[Base, list[Split]] = {}
        for tensor, context, split in self._degrees():
            groups = gcd(split.data, self.request.held["shard_groups"])
            for expert in self._expert_degrees(tensor * context * split.data // groups):
                for exchange in self.request.exchanges if context > 1 else ALONE_EXCHANGE:
                    for recompute in self.request.recompute:
                        base = Base(tensor, context, exchange, expert, recompute)
                        found.setdefault(base, []).append(split)
        return found

    def sizes(self, split: Split) -> tuple[int, ...]:
        """The sizes of microbatches for a number of replicas."""
        if split.data not in self._sizes:
            self._sizes[split.data] = tuple(self._microbatch_sizes(split.data))
        return self._sizes[split.data]

    def shapes_of(self, base: Base, split: Split, size: int) -> Iterator[Shape]:
        """The shapes of a base, one for each kind of sharding."""
        count = self.request.global_batch // (split.data * size)
        key = split.pipeline > 1, split.data, base.context
        if key not in self._shardings:
            self._shardings[key] = self.shardings(split.pipeline, split.data, base.context)
        for sharding in self._shardings[key]:
            yield base.shape(split, size, count, sharding)

    def shapes(self) -> Iterator[Shape]:
        """All divisions of accelerators and batch, in order."""
        for base, splits in self.bases().items():
            for split in splits:
                for size in self.sizes(split):
                    yield from self.shapes_of(base, split, size)


def nearest_divisors(whole: int, degree: int) -> str:
    """The divisors around a degree.

    >>> nearest_divisors(64, 24)
    '16 and 32'
    """
    all_of_them = divisors(whole)
    below = [d for d in all_of_them if d < degree][-1:]
    above = [d for d in all_of_them if d > degree][:1]
    return " and ".join(map(str, below + above))

"""How accelerators and the batch are divided: degrees of parallelism and sizes of microbatches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import gcd

from .._options import Sharding
from ._candidate import Shape
from ._frameworks import sharding_of
from ._request import Request, divisors

LONG, PART = 16384, 4096
"""Sequences of more tokens than the first are also divided, into parts of at least the second."""


def powers_of_two(most: int) -> list[int]:
    """
    >>> powers_of_two(9)
    [1, 2, 4, 8]
    """
    return [1 << power for power in range(most.bit_length())]


class Divisions:
    """The divisions that a request allows."""

    def __init__(self, request: Request, left_out: Counter[str]) -> None:
        self.request = request
        self.left_out = left_out
        """The reasons why divisions were left out, and how many for each."""

    # Degrees

    def _tensor_degrees(self) -> list[int]:
        request = self.request
        heads = request.sizes["key_value_heads"]
        found = []
        for tensor in request.tensor or divisors(request.node):
            if request.gpus % tensor:
                self.left_out[f"tensor {tensor} does not divide {request.gpus} accelerators"] += 1
            elif heads % tensor:
                self.left_out[f"tensor {tensor} does not divide {heads} key-value heads"] += 1
            else:
                found.append(tensor)
        return found

    def _context_degrees(self, tensor: int) -> list[int]:
        """Powers of two if nothing is given, and 1 alone for sequences that are not long. Both
        launchers cut a sequence into twice as many pieces, of which each part has an early and a
        late one, since a causal mask leaves less to do for early ones.
        """
        request, found = self.request, []
        sequence = request.sizes["sequence"]
        default = powers_of_two(sequence // PART) if sequence > LONG else [1]
        for context in request.context or default:
            if request.gpus % (tensor * context):
                self.left_out[
                    f"tensor {tensor} and context {context} do not divide {request.gpus}"
                    " accelerators"
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
        for pipeline in request.stages or divisors(rest):
            if rest % pipeline:
                self.left_out[
                    f"workers of {worker} and {pipeline} stages do not divide"
                    f" {request.gpus} accelerators"
                ] += 1
            elif pipeline > layers:
                self.left_out[f"{pipeline} stages are more than {layers} layers"] += 1
            else:
                found.append(pipeline)
        return found

    def _expert_degrees(self, stage: int) -> list[int]:
        """Degrees for the `stage` accelerators that hold a stage: by default 1, powers of two that
        divide both them and the experts, and the largest such degree.
        """
        request, experts = self.request, self.request.experts
        both = gcd(stage, experts)
        default = [d for d in divisors(both) if d & (d - 1) == 0 or d == both] if experts else [1]
        found = []
        for expert in request.expert or default:
            if expert > 1 and not experts:
                self.left_out[f"expert {expert}: the model has no experts"] += 1
            elif expert > max(experts, 1):
                self.left_out[f"expert {expert} is more than the {experts} experts"] += 1
            elif expert > 1 and experts % expert:
                near = nearest_divisors(experts, expert)
                self.left_out[f"expert {expert} does not divide {experts} experts; {near} do"] += 1
            elif stage % expert:
                self.left_out[
                    f"expert {expert} does not divide the {stage} accelerators of a stage;"
                    f" {nearest_divisors(stage, expert)} do"
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

    def shardings(self, pipeline: int, replicas: int) -> tuple[Sharding, ...]:
        """What the framework shards over replicas of parameters, which are those of the data and
        the parts of sequences. A single one has nothing to shard over.
        """
        if replicas == 1:
            return ("none",)
        framework = self.request.framework
        found: dict[Sharding, None] = {}
        for given in self.request.sharding or ():
            made = sharding_of(framework.name, pipeline, given)
            if made is None:
                self.left_out[
                    f"{framework.title} has no sharding like {given}"
                    + ("" if pipeline > 1 else " without a pipeline")
                ] += 1
            else:
                found[made] = None
        return tuple(found)

    # All of them

    def _degrees(self) -> Iterator[tuple[int, int, int, int]]:
        """Tensor, context, pipeline and data parallelism."""
        for tensor in self._tensor_degrees():
            for context in self._context_degrees(tensor):
                for pipeline in self._pipeline_degrees(tensor * context):
                    data = self.request.gpus // (tensor * context * pipeline)
                    yield tensor, context, pipeline, data

    def shapes(self) -> Iterator[Shape]:
        """All divisions of accelerators and batch, in order."""
        request = self.request
        for tensor, context, pipeline, data in self._degrees():
            sharding = self.shardings(pipeline, context * data)
            experts = self._expert_degrees(tensor * context * data)
            for size in self._microbatch_sizes(data):
                count = request.global_batch // (data * size)
                for expert in experts:
                    for shard in sharding:
                        for recompute in request.recompute:
                            yield Shape(
                                *(tensor, pipeline, data, size, count, recompute, shard),
                                context=context,
                                expert=expert,
                            )


def nearest_divisors(whole: int, degree: int) -> str:
    """The divisors around a degree.

    >>> nearest_divisors(64, 24)
    '16 and 32'
    """
    all_of_them = divisors(whole)
    below = [d for d in all_of_them if d < degree][-1:]
    above = [d for d in all_of_them if d > degree][:1]
    return " and ".join(map(str, below + above))

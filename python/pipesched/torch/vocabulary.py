"""A head whose vocabulary is divided among ranks: vocabulary parallelism (arXiv 2411.05288).

Each rank has a shard of the head's weights and computes, for one microbatch:

    X   the input of the head, from the rank of the last stage        `broadcast`
    S   the logits of its shard, their maximum and sum of exponentials `VocabularyHead.logits`
    Y   maximum and sum over all shards                                `Logits.combine`
    T   the gradients of its weights, and its part of the input's      `Logits.backward`
    Z   that part, summed over the shards (Vocab-1)                    `Logits.reduce`

With Vocab-2 the input's gradient is summed in Y, before T: `VocabularyHead.logits` with `early`.
Nothing of it is recorded by autograd. Exponentials are of differences from the maximum over all
shards, so that they do not overflow, however large logits are.

    head = VocabularyHead(weight[head_rows(len(weight), rank, size)], len(weight), group)
    logits = head.logits(x, targets)
    loss = logits.combine()          # the same on all ranks
    logits.backward(scale)           # adds to head.weight.grad
    gradient = logits.reduce()       # of x
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from ._errors import PipelineError


def padded_vocabulary(vocabulary: int, ranks: int) -> int:
    """The size of a vocabulary that ranks divide evenly into even parts: the next multiple of twice
    their number, as the paper pads it.

    Raises PipelineError for fewer entries than ranks.
    """
    if vocabulary < ranks:
        raise PipelineError(
            f"a vocabulary of {vocabulary} has no shard for each of {ranks} ranks; it needs at"
            f" least {ranks} entries"
        )
    return -(-vocabulary // (2 * ranks)) * 2 * ranks


def head_rows(vocabulary: int, rank: int, ranks: int) -> slice:
    """The entries of a vocabulary in the shard of a rank; the last ranks may have fewer, or none,
    since padding is at the end.
    """
    part = padded_vocabulary(vocabulary, ranks) // ranks
    return slice(min(rank * part, vocabulary), min((rank + 1) * part, vocabulary))


def broadcast(x: Tensor, source: int, group: dist.ProcessGroup | None = None) -> Tensor:
    """The input of the head from the rank that has it, a global rank; others give a tensor of its
    shape and type, which is filled.
    """
    dist.broadcast(x, source, group=group)
    return x


class VocabularyHead(nn.Module):
    """The shard of a head that a rank has: [entries of `head_rows`, hidden].

    Args:
        weight: the shard, of which `head.weight` is a parameter. If it is one already, it is that
            parameter, so that an embedding may share it (`VocabularyEmbedding`).
        vocabulary: the entries of all shards.
        group: the ranks with shards, in their order; all ranks by default.
        bias: likewise [entries], optional.
        ignored: targets with this value do not count (cross_entropy's `ignore_index`).

    Raises PipelineError for a shard of another size than `head_rows` says.
    """

    def __init__(
        self,
        weight: Tensor,
        vocabulary: int,
        group: dist.ProcessGroup | None = None,
        bias: Tensor | None = None,
        ignored: int = -100,
    ) -> None:
        super().__init__()
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight.clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        self.vocabulary, self.group, self.ignored = vocabulary, group, ignored
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        self.rows = head_rows(vocabulary, rank, ranks)
        check_shard(self.weight, self.rows, rank)

    def logits(self, x: Tensor, targets: Tensor, *, early: bool = False) -> Logits:
        """S: the logits of the shard for x, [tokens, hidden], and targets, [tokens].

        With `early` the part of the input's gradient that needs no other shard is computed here
        (Vocab-2). Raises PipelineError for other shapes, or for targets outside of the vocabulary.
        """
        if x.dim() != 2 or x.shape[1] != self.weight.shape[1] or targets.shape != x.shape[:1]:
            raise PipelineError(
                f"the head takes an input of [tokens, {self.weight.shape[1]}] and a target for each"
                f" token, found {list(x.shape)} and {list(targets.shape)}"
            )
        counts = targets != self.ignored
        wrong = counts & ((targets < 0) | (targets >= self.vocabulary))
        if bool(wrong.any()):
            token = int(wrong.nonzero()[0])
            raise PipelineError(
                f"the target of token {token} is {int(targets[token])}, outside of the vocabulary"
                f" of {self.vocabulary}"
            )
        with torch.no_grad():
            return Logits(self, x.detach(), targets, counts, early)


class Logits:
    """What a shard keeps of a microbatch from S to T: the logits, and the input of the head."""

    def __init__(
        self, head: VocabularyHead, x: Tensor, targets: Tensor, counts: Tensor, early: bool
    ) -> None:
        self._head, self._x, self._counts = head, x, counts
        self._values = functional.linear(x, head.weight, head.bias)
        rows = head.rows
        self._here = counts & (targets >= rows.start) & (targets < rows.stop)
        self._columns = (targets - rows.start)[self._here]
        # A shard of padding alone has no maximum.
        low = self._values.new_full((len(x), 1), -torch.inf)
        self._most = torch.cat([low, self._values], 1).amax(1)
        self._sum = self._shifted(self._most).sum(1)
        self._scale: Tensor | None = None
        self._parts: tuple[Tensor, Tensor] | None = None
        if early:
            self._parts = self._shifted(self._most) @ head.weight, self._of_targets() @ head.weight
        self._gradient: Tensor | None = None

    def _shifted(self, most: Tensor) -> Tensor:
        """exp(logits - most), 0 where nothing is finite."""
        finite = torch.where(torch.isfinite(most), most, torch.zeros_like(most))
        return (self._values - finite[:, None]).exp()

    def _of_targets(self) -> Tensor:
        """1 at the target of each token that is in the shard."""
        ones = torch.zeros_like(self._values)
        ones[self._here.nonzero()[:, 0], self._columns] = 1
        return ones

    @torch.no_grad()
    def combine(self) -> Tensor:
        """Y: the mean loss of the tokens that count, the same on all ranks; nan if none counts, as
        cross_entropy has it. With Vocab-2 the gradient of the input is summed here for a loss
        that counts once.
        """
        head = self._head
        own = self._most.clone()
        dist.all_reduce(self._most, dist.ReduceOp.MAX, group=head.group)
        target = torch.zeros_like(self._most)
        target[self._here] = self._values[self._here.nonzero()[:, 0], self._columns]
        fit = torch.where(torch.isfinite(own), (own - self._most).exp(), torch.zeros_like(own))
        sums = torch.stack([self._sum * fit, target])
        dist.all_reduce(sums, group=head.group)
        self._sum = sums[0]
        losses = self._most + self._sum.log() - sums[1]
        number = self._counts.sum()
        self._scale = self._counts.to(losses.dtype) / number
        if self._parts is not None:
            softmax, targets = self._parts
            softmax = softmax * (fit / self._sum)[:, None]
            self._gradient = (softmax - targets) * self._scale[:, None]
            dist.all_reduce(self._gradient, group=head.group)
        return losses[self._counts].sum() / number

    @torch.no_grad()
    def backward(self, scale: float = 1.0) -> None:
        """T: adds `scale` times the gradient of the mean loss to those of the shard's parameters,
        and with Vocab-1 computes the shard's part of that of the input.

        Raises PipelineError before `combine`.
        """
        if self._scale is None:
            raise PipelineError("T comes after Y: `backward` needs what `combine` finds")
        head = self._head
        found = self._shifted(self._most) / self._sum[:, None] - self._of_targets()
        found *= (self._scale * scale)[:, None]
        add_gradient(head.weight, found.mT @ self._x)
        if head.bias is not None:
            add_gradient(head.bias, found.sum(0))
        if self._parts is None:
            self._gradient = found @ head.weight
        elif self._gradient is not None:
            self._gradient = self._gradient * scale

    @torch.no_grad()
    def reduce(self) -> Tensor:
        """Z: the gradient of the input, [tokens, hidden], on all ranks. With Vocab-2 it is that of
        `combine`, without a further sum; it has the scale of `backward` if that came before.

        Raises PipelineError with Vocab-1 before `backward`.
        """
        if self._gradient is None:
            raise PipelineError("Z comes after T: `reduce` needs what `backward` finds")
        if self._parts is None:
            dist.all_reduce(self._gradient, group=self._head.group)
        return self._gradient


class VocabularyEmbedding(nn.Module):
    """The shard of an embedding, which may be the parameter of a `VocabularyHead`, tied to it.

    Raises PipelineError for a shard of another size than `head_rows` says.
    """

    def __init__(
        self, weight: Tensor, vocabulary: int, group: dist.ProcessGroup | None = None
    ) -> None:
        super().__init__()
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight.clone())
        self.group = group
        rank = dist.get_rank(group)
        self.rows = head_rows(vocabulary, rank, dist.get_world_size(group))
        check_shard(self.weight, self.rows, rank)

    @torch.no_grad()
    def lookup(self, tokens: Tensor) -> Tensor:
        """The rows of all tokens, [tokens, hidden], on all ranks."""
        here, columns = self._own(tokens)
        found = self.weight.new_zeros((len(tokens), self.weight.shape[1]))
        found[here] = self.weight[columns]
        dist.all_reduce(found, group=self.group)
        return found

    @torch.no_grad()
    def backward(self, tokens: Tensor, gradient: Tensor) -> None:
        """Adds the gradient of what `lookup` gave, [tokens, hidden], to that of the shard."""
        here, columns = self._own(tokens)
        found = torch.zeros_like(self.weight)
        found.index_add_(0, columns, gradient[here])
        add_gradient(self.weight, found)

    def _own(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        here = (tokens >= self.rows.start) & (tokens < self.rows.stop)
        return here, (tokens - self.rows.start)[here]


def check_shard(weight: Tensor, rows: slice, rank: int) -> None:
    """Raises PipelineError unless a shard has the rows of its rank."""
    if weight.dim() != 2 or len(weight) != rows.stop - rows.start:
        raise PipelineError(
            f"the shard of rank {rank} has entries {rows.start} to {rows.stop} of the vocabulary,"
            f" [{rows.stop - rows.start}, hidden]; found {list(weight.shape)}"
        )


def add_gradient(parameter: nn.Parameter, found: Tensor) -> None:
    """Adds to the gradient of a parameter."""
    if parameter.grad is None:
        parameter.grad = found
    else:
        parameter.grad += found

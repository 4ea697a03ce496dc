"""A head and an embedding whose vocabulary is divided among ranks: vocabulary parallelism (arXiv
2411.05288).

Each rank has a shard of the head's weights and computes, for one microbatch:

    X   the input of the head, from the rank of the last stage
    S   the logits of its shard, their maximum and sum of exponentials `VocabularyHead.logits`
    Y   maximum and sum over all shards                                `Logits.join`
    T   the gradients of its weights, and its part of the input's      `Logits.backward`
    Z   that part, summed over the shards (Vocab-1)                    `Logits.part`

An embedding is divided likewise (`VocabularyEmbedding`):

    E   the rows of the tokens that are in the shard, zeros for others `part`
    A   their sum, on the rank of the first stage
    C   the gradient of that sum, from that rank to all
    V   that gradient, added to the shard's row gradients              `backward`

With Vocab-2 the input's gradient is summed in Y, before T: `VocabularyHead.logits` with `early`.
Autograd records none of it. Exponentials are of differences from the maximum over all shards, so
that they do not overflow for large logits. The runtime runs the collectives (`vocab_parallel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from .core.errors import PipelineError

Kind = TypeVar("Kind", bound=nn.Module)


def padded_vocabulary(vocabulary: int, ranks: int) -> int:
    """Returns the size of a vocabulary that ranks divide evenly into even parts: the next multiple
    of twice their number, as the paper pads it.

    Raises PipelineError for fewer entries than ranks.
    """
    if vocabulary < ranks:
        raise PipelineError(
            f"a vocabulary of {vocabulary} has no shard for each of {ranks} ranks; it needs at"
            f" least {ranks} entries"
        )
    return -(-vocabulary // (2 * ranks)) * 2 * ranks


def head_rows(vocabulary: int, rank: int, ranks: int) -> slice:
    """Returns the entries of a rank's shard. Padding at the end makes the last shards smaller."""
    part = padded_vocabulary(vocabulary, ranks) // ranks
    return slice(min(rank * part, vocabulary), min((rank + 1) * part, vocabulary))


class _Shard(nn.Module):
    """Holds the entries of a vocabulary that a rank has."""

    def __init__(
        self, weight: Tensor, vocabulary: int, group: dist.ProcessGroup | None, name: str
    ) -> None:
        super().__init__()
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight.clone())
        self.vocabulary, self.group = vocabulary, group
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        self.rows = head_rows(vocabulary, rank, ranks)
        self.name = name
        """Its name in the whole model, as in states and checkpoints."""
        if self.weight.dim() != 2 or len(self.weight) != self.rows.stop - self.rows.start:
            raise PipelineError(
                f"the shard of rank {rank} has entries {self.rows.start} to {self.rows.stop} of the"
                f" vocabulary, [{self.rows.stop - self.rows.start}, hidden]; found"
                f" {list(self.weight.shape)}"
            )

    def _check(self, numbers: Tensor, subject: str, what: str) -> None:
        wrong = ((numbers < 0) | (numbers >= self.vocabulary)).flatten()
        if bool(wrong.any()):
            token = int(wrong.nonzero()[0])
            raise PipelineError(
                f"{subject} {token}{what} is {int(numbers.flatten()[token])}, outside of the"
                f" vocabulary of {self.vocabulary}"
            )


class VocabularyHead(_Shard):
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
        super().__init__(weight, vocabulary, group, "head")
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        self.ignored = ignored
        self.entrance: HeadInput | None = None
        """The place of the head in the model, if `take_head` has taken it."""
        self._whole: list[nn.Parameter] = []
        self.tied_names: tuple[str, ...] = ()
        """Other names of the weight in the whole model."""

    @property
    def whole(self) -> nn.Parameter | None:
        """The whole weight in the rest of the model, if the head is tied to it."""
        return self._whole[0] if self._whole else None

    def tie(self, whole: nn.Parameter, names: Sequence[str] = ()) -> None:
        """Ties the head to the whole weight, which has these names in the rest of the model."""
        self._whole = [whole]  # in a list, so that it is not a parameter of this module
        self.tied_names = tuple(names)

    def untie(self) -> None:
        """Ends the tie: the parameter that the head was tied to is in shards too."""
        self._whole, self.tied_names = [], ()

    def check_targets(self, targets: Tensor, what: str = "") -> None:
        """Raises PipelineError for targets outside of the vocabulary. The host waits for them."""
        self._check(targets.masked_fill(targets == self.ignored, 0), "the target of token", what)

    def logits(
        self, x: Tensor, targets: Tensor, *, early: bool = False, checked: bool = False
    ) -> Logits:
        """S: the logits of the shard for x, [tokens, hidden], and targets, [tokens].

        With `early` the part of the input's gradient that needs no other shard is computed here
        (Vocab-2). Raises PipelineError for other shapes, or for targets outside of the vocabulary,
        unless these were `checked` before.
        """
        if x.dim() != 2 or x.shape[1] != self.weight.shape[1] or targets.shape != x.shape[:1]:
            raise PipelineError(
                f"the head takes an input of [tokens, {self.weight.shape[1]}] and a target for each"
                f" token, found {list(x.shape)} and {list(targets.shape)}"
            )
        if not checked:
            self.check_targets(targets)
        with torch.no_grad():
            return Logits(self, x.detach(), targets, early)


class Logits:
    """The tensors that a shard keeps of a microbatch from S to T: the logits, and the input of the
    head.

    Logits and values computed from them have at least 32 bits. Nothing here waits for a device.
    """

    def __init__(self, head: VocabularyHead, x: Tensor, targets: Tensor, early: bool) -> None:
        self._head = head
        self._x = x.to(head.weight.dtype)
        self._counts = targets != head.ignored
        values = functional.linear(self._x, head.weight, head.bias)
        self.values = values.to(torch.promote_types(values.dtype, torch.float32))
        """The logits of the shard, [tokens, entries]."""
        rows = head.rows
        self._here = self._counts & (targets >= rows.start) & (targets < rows.stop)
        self._columns = (targets - rows.start).clamp(0, max(len(head.weight) - 1, 0))
        # A shard of only padding has no maximum.
        low = self.values.new_full((len(x), 1), -torch.inf)
        self._most = torch.cat([low, self.values], 1).amax(1)
        self._sum = self._shifted(self._most).sum(1)
        self._scale: Tensor | None = None
        self._parts: tuple[Tensor, Tensor] | None = None
        if early:
            self._parts = self._softmax_part(), self._target_part()
        self._gradient: Tensor | None = None

    @property
    def tensors(self) -> list[Tensor]:
        own = [self._x, self.values, self._most, self._sum]
        return own + [t for t in (*(self._parts or ()), self._gradient) if t is not None]

    def _shifted(self, most: Tensor) -> Tensor:
        """exp(logits - most), 0 if none is finite."""
        finite = torch.where(torch.isfinite(most), most, torch.zeros_like(most))
        return (self.values - finite[:, None]).exp()

    def _softmax_part(self) -> Tensor:
        weight = self._head.weight
        return (self._shifted(self._most).to(weight.dtype) @ weight).to(self.values.dtype)

    def _target_part(self) -> Tensor:
        """Returns the weights of the targets that are in the shard."""
        weight = self._head.weight
        if not len(weight):
            return self.values.new_zeros((len(self._x), weight.shape[1]))
        found = weight[self._columns].to(self.values.dtype)
        return torch.where(self._here[:, None], found, torch.zeros_like(found))

    def _of_targets(self) -> Tensor:
        """1 at the target of each token that is in the shard."""
        ones = torch.zeros_like(self.values)
        if ones.shape[1]:
            ones.scatter_(1, self._columns[:, None], self._here[:, None].to(ones.dtype))
        return ones

    @torch.no_grad()
    def numbers(self) -> Tensor:
        """Returns maximum, sum of exponentials and logit of the target (or 0), [3, tokens]."""
        target = torch.zeros_like(self._most)
        if self.values.shape[1]:
            found = self.values.gather(1, self._columns[:, None])[:, 0]
            target = torch.where(self._here, found, target)
        return torch.stack([self._most, self._sum, target])

    @torch.no_grad()
    def join(self, numbers: Tensor) -> Tensor:
        """Takes the numbers of all shards, [shards, 3, tokens], in the order of ranks. Returns the
        mean loss of the tokens that count; nan without any.
        """
        own, most = self._most, numbers[:, 0].amax(0)
        fits = torch.where(
            torch.isfinite(numbers[:, 0]), (numbers[:, 0] - most).exp(), torch.zeros_like(most)
        )
        fit = torch.where(torch.isfinite(own), (own - most).exp(), torch.zeros_like(own))
        self._most, self._sum = most, (numbers[:, 1] * fits).sum(0)
        losses = most + self._sum.log() - numbers[:, 2].sum(0)
        number = self._counts.sum()
        self._scale = self._counts.to(losses.dtype) / number.clamp(min=1)
        if self._parts is not None:
            softmax, targets = self._parts
            softmax = softmax * (fit / self._sum)[:, None]
            self._gradient = (softmax - targets) * self._scale[:, None]
        return torch.where(self._counts, losses, torch.zeros_like(losses)).sum() / number

    @property
    def part(self) -> Tensor:
        """The part of the input's gradient to sum over shards, after T (Vocab-1) or Y (Vocab-2)."""
        if self._gradient is None:
            raise PipelineError("Z comes after T: `part` needs what `backward` finds")
        return self._gradient

    @torch.no_grad()
    def backward(self, scale: float = 1.0) -> None:
        """T: adds `scale` times the gradient of the mean loss to the gradients of the shard's
        parameters, and with Vocab-1 computes the shard's part of the input's gradient.

        Raises PipelineError before `join`.
        """
        if self._scale is None:
            raise PipelineError("T comes after Y: `backward` needs what `join` finds")
        head = self._head
        exact = self._shifted(self._most) / self._sum[:, None] - self._of_targets()
        exact *= (self._scale * scale)[:, None]
        found = exact.to(head.weight.dtype)
        if head.weight.requires_grad:
            add_gradient(head.weight, found.mT @ self._x)
        if head.bias is not None and head.bias.requires_grad:
            add_gradient(head.bias, exact.sum(0).to(head.bias.dtype))
        if self._parts is None:
            self._gradient = (found @ head.weight).to(self.values.dtype)
        elif self._gradient is not None:
            self._gradient = self._gradient * scale


class HeadInput(nn.Module):
    """Replaces the head of a model: gives its input, and remembers it for the runtime."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self._seen = x
        return x

    def take(self) -> Tensor | None:
        seen, self._seen = self._seen, None
        return seen


def take_head(
    model: nn.Module,
    group: dist.ProcessGroup | None = None,
    *,
    name: str | None = None,
    ignored: int = -100,
) -> VocabularyHead:
    """Takes the head out of a whole model, and returns this rank's shard of it. A `HeadInput`
    replaces it, so that the model ends in the input of the head. Cut the model afterwards.

    group: the ranks with shards, in their order; all ranks by default. name: of the `nn.Linear`
    that is the head; by default the last one in the last child. ignored: targets that do not count.

    A head whose weight the rest of the model uses too, such as a tied embedding, stays tied: the
    runtime adds up the gradients of both. All ranks take it alike. Raises PipelineError if there is
    no such module.
    """
    missing = "nn.Linear, which would be its head; give its `name`"
    chosen, found = _find(model, nn.Linear, name, "head", missing)
    entrance = HeadInput()
    _replace(model, chosen, entrance)
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    rows = head_rows(len(found.weight), rank, ranks)
    head = VocabularyHead(
        found.weight.detach()[rows],
        len(found.weight),
        group,
        None if found.bias is None else found.bias[rows],
        ignored,
    )
    head.weight.requires_grad_(found.weight.requires_grad)
    if head.bias is not None and found.bias is not None:
        head.bias.requires_grad_(found.bias.requires_grad)
    head.entrance, head.name = entrance, chosen
    parameters = list(model.named_parameters(remove_duplicate=False))
    if names := [each for each, parameter in parameters if parameter is found.weight]:
        head.tie(cast(nn.Parameter, found.weight), names)
    if any(each is found.bias for each in model.parameters()):
        raise PipelineError(f"the bias of the head {chosen!r} is used by the rest of the model too")
    return head


class EmbeddingOutput(nn.Module):
    """Replaces the embedding of a model: returns the lookups of the runtime, once each."""

    def __init__(self) -> None:
        super().__init__()
        self._given: tuple[Tensor, Tensor] | None = None

    def give(self, output: Tensor, tokens: Tensor) -> None:
        """Gives the rows of the numbers that the model is going to ask for."""
        self._given = output, tokens

    def is_used(self) -> bool:
        """Returns whether the model has asked for the last given result."""
        return self._given is None

    def forward(self, tokens: Tensor) -> Tensor:
        given, self._given = self._given, None
        if given is None:
            raise PipelineError(
                "an embedding in shards is used outside of the runtime, or twice in a microbatch: "
                "the first stage looks up the numbers of its input once"
            )
        output, wanted = given
        if tokens.shape != wanted.shape or not torch.equal(tokens, wanted):
            raise PipelineError(
                f"the first stage looks up other numbers, {list(tokens.shape)}, than those of its "
                f"input, {list(wanted.shape)}, which the shards of the embedding have looked up"
            )
        return output


class VocabularyEmbedding(_Shard):
    """The shard of an embedding, which may be the parameter of a `VocabularyHead`, tied to it.

    Args:
        weight: the shard, [entries of `head_rows`, hidden], as in `VocabularyHead`.
        vocabulary: the entries of all shards.
        group: the ranks with shards, in their order; all ranks by default.
        padding: the number whose row gets no gradient (`padding_idx` of `nn.Embedding`).

    Raises PipelineError for a shard of another size than `head_rows` says.
    """

    def __init__(
        self,
        weight: Tensor,
        vocabulary: int,
        group: dist.ProcessGroup | None = None,
        padding: int | None = None,
    ) -> None:
        super().__init__(weight, vocabulary, group, "embedding")
        self.padding = padding
        self.entrance: EmbeddingOutput | None = None
        """The place of the embedding in the model, if `take_vocabulary` has taken it."""

    def check_tokens(self, tokens: Tensor, what: str = "") -> None:
        """Raises PipelineError for numbers outside of the vocabulary. The host waits for them."""
        self._check(tokens, "token", what)

    @torch.no_grad()
    def part(self, tokens: Tensor) -> Tensor:
        """E: the rows of the tokens that are in the shard, [tokens, hidden], and zeros for all
        others; tokens: [tokens]. Summed over the shards (A) they are the output.
        """
        here, columns = self._own(tokens)
        found = self.weight.new_zeros((len(tokens), self.weight.shape[1]))
        found[here] = self.weight[columns]
        return found

    @torch.no_grad()
    def backward(self, tokens: Tensor, gradient: Tensor) -> None:
        """V: adds the gradient of the output, [tokens, hidden], to the shard's."""
        if not self.weight.requires_grad:
            return
        here, columns = self._own(tokens)
        if self.padding is not None:
            here, columns = self._own(tokens.masked_fill(tokens == self.padding, -1))
        found = torch.zeros_like(self.weight)
        found.index_add_(0, columns, gradient[here])
        add_gradient(self.weight, found)

    def _own(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        here = (tokens >= self.rows.start) & (tokens < self.rows.stop)
        return here, (tokens - self.rows.start)[here]


def take_vocabulary(
    model: nn.Module,
    group: dist.ProcessGroup | None = None,
    *,
    name: str | None = None,
    embedding: str | None = None,
    ignored: int = -100,
) -> tuple[VocabularyHead, VocabularyEmbedding]:
    """Takes the head and the embedding out of a whole model, and returns this rank's shards of
    both. An `EmbeddingOutput` replaces the embedding. Cut the model afterwards.

    group, name, ignored: as in `take_head`, of the head.
    embedding: the name of the `nn.Embedding`; by default the first one in the first child.

    If both have one weight, their shards have one parameter. All ranks take them alike. Raises
    PipelineError if there is no such module, if head and embedding have different numbers of
    entries, for an embedding with `max_norm`, `scale_grad_by_freq` or `sparse`, or if the rest of
    the model uses its weight too.
    """
    head = take_head(model, group, name=name, ignored=ignored)
    missing = "nn.Embedding; give its name in `embedding`"
    chosen, found = _find(model, nn.Embedding, embedding, "embedding", missing)
    if found.max_norm is not None or found.scale_grad_by_freq or found.sparse:
        raise PipelineError(
            f"the embedding {chosen!r} has max_norm, scale_grad_by_freq or sparse, which shards do"
            " not have"
        )
    if len(found.weight) != head.vocabulary:
        raise PipelineError(
            f"the embedding {chosen!r} has {len(found.weight)} entries and the head {head.name!r} "
            f"{head.vocabulary}; shards of both have the same entries"
        )
    entrance = EmbeddingOutput()
    _replace(model, chosen, entrance)
    if any(each is found.weight for each in model.parameters()):
        raise PipelineError(
            f"the weight of the embedding {chosen!r} is used by the rest of the model too"
        )
    is_tied = head.whole is found.weight
    weight = head.weight if is_tied else nn.Parameter(found.weight.detach()[head.rows].clone())
    if is_tied:
        head.untie()
    else:
        weight.requires_grad_(found.weight.requires_grad)
    shard = VocabularyEmbedding(weight, head.vocabulary, group, found.padding_idx)
    shard.entrance, shard.name = entrance, chosen
    return head, shard


def _find(
    model: nn.Module, kind: type[Kind], name: str | None, what: str, missing: str
) -> tuple[str, Kind]:
    """Returns the head or embedding of a model, by name or as the last or first of its kind."""
    modules, children = list(model.named_modules()), [key for key, _ in model.named_children()]
    place = "first"
    if what == "head":
        modules, children, place = modules[::-1], children[::-1], "last"
    outer = children[:1]
    inside = [key for key, m in modules if isinstance(m, kind) and key.split(".")[0] in outer]
    if name is None and not inside:
        raise PipelineError(f"the {place} child of the model has no {missing}")
    chosen = inside[0] if name is None else name
    found = dict(modules).get(chosen)
    if not isinstance(found, kind):
        seen = "nothing" if found is None else f"a {type(found).__name__}"
        wanted = f"{'an ' if what == 'head' else ''}nn.{kind.__name__}"
        raise PipelineError(f"the {what} {chosen!r} is {seen} in the model; wanted {wanted}")
    return chosen, found


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    outer, _, own = name.rpartition(".")
    model.get_submodule(outer)._modules[own] = module


def add_gradient(parameter: nn.Parameter, found: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = found
    else:
        parameter.grad += found

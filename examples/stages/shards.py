"""The scores of the next token in shards, one on each worker (vocabulary parallelism, arXiv
2411.05288). Letters: t rows, h hidden, v the columns of a shard.

Each shard sends the maximum of its scores per row, the sum of their exponentials, and the score of
the target if it has it to all. With these every shard has its part of the softmax over all scores.
With Vocab-1 each then gives its part of the gradient of the last output. With Vocab-2 a shard also
sends that part up to a factor that the softmax gives, and the loss puts the gradient together.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from emit import Body, Module, Port, Value, function
from operations import linear, linear_input_gradient, linear_weight_gradient

LOWEST = -1e30


def homes(path: Sequence[int]) -> list[int]:
    """The stages with a shard: the last of each worker."""
    return [stage for stage, worker in enumerate(path) if worker not in path[stage + 1 :]]


@function
def shard_statistics(body: Body, scores: Value, target: Value, shard: Value) -> dict[str, Value]:
    """Per row: the maximum of a shard's scores, the sum of the exponentials of their distances to
    it, and the score of the target, 0 where another shard has it.
    """
    rows, columns = scores.shape
    wide = (scores, "tv")
    top = body.generic(
        lambda b, a, m: b.maximum(m, a), "tv", [wide], [(body.filled((rows,), LOWEST), "t")], "top"
    )[0]
    sums = body.generic(
        lambda b, a, m, s: s + b.math("exp", a - m), "tv", [wide, (top, "t")],
        [(body.filled((rows,)), "t")], "sums",
    )[0]
    first = body.convert(shard * columns, "index")

    def each(b: Body, a: Value, goal: Value, total: Value) -> Value:
        return total + b.where("eq", b.index(1) + first, b.convert(goal, "index"), a, 0)

    goals = body.generic(
        each, "tv", [wide, (target, "t")], [(body.filled((rows,)), "t")], "goals"
    )[0]
    return {"top": top, "sums": sums, "goals": goals}


@function
def softmax_statistics(body: Body, tops: Value, sums: Value) -> dict[str, Value]:
    """The maximum and the sum of exponentials over all shards (letter s), per row."""
    rows = tops.shape[1]
    top = body.generic(
        lambda b, a, m: b.maximum(m, a), "st", [(tops, "st")],
        [(body.filled((rows,), LOWEST), "t")], "top",
    )[0]
    total = body.generic(
        lambda b, a, part, m, s: s + part * b.math("exp", a - m), "st",
        [(tops, "st"), (sums, "st"), (top, "t")], [(body.filled((rows,)), "t")], "sums",
    )[0]
    return {"top": top, "sums": total}


@function
def shard_gradient(
    body: Body, scores: Value, top: Value, sums: Value, target: Value, shard: Value, *, samples: int
) -> Value:
    """The gradient of a shard's scores: softmax less the target, divided by the samples."""
    rows, columns = scores.shape
    first = body.convert(shard * columns, "index")

    def slope(b: Body, a: Value, m: Value, s: Value, goal: Value) -> Value:
        part = b.math("exp", a - m) / s
        column = b.index(1) + first
        return b.where("eq", column, b.convert(goal, "index"), part - 1, part) * (1 / samples)

    into = body.empty((rows, columns), scores.element)
    inputs = [(scores, "tv"), (top, "t"), (sums, "t"), (target, "t")]
    return body.generic(slope, "tv", inputs, [(into, "tv")], "gradient")[0]


@function
def weighted_rows(
    body: Body, scores: Value, top: Value, weight: Value, target: Value, shard: Value
) -> dict[str, Value]:
    """Vocab-2: the columns of the weight (h x v) added up with the exponentials of a shard's
    scores, and the column of the target, 0 where another shard has it.
    """
    rows, columns = scores.shape
    first = body.convert(shard * columns, "index")
    into = body.empty((rows, columns), scores.element)
    exponentials = body.generic(
        lambda b, a, m: b.math("exp", a - m), "tv", [(scores, "tv"), (top, "t")], [(into, "tv")]
    )[0]

    def here(b: Body, goal: Value) -> Value:
        one = b.constant(1, b.module.total)
        return b.where("eq", b.index(1) + first, b.convert(goal, "index"), one, 0)

    into = body.empty((rows, columns), scores.element)
    chosen = body.generic(here, "tv", [(target, "t")], [(into, "tv")])[0]
    return {
        "mean": linear_input_gradient(body, exponentials, weight),
        "goal": linear_input_gradient(body, chosen, weight),
    }


@function
def loss_of_shards(
    body: Body, top: Value, sums: Value, goals: Value, *, samples: int
) -> Value:
    """-log(softmax(scores)[target]) over all rows, divided by the samples."""
    log = body.each(lambda b, m, s: m + b.math("log", s), top, sums)
    zero = body.filled(())
    whole = body.generic(
        lambda _, a, total: total + a * (1 / samples), "t", [(log, "t")], [(zero, "")], "loss"
    )[0]
    return body.generic(
        lambda _, a, total: total - a * (1 / samples), "st", [(goals, "st")], [(whole, "")], "loss"
    )[0]


@function
def gradient_of_shards(
    body: Body, tops: Value, means: Value, goals: Value, top: Value, sums: Value, *, samples: int
) -> Value:
    """Vocab-2: the gradient of the last output (t x h) from the shared values of all shards."""

    def each(b: Body, mean: Value, goal: Value, *rest: Value) -> Value:
        own, top, total, start = rest
        return start + (mean * (b.math("exp", own - top) / total) - goal) * (1 / samples)

    inputs = [(means, "sth"), (goals, "sth"), (tops, "st"), (top, "t"), (sums, "t")]
    start = body.filled(means.shape[1:])
    return body.cast(body.generic(each, "sth", inputs, [(start, "th")])[0], means.element)


class Head:
    """The functions of the shards of a model's head. All shards share them."""

    def __init__(self, module: Module, chosen: argparse.Namespace, rows: tuple[int, int]) -> None:
        self.module, self.chosen = module, chosen
        self.output = (*rows, chosen.hidden)
        self.rows = rows[0] * rows[1]
        self.homes = homes(chosen.path)
        self.reduces = chosen.spread == "vocab-1"
        self.columns = chosen.vocabulary // len(self.homes)
        self.weight = Port("param", module.element, (chosen.hidden, self.columns), "head")
        self.samples = chosen.microbatches * chosen.slices * self.rows
        self.target = Port("target", "i32", rows)
        self.shard = Port("shard", "i64", None)
        self.last = Port("last_output", module.element, self.output)
        self.scores = Port("residual", module.element, (self.rows, self.columns), "scores")

    def functions(self) -> dict[str, str]:
        self.module.stage_function(
            "shard",
            [("weight", self.weight), ("x", self.last), ("target", self.target),
             ("shard", self.shard)],
            self._shard,
        )
        total = Port("gradient", self.module.total, self.weight.shape, "head")
        self.module.stage_function(
            "shard_backward",
            [("weight", self.weight), ("x", self.last), ("scores", self.scores),
             *self._partials("top", "sums"), ("target", self.target), ("shard", self.shard),
             ("sum", total)],
            self._backward,
        )
        self.module.stage_function("loss", self._partials("top", "sums", "goals", "mean", "goal"),
                                   self._loss)
        return {"shard": "shard", "shard_backward": "shard_backward"}

    def _partials(self, *names: str) -> list[tuple[str, Port]]:
        """The values that all shards share."""
        count, module = len(self.homes), self.module
        row, wide = (count, self.rows), (count, self.rows, self.chosen.hidden)
        kinds = {
            name: Port("partials", module.total, row, name) for name in ("top", "sums", "goals")
        } | {name: Port("partials", module.element, wide, name) for name in ("mean", "goal")}
        return [(name, kinds[name]) for name in names]

    def _flat(self, body: Body, given: dict[str, Value]) -> tuple[Value, Value]:
        """Last output and targets by row."""
        x = body.reshape(given["x"], (self.rows, self.chosen.hidden))
        return x, body.reshape(given["target"], (self.rows,))

    def _shard(self, body: Body, given: dict[str, Value]) -> list[tuple[Port, Value]]:
        x, target = self._flat(body, given)
        scores = linear(body, x, given["weight"], None)
        names = ["top", "sums", "goals"]
        values = list(shard_statistics(body, scores, target, given["shard"]))
        if not self.reduces:
            names += ["mean", "goal"]
            values += weighted_rows(
                body, scores, values[0], given["weight"], target, given["shard"]
            )
        told = dict(zip(names, values, strict=True))
        ports = [(Port("partial", v.element, v.shape, name), v) for name, v in told.items()]
        return [(self.scores, scores), *ports]

    def _backward(self, body: Body, given: dict[str, Value]) -> list[tuple[Port, Value]]:
        x, target = self._flat(body, given)
        whole = softmax_statistics(body, given["top"], given["sums"])
        slope = shard_gradient(
            body, given["scores"], *whole, target, given["shard"], samples=self.samples
        )
        results = []
        if self.reduces:
            gradient = linear_input_gradient(body, slope, given["weight"])
            port = Port("last_output_gradient", self.module.element, self.output)
            results.append((port, body.reshape(gradient, self.output)))
        total = linear_weight_gradient(body, x, slope, given["sum"])
        return [*results, (Port("gradient", total.element, total.shape, "head"), total)]

    def _loss(self, body: Body, given: dict[str, Value]) -> list[tuple[Port, Value]]:
        whole = softmax_statistics(body, given["top"], given["sums"])
        value = loss_of_shards(body, *whole, given["goals"], samples=self.samples)
        results = [(Port("loss", self.module.total, ()), value)]
        if not self.reduces:
            gradient = gradient_of_shards(
                body, given["top"], given["mean"], given["goal"], *whole, samples=self.samples
            )
            port = Port("output_gradient", self.module.element, self.output)
            results.append((port, body.reshape(gradient, self.output)))
        return results

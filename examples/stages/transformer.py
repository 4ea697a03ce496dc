#!/usr/bin/env python3
"""Writes a transformer (a decoder that predicts the next token) as functions of stages.

    python examples/stages/transformer.py --stages 4 --layers 8 --hidden 64 > transformer.mlir

Each stage has some layers, the first also the embedding of tokens and places, the last also a norm
and the scores of the next token. Stages of the same shape share their functions. A layer is

    x += out(attention(norm1(x)));  x += mlp.out(gelu(mlp.in(norm2(x))))

Sequences count up in steps of 1, 2 or 3, so that there is something to learn. With `--slices` the
functions are for a slice of a sequence, and read the keys and values of earlier slices. With
`--spread` each worker has a shard of the scores, and the parameters are the same as without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from attention import (
    attention,
    attention_gradient,
    embedding,
    embedding_gradient,
    places_gradient,
    places_of,
    put_slice,
    take_slice,
)
from emit import Body, Module, Port, Value, function, function_of_names, type_text
from operations import (
    add,
    bias_gradient,
    cross_entropy,
    gelu,
    gelu_gradient,
    hashed,
    linear,
    linear_input_gradient,
    linear_weight_gradient,
    norm,
    norm_input_gradient,
    random,
    scale_gradient,
    scaled,
    update_function,
)
from program import Stage, check, comment, numbers, options, schedule
from shards import Head, homes

Names = dict[str, Value]
Shapes = dict[str, tuple[int, ...]]
Results = list[tuple[Port, Value]]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = options(__doc__, "transformer", stages=2)
    add = parser.add_argument
    add("--layers", type=numbers, default=[2], help="of all stages together, or of each: 1,2,1")
    add("--hidden", type=int, default=32, help="numbers per token")
    add("--heads", type=int, default=4)
    add("--mlp", type=int, default=0, help="inner width; 0 is four times --hidden")
    add("--sequence", type=int, default=16, help="tokens of a sequence")
    add("--slices", type=int, default=1, help="of a sequence: functions run for each")
    add("--vocabulary", type=int, default=64, help="different tokens")
    add("--microbatch-size", type=int, default=2, help="sequences of a microbatch")
    add("--norm", choices=["layer", "rms"], default="layer")
    add("--gelu", choices=["erf", "tanh"], default="erf")
    add("--bias", action=argparse.BooleanOptionalAction, default=True,
        help="of linear layers, except keys and scores")
    add("--spread", choices=["none", "vocab-1", "vocab-2"], default="none",
        help="the scores in shards, one on each worker, by the algorithm of this name")
    add("--recompute", choices=["none", "attention"], default="none",
        help="attention: a function that computes again its weights and mixed values")
    chosen = parser.parse_args(arguments)
    check(parser, chosen)
    chosen.mlp = chosen.mlp or 4 * chosen.hidden
    if len(chosen.layers) == 1:
        each, more = divmod(chosen.layers[0], chosen.stages)
        chosen.layers = [each + (stage < more) for stage in range(chosen.stages)]
    if len(chosen.layers) != chosen.stages:
        parser.error(f"--layers has {len(chosen.layers)} numbers; wanted 1 or {chosen.stages}")
    if 0 in chosen.layers[1:-1]:
        wanted = "at least 1, except in the first and the last stage"
        parser.error(f"stage {chosen.layers.index(0, 1)} has 0 layers; wanted {wanted}")
    if chosen.sequence % chosen.slices:
        parser.error(
            f"--sequence {chosen.sequence} cannot be divided into {chosen.slices} equal slices"
        )
    count = len(homes(chosen.path))
    if chosen.spread != "none" and chosen.vocabulary % count:
        parser.error(
            f"--vocabulary {chosen.vocabulary} cannot be divided into {count} equal shards"
        )
    if chosen.hidden % chosen.heads:
        parser.error(f"--hidden {chosen.hidden} cannot be divided among {chosen.heads} heads")
    return chosen


# Layers: parameters, activations and gradients by name


def layer_shapes(chosen: argparse.Namespace) -> Shapes:
    """The parameters of a layer."""
    hidden, mlp = chosen.hidden, chosen.mlp
    shapes = norm_shapes(chosen, "norm1") | norm_shapes(chosen, "norm2")
    matrices = {f"attention.{name}": (hidden, hidden) for name in ("q", "k", "v", "out")}
    matrices |= {"mlp.in": (hidden, mlp), "mlp.out": (mlp, hidden)}
    for name, shape in matrices.items():
        shapes[name] = shape
        # Softmax does not see a bias of the keys: its gradient would only be rounding errors.
        if chosen.bias and name != "attention.k":
            shapes[f"{name}.bias"] = shape[1:]
    return shapes


def norm_shapes(chosen: argparse.Namespace, name: str) -> Shapes:
    parts = ("scale", "shift") if chosen.norm == "layer" else ("scale",)
    return {f"{name}.{part}": (chosen.hidden,) for part in parts}


def dense(body: Body, given: Names, name: str, x: Value) -> Value:
    y: Value = linear(body, x, given[name], given.get(f"{name}.bias"))
    return y


def normed(body: Body, given: Names, name: str, x: Value, kind: str) -> tuple[Value, Names]:
    """A norm, and the values that its gradient needs."""
    scale, shift = given[f"{name}.scale"], given.get(f"{name}.shift")
    y, normalized, factor = norm(body, x, scale, shift, kind=kind)
    return y, {f"{name}.normalized": normalized, f"{name}.factor": factor}


def normed_gradient(body: Body, given: Names, name: str, y_gradient: Value, kind: str) -> Value:
    kept = (given[f"{name}.{part}"] for part in ("normalized", "factor", "scale"))
    x: Value = norm_input_gradient(body, y_gradient, *kept, kind=kind)
    return x


@function_of_names
def layer_forward(body: Body, given: Names, *, kind: str, gelu_kind: str, batch: int,
                  heads: int) -> Names:
    x = given["x"]
    y, kept1 = normed(body, given, "norm1", x, kind)
    query, key, value = (dense(body, given, f"attention.{part}", y) for part in "qkv")
    keys, values, number = key, value, given.get("slice")
    if number:
        keys = put_slice(body, key, given["keys"], number)
        values = put_slice(body, value, given["values"], number)
    mixed, weights = attention(body, query, keys, values, number, batch=batch, heads=heads)
    kept = {"query": query, "key": key, "value": value, "weights": weights, "mixed": mixed}
    x = add(body, x, dense(body, given, "attention.out", mixed))
    y, kept2 = normed(body, given, "norm2", x, kind)
    hidden = dense(body, given, "mlp.in", y)
    x = add(body, x, dense(body, given, "mlp.out", gelu(body, hidden, kind=gelu_kind)))
    return {"y": x, **kept1, **kept, **kept2, "hidden": hidden}


@function_of_names
def layer_input_gradient(body: Body, given: Names, *, kind: str, gelu_kind: str, batch: int,
                         heads: int) -> Names:
    y_gradient = given["y_gradient"]
    inner = linear_input_gradient(body, y_gradient, given["mlp.out"])
    hidden = gelu_gradient(body, given["hidden"], inner, kind=gelu_kind)
    norm2 = linear_input_gradient(body, hidden, given["mlp.in"])
    between = add(body, y_gradient, normed_gradient(body, given, "norm2", norm2, kind))
    mixed = linear_input_gradient(body, between, given["attention.out"])
    number = given.get("slice")
    names = ("query", "keys", "values", "weights") if number else (
        "query", "key", "value", "weights")
    parts = list(attention_gradient(
        body, *(given[name] for name in names), mixed, batch=batch, heads=heads))
    passed: Names = {}
    if number:
        for part, name in ((1, "keys"), (2, "values")):
            passed[f"{name}.gradient"] = add(body, given[f"{name}.gradient"], parts[part])
            parts[part] = take_slice(body, passed[f"{name}.gradient"], number)
    terms = [
        linear_input_gradient(body, gradient, given[f"attention.{part}"])
        for part, gradient in zip("qkv", parts, strict=True)
    ]
    norm1 = add(body, add(body, terms[0], terms[1]), terms[2])
    x_gradient = add(body, between, normed_gradient(body, given, "norm1", norm1, kind))
    return {
        "x_gradient": x_gradient, "hidden.gradient": hidden, "norm2.gradient": norm2,
        "between.gradient": between, "query.gradient": parts[0], "key.gradient": parts[1],
        "value.gradient": parts[2], "norm1.gradient": norm1, **passed,
    }


@function_of_names
def layer_weight_gradient(body: Body, given: Names, *, gelu_kind: str) -> Names:
    """Adds to the sums, which are called `<parameter>.sum`."""
    sums: Names = {}

    def add_dense(name: str, x: Value, gradient: str) -> None:
        matrix, bias = f"{name}.sum", f"{name}.bias.sum"
        sums[matrix] = linear_weight_gradient(body, x, given[gradient], given[matrix])
        if bias in given:
            sums[bias] = bias_gradient(body, given[gradient], given[bias])

    y = add_norm(body, given, "norm1", sums)
    for part, name in zip("qkv", ("query", "key", "value"), strict=True):
        add_dense(f"attention.{part}", y, f"{name}.gradient")
    add_dense("attention.out", given["mixed"], "between.gradient")
    add_dense("mlp.in", add_norm(body, given, "norm2", sums), "hidden.gradient")
    add_dense("mlp.out", gelu(body, given["hidden"], kind=gelu_kind), "y_gradient")
    return sums


def add_norm(body: Body, given: Names, name: str, sums: Names) -> Value:
    """Adds the gradients of a norm's parameters, and returns the norm's results again."""
    gradient, normalized = given[f"{name}.gradient"], given[f"{name}.normalized"]
    scale, shift = f"{name}.scale", f"{name}.shift"
    sums[f"{scale}.sum"] = scale_gradient(body, gradient, normalized, given[f"{scale}.sum"])
    if shift in given:
        sums[f"{shift}.sum"] = bias_gradient(body, gradient, given[f"{shift}.sum"])
    y: Value = scaled(body, normalized, given[scale], given.get(shift))
    return y


# Stages


def within(names: dict[str, Value], prefix: str) -> Names:
    """The entries whose names have the prefix, without it."""
    return {n.removeprefix(prefix): v for n, v in names.items() if n.startswith(prefix)}


def prefixed(names: dict[str, Value], prefix: str) -> Names:
    return {prefix + name: value for name, value in names.items()}


class Shape:
    """The functions of all stages with these parts. Everything in a function has a name: layers
    add theirs after `layer0.`; names of parameters and of residuals differ.
    """

    def __init__(self, module: Module, chosen: argparse.Namespace, stage: int) -> None:
        self.module, self.chosen = module, chosen
        self.first, self.last = stage == 0, stage == chosen.stages - 1
        self.layers = chosen.layers[stage]
        # The head of the model: the scores, or the norm before them and a shard of them.
        self.scores = self.last and chosen.spread == "none"
        self.sharded = chosen.spread != "none" and stage in homes(chosen.path)
        parts = ["embedding"] * self.first + [f"layers{self.layers}"]
        parts += ["norm"] * (self.last and not self.scores) + ["head"] * self.scores
        parts += ["shard"] * self.sharded
        self.name = "_".join(parts)
        self.batch, self.length = chosen.microbatch_size, chosen.sequence // chosen.slices
        self.rows = self.batch * self.length
        self.fixed = {"kind": chosen.norm, "gelu_kind": chosen.gelu, "batch": self.batch,
                      "heads": chosen.heads}
        self.parameters: Shapes = {}
        if self.first:
            self.parameters["embedding.tokens"] = (chosen.vocabulary, chosen.hidden)
            self.parameters["embedding.places"] = (chosen.sequence, chosen.hidden)
        for layer in range(self.layers):
            shapes = layer_shapes(chosen).items()
            self.parameters |= {f"layer{layer}.{name}": shape for name, shape in shapes}
        if self.last:
            self.parameters |= norm_shapes(chosen, "final")
        if self.scores:
            self.parameters["head"] = (chosen.hidden, chosen.vocabulary)
        self.of_shard: Shapes = {}
        if self.sharded:
            columns = chosen.vocabulary // len(homes(chosen.path))
            self.of_shard["head"] = (chosen.hidden, columns)
        # Results of forward and input_gradient for the functions after them.
        self.residuals: list[tuple[str, Port]] = []

    # Ports

    def arguments(self, role: str) -> list[tuple[str, Port]]:
        if role == "gradient":
            total = self.module.total
            return [(f"{n}.sum", Port(role, total, s, n)) for n, s in self.parameters.items()]
        return [(n, Port(role, self.module.element, s, n)) for n, s in self.parameters.items()]

    def passed_on(self, gradients: bool = False) -> list[tuple[str, Port]]:
        """The number of the slice, keys and values of all slices, and their gradients."""
        if self.chosen.slices == 1:
            return []
        shape = (self.chosen.slices, self.rows, self.chosen.hidden)
        ports = [("slice", Port("slice", "i64", None))]
        for layer in range(self.layers):
            for name in ("key", "value"):
                known = f"layer{layer}.{name}"
                earlier = Port("earlier", self.module.element, shape, known)
                ports.append((f"{known}s", earlier))
                if gradients:
                    ports.append((f"{known}s.gradient", replace(earlier, role="earlier_gradient")))
        return ports

    def layer(self, given: Names, layer: int, **more: Value) -> Names:
        """The inputs of a layer."""
        number = {"slice": given["slice"]} if "slice" in given else {}
        return {**within(given, f"layer{layer}."), **number, **more}

    def tensor(self, role: str, ids: bool = False, scores: bool = False) -> tuple[str, Port]:
        """The tensor between stages: batch x sequence x numbers, or token ids."""
        if ids:
            return role, Port(role, "i32", (self.batch, self.length))
        width = self.chosen.vocabulary if scores else self.chosen.hidden
        return role, Port(role, self.module.element, (self.batch, self.length, width))

    def flat(self, body: Body, value: Value) -> Value:
        return body.reshape(value, (self.rows, value.shape[2]))

    def keep(self, values: Names) -> Results:
        """Results that later functions get by the same names."""
        kept = [(name, Port("residual", v.element, v.shape, name)) for name, v in values.items()]
        known = dict(self.residuals)
        self.residuals += [(name, port) for name, port in kept if name not in known]
        return [(port, values[name]) for name, port in kept]

    # Functions

    def functions(self) -> Stage:
        """Writes them all, and returns their names."""
        writers = {"forward": self.forward}
        if self.chosen.recompute == "attention" and self.layers:
            writers["recompute"] = self.recompute
        if self.chosen.backward != "split":
            writers["backward"] = self.backward
        if self.chosen.backward != "whole":
            writers |= {"input_gradient": self.backward, "weight_gradient": self.weight_gradient}
        for kind, write in writers.items():
            write(kind)
        every = self.parameters | self.of_shard
        update_function(self.module, f"{self.name}_update", every, self.chosen)
        return Stage({kind: f"{self.name}_{kind}" for kind in (*writers, "update")})

    def forward(self, kind: str) -> None:
        name, port = self.tensor("input", ids=self.first)
        output = self.tensor("output", scores=self.scores)[1]

        def build(body: Body, given: Names) -> Results:
            x = given["input"]
            kept: Names = {}
            if self.first:
                table, number = given["embedding.places"], given.get("slice")
                places = places_of(body, table, number, self.length)
                x = embedding(body, x, given["embedding.tokens"], places)
            else:
                x = self.flat(body, x)
            for layer in range(self.layers):
                outcome = layer_forward(body, self.layer(given, layer, x=x), **self.fixed)
                x = outcome.pop("y")
                kept |= prefixed(outcome, f"layer{layer}.")
            if self.last:
                y, more = normed(body, given, "final", x, self.chosen.norm)
                kept |= more
                x = linear(body, y, given["head"], None) if self.scores else y
            return [(output, body.reshape(x, output.shape)), *self.keep(kept)]

        arguments = [*self.arguments("param"), (name, port), *self.passed_on()]
        self.module.stage_function(f"{self.name}_{kind}", arguments, build)

    def recompute(self, kind: str) -> None:
        """Attention again, without the linear layers around it."""

        def build(body: Body, given: Names) -> Results:
            results: Names = {}
            ending = "s" if "slice" in given else ""
            for layer in range(self.layers):
                names = ("query", f"key{ending}", f"value{ending}")
                parts = (given[f"layer{layer}.{name}"] for name in names)
                mixed, weights = attention(
                    body, *parts, given.get("slice"), batch=self.batch, heads=self.chosen.heads
                )
                results[f"layer{layer}.weights"] = weights
                results[f"layer{layer}.mixed"] = mixed
            return self.keep(results)

        known = [*self.residuals, *self.passed_on()]
        self.module.stage_function(f"{self.name}_{kind}", known, build)

    def input_gradients(self, body: Body, given: Names) -> tuple[Value, Names]:
        """The gradient of the stage's input (of the embedding's output in the first stage), and the
        gradients that the parameters' gradients need.
        """
        gradient = self.flat(body, given["output_gradient"])
        kept: Names = {}
        if self.last:
            final = gradient
            if self.scores:
                final = linear_input_gradient(body, gradient, given["head"])
            kept["final.gradient"] = final
            gradient = normed_gradient(body, given, "final", final, self.chosen.norm)
        for layer in reversed(range(self.layers)):
            prefix = f"layer{layer}."
            if self.last or layer < self.layers - 1:
                kept[f"{prefix}y_gradient"] = gradient
            inner = self.layer(given, layer, y_gradient=gradient)
            outcome = layer_input_gradient(body, inner, **self.fixed)
            gradient = outcome.pop("x_gradient")
            kept |= prefixed(outcome, prefix)
        if self.first:
            kept["embedding.gradient"] = gradient
        return gradient, kept

    def sums(self, body: Body, given: Names) -> Results:
        """The gradients of the parameters, added to their sums."""
        results: Names = {}
        outer = self.flat(body, given["output_gradient"])
        for layer in range(self.layers):
            prefix = f"layer{layer}."
            inner = {"y_gradient": outer, **within(given, prefix)}
            outcome = layer_weight_gradient(body, inner, gelu_kind=self.chosen.gelu)
            results |= prefixed(outcome, prefix)
        if self.last:
            y = add_norm(body, given, "final", results)
        if self.scores:
            results["head.sum"] = linear_weight_gradient(body, y, outer, given["head.sum"])
        if self.first:
            gradient = given["embedding.gradient"]
            tokens, places = "embedding.tokens.sum", "embedding.places.sum"
            results[tokens] = embedding_gradient(body, given["input"], gradient, given[tokens])
            results[places] = places_gradient(
                body, gradient, given[places], given.get("slice"), batch=self.batch
            )
        return [(port, results[name]) for name, port in self.arguments("gradient")]

    def backward(self, kind: str) -> None:
        """The whole backward, or only the gradient of the input."""
        whole = kind == "backward"

        def build(body: Body, given: Names) -> Results:
            gradient, kept = self.input_gradients(body, given)
            results: Results = []
            if not self.first:
                port = self.tensor("input_gradient")[1]
                results.append((port, body.reshape(gradient, port.shape)))
            for name, port in self.passed_on(gradients=True):
                if port.role == "earlier_gradient":
                    results.append((port, kept.pop(name)))
            rest = self.sums(body, given | kept) if whole else self.keep(kept)
            return results + rest

        self.module.stage_function(f"{self.name}_{kind}", self.known(whole), build)

    def weight_gradient(self, kind: str) -> None:
        self.module.stage_function(f"{self.name}_{kind}", self.known(True), self.sums)

    def known(self, sums: bool) -> list[tuple[str, Port]]:
        """All that a backward function can have as an argument."""
        return [
            *self.arguments("param"), self.tensor("input", ids=self.first), *self.residuals,
            self.tensor("output_gradient", scores=self.scores), *self.passed_on(gradients=True),
            *(self.arguments("gradient") if sums else []),
        ]


# Data, target, loss, first parameters


def init(module: Module, chosen: argparse.Namespace, stage: int) -> str:
    """Writes the first parameters of a stage: matrices uniform up to 1 / sqrt(rows), scales one,
    and all else zero.
    """
    shape = Shape(module, chosen, stage)
    ports = shape.arguments("param")

    def matrix(body: Body, shape: tuple[int, ...], stage: int, number: int) -> Value:
        limit = body.constant(shape[0] ** -0.5, module.total)
        seed = body.constant(1000 * (1000 * chosen.seed + stage) + number, "i32")
        value: Value = random(body, seed, limit, shape=shape)
        return value

    def build(body: Body, _: Names) -> Results:
        results = []
        for number, (name, port) in enumerate(ports):
            if len(port.shape) == 1:
                value = body.filled(port.shape, name.endswith("scale"), port.element)
            else:
                value = matrix(body, port.shape, stage, number)
            results.append((port, value))
        for name, size in shape.of_shard.items():
            # Its columns of the scores' matrix, which is last in the last stage.
            last = chosen.stages - 1
            number = len(Shape(module, chosen, last).parameters)
            whole = matrix(body, (chosen.hidden, chosen.vocabulary), last, number)
            first = homes(chosen.path).index(stage) * size[1]
            port = Port("param", module.element, size, name)
            results.append((port, columns(body, whole, first, size)))
        return results

    module.stage_function(f"init{stage}", [], build)
    return f"init{stage}"


def columns(body: Body, whole: Value, first: int, shape: tuple[int, ...]) -> Value:
    """Neighbouring columns of a matrix."""
    part = f"[0, {first}] [{shape[0]}, {shape[1]}] [1, 1]"
    target = type_text(whole.element, shape)
    text = f"tensor.extract_slice {whole.name}{part} : {whole.type} to {target}"
    return body.value(text, whole.element, shape, "columns")


@function
def tokens(
    body: Body, microbatch: Value, step: Value, slice: Value | None = None, *,
    shape: tuple[int, int], first: int, count: int,
) -> Value:
    """Sequences that start at their token number `first`, or a slice of them."""
    number = body.convert(step * 1_000_003 + microbatch * shape[0], "i32")
    before = body.convert(slice * shape[1], "i32") if slice else None

    def formula(b: Body) -> Value:
        chance = hashed(b, number + b.convert(b.index(0), "i32"))

        def below(value: Value, limit: int) -> Value:
            bound = b.constant(limit, "i32")
            return b.scalar(f"arith.remui {value.name}, {bound.name}", "i32")

        pace = below(chance, 3) + 1
        start = below(hashed(b, chance), count)
        place = b.convert(b.index(1), "i32") + first
        place = place + before if before else place
        return below(start + pace * place, count)

    into = body.empty(shape, "i32")
    return body.generic(formula, "bs", [], [(into, "bs")], "tokens")[0]


def ends(module: Module, chosen: argparse.Namespace) -> None:
    """Writes the inputs of the first and the last stage: data, target and loss."""
    shape = (chosen.microbatch_size, chosen.sequence // chosen.slices)
    named = ("microbatch", "step", "slice")[: 3 if chosen.slices > 1 else 2]
    when = [(name, Port(name, "i64", None)) for name in named]
    for number, (symbol, role) in enumerate((("data", "input"), ("target", "target"))):

        def build(body: Body, given: Names, role: str = role, number: int = number) -> Results:
            count = chosen.vocabulary
            parts = (given[name] for name in named)
            value = tokens(body, *parts, shape=shape, first=number, count=count)
            return [(Port(role, "i32", shape), value)]

        module.stage_function(symbol, when, build)

    if chosen.spread != "none":
        return
    rows = shape[0] * shape[1]
    scores = (*shape, chosen.vocabulary)

    def loss(body: Body, given: Names) -> Results:
        flat = body.reshape(given["scores"], (rows, chosen.vocabulary))
        target = body.reshape(given["target"], (rows,))
        samples = chosen.microbatches * chosen.slices * rows
        value, gradient = cross_entropy(body, flat, target, samples=samples)
        port = Port("output_gradient", module.element, scores)
        return [(Port("loss", module.total, ()), value), (port, body.reshape(gradient, scores))]

    arguments = [("scores", Port("output", module.element, scores)),
                 ("target", Port("target", "i32", shape))]
    module.stage_function("loss", arguments, loss)


def program(chosen: argparse.Namespace) -> str:
    """The text of the file."""
    module = Module(chosen.element_type)
    shared: dict[str, Stage] = {}
    stages = []
    rows = chosen.microbatch_size, chosen.sequence // chosen.slices
    of_shards = Head(module, chosen, rows).functions() if chosen.spread != "none" else {}
    for number in range(chosen.stages):
        shape = Shape(module, chosen, number)
        if shape.name not in shared:
            shared[shape.name] = shape.functions()
        more = of_shards if shape.sharded else {}
        stages.append(Stage({"init": f"init{number}", **shared[shape.name].functions, **more}))
    for number in range(chosen.stages):
        init(module, chosen, number)
    ends(module, chosen)
    title = f"A transformer, its layers by stage {chosen.layers}: examples/stages/transformer.py"
    return module.text(comment(title), schedule(chosen, stages))


if __name__ == "__main__":
    sys.stdout.write(program(parse()))

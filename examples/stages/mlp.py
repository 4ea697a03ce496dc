#!/usr/bin/env python3
"""Writes a multilayer perceptron as functions of stages: one linear layer per stage, for tests.

    python examples/stages/mlp.py --stages 16 --widths 8 --workers 4 > mlp16.mlir

Every stage but the last applies relu. The data are numbers that look random, the target their
absolute values. `mlp.mlir` alongside this file is such a model, written by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from emit import Body, Module, Port, Value, function
from operations import (
    bias_gradient,
    hashed,
    linear,
    linear_input_gradient,
    linear_weight_gradient,
    random,
    relu,
    relu_gradient,
    squared_error,
    uniform,
    update_function,
)
from program import Stage, check, comment, numbers, options, schedule

Results = list[tuple[Port, Value]]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = options(__doc__, "mlp", stages=4)
    add = parser.add_argument
    add("--widths", type=numbers, default=[16],
        help="of the input and of each stage's output; one number is for all")
    add("--microbatch-size", type=int, default=8, help="samples of a microbatch")
    add("--recompute", choices=["none", "selective"], default="none",
        help="selective: a function that computes again what relu was given")
    chosen = parser.parse_args(arguments)
    check(parser, chosen)
    if len(chosen.widths) == 1:
        chosen.widths *= chosen.stages + 1
    if len(chosen.widths) != chosen.stages + 1:
        parser.error(f"--widths has {len(chosen.widths)} numbers; wanted 1 or {chosen.stages + 1}")
    if chosen.stages == 1 and chosen.backward != "whole":
        parser.error("one stage has no gradient of an input; wanted --backward whole")
    return chosen


class Layer:
    """The functions of the stages that have this place and these widths."""

    def __init__(self, module: Module, chosen: argparse.Namespace, stage: int) -> None:
        self.module, self.chosen = module, chosen
        self.first, self.last = stage == 0, stage == chosen.stages - 1
        self.rows = chosen.microbatch_size
        self.width, self.out = chosen.widths[stage : stage + 2]
        place = "first" if self.first else "last" if self.last else "middle"
        self.name = f"{place}_{self.width}x{self.out}"
        self.shapes = {"w": (self.width, self.out), "b": (self.out,)}

    def port(self, role: str, width: int, name: str | None = None) -> tuple[str, Port]:
        """An argument for activations, and its name in the function."""
        hint = name.replace(".", "_") if name else {"input": "x"}.get(role, role)
        return hint, Port(role, self.module.element, (self.rows, width), name)

    def parameters(self, role: str = "param") -> list[tuple[str, Port]]:
        gradient = role == "gradient"
        element = self.module.total if gradient else self.module.element
        suffix = "_gradient" if gradient else ""
        return [(k + suffix, Port(role, element, s, k)) for k, s in self.shapes.items()]

    def functions(self) -> Stage:
        """Writes them all, and returns their names."""
        kinds: dict[str, Callable[[str], None]] = {"forward": self.forward}
        if self.chosen.recompute == "selective" and not self.last:
            kinds["recompute"] = self.forward
        if self.chosen.backward != "split":
            kinds["backward"] = self.backward
        if self.chosen.backward != "whole":
            kinds |= {"input_gradient": self.backward, "weight_gradient": self.weight_gradient}
        for kind, write in kinds.items():
            write(kind)
        update_function(self.module, f"{self.name}_update", self.shapes, self.chosen)
        return Stage({kind: f"{self.name}_{kind}" for kind in (*kinds, "update")})

    def forward(self, kind: str) -> None:
        def build(body: Body, given: dict[str, Value]) -> Results:
            before = linear(body, given["x"], given["w"], given["b"])
            residual = (self.port("residual", self.out, "before")[1], before)
            if kind == "recompute":
                return [residual]
            output = self.port("output", self.out)[1]
            return [(output, before)] if self.last else [(output, relu(body, before)), residual]

        arguments = [*self.parameters(), self.port("input", self.width)]
        self.module.stage_function(f"{self.name}_{kind}", arguments, build)

    def backward(self, kind: str) -> None:
        """The whole backward, or only the gradient of the input."""
        whole = kind == "backward"
        arguments = [] if self.first else self.parameters()[:1]
        arguments += [self.port("input", self.width)] if whole else []
        arguments += [] if self.last else [self.port("residual", self.out, "before")]
        arguments.append(self.port("output_gradient", self.out))
        arguments += self.parameters("gradient") if whole else []

        def build(body: Body, given: dict[str, Value]) -> Results:
            results: Results = []
            gradient = given["output_gradient"]
            if not self.last:
                gradient = relu_gradient(body, given["before"], gradient)
            if not self.first:
                value = linear_input_gradient(body, gradient, given["w"])
                results.append((self.port("input_gradient", self.width)[1], value))
            if whole:
                return results + self.sums(body, given, gradient)
            if not self.last:
                port = self.port("residual", self.out, "before.gradient")[1]
                results.append((port, gradient))
            return results

        self.module.stage_function(f"{self.name}_{kind}", arguments, build)

    def weight_gradient(self, kind: str) -> None:
        residual = self.port("residual", self.out, "before.gradient")
        source = self.port("output_gradient", self.out) if self.last else residual
        arguments = [self.port("input", self.width), source, *self.parameters("gradient")]
        self.module.stage_function(
            f"{self.name}_{kind}", arguments,
            lambda body, given: self.sums(body, given, given[source[0]]),
        )

    def sums(self, body: Body, given: dict[str, Value], gradient: Value) -> Results:
        weight = linear_weight_gradient(body, given["x"], gradient, given["w_gradient"])
        bias = bias_gradient(body, gradient, given["b_gradient"])
        ports = [port for _, port in self.parameters("gradient")]
        return list(zip(ports, (weight, bias), strict=True))


def init(module: Module, chosen: argparse.Namespace, stage: int) -> str:
    """Writes the first parameters of a stage: as PyTorch's, uniform up to 1 / sqrt(width)."""
    layer = Layer(module, chosen, stage)

    def build(body: Body, _: dict[str, Value]) -> Results:
        limit = body.constant(layer.width**-0.5, module.total)
        results = []
        for number, (__, port) in enumerate(layer.parameters()):
            seed = body.constant(1000 * chosen.seed + 2 * stage + number, "i32")
            results.append((port, random(body, seed, limit, shape=port.shape)))
        return results

    module.stage_function(f"init{stage}", [], build)
    return f"init{stage}"


@function
def samples(body: Body, microbatch: Value, step: Value, *, shape: tuple[int, int]) -> Value:
    """The input of a microbatch."""
    first = body.convert(step * 1_000_003 + microbatch * shape[0], "i32")

    def formula(b: Body) -> Value:
        place = (first + b.convert(b.index(0), "i32")) * shape[1] + b.convert(b.index(1), "i32")
        return uniform(b, hashed(b, place), b.module.total)

    into = body.empty(shape, body.module.element)
    return body.generic(formula, "ab", [], [(into, "ab")], "x")[0]


def ends(module: Module, chosen: argparse.Namespace) -> None:
    """Writes the inputs of the first and the last stage: data, target and loss."""
    rows, element = chosen.microbatch_size, module.element
    shape, out = (rows, chosen.widths[0]), (rows, chosen.widths[-1])
    when = [(name, Port(name, "i64", None)) for name in ("microbatch", "step")]

    def data(body: Body, given: dict[str, Value]) -> Results:
        x = samples(body, given["microbatch"], given["step"], shape=shape)
        return [(Port("input", element, shape), x)]

    def target(body: Body, given: dict[str, Value]) -> Results:
        x = samples(body, given["microbatch"], given["step"], shape=shape)

        def formula(b: Body) -> Value:
            width = b.constant(shape[1], "index")
            row, column = b.index(0), b.index(1)
            source = b.scalar(f"arith.remui {column.name}, {width.name}", "index")
            return b.math("absf", b.element_at(x, row, source))

        into = body.empty(out, element)
        y = body.generic(formula, "ab", [], [(into, "ab")], "target")[0]
        return [(Port("target", element, out), y)]

    def loss(body: Body, given: dict[str, Value]) -> Results:
        count = chosen.microbatches * rows
        value, gradient = squared_error(body, given["y"], given["target"], samples=count)
        return [
            (Port("loss", module.total, ()), value),
            (Port("output_gradient", element, out), gradient),
        ]

    module.stage_function("data", when, data)
    module.stage_function("target", when, target)
    given = [("y", Port("output", element, out)), ("target", Port("target", element, out))]
    module.stage_function("loss", given, loss)


def program(chosen: argparse.Namespace) -> str:
    """The text of the file."""
    module = Module(chosen.element_type)
    shared: dict[str, Stage] = {}
    stages = []
    for number in range(chosen.stages):
        layer = Layer(module, chosen, number)
        if layer.name not in shared:
            shared[layer.name] = layer.functions()
        stages.append(Stage({"init": f"init{number}", **shared[layer.name].functions}))
    for number in range(chosen.stages):
        init(module, chosen, number)
    ends(module, chosen)
    title = f"A perceptron with widths {chosen.widths}, written by examples/stages/mlp.py."
    return module.text(comment(title), schedule(chosen, stages))


if __name__ == "__main__":
    sys.stdout.write(program(parse()))

"""Parts of the models of this folder: layers with their gradients, and optimizers.

Each function below becomes a function of the module (`emit.function`) of the same name. A name
that ends in `_input_gradient` computes gradients of activations, one that ends in
`_weight_gradient` adds the gradients of parameters to sums that it is given. Rows (letter t) are
the tokens or samples of a microbatch.
"""

from __future__ import annotations

import argparse
import math

from emit import Body, Module, Port, Value, function

LAYER_EPSILON = 1e-5

# Linear layers


@function
def linear(body: Body, x: Value, weight: Value, bias: Value | None) -> Value:
    """x @ weight + bias."""
    (rows, _), (_, columns) = x.shape, weight.shape
    narrow = body.module.element != body.module.total
    if bias is not None and not narrow:
        start = body.broadcast(bias, rows)
    else:
        start = body.filled((rows, columns))
    y = body.contract("mkn", (x, "mk"), (weight, "kn"), (start, "mn"), hint="y")
    if bias is None or not narrow:
        return body.cast(y, x.element)
    into = body.empty((rows, columns), x.element)
    return body.generic(
        lambda _, a, b: a + b, "mn", [(y, "mn"), (bias, "n")], [(into, "mn")]
    )[0]


@function
def linear_input_gradient(body: Body, y_gradient: Value, weight: Value) -> Value:
    """y_gradient @ weight^T. Turning the weight first lets the innermost loop walk along rows."""
    start = body.filled((y_gradient.shape[0], weight.shape[0]))
    turned = body.transpose(weight, (1, 0))
    operands = ((y_gradient, "mn"), (turned, "nk"), (start, "mk"))
    return body.cast(body.contract("mnk", *operands, hint="x_gradient"), weight.element)


@function
def linear_weight_gradient(body: Body, x: Value, y_gradient: Value, sum: Value) -> Value:
    """sum + x^T @ y_gradient."""
    return body.contract("kmn", (x, "mk"), (y_gradient, "mn"), (sum, "kn"))


@function
def bias_gradient(body: Body, y_gradient: Value, sum: Value) -> Value:
    """The sum plus all rows."""
    return body.generic(lambda _, y, s: s + y, "tn", [(y_gradient, "tn")], [(sum, "n")])[0]


# Functions of single numbers


@function
def add(body: Body, x: Value, y: Value) -> Value:
    return body.each(lambda _, a, b: a + b, x, y)


@function
def relu(body: Body, x: Value) -> Value:
    return body.each(lambda b, a: b.maximum(a, b.constant(0, a.element)), x)


@function
def relu_gradient(body: Body, x: Value, y_gradient: Value) -> Value:
    """The gradient of x, the input of `relu`."""

    def formula(b: Body, a: Value, g: Value) -> Value:
        return b.where("ogt", a, b.constant(0, a.element), g, 0)

    return body.each(formula, x, y_gradient)


def _tanh_part(b: Body, a: Value) -> Value:
    return b.math("tanh", math.sqrt(2 / math.pi) * (a + 0.044715 * (a * a * a)))


@function
def gelu(body: Body, x: Value, *, kind: str) -> Value:
    """x times the normal distribution's cumulated density at x, or its approximation by tanh."""

    def exact(b: Body, a: Value) -> Value:
        return 0.5 * a * (1 + b.math("erf", a * math.sqrt(0.5)))

    def tanh(b: Body, a: Value) -> Value:
        return 0.5 * a * (1 + _tanh_part(b, a))

    return body.each(exact if kind == "erf" else tanh, x)


@function
def gelu_gradient(body: Body, x: Value, y_gradient: Value, *, kind: str) -> Value:
    """The gradient of x, the input of `gelu`."""

    def exact(b: Body, a: Value, g: Value) -> Value:
        cumulated = 0.5 * (1 + b.math("erf", a * math.sqrt(0.5)))
        density = b.math("exp", a * a * -0.5) * (1 / math.sqrt(2 * math.pi))
        return g * (cumulated + a * density)

    def tanh(b: Body, a: Value, g: Value) -> Value:
        t = _tanh_part(b, a)
        inner = math.sqrt(2 / math.pi) * (1 + (3 * 0.044715) * (a * a))
        return g * (0.5 * (1 + t) + 0.5 * a * ((1 - t * t) * inner))

    return body.each(exact if kind == "erf" else tanh, x, y_gradient)


# Norms: y = normalized * scale + shift, where normalized has mean 0 (not for RMS) and square 1


@function
def norm(
    body: Body, x: Value, scale: Value, shift: Value | None, *, kind: str
) -> dict[str, Value]:
    """y, normalized, and per row the factor that made it so (1 / deviation)."""
    rows, width = x.shape
    mean = None
    if kind == "layer":
        mean = body.generic(
            lambda _, a, s: s + a * (1 / width), "th", [(x, "th")], [(body.filled((rows,)), "t")],
            "mean",
        )[0]
    inputs = [(x, "th")] + ([(mean, "t")] if mean else [])

    def square(_: Body, a: Value, *rest: Value) -> Value:
        centred = a - rest[0] if mean else a
        return rest[-1] + centred * centred

    squares = body.generic(square, "th", inputs, [(body.filled((rows,)), "t")], "squares")[0]
    factor = body.each(
        lambda b, s: 1 / b.math("sqrt", s * (1 / width) + LAYER_EPSILON), squares, hint="factor"
    )

    def centre(_: Body, a: Value, f: Value, *m: Value) -> Value:
        return (a - m[0] if m else a) * f

    inputs.insert(1, (factor, "t"))
    into = body.empty((rows, width), x.element)
    normalized = body.generic(centre, "th", inputs, [(into, "th")], "normalized")[0]
    y = scaled(body, normalized, scale, shift)
    return {"normed": y, "normalized": normalized, "factor": factor}


@function
def scaled(body: Body, normalized: Value, scale: Value, shift: Value | None) -> Value:
    """normalized * scale + shift."""
    inputs = [(normalized, "th"), (scale, "h")] + ([(shift, "h")] if shift else [])

    def formula(_: Body, a: Value, s: Value, *rest: Value) -> Value:
        return a * s + rest[0] if rest else a * s

    into = body.empty(normalized.shape, normalized.element)
    return body.generic(formula, "th", inputs, [(into, "th")], "y")[0]


@function
def norm_input_gradient(
    body: Body, y_gradient: Value, normalized: Value, factor: Value, scale: Value, *, kind: str
) -> Value:
    """factor * (g - mean(g) - normalized * mean(g * normalized)) of g = y_gradient * scale."""
    rows, width = normalized.shape
    inputs = [(y_gradient, "th"), (scale, "h"), (normalized, "th")]
    along = body.generic(
        lambda _, g, s, a, sum: sum + g * s * a, "th", inputs, [(body.filled((rows,)), "t")],
        "along",
    )[0]
    inputs += [(factor, "t"), (along, "t")]
    if kind == "layer":
        sum = body.generic(
            lambda _, g, s, total: total + g * s, "th", inputs[:2],
            [(body.filled((rows,)), "t")], "sum",
        )[0]
        inputs.append((sum, "t"))

    def formula(_: Body, g: Value, s: Value, a: Value, f: Value, al: Value, *sum: Value) -> Value:
        rest = a * al + sum[0] if sum else a * al
        return f * (g * s - rest * (1 / width))

    into = body.empty((rows, width), normalized.element)
    return body.generic(formula, "th", inputs, [(into, "th")], "x_gradient")[0]


@function
def scale_gradient(body: Body, y_gradient: Value, normalized: Value, sum: Value) -> Value:
    """The sum plus y_gradient * normalized of all rows."""
    return body.generic(
        lambda _, g, a, s: s + g * a, "th", [(y_gradient, "th"), (normalized, "th")],
        [(sum, "h")],
    )[0]


# Loss functions: the part of one microbatch in a mean over all of a step


@function
def squared_error(body: Body, y: Value, target: Value, *, samples: int) -> dict[str, Value]:
    """Half the squared distance per sample, and the gradient of y."""
    letters = "th"
    inputs = [(y, letters), (target, letters)]

    def formula(_: Body, a: Value, b: Value, sum: Value) -> Value:
        return sum + (a - b) * (a - b) * (0.5 / samples)

    loss = body.generic(formula, letters, inputs, [(body.filled(()), "")], "loss")[0]
    gradient = body.each(lambda _, a, b: (a - b) * (1 / samples), y, target, hint="gradient")
    return {"loss": loss, "gradient": gradient}


@function
def cross_entropy(body: Body, scores: Value, target: Value, *, samples: int) -> dict[str, Value]:
    """-log(softmax(scores)[target]) per row, and the gradient of the scores."""
    rows, columns = scores.shape
    wide = (scores, "tv")
    top = body.generic(
        lambda b, a, m: b.maximum(m, a), "tv", [wide], [(body.filled((rows,), -1e30), "t")], "top"
    )[0]
    sums = body.generic(
        lambda b, a, m, s: s + b.math("exp", a - m), "tv", [wide, (top, "t")],
        [(body.filled((rows,)), "t")], "sums",
    )[0]

    def each(b: Body, a: Value, m: Value, s: Value, goal: Value, total: Value) -> Value:
        log = a - m - b.math("log", s)
        column = b.index(1)
        here = b.where("eq", column, b.convert(goal, "index"), log * (-1 / samples), 0)
        return total + here

    inputs = [wide, (top, "t"), (sums, "t"), (target, "t")]
    loss = body.generic(each, "tv", inputs, [(body.filled(()), "")], "loss")[0]

    def slope(b: Body, a: Value, m: Value, s: Value, goal: Value) -> Value:
        part = b.math("exp", a - m) / s
        column = b.index(1)
        return b.where("eq", column, b.convert(goal, "index"), part - 1, part) * (1 / samples)

    into = body.empty((rows, columns), scores.element)
    gradient = body.generic(slope, "tv", inputs, [(into, "tv")], "gradient")[0]
    return {"loss": loss, "gradient": gradient}


# Numbers that look random: hashes of their place


def hashed(body: Body, number: Value) -> Value:
    """Scrambles the bits of an i32 (Chris Wellons' lowbias32, in the public domain)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        number = _shifted(body, number, shift) * factor
    return _shifted(body, number, 16)


def _shifted(body: Body, number: Value, shift: int) -> Value:
    by = body.constant(shift, "i32")
    right = body.scalar(f"arith.shrui {number.name}, {by.name}", "i32")
    return body.scalar(f"arith.xori {number.name}, {right.name}", "i32")


def uniform(body: Body, number: Value, element: str) -> Value:
    """A float in [-1, 1) from the upper 24 bits of a hash."""
    by = body.constant(8, "i32")
    bits = body.scalar(f"arith.shrui {number.name}, {by.name}", "i32")
    return body.convert(bits, element) * 2.0**-23 - 1


@function
def random(body: Body, seed: Value, limit: Value, *, shape: tuple[int, ...]) -> Value:
    """Numbers in [-limit, limit) that depend on the seed and their place."""
    order = "ab"[: len(shape)]

    def formula(b: Body) -> Value:
        place = b.convert(b.index(0), "i32")
        if len(shape) == 2:
            place = place * shape[1] + b.convert(b.index(1), "i32")
        number = hashed(b, place + hashed(b, seed))
        return uniform(b, number, b.module.total) * limit

    into = body.empty(shape, body.module.element)
    return body.generic(formula, order, [], [(into, order)], "numbers")[0]


# Optimizers


@function
def sgd(body: Body, parameter: Value, gradient: Value, *, rate: float) -> Value:
    """parameter - rate * gradient."""
    return body.each(lambda _, p, g: p - rate * g, parameter, gradient)


@function
def adam(
    body: Body, parameter: Value, gradient: Value, mean: Value, square: Value, step: Value, *,
    rate: float, betas: tuple[float, float], epsilon: float,
) -> dict[str, Value]:
    """Adam (arXiv 1412.6980, algorithm 1) for one parameter; steps count from 0."""
    number = body.convert(step + 1, "f64")
    corrections = []
    for beta in betas:
        left = 1 - body.math("powf", body.constant(beta, "f64"), number)
        corrections.append(body.convert(left, body.module.total))

    def moved(beta: float, old: Value, new: Value) -> Value:
        return beta * old + (1 - beta) * new

    mean = body.each(lambda _, m, g: moved(betas[0], m, g), mean, gradient, hint="mean")
    square = body.each(lambda _, s, g: moved(betas[1], s, g * g), square, gradient, hint="square")

    def formula(b: Body, p: Value, m: Value, s: Value) -> Value:
        deviation = b.math("sqrt", s / corrections[1]) + epsilon
        return p - rate * (m / corrections[0]) / deviation

    parameter = body.each(formula, parameter, mean, square, hint="updated")
    return {"parameter": parameter, "mean": mean, "square": square}


def update_function(
    module: Module, symbol: str, parameters: dict[str, tuple[int, ...]], options: argparse.Namespace
) -> None:
    """Adds the update of a stage with these parameters."""
    names = {name: name.replace(".", "_") for name in parameters}
    arguments = []
    for role, element in (("param", module.element), ("gradient", module.total)):
        for name, shape in parameters.items():
            hint = names[name] + ("_gradient" if role == "gradient" else "")
            arguments.append((hint, Port(role, element, shape, name)))
    states = ("mean", "square") if options.optimizer == "adam" else ()
    for name, shape in parameters.items():
        for state in states:
            port = Port("state", module.total, shape, f"{name}.{state}")
            arguments.append((f"{names[name]}_{state}", port))
    if states:
        arguments.append(("step", Port("step", "i64", None)))

    def build(body: Body, given: dict[str, Value]) -> list[tuple[Port, Value]]:
        results, moments = [], []
        for name, shape in parameters.items():
            pair = (given[names[name]], given[f"{names[name]}_gradient"])
            port = Port("param", module.element, shape, name)
            if not states:
                results.append((port, sgd(body, *pair, rate=options.learning_rate)))
                continue
            old = [given[f"{names[name]}_{state}"] for state in states]
            new = adam(
                body, *pair, *old, given["step"], rate=options.learning_rate,
                betas=(0.9, 0.999), epsilon=1e-8,
            )
            results.append((port, new[0]))
            for state, value in zip(states, new[1:], strict=True):
                moments.append((Port("state", module.total, shape, f"{name}.{state}"), value))
        return results + moments

    module.stage_function(symbol, arguments, build)

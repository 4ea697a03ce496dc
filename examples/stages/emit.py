"""Writes functions on tensors as MLIR text: the part that `mlp.py` and `transformer.py` share.

A `Module` collects functions, a `Body` the lines of one of them, and a `Value` is a result in it.
A Python function that is marked `@function` becomes a function of the module: calling it with
values writes a call, and the function itself when it is the first with arguments of these types.

Products of tensors are `linalg.contract` with the loops in a given order. Lowered to plain loops,
the last one then walks along rows of memory, which compilers turn into vector instructions.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Number = float | int


def type_text(element: str, shape: tuple[int, ...] | None) -> str:
    """The type of a tensor, or of a scalar where the shape is None."""
    if shape is None:
        return element
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def wrapped(indent: str, line: str) -> str:
    """The line, broken over several lines if it is long; names stay next to their operators."""
    for joined in (" : ", " @", " = "):
        line = line.replace(joined, joined.replace(" ", "\0"))
    filled = textwrap.fill(
        line, 100, initial_indent=indent, subsequent_indent=f"{indent}    ",
        break_long_words=False, break_on_hyphens=False,
    )
    return filled.replace("\0", " ")


@dataclass(frozen=True)
class Value:
    """A result in a body. Scalars have operators, which write operations of `arith`."""

    body: Body = field(repr=False, compare=False)
    name: str
    element: str
    sizes: tuple[int, ...] | None = None  # None of a scalar

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, of a tensor."""
        assert self.sizes is not None
        return self.sizes

    @property
    def type(self) -> str:
        return type_text(self.element, self.sizes)

    def occurs_in(self, text: str) -> bool:
        return re.search(rf"{self.name}\b", text) is not None

    def _binary(self, operation: str, other: Value | Number, swapped: bool = False) -> Value:
        right = self.body.constant(other, self.element) if not isinstance(other, Value) else other
        a, b = (right, self) if swapped else (self, right)
        suffix = "f" if "f" in self.element else "i"
        return self.body.scalar(f"arith.{operation}{suffix} {a.name}, {b.name}", self.element)

    def __add__(self, other: Value | Number) -> Value:
        return self._binary("add", other)

    def __sub__(self, other: Value | Number) -> Value:
        return self._binary("sub", other)

    def __mul__(self, other: Value | Number) -> Value:
        return self._binary("mul", other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self._binary("div", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self._binary("div", other, swapped=True)

    def __radd__(self, other: Number) -> Value:
        return self._binary("add", other)

    def __rsub__(self, other: Number) -> Value:
        return self._binary("sub", other, swapped=True)

    def __rmul__(self, other: Number) -> Value:
        return self._binary("mul", other)


@dataclass(frozen=True)
class Port:
    """An argument or a result of a stage function: its role, and its name within the role."""

    role: str
    element: str
    sizes: tuple[int, ...] | None
    name: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, of a tensor."""
        assert self.sizes is not None
        return self.sizes

    @property
    def attribute(self) -> str:
        value = f' = "{self.name}"' if self.name else ""
        return f"{{pipe.{self.role}{value}}}"

    @property
    def type(self) -> str:
        return type_text(self.element, self.sizes)


class Module:
    """The functions of one file.

    `element` is the type of parameters and activations, `total` the type of sums: gradients, the
    loss, the state of the optimizer, and sums in products and reductions.
    """

    def __init__(self, element: str) -> None:
        self.element = element
        self.total = "f64" if element == "f64" else "f32"
        self.maps: dict[str, str] = {}
        self.stages: list[str] = []
        self.helpers: list[str] = []
        self.known: dict[tuple[Any, ...], Known] = {}

    def map(self, order: str, letters: str) -> str:
        """The alias of the affine map from loops to the dimensions of an operand."""
        alias = f"#{order}_to_{letters or 'none'}"
        text = f"affine_map<({', '.join(order)}) -> ({', '.join(letters)})>"
        self.maps[alias] = text
        return alias

    def symbol(self, name: str, types: Sequence[Value]) -> str:
        """A name for a helper: the Python function's, with its first two shapes."""
        shapes = ["x".join(map(str, value.shape)) for value in types if value.sizes]
        name = "_".join([name, *list(dict.fromkeys(shapes))[:2]])
        taken = {known.symbol for known in self.known.values()}
        return next(s for s in (name, *(f"{name}_v{i}" for i in range(2, 999))) if s not in taken)

    def stage_function(
        self,
        symbol: str,
        arguments: Sequence[tuple[str, Port]],
        build: Callable[..., Sequence[tuple[Port, Value]]],
    ) -> None:
        """Adds a function with roles. `build` gets the body and the arguments by their names;
        arguments that it does not use are left out.
        """
        body = Body(self)
        formal = {name: body.argument(name, p.element, p.sizes) for name, p in arguments}
        results = build(body, formal)
        for port, value in results:
            assert port.type == value.type, f"{symbol}: {port} is {value.type}"
        text = body.text([value for _, value in results])
        used = [(formal[name], port) for name, port in arguments if formal[name].occurs_in(text)]
        listed = [f"{value.name}: {port.type} {port.attribute}" for value, port in used]
        kinds = [f"{port.type} {port.attribute}" for port, _ in results]
        lists = (",\n    ".join(listed), ",\n    ".join(kinds))
        inside = [f"\n    {lines}\n" if lines else "" for lines in lists]
        self.stages.append(f"func.func @{symbol}({inside[0]}) -> ({inside[1]}) {{\n{text}")

    def text(self, *parts: str) -> str:
        """The whole file: the first part, maps, the other parts, the functions of stages, and the
        functions that they call (callers first).
        """
        maps = "\n".join(f"{alias} = {text}" for alias, text in sorted(self.maps.items()))
        functions = [*self.stages, *reversed(self.helpers)]
        return "\n\n".join([*parts[:1], maps, *parts[1:], *functions]) + "\n"


class Body:
    """The lines of one function."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.constants: dict[tuple[str, str], Value] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.taken: dict[str, int] = {}

    # Lines and names

    def name(self, hint: str) -> str:
        count = self.taken[hint] = self.taken.get(hint, -1) + 1
        return f"%{hint}_{count}" if count else f"%{hint}"

    def argument(self, hint: str, element: str, shape: tuple[int, ...] | None) -> Value:
        return Value(self, self.name(hint.replace(".", "_")), element, shape)

    def emit(self, line: str) -> None:
        self.lines.append(wrapped("  " * self.depth, line))

    def value(self, text: str, element: str, shape: tuple[int, ...] | None, hint: str) -> Value:
        result = Value(self, self.name(hint), element, shape)
        self.emit(f"{result.name} = {text}")
        return result

    def text(self, results: Sequence[Value]) -> str:
        head = [f"  {each.name} = {key[0]}" for key, each in self.constants.items()]
        names = ", ".join(value.name for value in results)
        last = wrapped("  ", f"return {names} : {types_of(results)}")
        return "\n".join([*head, *self.lines, last, "}"])

    # Scalars

    def constant(self, number: Number, element: str) -> Value:
        """A constant, written once at the start of the function."""
        literal = str(int(number))
        if "f" in element:
            mantissa, mark, exponent = repr(float(number)).partition("e")
            literal = mantissa + ("" if "." in mantissa else ".0") + mark + exponent
        key = (f"arith.constant {literal} : {element}", element)
        if key not in self.constants:
            self.constants[key] = Value(self, self.name("c"), element)
        return self.constants[key]

    def scalar(self, operation: str, element: str, types: str | None = None) -> Value:
        """`arith.addf %a, %b` and similar; `types`, or the element, follows the colon."""
        return self.value(f"{operation} : {types or element}", element, None, "t")

    def math(self, function: str, *operands: Value) -> Value:
        names = ", ".join(operand.name for operand in operands)
        return self.scalar(f"math.{function} {names}", operands[0].element)

    def maximum(self, a: Value, b: Value) -> Value:
        return self.scalar(f"arith.maximumf {a.name}, {b.name}", a.element)

    def where(self, predicate: str, a: Value, b: Value, yes: Value, no: Value | Number) -> Value:
        """`yes` where the comparison of a and b holds, otherwise `no`."""
        kind = "f" if "f" in a.element else "i"
        truth = self.scalar(f"arith.cmp{kind} {predicate}, {a.name}, {b.name}", "i1", a.element)
        other = no if isinstance(no, Value) else self.constant(no, yes.element)
        names = f"{truth.name}, {yes.name}, {other.name}"
        return self.scalar(f"arith.select {names}", yes.element)

    def index(self, dimension: int) -> Value:
        """The number of the loop in which a region runs."""
        return self.value(f"linalg.index {dimension} : index", "index", None, "i")

    def convert(self, value: Value, element: str) -> Value:
        """A scalar with another type: between floats, and from or to indices and integers."""
        if value.element == element:
            return value
        if "f" in element and "f" in value.element:
            wider = value.element == "bf16" or element == "f64"
            operation = "extf" if wider else "truncf"
        elif "f" in element:
            operation = "uitofp"
        elif "index" in (element, value.element):
            operation = "index_cast"
        else:
            operation = "extui" if int(element[1:]) > int(value.element[1:]) else "trunci"
        return self.scalar(
            f"arith.{operation} {value.name}", element, f"{value.element} to {element}"
        )

    def element_at(self, tensor: Value, *indices: Value) -> Value:
        names = ", ".join(index.name for index in indices)
        return self.scalar(f"tensor.extract {tensor.name}[{names}]", tensor.element, tensor.type)

    # Tensors

    def empty(self, shape: tuple[int, ...], element: str) -> Value:
        return self.value(
            f"tensor.empty() : {type_text(element, shape)}", element, shape, "empty"
        )

    def filled(self, shape: tuple[int, ...], number: Number = 0, element: str = "") -> Value:
        """A tensor of one number, to start a reduction; of the type of sums by default."""
        element = element or self.module.total
        start, into = self.constant(number, element), self.empty(shape, element)
        text = f"linalg.fill ins({start.name} : {element}) outs({into.name} : {into.type})"
        return self.value(f"{text} -> {into.type}", element, shape, "start")

    def contract(self, order: str, *operands: tuple[Value, str], hint: str = "sum") -> Value:
        """Adds the product of two tensors to a third, with the loops in this order."""
        (a, _), (b, _), (into, _) = operands
        maps = ", ".join(self.module.map(order, letters) for _, letters in operands)
        text = (
            f"linalg.contract indexing_maps = [{maps}] "
            f"ins({a.name}, {b.name} : {a.type}, {b.type}) outs({into.name} : {into.type})"
            f" -> {into.type}"
        )
        return self.value(text, into.element, into.shape, hint)

    def generic(
        self,
        formula: Callable[..., Value | tuple[Value, ...]],
        order: str,
        inputs: Sequence[tuple[Value, str]],
        outputs: Sequence[tuple[Value, str]],
        hint: str = "g",
    ) -> list[Value]:
        """A `linalg.generic`. The formula gets the body and one scalar per input, and per output
        where the output is a sum so far (some loop does not show in it). Narrow floats are
        computed in the type of sums.
        """
        sums = any(set(letters) != set(order) for _, letters in outputs)
        parallel = set(order) if not sums else set().union(*(set(x) for _, x in outputs))
        kinds = ", ".join(f'"{"parallel" if x in parallel else "reduction"}"' for x in order)
        maps = ", ".join(self.module.map(order, x) for _, x in (*inputs, *outputs))
        names = ", ".join(self.name(hint) for _ in outputs)
        types = ", ".join(value.type for value, _ in outputs)
        self.emit(f"{names} = linalg.generic {{")
        self.emit(f"    indexing_maps = [{maps}],")
        self.emit(f"    iterator_types = [{kinds}]}}")
        sources = [value for value, _ in inputs]
        if sources:
            listed = ", ".join(value.name for value in sources)
            self.emit(f"    ins({listed} : {', '.join(value.type for value in sources)})")
        targets = [value for value, _ in outputs]
        self.emit(f"    outs({', '.join(value.name for value in targets)} : {types}) {{")
        self._region(formula, sources, targets, sums)
        self.emit(f"}} -> {types}" if len(targets) == 1 else f"}} -> ({types})")
        results = zip(names.split(", "), targets, strict=True)
        return [Value(self, name, t.element, t.shape) for name, t in results]

    def _region(
        self,
        formula: Callable[..., Value | tuple[Value, ...]],
        sources: list[Value],
        targets: list[Value],
        sums: bool,
    ) -> None:
        scalars = [self.argument("x", value.element, None) for value in (*sources, *targets)]
        self.emit(f"^bb0({', '.join(f'{each.name}: {each.element}' for each in scalars)}):")
        self.depth += 1
        used = scalars if sums else scalars[: len(sources)]
        wide = [self.convert(x, self.module.total) if x.element == "bf16" else x for x in used]
        given = formula(self, *wide)
        given = given if isinstance(given, tuple) else (given,)
        stored = [self.convert(x, t.element) for x, t in zip(given, targets, strict=True)]
        elements = ", ".join(each.element for each in stored)
        self.emit(f"linalg.yield {', '.join(each.name for each in stored)} : {elements}")
        self.depth -= 1

    def each(
        self, formula: Callable[..., Value], *inputs: Value, element: str = "", hint: str = "g"
    ) -> Value:
        """Applies a formula to each element of tensors of one shape."""
        shape = inputs[0].shape
        order = "abcd"[: len(shape)]
        into = self.empty(shape, element or inputs[0].element)
        return self.generic(formula, order, [(x, order) for x in inputs], [(into, order)], hint)[0]

    def cast(self, value: Value, element: str) -> Value:
        """The tensor with elements of another type."""
        if value.element == element:
            return value
        return self.each(lambda _, x: x, value, element=element, hint="cast")

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        shape = tuple(value.shape[i] for i in permutation)
        into = self.empty(shape, value.element)
        text = f"linalg.transpose ins({value.name} : {value.type}) outs({into.name} : {into.type})"
        order = ", ".join(map(str, permutation))
        return self.value(f"{text} permutation = [{order}]", value.element, shape, "turned")

    def broadcast(self, value: Value, rows: int) -> Value:
        """The same row many times, as sums."""
        shape = (rows, *value.shape)
        into = self.empty(shape, value.element)
        text = f"linalg.broadcast ins({value.name} : {value.type}) outs({into.name} : {into.type})"
        return self.value(f"{text} dimensions = [0]", value.element, shape, "rows")

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The tensor with neighbouring dimensions joined, or with dimensions divided."""
        if value.shape == shape:
            return value
        expands = len(shape) > len(value.shape)
        long, short = (shape, value.shape) if expands else (value.shape, shape)
        groups, start = [], 0
        for size in short:
            end = next(
                e for e in range(start + 1, len(long) + 1) if math.prod(long[start:e]) == size
            )
            groups.append(list(range(start, end)))
            start = end
        # Dimensions of size 1 at the end belong to the last group.
        groups[-1] += range(start, len(long))
        kind = "expand" if expands else "collapse"
        sizes = f" output_shape {list(shape)}" if expands else ""
        text = f"tensor.{kind}_shape {value.name} {groups}{sizes}"
        target = type_text(value.element, shape)
        return self.value(
            f"{text} : {value.type} into {target}", value.element, shape, "reshaped"
        )


def function(build: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a Python function that writes a body into a function of the module (see above).

    Arguments are values, or None for arguments that the function shall not have; a value passed by
    keyword is not an argument of the function in the module, but distinguishes it from others.
    Results are a value, or several by name, which the call returns as a tuple.
    """
    parameters = list(inspect.signature(build).parameters)[1:]

    @functools.wraps(build)
    def call(body: Body, *values: Value | None, **fixed: Any) -> Any:
        given = {n: v for n, v in zip(parameters, values, strict=False) if v is not None}

        def in_order(inner: Body, formal: dict[str, Value]) -> Any:
            arguments = [formal.get(name) for name in parameters[: len(values)]]
            return build(inner, *arguments, **fixed)

        outcome = _call(body, build.__name__, given, fixed, in_order)
        values_of_it = tuple(outcome.values())
        return values_of_it[0] if tuple(outcome) == (build.__name__,) else values_of_it

    return call


def function_of_names(build: Callable[..., dict[str, Value]]) -> Callable[..., dict[str, Value]]:
    """The same for functions with many arguments and results, which are dictionaries. Arguments
    that the body does not use are left out.
    """

    @functools.wraps(build)
    def call(body: Body, given: dict[str, Value], **fixed: Any) -> dict[str, Value]:
        return _call(body, build.__name__, given, fixed, lambda inner, x: build(inner, x, **fixed))

    return call


@dataclass(frozen=True)
class Known:
    """A function of the module: the arguments that it uses, and its results."""

    symbol: str
    arguments: list[str]
    results: list[tuple[str, str, tuple[int, ...] | None]]


def _call(
    body: Body, name: str, given: dict[str, Value], fixed: dict[str, Any], build: Callable[..., Any]
) -> dict[str, Value]:
    known = body.module.known
    key = (name, *((n, v.type) for n, v in given.items()), *sorted(fixed.items()))
    if key not in known:
        known[key] = _define(body.module, name, given, build)
    called = known[key]
    actual = [given[n] for n in called.arguments]
    produced = {n: Value(body, body.name(n.replace(".", "_")), e, s) for n, e, s in called.results}
    results, operands = list(produced.values()), ", ".join(v.name for v in actual)
    body.emit(f"{', '.join(v.name for v in results)} = call @{called.symbol}({operands})")
    body.lines.append(
        wrapped("  " * body.depth + "    ", f": ({types_of(actual)}) -> {in_brackets(results)}")
    )
    return produced


def _define(
    module: Module, name: str, given: dict[str, Value], build: Callable[..., Any]
) -> Known:
    inner = Body(module)
    formal = {n: inner.argument(n, v.element, v.sizes) for n, v in given.items()}
    outcome = build(inner, formal)
    results = outcome if isinstance(outcome, dict) else {name: outcome}
    text = inner.text(list(results.values()))
    kept = {n: v for n, v in formal.items() if v.occurs_in(text)}
    symbol = module.symbol(name, list(kept.values()))
    listed = ", ".join(f"{v.name}: {v.type}".replace(" ", "\0") for v in kept.values())
    header = wrapped("", f"func.func private @{symbol}({listed})")
    kinds = wrapped("    ", f"-> {in_brackets(list(results.values()))} {{")
    module.helpers.append(f"{header}\n{kinds}\n{text}")
    shapes = [(n, v.element, v.sizes) for n, v in results.items()]
    return Known(symbol, list(kept), shapes)


def types_of(values: Sequence[Value]) -> str:
    return ", ".join(value.type for value in values)


def in_brackets(values: Sequence[Value]) -> str:
    """The types of results; a single type has no brackets."""
    return types_of(values) if len(values) == 1 else f"({types_of(values)})"

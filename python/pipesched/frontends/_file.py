"""The file of a model: functions of stages, the clauses that name them, and initial values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipesched import Schedule
from pipesched.support.files import write_whole

from . import FrontendError

Array = np.ndarray[Any, Any]

ENDING = ".mlir"
"""The ending of file names."""

KINDS = ("forward", "recompute", "backward", "input_gradient", "weight_gradient", "update")
"""The functions that a stage may name, in the order of its clause."""


@dataclass(frozen=True)
class Port:
    """An argument or a result of a function: its role, its type, and its name within the role."""

    role: str
    type: str
    name: str = ""
    tied: str = ""
    """The common name of a parameter that other stages share."""

    @property
    def attribute(self) -> str:
        """The attributes after the type."""
        said = f'pipe.{self.role} = "{self.name}"' if self.name else f"pipe.{self.role}"
        return f'{{{said}, pipe.tied = "{self.tied}"}}' if self.tied else f"{{{said}}}"


@dataclass(frozen=True)
class Function:
    """A function without its name. Its arguments are `%arg0`, `%arg1`, and so on."""

    arguments: tuple[Port, ...]
    results: tuple[Port, ...]
    body: str
    """The lines of its only block, which ends in a `return`."""

    def tying(self, ties: Mapping[str, str]) -> Function:
        """The parameters that are tied, by their names."""
        arguments = tuple(
            replace(port, tied=ties[port.name])
            if port.role == "param" and port.name in ties
            else port
            for port in self.arguments
        )
        return replace(self, arguments=arguments)

    def text(self, symbol: str) -> str:
        given = [f"%arg{i}: {p.type} {p.attribute}" for i, p in enumerate(self.arguments)]
        made = [f"{port.type} {port.attribute}" for port in self.results]
        comma = ",\n      "
        arguments = comma.join(given)
        results = f" -> (\n      {comma.join(made)})" if made else ""
        body = "\n".join(f"  {line}" for line in self.body.splitlines())
        return f"  func.func @{symbol}({arguments}){results} {{\n{body}\n  }}"


def tensor_type(shape: Sequence[int], element: str) -> str:
    """`tensor<2x3xf32>`."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


class Functions:
    """The functions of a file by their names. Equal ones are one."""

    def __init__(self, taken: str) -> None:
        self._taken = {taken}
        self._symbols: dict[Function, str] = {}

    def add(self, symbol: str, function: Function) -> str:
        """The name of the function, or of an equal one if there is one."""
        if function not in self._symbols:
            while symbol in self._taken:
                symbol += "_"
            self._taken.add(symbol)
            self._symbols[function] = symbol
        return self._symbols[function]

    def __len__(self) -> int:
        return len(self._symbols)

    def text(self) -> str:
        """All functions, in the order in which they were added."""
        return "\n".join(function.text(symbol) for function, symbol in self._symbols.items())


def sample_function(
    role: str, name: str, shape: Sequence[int], element: str, count: int, microbatches: int
) -> Function:
    """`data` or `target`: a microbatch of the parameter `name`, by turns."""
    whole, part = tensor_type((count, *shape), element), tensor_type(shape, element)
    zeros, ones = ", 0" * len(shape), ", 1" * len(shape)
    sizes = "".join(f", {size}" for size in shape)
    body = (
        f"  %step_size = arith.constant {microbatches} : i64\n"
        f"  %count = arith.constant {count} : i64\n"
        "  %first = arith.muli %arg2, %step_size : i64\n"
        "  %sum = arith.addi %first, %arg1 : i64\n"
        "  %number = arith.remui %sum, %count : i64\n"
        "  %place = arith.index_cast %number : i64 to index\n"
        f"  %part = tensor.extract_slice %arg0[%place{zeros}] [1{sizes}] [1{ones}] "
        f": {whole} to {part}\n"
        f"  return %part : {part}"
    )
    given = (Port("param", whole, name), Port("microbatch", "i64"), Port("step", "i64"))
    return Function(given, (Port(role, part),), body)


@dataclass
class ExportedModel:
    """A model as functions of stages, with its first arrays."""

    text: str
    """The file: a schedule whose stages name functions."""
    arrays: dict[str, Array]
    """Parameters, constants and samples by the names of their files."""
    stages: int
    functions: int
    """The number of functions: equal stages share theirs."""
    names: dict[str, str] = field(default_factory=dict)
    """The names of parameters in the model, by names of their files."""

    def save(self, path: str | Path) -> Path:
        """Writes the file and its folder of parameters, `model.parameters` for `model.mlir`, which
        it returns.
        """
        path = Path(path)
        if path.suffix != ENDING or not path.stem:
            raise FrontendError(f"{path}: wanted a name that ends in {ENDING}")
        folder = path.with_suffix(".parameters")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("stage*.npy"):
            old.unlink()
        for name, array in self.arrays.items():
            np.save(folder / name, array, allow_pickle=False)
        write_whole(path, self.text.encode())
        return folder


def array_file(stage: int, name: str) -> str:
    """The file of a parameter: letters, digits and `._-` stay."""
    escaped = re.sub(
        rb"[^A-Za-z0-9._-]", lambda found: b"%%%02X" % found[0][0], name.encode()
    ).decode()
    return f"stage{stage}.{escaped}.npy"


def _clauses(stages: Sequence[Mapping[str, str]], ends: Mapping[str, str]) -> Iterator[str]:
    for number, functions in enumerate(stages):
        named = [f"{kind} @{functions[kind]}" for kind in KINDS if kind in functions]
        yield f"    stage {number} {' '.join(named)}"
    for kind, symbol in ends.items():
        yield f"    {kind} @{symbol}"


def write_module(
    schedule: Schedule,
    stages: Sequence[Mapping[str, str]],
    ends: Mapping[str, str],
    functions: Functions,
    comment: Sequence[str],
) -> str:
    """The text of the file. `ends` are the functions of data, target and loss."""
    lines = schedule.to_text().rstrip().splitlines()
    paths = [number for number, line in enumerate(lines) if line.startswith("    path ")]
    if not paths or lines[-1] != "}":
        raise FrontendError(f"schedule {schedule.name!r} has no paths, which place its stages")
    head = paths[-1] + 1
    placed = [*lines[:head], *_clauses(stages, ends), *lines[head:-1]]
    above = [f"// {line}".rstrip() for line in comment]
    return "\n".join([*above, *placed, functions.text(), "}"]) + "\n"


# Updates of parameters


@dataclass(frozen=True)
class Rule:
    """How one parameter is stepped. Without `betas` it is SGD."""

    rate: float
    weight_decay: float = 0.0
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] | None = None
    epsilon: float = 0.0
    decoupled: bool = False
    """Whether the decay of weights is separate from the gradient (AdamW)."""

    @property
    def states(self) -> tuple[str, ...]:
        """The states kept between steps for each element."""
        if self.betas is not None:
            return ("exp_avg", "exp_avg_sq")
        return ("momentum_buffer",) if self.momentum else ()

    @property
    def reads_step(self) -> bool:
        """Whether it depends on the number of the step."""
        return self.betas is not None or bool(self.momentum and self.dampening)


@dataclass(frozen=True)
class Stepped:
    """A parameter, and its rule of update."""

    name: str
    shape: tuple[int, ...]
    element: str
    rule: Rule


class _Lines:
    """Operations on numbers of one type."""

    def __init__(self, prefix: str, element: str) -> None:
        self.prefix, self.element = prefix, element
        self.lines: list[str] = []

    def value(self, text: str) -> str:
        """Adds an operation; returns its result."""
        name = f"%{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, number: float) -> str:
        return self.value(f"arith.constant {number:.17e} : {self.element}")

    def binary(self, operation: str, a: str, b: str | float) -> str:
        right = self.constant(b) if isinstance(b, float) else b
        return self.value(f"arith.{operation}f {a}, {right} : {self.element}")

    def root(self, a: str) -> str:
        return self.value(f"math.sqrt {a} : {self.element}")


def _sgd(code: _Lines, rule: Rule, p: str, g: str, state: Sequence[str], first: str) -> list[str]:
    """The new parameter and state. The momentum starts as the first gradient, without dampening."""
    if rule.weight_decay:
        g = code.binary("add", g, code.binary("mul", p, rule.weight_decay))
    if not rule.momentum:
        return [code.binary("sub", p, code.binary("mul", g, rule.rate))]
    part = code.binary("mul", g, 1 - rule.dampening) if rule.dampening else g
    moved = code.binary("add", code.binary("mul", state[0], rule.momentum), part)
    if rule.dampening:
        moved = code.value(f"arith.select {first}, {g}, {moved} : {code.element}")
    along = moved
    if rule.nesterov:
        along = code.binary("add", g, code.binary("mul", moved, rule.momentum))
    return [code.binary("sub", p, code.binary("mul", along, rule.rate)), moved]


def _adam(
    code: _Lines, rule: Rule, p: str, g: str, state: Sequence[str], scales: Sequence[str]
) -> list[str]:
    """The new parameter and state; `scales` are the step size and the second correction's root."""
    assert rule.betas is not None
    if rule.decoupled:
        p = code.binary("mul", p, 1 - rule.rate * rule.weight_decay)
    elif rule.weight_decay:
        g = code.binary("add", g, code.binary("mul", p, rule.weight_decay))
    step = code.binary("mul", code.binary("sub", g, state[0]), 1 - rule.betas[0])
    mean = code.binary("add", state[0], step)
    part = code.binary("mul", code.binary("mul", g, g), 1 - rule.betas[1])
    square = code.binary("add", code.binary("mul", state[1], rule.betas[1]), part)
    root = code.binary("div", code.root(square), scales[1])
    size = code.binary("div", mean, code.binary("add", root, rule.epsilon))
    return [code.binary("sub", p, code.binary("mul", size, scales[0])), mean, square]


def _scales(code: _Lines, rule: Rule, count: str) -> list[str]:
    """The numbers of a step that all elements share; `count` is the step, from 1 on, as f64."""
    assert rule.betas is not None
    one = code.constant(1.0)
    left = [
        code.binary("sub", one, code.value(f"math.powf {code.constant(beta)}, {count} : f64"))
        for beta in rule.betas
    ]
    return [code.binary("div", code.constant(rule.rate), left[0]), code.root(left[1])]


def _choose_type(element: str) -> str:
    """The type that numbers of a type are computed in."""
    return "f64" if element == "f64" else "f32"


class _Update:
    """Writes the update of one stage."""

    def __init__(self, stepped: Sequence[Stepped]) -> None:
        self.stepped = stepped
        self.arguments: list[Port] = []
        self.places: dict[tuple[str, str], str] = {}
        for each in stepped:
            kind = tensor_type(each.shape, each.element)
            self._argument("param", each.name, kind)
            self._argument("gradient", each.name, kind)
            for state in each.rule.states:
                self._argument("state", f"{each.name}.{state}", kind)
        self.lines: list[str] = []
        self.shared: dict[tuple[Rule, str], list[str]] = {}
        self.count = self.first = ""
        if any(each.rule.reads_step for each in stepped):
            self._read_step()

    def _argument(self, role: str, name: str, kind: str) -> None:
        self.places[role, name] = f"%arg{len(self.arguments)}"
        self.arguments.append(Port(role, kind, name))

    def _read_step(self) -> None:
        step = f"%arg{len(self.arguments)}"
        self.arguments.append(Port("step", "i64"))
        self.count, self.first = "%step_count", "%is_first"
        self.lines += [
            "%step_zero = arith.constant 0 : i64",
            "%step_one = arith.constant 1 : i64",
            f"{self.first} = arith.cmpi eq, {step}, %step_zero : i64",
            f"%step_next = arith.addi {step}, %step_one : i64",
            f"{self.count} = arith.sitofp %step_next : i64 to f64",
        ]

    def _scales_of(self, rule: Rule, element: str) -> list[str]:
        if rule.betas is None:
            return []
        key = (rule, element)
        if key not in self.shared:
            code = _Lines(f"scale{len(self.shared)}_", "f64")
            made = _scales(code, rule, self.count)
            if element != "f64":
                made = [code.value(f"arith.truncf {each} : f64 to {element}") for each in made]
            self.lines += code.lines
            self.shared[key] = made
        return self.shared[key]

    def step(self, number: int, each: Stepped) -> list[tuple[Port, str]]:
        """Adds the loop of one parameter; returns its results."""
        names = [("param", each.name)]
        names += [("state", f"{each.name}.{state}") for state in each.rule.states]
        computed, rule = _choose_type(each.element), each.rule
        scales = self._scales_of(rule, computed)
        code = _Lines("x", computed)
        given = [f"%e{i}" for i in range(1 + len(names))]
        raw = given
        if computed != each.element:
            given = [code.value(f"arith.extf {e} : {each.element} to {computed}") for e in raw]
        gradient, parameter, *state = given
        if rule.betas is not None:
            made = _adam(code, rule, parameter, gradient, state, scales)
        else:
            made = _sgd(code, rule, parameter, gradient, state, self.first)
        if computed != each.element:
            made = [code.value(f"arith.truncf {e} : {computed} to {each.element}") for e in made]
        self._loop(number, each, names, raw, code, made)
        kind = tensor_type(each.shape, each.element)
        result = f"%stepped{number}"
        many = len(names) > 1
        return [
            (Port(role, kind, name), f"{result}#{i}" if many else result)
            for i, (role, name) in enumerate(names)
        ]

    def _loop(
        self,
        number: int,
        each: Stepped,
        names: Sequence[tuple[str, str]],
        elements: Sequence[str],
        code: _Lines,
        made: Sequence[str],
    ) -> None:
        kind = tensor_type(each.shape, each.element)
        dimensions = ", ".join(f"d{i}" for i in range(len(each.shape)))
        one = f"affine_map<({dimensions}) -> ({dimensions})>"
        maps = ", ".join([one] * len(elements))
        loops = ", ".join(['"parallel"'] * len(each.shape))
        outs = ", ".join(self.places[name] for name in names)
        kinds = ", ".join([kind] * len(names))
        many = f":{len(names)}" if len(names) > 1 else ""
        made_type = f"({kinds})" if len(names) > 1 else kind
        block = ", ".join(f"{element}: {each.element}" for element in elements)
        yielded = ", ".join([each.element] * len(made))
        self.lines += [
            f"%stepped{number}{many} = linalg.generic {{indexing_maps = [{maps}], "
            f"iterator_types = [{loops}]}} ins({self.places['gradient', each.name]} : {kind}) "
            f"outs({outs} : {kinds}) {{",
            f"^bb0({block}):",
            *(f"  {line}" for line in code.lines),
            f"  linalg.yield {', '.join(made)} : {yielded}",
            f"}} -> {made_type}",
        ]


def update_function(stepped: Sequence[Stepped]) -> Function:
    """The update of a stage that has these parameters, which may be none."""
    update = _Update(stepped)
    results = [pair for i, each in enumerate(stepped) for pair in update.step(i, each)]
    values = ", ".join(value for _, value in results)
    kinds = ", ".join(port.type for port, _ in results)
    lines = [*update.lines, f"return {values} : {kinds}" if results else "return"]
    body = "\n".join(f"  {line}" for line in lines)
    return Function(tuple(update.arguments), tuple(port for port, _ in results), body)

"""Functions that step the parameters of a stage: SGD, Adam and AdamW, as PyTorch computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._file import Function, Port, tensor_type


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
    """Whether the decay of weights is apart from the gradient (AdamW)."""

    @property
    def states(self) -> tuple[str, ...]:
        """What is kept between steps for each element."""
        if self.betas is not None:
            return ("exp_avg", "exp_avg_sq")
        return ("momentum_buffer",) if self.momentum else ()

    @property
    def reads_step(self) -> bool:
        """Whether it depends on the number of the step."""
        return self.betas is not None or bool(self.momentum and self.dampening)


@dataclass(frozen=True)
class Stepped:
    """A parameter, and how it is stepped."""

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
    """The new parameter and state. The momentum begins as the first gradient, without dampening."""
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

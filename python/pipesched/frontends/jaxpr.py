"""Stages of JAX as flat lists of equations, and the functions into which they are cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, Var

from . import FrontendError
from .partition import Graph, Piece, Role, loss_piece, stage_pieces

_CALLS = frozenset(
    "pjit jit closed_call core_call custom_jvp_call custom_vjp_call checkpoint remat2".split()
)
"""Equations that only call others. The equations that they call replace them."""

_VIEWS = frozenset(
    "broadcast_in_dim reshape squeeze transpose iota copy stop_gradient expand_dims slice".split()
)


@dataclass(frozen=True)
class Equation:
    """One operation, with variables of the whole list."""

    primitive: Any
    inputs: tuple[Any, ...]
    """Variables, or literals."""
    outputs: tuple[Any, ...]
    params: Mapping[str, Any]


@dataclass
class Flat:
    equations: list[Equation]
    graph: Graph[Any]
    used: dict[str, Any]
    """Parameters and constants that any equation reads."""
    trained: list[str]
    value: Any
    """The shape and type of the output."""
    key: str
    """The key of equal stages."""


@dataclass
class Part:
    kind: str
    function: Callable[..., Any]
    example: list[Any]
    arguments: list[Role]
    results: list[Role]


class _Inliner:
    """Flattens nested equations into one list."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[Any, Any] = {}

    def run(self, closed: Any, given: Sequence[Any]) -> list[Any]:
        """Adds the equations, with `given` as arguments; returns the results."""
        known: dict[Any, Any] = dict(zip(closed.jaxpr.invars, given, strict=True))
        for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            known[variable] = variable
            self.constants[variable] = value

        def find(atom: Any) -> Any:
            return atom if isinstance(atom, Literal) else known.get(atom, atom)

        for equation in closed.jaxpr.eqns:
            inputs = [find(atom) for atom in equation.invars]
            inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            if equation.primitive.name in _CALLS and inner is not None:
                if not hasattr(inner, "consts"):
                    inner = ClosedJaxpr(inner, ())
                found = self.run(inner, inputs)
                known.update(zip(equation.outvars, found, strict=True))
                continue
            if equation.primitive.name == "optimization_barrier":  # of a checkpoint
                known.update(zip(equation.outvars, inputs, strict=True))
                continue
            # A jaxpr that is called twice has the same variables twice.
            fresh = tuple(Var(variable.aval) for variable in equation.outvars)
            known.update(zip(equation.outvars, fresh, strict=True))
            self.equations.append(
                Equation(equation.primitive, tuple(inputs), fresh, equation.params)
            )
        return [find(atom) for atom in closed.jaxpr.outvars]


def _path_name(path: Any) -> str:
    """`layers.0.w` of a place in a tree."""
    parts = (getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))) for key in path)
    return ".".join(str(part) for part in parts) or "value"


def _is_float(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating))


def name_leaves(parameters: Any, what: str) -> tuple[dict[str, Any], Any]:
    """Returns the arrays of a tree by name, and the structure of the tree."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(parameters)
    arrays = {_path_name(path): jnp.asarray(leaf) for path, leaf in leaves}
    if len(arrays) != len(leaves):
        raise FrontendError(f"{what} has two parameters of one name among {', '.join(arrays)}")
    return arrays, tree


class _Stage:
    """A stage with its parameters as a list."""

    def __init__(self, stage: Callable[[Any, Any], Any], parameters: Any, what: str) -> None:
        named, self.tree = name_leaves(parameters, what)
        self.stage = stage
        self.names, self.arrays = list(named), list(named.values())
        self.trained = [number for number, each in enumerate(self.arrays) if _is_float(each)]

    def call(self, own: Sequence[Any], x: Any) -> Any:
        return self.stage(jax.tree_util.tree_unflatten(self.tree, list(own)), x)

    def joint(self, wants: bool) -> Callable[..., Any]:
        """Returns the function from parameters, input and output gradient to the output and all
        gradients.
        """

        def function(own: Sequence[Any], x: Any, gradient: Any) -> Any:
            def moved(some: Sequence[Any], x: Any) -> Any:
                now = dict(enumerate(own)) | dict(zip(self.trained, some, strict=True))
                return self.call([now[number] for number in range(len(own))], x)

            some = [own[number] for number in self.trained]
            if wants:
                output, pull = jax.vjp(moved, some, x)
                return output, *pull(gradient)
            output, pull = jax.vjp(lambda some: moved(some, x), some)
            return output, *pull(gradient)

        return function


def flatten(
    stage: Callable[[Any, Any], Any], parameters: Any, value: Any, has_gradient: bool, what: str
) -> Flat:
    """Returns the equations of a stage for an example of its input, or for its shape and type."""
    own = _Stage(stage, parameters, what)
    wants = has_gradient and _is_float(value)
    output: Any = jax.eval_shape(own.call, own.arrays, value)
    if not hasattr(output, "dtype"):
        raise FrontendError(
            f"{what} gives a {type(output).__name__}; wanted one array, which the next stage takes"
        )
    if not _is_float(output):
        raise FrontendError(f"{what} gives {output.dtype} numbers, which have no gradient")
    closed = jax.make_jaxpr(own.joint(wants))(own.arrays, value, jnp.ones_like(output))
    inliner = _Inliner()
    given = list(closed.jaxpr.invars)
    made = inliner.run(closed, given)
    roles: dict[Any, Role] = {
        variable: ("param", name) for variable, name in zip(given, own.names, strict=False)
    }
    roles[given[-2]], roles[given[-1]] = ("input", ""), ("output_gradient", "")
    arrays = dict(zip(own.names, own.arrays, strict=True))
    for number, (variable, constant) in enumerate(inliner.constants.items()):
        roles[variable] = ("param", f"constant{number}")
        arrays[f"constant{number}"] = jnp.asarray(constant)
    read = {each for equation in inliner.equations for each in equation.inputs if _is_var(each)}
    used = {
        name: arrays[name]
        for variable, (role, name) in roles.items()
        if role == "param" and variable in read
    }
    trained = [own.names[number] for number in own.trained]
    found = zip(trained, made[1 : 1 + len(trained)], strict=True)
    gradients = {name: each for name, each in found if name in used and _is_var(each)}
    graph = _graph(inliner.equations, roles, made[0], made[-1] if wants else None, gradients)
    key = _key(inliner.equations, graph.order, roles)
    return Flat(inliner.equations, graph, used, list(gradients), output, key)


def _is_var(atom: Any) -> bool:
    return not isinstance(atom, Literal)


def _key(equations: Sequence[Equation], order: Sequence[Any], roles: Mapping[Any, Role]) -> str:
    numbers = {variable: number for number, variable in enumerate(order)}

    def text(atom: Any) -> str:
        return f"{numbers[atom]}:{atom.aval}" if _is_var(atom) else f"{atom.val!r}:{atom.aval}"

    lines = [f"{text(variable)} {role}" for variable, role in roles.items()]
    for each in equations:
        inputs, outputs = (" ".join(map(text, some)) for some in (each.inputs, each.outputs))
        lines.append(f"{outputs} = {each.primitive.name} {inputs} {dict(each.params)}")
    return "\n".join(lines)


def _graph(
    equations: Sequence[Equation],
    roles: Mapping[Any, Role],
    output: Any,
    input_gradient: Any,
    gradients: Mapping[str, Any],
) -> Graph[Any]:
    by_output = {variable: each for each in equations for variable in each.outputs}
    order = list(dict.fromkeys([*roles, *by_output]))
    numbers = {variable: number for number, variable in enumerate(order)}

    def inputs(variable: Any) -> list[Any]:
        equation = by_output.get(variable)
        return [] if equation is None else [each for each in equation.inputs if _is_var(each)]

    def is_cheap(variable: Any) -> bool:
        equation = by_output.get(variable)
        return equation is not None and equation.primitive.name in _VIEWS

    return Graph(
        order=order,
        inputs=inputs,
        roles=roles,
        output=output,
        input_gradient=input_gradient,
        gradients=gradients,
        name=lambda variable: f"v{numbers[variable]}",
        is_cheap=is_cheap,
    )


def _part(piece: Piece[Any], equations: Sequence[Equation]) -> Part:
    """Returns the function of a piece. Booleans that pass between functions are bytes."""
    computed = set(piece.computed)
    run = [each for each in equations if not computed.isdisjoint(each.outputs)]
    taken = [variable for _, variable in piece.taken]

    def function(*arguments: Any) -> tuple[Any, ...]:
        known = {
            variable: value.astype(bool) if variable.aval.dtype == bool else value
            for variable, value in zip(taken, arguments, strict=True)
        }
        for each in run:
            inputs = [known[atom] if _is_var(atom) else atom.val for atom in each.inputs]
            found = each.primitive.bind(*inputs, **each.params)
            many = found if each.primitive.multiple_results else [found]
            known.update(zip(each.outputs, many, strict=True))
        values = (known[variable] for _, variable in piece.results)
        return tuple(each.astype("int8") if each.dtype == bool else each for each in values)

    shaped: Any = jax.ShapeDtypeStruct
    example = [
        shaped(v.aval.shape, "int8" if v.aval.dtype == bool else v.aval.dtype) for v in taken
    ]
    return Part(
        piece.kind,
        function,
        example,
        [role for role, _ in piece.taken],
        [role for role, _ in piece.results],
    )


def stage_parts(flat: Flat) -> list[Part]:
    return [_part(piece, flat.equations) for piece in stage_pieces(flat.graph).values()]


def loss_part(loss: Callable[[Any, Any], Any], output: Any, target: Any, microbatches: int) -> Part:
    """Returns the function of the loss, which computes its share of the mean over a step."""

    def joint(y: Any, t: Any) -> Any:
        return jax.value_and_grad(lambda y: loss(y, t) / microbatches)(y)

    closed = jax.make_jaxpr(joint)(output, jnp.asarray(target))
    inliner = _Inliner()
    given = list(closed.jaxpr.invars)
    value, gradient = inliner.run(closed, given)
    if inliner.constants:
        raise FrontendError("the loss has arrays of its own; put them into the targets")
    roles: dict[Any, Role] = {given[0]: ("output", ""), given[1]: ("target", "")}
    graph = _graph(inliner.equations, roles, value, gradient, {})
    return _part(loss_piece(graph), inliner.equations)

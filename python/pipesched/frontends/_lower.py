"""From graphs of PyTorch to functions on tensors, by torch-mlir."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from . import EXTRA, FrontendError
from ._dropout import MASK, is_random, mask_code
from ._file import Function
from ._mlir import (
    CLEAN_UP,
    NUMBERS,
    foreign_operation,
    function_of,
    only_function,
    parse,
    with_values,
)
from ._process import Failure, Worker
from ._trace import Joint, Part, module_of, op_name
from .partition import Role

_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=})",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})",
)
"""The same passes as `torch_mlir.fx`, which prints errors and leaves a file after one.
"""
_LAST = f"builtin.module({CLEAN_UP})"


def torch_mlir() -> Any:
    """The module `torch_mlir.fx`. Raises FrontendError if it is not installed."""
    try:
        import torch_mlir.fx as found
    except ImportError as error:
        raise FrontendError(
            f"torch-mlir, which lowers the functions of stages, is not there ({error}); {EXTRA}"
        ) from error
    return found


class Lowering:
    """Lowers the functions of one graph in a worker process. `what` names the graph in errors."""

    def __init__(self, joint: Joint, what: str, worker: Worker) -> None:
        self.what, self.worker = what, worker
        self.graph = joint.module.graph
        for node in self.graph.nodes:
            if node.op == "call_function" and is_random(node.target):
                raise FrontendError(
                    f"{what}: {self.place(node)} draws random numbers, which functions "
                    "of stages cannot; wanted none but those of dropout in the forward of a stage, "
                    "which the backward does not run again"
                )

    def place(self, node: fx.Node) -> str:
        """Describes an operation with its module, for errors; an operation of the backward has the
        module of its forward.
        """
        name = op_name(node)
        names = (name, name.removesuffix("_backward"))
        found = (n for n in self.graph.nodes if n.op == "call_function" and op_name(n) in names)
        module = next(filter(None, map(module_of, [node, *found])), "")
        return f"aten.{name}" + (f" of {module}" if module else "")

    def lower(self, part: Part) -> Function:
        what = f"{self.what}, {part.kind}"
        whole = part.graph
        masks = _take_masks(whole)
        try:
            text = self.text(whole, _PIPELINES if masks else (*_PIPELINES, _LAST))
            if masks:
                text = str(with_values(parse(text), part.arguments, masks))
                text = self.worker.lower(text, [_LAST])
        except Failure as failure:
            raise self._make_refusal(what, whole, str(failure)) from None
        module = parse(text)  # An operation does not keep its module.
        return function_of(only_function(module, what), part.arguments, part.results)

    def text(self, graph: fx.Graph, passes: Sequence[str] = _PIPELINES) -> str:
        """The graph as operations of LLVM. Raises Failure."""
        module = fx.GraphModule(torch.nn.Module(), graph)
        try:
            found = torch_mlir().stateless_fx_import(module, output_type="raw", model_name="main")
        except Exception as error:
            raise Failure(f"{type(error).__name__}: {error}") from error
        text = self.worker.lower(str(found), passes, "torch")
        if other := foreign_operation(text):
            raise Failure(f"needs {other}, which LLVM 22 does not have")
        return text

    def _make_refusal(self, what: str, graph: fx.Graph, said: str) -> FrontendError:
        """Returns the error for a graph that cannot be lowered. It names the first operation that
        cannot be lowered even by itself.
        """
        tried = set()
        for node in graph.nodes:
            single, key = single_operation(node)
            if single is None or key in tried:
                continue
            tried.add(key)
            try:
                self.text(single)
            except Failure as failure:
                why = str(failure)
                if not why.startswith(("needs ", "ends ")):
                    why = "has no form in linalg"
                shapes = ", ".join(_shape_text(each) for each in node.all_input_nodes)
                given = f", for {shapes}" if shapes else ""
                return FrontendError(f"{what} cannot be lowered: {self.place(node)} {why}{given}")
        return FrontendError(f"{what} cannot be lowered: {' '.join(said.split())[:300]}")


def _shape_text(node: fx.Node) -> str:
    """`float32 [2, 3]`."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype} {list(value.shape)}".removeprefix("torch.")


def single_operation(node: fx.Node) -> tuple[fx.Graph | None, Any]:
    """Returns a graph of one operation, and a key that is equal for equal graphs."""
    if node.op != "call_function" or node.target is operator.getitem:
        return None, None
    graph = fx.Graph()
    copied = {}
    for each in node.all_input_nodes:
        copied[each] = graph.placeholder(each.name)
        copied[each].meta["val"] = each.meta["val"]
    made = graph.node_copy(node, copied.__getitem__)
    several = [user for user in node.users if user.target is operator.getitem]
    made_parts = [graph.node_copy(user, lambda _: made) for user in several]
    graph.output(tuple(made_parts or [made]))
    given = fx.map_arg((node.args, node.kwargs), _shape_text)
    return graph, (node.target, str(given), len(several))


def _take_masks(graph: fx.Graph) -> list[list[str]]:
    """Turns masks of dropout into placeholders after all others; returns the code of each."""
    places = list(graph.find_nodes(op="placeholder"))
    found = [node for node in graph.nodes if node.op == "call_function" and node.target is MASK]
    codes, last = [], places[-1] if places else None
    for number, node in enumerate(found, len(places)):
        given = [f"%arg{places.index(each)}" for each in node.args[:3]]
        codes.append(mask_code(f"%arg{number}", node.args[3:], given))
        assert last is not None
        with graph.inserting_after(last):
            last = graph.placeholder(f"mask{number}")
        last.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(last)
        graph.erase_node(node)
    return codes


# Comparing the results of functions with PyTorch. Parameters get some noise, as zeros and ones
# would hide their factors. PyTorch runs the stage itself, not the traced graph, and once more with
# all numbers moved by their last bit, which measures rounding. A last bit may decide the branch of
# a computation, so only a difference for each of several noises counts.

_TRIES = 3
_NOISE = 0.02
_BITS = 64
"""The number of last bits of a result that rounding may always change."""
_FACTOR = 16
"""The tolerance as a multiple of the measured effect of rounding."""
_ZERO = 1e-2
"""A gradient may be zero except for rounding if it is smaller than this share of the largest
gradient.
"""
_CULPRIT = 100
"""The number of last bits of the result of one operation that rounding may change."""
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_TYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}

Values = dict[Role, Tensor]


@dataclass
class _Difference:
    role: Role
    error: float
    limit: float

    def __str__(self) -> str:
        role, name = self.role
        what = role.replace("_", " ") + (f" of {name!r}" if name else "")
        error, limit = f"{self.error:.1e}", f"{self.limit:.1e}"
        return f"the {what} is {error} of its norm off, of which rounding is {limit}"


def compare(
    joint: Joint, lowering: Lowering, made: Sequence[tuple[Part, Function]], worker: Worker
) -> None:
    """Raises FrontendError if functions give other results than PyTorch beyond rounding."""
    found: list[_Difference] = []
    given: list[Tensor] = []
    for seed in range(_TRIES):
        given = _noisy(joint, torch.Generator().manual_seed(seed))
        wanted = _compute(joint, given)
        limits = _limits(joint, given, wanted)
        try:
            results = _run(made, _by_role(joint, given), worker)
        except Failure as failure:
            said = " ".join(str(failure).split())[:200]
            warnings.warn(
                f"{lowering.what} has not been compared with PyTorch: {said}", stacklevel=2
            )
            return
        found = [
            _Difference(role, error, limits[role])
            for role, result in results
            if role in wanted and not (error := _error(result, wanted[role])) <= limits[role]
        ]
        if not found:
            return
    place = _culprit(joint, lowering, given, worker)
    raise FrontendError(
        f"{lowering.what}: its functions do not compute what PyTorch computes: {found[0]}; "
        f"{place or 'no single operation does'}. It is exported all the same without the "
        "comparison (compare=False, --set compare=false)"
    )


def _noisy(joint: Joint, generator: torch.Generator) -> list[Tensor]:
    """The example with noise on trained tensors, and with a random gradient of the output."""
    noisy = []
    for tensor, is_trained in zip(joint.example, joint.is_trained, strict=True):
        if is_trained and tensor.is_floating_point():
            size = _NOISE * torch.randn(tensor.shape, generator=generator)
            tensor = (tensor * (1 + size) + size).to(tensor.dtype)
        noisy.append(tensor)
    if ("output_gradient", "") in joint.roles.values():
        noisy[-1] = torch.randn(noisy[-1].shape, generator=generator).to(noisy[-1].dtype)
    return noisy


def _compute(joint: Joint, given: Sequence[Tensor]) -> Values:
    made = joint.eager(*given)
    return {
        role: each.detach()
        for role, each in zip(joint.results, made, strict=True)
        if each is not None
    }


def _by_role(joint: Joint, given: Sequence[Tensor]) -> Values:
    roles = joint.roles
    values = {
        roles[place]: each
        for place, each in zip(joint.places, given, strict=True)
        if place in roles
    }
    return values | {("param", name): each for name, each in joint.constants.items()}


def _epsilon(joint: Joint) -> float:
    """The largest distance between numbers of the types in the graph."""
    dtypes = {
        node.meta["val"].dtype
        for node in joint.module.graph.nodes
        if isinstance(node.meta.get("val"), Tensor)
    }
    return max(torch.finfo(each).eps for each in dtypes if each.is_floating_point)


def _limits(joint: Joint, given: Sequence[Tensor], wanted: Values) -> dict[Role, float]:
    """Returns the error that rounding explains for each result, relative to its norm."""
    generator = torch.Generator().manual_seed(0)
    epsilon = _epsilon(joint)
    moved = []
    for each in given:
        if each.is_floating_point():
            bits = torch.randint(0, 2, each.shape, generator=generator) * 2 - 1
            each = (each * (1 + epsilon * bits)).to(each.dtype)
        moved.append(each)
    near = _compute(joint, moved)
    norms = [_norm(each) for (role, _), each in wanted.items() if role != "output"]
    largest = max(norms, default=0)
    limits = {}
    for role, each in wanted.items():
        norm = _norm(each)
        small = _ZERO * largest / norm if norm and role[0] != "output" else 1
        limits[role] = _BITS * epsilon * max(1, small) + _FACTOR * _error(near[role], each)
    return limits


def _norm(tensor: Tensor) -> float:
    return float(tensor.double().nan_to_num(0, 0, 0).norm())


def _error(found: Tensor, wanted: Tensor) -> float:
    """The error relative to the norm; infinite if non-finite elements differ."""
    found, wanted = found.double(), wanted.double()
    other = ~wanted.isfinite() | ~found.isfinite()
    if not torch.equal(found[other].nan_to_num(), wanted[other].nan_to_num()):
        return float("inf")
    norm = float(wanted[~other].norm())
    error = float((found - wanted)[~other].norm())
    return error / norm if norm else error


def _run(
    made: Sequence[tuple[Part, Function]], values: Values, worker: Worker
) -> Iterator[tuple[Role, Tensor]]:
    """All results. Later functions take the residuals. Raises Failure."""
    found = []
    for part, function in made:
        given = [_array(role, values[role]) for role in part.arguments]
        arrays = worker.run(plain_text(function), given)
        for role, array, port in zip(part.results, arrays, function.results, strict=True):
            result = torch.from_numpy(array).view(_TYPES[_element(port.type)])
            found.append((role, result))
            if role[0] in ("output", "residual"):
                values[role] = result
    return iter(found)


def _element(kind: str) -> str:
    """`f32` of `tensor<2x3xf32>`."""
    return kind.removeprefix("tensor<").removesuffix(">").split("x")[-1]


def _array(role: Role, value: Tensor) -> Any:
    """The value as an argument of a worker's function."""
    if role[0] in NUMBERS:
        return int(value)
    value = value.detach().contiguous()
    return value.view(_INTEGERS[value.element_size()]).numpy()


def plain_text(function: Function) -> str:
    """The function without roles, called `main`."""
    given = ", ".join(f"%arg{place}: {port.type}" for place, port in enumerate(function.arguments))
    made = ", ".join(port.type for port in function.results)
    return f"func.func @main({given}) -> ({made}) {{\n{function.body}\n}}\n"


def _culprit(joint: Joint, lowering: Lowering, given: Sequence[Tensor], worker: Worker) -> str:
    """Returns the first operation whose result differs from PyTorch's for correct inputs."""
    values = _by_role(joint, given)
    graph = joint.module.graph
    interpreter = fx.Interpreter(joint.module, garbage_collect_values=False)
    interpreter.run(*(values[joint.roles[each]] for each in graph.find_nodes(op="placeholder")))
    known: Mapping[fx.Node, Any] = interpreter.env
    for node in graph.nodes:
        single, _ = single_operation(node)
        if single is None or not isinstance(known[node], Tensor):
            continue
        arguments = [_array(("", ""), known[each]) for each in node.all_input_nodes]
        try:
            (array,) = worker.run(lowering.text(single), arguments)
        except Failure:
            continue
        result = torch.from_numpy(array).view(known[node].dtype)
        error = _error(result, known[node])
        if error > _CULPRIT * _epsilon(joint):
            return f"{lowering.place(node)} alone is {error:.1e} off"
    return ""

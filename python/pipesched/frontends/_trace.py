"""From a stage to one graph of its forward and its backward.

parameters, constants, input, gradient of the output -> output, gradients
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from . import FrontendError
from ._decompositions import decompositions
from ._dropout import KIND, MODULE, Draws, Masks, describe, drawing, module_name
from .partition import Graph, Piece, Role, loss_piece, stage_pieces


def module_of(node: fx.Node) -> str:
    """The module whose forward has made a node, with its type, empty if that is not known."""
    return describe(node.meta.get("custom", {}))


def op_name(node: fx.Node) -> str:
    """`mm` of `aten.mm.default`."""
    return str(getattr(node.target, "_opname", getattr(node.target, "__name__", node.target)))


@dataclass
class Joint:
    """The graph of a stage. Each placeholder has one role."""

    module: fx.GraphModule
    roles: dict[fx.Node, tuple[str, str]]
    """By placeholder the role and the name of parameters."""
    output: fx.Node
    input_gradient: fx.Node | None
    gradients: dict[str, fx.Node]
    """By the name of the parameter, if it has a gradient."""
    constants: dict[str, Tensor] = field(default_factory=dict)
    """Tensors that the code of the model makes, by the names of their placeholders."""
    dropouts: int = 0
    eager: Callable[..., Sequence[Tensor | None]] = lambda *_: ()
    """The traced function. Its inputs are `places`, its outputs `results`."""
    example: Sequence[Tensor] = ()
    is_trained: Sequence[bool] = ()
    """For each tensor of the example, whether it is a parameter with a gradient."""
    places: Sequence[fx.Node] = ()
    results: Sequence[tuple[str, str]] = ()


# Values between stages


@dataclass(frozen=True)
class Packing:
    """Packs a value that passes between stages into one tensor. All else in it is constant."""

    spec: Any
    leaves: tuple[Any, ...]
    """A tensor's shape and dtype in place of each tensor of the value."""
    dtype: torch.dtype

    @property
    def _tensors(self) -> list[torch.Size]:
        return [leaf[0] for leaf in self.leaves if isinstance(leaf, tuple)]

    @staticmethod
    def of(value: Any, what: str) -> Packing:
        """`what` is between which stages the value passes, for errors."""
        leaves, spec = pytree.tree_flatten(value)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        dtypes = {each.dtype for each in tensors if each.dtype != torch.bool}
        if not tensors:
            raise FrontendError(f"{what} passes no tensor; wanted at least one")
        if len(dtypes) > 1 or (not dtypes and len(tensors) > 1):
            found = ", ".join(map(_describe, tensors))
            raise FrontendError(
                f"{what} pass tensors of several types ({found}); one message carries numbers of "
                "one type, so compute the others again in the later stage, or cut elsewhere"
            )
        described = tuple(
            (each.shape, each.dtype) if isinstance(each, Tensor) else each for each in leaves
        )
        return Packing(spec, described, dtypes.pop() if dtypes else torch.bool)

    def pack(self, value: Any) -> Tensor:
        """One tensor."""
        leaves, spec = pytree.tree_flatten(value)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        assert spec == self.spec
        if len(tensors) == 1:
            return tensors[0] if self.dtype != torch.bool else tensors[0].to(torch.int8)
        return torch.cat([each.to(self.dtype).reshape(-1) for each in tensors])

    def unpack(self, packed: Tensor) -> Any:
        """The value of a packed tensor."""
        shapes = self._tensors
        parts = [packed]
        if len(shapes) > 1:
            parts = list(torch.split(packed, [shape.numel() for shape in shapes]))
        rest = iter(parts)
        leaves = [
            next(rest).reshape(leaf[0]).to(leaf[1]) if isinstance(leaf, tuple) else leaf
            for leaf in self.leaves
        ]
        return pytree.tree_unflatten(leaves, self.spec)


# Tracing


def run_stage(stage: nn.Module, value: Any, what: str) -> Any:
    """The value of a stage. Raises FrontendError with the module that fails and its types."""
    with torch.no_grad(), _naming(stage):
        try:
            return stage(value)
        except FrontendError:
            raise
        except Exception as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            leaves = pytree.tree_leaves(value)
            given = ", ".join(_describe(each) for each in leaves if isinstance(each, Tensor))
            held = sorted({str(each.dtype) for each in stage.parameters()})
            raise FrontendError(
                f"{what}: {module_name() or 'its forward'} raised {type(error).__name__}: "
                f"{said[0]}; the input of the stage is {given}, and its parameters are "
                f"{', '.join(held) or 'none'}".replace("torch.", "")
            ) from error


def _describe(tensor: Tensor) -> str:
    """`float32 of shape [2, 3]`."""
    return f"{tensor.dtype} of shape {list(tensor.shape)}".removeprefix("torch.")


@contextlib.contextmanager
def _naming(module: nn.Module) -> Iterator[None]:
    """Marks each node with the module that it comes from."""
    stack: list[dict[str, str]] = []
    hooks = []
    whole_name = getattr(module, "whole_name", str)

    def note() -> None:  # Tracing copies only this entry.
        fx_traceback.current_meta["custom"] = stack[-1] if stack else {}

    def enter(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, *_: Any) -> None:
            stack.append({MODULE: name, KIND: type(module).__name__})
            note()

        return hook

    def leave(*_: Any) -> None:
        stack.pop()
        note()

    for name, each in module.named_modules():
        hooks.append(each.register_forward_pre_hook(enter(whole_name(name))))
        hooks.append(each.register_forward_hook(leave))
    try:
        with fx_traceback.preserve_node_meta():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _graph_of(
    function: Callable[..., list[Tensor]], example: Sequence[Tensor], what: str
) -> fx.GraphModule:
    """Returns the graph of core operations that a function runs, without in-place writes."""
    table = decompositions()
    try:
        with sdpa_kernel(SDPBackend.MATH):
            made = make_fx(function, decomposition_table=table, tracing_mode="fake")(*example)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        raise FrontendError(
            f"{what} cannot be traced: {type(error).__name__}: {str(error).strip()[:500]}"
        ) from error
    if any(_writes(node) for node in made.graph.nodes):
        plain = made
        replay = torch.func.functionalize(lambda *given: fx.Interpreter(plain).run(*given))
        with fx_traceback.preserve_node_meta():
            made = make_fx(replay, decomposition_table=table, tracing_mode="fake")(*example)
    _simplify(made.graph)
    made.recompile()
    return made


def _writes(node: fx.Node) -> bool:
    return node.op == "call_function" and bool(
        getattr(getattr(node.target, "_schema", None), "is_mutable", False)
    )


_SAME = ("alias", "detach", "clone", "lift_fresh_copy")
"""Operations that return their operand unchanged in a graph without writes."""


def _simplify(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if node.op == "call_function" and op_name(node) in _SAME and not _writes(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _outputs(graph: fx.Graph) -> list[fx.Node]:
    (output,) = graph.find_nodes(op="output")
    return list(output.args[0])


def _take_constants(module: fx.GraphModule) -> dict[fx.Node, Tensor]:
    """Turns tensors that the traced code creates into placeholders."""
    graph = module.graph
    made: dict[fx.Node, Tensor] = {}
    last = list(graph.find_nodes(op="placeholder"))[-1]
    mode = last.meta["val"].fake_mode
    for node in list(graph.find_nodes(op="get_attr")):
        tensor = getattr(module, str(node.target))
        with graph.inserting_after(last):
            place = graph.placeholder(f"constant{len(made)}")
        place.meta["val"] = mode.from_tensor(tensor)
        node.replace_all_uses_with(place)
        graph.erase_node(node)
        made[place], last = tensor, place
    return made


def trace_stage(
    stage: nn.Module,
    trained: dict[str, Tensor],
    fixed: dict[str, Tensor],
    value: Tensor,
    before: Packing,
    after: Packing,
    number: int,
    key: tuple[str, Tensor],
) -> Joint:
    """The graph of stage `number`; masks of dropout follow from `key`, a name and value."""
    names = [*trained, *fixed]
    wants, what = value.is_floating_point() and number > 0, f"stage {number}"
    masks: list[Masks] = []

    def forward(tensors: Sequence[Tensor], packed: Tensor) -> Tensor:
        called = dict(zip(names, tensors, strict=True))
        found = torch.func.functional_call(stage, called, (before.unpack(packed),))
        return after.pack(found)

    def joint(*given: Tensor) -> list[Tensor]:
        *tensors, seeds, microbatch, step, packed, gradient = given
        own = [
            each.detach().requires_grad_(number < len(trained))
            for number, each in enumerate(tensors)
        ]
        packed = packed.detach().requires_grad_(wants)
        masks.append(Masks(seeds, microbatch, step))
        # Other stages are traced unchanged: drawing changes how PyTorch divides operations.
        with drawing(masks[-1]) if draws.found else contextlib.nullcontext():
            output = forward(own, packed)
        wanted = [*own[: len(trained)], *([packed] if wants else [])]
        found: Sequence[Tensor | None] = [None] * len(wanted)
        if wanted and output.requires_grad:
            found = torch.autograd.grad([output], wanted, [gradient], allow_unused=True)
        made: list[Any] = [output, *found]
        if wants and made[-1] is None:
            made[-1] = torch.zeros_like(packed)
        return made

    example = [*(each.detach() for each in trained.values()), *fixed.values(), value]
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), Draws() as draws:
        output = forward(example[:-1], value)
    counts = [key[1], torch.tensor(0), torch.tensor(0)]
    example[-1:-1] = counts
    with _naming(stage):
        module = _graph_of(joint, [*example, torch.ones_like(output)], what)
    whole_name = getattr(stage, "whole_name", str)
    _refuse_writes(module.graph, [whole_name(name) for name in names], what)
    made = _joint(module, list(trained), [*fixed, key[0]], wants, masks[0].count)
    made.eager, made.example = joint, [*example, torch.ones_like(output)]
    made.is_trained = [each < len(trained) for each in range(len(made.example))]
    return made


def _refuse_writes(graph: fx.Graph, names: Sequence[str], what: str) -> None:
    """Refuses a forward that changes its parameters or buffers, which have these names."""
    for node in graph.nodes:
        if _writes(node) and isinstance(node.args[0], fx.Node):
            number = list(graph.find_nodes(op="placeholder")).index(node.args[0])
            raise FrontendError(
                f"{what}: the forward changes {names[number]!r} in place "
                f"({node.target}); functions of stages change no buffers"
            )


def _joint(
    module: fx.GraphModule, trained: list[str], fixed: list[str], wants: bool, dropouts: int
) -> Joint:
    places = list(module.graph.find_nodes(op="placeholder"))
    constants = _take_constants(module)
    roles = {
        place: ("param", name) for place, name in zip(places, [*trained, *fixed], strict=False)
    }
    roles[places[-4]], roles[places[-3]] = ("microbatch", ""), ("step", "")
    roles[places[-2]], roles[places[-1]] = ("input", ""), ("output_gradient", "")
    if not dropouts:
        for place in places[-5:-2]:  # Stages without dropout do not know of it.
            del roles[place]
            module.graph.erase_node(place)
        module.recompile()
    roles |= {place: ("param", place.name) for place in constants}
    output, *found = _outputs(module.graph)
    input_gradient = found.pop() if wants else None
    gradients = {name: node for name, node in zip(trained, found, strict=True) if node is not None}
    given = {place.name: tensor for place, tensor in constants.items()}
    made = Joint(module, roles, output, input_gradient, gradients, given, dropouts)
    made.places = places
    made.results = [("output", ""), *(("gradient", name) for name in trained)]
    made.results += [("input_gradient", "")] if wants else []
    return made


def trace_loss(
    loss: Callable[[Any, Any], Tensor],
    output: Tensor,
    packing: Packing,
    target: Tensor,
    targets: Packing,
    microbatches: int,
) -> Joint:
    """The graph of the loss of a microbatch, as its part of the mean over a step."""

    def joint(packed: Tensor, given: Tensor) -> list[Tensor]:
        packed = packed.detach().requires_grad_()
        found = loss(packing.unpack(packed), targets.unpack(given)) / microbatches
        (gradient,) = torch.autograd.grad([found], [packed])
        return [found, gradient]

    module = _graph_of(joint, [output, target], "the loss")
    first, second = module.graph.find_nodes(op="placeholder")
    value, gradient = _outputs(module.graph)
    if found := module.graph.find_nodes(op="get_attr"):
        raise FrontendError(
            f"the loss makes a tensor of its own ({found[0].target}), or has parameters; give it "
            "what it needs with the targets"
        )
    made = Joint(module, {first: ("output", ""), second: ("target", "")}, value, gradient, {})
    made.eager, made.example, made.is_trained = joint, [output, target], [True, False]
    made.places, made.results = [first, second], [("loss", ""), ("output_gradient", "")]
    return made


def rename(joint: Joint, names: Mapping[str, str]) -> None:
    joint.roles = {
        place: (role, names.get(name, name)) for place, (role, name) in joint.roles.items()
    }
    joint.gradients = {names[name]: node for name, node in joint.gradients.items()}
    joint.results = [(role, names.get(name, name)) for role, name in joint.results]


def key_of(joint: Joint) -> tuple[Any, ...]:
    """The key of equal graphs with equal roles."""
    places = tuple(
        (role, name, tuple(place.meta["val"].shape), place.meta["val"].dtype)
        for place, (role, name) in joint.roles.items()
    )
    return (joint.module.code, places, tuple(joint.gradients))


# The functions of a stage

aten = torch.ops.aten

_VIEWS = frozenset(
    "view reshape _unsafe_view permute transpose t expand unsqueeze squeeze slice select "
    "split split_with_sizes full full_like arange scalar_tensor zeros ones zeros_like "
    "ones_like dropout_mask".split()
)

_NUMBERS = torch.SymInt, torch.SymFloat, torch.SymBool


@dataclass
class Part:
    """One function as a separate graph, with a role for each argument and result."""

    kind: str
    graph: fx.Graph
    arguments: list[Role]
    results: list[Role]


def _is_cheap(node: fx.Node) -> bool:
    """Returns whether the node is computed again for each reader, such as a mask of dropout, which
    needs no tensor.
    """
    if node.op != "call_function":
        return False
    if isinstance(node.meta.get("val"), _NUMBERS):
        return True
    if node.target is operator.getitem:
        return _is_cheap(node.all_input_nodes[0])
    return op_name(node) in _VIEWS


def _values_of(joint: Joint) -> Graph[fx.Node]:
    nodes = [node for node in joint.module.graph.nodes if node.op != "output"]
    return Graph(
        order=nodes,
        inputs=lambda node: node.all_input_nodes,
        roles=joint.roles,
        output=joint.output,
        input_gradient=joint.input_gradient,
        gradients=joint.gradients,
        name=lambda node: node.name,
        is_cheap=_is_cheap,
        whole={n: n.all_input_nodes[0] for n in nodes if n.target is operator.getitem},
    )


def stage_parts(joint: Joint) -> list[Part]:
    return [_part(piece) for piece in stage_pieces(_values_of(joint)).values()]


def loss_part(joint: Joint) -> Part:
    return _part(loss_piece(_values_of(joint)))


def _part(piece: Piece[fx.Node]) -> Part:
    graph = fx.Graph()
    copied = {node: _argument(graph, node) for _, node in piece.taken}
    for node in piece.computed:
        copied[node] = graph.node_copy(node, copied.__getitem__)
    graph.output(tuple(_result(graph, copied[n], n, role) for role, n in piece.results))
    return Part(
        piece.kind, graph, [role for role, _ in piece.taken], [role for role, _ in piece.results]
    )


def _convert(graph: fx.Graph, node: fx.Node, like: Any, dtype: torch.dtype) -> fx.Node:
    made = graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
    made.meta["val"] = like.to(dtype)
    return made


def _argument(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """Returns the argument for a node. Booleans are kept as bytes."""
    value = node.meta["val"]
    place = graph.placeholder(node.name)
    if value.dtype != torch.bool:
        place.meta["val"] = value
        return place
    place.meta["val"] = value.to(torch.int8)
    return _convert(graph, place, place.meta["val"], torch.bool)


def _result(graph: fx.Graph, node: fx.Node, source: fx.Node, role: Role) -> fx.Node:
    value = source.meta["val"]
    if role[0] == "residual" and not all(isinstance(size, int) for size in value.shape):
        raise FrontendError(
            f"{module_of(source) or 'the code of a stage'} makes a tensor whose size follows from "
            f"values ({op_name(source)}), which a backward cannot keep"
        )
    if role[0] != "residual" or value.dtype != torch.bool:
        return node
    return _convert(graph, node, value, torch.int8)

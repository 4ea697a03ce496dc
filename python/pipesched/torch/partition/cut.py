"""Cutting any module into the stages of a schedule at the names of modules in it.

Only the code between the cuts is traced: the forwards of the modules that contain a module at which
is cut. All others run untraced, so that their modes, hooks, random numbers and control flow are the
model's. Values that the code has computed before a cut and needs after it pass between the stages,
also over several of them:

    def forward(self, x):               stage 0: x -> (skip, h)
        skip = self.embed(x)            stage 1: (skip, h) -> (skip, h)
        h = self.blocks[0](skip)        stage 2: (skip, h) -> output
        h = self.blocks[1](h)           cut at "blocks.1" and "head"
        return self.head(h + skip)
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed as dist
from torch import fx, nn
from torch.distributed.pipelining import SplitPoint

from pipesched import Schedule

from ..core.errors import PipelineError
from ..core.values import in_mode
from .split import HOOKS, SequentialStage, SequentialStages, measure_children, sizes_of

Cuts = Sequence[str] | Mapping[str, SplitPoint]
"""The names of modules before which is cut, or the side of each, as in PyTorch's `pipeline`."""


class CutStage(SequentialStage):
    """The stages of a cut module: one child per block, which takes the last output as arguments."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        first, *rest = self
        if len(args) == 1 and isinstance(args[0], tuple) and not kwargs:
            args = args[0]
        value = first(*args, **kwargs)
        for part in rest:
            value = part(*value)
        return value


class CutStages(SequentialStages):
    kind = CutStage


class _Tracer(fx.Tracer):
    """Traces through the modules that contain a cut. Buffers are values of any size."""

    proxy_buffer_attributes = True

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._through = {""}
        for name in names:
            parts = name.split(".")
            self._through |= {".".join(parts[:end]) for end in range(1, len(parts))}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self._through


def _check_names(module: nn.Module, names: Sequence[str]) -> None:
    known = dict(module.named_modules())
    for name in names:
        if name not in known:
            raise PipelineError(f"`at` names {name!r}, which is no module of the model")
        parts = name.split(".")
        for end in range(len(parts)):
            outer = ".".join(parts[:end])
            untyped: Any = known[outer]
            if any(getattr(untyped, hooks, None) for hooks in HOOKS):
                raise PipelineError(
                    f"{outer or 'the model'} has hooks and is cut at {name!r}, so that they would "
                    "not run; put them on modules that are not cut"
                )


def _find_held(module: nn.Module, inputs: Sequence[str] | None) -> dict[str, Any]:
    """Returns the arguments that keep their defaults, which are traced as constants."""
    parameters = inspect.signature(module.forward).parameters
    if inputs is not None:
        for name in inputs:
            if name not in parameters:
                raise PipelineError(
                    f"`inputs` names {name!r}; the forward has {', '.join(parameters)}"
                )
    return {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty and name not in (inputs or ())
    }


def _drop_held(graph: fx.Graph, module: nn.Module, held: Mapping[str, Any]) -> None:
    """Removes the arguments that keep their defaults, about which fx has put assertions."""
    parameters = inspect.signature(module.forward).parameters
    places = list(graph.find_nodes(op="placeholder"))
    for (name, parameter), node in zip(parameters.items(), places, strict=True):
        is_many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_many and node.users:
            raise PipelineError(
                f"the forward of the model passes {parameter} on, so that what it gets is not "
                "known; cut a module that names its arguments"
            )
        if is_many or name in held:
            for user in [*node.users]:
                for assertion in [*user.users]:
                    graph.erase_node(assertion)
                graph.erase_node(user)
            graph.erase_node(node)


def _trace(module: nn.Module, names: Sequence[str], inputs: Sequence[str] | None) -> fx.Graph:
    """Returns the graph of the code between the cuts, which must be the same in both modes."""
    held = _find_held(module, inputs)
    before = [(each, dict(vars(each))) for each in module.modules()]
    graphs = []
    try:
        for is_training in (False, True):
            with in_mode(module.modules(), is_training):
                graph = _Tracer(names).trace(module, held)
            _drop_held(graph, module, held)
            graphs.append(graph)
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(
            f"the code of the model between the cuts cannot be traced: {type(error).__name__}: "
            f"{error}; move what depends on values into a module that is not cut"
        ) from error
    for each, state in before:
        changed = [name for name, value in vars(each).items() if state.get(name) is not value]
        for name in changed:
            vars(each).pop(name)
            vars(each).update({name: state[name]} if name in state else {})
        if changed:
            what = "makes a tensor" if changed[0].startswith("_tensor_constant") else "sets"
            raise PipelineError(
                f"the code of the model between the cuts {what} {changed[0]!r}, which would "
                "happen once, when it is traced, and not in each step; move that into a module "
                "that is not cut"
            )
    first, second = (graph.python_code("self").src for graph in graphs)
    if first != second:
        raise PipelineError(
            "the code of the model between the cuts does something else in training than in "
            "evaluation, for example by self.training; move that into a module that is not cut"
        )
    return graphs[1]


def part_of_nodes(graph: fx.Graph, cuts: Mapping[str, SplitPoint]) -> dict[fx.Node, int]:
    """The part that runs each node."""
    left, number, part = dict(cuts), 0, {}
    for node in graph.nodes:
        name = str(node.target) if node.op == "call_module" else ""
        where = left.pop(name, None)
        if where == SplitPoint.BEGINNING:
            number += 1
        part[node] = number
        if where == SplitPoint.END:
            number += 1
    if left:
        raise PipelineError(
            f"the forward does not call {next(iter(left))!r} by itself, so that nothing can be cut "
            "there"
        )
    for node in reversed(graph.nodes):
        if node.op == "get_attr":  # where it is first used, since it is not a value that passes on
            part[node] = min((part[user] for user in node.users), default=part[node])
    return part


def parts_of(module: nn.Module, graph: fx.Graph, part: Mapping[fx.Node, int]) -> list[nn.Module]:
    count = max(part.values()) + 1
    made: list[nn.Module] = []
    live: list[fx.Node] = []
    for number in range(count):
        own = fx.Graph()
        known: dict[fx.Node, fx.Node] = {}
        for node in live:
            known[node] = own.placeholder(node.name)

        def find(node: fx.Node, own: fx.Graph = own, known: Any = known) -> fx.Node:
            if node not in known:  # a parameter of the code itself, which each part has
                known[node] = own.get_attr(str(node.target))
            found: fx.Node = known[node]
            return found

        for node in graph.nodes:
            if part[node] == number and node.op not in ("output", "get_attr"):
                known[node] = own.node_copy(node, find)
        if number == count - 1:
            (output,) = graph.find_nodes(op="output")
            own.output(fx.map_arg(output.args[0], find))
        else:
            live = [
                node
                for node in graph.nodes
                if node.op not in ("output", "get_attr")
                and part[node] <= number
                and any(part[user] > number or user.op == "output" for user in node.users)
            ]
            own.output(tuple(find(node) for node in live))
        made.append(fx.GraphModule(module, own, f"{type(module).__name__}Part"))
    return made


class Taking(nn.Module):
    """A part as the child of an `nn.Sequential`: it takes the entries of a tuple as arguments."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, value: Any) -> Any:
        return self.part(*value) if isinstance(value, tuple) else self.part(value)


def _places(at: Cuts) -> dict[str, SplitPoint]:
    return dict(at) if isinstance(at, Mapping) else dict.fromkeys(at, SplitPoint.BEGINNING)


def _order_cuts(
    module: nn.Module, cuts: Mapping[str, SplitPoint], inputs: Sequence[str] | None
) -> tuple[dict[str, SplitPoint], list[nn.Module]]:
    """Returns the cuts in the order of the forward, and the parts between them."""
    _check_names(module, list(cuts))
    graph = _trace(module, list(cuts), inputs)
    parts = parts_of(module, graph, part_of_nodes(graph, cuts))
    called = [str(node.target) for node in graph.nodes if node.op == "call_module"]
    return {name: cuts[name] for name in called if name in cuts}, parts


def measure_parts(
    module: nn.Module,
    example: Any,
    *,
    at: Cuts,
    inputs: Sequence[str] | None = None,
    repeats: int = 5,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Returns the seconds that each part between the cuts takes for a forward and a backward, for
    `split_model`: see there for `at` and `inputs`, and `measure_children` for the rest.
    """
    _, parts = _order_cuts(module, _places(at), inputs)
    return measure_children(
        nn.Sequential(*map(Taking, parts)), example, repeats=repeats, group=group
    )


def split_model(
    module: nn.Module,
    schedule: Schedule,
    *,
    at: Cuts,
    inputs: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    times: Sequence[float] | None = None,
) -> SequentialStages:
    """Returns the stages of a schedule, as a function of (path, stage), from any module.

    at: the cuts of the module into the `schedule.blocks` blocks: before the modules of these names,
    in the order in which they run ("blocks.3"), or a mapping from names to
    `torch.distributed.pipelining.SplitPoint`. inputs: the arguments of the forward that a batch
    gives; by default the arguments without a default. sizes: the number of parts that `at` makes in
    each block; `at` may then name more places. times: the same by the times of these parts
    (`measure_parts`), as in `split_sequential`.

    Parts share the modules of the model under the same names; parameters that several parts use are
    tied. The code of the forward between the cuts is traced with `torch.fx`.
    """
    cuts = _places(at)
    if sizes is not None or times is not None:
        chosen = sizes_of(len(cuts) + 1, schedule.blocks, sizes, times, ("part", "parts"))
        if 0 in chosen:
            raise PipelineError(f"sizes {list(chosen)}: a block of a cut module is not empty")
        known, _ = _order_cuts(module, cuts, inputs)
        ends = list(itertools.accumulate(chosen))[:-1]
        names = list(known)
        cuts = {names[end - 1]: known[names[end - 1]] for end in ends}
    if len(cuts) + 1 != schedule.blocks:
        raise PipelineError(
            f"`at` has {len(cuts)} names, which make {len(cuts) + 1} blocks; the placement has "
            f"{schedule.blocks}; `sizes` or `times` choose among more names"
        )
    _, parts = _order_cuts(module, cuts, inputs)
    return CutStages(parts, schedule, [1] * len(parts))

"""Stages from what PyTorch's own `torch.distributed.pipelining.pipeline` has cut.

A `Pipe` is a graph that calls its stages. Values that skip stages go from stage to stage here, as
from any module that is cut (`cut.py`). A parameter that several stages use is one in the model; a
`Pipe` has a copy of it for each, and here they become one again, so that the runtime ties them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import fx, nn
from torch.distributed.pipelining import Pipe, SplitPoint

from pipesched import Schedule

from ..core.errors import PipelineError
from .cut import CutStage, CutStages, Taking, part_of_nodes, parts_of
from .measure import measure_children
from .split import SequentialStages, sizes_of


class PipeStage(CutStage):
    """A stage of a `Pipe`: one child per block, which holds stages of the `Pipe` by their names."""

    def whole_name(self, name: str) -> str:
        """Returns the name of a parameter or buffer in the model that was cut."""
        return name.split(".", 2)[2]


class PipeStages(CutStages):
    """The stages of a `Pipe`, as a function of (path, stage)."""

    kind = PipeStage


def _holder(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    outer, _, own = name.rpartition(".")
    return module.get_submodule(outer), own


def _drop_unused(module: nn.Module) -> None:
    """Drops the names of parameters that no graph in a stage uses, which tracing leaves behind."""
    used = set()
    for outer, inner in module.named_modules():
        graph: Any = getattr(inner, "graph", None)
        if type(inner) is nn.Module:
            continue  # Only a place for names, which computes nothing.
        if graph is None:
            own = inner.named_parameters(outer, recurse=False, remove_duplicate=False)
            used |= {name for name, _ in own}
            continue
        for node in [*graph.nodes]:
            if node.op == "get_attr" and node.users:
                used.add(f"{outer}.{node.target}" if outer else str(node.target))
            elif node.op == "get_attr":
                graph.erase_node(node)
        if isinstance(inner, fx.GraphModule):
            inner.recompile()
    for name, _ in [*module.named_parameters(remove_duplicate=False)]:
        if name not in used:
            holder, own_name = _holder(module, name)
            delattr(holder, own_name)


def _check_alone(stage: nn.Module, name: str, grouped: set[str]) -> None:
    """Refuses a stage in which a parameter that others share has a second name: a `Pipe` copies
    only what the first name holds.
    """
    held = dict(stage.named_parameters(remove_duplicate=False))
    one = held[name]
    if bool((one == one.flatten()[0]).all()):
        return  # As norms begin, so that equal values say nothing.
    for other, parameter in held.items():
        if other not in grouped and parameter.shape == one.shape and torch.equal(parameter, one):
            raise PipelineError(
                f"a stage of the Pipe holds {name!r} and {other!r}, which seem to be one parameter "
                "that other stages use too, as two; cut the model with `split_model` instead"
            )


def _tie(pipe: Pipe) -> None:
    """Makes one again what is one parameter in the model."""
    shared: Sequence[Mapping[str, str]] = pipe.replicated_params
    for stage in pipe.split_gm.children():
        _drop_unused(stage)
    for group in shared:
        one: nn.Parameter | None = None
        for stage_name, name in group.items():
            stage = pipe.split_gm.get_submodule(stage_name)
            if name not in dict(stage.named_parameters(remove_duplicate=False)):
                continue
            _check_alone(stage, name, {each[stage_name] for each in shared if stage_name in each})
            holder, own = _holder(stage, name)
            if one is None:
                one = getattr(holder, own)
            setattr(holder, own, one)


def _parts(pipe: Pipe, sizes: Sequence[int]) -> list[nn.Module]:
    graph = pipe.split_gm.graph
    if pipe.has_loss_and_backward:
        raise PipelineError("the Pipe has backwards in its graph; wanted one without a loss")
    names = [str(node.target) for node in graph.nodes if node.op == "call_module"]
    begins, place = [], 0
    for size in sizes[:-1]:
        place += size
        begins.append(names[place])
    _tie(pipe)
    cuts = dict.fromkeys(begins, SplitPoint.BEGINNING)
    parts: list[Any] = parts_of(pipe.split_gm, graph, part_of_nodes(graph, cuts))
    (output,) = parts[-1].graph.find_nodes(op="output")
    if isinstance(output.args[0], (tuple, list)) and len(output.args[0]) == 1:
        output.args = (output.args[0][0],)  # Tracing makes a tuple of a single tensor.
        parts[-1].recompile()
    return parts


def measure_pipe(
    pipe: Pipe, example: Any, *, repeats: int = 5, group: dist.ProcessGroup | None = None
) -> list[float]:
    """Returns the seconds that each stage of a `Pipe` takes for a forward and a backward, for
    `split_pipe`: see `measure_children` for `repeats` and `group`.
    """
    parts = map(Taking, _parts(pipe, [1] * pipe.num_stages))
    return measure_children(nn.Sequential(*parts), example, repeats=repeats, group=group)


def split_pipe(
    pipe: Pipe,
    schedule: Schedule,
    *,
    sizes: Sequence[int] | None = None,
    times: Sequence[float] | None = None,
) -> SequentialStages:
    """Returns the stages of a schedule, as a function of (path, stage), from a `Pipe` that
    PyTorch's `pipeline(model, example, split_spec={"layers.4": SplitPoint.BEGINNING})` has made.

    sizes: how many stages of the `Pipe` each of the `schedule.blocks` blocks has.
    times: the same by their times (`measure_pipe`). By default as equal numbers as possible.

    The stages share the parameters of the `Pipe`, under the names of the model. Where several of
    its stages have copies of one parameter, all get the first one, and the runtime ties them. They
    compute what was traced, in training and in evaluation alike.
    """
    chosen = sizes_of(pipe.num_stages, schedule.blocks, sizes, times, ("stage", "stages"))
    if 0 in chosen:
        raise PipelineError(f"sizes {list(chosen)}: a block of a Pipe is not empty")
    return PipeStages(_parts(pipe, chosen), schedule, [1] * len(chosen))

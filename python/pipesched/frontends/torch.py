"""Modules of PyTorch as functions of stages.

from pipesched.frontends.torch import export

exported = export(model, schedule, (inputs, targets), loss=loss, optimizer=optimizer)
exported.save("model.mlir")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipesched import Schedule
from pipesched.errors import needing

from . import EXTRA, FrontendError

with needing(__name__, "PyTorch", EXTRA):
    import torch
    from torch import Tensor, nn
    from torch.utils import _pytree as pytree

from pipesched.torch import SequentialStages, split_sequential

from ._dropout import check_seed, dropout_mask, dropout_masks
from ._file import (
    Array,
    ExportedModel,
    Function,
    Functions,
    Rule,
    Stepped,
    array_file,
    sample_function,
    update_function,
    write_module,
)
from ._lower import Lowering, torch_mlir
from ._lower import compare as compare_functions
from ._process import Worker
from ._trace import (
    Joint,
    Packing,
    Part,
    key_of,
    loss_part,
    rename,
    run_stage,
    stage_parts,
    trace_loss,
    trace_stage,
)
from .partition import count_stages

__all__ = ["FrontendError", "dropout_mask", "dropout_masks", "export"]

MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
Loss = Callable[[Any, Any], Tensor]

_ELEMENTS = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
}


def export(
    model: nn.Module,
    schedule: Schedule,
    example: tuple[Any, Any],
    *,
    loss: Loss,
    optimizer: MakeOptimizer | torch.optim.Optimizer | None = None,
    stages: SequentialStages | None = None,
    batches: Iterable[tuple[Any, Any]] = (),
    seed: int = 0,
    compare: bool = True,
) -> ExportedModel:
    """The model as functions of the stages of a schedule.

    example: inputs and targets of one microbatch, whose sizes are the functions's.
    loss: the loss of a microbatch, as for `PipelineRuntime`; that of a step is the mean.
    optimizer: SGD, Adam or AdamW, or a function from parameters to it. Without one, parameters stay
        as they are.
    stages: the result of `split_sequential` or `split_model` for the model. By default an
        `nn.Sequential` is divided by the numbers of its children.
    batches: the batches of the steps, which are cut along dimension 0 into the microbatches of the
        schedule, as in `PipelineRuntime.step`. After the last one the first one follows again. By
        default every microbatch is the example.
    seed: that of the masks of dropout, an integer of 64 bits (`dropout_mask`). It is in the
        arrays, not in the functions.
    compare: whether the functions of each stage run once, and their results are compared with
        PyTorch. They run without the optimizations of a compiler, in seconds for small models.

    Raises FrontendError for code that has no form as functions of stages, with the name of the
    module and of the operation.
    """
    torch_mlir()
    if stages is None:
        if not isinstance(model, nn.Sequential):
            raise FrontendError(
                f"the model is a {type(model).__name__}; wanted an nn.Sequential, or `stages` that "
                "split_model has made of it"
            )
        stages = split_sequential(model, schedule)
    with Worker() as worker:
        made = _Export(model, schedule, stages, loss, optimizer, seed, worker, compare)
        return made.run(example, batches)


@dataclass
class _Stage:
    number: int
    module: nn.Module
    names: dict[str, str]
    """The names of parameters and buffers in the file, by names in the module."""
    whole: dict[str, str]
    """Their names in the model, by names in the file."""
    tensors: dict[str, Tensor]
    """Parameters, buffers and constants by their names in the file."""
    ties: dict[str, str] = field(default_factory=dict)
    """The parameters that other stages have too, with one name for all of these."""
    trained: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    """The names of its functions, by kind."""

    @staticmethod
    def of(number: int, module: nn.Module) -> _Stage:
        """The stage of a module. A name in the model has no number of a block in front."""
        found = dict(module.named_parameters()) | dict(module.named_buffers())
        whole_name = getattr(module, "whole_name", lambda name: name)
        short = short_names(whole_name(name) for name in found)
        names = {name: short[whole_name(name)] for name in found}
        return _Stage(
            number,
            module,
            names,
            {names[name]: whole_name(name) for name in found},
            {names[name]: each for name, each in found.items()},
        )


class _Export:
    def __init__(
        self,
        model: nn.Module,
        schedule: Schedule,
        stages: SequentialStages,
        loss: Loss,
        optimizer: MakeOptimizer | torch.optim.Optimizer | None,
        seed: int,
        worker: Worker,
        compares: bool,
    ) -> None:
        self.model, self.schedule, self.loss = model, schedule, loss
        self.worker, self.compares = worker, compares
        self.seed, self.dropouts = check_seed(seed), 0
        count = count_stages(schedule)
        self.stages = [_Stage.of(number, stages(0, number)) for number in range(count)]
        self.rules = _rules(model, optimizer)
        self.functions = Functions(schedule.name)
        self.known: dict[Any, dict[str, str]] = {}
        self.arrays: dict[str, Array] = {}
        self.ends: dict[str, str] = {}
        _find_ties(self.stages)
        if isinstance(loss, nn.Module) and next(loss.parameters(), None) is not None:
            raise FrontendError("the loss has parameters; put them into the last stage")

    def run(self, example: tuple[Any, Any], batches: Iterable[tuple[Any, Any]]) -> ExportedModel:
        inputs, target = example
        first = packing = Packing.of(inputs, "the inputs of a batch")
        value = packing.pack(inputs)
        for stage in self.stages:
            value, packing = self._export_stage(stage, value, packing)
        targets = Packing.of(target, "the targets of a batch")
        self._export_loss(value, packing, targets.pack(target), targets)
        pairs = list(batches)
        self._export_samples("data", first, inputs, [pair[0] for pair in pairs])
        self._export_samples("target", targets, target, [pair[1] for pair in pairs])
        for stage in self.stages:
            for name, tensor in stage.tensors.items():
                self._keep(stage.number, name, tensor)
        return self._write()

    def _export_stage(
        self, stage: _Stage, value: Tensor, before: Packing
    ) -> tuple[Tensor, Packing]:
        """Adds the functions of a stage; returns its output."""
        number, last = stage.number, len(self.stages) - 1
        found = run_stage(stage.module, before.unpack(value), f"stage {number}")
        what = f"stages {number} and {number + 1}" if number < last else "the last stage"
        after = Packing.of(found, what)
        trained = {
            name: stage.tensors[short]
            for name, short in stage.names.items()
            if stage.tensors[short].requires_grad
        }
        fixed = {
            name: stage.tensors[short].detach()
            for name, short in stage.names.items()
            if name not in trained
        }
        key = (_free_name(stage, "dropout_key"), torch.tensor([self.seed, self.dropouts]))
        joint = trace_stage(stage.module, trained, fixed, value, before, after, number, key)
        rename(joint, stage.names)
        stage.tensors |= joint.constants | dict([key])
        self.dropouts += joint.dropouts
        stage.trained = list(joint.gradients)
        graph = (key_of(joint), tuple(stage.ties.items()))
        if graph not in self.known:
            self.known[graph] = self._lower_stage(stage, joint)
        stage.functions = dict(self.known[graph])
        used = {name for place, (_, name) in joint.roles.items() if place.users}
        stage.tensors = {name: each for name, each in stage.tensors.items() if name in used}
        self._add_update(stage)
        return after.pack(found).detach(), after

    def _lower_stage(self, stage: _Stage, joint: Joint) -> dict[str, str]:
        """The functions of a stage that no earlier one has."""
        parts = stage_parts(joint)
        return {
            part.kind: self.functions.add(
                f"stage{stage.number}_{part.kind}", function.tying(stage.ties)
            )
            for part, function in self._functions(joint, f"stage {stage.number}", parts)
        }

    def _functions(
        self, joint: Joint, what: str, parts: Sequence[Part]
    ) -> list[tuple[Part, Function]]:
        """The parts of a graph with their functions, which are compared with PyTorch."""
        lowering = Lowering(joint, what, self.worker)
        made = [(part, lowering.lower(part)) for part in parts]
        if self.compares:
            compare_functions(joint, lowering, made, self.worker)
        return made

    def _add_update(self, stage: _Stage) -> None:
        stepped = []
        for name in stage.trained:
            tensor = stage.tensors[name]
            if (rule := self.rules.get(id(tensor))) is not None:
                stepped.append(Stepped(name, tuple(tensor.shape), _element(tensor), rule))
        if self.rules:  # The schedule runs O of each stage, even if it steps nothing.
            stage.functions["update"] = self.functions.add(
                f"stage{stage.number}_update", update_function(stepped)
            )

    def _export_loss(
        self, output: Tensor, packing: Packing, target: Tensor, targets: Packing
    ) -> None:
        count = self.schedule.microbatches
        joint = trace_loss(self.loss, output, packing, target, targets, count)
        ((_, function),) = self._functions(joint, "the loss", [loss_part(joint)])
        self.ends["loss"] = self.functions.add("loss", function)

    def _export_samples(
        self, kind: str, packing: Packing, example: Any, batches: Sequence[Any]
    ) -> None:
        """Adds `data` or `target`, and its samples as a parameter of the stage that runs it."""
        count = self.schedule.microbatches
        like = packing.pack(example)
        parts = [packing.pack(part) for batch in batches for part in _cut(batch, count)]
        for part in parts:
            if part.shape != like.shape:
                raise FrontendError(
                    f"a batch has microbatches of shape {list(part.shape)}, and the example has "
                    f"{list(like.shape)}; all microbatches are of one size"
                )
        samples = torch.stack(parts or [like])
        name, role, stage = ("inputs", "input", 0)
        if kind == "target":
            name, role, stage = ("targets", "target", len(self.stages) - 1)
        shape, element = tuple(like.shape), _element(like)
        function = sample_function(role, name, shape, element, len(samples), count)
        self.ends[kind] = self.functions.add(kind, function)
        self._keep(stage, name, samples)

    def _keep(self, stage: int, name: str, tensor: Tensor) -> None:
        found = tensor.detach().cpu().contiguous()
        if found.dtype == torch.bool:
            found = found.to(torch.int8)
        is_narrow = found.dtype == torch.bfloat16  # a type that NumPy does not have
        array = found.view(torch.int16).numpy().view("uint16") if is_narrow else found.numpy()
        self.arrays[array_file(stage, name)] = array

    def _write(self) -> ExportedModel:
        comment = [
            f"{type(self.model).__name__} in {len(self.stages)} stages. What it starts from and "
            "its samples are in a folder:",
            "",
            "    pipesched-run model.mlir --parameters=model.parameters",
        ]
        if self.dropouts:
            comment += ["", f"Masks of {self.dropouts} dropouts begin with seed {self.seed}."]
        ends = {kind: self.ends[kind] for kind in ("data", "target", "loss")}
        stages = [stage.functions for stage in self.stages]
        text = write_module(self.schedule, stages, ends, self.functions, comment)
        names = {
            array_file(stage.number, short): whole
            for stage in self.stages
            for short, whole in stage.whole.items()
            if short in stage.tensors
        }
        return ExportedModel(text, self.arrays, len(stages), len(self.functions), names)


def _free_name(stage: _Stage, name: str) -> str:
    """A name that no parameter of the stage has."""
    while name in stage.names or name in stage.tensors:
        name += "_"
    return name


def _element(tensor: Tensor) -> str:
    if tensor.dtype not in _ELEMENTS:
        raise FrontendError(f"a tensor has {tensor.dtype} numbers, which files of stages have not")
    return _ELEMENTS[tensor.dtype]


def _cut(batch: Any, count: int) -> list[Any]:
    if isinstance(batch, list):
        if len(batch) != count:
            raise FrontendError(f"a batch lists {len(batch)} microbatches; wanted {count}")
        return batch
    leaves, spec = pytree.tree_flatten(batch)
    for leaf in leaves:
        if len(leaf) % count:
            raise FrontendError(f"a batch of {len(leaf)} cannot be cut into {count} microbatches")
    parts = [torch.chunk(leaf, count) for leaf in leaves]
    return [pytree.tree_unflatten(list(each), spec) for each in zip(*parts, strict=True)]


def _find_ties(stages: Sequence[_Stage]) -> None:
    """Records the parameters that several stages share, under the name of the first one in the
    model.
    """
    known: dict[int, list[tuple[_Stage, str]]] = {}
    for stage in stages:
        for short, tensor in stage.tensors.items():
            if tensor.requires_grad:
                known.setdefault(id(tensor), []).append((stage, short))
    for places in known.values():
        first, name = places[0]
        if len(places) > 1:
            for stage, short in places:
                stage.ties[short] = first.whole[name]


# Optimizers


def _rules(
    model: nn.Module, optimizer: MakeOptimizer | torch.optim.Optimizer | None
) -> dict[int, Rule]:
    """How each parameter is stepped, by its identity."""
    if optimizer is None:
        return {}
    if not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer([each for each in model.parameters() if each.requires_grad])
    rules = {}
    for group in optimizer.param_groups:
        rule = _rule(type(optimizer), group)
        rules.update({id(parameter): rule for parameter in group["params"]})
    if optimizer.state:
        raise FrontendError("the optimizer has stepped already; its state would be lost")
    return rules


def _rule(kind: type[torch.optim.Optimizer], group: dict[str, Any]) -> Rule:
    for option in ("amsgrad", "maximize"):
        if group.get(option):
            raise FrontendError(f"{kind.__name__} with {option} is not known here")
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    if kind is torch.optim.SGD:
        return Rule(
            rate,
            decay,
            momentum=float(group["momentum"]),
            dampening=float(group["dampening"]),
            nesterov=bool(group["nesterov"]),
        )
    if kind in (torch.optim.Adam, torch.optim.AdamW):
        decoupled = bool(group.get("decoupled_weight_decay", kind is torch.optim.AdamW))
        first, second = group["betas"]
        betas = (float(first), float(second))
        return Rule(rate, decay, betas=betas, epsilon=float(group["eps"]), decoupled=decoupled)
    raise FrontendError(f"the optimizer is {kind.__name__}; wanted SGD, Adam or AdamW")


# Names


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Returns for each name one whose numbers count from 0 in their order: `blocks.4.weight` and
    `blocks.5.weight` become `blocks.0.weight` and `blocks.1.weight`.
    """
    numbers: dict[tuple[str, ...], dict[str, str]] = {}
    made = {}
    for name in names:
        parts: list[str] = []
        for part in name.split("."):
            if part.isdigit():
                known = numbers.setdefault(tuple(parts), {})
                part = known.setdefault(part, str(len(known)))
            parts.append(part)
        made[name] = ".".join(parts)
    return made

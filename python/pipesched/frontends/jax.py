"""Functions of JAX as functions of stages.

from pipesched.frontends.jax import adam, export

exported = export(
    stages, parameters, schedule, (inputs, targets), loss=loss, optimizer=adam(1e-3)
)
exported.save("model.mlir")
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pipesched import Schedule
from pipesched.errors import needing

from . import EXTRA, FrontendError

with needing(__name__, "JAX", EXTRA):
    import jax
    import jax.numpy as jnp

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
from ._mlir import CLEAN_UP, foreign_operation, function_of, only_function, parse
from ._process import Failure, Worker
from .jaxpr import Flat, Part, flatten, loss_part, stage_parts
from .partition import count_stages

__all__ = ["FrontendError", "adam", "adamw", "export", "sgd"]

StageFunction = Callable[[Any, Any], Any]
Loss = Callable[[Any, Any], Any]


def sgd(rate: float, momentum: float = 0.0, *, nesterov: bool = False) -> Rule:
    """Gradient descent, as `optax.sgd`."""
    return Rule(rate, momentum=momentum, nesterov=nesterov)


def adam(rate: float, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8) -> Rule:
    """Adam, as `optax.adam`."""
    return Rule(rate, betas=betas, epsilon=epsilon)


def adamw(
    rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    weight_decay: float = 1e-4,
) -> Rule:
    """Adam with a decay of weights separate from the gradient, as `optax.adamw`."""
    return Rule(rate, weight_decay, betas=betas, epsilon=epsilon, decoupled=True)


def export(
    stages: Sequence[StageFunction],
    parameters: Sequence[Any],
    schedule: Schedule,
    example: tuple[Any, Any],
    *,
    loss: Loss,
    optimizer: Rule | None = None,
    batches: Iterable[tuple[Any, Any]] = (),
) -> ExportedModel:
    """Functions `f(parameters, x)` as the stages of a schedule.

    parameters: of each stage, as any tree of arrays. Floats are trained. example: inputs and
    targets of one microbatch. loss: the loss of a microbatch from the output of the last stage and
    the targets; the loss of a step
        is the mean.
    optimizer: `sgd`, `adam` or `adamw`. Without one parameters do not change. batches: the batches
    of the steps, cut along dimension 0 into the microbatches of the schedule.
        After the last one the first one follows again; by default every microbatch is the example.

    Values between stages are one array each. Raises FrontendError for code that has no form as
    functions of stages.
    """
    count_stages(schedule, functions=stages, trees_of_parameters=parameters)
    _require_passes()
    with Worker() as worker:
        made = _Export(stages, parameters, schedule, loss, optimizer, worker)
        return made.run(example, batches)


class _Export:
    def __init__(
        self,
        stages: Sequence[StageFunction],
        parameters: Sequence[Any],
        schedule: Schedule,
        loss: Loss,
        rule: Rule | None,
        worker: Worker,
    ) -> None:
        self.stages, self.parameters, self.schedule = stages, parameters, schedule
        self.loss, self.rule, self.worker = loss, rule, worker
        self.functions = Functions(schedule.name)
        self.known: dict[str, dict[str, str]] = {}
        self.arrays: dict[str, Array] = {}
        self.made: list[dict[str, str]] = []
        self.ends: dict[str, str] = {}

    def run(self, example: tuple[Any, Any], batches: Iterable[tuple[Any, Any]]) -> ExportedModel:
        inputs, target = (np.asarray(each) for each in example)
        value: Any = jnp.asarray(inputs)
        for number in range(len(self.stages)):
            value = self._export_stage(number, value)
        self._export_loss(value, target)
        pairs = list(batches)
        self._export_samples("data", inputs, [pair[0] for pair in pairs])
        self._export_samples("target", target, [pair[1] for pair in pairs])
        comment = [
            f"A model of JAX in {len(self.stages)} stages. What it starts from and its samples are "
            "in a folder:",
            "",
            "    pipesched-run model.mlir --parameters=model.parameters",
        ]
        ends = {kind: self.ends[kind] for kind in ("data", "target", "loss")}
        text = write_module(self.schedule, self.made, ends, self.functions, comment)
        return ExportedModel(text, self.arrays, len(self.stages), len(self.functions))

    def _export_stage(self, number: int, value: Any) -> Any:
        """Adds the functions of a stage; returns its output."""
        what = f"stage {number}"
        flat = flatten(self.stages[number], self.parameters[number], value, number > 0, what)
        if flat.key not in self.known:
            functions = {}
            for part in stage_parts(flat):
                function = _lower(part, f"{what}, {part.kind}", self.worker)
                functions[part.kind] = self.functions.add(f"stage{number}_{part.kind}", function)
            self.known[flat.key] = functions
        made = dict(self.known[flat.key])
        self._add_update(number, flat, made)
        self.made.append(made)
        for name, array in flat.used.items():
            self._keep(number, name, array)
        return flat.value

    def _add_update(self, number: int, flat: Flat, made: dict[str, str]) -> None:
        if self.rule is None:
            return
        stepped = [
            Stepped(name, tuple(flat.used[name].shape), _element(flat.used[name]), self.rule)
            for name in flat.trained
        ]
        made["update"] = self.functions.add(f"stage{number}_update", update_function(stepped))

    def _export_loss(self, output: Any, target: Array) -> None:
        part = loss_part(self.loss, output, target, self.schedule.microbatches)
        function = _lower(part, "the loss", self.worker)
        self.ends["loss"] = self.functions.add("loss", function)

    def _export_samples(self, kind: str, like: Array, batches: Sequence[Any]) -> None:
        """Adds `data` or `target`, and its samples as a parameter of the stage that runs it."""
        count = self.schedule.microbatches
        parts: list[Array] = []
        for batch in batches:
            whole = np.asarray(batch)
            if len(whole) != count * len(like) or whole.shape[1:] != like.shape[1:]:
                raise FrontendError(
                    f"a batch has the shape {list(whole.shape)}, and the example of a microbatch "
                    f"{list(like.shape)}; wanted {count} times as many samples"
                )
            parts += np.split(whole, count)
        samples = np.stack(parts or [like])
        name, role, stage = ("inputs", "input", 0)
        if kind == "target":
            name, role, stage = ("targets", "target", len(self.stages) - 1)
        like = np.asarray(jnp.asarray(like))  # as JAX has it: of 32 bits by default
        samples = samples.astype(like.dtype)
        function = sample_function(role, name, like.shape, _element(like), len(samples), count)
        self.ends[kind] = self.functions.add(kind, function)
        self._keep(stage, name, samples)

    def _keep(self, stage: int, name: str, array: Any) -> None:
        found = np.asarray(array)
        if found.dtype == bool:
            found = found.astype("int8")
        is_narrow = found.dtype == jnp.bfloat16  # a type that NumPy does not have
        self.arrays[array_file(stage, name)] = found.view("uint16") if is_narrow else found


def _element(array: Any) -> str:
    """`f32` of `float32`."""
    name = str(array.dtype)
    found = re.fullmatch(r"(bfloat|float|int)(16|32|64|8)", name)
    if found is None:
        raise FrontendError(f"an array has {name} numbers, which files of stages have not")
    return {"bfloat": "bf", "float": "f", "int": "i"}[found[1]] + found[2]


# Lowering


def _require_passes() -> None:
    """Raises FrontendError if torch-mlir is not installed."""
    if importlib.util.find_spec("torch_mlir") is None:
        raise FrontendError(f"torch-mlir, whose passes lower StableHLO, is not there; {EXTRA}")


_PIPELINE = (
    "builtin.module(inline,symbol-dce,func.func(chlo-legalize-to-stablehlo),"
    f"stablehlo-legalize-to-linalg,canonicalize,cse,{CLEAN_UP})"
)


def _lower(part: Part, what: str, worker: Worker) -> Function:
    """The function on tensors."""
    lowered = jax.jit(part.function, keep_unused=True).lower(*part.example)
    text = str(lowered.compiler_ir("stablehlo"))
    text = re.sub(r" attributes \{mhlo[^}]*\}", "", text)
    text = re.sub(r" \{jax\.result_info = \"[^\"]*\"\}", "", text)
    try:
        text = worker.lower(text, [_PIPELINE], "stablehlo")
    except Failure as failure:
        said = " ".join(str(failure).split())[:300]
        raise FrontendError(f"{what} cannot be lowered: {said}") from None
    if other := foreign_operation(text):
        raise FrontendError(
            f"{what} cannot be lowered: {other} has no form in linalg; gathers and scatters of "
            "embeddings do as jax.nn.one_hot"
        )
    module = parse(text)  # An operation does not keep its module.
    return function_of(only_function(module, what), part.arguments, part.results)

"""A model in a Python file of the user: required names of the file, and its options."""

from __future__ import annotations

import ast
import copy
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

import pipesched
from pipesched import PipeSchedError, Schedule
from pipesched.support.text import truth
from pipesched.torch import (
    SequentialStages,
    from_hugging_face,
    measure_children,
    measure_layers,
    measure_parts,
    split_model,
    split_sequential,
)

FILE = "model.py"
"""The file of a model that is a folder."""

SHIPPED = Path(pipesched.__file__).parent / "examples"
"""The folder of the models that ship with the package."""

WANTED = "model(...), loss(output, target) and batches(size, seed, ...)"


def shipped() -> list[str]:
    """The names of the models that ship."""
    return sorted(file.parent.name for file in SHIPPED.glob(f"*/{FILE}"))


def find(given: str) -> Path:
    """The file of a model, given by the name of one that ships, a file, or a folder."""
    if given in shipped():
        return SHIPPED / given / FILE
    path = Path(given)
    if path.is_dir():
        path = path / FILE
        if not path.is_file():
            raise PipeSchedError(f"the folder {given} has no {FILE} ({WANTED})")
    if not path.is_file():
        raise PipeSchedError(
            f"there is no model {given!r}; wanted a Python file, a folder with {FILE}, or one that "
            f"ships: {', '.join(shipped()) or 'none does here'}"
        )
    return path.resolve()


def _import(file: Path) -> ModuleType:
    folder = str(file.parent)
    if folder not in sys.path:
        # The file may import its neighbours, but a neighbour must not replace an installed module.
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location("pipesched_model", file)
    if spec is None or spec.loader is None:
        raise PipeSchedError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        said = "".join(traceback.format_exception(error.with_traceback(_inner(error, file))))
        raise PipeSchedError(f"{file} cannot be imported:\n{said.rstrip()}") from None
    return module


def _inner(error: BaseException, file: Path) -> Any:
    """The part of a traceback that starts in the file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
        trace = trace.tb_next
    return trace


# Options


def _value(name: str, text: str, like: Any) -> Any:
    """The value of an option, of the type that its default has."""
    if isinstance(like, str):
        return text
    if isinstance(like, bool):
        try:
            return truth(text)
        except ValueError:
            raise PipeSchedError(
                f"the model's option {name} is {text!r}; wanted true or false, as its default "
                f"{like!r}"
            ) from None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if like is None or like is inspect.Parameter.empty:
        return value
    if isinstance(like, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(like):
        raise PipeSchedError(
            f"the model's option {name} is {text!r}; wanted {type(like).__name__}, as its default "
            f"{like!r}"
        )
    return value


def _parameters(function: Callable[..., Any], skip: int) -> dict[str, inspect.Parameter]:
    found = list(inspect.signature(function).parameters.items())[skip:]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: parameter for name, parameter in found if parameter.kind in kinds}


def _is_cut_by_itself(model: nn.Module) -> bool:
    """Whether a model gives its places to cut."""
    if isinstance(model, nn.Sequential):
        return True
    library: Any = sys.modules.get("transformers")  # Who has made such a model has imported it.
    return library is not None and isinstance(model, library.PreTrainedModel)


@dataclass(frozen=True)
class Source:
    """The functions of a model's file, with the options that were given."""

    file: Path
    module: ModuleType
    for_model: Mapping[str, Any]
    for_batches: Mapping[str, Any]

    @staticmethod
    def load(file: Path, options: Mapping[str, str]) -> Source:
        """Imports the file. Raises PipeSchedError if it, or an option, is not as wanted."""
        module = _import(file)
        for name in ("model", "loss", "batches"):
            if not callable(getattr(module, name, None)):
                raise PipeSchedError(f"{file} has no function `{name}`; wanted {WANTED}")
        taken = {"model": _parameters(module.model, 0), "batches": _parameters(module.batches, 2)}
        known = {**taken["batches"], **taken["model"]}
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise PipeSchedError(
                    f"the model {file} has no option {name!r}; it has "
                    f"{', '.join(sorted(known)) or 'none'}{hint}"
                )
        given = {name: _value(name, text, known[name].default) for name, text in options.items()}
        for function, parameters in taken.items():
            for name, parameter in parameters.items():
                if parameter.default is inspect.Parameter.empty and name not in given:
                    raise PipeSchedError(
                        f"`{function}` of {file} needs {name}; give --model-option {name}=..."
                    )
        parts = ({k: v for k, v in given.items() if k in found} for found in taken.values())
        return Source(file, module, *parts)

    def model(self, dtype: torch.dtype) -> nn.Module:
        """Makes the model. Its parameters follow PyTorch's seed."""
        return self.with_loss(dtype)[0]

    def with_loss(self, dtype: torch.dtype) -> tuple[nn.Module, Callable[[Any, Any], Tensor]]:
        """Makes the model and the loss, a copy of both if the loss has parameters to train."""
        made, loss = self._made(), self.module.loss
        if not isinstance(loss, nn.Module):
            return made.to(dtype), self.loss
        own = set(map(id, made.parameters()))
        if any(id(parameter) in own for parameter in loss.parameters()):
            made, loss = copy.deepcopy((made, loss))
        else:
            loss = copy.deepcopy(loss)
        return made.to(dtype), loss

    def _made(self) -> nn.Module:
        made = self.module.model(**self.for_model)
        if not isinstance(made, nn.Module):
            raise PipeSchedError(
                f"`model` of {self.file} returned a {type(made).__name__}; wanted an nn.Module"
            )
        if not callable(self._cuts) and not _is_cut_by_itself(made):
            raise PipeSchedError(
                f"`model` of {self.file} returned a {type(made).__name__}; wanted an nn.Sequential,"
                " whose children are divided among the stages, a causal language model of "
                "transformers, or a function `cuts(model)` beside it that "
                "returns the names of modules before which it may be cut"
            )
        return made

    @property
    def _cuts(self) -> Any:
        return getattr(self.module, "cuts", None)

    def split(
        self, model: nn.Module, schedule: Schedule, times: Sequence[float] | None
    ) -> SequentialStages:
        """Returns the stages: children, layers or cut parts of the model, by times or numbers."""
        if callable(self._cuts):
            cuts = self._names(model)
            return split_model(model, schedule, at=cuts, times=times or [1.0] * (len(cuts) + 1))
        if isinstance(model, nn.Sequential):
            return split_sequential(model, schedule, times=times)
        return from_hugging_face(model, schedule, times=times)

    def measure(self, model: nn.Module, inputs: Any, group: Any) -> list[float]:
        """The seconds that each child, layer or part takes."""
        if callable(self._cuts):
            return measure_parts(model, inputs, at=self._names(model), group=group)
        if isinstance(model, nn.Sequential):
            return measure_children(model, inputs, group=group)
        return measure_layers(model, inputs, group=group)

    def _names(self, model: nn.Module) -> list[str]:
        names = self._cuts(model)
        if isinstance(names, str) or not isinstance(names, (list, tuple)):
            raise PipeSchedError(
                f"`cuts` of {self.file} returned a {type(names).__name__}; wanted a list of names "
                "of modules"
            )
        return list(names)

    def batches(self, size: int, seed: int) -> Iterator[Any]:
        """Batches of this many samples, as pairs of inputs and targets."""
        return iter(self.module.batches(size, seed, **self.for_batches))

    def loss(self, output: Any, target: Any) -> Tensor:
        """The loss of a microbatch."""
        found: Tensor = self.module.loss(output, target)
        return found

    @property
    def count(self) -> Callable[[Any], Any] | None:
        """Returns `valid_tokens(target)` of the file: the tokens over which a loss is a mean."""
        found: Callable[[Any], Any] | None = getattr(self.module, "valid_tokens", None)
        return found

    def optimizer(self, parameters: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimizer: `optimizer(parameters, lr)` of the file if it has one, otherwise AdamW."""
        make = getattr(self.module, "optimizer", None) or torch.optim.AdamW
        made: torch.optim.Optimizer = make(parameters, lr=rate)
        return made

    def tokens(self, inputs: Any) -> int | None:
        """The number of tokens of a batch, by `tokens(inputs)` of the file, if it has that."""
        count = getattr(self.module, "tokens", None)
        return None if count is None else int(count(inputs))

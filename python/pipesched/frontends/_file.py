"""The file of a model: functions of stages, the clauses that name them, and what it starts from."""

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
"""Of the names of files."""

KINDS = ("forward", "recompute", "backward", "input_gradient", "weight_gradient", "update")
"""The functions that a stage may name, in the order of its clause."""


@dataclass(frozen=True)
class Port:
    """An argument or a result of a function: its role, its type, and its name within the role."""

    role: str
    type: str
    name: str = ""
    tied: str = ""
    """Of a parameter that is one with those of other stages, their name."""

    @property
    def attribute(self) -> str:
        """What stands behind the type."""
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
        """The same with parameters that are tied, by their names."""
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
        """The name of the function: that of an equal one, if there is one."""
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
    """A model as functions of stages, with the arrays that it starts from."""

    text: str
    """The file: a schedule whose stages name functions."""
    arrays: dict[str, Array]
    """Parameters, constants and samples by the names of their files."""
    stages: int
    functions: int
    """How many functions there are: equal stages share theirs."""
    names: dict[str, str] = field(default_factory=dict)
    """The names of parameters in the model, by those of their files."""

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
    """The file of a parameter: letters, digits and `._-` stand for themselves."""
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


def count_stages(schedule: Schedule) -> int:
    """The stages that all paths have. Refuses slices: exports compute whole microbatches."""
    if schedule.slices > 1:
        raise FrontendError(
            f"schedule {schedule.name!r} has {schedule.slices} slices a microbatch; exported models"
            " run whole microbatches (docs/Stages.md says how functions of slices are written)"
        )
    placed = {
        (stage.path, stage.stage): stage.blocks
        for worker in range(schedule.workers)
        for stage in schedule.stages(worker)
    }
    count = 1 + max(stage for _, stage in placed)
    first = [placed[0, stage] for stage in range(count) if (0, stage) in placed]
    for (path, stage), blocks in placed.items():
        if stage >= len(first) or blocks != first[stage]:
            raise FrontendError(
                f"path {path} of the schedule divides the model otherwise than path 0, at stage "
                f"{stage}; functions belong to the stages of all paths alike"
            )
    return count

"""`pipesched export`: a model of PyTorch as functions of the stages of a schedule, to compile."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pipesched
from pipesched import PipeSchedError, Schedule

from .arguments import (
    UsageError,
    add_family_options,
    add_model_options,
    canonical,
    given_family_options,
    options_for,
    positive,
)
from .files import is_schedule_file
from .output import say
from .run import _model_options, _positive_number

if TYPE_CHECKING:
    from pipesched.frontends import ExportedModel

EXAMPLE = """  pipesched export gpt --schedule zb-v --workers 2 --microbatches 4 -o gpt.mlir
  pipesched run gpt.mlir --backend loopback --parameters gpt.parameters --steps 5"""

DTYPES = ("float32", "float64", "bfloat16")
ENDING = ".mlir"


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `export`."""
    parser.add_argument(
        "model",
        metavar="NAME|FILE|FOLDER",
        help="a model that ships (gpt), a Python file as of `pipesched run`, or a folder with "
        "model.py",
    )
    add_model_options(parser)
    parser.add_argument(
        "--schedule",
        required=True,
        metavar="SCHEDULE",
        help="a family, or a file with one schedule",
    )
    parser.add_argument("--workers", type=positive, metavar="D")
    parser.add_argument("--microbatches", type=positive, metavar="N")
    add_family_options(parser)
    group = parser.add_argument_group("training")
    group.add_argument(
        "--microbatch-size", type=positive, default=4, metavar="B", help="samples (default 4)"
    )
    group.add_argument(
        "--batches",
        type=positive,
        default=20,
        metavar="S",
        help="how many batches are written, behind which the first one follows again (default 20)",
    )
    group.add_argument(
        "--divide",
        choices=("even", "measured"),
        default="even",
        help="the model's children among the stages, by their number or by their times",
    )
    group.add_argument(
        "--lr", type=_positive_number, default=1e-3, help="learning rate (default 0.001)"
    )
    group.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of parameters, batches and masks of dropout (default 0)",
    )
    group.add_argument("--dtype", choices=DTYPES, default=DTYPES[0], help="of parameters")
    group.add_argument(
        "--no-compare",
        dest="compare",
        action="store_false",
        help="do not run each stage once to compare it with PyTorch: long for large stages",
    )
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help=f"a name that ends in {ENDING}; parameters go into a folder of the same name that "
        "ends in .parameters",
    )


def _one_schedule(arguments: argparse.Namespace) -> Schedule:
    """The schedule of the arguments."""
    if is_schedule_file(arguments.schedule):
        found = pipesched.load(arguments.schedule)
        if len(found) != 1:
            raise PipeSchedError(
                f"{arguments.schedule} has {len(found)} schedules, wanted one"
            )
        for what in ("workers", "microbatches"):
            given, has = getattr(arguments, what), getattr(found[0], what)
            if given not in (None, has):
                raise PipeSchedError(
                    f"{arguments.schedule}: {found[0].name} has {has} {what}, and --{what} is "
                    f"{given}"
                )
        return found[0]
    for name in ("workers", "microbatches"):
        if getattr(arguments, name) is None:
            raise UsageError(f"--{name} is missing")
    family = canonical(arguments.schedule)
    options = options_for(family, given_family_options(arguments))
    return pipesched.generate(
        family,
        workers=arguments.workers,
        microbatches=arguments.microbatches,
        name="model",
        **options,
    )


def require_torch() -> None:
    """Refuses to go on without the packages of the extra."""
    for name in ("torch", "torch_mlir"):
        if importlib.util.find_spec(name) is None:
            raise PipeSchedError(
                f"pipesched export needs {name}, which the extra `frontends` installs: "
                "pip install 'pipesched[frontends]'"
            )


def _export(arguments: argparse.Namespace, schedule: Schedule) -> ExportedModel:
    import torch

    from pipesched.frontends.torch import export
    from pipesched.torch.training import Source, find, placed

    source = Source.load(find(arguments.model), _model_options(arguments))
    torch.manual_seed(arguments.seed)
    dtype = getattr(torch, arguments.dtype)
    model, loss = source.with_loss(dtype)
    size = arguments.microbatch_size
    cpu = torch.device("cpu")
    inputs, targets = placed(next(source.batches(size, arguments.seed)), cpu, dtype)
    times = source.measure(model, inputs, None) if arguments.divide == "measured" else None
    count = schedule.microbatches * size
    given = itertools.islice(source.batches(count, arguments.seed), arguments.batches)
    batches = (placed(batch, cpu, dtype) for batch in given)
    return export(
        model,
        schedule,
        (inputs, targets),
        loss=loss,
        optimizer=lambda parameters: source.optimizer(parameters, arguments.lr),
        stages=source.split(model, schedule, times),
        batches=batches,
        seed=arguments.seed,
        compare=arguments.compare,
    )


def run(arguments: argparse.Namespace) -> int:
    """Exports the model, and writes its file and folder."""
    if Path(arguments.output).suffix != ENDING:
        raise UsageError(f"-o {arguments.output}: wanted a name that ends in {ENDING}")
    schedule = _one_schedule(arguments)
    require_torch()
    made = _export(arguments, schedule)
    folder = made.save(arguments.output)
    say(
        f"wrote {arguments.output}, {made.functions} functions of {made.stages} stages, and "
        f"{folder}, {len(made.arrays)} files; to run it:\n"
        + shlex.join(
            [
                "pipesched-run",
                str(arguments.output),
                f"--parameters={folder}",
                f"--steps={arguments.batches}",
            ]
        )
    )
    return 0

"""`pipesched run --export`: a model of PyTorch as functions of stages, to compile."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pipesched
from pipesched import PipeSchedError, Schedule, _core

from ..options.arguments import UsageError, canonical, options_for, read_family_options
from ..options.files import is_schedule_file
from ..options.table import Rare, positive, yes_or_no
from ..render.output import say

if TYPE_CHECKING:
    from pipesched.frontends import ExportedModel

ENDING = ".mlir"

RARE = {
    "batches": Rare(
        "a number: how many batches --export writes, after which the first one follows again (20)",
        positive,
        20,
    ),
    "compare": Rare(
        "true|false: whether --export runs each stage once to compare it with PyTorch, which takes"
        " long for large stages",
        yes_or_no,
        True,
    ),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write the functions of the stages in place of training, to compile and run: a name"
        f" that ends in {ENDING}; parameters go into a folder of the same name that ends in"
        " .parameters",
    )


def _one_schedule(arguments: argparse.Namespace) -> Schedule:
    if len(arguments.schedule) != 1:
        raise UsageError(f"--export takes one schedule, found {', '.join(arguments.schedule)}")
    (given_schedule,) = arguments.schedule
    if is_schedule_file(given_schedule):
        found = pipesched.load(given_schedule)
        if len(found) != 1:
            raise PipeSchedError(f"{given_schedule} has {len(found)} schedules, wanted one")
        for what in ("workers", "microbatches"):
            given, has = getattr(arguments, what), getattr(found[0], what)
            if given not in (None, has):
                raise PipeSchedError(
                    f"{given_schedule}: {found[0].name} has {has} {what}, and"
                    f" {arguments.shown[what]} is {given}"
                )
        return found[0]
    for name in ("workers", "microbatches"):
        if getattr(arguments, name) is None:
            raise UsageError(f"{arguments.shown[name]} is missing")
    family = canonical(given_schedule)
    options = options_for(family, read_family_options(arguments))
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
                f"pipesched run --export needs {name}, which the extra `frontends` installs: "
                "pip install 'pipesched[frontends]'"
            )


def _export(arguments: argparse.Namespace, schedule: Schedule) -> ExportedModel:
    import torch

    from pipesched.frontends.torch import export
    from pipesched.torch.training import Source, find, placed

    from .run import model_options

    source = Source.load(find(arguments.model), model_options(arguments))
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
    if Path(arguments.export).suffix != ENDING:
        raise UsageError(f"--export {arguments.export}: wanted a name that ends in {ENDING}")
    schedule = _one_schedule(arguments)
    require_torch()
    made = _export(arguments, schedule)
    folder = made.save(arguments.export)
    say(
        f"wrote {arguments.export}, {made.functions} functions of {made.stages} stages, and "
        f"{folder}, {len(made.arrays)} files; to run it"
        + ("" if _core.has_compiler else " by another build, since this one has no compiler")
        + ":\n"
        + shlex.join(
            [
                "pipesched-run",
                str(arguments.export),
                f"--parameters={folder}",
                f"--steps={arguments.batches}",
            ]
        )
    )
    return 0

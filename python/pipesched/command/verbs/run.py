"""`pipesched run`: trains a model by schedules, and compares the steps with their predictions."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pipesched
from pipesched import PipeSchedError, Schedule, _core
from pipesched.support.files import check_folder

from ..options import table
from ..options.arguments import (
    UsageError,
    add_family_options,
    canonical,
    no_option,
    options_for,
    read_family_options,
)
from ..options.entries import rename
from ..options.files import is_schedule_file
from ..options.paths import check_in_folder
from ..options.table import Rare, positive, positive_number, yes_or_no
from ..render import drawings
from ..render.output import (
    FORMATS,
    add_output,
    choose_columns,
    say,
    view_of,
    write_rows,
    write_text,
)
from . import trainings

if TYPE_CHECKING:
    from pipesched.frontends import ExportedModel
    from pipesched.torch.training import Job, Outcome

# Exports

ENDING = ".mlir"

_EXPORT_RARE = {
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


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write the functions of the stages in place of training, to compile and run: a name"
        f" that ends in {ENDING}; parameters go into a folder of the same name that ends in"
        " .parameters",
    )


def _one_schedule(arguments: argparse.Namespace) -> Schedule:
    if len(arguments.schedule) != 1 or arguments.schedule == [OPTIMIZED]:
        raise UsageError(f"--export takes one schedule, found {', '.join(arguments.schedule)}")
    (given,) = arguments.schedule
    found = _schedules(arguments)[0]
    if len(found) != 1:
        raise PipeSchedError(f"{given} has {len(found)} schedules, wanted one")
    schedule = found[0][1]
    assert schedule is not None
    return schedule if is_schedule_file(given) else rename(schedule, "model")


def require_torch() -> None:
    """Refuses to continue without the packages of the extra."""
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


def _run_export(arguments: argparse.Namespace) -> int:
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


# Compiled schedules

BACKENDS = ("loopback", "mpi")
"""Backends that compile; the others train in PyTorch."""

TOOL = "pipesched-run"

_VALUES = {
    "pipeline": ("PASSES", "passes that change the schedule"),
    "stage-pipeline": ("PASSES", "passes that change the functions of stages"),
    "load-pass-plugin": ("FILE", "load passes for these pipelines from a plugin"),
    "load-dialect-plugin": ("FILE", "load dialects from a plugin"),
    "form": ("FORM", "how instructions are written: table or straight"),
    "blas": ("LIBRARY", "the BLAS library that multiplies matrices; none: plain loops"),
    "messages": ("MODE", "when a send ends: buffered or rendezvous"),
    "parameters": ("DIR", "start from the files stage<S>.<name>.npy of this folder"),
    "save-parameters": ("DIR", "write the parameters after the last step"),
    "tolerance": ("ERROR", "relative error that --check accepts (default 1e-5)"),
    "trace": ("FILE", "write the median step, measured beside predicted, for Perfetto"),
    "profile": ("FILE", "predict from the times of this file"),
    "write-profile": ("FILE", "write the measured times as a profile"),
    "mpicc": ("PROGRAM", "the compiler of MPI"),
    "mpirun": ("PROGRAM", "the launcher of MPI, with its options"),
}
_FLAGS = {
    "check": "compare with the unpipelined model",
    "blocking": "a send returns when it has ended",
    "no-update": "do not step the parameters",
}


FREQUENT = ("parameters", "save-parameters", "profile", "write-profile", "check")
"""The options of them that have a flag; `--set` gives the others."""

_COMPILED_RARE = {
    **{
        name.replace("-", "_"): Rare(f"{value}: {summary}")
        for name, (value, summary) in _VALUES.items()
        if name not in (*FREQUENT, "pipeline", "trace")
    },
    **{
        name.replace("-", "_"): Rare(f"true|false: {summary}", yes_or_no, False)
        for name, summary in _FLAGS.items()
        if name not in FREQUENT
    },
    "tool": Rare(f"PROGRAM: the tool (default {TOOL}, from PATH)", default=TOOL),
}


def _add_compiled(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("compiled schedules (--backend loopback and mpi)")
    for name in FREQUENT:
        if name in _FLAGS:
            group.add_argument(f"--{name}", action="store_true", help=_FLAGS[name])
        else:
            value, summary = _VALUES[name]
            group.add_argument(f"--{name}", metavar=value, help=summary)
    table.add(group, "pipeline", "name")
    parser.set_defaults(program=None)


def _refuse_compiled(arguments: argparse.Namespace) -> None:
    """Refuses options of compiled schedules. Raises UsageError."""
    given = []
    for name in (*_VALUES, *_FLAGS):
        if getattr(arguments, name.replace("-", "_")):
            given.append(arguments.shown[name.replace("-", "_")])
    if given:
        raise UsageError(
            f"{given[0]} belongs to --backend loopback and mpi, found {arguments.backend}"
        )


def _compiled_options(arguments: argparse.Namespace) -> Iterator[str]:
    yield f"--backend={arguments.backend}"
    if arguments.schedule is not None:
        if len(arguments.schedule) != 1:
            raise UsageError(
                f"--backend {arguments.backend} runs one schedule at a time, found "
                f"{len(arguments.schedule)}"
            )
        yield f"--schedule={arguments.schedule[0]}"
    for name in ("workers", "microbatches", "steps", "seed"):
        if getattr(arguments, name) is not None:
            yield f"--{name}={getattr(arguments, name)}"
    for option, value in read_family_options(arguments).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield f"--{option.replace('_', '-')}={text}"
    for name in _VALUES:
        if getattr(arguments, name.replace("-", "_")) is not None:
            yield f"--{name}={getattr(arguments, name.replace('-', '_'))}"
    for name in _FLAGS:
        if getattr(arguments, name.replace("-", "_")):
            yield f"--{name}"
    if arguments.name is not None:
        yield f"--select={arguments.name}"


def _run_compiled(arguments: argparse.Namespace) -> int:
    """Calls the tool, whose output and status the verb has."""
    own = ("-o", "output"), ("--draw", "html"), ("--columns", "columns")
    for flag, value in ((flag, getattr(arguments, name)) for flag, name in own):
        if value is not None:
            raise UsageError(
                f"{flag} belongs to --backend gloo and nccl; a drawn trace and --write-profile are"
                f" the files of {arguments.backend}"
            )
    if arguments.program is None:
        raise UsageError(f"--backend {arguments.backend} needs a file with functions of stages")
    given = list(_compiled_options(arguments))
    tool = shutil.which(arguments.tool)
    if tool is None:
        from pipesched import _core  # loads the extension

        if not _core.has_compiler:
            raise PipeSchedError(
                f"{arguments.tool} is not found, and this build of PipeSched has no compiler "
                "(PIPESCHED_ENABLE_COMPILE=OFF): name the pipesched-run of another build by --tool"
            )
        raise PipeSchedError(
            f"{arguments.tool} is not found; build it (cmake --build --preset release --target "
            f"{TOOL}) and put its folder into PATH, or name it by --set tool"
        )
    return subprocess.run([tool, arguments.program, *given], check=False).returncode


EXAMPLE = """  pipesched run gpt --schedules zb-v,1f1b --pp 2 --microbatches 4 --steps 10
  pipesched run gpt --schedules zb-v --pp 2 --microbatches 4 --export gpt.mlir
  pipesched run gpt.mlir --backend loopback --parameters gpt.parameters --steps 5"""

OPTIMIZED = "optimized"
STEPS = 30
FOLDER = "out"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        metavar="NAME|FILE|FOLDER",
        help="a model that ships (gpt), a Python file, or a folder with model.py; or a schedule"
        " with functions of stages (.mlir), for --backend loopback and mpi",
    )
    table.add(parser, "schedules", many=("schedules",), schedules={"dest": "schedule"})
    parser.add_argument(
        "--model-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the model, such as layers=12; may be repeated",
    )
    add_family_options(parser)
    _add_training(parser)
    _add_compiled(parser)
    _add_export(parser)
    add_output(parser, FORMATS, passes=False)
    drawings.add_draw(parser, ("html", "trace"))
    parser.set_defaults(folders={"output": (), "save-parameters": (".npy",)})


def _add_training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training")
    group.add_argument(
        "--backend",
        choices=("gloo", "nccl", *BACKENDS),
        default="gloo",
        help="PyTorch on CPUs (gloo) or on one GPU per worker (nccl); compiled, in threads "
        "(loopback) or processes (mpi)",
    )
    group.add_argument("--steps", type=positive, help="in all (default 30, compiled 3)")
    table.add(
        group,
        *("microbatch_size", "seed", "threads", "receive_placement"),
        microbatch_size={"default": 4},
        seed={"default": 0},
        receive_placement={"dest": "receives"},
    )
    group.add_argument(
        "--divide",
        choices=("measured", "even"),
        help="the model's children among the stages, by their times (the default, but for --export)"
        " or by their number",
    )
    group.add_argument("--lr", type=positive_number, default=1e-3, help="learning rate (0.001)")
    dtype = {"choices": tuple(trainings.LOSS_LIMITS), "default": "float32"}
    table.add(group, "dtype", dtype=dtype)
    table.add_set(parser, group, {**_RARE, **_EXPORT_RARE, **_COMPILED_RARE})


_RARE = {
    "warmup": Rare("a number: steps that are not measured (2)", positive, 2),
    "calibration": Rare(
        "a number: steps after them that give the times for the prediction (5)", positive, 5
    ),
    "one_by_one": Rare(
        "true|false: a schedule after the other, with one model in memory, not in turns",
        yes_or_no,
        False,
    ),
    "memory_budget": Rare(
        "a number of activations, or bytes as in 2GiB: end with an error if a worker holds more"
    ),
    "search_seconds": Rare(
        "a number: of the search for `optimized`, within --activations (30)", positive_number, 30.0
    ),
    "timeout": Rare(
        "a number: the longest wait of a worker in seconds (300)", positive_number, 300.0
    ),
}

# Models to train


def _launched_ranks() -> int | None:
    """The number of ranks that torchrun has started, if it has."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        return None
    return int(os.environ["WORLD_SIZE"])


def _workers(arguments: argparse.Namespace, files: Mapping[str, list[Schedule]]) -> int:
    launched = _launched_ranks()
    of_files = next((s.workers for found in files.values() for s in found), None)
    workers = arguments.workers or of_files or launched
    if workers is None:
        raise UsageError("--pp is missing")
    if launched is not None and launched != workers:
        raise UsageError(
            f"torchrun has started {launched} ranks (WORLD_SIZE), and there are {workers} workers; "
            "one rank per worker is wanted"
        )
    assert isinstance(workers, int)
    return workers


def _check_size(schedule: Schedule, file: str, workers: int, microbatches: int) -> None:
    for what, found, wanted in (
        ("workers", schedule.workers, workers),
        ("microbatches", schedule.microbatches, microbatches),
    ):
        if found != wanted:
            raise PipeSchedError(
                f"{file}: {schedule.name} has {found} {what}, wanted {wanted}, as the command line"
                " or another schedule has"
            )


def _schedules(arguments: argparse.Namespace) -> tuple[list[tuple[str, Schedule | None]], int, int]:
    """The schedules by name, None for the optimized one; workers and microbatches."""
    files = {text: pipesched.load(text) for text in arguments.schedule if is_schedule_file(text)}
    workers = _workers(arguments, files)
    of_files = next((s.microbatches for found in files.values() for s in found), None)
    microbatches = arguments.microbatches or of_files
    if microbatches is None:
        raise UsageError("--microbatches is missing")
    given = read_family_options(arguments)
    families = {t: canonical(t) for t in arguments.schedule if t not in files and t != OPTIMIZED}
    for option in given:
        used = option == "memory" and OPTIMIZED in arguments.schedule
        if not used and not any(option in options_for(f, given) for f in families.values()):
            raise no_option(option, arguments.schedule)
    made: list[tuple[str, Schedule | None]] = []
    for text in arguments.schedule:
        if text == OPTIMIZED:
            made.append((OPTIMIZED, None))
        elif text in files:
            for schedule in files[text]:
                _check_size(schedule, text, workers, microbatches)
            made += [(schedule.name, schedule) for schedule in files[text]]
        else:
            family = families[text]
            own = options_for(family, given)
            schedule = pipesched.generate(
                family, workers=workers, microbatches=microbatches, name=family, **own
            )
            made.append((family, schedule))
    return _number_names(made), workers, microbatches


def _number_names(made: list[tuple[str, Schedule | None]]) -> list[tuple[str, Schedule | None]]:
    """The schedules, with numbers after names that several have."""
    found: dict[str, Schedule | None] = {}
    for name, schedule in made:
        free = name
        number = 2
        while free in found:
            free, number = f"{name}-{number}", number + 1
        found[free] = schedule
    return list(found.items())


def model_options(arguments: argparse.Namespace) -> dict[str, str]:
    options = {}
    for text in arguments.model_option:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(f"--model-option {text!r}: wanted NAME=VALUE, such as layers=12")
        options[name] = value
    return options


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _job(arguments: argparse.Namespace) -> Job:
    """The job of the arguments. Raises errors of the arguments before any process starts."""
    from pipesched.torch.autograd.activation import Budget
    from pipesched.torch.training import Job, Source, find

    counted = arguments.warmup + arguments.calibration
    if arguments.steps <= counted:
        raise UsageError(
            f"--steps {arguments.steps} leaves none to measure after warmup {arguments.warmup} and "
            f"calibration {arguments.calibration}; more than {counted} are wanted"
        )
    chosen = model_options(arguments)
    schedules, workers, microbatches = _schedules(arguments)
    file = find(arguments.model)
    Source.load(file, chosen)
    budget = arguments.memory_budget
    budget = int(budget) if budget is not None and budget.isdecimal() else budget
    try:
        Budget(budget)
    except RuntimeError as error:
        raise UsageError(str(error).replace("memory_budget is", "--set memory-budget is")) from None
    local = int(os.environ.get("LOCAL_WORLD_SIZE", workers))
    return Job(
        file=file,
        options=chosen,
        schedules=tuple(schedules),
        one_by_one=arguments.one_by_one,
        workers=workers,
        microbatches=microbatches,
        microbatch_size=arguments.microbatch_size,
        backend=arguments.backend,
        dtype=arguments.dtype,
        steps=arguments.steps,
        warmup=arguments.warmup,
        calibration=arguments.calibration,
        seed=arguments.seed,
        rate=arguments.lr,
        divide=arguments.divide or "measured",
        threads=arguments.threads or max(1, cores() // local),
        receives=arguments.receives,
        memory=arguments.activations or workers,
        memory_budget=budget,
        search_seconds=arguments.search_seconds,
        timeout=arguments.timeout,
    )


# Training


def _require_torch() -> None:
    needs = "pipesched run needs PyTorch, which pipesched does not install: pip install torch"
    if importlib.util.find_spec("torch") is None:
        raise PipeSchedError(needs)
    try:
        import pipesched.torch  # noqa: F401
    except ImportError as error:
        raise PipeSchedError(f"{needs}\n{error}") from error


def _require_devices(job: Job) -> None:
    """Refuses to start more ranks for NCCL than there are GPUs."""
    import torch

    count = torch.cuda.device_count()
    if job.backend == "nccl" and count < job.workers:
        raise PipeSchedError(
            f"--backend nccl needs a GPU for each of the {job.workers} workers, and this machine "
            f"has {count}; --backend gloo computes on CPUs"
        )


def run(arguments: argparse.Namespace) -> int:
    """Trains, and fails if a rank fails, or if schedules have different losses."""
    if arguments.backend in BACKENDS:
        arguments.program, arguments.model = arguments.model, None
        return _run_compiled(arguments)
    _refuse_compiled(arguments)
    if arguments.model is None:
        raise UsageError("give a model: one that ships (gpt), a Python file or a folder")
    if arguments.schedule is None:
        raise UsageError("--schedules is missing")
    if arguments.model.endswith(".mlir"):
        raise UsageError(
            f"{arguments.model} belongs to --backend loopback and mpi, found {arguments.backend}"
        )
    if arguments.export is not None:
        return _run_export(arguments)
    arguments.steps = arguments.steps or STEPS
    if names := view_of(arguments).names:
        choose_columns((), trainings.COLUMNS, names)
    if folder := _folder(arguments):
        check_folder(folder)
    _require_torch()
    from pipesched.torch.training import join, launch

    job = _job(arguments)
    if folder:
        files = (f"{name}{ending}" for name, _ in job.schedules for ending in trainings.FILES)
        check_in_folder(arguments, "output", folder, files)
    if _launched_ranks() is not None:
        outcomes = join(job, say)
    else:
        _require_devices(job)
        say(_head_line(job))
        outcomes = launch(job, say)
    if outcomes is None:
        return 0
    return _show(arguments, job, outcomes)


def _head_line(job: Job) -> str:
    threads = "1 thread" if job.threads == 1 else f"{job.threads} threads"
    return f"{job.workers} workers on {job.backend}, {threads} each; {cores()} cores"


def _folder(arguments: argparse.Namespace) -> str | None:
    return arguments.output or (FOLDER if arguments.format == "text" else None)


def _show(arguments: argparse.Namespace, job: Job, outcomes: list[Outcome]) -> int:
    results = [trainings.Result(outcome) for outcome in outcomes]
    rows = trainings.rank(results)
    folder = _folder(arguments)
    if folder:
        os.makedirs(folder, exist_ok=True)
        for result in results:
            path = os.path.join(folder, result.name)
            files = dict(result.files())
            for ending, contents in files.items():
                write_text(contents, f"{path}{ending}")
            say(f"wrote {path}{', '.join(files)}")
    agreement = trainings.Agreement.compare(outcomes, job.dtype)
    title = f"{arguments.model}, {trainings.sizes(job)}"
    arguments.output = None
    width = view_of(arguments).width
    remarks = trainings.remarks(results, rows, agreement, job, cores(), width)
    if arguments.html:
        write_text(trainings.page_of(title, results, rows, remarks), arguments.html)
        say(f"wrote {arguments.html}")
    write_rows(arguments, rows, trainings.COLUMNS, title=title, remarks=["", *remarks])
    if not agreement.holds and arguments.format != "text":
        say(agreement.text)
    return 0 if agreement.holds else 1

"""Arguments that several verbs share: parsing them and converting them for the library."""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, cast

import pipesched
from pipesched import Costs, Family, FamilyOptions, PipeSchedError, _deployment, _grid
from pipesched._bytes import DEFAULT_RESERVE
from pipesched._catalogue import canonical as canonical
from pipesched._families import options_of_text, own_family
from pipesched._frameworks import ParameterBytes, parameter_bytes
from pipesched._grid import closest
from pipesched._layer_times import names_layers
from pipesched._costs import Description, held_bytes
from pipesched._options import (
    Attention,
    Balance,
    OptimizerStep,
    Precision,
    ReceivePlacement,
    Recompute,
    Runtime,
    TimesOf,
    Transport,
    names_of,
)
from pipesched._settings import both, told

Run = Callable[[argparse.Namespace], int]


class UsageError(Exception):
    """Raised for arguments that do not go together."""


# Numbers


def positive(text: str) -> int:
    """Parses an integer from 1 on."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, found {text!r}")
    return value


def integers(text: str) -> list[int]:
    """Parses `8,16,32`, ranges that include their end, `8:64:8`, and by a factor, `8:64:x2`.

    >>> integers("4,8:12:2")
    [4, 8, 10, 12]
    """
    try:
        values = _grid.integers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"expected positive integers, found {text!r}")
    return values


def names(text: str) -> list[str]:
    """Parses `gpipe,1f1b`."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names between the commas, found {text!r}")
    return found


# Families


@cache
def families() -> dict[str, Family]:
    """The families by name."""
    return pipesched.families()


def options_for(family: str, options: FamilyOptions) -> FamilyOptions:
    """The options that the family has."""
    own = own_family(family)
    known = own.options if own else families()[family].options
    return cast(FamilyOptions, {k: v for k, v in options.items() if k in known})


def no_option(option: str, names: Sequence[str]) -> PipeSchedError:
    """The error that no family has an option, with the closest one that some family has."""
    own = [option for name in names if (family := own_family(name)) for option in family.options]
    if option in FAMILY_OPTIONS or option in FamilyOptions.__annotations__:
        said = f"--{option.replace('_', '-')}"
    else:
        said = f"{option}{closest(option, own)}" if own else option
    return PipeSchedError(f"none of {', '.join(names)} has the option {said}")


FAMILY_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "chunks": (positive, "stages per worker"),
    "group": (positive, "microbatches that go through a chunk together"),
    "waves": (positive, "waves down and up the workers"),
    "pairs": (positive, "mirrored pairs of paths"),
    "memory": (positive, "activations that a worker may hold, in stages of one microbatch"),
    "construction": (str, "concat, doubling or halving"),
    "slices": (positive, "slices of each microbatch along its tokens"),
    "vocabulary": (str, "vocab-1 or vocab-2, how a vocabulary is spread over the workers"),
    "backward": (positive, "time of B in percent of F, for which vocab-1f1b has an order"),
}


def add_family_options(
    parser: argparse.ArgumentParser, own: Mapping[str, tuple[Callable[[str], Any], str]] = {}
) -> None:
    """Adds the options of families; an option applies to the families that have it. `own` has what
    a verb means by some of them in addition.
    """
    group = parser.add_argument_group("options of families")
    for name, (kind, summary) in {**FAMILY_OPTIONS, **own}.items():
        group.add_argument(f"--{name}", type=kind, help=summary)
    group.add_argument(
        "--split-backward",
        action=argparse.BooleanOptionalAction,
        help="input and weight gradient as cells of their own",
    )
    group.add_argument(
        "--embedding",
        action=argparse.BooleanOptionalAction,
        help="cells of their own for the shards of the embedding, where a vocabulary has shards",
    )
    add_own_options(group)
    group.add_argument(
        "--gradient-after", choices=("I", "W"), help="which of them sends the gradient"
    )


def add_own_options(group: argparse._ActionsContainer) -> None:
    """Adds `--option`."""
    group.add_argument(
        "--option",
        dest="own_options",
        action="append",
        metavar="NAME=VALUE",
        help="of a family of your own, such as depth=2; may be given several times",
    )


def given_own_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `--option` gives."""
    return options_of_text(";".join(arguments.own_options)) if arguments.own_options else {}


def given_family_options(arguments: argparse.Namespace) -> FamilyOptions:
    """The options of families that were given, those of registered families among them."""
    own = given_own_options(arguments)
    given = {name: getattr(arguments, name) for name in FamilyOptions.__annotations__}
    return cast(FamilyOptions, {**{k: v for k, v in given.items() if v is not None}, **own})


def combined(given: Sequence[str]) -> list[str]:
    """`depth=2,4` and `wide=true` as `depth=2;wide=true` and `depth=4;wide=true`."""
    parts = []
    for text in given:
        name, _, values = text.partition("=")
        parts.append([f"{name}={value}" for value in values.split(",")])
    return [";".join(some) for some in itertools.product(*parts)]


# Costs


TIMES_OF = (
    "of one stage; of a worker, whose stages then divide the times of phases; or of one layer, of"
    " which stages hold several"
)
BALANCE = (
    "layers of stages: equally many if they divide and else by their cost, always by their cost,"
    " or equally many or none"
)


def add_deployment(
    group: argparse._ArgumentGroup, options: Mapping[str, _deployment.Option]
) -> None:
    """Adds options that say how a training is divided."""
    for option in options.values():
        types: dict[str, Callable[[str], Any]] = {
            **{"count": positive, "ratio": float, "choice": str},
            "sizes": partial(_sizes, option),
        }
        group.add_argument(
            f"--{option.flag}",
            type=types[option.kind],
            choices=option.choices if option.kind == "choice" else None,
            default=option.unsaid,
            metavar=_metavar(option),
            help=option.phrase,
        )


def _sizes(option: _deployment.Option, text: str) -> str:
    """A name, or sizes with commas between them."""
    try:
        return option.text(text)
    except PipeSchedError as error:
        raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None


def _metavar(option: _deployment.Option) -> str | None:
    if option.kind == "sizes":
        return "|".join((*option.choices, option.unit.upper() + ",..."))
    return option.unit.upper() or None


SET = (
    "a field of the system, or model.FIELD, and its value: network.bandwidth=0.5x, matrix.tflops="
    "+10%%, link.latency_us=5; may be given several times"
)


def add_settings(group: argparse._ActionsContainer) -> None:
    """Adds `--set`."""
    group.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="FIELD=VALUE", help=SET
    )


def described(arguments: argparse.Namespace) -> tuple[Description | None, Description | None]:
    """The model and the system that were given, with what `--set` changes."""
    return both(
        source(arguments.model, pipesched.models),
        source(arguments.system, pipesched.systems),
        getattr(arguments, "settings", ()),
        UsageError,
    )


def said_of_settings(arguments: argparse.Namespace) -> list[str]:
    """The line about what `--set` changes."""
    model = source(arguments.model, pipesched.models)
    return told(model, source(arguments.system, pipesched.systems), arguments.settings)


_WRITTEN: list[TemporaryDirectory[str]] = []
"""Folders with changed descriptions, which are removed at the end."""


def refused_passes(arguments: argparse.Namespace, what: str) -> UsageError:
    """The error that no pass has `--set`, and what to do."""
    return UsageError(
        f"passes read the {what} from a file; write the changed one with: pipesched show"
        f" --{what} {getattr(arguments, what)} --set ... --format json -o FILE.json"
    )


def held(arguments: argparse.Namespace) -> ParameterBytes | None:
    """The bytes of a parameter, as those of plans; None if the model says them itself."""
    said = getattr(arguments, "parameter_bytes", None)
    framework = said or held_bytes(described(arguments)[0])
    if framework is None:
        return None
    options = {"precision": "bf16", "sharding": "none", **vars(arguments)}
    return parameter_bytes(framework, options["precision"], options["sharding"])


def described_source(arguments: argparse.Namespace, what: str) -> str:
    """The name or file of the model or system, as a pass reads it."""
    changed = dict(zip(("model", "system"), described(arguments), strict=True))[what]
    if not isinstance(changed, Mapping):
        return str(changed)
    if arguments.show_passes:
        raise refused_passes(arguments, what)
    folder = TemporaryDirectory(prefix="pipesched-")
    _WRITTEN.append(folder)
    file = os.path.join(folder.name, f"{what}.json")
    with open(file, "w", encoding="utf-8") as out:
        json.dump(changed, out)
    return file


def add_costs(
    parser: argparse.ArgumentParser, *, recompute: bool = True, several_systems: bool = False
) -> None:
    """Adds the options that give the costs of schedules: `--times`, or `--model` and `--system`.
    Without `recompute` no backward recomputes by itself. `several_systems` makes a list of systems.
    """
    group = parser.add_argument_group("costs")
    group.add_argument(
        "--times",
        metavar="TIMES",
        help="of one stage, with units, F=18.5ms,I=18.1ms,W=9.3ms,comm=0.6ms, or a JSON file",
    )
    group.add_argument("--times-of", choices=names_of(TimesOf), help=TIMES_OF)
    group.add_argument("--model", metavar="NAME|FILE", help="a model that ships, or its JSON file")
    group.add_argument(
        "--system",
        action="append" if several_systems else "store",
        metavar="NAME|FILE",
        help="a system that ships, or its JSON file"
        + ("; may be repeated, to compare them" if several_systems else ""),
    )
    group.add_argument(
        "--microbatch-size", type=positive, metavar="B", help="sequences per microbatch"
    )
    group.add_argument(
        "--global-batch", type=positive, metavar="G", help="sequences per step, in place of B"
    )
    if recompute:
        group.add_argument("--recompute", choices=names_of(Recompute), default="none")
    else:
        parser.set_defaults(recompute="none")
    group.add_argument("--attention", choices=names_of(Attention), help="kernels of attention")
    group.add_argument("--sequence", type=positive, metavar="S", help="tokens of a sequence")
    group.add_argument("--precision", choices=names_of(Precision), default="bf16")
    group.add_argument(
        "--tensor", type=positive, metavar="T", help="degree of tensor parallelism of a worker"
    )
    group.add_argument(
        "--accelerators",
        type=positive,
        metavar="A",
        help="of a worker, which share its work: tensor times context",
    )
    group.add_argument(
        "--no-sequence-parallel",
        dest="sequence_parallel",
        action="store_false",
        help="each of them does norms, dropouts and residuals in full",
    )
    add_deployment(group, _deployment.OPTIONS)
    add_settings(group)
    group.add_argument("--balance", choices=names_of(Balance), default="auto", help=BALANCE)


RESERVE = (
    f"kept free of the memory of an accelerator, such as 4GiB; else {DEFAULT_RESERVE}, what is"
    " known to take it"
)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a model that is trained."""
    parser.add_argument(
        "--model-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the model, such as layers=12; may be repeated",
    )


def add_reserve(parser: argparse.ArgumentParser) -> None:
    """Adds what is kept free of a memory, where rows say what fits."""
    parser.add_argument("--reserve", metavar="BYTES|PART", help=RESERVE)


def add_timing(parser: argparse.ArgumentParser) -> None:
    """Adds the options of messages."""
    group = parser.add_argument_group("timing")
    group.add_argument("--transport", choices=names_of(Transport), default="overlap")
    group.add_argument("--receive-placement", choices=names_of(ReceivePlacement), default="arrival")
    group.add_argument(
        "--runtime",
        choices=names_of(Runtime),
        default="table",
        help="what executes the cells: what the table says, or PyTorch's runtime",
    )


def add_optimizer_step(parser: argparse.ArgumentParser) -> None:
    """Adds the option of the end of a training step."""
    parser.add_argument(
        "--optimizer-step",
        choices=names_of(OptimizerStep),
        default="none",
        help="end the step with gradient all-reduces, beside compute or behind it, and O cells",
    )


def source(text: str | None, shipped: Callable[[], dict[str, Any]]) -> str | None:
    """Turns a name that is not shipped into a path, if such a file exists."""
    if text and text not in shipped() and os.path.exists(text) and os.sep not in text:
        return os.path.join(os.curdir, text)
    return text


# The values of `Costs` without these options.
_DEFAULTS: dict[str, Any] = {
    "recompute": "none",
    "sequence": None,
    "precision": "bf16",
    "accelerators": None,
    "sequence_parallel": True,
    "balance": "auto",
    **{name: option.unsaid for name, option in _deployment.OPTIONS.items()},
}


_OF_MODEL = ("microbatch_size", "global_batch", "sequence", "attention", "recompute", "precision")
"""Options that have no meaning without a model."""


def _check_about_model(arguments: argparse.Namespace) -> None:
    if arguments.model:
        return
    for name in _OF_MODEL:
        if getattr(arguments, name) != _DEFAULTS.get(name):
            raise UsageError(f"--{name.replace('_', '-')} is about --model; none is given")


def given_costs(arguments: argparse.Namespace) -> Costs | None:
    """The costs that were given, or None for unit slots."""
    if bool(arguments.model) != bool(arguments.system) and not arguments.times:
        given, missing = ("model", "system") if arguments.model else ("system", "model")
        raise UsageError(f"--{given} needs --{missing}, or --times")
    if arguments.times_of and not arguments.times:
        raise UsageError("--times-of is about --times; none are given")
    sources = (arguments.times, arguments.model, arguments.system)
    sizes = (arguments.microbatch_size, arguments.global_batch, arguments.attention)
    unlike = any(getattr(arguments, name) != value for name, value in _DEFAULTS.items())
    if not any(sources + sizes) and not unlike and not arguments.settings:
        return None
    _check_about_model(arguments)
    model, system = described(arguments)
    if arguments.times_of == "stage" and names_layers(arguments.times):
        raise UsageError("--times names layers; give --times-of layer, or leave it out")
    return Costs(
        times=arguments.times,
        times_of=arguments.times_of or "stage",
        model=model,
        system=system,
        microbatch_size=arguments.microbatch_size,
        global_batch=arguments.global_batch,
        attention=arguments.attention,
        parameter_bytes=held_bytes(model),
        **{name: getattr(arguments, name) for name in _DEFAULTS},
    )

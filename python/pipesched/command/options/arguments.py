"""Arguments that several verbs share: converting them for the library."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, cast

import pipesched
from pipesched import Costs, Family, FamilyOptions, PipeSchedError
from pipesched.costs import deployment as _deployment
from pipesched.costs.costs import Description
from pipesched.costs.layer_times import names_layers
from pipesched.costs.settings import both, told
from pipesched.schedule.families import canonical as canonical
from pipesched.schedule.registry import options_of_text, own_family
from pipesched.support.text import closest

from . import table
from .table import RARE, Rare

Run = Callable[[argparse.Namespace], int]


class UsageError(Exception):
    """Raised for arguments that exclude each other."""


# Families


@cache
def families() -> dict[str, Family]:
    return pipesched.families()


def options_for(family: str, options: FamilyOptions) -> FamilyOptions:
    own = own_family(family)
    known = own.options if own else families()[family].options
    if options.get("forward_only") and "forward_only" not in known:
        takers = [name for name, each in families().items() if "forward_only" in each.options]
        raise UsageError(
            f"{family} has no option forward-only, and a training step is not compared with an "
            f"evaluation; these families have it: {', '.join(takers)}"
        )
    return cast(FamilyOptions, {k: v for k, v in options.items() if k in known})


def no_option(option: str, names: Sequence[str]) -> PipeSchedError:
    """The error that no family has an option, with the closest one that some family has."""
    own = [option for name in names if (family := own_family(name)) for option in family.options]
    flags = {"chunks": "--vpp", "slices": "--slices", "memory": "--activations"}
    if option in FamilyOptions.__annotations__:
        said = flags.get(option, option.replace("_", "-"))
    else:
        said = f"{option}{closest(option, own)}" if own else option
    return PipeSchedError(f"none of {', '.join(names)} has the option {said}")


def add_family_options(parser: argparse.ArgumentParser, many: Collection[str] = ()) -> None:
    """Adds the sizes and options of families; an option applies to the families that have it."""
    group = parser.add_argument_group("families")
    table.add(group, *table.FAMILY, many=many)


def read_own_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The values of `--option`."""
    return options_of_text(";".join(arguments.own_options)) if arguments.own_options else {}


def read_family_options(arguments: argparse.Namespace) -> FamilyOptions:
    """The options of families that were given, with options of registered families."""
    flags = {"chunks": "chunks", "slices": "slices", "memory": "activations"}
    given = {name: getattr(arguments, dest) for name, dest in flags.items()}
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in read_own_options(arguments).items():
        if name in given:
            raise UsageError(f"the option {name} is given twice")
        given[name] = value
    known = [name for name in FamilyOptions.__annotations__ if name in given]
    return cast(FamilyOptions, {name: given[name] for name in dict.fromkeys([*known, *given])})


def combine(given: Sequence[str]) -> list[str]:
    """`depth=2,4` and `wide=true` as `depth=2;wide=true` and `depth=4;wide=true`."""
    parts = []
    for text in given:
        name, _, values = text.partition("=")
        parts.append([f"{name}={value}" for value in values.split(",")])
    return [";".join(some) for some in itertools.product(*parts)]


# Costs


def read_descriptions(
    arguments: argparse.Namespace,
) -> tuple[Description | None, Description | None]:
    """The model and the system that were given, with the changes of `--set`."""
    return both(
        source(arguments.model, pipesched.models),
        source(arguments.system, pipesched.systems),
        getattr(arguments, "settings", ()),
        UsageError,
        getattr(arguments, "rates", "auto"),
    )


def tell_settings(arguments: argparse.Namespace) -> list[str]:
    """The line about the changes of `--set`."""
    model = source(arguments.model, pipesched.models)
    system = source(arguments.system, pipesched.systems)
    return told(model, system, arguments.settings, getattr(arguments, "rates", "auto"))


def passes_error(arguments: argparse.Namespace, what: str) -> UsageError:
    """The error that no pass has `--set`, with the remedy."""
    return UsageError(
        f"passes read the {what} from a file; write the changed one with: pipesched show"
        f" --{what} {getattr(arguments, what)} --set ... --format json -o FILE.json"
    )


def add_costs(
    parser: argparse.ArgumentParser,
    chosen: Sequence[str] = table.COSTS,
    *,
    many: Collection[str] = (),
    rare: Mapping[str, Rare] = {},
) -> None:
    group = parser.add_argument_group("costs")
    usual: dict[str, Any] = {n: {"default": _DEFAULTS[n]} for n in chosen if n in _DEFAULTS}
    if "system" in many:
        usual["system"] = {"action": "extend"}  # `--system A,B` and `--system A --system B`
    table.add(group, *chosen, many=many, **usual)
    of_costs = {name: RARE[name] for name in table.COST_RARE}
    table.add_set(parser, group, {**of_costs, **rare})


def add_timing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("timing")
    table.add(
        group,
        *("transport", "receive_placement", "optimizer_step"),
        transport={"default": "overlap"},
        receive_placement={"default": "arrival"},
    )


def source(text: str | None, shipped: Callable[[], dict[str, Any]]) -> str | None:
    """Turns a name that is not shipped into a path, if such a file exists; shipped names may have
    other cases of letters.
    """
    names = shipped()
    if text and text not in names and os.path.exists(text) and os.sep not in text:
        return os.path.join(os.curdir, text)
    return next((n for n in names if text and n.casefold() == text.casefold()), text)


# The values of `Costs` without these options.
_DEFAULTS: dict[str, Any] = {
    "recompute": "none",
    "sequence": None,
    "precision": "bf16",
    "accelerators": None,
    "sequence_parallel": True,
    "balance": "auto",
    "rates": "auto",
    "framework": "megatron",
    **{
        name: None if name in _deployment.HABITS else option.unsaid
        for name, option in _deployment.OPTIONS.items()
    },
}


_OF_MODEL = ("microbatch_size", "global_batch", "sequence", "attention", "recompute", "precision")
"""Options that have no meaning without a model."""


def _check_about_model(arguments: argparse.Namespace) -> None:
    if arguments.model:
        return
    for name in _OF_MODEL:
        if getattr(arguments, name) != _DEFAULTS.get(name):
            raise UsageError(f"{arguments.shown[name]} is about --model; none is given")


def read_costs(arguments: argparse.Namespace) -> Costs | None:
    """The costs that were given, or None for unit slots."""
    if bool(arguments.model) != bool(arguments.system) and not arguments.times:
        given, missing = ("model", "system") if arguments.model else ("system", "model")
        raise UsageError(f"--{given} needs --{missing}, or --times")
    if arguments.times_of and not arguments.times:
        raise UsageError("--set times-of is about --times; none are given")
    sources = (arguments.times, arguments.model, arguments.system)
    sizes = (arguments.microbatch_size, arguments.global_batch, arguments.attention)
    unlike = any(getattr(arguments, name) != value for name, value in _DEFAULTS.items())
    if not any(sources + sizes) and not unlike and not arguments.settings:
        return None
    _check_about_model(arguments)
    model, system = read_descriptions(arguments)
    if arguments.times_of == "stage" and names_layers(arguments.times):
        raise UsageError("--times names layers; give --set times-of=layer, or leave it out")
    return Costs(
        times=arguments.times,
        times_of=arguments.times_of or "stage",
        model=model,
        system=system,
        microbatch_size=arguments.microbatch_size,
        global_batch=arguments.global_batch,
        attention=arguments.attention,
        parameter_bytes=getattr(arguments, "parameter_bytes", None),
        **{name: getattr(arguments, name) for name in _DEFAULTS},
    )

"""The options of all verbs, each with one meaning and one help text. A verb names its options, and
the options that take several values (`many`). `--set NAME=VALUE` gives rare options, which have no
flag.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipesched import PipeSchedError
from pipesched.costs import deployment as _deployment
from pipesched.costs.frameworks import FrameworkName
from pipesched.support.options import (
    Attention,
    Balance,
    ForwardSends,
    MemoryTimes,
    Objective,
    OptimizerStep,
    Precision,
    Rates,
    ReceivePlacement,
    Recompute,
    Runtime,
    Sharding,
    TimesOf,
    Transport,
    VocabularyKind,
    names_of,
)
from pipesched.support.text import truth
from pipesched.support.units import DEFAULT_RESERVE
from pipesched.sweeps import grid as _grid

Parse = Callable[[str], Any]


# Values


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


def positive_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a positive number, found {text!r}")
    return value


def yes_or_no(text: str) -> bool:
    try:
        return truth(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def some_of(choices: Collection[str]) -> Parse:
    def read(text: str) -> list[str]:
        given = names(text)
        for name in given:
            if name not in choices:
                raise argparse.ArgumentTypeError(
                    f"expected some of {', '.join(choices)}, found {name!r}"
                )
        return given

    return read


def one_of(choices: Collection[str]) -> Parse:
    def read(text: str) -> str:
        if text not in choices:
            from .names import closest_choice

            near = closest_choice(text, choices)
            raise argparse.ArgumentTypeError(
                f"invalid choice: {text!r}{near} (choose from {', '.join(choices)})"
            )
        return text

    return read


# Options with a flag


@dataclass(frozen=True)
class Option:
    """An option, as every verb has it."""

    flags: tuple[str, ...]
    help: str
    type: Parse = str
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    many: Parse | None = None
    """How a verb that takes several values parses them."""
    action: str | None = None

    def settings(self, many: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"help": self.help}
        if self.action == "store_true":
            return {**found, "action": self.action}
        if self.action:
            found["action"] = self.action
        if many:
            parse = self.many or (some_of(self.choices) if self.choices else names)
            return {**found, "type": parse, "metavar": self.metavar or "NAMES"}
        if self.choices:
            return {**found, "choices": self.choices}
        return {**found, "type": self.type, "metavar": self.metavar}


def _flags(*names: str) -> tuple[str, ...]:
    return tuple(f"--{name}" for name in names)


def _count(flags: Sequence[str], metavar: str, help: str) -> Option:
    return Option(_flags(*flags), help, positive, metavar, many=integers)


OPTIONS: dict[str, Option] = {
    # Schedules
    "name": Option(_flags("name"), "the schedule, row or system of that name", metavar="NAME"),
    "schedules": Option(
        _flags("schedules", "schedule"),
        "families or their other names, such as 1f1b,VPP",
        metavar="FAMILIES",
        many=names,
    ),
    "workers": _count(
        ("pp", "pipeline-parallel"), "D", "pipeline-parallel size: the workers of a pipeline"
    ),
    "microbatches": _count(("microbatches",), "N", "microbatches of a step"),
    "chunks": _count(("vpp", "virtual-stages"), "V", "virtual stages: the stages of a worker"),
    "slices": _count(("slices",), "K", "slices of each microbatch along its tokens"),
    "activations": _count(
        ("activations",), "A", "activations that a worker may hold, in stages of one microbatch"
    ),
    "own_options": Option(
        _flags("option"),
        "an option of a family, such as waves=2 or split-backward=true (`show families` lists"
        " them), or of a family of your own; may be given several times",
        metavar="NAME=VALUE",
        action="append",
    ),
    # Costs
    "times": Option(
        _flags("times"),
        "measured times with units, F=18.5ms,I=18.1ms,W=9.3ms,comm=0.6ms, or a JSON file",
        metavar="TIMES",
    ),
    "model": Option(
        _flags("model"), "a model that ships, or its JSON file", metavar="NAME|FILE", many=names
    ),
    "system": Option(
        _flags("system"), "a system that ships, or its JSON file", metavar="NAME|FILE", many=names
    ),
    "microbatch_size": _count(
        ("microbatch-size", "mbs"), "B", "micro-batch size: sequences of a microbatch"
    ),
    "global_batch": _count(("global-batch", "gbs"), "G", "sequences of a step"),
    "sequence": _count(("sequence",), "S", "tokens of a sequence"),
    "recompute": Option(
        _flags("recompute"), "which activations are recomputed", choices=names_of(Recompute)
    ),
    "precision": Option(_flags("precision"), "of matrix products", choices=names_of(Precision)),
    "rates": Option(
        _flags("rates"),
        "of accelerators: under the load of a training, by default if the system has them, or the"
        " peaks of the data sheet",
        choices=names_of(Rates),
    ),
    "framework": Option(
        _flags("for"),
        "the framework that runs the training: its memory and its defaults; megatron if it is"
        " not given",
        choices=names_of(FrameworkName),
    ),
    "tensor": _count(("tp", "tensor-parallel"), "T", "tensor-parallel size of a worker"),
    "context_parallel": _count(
        ("cp", "context-parallel"), "C", "context-parallel size: parts of a sequence"
    ),
    "expert_parallel": _count(
        ("ep", "expert-parallel"), "E", "expert-parallel size: accelerators that divide experts"
    ),
    "data_parallel": _count(
        ("dp", "data-parallel"), "R", "data-parallel size: pipelines that share a batch"
    ),
    "sharding": Option(
        _flags("sharding"), "what data-parallel pipelines divide", choices=names_of(Sharding)
    ),
    "settings": Option(
        _flags("set"),
        "a rare option of the verb (listed below), or a field of the system, or model.FIELD:"
        " network.bandwidth=0.5x, matrix.tflops=+10%%; may be given several times",
        metavar="NAME=VALUE",
    ),
    # Timing
    "transport": Option(
        _flags("transport"), "how messages occupy workers", choices=names_of(Transport)
    ),
    "receive_placement": Option(
        _flags("receive-placement"),
        "where a worker posts its receives",
        choices=names_of(ReceivePlacement),
    ),
    "optimizer_step": Option(
        _flags("optimizer-step"),
        "end the step with gradient all-reduces, during compute or after it, and O cells",
        choices=names_of(OptimizerStep),
    ),
    "disturbance": Option(
        _flags("disturbance"),
        "slow workers, stages and nodes, and jitter: worker3=1.3,node0=1.1,jitter=5%%; may be"
        " given several times",
        metavar="NAME=FACTOR,...",
        action="append",
    ),
    "memory": Option(
        _flags("memory"),
        "of each accelerator, which schedules have to fit into, such as 60GiB",
        metavar="BYTES",
    ),
    "reserve": Option(
        _flags("reserve"),
        f"kept free of that memory, such as 4GiB or 2GiB+5%%; by default {DEFAULT_RESERVE}, what"
        " is known to take it",
        metavar="BYTES|PART",
        many=names,
    ),
    # Plans and searches
    "gpus": _count(("gpus",), "N", "accelerators in all"),
    "tokens": Option(
        _flags("tokens"),
        "of the whole training, such as 2T or 300B: for its days, cost and energy",
        metavar="TOKENS",
    ),
    "price": Option(_flags("price"), "dollars of an accelerator for an hour", float, "DOLLARS"),
    "top": _count(("top",), "K", "how many of the best are shown"),
    "offload": Option(_flags("offload"), "offload activations to the host", action="store_true"),
    "time": Option(_flags("time"), "how long to search, such as 30s or 2min", metavar="TIME"),
    "seed": Option(_flags("seed"), "of random numbers", int, "SEED"),
    "dtype": Option(_flags("dtype"), "the type of numbers, such as bfloat16", metavar="TYPE"),
    "threads": _count(("threads",), "T", "threads; by default as many as there are cores"),
    # Files
    "draw": Option(
        _flags("draw"),
        "also draw into a file, as its name ends: a page (.html) or, where the verb draws"
        " timelines, .svg, .png, .pdf, .tikz or a trace for Perfetto (.json); KIND:FILE for"
        " other names; may be given several times",
        metavar="FILE",
    ),
    "save": Option(_flags("save"), "also keep the result here", metavar="PATH"),
    "pipeline": Option(
        _flags("pipeline"), "passes to run first, such as pipe-align-slots", metavar="PASSES"
    ),
    "output": Option(("-o", "--output"), "in place of standard output", metavar="FILE"),
    "show_passes": Option(
        _flags("show-passes"),
        "print the command line of pipesched-opt that does the same, and stop",
        action="store_true",
    ),
}
"""The options that several verbs have, by their names in Python."""


def add(
    parser: argparse._ActionsContainer,
    *chosen: str,
    many: Collection[str] = (),
    **changed: Mapping[str, Any],
) -> None:
    """Adds options by their names; names in `many` take lists; `changed` has other arguments."""
    for name in chosen:
        option = OPTIONS[name]
        settings = option.settings(name in many) | {"dest": name}
        parser.add_argument(*option.flags, **{**settings, **changed.get(name, {})})


FAMILY = ("workers", "microbatches", "chunks", "slices", "activations", "own_options")
COSTS = (
    *("times", "model", "system", "microbatch_size", "global_batch", "sequence", "recompute"),
    *("precision", "tensor", "context_parallel", "expert_parallel", "data_parallel", "sharding"),
    *("rates", "framework"),
)

# Rare options


@dataclass(frozen=True)
class Rare:
    """An option that `--set` gives."""

    summary: str
    type: Parse = str
    default: Any = None
    dest: str = ""
    extends: bool = False
    """Whether further values are added to earlier ones."""


def _chosen(choices: object, summary: str, default: Any = None) -> Rare:
    listed: tuple[str, ...] = names_of(choices)
    return Rare(f"{'|'.join(listed)}: {summary}", one_of(listed), default)


def _value(option: _deployment.Option, text: str) -> Any:
    """Parses a number in the range of the option, or sizes."""
    try:
        if option.kind == "sizes":
            return option.text(text)
        return option.check(int(text) if option.kind == "count" else float(text))
    except PipeSchedError as error:
        raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None
    except ValueError:
        kind = "an integer" if option.kind == "count" else "a number"
        raise argparse.ArgumentTypeError(f"expected {kind}, found {text!r}") from None


def _of_deployment(option: _deployment.Option) -> Rare:
    parse = one_of(option.choices) if option.kind == "choice" else partial(_value, option)
    kind = "|".join(option.choices) or option.unit or "a number"
    unsaid = None if option.name in _deployment.HABITS else option.unsaid
    return Rare(f"{kind}: {option.phrase}", parse, unsaid)


DEPLOYMENT = {
    name: _of_deployment(option)
    for name, option in _deployment.OPTIONS.items()
    if name not in OPTIONS
}
"""The rare options that divide a training."""

RARE: dict[str, Rare] = {
    "times_of": _chosen(TimesOf, "the unit of --times; the stages of a worker share its times"),
    "attention": _chosen(Attention, "kernels of attention"),
    "balance": _chosen(
        Balance,
        "layers of stages: equally many if they divide and else by their cost, always by their"
        " cost, or equally many or none",
        "auto",
    ),
    "accelerators": Rare("a number: those of a worker, in place of --tp and --cp", positive),
    "sequence_parallel": Rare(
        "true|false: whether accelerators divide norms, dropouts and residuals", yes_or_no, True
    ),
    "runtime": _chosen(Runtime, "what executes cells: the table, or PyTorch's runtime", "table"),
    "forward_sends": _chosen(ForwardSends, "whether forwards wait for their messages"),
    "vocabulary": _chosen(VocabularyKind, "how the workers divide the head"),
    "memory_times": _chosen(MemoryTimes, "for which times the memory suffices; any by default"),
    "objective": _chosen(Objective, "what is minimized; makespan by default"),
    **DEPLOYMENT,
}
COST_RARE = ("times_of", "attention", "balance", "accelerators", "sequence_parallel", *DEPLOYMENT)


class _Set(argparse.Action):
    """Takes `NAME=VALUE`: a rare option of the verb, or a field for `settings`."""

    def __init__(self, *, rare: Mapping[str, Rare], **given: Any) -> None:
        super().__init__(**given)
        self.rare = rare

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        name, equals, value = (part.strip() for part in values.partition("="))
        key = name.replace("-", "_")
        found = self.rare.get(key)
        if found is None or not equals:
            self._check(name)
            setattr(namespace, self.dest, [*getattr(namespace, self.dest), values])
            return
        if not value:
            raise argparse.ArgumentError(self, f"{name}: expected a value")
        try:
            made = found.type(value)
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise argparse.ArgumentError(self, f"{name}: {error}") from None
        before = getattr(namespace, found.dest)
        setattr(namespace, found.dest, [*before, *made] if found.extends and before else made)
        namespace.rare = {*getattr(namespace, "rare", ()), key}

    def _check(self, name: str) -> None:
        """Refuses a rare option without a dot, as fields have one; names the closest."""
        known = [each.replace("_", "-") for each in self.rare]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near and "." not in name:
            raise argparse.ArgumentError(self, f"no {name}; did you mean {near[0]}?")

    def lines(self) -> list[str]:
        """The lines of `--help` about rare options."""
        return [f"  {key.replace('_', '-'):<20} {rare.summary}" for key, rare in self.rare.items()]


def add_set(
    parser: argparse.ArgumentParser,
    group: argparse._ActionsContainer,
    rare: Mapping[str, Rare],
    prefix: str = "",
) -> None:
    """Adds `--set` with these rare options, whose values are stored like others."""
    own = {key: replace(each, dest=each.dest or f"{prefix}{key}") for key, each in rare.items()}
    add(group, "settings", settings={"action": _Set, "rare": own, "default": []})
    parser.set_defaults(**{each.dest: each.default for each in own.values()})


def rare_of(parser: argparse.ArgumentParser) -> _Set | None:
    """The action of `--set`, if the parser has one with rare options."""
    found = parser._option_string_actions.get("--set")
    return found if isinstance(found, _Set) and found.rare else None

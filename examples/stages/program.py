"""Code that generators share: options, and the schedule that names functions of stages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

from emit import wrapped

POSITIVE = (
    "stages", "microbatches", "microbatch_size", "hidden", "heads", "sequence", "slices",
    "vocabulary",
)


def options(description: str | None, name: str, stages: int) -> argparse.ArgumentParser:
    """A parser with the options that all generators have."""
    parser = argparse.ArgumentParser(
        description=(description or "").split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--name", default=name, help="of the schedule")
    add("--stages", type=int, default=stages)
    add("--workers", type=int, default=0, help="0 takes one per stage")
    add("--path", type=numbers, help="the worker of each stage; without it they take turns")
    add("--microbatches", type=int, default=8, help="of a step; the loss is the mean over them")
    add("--element-type", choices=["f32", "f64", "bf16"], default="f32",
        help="of parameters and activations; bf16 is summed up in f32")
    add("--backward", choices=["split", "whole", "both"], default="split",
        help="gradients of inputs and of weights by two functions, by one, or give all three")
    add("--optimizer", choices=["sgd", "adam"], default="sgd")
    add("--learning-rate", type=float, default=0.1)
    add("--seed", type=int, default=1, help="of the first parameters")
    return parser


def numbers(text: str) -> list[int]:
    """The value of an option that lists numbers: `1,2,2`."""
    return [int(part) for part in text.split(",")]


def check(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Completes and checks the options above; ends the program where they do not fit."""
    for option in POSITIVE:
        value = getattr(chosen, option, 1)
        if value < 1:
            parser.error(f"--{option.replace('_', '-')} is {value}; wanted at least 1")
    chosen.workers = chosen.workers or max(chosen.path or [chosen.stages - 1]) + 1
    if chosen.path is None:
        chosen.path = [stage % chosen.workers for stage in range(chosen.stages)]
    if len(chosen.path) != chosen.stages:
        wanted = f"one for each of the {chosen.stages} stages"
        parser.error(f"--path has {len(chosen.path)} workers; wanted {wanted}")
    for worker in set(chosen.path) - set(range(chosen.workers)):
        parser.error(f"--path names worker {worker}; wanted 0 to {chosen.workers - 1}")


@dataclass
class Stage:
    """The functions of a stage by their role; missing ones are not named."""

    functions: dict[str, str] = field(default_factory=dict)

    def line(self, number: int) -> str:
        clauses = " ".join(f"{kind} @{symbol}" for kind, symbol in self.functions.items())
        return wrapped("  ", f"stage {number} {clauses}")


def schedule(chosen: argparse.Namespace, stages: Sequence[Stage]) -> str:
    """A problem (a schedule without rows) whose stages are these."""
    slices = getattr(chosen, "slices", 1)
    lines = [
        f"pipe.schedule @{chosen.name} workers {chosen.workers} "
        f"microbatches {chosen.microbatches}{f' slices {slices}' * (slices > 1)} {{",
        f"  path on {chosen.path}",
        *(stage.line(number) for number, stage in enumerate(stages)),
        "  data @data", "  target @target", "  loss @loss", "}",
    ]
    return "\n".join(lines)


def comment(text: str) -> str:
    return "\n".join(f"// {line}".rstrip() for line in text.strip().split("\n"))

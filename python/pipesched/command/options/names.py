"""The names of options that are on a command line, and suggestions for wrong ones."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Mapping, Sequence

ELSEWHERE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("tensor-parallel-size", "tensor-model-parallel-size"), ("tp",)),
    **dict.fromkeys(("tp-size", "tensor-parallel-degree"), ("tp",)),
    **dict.fromkeys(("pipeline-parallel-size", "pipeline-model-parallel-size"), ("pp",)),
    **dict.fromkeys(("pp-size", "ranks", "num-stages"), ("pp",)),
    **dict.fromkeys(("replicas", "data-parallel-size", "dp-size"), ("dp", "gpus")),
    **dict.fromkeys(("context-parallel-size", "cp-size"), ("cp",)),
    **dict.fromkeys(("expert-model-parallel-size", "ep-size"), ("ep",)),
    **dict.fromkeys(("micro-batch-size", "micro-batch"), ("microbatch-size",)),
    **dict.fromkeys(("global-batch-size", "batch", "batch-size"), ("global-batch",)),
    **dict.fromkeys(("num-microbatches", "n-microbatches"), ("microbatches",)),
    **dict.fromkeys(("seq", "seq-len", "seq-length", "sequence-length"), ("sequence",)),
    **dict.fromkeys(("num-gpus", "world-size", "devices", "gpus"), ("gpus", "pp")),
    **dict.fromkeys(("num-virtual-stages-per-pipeline-rank", "interleave"), ("vpp",)),
    **dict.fromkeys(("checkpointing", "activation-checkpoint", "remat"), ("recompute",)),
    **dict.fromkeys(("hardware", "cluster", "hw"), ("system",)),
    **dict.fromkeys(("json", "csv", "text", "latex"), ("format",)),
    **dict.fromkeys(("out", "out-file", "file"), ("output",)),
    **dict.fromkeys(("bandwidth", "latency", "override"), ("set",)),
    **dict.fromkeys(("straggler", "slow"), ("disturbance",)),
    **dict.fromkeys(("mem", "memory-budget", "budget"), ("memory",)),
}
"""Names in other tools, and the names here."""

Actions = Mapping[str, argparse.Action]


def same_as(actions: Actions) -> dict[str, frozenset[str]]:
    """By each flag all flags of the same option, with the flag of its name in Python."""
    names: dict[int, set[str]] = {}
    for flag, action in actions.items():
        own = "--" + action.dest.replace("_", "-")
        names.setdefault(id(action), {own}).add(flag)
    return {flag: frozenset(names[id(action)]) for flag, action in actions.items()}


def flags_of(words: Iterable[str], same: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The flags on a command line, by all their names."""
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    return frozenset(given.union(*(same.get(flag, ()) for flag in given)))


# Wrong names


def unknown(words: Sequence[str], actions: Actions) -> str | None:
    """The first word that looks like an option and is none."""
    for word in words:
        if word == "--":
            return None
        flag = word.partition("=")[0]
        if word.startswith("--") and flag not in actions:
            return flag
    return None


def meant(flag: str, actions: Actions) -> tuple[list[str], bool]:
    """The options that a wrong one may have meant, and whether it is another name of them."""
    known = [name for name in actions if name.startswith("--")]
    others = [f"--{name}" for name in ELSEWHERE.get(flag.lstrip("-").casefold(), ())]
    if listed := [name for name in others if name in actions]:
        return listed, True
    near = difflib.get_close_matches(flag.casefold(), known, n=1, cutoff=0.7)
    begun = sorted(name for name in known if name.startswith(flag) or flag.startswith(f"{name}-"))
    return list(dict.fromkeys(near or begun))[:2], False


def closest_choice(value: object, choices: Iterable[object]) -> str:
    """`, the closest is 'full'`; nothing if none is close."""
    listed = [str(choice) for choice in choices]
    near = difflib.get_close_matches(str(value).casefold(), listed, n=1, cutoff=0.6)
    return f", the closest is {near[0]!r}" if near else ""


# Tensor parallelism


def settle_tensor(arguments: argparse.Namespace) -> str | None:
    """Makes a worker of `--tp` accelerators; returns the error of the two, or None."""
    tensor = getattr(arguments, "tensor", None)
    if tensor is None or not hasattr(arguments, "accelerators"):
        return None
    if arguments.accelerators is not None:
        return "give either --tp or --set accelerators, which are tensor times context"
    arguments.accelerators = tensor * arguments.context_parallel
    arguments.flags |= {"--accelerators"}
    return None

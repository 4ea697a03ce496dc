"""Names of verbs and options of the version before, which only `renew` knows and understands. The
whole module is removed with the next version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from .render.drawings import ENDINGS, KINDS

VERBS = {
    **{"compare": "simulate", "overlap": "simulate", "generate": "convert", "export": "run"},
    "verify": "check",
}
"""Verbs by their old names."""

FLAGS = {
    **dict.fromkeys(("workers", "stages"), "--pp"),
    "chunks": "--vpp",
    "tensor": "--tp",
    "context": "--cp",
    "expert": "--ep",
    "data": "--dp",
    **dict.fromkeys(("families", "family"), "--schedules"),
}
"""Options that have another flag."""

SET = (
    *("rank-order", "context-exchange", "used-per-node", "expert-balance", "expert-dispatch"),
    *("kernel-launch", "tensor-exposed", "expert-exposed", "gradient-buckets", "slice-cut"),
    *("slice-exchange", "pair-order", "times-of", "attention", "balance", "accelerators"),
    *("runtime", "forward-sends", "boundary-bytes", "parameter-bytes", "memory-times"),
    *("objective", "sequence-parallel"),
)
"""Options with a value that `--set` gives now."""

OPTION = ("group", "waves", "pairs", "construction", "vocabulary", "backward", "gradient-after")
"""Options of families with a value that `--option` gives now."""

SWITCHES = {
    "no-sequence-parallel": ("--set", "sequence-parallel=false"),
    **{
        f"{no}{name}": ("--option", f"{name}={value}")
        for name in ("split-backward", "embedding")
        for no, value in (("", "true"), ("no-", "false"))
    },
}
"""Options without a value."""

Rewrite = Callable[[str], list[str]]
"""Makes the new words of the value of an old option."""


def _to(*words: str, join: str = "") -> Rewrite:
    """The value, after these words; `join` comes between the last one and the value."""
    if join:
        return lambda value: [*words[:-1], f"{words[-1]}{join}{value}"]
    return lambda value: [*words, value]


def _set(name: str) -> Rewrite:
    return _to("--set", name, join="=")


def _draw(kind: str) -> Rewrite:
    def drawn(value: str) -> list[str]:
        is_usual = ENDINGS.get(Path(value).suffix) == kind
        return ["--draw", value if is_usual else f"{kind}:{value}"]

    return drawn


def _slow(what: str) -> Rewrite:
    def slowed(value: str) -> list[str]:
        return ["--disturbance", ",".join(f"{what}{part}" for part in value.split(","))]

    return slowed


def _memory(value: str) -> list[str]:
    flag = "--activations" if re.fullmatch(r"[\d,:x]+", value) else "--memory"
    return [flag, value]


USUAL: dict[str, Rewrite] = {
    **{name: _to(flag) for name, flag in FLAGS.items()},
    **{name: _set(name) for name in SET},
    **{name: _to("--option", name, join="=") for name in OPTION},
    **{kind: _draw(kind) for kind in KINDS},
    **{f"slow-{what}": _slow(what) for what in ("worker", "stage", "node")},
    **{name: _to("--disturbance", name, join="=") for name in ("jitter", "seeds")},
    "memory": _memory,
}

_COMPILED = (
    *("stage-pipeline", "load-pass-plugin", "load-dialect-plugin", "form"),
    *("messages", "tolerance", "mpicc", "mpirun", "tool"),
)


def _positional(value: str) -> list[str]:
    return [value]


_SHAPES = {"split-backward": _to("--option", "split-backward", join="=")}
OF_VERBS: dict[str, dict[str, Rewrite]] = {
    "plan": {"vocabulary": _set("vocabulary"), "memory": _to("--memory")},
    "whatif": {"vocabulary": _set("vocabulary"), "memory": _to("--memory")},
    "sweep": {**_SHAPES, "embedding": _to("--option", "embedding", join="=")},
    "optimize": {
        **dict.fromkeys(("schedule", "schedules", "family", "families"), _positional),
        "waves": _set("waves"),
        "microbatch-sizes": _to("--microbatch-size"),
    },
    "run": {
        "model": _positional,
        "select": _to("--name"),
        "receives": _to("--receive-placement"),
        **{n: _set(n) for n in ("memory-budget", "search-seconds", "timeout", "warmup")},
        **{n: _set(n) for n in ("calibration", *_COMPILED)},
    },
    "export": {**{n: _to("--export") for n in ("output", "o")}, "batches": _set("batches")},
    "overlap": {n: _set(n) for n in ("layers", "forward", "backward", "contention")},
    "generate": {
        **dict.fromkeys(("schedule", "schedules", "family", "families"), _positional),
        "format": lambda value: ["--to", {"json": "cells", "csv": "torch-csv"}.get(value, "mlir")],
    },
    "fit": {"peak-tflops": _to("--set", "matrix.tflops", join="=")},
    "reproduce": {
        n: _set(n)
        for n in (
            *("systems", "durations", "message-volume", "ratio", "blocks", "slots", "families"),
            *("factors", "searched"),
        )
    },
}
"""Differences for a verb."""

OWN_SWITCHES: dict[str, dict[str, tuple[str, ...]]] = {
    "show": {f"{name}": (name,) for name in ("families", "models", "systems")},
    "sweep": {},
    "optimize": {
        "split-backward": ("--set", "split-backward=true"),
        "no-split-backward": ("--set", "split-backward=false"),
    },
    "run": {n: ("--set", f"{n}=true") for n in ("one-by-one", "blocking", "no-update")},
    "export": {"no-compare": ("--set", "compare=false")},
    "overlap": {"whole-backward": ("--set", "whole-backward=true")},
    "generate": {"align": ("--pipeline", "pipe-align-slots")},
}


def renew(words: Sequence[str]) -> tuple[list[str], str]:
    """The command line with new names, and the line that says them; empty without old ones."""
    if not words or words[0].startswith("-"):
        return list(words), ""
    if words[0] == "completion":
        made = ["--print-completion", *words[1:2]]
        return made, f"pipesched completion is now pipesched {' '.join(made)}"
    old, said = words[0], {}
    verb = VERBS.get(old, old)
    if verb != old:
        said[old] = verb
    found = [verb]
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            found += [word, *rest]
            break
        new, took = _new(old, word, rest)
        if new is None:
            found.append(word)
            continue
        del rest[:took]
        is_flag = new[0].startswith("-") or new[0] in ("families", "models", "systems")
        said[word.partition("=")[0]] = " ".join(new) if is_flag else f"{new[0]} without a flag"
        found += new
    if old == "overlap" and "--order" not in found:
        found += ["--order", "all"]
        said[old] = "simulate --order"
    if not said:
        return list(words), ""
    listed = "; ".join(f"{name} is now {now}" for name, now in said.items())
    return found, f"old names: {listed}"


def _new(verb: str, word: str, rest: Sequence[str]) -> tuple[list[str] | None, int]:
    """The new words for an old name, and the number of further ones it takes; None for others."""
    flag, is_joined, value = word.partition("=")
    name = flag.removeprefix("--") if flag.startswith("--") else "o" if flag == "-o" else ""
    if not name:
        return None, 0
    switches = SWITCHES | OWN_SWITCHES.get(verb, {})
    if verb == "sweep":
        switches = {}
    if name in switches and not is_joined:
        return list(switches[name]), 0
    rewrite = {**USUAL, **OF_VERBS.get(verb, {})}.get(name)
    if rewrite is None or not (is_joined or rest):
        return None, 0
    new = rewrite(value if is_joined else rest[0])
    if new[0] == flag:
        return None, 0
    return new, 0 if is_joined else 1

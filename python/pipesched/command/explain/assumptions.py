"""The assumptions of a verb: every default that was not given and can move an answer by over 1 %.

`test/python/command/test_assumed.py` changes each of them and measures the effect.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pipesched import Configuration, Costs, Schedule, _core
from pipesched.costs import deployment as _deployment
from pipesched.costs.costs import has_experts
from pipesched.costs.division import Counts
from pipesched.costs.frameworks import FRAMEWORKS, bytes_text
from pipesched.results.configuration import UNIT, takes_backward
from pipesched.schedule.families import overlaps
from pipesched.support.units import DEFAULT_RESERVE, reserve_text

from ..options.arguments import families

MOVED_IN_CELLS = ("gradients", "full")
"""The kinds of sharding by which cells wait for weights, or for gradients that are reduced."""

Given = Callable[[str], bool]
"""Whether the user gave an argument, by its name in Python."""

Facts = dict[str, str]
"""Assumptions by subject."""

Sizes = Sequence[tuple[int, int]]
"""Numbers of microbatches, and the sequences of each."""

FAMILY_DEFAULTS = {
    "chunks": "2",
    "waves": "one",
    "pairs": "one",
    "memory": "2D",
    "construction": "concat",
    "slices": "one",
    "vocabulary": "vocab-1",
    "backward": "as the costs say, or 200 % of F",
    "embedding": "in S and T",
    "split_backward": "the family's",
    "gradient_after": "the family's",
}
"""The defaults of options of families."""

OF_SLICED = {
    "seq1f1b": {"chunks": "one", "slices": "4"},
    "slimpipe": {"chunks": "one", "slices": "D"},
    "terapipe": {"slices": "4"},
}
"""Also of families over slices, if it differs."""


def was_given(arguments: argparse.Namespace) -> Given:
    def is_given(name: str) -> bool:
        flag = name.replace("_", "-")
        return f"--{flag}" in arguments.flags or f"--no-{flag}" in arguments.flags

    return is_given


# Facts


def assume_model(costs: Costs, is_given: Given) -> Facts:
    model = json.loads(costs._raw.model())
    found = {"sequence": str(model["sequence"] or "not known"), "attention": model["attention"]}
    found |= {"precision": costs.precision, "recompute": costs.recompute}
    return {name: value for name, value in found.items() if not is_given(name)}


def _batch(costs: Costs, is_given: Given, sizes: Sizes) -> Facts:
    """The size of microbatches, if it follows from the model's own batch."""
    if is_given("microbatch_size") or is_given("global_batch") or not sizes:
        return {}
    batch = _core.sizes(costs._raw)["global_batch"]
    if len({size for _, size in sizes}) == 1:
        listed = str(sizes[0][1])
    else:
        listed = "/".join(f"{size} at N={count}" for count, size in sorted(set(sizes)))
    return {"microbatch size": f"{listed} (the model's batch of {batch})"}


def _system(costs: Costs, is_given: Given, *, sliced: bool, paired: bool) -> Facts:
    found: Facts = {}
    if not is_given("accelerators"):
        found["GPUs/worker"] = str(costs._accelerators)
    if not is_given("sequence_parallel") and costs._accelerators != 1:
        found["sequence parallelism"] = "on" if costs.sequence_parallel else "off"
    for name, option in _deployment.OPTIONS.items():
        if is_given(name) or not _matters(costs, option, sliced=sliced, paired=paired):
            continue
        found[option.title] = show_value(getattr(costs, name))
    return found


def _matters(costs: Costs, option: _deployment.Option, *, sliced: bool, paired: bool) -> bool:
    """Whether an option of a deployment can move an answer, given the values of the others."""
    if option.matters == "experts":
        ranks = (costs._accelerators or 1) * costs.data_parallel
        return ranks > 1 and has_experts(costs)
    if option.matters == "slices":
        return sliced and costs.model is not None
    if option.matters == "pairs":
        return paired and costs.expert_parallel > 1
    if option.name in costs._assumed and option.matters == "given":
        is_tensor = option.name == "tensor_overlap"
        divides = not is_tensor or (costs._accelerators or 1) > costs.context_parallel
        return divides and getattr(costs, option.name) != option.unsaid
    if option.name == "sharding":  # Megatron-LM divides among the parts of sequences, too
        return costs.data_parallel * costs.context_parallel > 1
    if option.matters in _deployment.OPTIONS:
        return int(getattr(costs, option.matters)) > 1
    return option.matters == "always"


def show_value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def are_messages_free(costs: Costs | None) -> bool:
    """Whether messages take no time because no cost was given for them."""
    if costs is None or (costs.model and costs.system):
        return costs is None
    return not {"comm", "send"} & costs._timed_names


def assume_memory(costs: Costs | None, is_given: Given, *, reserve: bool = False) -> Facts:
    """The framework whose memory is counted, and the reserve if rows say whether they fit."""
    found: Facts = {}
    if costs is None or costs.model is None or costs.system is None:
        return found
    if reserve and not is_given("reserve"):
        found["reserve"] = reserve_text(DEFAULT_RESERVE, has_experts(costs))
    held = costs.bytes_per_parameter
    name = costs.parameter_bytes or costs.framework
    if held is not None and isinstance(name, str) and name != "none":
        found["memory as in"] = f"{FRAMEWORKS[name].title} ({bytes_text([held])})"
    return found | assume_rates(costs)


def assume_rates(costs: Costs) -> Facts:
    """The assumed rates of accelerators, unless the system gives others."""
    if costs.rates != "auto":
        return {}
    if _core.sizes(costs._raw)["is_under_load"]:
        return {"rates": "under load"}
    return {"rates": "as the system has them (none under load)"}


def has_overlap(
    costs: Costs | None, families: Iterable[str] = (), stored: Iterable[Schedule] = ()
) -> bool:
    """Whether cells overlap in schedules of these families or files; only experts make a
    difference.
    """
    if not has_experts(costs):
        return False
    rows = (row for each in stored if each.kind == "schedule" for row in each.rows)
    return any(overlaps(name, ()) for name in families) or any(
        "+" in (entry or "") for row in rows for entry in row
    )


def assume_costs(
    costs: Costs | None,
    is_given: Given,
    sizes: Sizes = (),
    *,
    sliced: bool = False,
    paired: bool = False,
) -> Facts:
    """The assumptions of the costs at these numbers of microbatches and their sizes."""
    found: Facts = {}
    if costs is not None and costs.model:
        found |= assume_model(costs, is_given) | _batch(costs, is_given, sizes)
    if costs is not None and costs.system:
        found |= _system(costs, is_given, sliced=sliced, paired=paired)
        found |= assume_times(costs)
    layer_times = costs._division.layer_times if costs is not None else None
    if layer_times is not None and not layer_times.has_ends:
        found["embedding and head"] = "free (no times)"
    if are_messages_free(costs):
        found["messages"] = "free (no comm)"
    return found


def assume_times(costs: Costs) -> Facts:
    """That measured times cover only compute, if cells do more."""
    moves = costs.sharding in MOVED_IN_CELLS and costs.data_parallel * costs.context_parallel > 1
    if costs.times is None or costs.model is None or not moves:
        return {}
    return {"times": f"without what sharding={costs.sharding} moves in cells"}


def assume_layers(
    points: Iterable[tuple[Costs | None, Sequence[Counts] | None]], is_given: Given
) -> Facts:
    """How costs and rules divide the layers of schedules among their stages."""
    stages: dict[int, set[int]] = {}
    said: dict[str, None] = {}
    for costs, counts in points:
        if costs is None or is_given("balance") or not costs._division.divides_costs:
            continue
        if counts is None:
            said["even"] = None
        else:
            stages.setdefault(costs._division.layers, set()).add(len(counts[0]))
    for layers, several in stages.items():
        listed = " or ".join(map(str, sorted(several)))
        said[f"balanced by cost ({layers} on {listed} stages)"] = None
    return {"layers": " or ".join(said)} if said else {}


def assume_timing(
    defaults: Mapping[str, Any], is_given: Given, costs: Sequence[Costs | None] = ()
) -> Facts:
    """Options of timing with their values. With free messages no transport matters."""
    found = {n.replace("_", " "): str(v) for n, v in defaults.items() if not is_given(n)}
    if costs and all(map(are_messages_free, costs)):
        found.pop("transport", None)
        found.pop("receive placement", None)
    if costs and all(map(_is_step_free, costs)):
        found.pop("optimizer step", None)
    return found


def _is_step_free(costs: Costs | None) -> bool:
    """Whether the end of a training step takes no time."""
    if costs is None or (costs.model and costs.system):
        return False
    return not {"O", "G"} & costs._timed_names


def assume_families(
    names: Collection[str], is_given: Given, points: Iterable[Configuration] = ()
) -> Facts:
    """The options that these families have and that were not given."""
    generated = families()  # a place of a Python function is not a family
    found: dict[str, list[str]] = {}
    taking = (point.made_options for point in points if takes_backward(point.family))
    made = sorted({options.get("backward", UNIT) for options in taking})
    shown = " or ".join(f"{percent} %" for percent in made)
    usuals = FAMILY_DEFAULTS | ({"backward": f"{shown} of F"} if shown else {})
    for option, usual in usuals.items():
        having = [name for name in names if name in generated and option in generated[name].options]
        if not having or is_given(option):
            continue
        values = [OF_SLICED.get(name, {}).get(option, usual) for name in having]
        said = " or ".join(dict.fromkeys(values))
        found.setdefault(said, []).append(option.replace("_", "-"))
    return {" and ".join(options): value for value, options in found.items()}


def assume_seed(texts: Iterable[str | None]) -> Facts:
    """The seed of disturbances with jitter and no seed; None if there is no disturbance."""
    for text in filter(None, texts):
        names = {entry.partition("=")[0].strip() for entry in text.split(",")}
        if "jitter" in names and "seed" not in names:
            return {"jitter": "with seed 0"}
    return {}


# Lines


def join(facts: Iterable[Facts]) -> Facts:
    """Several as one: values that differ are listed one after the other."""
    found: dict[str, dict[str, None]] = {}
    for fact in facts:
        for name, value in fact.items():
            found.setdefault(name, {})[value] = None
    return {name: " or ".join(values) for name, values in found.items()}


def notes_of(costs: Iterable[Costs | None]) -> list[str]:
    """Assumptions and omissions of the readers of models, and heads that the framework refuses."""
    notes: dict[str, None] = {}
    for each in costs:
        if each is not None and each.model:
            read = json.loads(each._raw.model())
            found = [*read["notes"], *_refused_heads(each)]
            notes |= dict.fromkeys(f"note: {read['model']}: {note}" for note in found)
    return list(notes)


def _refused_heads(costs: Costs) -> list[str]:
    """Why the framework does not divide the key-value heads by this tensor size, if so."""
    tensor = (costs._accelerators or 1) // costs.context_parallel
    heads = _core.sizes(costs._raw)["key_value_heads"]
    if costs.framework == "none" or not heads or heads % tensor == 0:
        return []
    from pipesched.planning.launch.rules import VERSIONS, Layout, broken_rules

    layout, version = Layout(tensor=tensor, key_value_heads=heads), VERSIONS[costs.framework][0]
    return [each.text for each in broken_rules(costs.framework, version, layout)]


def keys_of(costs: Costs | None) -> dict[str, Any]:
    """The costs that rows state, given or assumed."""
    found: dict[str, Any] = dict.fromkeys(
        (
            *("sequence", "attention", "precision", "recompute", "accelerators", "data_parallel"),
            *("slice_cut", "slice_exchange"),
        )
    )
    if costs is not None and costs.model:
        model = json.loads(costs._raw.model())
        found |= {"sequence": model["sequence"], "attention": model["attention"]}
        found |= {"precision": costs.precision, "recompute": costs.recompute}
    if costs is not None and costs.system:
        found |= {"accelerators": costs._accelerators, "data_parallel": costs.data_parallel}
        found |= {"slice_cut": costs.slice_cut, "slice_exchange": costs.slice_exchange}
    return found


def head_lines(facts: Facts, costs: Sequence[Costs | None] = ()) -> list[str]:
    listed = ", ".join(f"{name} {value}" for name, value in facts.items())
    return [*([f"assumed: {listed}"] if listed else []), *notes_of(costs)]

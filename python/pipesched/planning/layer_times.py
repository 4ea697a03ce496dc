"""Times of layers that somebody measured. They hold for the tensor degree, the size of microbatches
and the recomputation at which they were measured; the search uses only these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..costs.costs import Costs, Times
from ..costs.layer_times import LayerTimes, names_layers
from ..costs.stage_times import entries_of, listed_stages
from ..errors import PipeSchedError
from ..support.options import Recompute, TimesOf, code_of, names_of

if TYPE_CHECKING:
    from .request import Request

NAMES = {
    "tensor": "tensor degree",
    "microbatch_size": "microbatch size",
    "recompute": "kind of recomputation",
    "context": "context degree",
}
"""The fields of shapes and of requests for which such times hold."""

_ENDS_OF_STEPS = {"G": "the reduction of gradients", "O": "the optimizer"}

_ABOUT_A_MODEL = (
    "microbatch_size",
    "sequence",
    "attention",
    "precision",
    "sequence_parallel",
    "recompute",
    "parameter_bytes",
)


def kind_of(times: Times | None, times_of: TimesOf | None) -> TimesOf | None:
    """The unit of the times (stage, worker or layer), as given or as they say themselves."""
    if times is None:
        if times_of is not None:
            raise PipeSchedError("times_of is about times; none are given")
        return None
    named = names_layers(times)
    given: TimesOf = times_of or ("layer" if named else "stage")
    code_of(TimesOf, "times_of", given)
    if named and given != "layer":
        raise PipeSchedError(f"the times name layers, so that they are not of a {given}")
    return given


def to_layers(times: Times, times_of: TimesOf, layers: int, pp: Sequence[int] | None) -> Times:
    """The times as times of layers; times of stages or workers are divided among `layers`."""
    if times_of == "layer":
        return times
    Costs(times=times)  # raises if the times are wrong
    entries = entries_of(times)
    count = listed_stages(entries) or (pp[0] if pp and len(pp) == 1 else None)
    if count is None:
        raise PipeSchedError(
            f"times of one {times_of} hold for one number of stages; give that number alone"
            " (pp), a time for each of them, or the times of layers (times_of)"
        )
    if not layers:
        raise PipeSchedError(
            f"times of {count} stages are divided among the layers of a model; give a model, or"
            " the times of layers"
        )
    if layers % count:
        raise PipeSchedError(
            f"times of {count} stages: the model has {layers} layers, which those stages do not"
            " divide; give the times of layers"
        )
    found = LayerTimes.of_stages(entries, count, layers)
    return {**found.messages, **{f"layers.{name}": each for name, each in found.layers.items()}}


def fix_choices(request: Request) -> dict[str, tuple[Any, ...]]:
    """The choices of a request with times: the values at which the times were measured."""
    found: dict[str, tuple[Any, ...]] = {}
    for name in NAMES:
        values = getattr(request, name, (1,))
        if name == "recompute" and values == names_of(Recompute):
            values = ("none",)
        if name == "context" and values is None:
            values = (1,)
        if values is None or len(values) != 1:
            found_here = f"; found {', '.join(map(str, values))}" if values else ""
            raise PipeSchedError(
                f"times hold for the one {NAMES[name]} at which they were measured; say which"
                f" ({name}){found_here}"
            )
        found[name] = tuple(values)
    return found


def make_costs(request: Request, **options: Any) -> Costs:
    """The costs of a request; without a model, options that are about one are left out."""
    if request.model is None:
        options = {name: v for name, v in options.items() if name not in _ABOUT_A_MODEL}
    if request.times is not None:
        options |= {"times": request.times, "times_of": "layer"}
    return Costs(rates=request.rates, framework=request.framework.name, **options)


def holds(request: Request, changes: Mapping[str, Any]) -> bool:
    """Whether the times, if there are any, hold for a changed shape."""
    return request.times is None or not NAMES.keys() & changes.keys()


def header_lines(request: Request) -> list[str]:
    """The first lines of a plan about its times."""
    if request.times is None:
        return []
    assert request.tensor is not None and request.microbatch_size is not None
    division = request.described._division
    of = f"{division.layers} layers"
    if request.times_of != "layer":
        of = f"{request.times_of}s, divided evenly among {of}, embedding and head included"
    found = [
        f"times are those of {of}, at tensor {request.tensor[0]}, microbatches of"
        f" {request.microbatch_size[0]} and recompute {request.recompute[0]}; no others are"
        " searched"
    ]
    has_ends = division.layer_times is not None and division.layer_times.has_ends
    if request.times_of == "layer" and not has_ends:
        found.append("embedding and head have no times, and are free")
    if request.model is None:
        unknown = [] if request.sequence else ["tokens"]
        unknown += ["memory", "FLOPs"]
        timed = request.described._timed_names
        unknown += [what for name, what in _ENDS_OF_STEPS.items() if name not in timed]
        found.append(
            f"without a model {', '.join(unknown[:-1])} and {unknown[-1]} are not known: all"
            " configurations count as if they fit"
        )
    return found

"""The assumptions of a plan, as `assumptions` says those of schedules."""

from __future__ import annotations

from pipesched.costs import deployment as _deployment
from pipesched.costs.division import SPREAD
from pipesched.costs.frameworks import bytes_text
from pipesched.planning import Request
from pipesched.planning.space.heads import spread_by
from pipesched.planning.space.space import may_overlap, may_slice
from pipesched.support.units import reserve_text

from . import assumptions


def assume_plan(request: Request, is_given: assumptions.Given) -> assumptions.Facts:
    """What a plan assumes."""
    found: assumptions.Facts = {}
    if request.model is not None:
        found = assumptions.assume_model(request.described, is_given)
        found.pop("recompute", None)  # the plan chooses
        found["precision"] = request.precision
    if request.times is not None and assumptions.are_messages_free(request.described):
        found["messages"] = "free (no comm)"
    listed = spread_by(request) if request.schedules is None else request.schedules
    searches_both = any(family in SPREAD for family in listed)
    receives = "arrival or consumer" if searches_both else "arrival"
    found |= {"transport": request.transport, "receive placement": receives, "runtime": "table"}
    if request.model is not None:
        found["reserve"] = reserve_text(request.reserve_text, request.has_experts)
        found |= _assume_division(request)
    found = {n: value for n, value in found.items() if not is_given(n.replace(" ", "_"))}
    if request.model is not None and request.own_bytes is None and not is_given("for"):
        found["memory as in"] = _held_text(request)
    if request.model is not None:
        found |= assumptions.assume_rates(request.described)
    return found


def _assume_division(request: Request) -> assumptions.Facts:
    """How configurations divide tensors, sequences and experts, of those that may."""
    found: assumptions.Facts = {}
    if request.gpus == 1:
        return found
    if request.spares:
        whole = request.sizes["accelerators_per_node"]
        found["used per node"] = f"{request.node} of {whole} accelerators"
    if request.tensor != (1,):
        found["sequence parallelism"] = "on" if request.sequence_parallel else "off"
    some_experts = bool(request.experts) and request.expert != (1,)
    are_divided = {
        "experts": some_experts,
        "expert_parallel": some_experts,
        "slices": may_slice(request),
        "pairs": some_experts and may_overlap(request),
        "given": False,
    }
    for name, option in _deployment.HELD.items():
        if are_divided.get(option.matters, True):
            found[option.title] = assumptions.show_value(request.held[name])
    return found


def _held_text(request: Request) -> str:
    """Whose memory is counted, such as `Megatron-LM (2 + 4 + 12 bytes a parameter)`."""
    kinds = map(request.parameter_bytes, request.sharding or ())
    return f"{request.framework.title} ({bytes_text(kinds)})"

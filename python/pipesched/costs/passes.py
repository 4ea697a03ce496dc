"""The passes of `pipesched-opt` that attach costs to schedules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..support.files import write_whole
from ..support.options import one_pass
from .costs import _FILE, _JSON, Costs, Description, _description, own_bytes
from .deployment import unlike
from .stage_times import Place


def source_option(what: str, given: Description, folder: str = "") -> dict[str, str]:
    """Returns the option of a pass for a description; fields are written to a file in `folder`."""
    source = _description(given)
    assert source is not None
    kind, text = source
    if kind == _JSON:
        file = Path(folder, f"{what}.json")
        write_whole(file, text.encode())
        return {"file": str(file)}
    return {"file" if kind == _FILE else "name": text}


def attach_model(costs: Costs, folder: str = "") -> str:
    assert costs.model is not None
    held = costs.bytes_per_parameter
    if held == own_bytes(costs.model):
        held = None  # the pass reads them from the model
    options = {
        **source_option("model", costs.model, folder),
        "microbatch-size": costs.microbatch_size,
        "global-batch": costs.global_batch,
        "sequence": costs.sequence,
        "boundary-bytes": costs.boundary_bytes,
        "parameter-bytes": ",".join(map(str, held)) if held else None,
        "recompute": None if costs.recompute == "none" else costs.recompute,
        "attention": costs.attention,
        "precision": None if costs.precision == "bf16" else costs.precision,
        "sequence-parallel": None if costs.sequence_parallel else False,
    }
    return one_pass("pipe-attach-model", options)


def attach_system(
    costs: Costs, folder: str = "", *, effective: bool = False, layer_buckets: bool = False
) -> str:
    """With `effective` only options that matter alongside the others; with `layer_buckets`
    gradients are reduced by layers, as `Configuration` does for a step that overlaps them.
    """
    assert costs.system is not None
    costs.check_form()
    options = {
        **source_option("system", costs.system, folder),
        "rates": None if costs.rates == "auto" else costs.rates,
        "accelerators": costs.accelerators,
        **unlike(vars(costs), effective=effective),
        # The parts of a sequence hold the same parameters, as the replicas do.
        "sharding": None if costs.sharding == "none" else costs.sharding,
    }
    if layer_buckets:
        options.setdefault("gradient-buckets", "layers")
    return one_pass("pipe-attach-system", options)


def attach_times(costs: Costs, places: Sequence[Place]) -> list[str]:
    """The pass that attaches the times of the stages of these places; none without own times."""
    if costs.times is None:
        return []
    return [one_pass("pipe-attach-profile", {"times": costs._for(places).times})]

"""The device of a rank, and what must hold of it before the first message."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from ..core.errors import PipelineError
from ..core.watch import Watch
from ..partition.placement import Placement, show

HOST = torch.device("cpu")


def device_of(
    placement: Placement, given: torch.device | str | None, is_ordered: bool
) -> torch.device:
    """Returns the device of a rank: that given, that of its first parameter, or with NCCL the
    current one.
    """
    first = next((p.device for m in placement.roots() for p in m.parameters()), None)
    found = torch.device(given) if given is not None else first
    if found is None:
        found = torch.device("cuda" if is_ordered and torch.cuda.is_available() else "cpu")
    if found.type == "cuda" and found.index is None:
        found = torch.device("cuda", torch.cuda.current_device())
    _check_parameters(placement, found)
    return found


def _check_parameters(placement: Placement, device: torch.device) -> None:
    for key, module in placement.modules.items():
        for name, parameter in module.named_parameters():
            if parameter.device != device and not isinstance(parameter, DTensor):
                raise PipelineError(
                    f"{show(key)} has parameter {name!r} on {parameter.device}, and this rank "
                    f"computes on {device}; move its stages to one device before"
                )


def prepare(group: dist.ProcessGroup, device: torch.device, watch: Watch, is_ordered: bool) -> None:
    """Makes an accelerator the current one, and connects the ranks: groups such as NCCL's connect
    at the first call, which has to be of all ranks.
    """
    if device.type != "cuda":
        return
    torch.cuda.set_device(device)
    if not is_ordered:
        return
    mine = str(torch.cuda.get_device_properties(device).uuid)
    everyone = watch.meet("devices", mine)
    twice = [rank for rank, other in enumerate(everyone) if other == mine]
    if len(twice) > 1:
        raise PipelineError(
            f"ranks {twice} compute on one device ({device} of rank {watch.rank}), which the "
            "backend of the group does not allow; give each its own, by `device` or "
            "torch.cuda.set_device"
        )
    number = torch.zeros(1, device=device)
    what = lambda: "all ranks to connect"
    work: Any = watch.start_call(lambda: dist.all_reduce(number, group=group, async_op=True), what)
    watch.wait_for(number, work, what)
    watch.wait(lambda: torch.cuda.synchronize(device), what)


def await_device(device: torch.device, watch: Watch) -> None:
    """Waits until an accelerator has done what was issued. The host sleeps meanwhile."""
    event = cast(Any, torch.cuda.Event)(blocking=True)
    torch.cuda.current_stream(device).record_event(event)
    watch.wait(event.synchronize, lambda: "the device to finish the step")

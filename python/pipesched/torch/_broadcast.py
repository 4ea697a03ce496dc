"""Values that one rank computes for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ._errors import RemoteError


def _device(group: dist.ProcessGroup) -> torch.device:
    """The device from which the group takes tensors: NCCL takes them only from GPUs."""
    untyped: Any = group
    if torch.device("cpu") in untyped._device_types:
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def from_first(find: Callable[[], Any], group: dist.ProcessGroup) -> Any:
    """Returns on all ranks of a group what `find` returns on the first one. The value is sent as
    JSON: torch.distributed sends objects as pickles, and a pickle can run code of the peer. An
    exception is raised on the first rank as it is and on the others as a RemoteError.
    """
    if dist.get_rank(group) == 0:
        try:
            found = find()
        except Exception as error:
            _broadcast({"error": f"{type(error).__name__}: {error}"}, group)
            raise
        _broadcast({"found": found}, group)
        return found
    said = json.loads(_receive(group))
    if "error" in said:
        raise RemoteError(f"rank 0 failed: {said['error']}", 0)
    return said["found"]


def _broadcast(saying: Any, group: dist.ProcessGroup) -> None:
    contents = bytearray(json.dumps(saying).encode())
    device = _device(group)
    dist.broadcast(torch.tensor([len(contents)], device=device), group=group, group_src=0)
    dist.broadcast(
        torch.frombuffer(contents, dtype=torch.uint8).to(device), group=group, group_src=0
    )


def _receive(group: dist.ProcessGroup) -> bytes:
    device = _device(group)
    count = torch.zeros(1, dtype=torch.int64, device=device)
    dist.broadcast(count, group=group, group_src=0)
    contents = torch.empty(int(count.item()), dtype=torch.uint8, device=device)
    dist.broadcast(contents, group=group, group_src=0)
    return contents.cpu().numpy().tobytes()

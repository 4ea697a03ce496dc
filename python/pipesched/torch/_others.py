"""What is not the model but goes on with it: schedulers, scalers, and random states, as bytes."""

from __future__ import annotations

import io
import pickle
from typing import Any, Protocol

import torch
from torch import Tensor

from ._errors import PipelineError


class Stateful(Protocol):
    """Anything with a state, such as a scheduler of learning rates."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Takes a state."""


def as_bytes(state: Any) -> Tensor:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def from_bytes(contents: Tensor) -> Any:
    try:
        return torch.load(io.BytesIO(contents.numpy().tobytes()), weights_only=True)
    except pickle.UnpicklingError as error:
        first = str(error).split("\n", 1)[0]
        raise PipelineError(f"a state is not loaded, since it may run code: {first}") from None


def random_states() -> dict[str, Any]:
    """The states of PyTorch's random generators of this rank."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def set_random_states(states: dict[str, Any]) -> None:
    """Sets them, those of as many accelerators as there are."""
    torch.set_rng_state(states["cpu"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)

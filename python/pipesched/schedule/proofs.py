"""Proofs that schedules and programs finish and keep their memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import PipeSchedError, VerificationError
from ..support.options import (
    MemoryTimes,
    Messages,
    ReceivePlacement,
    Transport,
    code_of,
    pass_options,
    text_of,
)

if TYPE_CHECKING:
    from .schedule import Schedule

_CHOICES: dict[str, object] = {
    "memory_times": MemoryTimes,
    "receive_placement": ReceivePlacement,
    "transport": Transport,
}


def prove(
    schedule: Schedule, messages: Messages, memory: int | str | None, chosen: Mapping[str, Any]
) -> None:
    """See `Schedule.verify`. The two errors tell a proof that fails from one that cannot begin."""
    code_of(Messages, "messages", messages)
    for name, value in chosen.items():
        if value is not None:
            code_of(_CHOICES[name], name, value)
    if isinstance(memory, str):
        text_of("memory", memory)
    if schedule.is_problem:
        raise PipeSchedError(f"{schedule.name} has no rows to verify")
    budget = {"memory": memory, **chosen}
    given = [name for name, value in budget.items() if value is not None]
    if schedule.kind == "program" and given:
        raise PipeSchedError(
            f"{schedule.name} is a program, to which {', '.join(given)} cannot be applied; wanted "
            "a schedule"
        )
    verifier = "pipe-verify" if schedule.kind == "schedule" else "exec-verify"
    proof = {"messages": messages, "receive_placement": chosen["receive_placement"]}
    try:
        schedule._module.run(verifier + pass_options(proof))
    except PipeSchedError as error:
        raise VerificationError(error.diagnostics) from None
    if memory is not None:
        schedule._module.run(verifier + pass_options({"messages": messages, **budget}))

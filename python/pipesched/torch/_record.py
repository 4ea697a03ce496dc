"""When each instruction ran."""

from __future__ import annotations

from typing import NamedTuple

from pipesched import Instruction


class Event(NamedTuple):
    """One instruction of one step, in nanoseconds of `time.perf_counter_ns` of this process.

    On an accelerator these are the times at which the process has issued the instruction, not those
    of the device.
    """

    step: int
    """Counts the steps of the runtime, from 0."""
    instruction: Instruction
    ready_ns: int
    """When the process came to it."""
    start_ns: int
    """When what it waits for was done: of a compute, the messages that it needs."""
    end_ns: int
    """When the process went on. A message that is only issued takes no time here; the compute that
    needs it waits from its `ready_ns` to its `start_ns`."""

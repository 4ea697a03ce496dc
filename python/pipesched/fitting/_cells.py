"""Messages of measurements of schedules, read from a frame of `Measurement.to_frame`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipesched

from ..errors import PipeSchedError
from ._samples import Found, Sample, usable

if TYPE_CHECKING:
    import pandas as pd


def read(path: Path, message_bytes: int | None) -> Found:
    kind: Any = getattr(pipesched, "Measurement", None)
    if kind is None:
        raise PipeSchedError(f"{path}: this version of pipesched reads no measurements")
    measurement = kind.from_file(path)
    size = message_bytes or _boundary_bytes(measurement.schedule.to_text())
    if not size:
        raise PipeSchedError(
            f"{path}: the schedule has no model, which would say how large its messages are; "
            "give --message-bytes"
        )
    return messages_of(measurement.to_frame(), size, str(path))


def _boundary_bytes(text: str) -> int:
    found = re.search(r"\bboundary_bytes (\d+)", text)
    return int(found[1]) if found else 0


def messages_of(frame: pd.DataFrame, message_bytes: int, file: str) -> Found:
    """One sample per message, from when it is sent and its receive posted to its arrival."""
    found = Found()
    is_send, is_receive = frame["kind"] == "send", frame["kind"] == "recv"
    keys = ["step", "message"]
    both = frame[is_send].merge(frame[is_receive], on=keys, suffixes=("", "_received"))
    begin = both[["start_s", "ready_s_received"]].max(axis=1)
    times = (both["arrived_s_received"] - begin).tolist()
    lost = sum(not usable(seconds) for seconds in times)
    for seconds, message in zip(times, both["message"].tolist(), strict=True):
        if usable(seconds):
            place = f"{file}: message {message}"
            found.samples.append(
                Sample("network", "message", seconds, 0, message_bytes, 1, "", place, place)
            )
    if lost:
        found.notes.append(f"{file}: {lost} messages have no time above 0 and are left out")
    return found

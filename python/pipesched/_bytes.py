"""Numbers of bytes that somebody wrote, and how much memory is kept free."""

from __future__ import annotations

import re

from ._errors import PipeSchedError
from ._options import integer, text_of

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"], _UNITS[f"{_letter}iB"] = 10 ** (3 * _power), 2 ** (10 * _power)
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*|%)")

DEFAULT_RESERVE = "15%"
"""The memory that is kept free for what the cost model does not count. docs/Planning.md says why it
is so much.
"""


def bytes_of(what: str, given: int | str, whole: int | None = None) -> int:
    """Parses a number of bytes: `80GiB`, `80GB`, a plain number, or a part of `whole`: `10%`.

    >>> bytes_of("memory", "1.5GiB"), bytes_of("reserve", "10%", whole=1000)
    (1610612736, 100)
    """
    if isinstance(given, int):
        return integer(what, given, 0)
    text_of(what, given)
    match = _BYTES.fullmatch(given.strip())
    units = {unit.casefold(): size / 1 for unit, size in _UNITS.items()}
    if whole is not None:
        units["%"] = whole / 100
    if match is None or match[2].casefold() not in units:
        percent = ", 10%" if whole is not None else ""
        raise PipeSchedError(
            f"{what} is a number of bytes, such as 80GiB, 80GB{percent}; got {given!r}"
        )
    return integer(what, round(float(match[1]) * units[match[2].casefold()]), 0)


def reserve_of(given: int | str, whole: int) -> int:
    """Parses what is kept free: one or several numbers of bytes or parts of `whole`, added.

    >>> reserve_of("1KiB+10%", whole=1000), reserve_of(0, whole=1000)
    (1124, 0)
    """
    if isinstance(given, int):
        return bytes_of("reserve", given)
    return sum(bytes_of("reserve", part, whole) for part in given.split("+"))

"""Written numbers of bytes and of seconds, and the reserve of memory."""

from __future__ import annotations

import re

from ..errors import PipeSchedError, WrongType
from .options import integer, number_of, text_of

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"], _UNITS[f"{_letter}iB"] = 10 ** (3 * _power), 2 ** (10 * _power)
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*|%)")

DEFAULT_RESERVE = "parts"
"""The memory that is reserved for users that the cost model does not count: the sum of `PARTS`."""

PARTS = {
    "CUDA context": "0.95GiB",
    "collectives": "7GB",
    "workspaces": "0.2GiB",
    "fragmentation": "2.4%",
}
"""Memory outside of tensors, by docs/Planning.md, "The reserve"."""

OF_EXPERTS = {"collectives": "9.5GB"}
"""Memory of collectives if experts are sharded over groups of ranks."""

MOST_RESERVE = "15%"
"""The largest reserve of all parts together: on small accelerators their sizes are unknown."""


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


_COUNT = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([KMBT]?)", re.IGNORECASE)


def count_of(what: str, given: float | str) -> int:
    """Parses a number of tokens: `2T`, `300B`, a plain number.

    >>> count_of("tokens", "1.5T"), count_of("tokens", 2e12)
    (1500000000000, 2000000000000)
    """
    match = _COUNT.fullmatch(str(given).strip()) if isinstance(given, str) else None
    if match is not None:
        given = float(match[1]) * 1000 ** (" KMBT".index(match[2].upper() or " "))
    if isinstance(given, str) or not 1 <= number_of(what, given, 1) <= 1e18:
        raise PipeSchedError(f"{what} is a number such as 2T or 300B; got {given!r}")
    return round(given)


def parts_of(has_experts: bool) -> dict[str, str]:
    """The parts of the reserve.

    >>> parts_of(True)["collectives"]
    '9.5GB'
    """
    return PARTS | OF_EXPERTS if has_experts else PARTS


def reserve_text(given: int | str, has_experts: bool = False) -> str:
    """The parts of a reserve, for `assumed:`.

    >>> reserve_text("4GiB"), reserve_text("parts")[:32]
    ('4GiB', 'CUDA context 0.95GiB + collectiv')
    """
    if given != DEFAULT_RESERVE:
        return str(given)
    parts = " + ".join(f"{name} {size}" for name, size in parts_of(has_experts).items())
    return f"{parts} (at most {MOST_RESERVE})"


def reserve_of(given: int | str, whole: int, has_experts: bool = False) -> int:
    """Parses the memory to reserve: one or several numbers of bytes or parts of `whole`, which are
    added, or `parts` for the known users of memory.

    >>> reserve_of("1KiB+10%", whole=1000), reserve_of(0, whole=1000)
    (1124, 0)
    >>> reserve_of("parts", whole=80 * 10**9) < reserve_of("15%", whole=80 * 10**9)
    True
    """
    if isinstance(given, int):
        return bytes_of("reserve", given)
    if text_of("reserve", given) == DEFAULT_RESERVE:
        sizes = parts_of(has_experts).values()
        known = sum(bytes_of("reserve", size, whole) for size in sizes)
        return min(known, bytes_of("reserve", MOST_RESERVE, whole))
    return sum(bytes_of("reserve", part, whole) for part in given.split("+"))


MOST_SECONDS = 3_600_000
_TIMES = {"": 1.0, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*(|ms|s|min|h)")


def seconds_of(what: str, given: float | str) -> float:
    """Parses a time: `30s`, `2min`, `1.5h`, or a plain number of seconds.

    >>> seconds_of("optimize", "2min"), seconds_of("optimize", 0.5)
    (120.0, 0.5)
    """
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise WrongType(f"{what} is a time such as 30s, or a number of seconds; got {given!r}")
    match = _SECONDS.fullmatch(given.strip()) if isinstance(given, str) else None
    seconds = float(match[1]) * _TIMES[match[2]] if match else given
    if isinstance(seconds, str) or not 0 < seconds <= MOST_SECONDS:
        raise PipeSchedError(
            f"{what} is a time from above 0 to 1000h, such as 30s, 2min or 1h; got {given!r}"
        )
    return float(seconds)

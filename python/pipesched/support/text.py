"""Texts for people."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Code points that are not characters in any text; XML refuses U+FFFE and U+FFFF.
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
_HIDDEN = re.compile(
    f"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff{_NONCHARACTERS}]"
)
_HALVES = re.compile("[\ud800-\udfff]")


TRUTHS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
"""Words for a boolean."""


def truth(text: str) -> bool:
    """A boolean that somebody wrote, in capitals or not.

    >>> truth("Yes"), truth("off")
    (True, False)
    """
    found = TRUTHS.get(text.strip().casefold())
    if found is None:
        raise ValueError(f"expected true or false, found {text!r}")
    return found


def gib(size: float) -> str:
    """`71.3 GiB`, and below 0.1 GiB `83.4 MiB`."""
    if 0 < size < 2**30 / 10:
        return f"{max(size / 2**20, 0.1):.1f} MiB"
    return f"{size / 2**30:.1f} GiB"


def plural(count: int, noun: str) -> str:
    """`1 stage`, `2 stages`."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{ending}"


_MANY_BYTES = re.compile(r"(?<![\w.])(\d{7,})(?: bytes)?(?![\w.]*\d)")


def readable(message: str) -> str:
    """A message of the library about memory, with large numbers of bytes as people read them.

    >>> readable("a capacity of 4294967296 bytes: 1073741824 more is needed")
    'a capacity of 4.0 GiB: 1.0 GiB more is needed'
    """
    return _MANY_BYTES.sub(lambda found: gib(int(found[1])), message)


def _shown(found: re.Match[str]) -> str:
    point = ord(found[0])
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"


def valid(text: str) -> str:
    """Returns the text as UTF-8 can encode it. Python stores the bytes of a path that are not UTF-8
    as halves of surrogate pairs; these become `\udcff`.
    """
    return _HALVES.sub(_shown, text)


def printable(text: str) -> str:
    """A name on one line of a terminal. A terminal obeys control characters, so these are shown as
    `\\x1b`; direction marks, which could make one name look like another, and code points that are
    not characters, such as U+FFFE, are shown as `\\u202e`. The library does the same in its
    pictures.
    """
    return _HIDDEN.sub(_shown, text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


_MOST_LISTED = 20


def closest(name: str, known: Iterable[str]) -> str:
    """Ends a message about an unknown name, as the library does: with the closest known name if it
    is similar enough, otherwise with all known names.

    >>> closest("famly", ("family", "workers"))
    ", the closest is 'family'"
    >>> closest("nope", ("family", "workers"))
    ' (known: family, workers)'
    """
    known = list(known)
    if near := difflib.get_close_matches(name.casefold(), known, n=1, cutoff=0.65):
        return f", the closest is {near[0]!r}"
    more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
    return f" (known: {', '.join(known[:_MOST_LISTED])}{more})"

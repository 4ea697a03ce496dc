"""Changes single fields of systems and models: `network.bandwidth=0.5x`, `model.layers=40`.

A field is named by its path in the JSON file. The end of its name that says the unit may be left
out. A factor scales a number, the second column of a curve, or all entries of a list.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PipeSchedError
from ..support.files import read_json_file
from ..support.options import Rates
from ..support.text import closest
from .catalogue import models, systems, take_rates
from .costs import Description
from .frameworks import OWN_BYTES

_SCALED = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)x|([+-]\d+(?:\.\d+)?)%")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_TEXTS = ("name", "description", "aliases", "sources", "load")
"""Fields that describe and change no time."""

_UNSAID = {
    "model": (
        *OWN_BYTES,
        *("separate_norms", "separate_activations", "separate_casts", "separate_accumulation"),
        *("separate_loss", "parallel_loss", "gathered_loss", "gathered_inputs"),
    ),
    "system": (),
}
"""Fields that no shipped description states, but that every description has by default."""

Fields = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One changed field, in the given form."""

    text: str
    what: str
    """`system` or `model`."""
    field: str
    """The path of the field as it was given, without the prefix for the system or the model."""
    factor: float | None
    """The factor to multiply by; None to replace the value."""
    value: Any = None


def _value(text: str, given: str) -> tuple[float | None, Any]:
    """The factor or the new value of a setting."""
    if scaled := _SCALED.fullmatch(given):
        return (float(scaled[1]) if scaled[1] else 1 + float(scaled[2]) / 100), None
    if _NUMBER.fullmatch(given):
        number = float(given)
        if not math.isfinite(number):
            raise PipeSchedError(f"set {text!r}: the number is too large")
        return None, int(number) if number.is_integer() else number
    if given in ("true", "false"):
        return None, given == "true"
    if re.fullmatch(r"[A-Za-z][\w-]*", given):
        return None, given
    raise PipeSchedError(
        f"set {text!r}: expected a number such as 200, a factor such as 0.5x, or a change such as"
        f" -10%, found {given!r}"
    )


def setting(text: str) -> Setting:
    """Reads one setting.

    >>> setting("network.bandwidth=0.5x").factor, setting("model.layers=40").value
    (0.5, 40)
    """
    name, equals, given = (part.strip() for part in text.partition("="))
    if not equals or not name or not given:
        raise PipeSchedError(f"set {text!r}: expected a field and a value, network.bandwidth=0.5x")
    what, _, rest = name.partition(".")
    if what not in ("system", "model"):
        what, rest = "system", name
    if not rest:
        raise PipeSchedError(f"set {text!r}: name a field of the {what}, such as {what}.name")
    factor, value = _value(text, given)
    return Setting(text, what, rest, factor, value)


def settings(texts: Sequence[str]) -> list[Setting]:
    """Reads several, each for another field."""
    if isinstance(texts, str):
        texts = [texts]
    found = [setting(text) for text in texts]
    fields = [(each.what, each.field) for each in found]
    for each in found:
        if fields.count((each.what, each.field)) > 1:
            raise PipeSchedError(f"set: {each.field} is given twice")
    return found


# Fields


def _fields_of(what: str, description: Description, rates: Rates = "auto") -> Fields:
    """Returns a copy of the fields of a description that the library accepts; for a system with
    these rates, and with the fields of the systems of its groups.
    """
    fields = _read_fields(what, description)
    if what != "system":
        return fields
    for group in fields.get("groups", ()):
        group["system"] = _fields_of("system", group["system"], rates)
    return take_rates(fields, rates)


def _read_fields(what: str, description: Description) -> Fields:
    if isinstance(description, Mapping):
        return json.loads(json.dumps(dict(description)))  # type: ignore[no-any-return]
    shipped: dict[str, Fields] = systems() if what == "system" else models()
    path = os.fspath(description)
    for name, fields in shipped.items():
        if path.casefold() in map(str.casefold, (name, *fields.get("aliases", ()))):
            return fields
    if not os.path.exists(path):
        raise PipeSchedError(f"unknown {what} {path!r}{closest(path, shipped)}")
    found = read_json_file(path)
    if not isinstance(found, dict):
        raise PipeSchedError(f"{path}: expected an object with the fields of a {what}")
    return found


def read_system(system: Description, rates: Rates = "auto") -> Fields:
    """Returns the fields of a system."""
    return _fields_of("system", system, rates)


def _paths(value: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the fields below a value. The entries of a list have the same path."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if prefix or name not in _TEXTS:
                yield from _paths(each, (*prefix, str(name)))
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        for each in value:
            yield from (path for path in _paths(each, prefix))
    else:
        yield prefix


def _list_fields(what: str, fields: Fields) -> set[str]:
    """Lists the fields of this description or of a shipped one, including fields with a default."""
    shipped: Iterable[Fields] = models().values()
    if what == "system":
        shipped = (take_rates(system, "auto") for system in systems().values())
    found = {".".join(path) for each in (fields, *shipped) for path in _paths(each)}
    return found.union(_UNSAID[what])


def _find_field(each: Setting, fields: Fields) -> str:
    """The whole path of the field that a setting names."""
    own = {".".join(path) for path in _paths(fields)}
    known = own | _list_fields(each.what, fields)
    if each.field in known:
        return each.field
    for some in (own, known):  # fields of the description come first
        begun = sorted(name for name in some if name.startswith(f"{each.field}_"))
        if len(begun) == 1:
            return begun[0]
        if begun:
            raise PipeSchedError(
                f"set {each.text!r}: {each.field} may be {' or '.join(begun)}; say which"
            )
    inner = sorted(name for name in known if name.startswith(f"{each.field}."))
    if inner:
        raise PipeSchedError(
            f"set {each.text!r}: {each.field} has several fields: {', '.join(inner)}"
        )
    hint = closest(each.field, sorted(known))
    raise PipeSchedError(f"set {each.text!r}: the {each.what} has no field {each.field!r}{hint}")


def _scale(value: Any, factor: float) -> Any:
    if isinstance(value, (int, float)):
        product = value * factor
        return int(product) if float(product).is_integer() else product
    return [[x, _scale(y, factor)] for x, y in value]


def _is_curve(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == 2 and all(type(x) in (int, float) for x in row)
        for row in value
    )


def _change(each: Setting, name: str, old: Any) -> Any:
    """The new value of a field."""
    is_number = type(old) in (int, float)
    if each.factor is not None:
        if is_number or _is_curve(old):
            return _scale(old, each.factor)
        raise PipeSchedError(f"set {each.text!r}: {name} is {old!r}, which no factor scales")
    if _is_curve(old):
        raise PipeSchedError(f"set {each.text!r}: {name} is a curve; scale it by a factor, 0.9x")
    kinds = {bool: "true or false", str: "a word"}
    wanted = "a number" if is_number else kinds.get(type(old), "another kind of value")
    fits = type(each.value) in ((int, float) if is_number else (type(old),))
    if not fits:
        raise PipeSchedError(f"set {each.text!r}: expected {wanted}, found {each.value!r}")
    return each.value


def _put(each: Setting, name: str, fields: Fields) -> int:
    """Sets the field wherever the description has it, and returns the number of places."""
    *parents, last = name.split(".")
    places: list[Any] = [fields]
    for parent in parents:
        places = [place[parent] for place in places if parent in place]
        places = [one for p in places for one in (p if isinstance(p, list) else [p])]
    count = 0
    for place in places:
        if isinstance(place, dict) and last in place:
            place[last] = _change(each, name, place[last])
            count += 1
    if count or each.factor is not None or not places or not isinstance(places[0], dict):
        return count
    places[0][last] = each.value
    return 1


def with_settings(
    what: str, description: Description, chosen: Iterable[Setting], rates: Rates = "auto"
) -> Description:
    """The description with the settings that are about it; the same one if there are none."""
    own = [each for each in chosen if each.what == what]
    if not own:
        return description
    fields = _fields_of(what, description, rates)
    names: dict[str, str] = {}
    for each in own:
        name = _find_field(each, fields)
        if name in names:
            raise PipeSchedError(f"set: {names[name]!r} and {each.text!r} change the same field")
        names[name] = each.text
        if not _put(each, name, fields):
            raise PipeSchedError(
                f"set {each.text!r}: this {what} does not say its {name}; give a number"
                if each.factor is not None
                else f"set {each.text!r}: this {what} has no {name.rpartition('.')[0]}"
            )
    return fields


def both(
    model: Description | None,
    system: Description | None,
    texts: Sequence[str],
    refused: Callable[[str], Exception] = PipeSchedError,
    rates: Rates = "auto",
) -> tuple[Description | None, Description | None]:
    """The model and the system with the settings."""
    chosen = settings(texts)
    found: dict[str, Description | None] = {"model": model, "system": system}
    for what, description in found.items():
        own = [each for each in chosen if each.what == what]
        if own and description is None:
            raise refused(f"set {own[0].text!r} is about a {what}; none is given")
        if description is not None:
            found[what] = with_settings(what, description, own, rates)
    return found["model"], found["system"]


def _get(fields: Any, path: Sequence[str]) -> Any:
    """Returns the value of a field; None if the description has no such field, or a list."""
    for name in path:
        if not isinstance(fields, Mapping) or name not in fields:
            return None
        fields = fields[name]
    return fields


def told(
    model: Description | None,
    system: Description | None,
    texts: Sequence[str],
    rates: Rates = "auto",
) -> list[str]:
    """A line with the changes of the settings, such as `changed: network.bandwidth_gb_per_s 400
    to 200`; none without settings.
    """
    given = {"model": model, "system": system}
    found = []
    for each in settings(texts):
        description = given[each.what]
        assert description is not None
        fields = _fields_of(each.what, description, rates)
        name = _find_field(each, fields)
        old = _get(fields, name.split("."))
        shown = f"model.{name}" if each.what == "model" else name
        if type(old) in (int, float, bool, str):
            found.append(f"{shown} {old} to {_change(each, name, old)}")
        else:
            how = f"x {each.factor:g}" if each.factor is not None else str(each.value)
            found.append(f"{shown} {how}")
    return [f"changed: {', '.join(found)}"] if found else []

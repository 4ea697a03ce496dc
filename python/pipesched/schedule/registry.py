"""Registered families: Python functions from a problem to rows, by the name that `register_family`
gives them, or by their place: `package.module:function` or `path/to/file.py:function`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from types import ModuleType
from typing import Any, TypeAlias, TypedDict, Unpack, cast, overload

from .. import _core
from ..errors import PipeSchedError, WrongType
from ..support.options import FamilyOptions, text_of
from ..support.text import closest, printable
from .rows import Rows
from .schedule import Schedule

FamilyFunction: TypeAlias = Callable[..., "Schedule | Rows"]
"""From a problem (a schedule without rows) and the family's options, as keywords, to its rows as
`Schedule.from_rows` takes them, or to a schedule of as many workers and microbatches."""


BubbleFormula: TypeAlias = Callable[..., "float | None"]
"""From workers, microbatches and the family's options, as keywords, to the part of all slots that
is idle in the step; None if the formula does not apply.
"""


def digest_of(function: Callable[..., Any]) -> str:
    """A digest that changes with the source of a function, but not of the functions that it calls;
    for a callable object, with its state in pickle.
    """
    try:
        source = inspect.getsource(function).encode()
    except (OSError, TypeError):
        if code := getattr(function, "__code__", None):
            source = repr((code.co_code, code.co_consts, code.co_names)).encode()
        else:
            with contextlib.suppress(Exception):
                return sha256(pickle.dumps(function)).hexdigest()[:16]
            source = type(function).__qualname__.encode()
    return sha256(source).hexdigest()[:16]


@dataclass(frozen=True)
class OwnFamily:
    """A registered family."""

    name: str
    function: FamilyFunction
    summary: str
    options: tuple[str, ...]
    source: str = ""
    """The publication of the family."""
    formula: BubbleFormula | None = None
    """The part of all slots that is idle, as the publication states it."""

    def bubble_ratio(
        self, workers: int, microbatches: int, options: Mapping[str, Any]
    ) -> float | None:
        """The ratio by the formula for the options that are its keywords; None if it does not
        apply.
        """
        if self.formula is None:
            return None
        keywords = inspect.signature(self.formula).parameters
        known = {k: v for k, v in options.items() if k in keywords and v is not None}
        ratio = self.formula(workers, microbatches, **known)
        if ratio is None:
            return None
        is_number = isinstance(ratio, (int, float)) and not isinstance(ratio, bool)
        if not is_number or not 0 <= ratio <= 1:
            raise PipeSchedError(
                f"the formula of family {self.name!r} gives {ratio!r} for {workers} workers and "
                f"{microbatches} microbatches; wanted the part of all slots that is idle, from 0 "
                "to 1, or None where it says nothing"
            )
        return float(ratio)

    @property
    def place(self) -> str:
        """Its function's name, or its place if it was named by that."""
        if ":" in self.name:
            return self.name
        module = getattr(self.function, "__module__", "")
        if module.startswith(_FROM_FILE):
            module = inspect.getfile(self.function)
        return f"{module}:{getattr(self.function, '__qualname__', self.name)}"

    @property
    def digest(self) -> str:
        """See `digest_of`. Rows of sweeps have the formula as well."""
        own = digest_of(self.function)
        return own if self.formula is None else own + digest_of(self.formula)


_own: dict[str, OwnFamily] = {}


def own_families() -> Mapping[str, OwnFamily]:
    return _own


def value_of(text: str) -> Any:
    """The value of an option of a registered family as a command line gives it: a number, true,
    false or a text.

    >>> value_of("3"), value_of("0.5"), value_of("true"), value_of("wide")
    (3, 0.5, True, 'wide')
    """
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def options_of_text(text: str) -> dict[str, Any]:
    """The options of a text such as `depth=2;wide=true`."""
    found: dict[str, Any] = {}
    for part in text.split(";"):
        name, equals, given = (each.strip() for each in part.partition("="))
        name = name.replace("-", "_")
        if not equals or not name.isidentifier() or not given:
            raise PipeSchedError(
                f"expected an option of a family and its value such as depth=2, found {part!r}"
            )
        if name in found:
            raise PipeSchedError(f"the option {name} is given twice")
        found[name] = value_of(given)
    return found


def _options_of(function: FamilyFunction) -> tuple[str, ...]:
    """The keywords of a function, without its first argument."""
    keywords = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return ()  # a function in C that has no signature
    return tuple(each.name for each in parameters[1:] if each.kind in keywords)


class FamilyFacts(TypedDict, total=False):
    """Facts of a family besides its function."""

    summary: str
    source: str
    formula: BubbleFormula | None


@overload
def register_family(
    name: str, function: None = None, **facts: Unpack[FamilyFacts]
) -> Callable[[FamilyFunction], FamilyFunction]: ...
@overload
def register_family(
    name: str, function: FamilyFunction, **facts: Unpack[FamilyFacts]
) -> FamilyFunction: ...
def register_family(
    name: str, function: FamilyFunction | None = None, **facts: Unpack[FamilyFacts]
) -> FamilyFunction | Callable[[FamilyFunction], FamilyFunction]:
    """Registers a family, which `generate`, `Configuration`, `compare`, `sweep` and the command
    then take by name. The function gets a schedule without rows and the options of the family as
    keywords; it returns rows, as `Schedule.from_rows` takes them, or a schedule. A second function
    of the same name replaces the first. Names of families that ship are refused. `source` is the
    publication of the family, such as `"Qi et al. 2024, arXiv 2401.10241"`. `formula` is its
    formula for the bubble: a function from workers and microbatches, and options of the family as
    keywords, to the part of all slots that is idle. `check_formula` compares it with tables; rows
    of `compare` and `sweep` have it next to the table's.

    >>> @register_family("serial")
    ... def serial(problem):
    ...     cells = [f"F{n} B{n}" for n in range(problem.microbatches)]
    ...     return [
    ...         [f"{worker}{cell}" for pair in cells for cell in pair.split()]
    ...         for worker in range(problem.workers)
    ...     ]
    >>> generate("serial", workers=2, microbatches=1).rows
    (('0F0', '0B0'), ('1F0', '1B0'))
    """
    _check_name(text_of("the name of a family", name))
    if function is None:
        return partial(_register, name, **facts)
    return _register(name, function, **facts)


def _check_name(name: str) -> None:
    """Refuses names that a command line could not give; a place of a function may have any path."""
    is_place = ":" in name
    if not name.strip() or name != printable(name):
        raise PipeSchedError(f"the name of a family is a word such as 'mine'; got {name!r}")
    if not is_place and (name != name.strip() or "," in name or name.startswith("-")):
        raise PipeSchedError(
            f"the name of a family has no commas, no blanks at its ends and no dash at its begin;"
            f" got {name!r}"
        )


def _register(
    name: str,
    function: FamilyFunction,
    summary: str = "",
    source: str = "",
    formula: BubbleFormula | None = None,
) -> FamilyFunction:
    if not callable(function):
        raise WrongType(f"family {name!r} is a function from a problem to rows; got {function!r}")
    if _is_shipped(name):
        raise PipeSchedError(f"{name!r} is a family that ships; choose another name")
    if formula is not None and not callable(formula):
        raise WrongType(
            f"the formula of family {name!r} is a function of workers and microbatches; got "
            f"{formula!r}"
        )
    text = text_of("the summary of a family", summary)
    text = text or (inspect.getdoc(function) or "").split("\n\n", 1)[0].replace("\n", " ")
    _own[name] = OwnFamily(
        name,
        function,
        text,
        _options_of(function),
        text_of("the source of a family", source),
        formula,
    )
    return function


def key_of(name: str) -> str:
    """The part that all spellings of a family's name have in common."""
    return name.casefold().replace("-", "").replace("_", "").removeprefix("schedule")


def _is_shipped(name: str) -> bool:
    names = [family[0] for family in _core.families()]
    names += [alias for alias, _ in _core.family_aliases()]
    return key_of(name) in map(key_of, names)


# Functions by where they are


_FROM_FILE = "pipesched_family_"
"""The start of the names of modules that are made of files."""


def _load_file(path: str) -> ModuleType:
    full = os.path.abspath(path)
    name = f"{_FROM_FILE}{sha256(full.encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module_of(place: str, what: str) -> ModuleType:
    try:
        return _load_file(place) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:
        raise PipeSchedError(
            f"{what} function: cannot import {place!r}: {type(error).__name__}: {error}"
        ) from error


def function_at(name: str, what: str) -> Callable[..., Any] | None:
    """The function at a place; None if the name is of no place."""
    place, colon, attribute = name.rpartition(":")
    if not colon or not place:
        return None
    function = getattr(_module_of(place, what), attribute, None)
    if not callable(function):
        raise PipeSchedError(f"{place} has no function {attribute!r}, which would be a {what}")
    return cast(Callable[..., Any], function)


_ELEMENT = re.compile(r"""(?:"[^"]*"|'[^']*'|\{[^{}]*\}|\([^()]*\)|[^,])+""")
_PLACE = re.compile(r"[^\s,:(){}=]+:\w+")


def elements_of(pipeline: str) -> list[str]:
    """The passes of a pipeline; commas inside of brackets and quotes do not end one."""
    return [element.strip() for element in _ELEMENT.findall(pipeline)]


def is_place(element: str) -> bool:
    """Whether a pass is the place of a function, such as `file.py:function`."""
    return bool(_PLACE.fullmatch(element))


def own_family(name: str) -> OwnFamily | None:
    """The registered family of this name, or the one at this place; None if it is neither."""
    if name in _own:
        return _own[name]
    function = function_at(name, "family")
    if function is None:
        return None
    said = {key: getattr(function, key, None) for key in ("source", "formula")}
    register_family(name, function, source=said["source"] or "", formula=said["formula"])
    return _own[name]


def refuse_place(name: str) -> None:
    """Refuses the place of a function that a file gives: reading a file shall not run code."""
    if ":" in name and name not in _own:
        raise PipeSchedError(
            f"family {name!r} is a place of Python code, which would run; a file may name code "
            "only with --allow-code (in Python allow_code=True)"
        )


def restore(families: Mapping[str, OwnFamily]) -> None:
    """Registers families that another process has registered."""
    for name, family in families.items():
        _own.setdefault(name, family)


def used(names: Iterable[str]) -> dict[str, OwnFamily]:
    """Returns the families that are registered here under these names, to register them in other
    processes. Families that are named by their places need no registration.
    """
    return {name: _own[name] for name in set(names) if name in _own and ":" not in name}


def options_for_own(options: Mapping[str, Any]) -> FamilyOptions:
    """Passes options of a registered family as options of shipped families."""
    return cast(FamilyOptions, dict(options))


def has_own(family: str, text: str | None) -> bool:
    """Whether a registered family has the options of a text."""
    own = own_family(family)
    return own is not None and (text is None or set(options_of_text(text)) <= set(own.options))


def check_own_options(texts: Iterable[str | None], names: Sequence[str]) -> None:
    """Refuses options that none of these families has."""
    for text in texts:
        if text is not None and not any(has_own(name, text) for name in names):
            owned = [own for name in names if (own := own_family(name))]
            known = [option for own in owned for option in own.options]
            wrong = [option for option in options_of_text(text) if option not in known]
            hint = closest(wrong[0], known) if wrong and known else ""
            listed = ", ".join(wrong or options_of_text(text))
            raise PipeSchedError(f"none of {', '.join(names)} has the options {listed}{hint}")


# Schedules


def _check_sizes(family: str, given: Schedule, wanted: Schedule) -> Schedule:
    for what in ("workers", "microbatches"):
        found = getattr(given, what)
        if found != getattr(wanted, what):
            raise PipeSchedError(
                f"family {family!r} gives a schedule of {found} {what}; wanted "
                f"{getattr(wanted, what)}"
            )
    return given


def _check_arguments(family: OwnFamily, problem: Schedule, given: Mapping[str, Any]) -> None:
    """Refuses a function that cannot be called with a problem and these options."""
    try:
        signature = inspect.signature(family.function)
    except ValueError:
        return  # a function in C without a signature
    try:
        signature.bind(problem, **given)
    except TypeError as error:
        raise PipeSchedError(
            f"family {family.name!r} takes {signature}, and is called with a problem, which has"
            f" workers and microbatches, and with its options as keywords: {error}"
        ) from None


def generate_own(family: OwnFamily, problem: Schedule, options: Mapping[str, Any]) -> Schedule:
    """The schedule that the function of a family gives for a problem. Its exceptions get a note."""
    given = {key: value for key, value in options.items() if value is not None}
    unknown = [key for key in given if key not in family.options]
    if unknown:
        known = ", ".join(family.options) or "none"
        raise PipeSchedError(f"family {family.name!r} has no option {unknown[0]!r} (of {known})")
    _check_arguments(family, problem, given)
    try:
        made = family.function(problem, **given)
    except PipeSchedError:
        raise
    except Exception as error:
        error.add_note(f"in the function of family {family.name!r}")
        raise
    if isinstance(made, Schedule):
        return _check_sizes(family.name, made, problem)
    return Schedule.from_rows(made, problem=problem)

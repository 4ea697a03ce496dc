"""`pipesched --print-completion SHELL`: completions of a shell, made by shtab from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import pipesched

_FILES = ("FILE", "DIR", "PAGE", "PATH", "GRID", "PLAN")
_LISTS = {"family": "families", "schedules": "families", "model": "models", "system": "systems"}


def _names() -> dict[str, list[str]]:
    return {
        "families": [n for f in pipesched.families().values() for n in (f.name, *f.aliases)],
        "models": list(pipesched.models()),
        "systems": list(pipesched.systems()),
    }


def _completed(verb: str, action: argparse.Action) -> Mapping[str, Any] | None:
    """The completion of a value by shells; None if there is none."""
    import shtab

    metavar = str(action.metavar)
    name = _LISTS.get(action.dest.removeprefix("axis_"))
    if "FAMILY" in metavar:
        name = "families"
    if name is not None and verb != "run":
        shown = f"_pipesched_{name}"
        return {"bash": shown, "zsh": f"({' '.join(_names()[name])})", "tcsh": "f"}
    if any(word in metavar for word in _FILES):
        return shtab.FILE
    return None


def _preamble(names: Mapping[str, list[str]]) -> dict[str, str]:
    """Functions of bash that list names in addition to files."""
    lines = [
        f'_pipesched_{name}() {{ compgen -W "{" ".join(each)}" -- "$1"; compgen -f -- "$1"; }}'
        for name, each in names.items()
    ]
    return {"bash": "\n".join(lines), "zsh": "", "tcsh": ""}


def script(
    shell: str, root: argparse.ArgumentParser, verbs: Mapping[str, argparse.ArgumentParser]
) -> str:
    import shtab

    for verb, parser in verbs.items():
        for action in parser._actions:
            if action.choices is None and (how := _completed(verb, action)) is not None:
                action.complete = how  # type: ignore[attr-defined]
    preamble: Any = _preamble(_names())
    return shtab.complete(root, shell, preamble=preamble)

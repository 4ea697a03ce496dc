"""Checks that the packages of pipesched.torch are few and import each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pipesched

PACKAGE = Path(pipesched.__file__).parent / "torch"
ORDER = """core parts vocabulary sequence slices partition autograd comm grad_sync vocab_parallel
overlap profiling checkpoint runtime __init__ training""".split()
"""Each may import the ones before it."""
FORMER = ("_again", "_left", "_whole", "_others", "_earlier", "_boxes", "_changed", "_repeated")


def imports(file: Path) -> Iterator[str]:
    """Yields the entries of the package that a file imports."""
    own = ("pipesched", "torch", *file.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            path = (*own[: -node.level], *(node.module or "").split("."))
            path = path if node.level else tuple((node.module or "").split("."))
            if path[:2] == ("pipesched", "torch"):
                yield path[2] if len(path) > 2 and path[2] else "__init__"


def test_packages_import_in_one_direction() -> None:
    entries = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("__pycache")}
    assert entries == set(ORDER) and len(entries) <= 16
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for other in imports(file):
            assert ORDER.index(other) <= ORDER.index(name), f"{file} imports {other}"
        assert f"_{file.stem.lstrip('_')}" not in FORMER, file

"""Checks that the rooms of packages are few and import each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pipesched
import pytest

ROOT = Path(pipesched.__file__).parent
ORDERS = {
    "torch": """core parts vocabulary sequence slices partition autograd comm grad_sync
        vocab_parallel overlap profiling checkpoint runtime __init__ training""",
    "planning": """candidate layer_times request expenses launch space search explain proposals
        __init__ whatif check""",
    "command": "options render old_names explain verbs __init__",
}
"""Each may import the ones before it."""
FORMER = ("_again", "_left", "_whole", "_others", "_earlier", "_boxes", "_changed", "_repeated")


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes but the imports that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes(node)


def imports(file: Path, package: str) -> Iterator[str]:
    """Yields the entries of the package that a file imports."""
    own = ("pipesched", *file.relative_to(ROOT).with_suffix("").parts)
    for node in nodes(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = (node.module or "").split(".") if node.module else []
            path = (*own[: -node.level], *names) if node.level else tuple(names)
            if path == ("pipesched", package):
                entries = [alias.name for alias in node.names]
                known = ORDERS[package].split()
                yield from (name if name in known else "__init__" for name in entries)
            elif path[:2] == ("pipesched", package):
                yield path[2]


@pytest.mark.parametrize("package", ORDERS)
def test_rooms_import_in_one_direction(package: str) -> None:
    home, order = ROOT / package, ORDERS[package].split()
    entries = {path.stem for path in home.iterdir() if not path.name.startswith("__pycache")}
    assert entries == set(order) and len(entries) <= 16
    for file in home.rglob("*.py"):
        name = file.relative_to(home).parts[0].removesuffix(".py")
        for other in imports(file, package):
            assert order.index(other) <= order.index(name), f"{file} imports {other}"
        assert f"_{file.stem.lstrip('_')}" not in FORMER, file

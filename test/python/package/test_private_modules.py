"""No module uses a private module of another package: shared modules are public."""

import ast
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT

HOME = ROOT / "python" / "pipesched"


def imported(path: Path) -> Iterator[list[str]]:
    """The modules that a file imports from the package, as lists of names."""
    own = ["pipesched", *path.relative_to(HOME).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = own[: len(own) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            yield from ([*base, alias.name] for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)


def is_private(names: list[str], own: list[str]) -> bool:
    """Whether one of these names is a private module of another package than `own`."""
    for at, name in enumerate(names):
        path = HOME.parent.joinpath(*names[: at + 1])
        is_module = path.with_suffix(".py").exists() or path.is_dir()
        if name.startswith("_") and is_module and names[:at] != own:
            return True
    return False


def test_private_modules_stay_in_their_package() -> None:
    found = [
        f"{path.relative_to(HOME)}: {'.'.join(names)}"
        for path in sorted(HOME.rglob("*.py"))
        for names in imported(path)
        if names[:1] == ["pipesched"]
        and is_private(names, ["pipesched", *path.relative_to(HOME).parts[:-1]])
    ]
    assert found == []

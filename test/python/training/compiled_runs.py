"""Runs exported models with `pipesched-run`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "build" / "release" / "bin" / "pipesched-run"
needs_tool = pytest.mark.skipif(not TOOL.exists(), reason="the release tools are not built")


class Failed(Exception):
    """An action that an exported module does not do; the text names it."""


def losses_of(path: Path, folder: Path, *options: str, steps: int, limit: int = 600) -> list[float]:
    """Returns the losses of a compiled training, or raises Failed."""
    command = [str(TOOL), str(path), f"--parameters={folder}", f"--steps={steps}", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"did not end in {limit} s") from None
    if done.returncode:
        raise Failed(f"ended with {done.returncode}: {(done.stderr or done.stdout)[:600]}")
    return [float(text) for text in re.findall(r"^step \d+: loss (\S+),", done.stdout, re.M)]

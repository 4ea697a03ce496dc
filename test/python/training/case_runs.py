"""Runs a script of cases, which writes what each of them found (runtime_cases.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Cases = dict[str, list[dict[str, Any]]]
"""What the ranks of each case found, by its name."""


def run_cases(folder: Path, script: str) -> Cases:
    """Runs a script of this folder, which must succeed."""
    file = Path(__file__).with_name(script)
    command = [sys.executable, str(file), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: Cases = json.loads((folder / "cases.json").read_text())
    return found

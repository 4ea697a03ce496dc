"""The plugin for stock MLIR that a wheel has inside."""

from __future__ import annotations

from pathlib import Path

_PLUGIN = Path(__file__).parents[1] / "PipeSchedPlugin.so"


def plugin_path() -> Path:
    """Where `PipeSchedPlugin.so` is, which brings the dialects and passes to the `mlir-opt` of an
    LLVM 22.1 with shared libraries, such as Debian's `mlir-opt-22`.

    Raises FileNotFoundError in a package that was not installed from a wheel.
    """
    if not _PLUGIN.exists():
        raise FileNotFoundError(
            f"{_PLUGIN}: not found, for only wheels of scripts/wheel.sh have it; in a checkout "
            "`cmake --build --preset release --target PipeSchedPlugin` builds "
            "build/release/lib/PipeSchedPlugin.so"
        )
    return _PLUGIN

"""Converts models of other frameworks to files of functions of stages, which compile and run:
`torch` takes modules of PyTorch, `jax` takes functions of JAX. Both need the packages of the extra
`frontends`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipesched import PipeSchedError

if TYPE_CHECKING:
    from ._file import ExportedModel as ExportedModel


EXTRA = "install the extra that has it: pip install 'pipesched[frontends]'"
"""The advice if a package is missing."""


class FrontendError(PipeSchedError):
    """A model cannot be divided into functions of stages; the text names the obstacle."""

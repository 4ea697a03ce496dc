"""Models of other frameworks as files of functions of stages, which compile and run.

`pipesched.frontends.torch` takes modules of PyTorch. Each frontend needs packages that the extra
`frontends` installs (`pip install pipesched[frontends]`); importing this package loads none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipesched import PipeSchedError

if TYPE_CHECKING:
    from ._file import ExportedModel as ExportedModel


class FrontendError(PipeSchedError):
    """A model cannot be divided into functions of stages; the text names what stands in the way."""

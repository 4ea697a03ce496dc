"""Pipeline-parallel training schedules: generate, read, verify, transform and time them.

>>> import pipesched
>>> schedule = pipesched.generate("1f1b", workers=4, microbatches=4, name="one_f_one_b")
>>> print(schedule)
module {
  pipe.schedule @one_f_one_b workers 4 microbatches 4 family "1f1b" {
    path on [0, 1, 2, 3]
    worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
    worker 1 runs [1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3]
    worker 2 runs [2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3]
    worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3]
  }
}
<BLANKLINE>
>>> schedule.verify(messages="batched")
>>> schedule.simulate(times="F=1ms,B=2ms,comm=0.1ms").execution.makespan_ps
22000000000
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._batch import Configuration as Configuration
    from ._batch import compare as compare
    from ._batch import explain as explain
    from ._batch import simulate_batch as simulate_batch
    from ._catalogue import Family as Family
    from ._catalogue import families as families
    from ._catalogue import models as models
    from ._catalogue import systems as systems
    from ._combined import combined_1f1b as combined_1f1b
    from ._comparison import Comparison as Comparison
    from ._costs import Costs as Costs
    from ._errors import Diagnostic as Diagnostic
    from ._errors import Location as Location
    from ._errors import PipeSchedError as PipeSchedError
    from ._errors import PipeSchedWarning as PipeSchedWarning
    from ._errors import VerificationError as VerificationError
    from ._families import register_family as register_family
    from ._formulas import check_formula as check_formula
    from ._grid import Grid as Grid
    from ._making import generate as generate
    from ._making import load as load
    from ._making import loads as loads
    from ._making import problem as problem
    from ._measurement import Measurement as Measurement
    from ._optimize import Alternative as Alternative
    from ._optimize import Optimization as Optimization
    from ._options import FamilyOptions as FamilyOptions
    from ._options import Path as Path
    from ._overlap import Pair as Pair
    from ._overlap import overlap as overlap
    from ._pictures import Svg as Svg
    from ._pictures import draw as draw
    from ._plugin import plugin_path as plugin_path
    from ._program import Cell as Cell
    from ._program import Columns as Columns
    from ._program import Group as Group
    from ._program import Instruction as Instruction
    from ._program import ParameterSet as ParameterSet
    from ._program import Stage as Stage
    from ._program import WorkerProgram as WorkerProgram
    from ._report import Report as Report
    from ._schedule import Schedule as Schedule
    from ._sensitivity import Sensitivity as Sensitivity
    from ._sensitivity import sensitivity as sensitivity
    from ._simulation import Simulation as Simulation
    from ._slots import ReceivePool as ReceivePool
    from ._sweep import sweep as sweep
    from .fitting import Fit as Fit
    from .fitting import fit as fit
    from .pages import Html as Html
    from .pages import page as page
    from .planning import Plan as Plan
    from .planning import Proposal as Proposal
    from .planning import plan as plan

    __version__: str

_HOMES = {
    "Alternative": "_optimize",
    "Cell": "_program",
    "Columns": "_program",
    "Comparison": "_comparison",
    "Configuration": "_batch",
    "Costs": "_costs",
    "Diagnostic": "_errors",
    "Family": "_catalogue",
    "FamilyOptions": "_options",
    "Fit": "fitting",
    "Grid": "_grid",
    "Group": "_program",
    "Html": "pages",
    "Instruction": "_program",
    "Location": "_errors",
    "Measurement": "_measurement",
    "Optimization": "_optimize",
    "Pair": "_overlap",
    "ParameterSet": "_program",
    "Path": "_options",
    "PipeSchedError": "_errors",
    "PipeSchedWarning": "_errors",
    "Plan": "planning",
    "Proposal": "planning",
    "ReceivePool": "_slots",
    "Report": "_report",
    "Schedule": "_schedule",
    "Sensitivity": "_sensitivity",
    "Simulation": "_simulation",
    "Stage": "_program",
    "Svg": "_pictures",
    "VerificationError": "_errors",
    "WorkerProgram": "_program",
    "check_formula": "_formulas",
    "combined_1f1b": "_combined",
    "compare": "_batch",
    "draw": "_pictures",
    "explain": "_batch",
    "families": "_catalogue",
    "fit": "fitting",
    "generate": "_making",
    "load": "_making",
    "loads": "_making",
    "models": "_catalogue",
    "overlap": "_overlap",
    "page": "pages",
    "plan": "planning",
    "plugin_path": "_plugin",
    "problem": "_making",
    "register_family": "_families",
    "sensitivity": "_sensitivity",
    "simulate_batch": "_batch",
    "sweep": "_sweep",
    "systems": "_catalogue",
}
"""The module of each public name. `import pipesched` loads none of them: each is loaded when one of
its names is first asked for (PEP 562), so that starting takes milliseconds. Type checkers read the
imports above instead; a test holds the two lists equal.
"""

_PARTS = ("fitting", "pages", "planning")
"""Modules that are attributes without an import of their own."""

__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # A type checker would take any attribute for known.

    def __getattr__(name: str) -> object:
        if name == "__version__":
            value = import_module("._core", __name__).version
        elif name in _HOMES:
            value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        elif name in _PARTS:
            return import_module(f".{name}", __name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_PARTS, "__version__"})

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
    from ._comparison import Comparison as Comparison
    from ._formulas import check_formula as check_formula
    from ._plugin import plugin_path as plugin_path
    from .batch import Configuration as Configuration
    from .batch import compare as compare
    from .batch import explain as explain
    from .batch import simulate_batch as simulate_batch
    from .catalogue import Family as Family
    from .catalogue import families as families
    from .catalogue import models as models
    from .catalogue import systems as systems
    from .combined import combined_1f1b as combined_1f1b
    from .costs import Costs as Costs
    from .disturbances import Sensitivity as Sensitivity
    from .disturbances import sensitivity as sensitivity
    from .errors import Diagnostic as Diagnostic
    from .errors import Location as Location
    from .errors import PipeSchedError as PipeSchedError
    from .errors import PipeSchedWarning as PipeSchedWarning
    from .errors import VerificationError as VerificationError
    from .fitting import Fit as Fit
    from .fitting import fit as fit
    from .grid import Grid as Grid
    from .making import generate as generate
    from .making import load as load
    from .making import loads as loads
    from .making import problem as problem
    from .measurement import Measurement as Measurement
    from .optimize import Alternative as Alternative
    from .optimize import Optimization as Optimization
    from .options import FamilyOptions as FamilyOptions
    from .options import Path as Path
    from .overlapping import Pair as Pair
    from .overlapping import overlap as overlap
    from .own_families import register_family as register_family
    from .pages import Html as Html
    from .pages import page as page
    from .pictures import Svg as Svg
    from .pictures import draw as draw
    from .planning import Plan as Plan
    from .planning import Proposal as Proposal
    from .planning import plan as plan
    from .program import Cell as Cell
    from .program import Columns as Columns
    from .program import Group as Group
    from .program import Instruction as Instruction
    from .program import ParameterSet as ParameterSet
    from .program import Stage as Stage
    from .program import WorkerProgram as WorkerProgram
    from .report import Report as Report
    from .schedule import Schedule as Schedule
    from .simulation import Simulation as Simulation
    from .slots import ReceivePool as ReceivePool
    from .sweeps import sweep as sweep

    __version__: str

_HOMES = {
    "Alternative": "optimize",
    "Cell": "program",
    "Columns": "program",
    "Comparison": "_comparison",
    "Configuration": "batch",
    "Costs": "costs",
    "Diagnostic": "errors",
    "Family": "catalogue",
    "FamilyOptions": "options",
    "Fit": "fitting",
    "Grid": "grid",
    "Group": "program",
    "Html": "pages",
    "Instruction": "program",
    "Location": "errors",
    "Measurement": "measurement",
    "Optimization": "optimize",
    "Pair": "overlapping",
    "ParameterSet": "program",
    "Path": "options",
    "PipeSchedError": "errors",
    "PipeSchedWarning": "errors",
    "Plan": "planning",
    "Proposal": "planning",
    "ReceivePool": "slots",
    "Report": "report",
    "Schedule": "schedule",
    "Sensitivity": "disturbances",
    "Simulation": "simulation",
    "Stage": "program",
    "Svg": "pictures",
    "VerificationError": "errors",
    "WorkerProgram": "program",
    "check_formula": "_formulas",
    "combined_1f1b": "combined",
    "compare": "batch",
    "draw": "pictures",
    "explain": "batch",
    "families": "catalogue",
    "fit": "fitting",
    "generate": "making",
    "load": "making",
    "loads": "making",
    "models": "catalogue",
    "overlap": "overlapping",
    "page": "pages",
    "plan": "planning",
    "plugin_path": "_plugin",
    "problem": "making",
    "register_family": "own_families",
    "sensitivity": "disturbances",
    "simulate_batch": "batch",
    "sweep": "sweeps",
    "systems": "catalogue",
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

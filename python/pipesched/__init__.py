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
    from .costs.catalogue import models as models
    from .costs.catalogue import systems as systems
    from .costs.costs import Costs as Costs
    from .costs.pairs import Pair as Pair
    from .costs.pairs import overlap as overlap
    from .errors import Diagnostic as Diagnostic
    from .errors import Location as Location
    from .errors import PipeSchedError as PipeSchedError
    from .errors import PipeSchedWarning as PipeSchedWarning
    from .errors import VerificationError as VerificationError
    from .fitting import Fit as Fit
    from .fitting import fit as fit
    from .planning import Plan as Plan
    from .planning import Proposal as Proposal
    from .planning import plan as plan
    from .results.batch import check_formula as check_formula
    from .results.batch import compare as compare
    from .results.batch import explain as explain
    from .results.batch import simulate_batch as simulate_batch
    from .results.comparison import Comparison as Comparison
    from .results.configuration import Configuration as Configuration
    from .results.disturbances import Sensitivity as Sensitivity
    from .results.disturbances import sensitivity as sensitivity
    from .results.measurement import Measurement as Measurement
    from .results.report import Report as Report
    from .results.simulation import Simulation as Simulation
    from .schedule.families import Family as Family
    from .schedule.families import families as families
    from .schedule.generation import generate as generate
    from .schedule.generation import load as load
    from .schedule.generation import loads as loads
    from .schedule.generation import problem as problem
    from .schedule.optimize import Alternative as Alternative
    from .schedule.optimize import Optimization as Optimization
    from .schedule.program import Cell as Cell
    from .schedule.program import Columns as Columns
    from .schedule.program import Group as Group
    from .schedule.program import Instruction as Instruction
    from .schedule.program import ParameterSet as ParameterSet
    from .schedule.program import Stage as Stage
    from .schedule.program import WorkerProgram as WorkerProgram
    from .schedule.registry import register_family as register_family
    from .schedule.schedule import Schedule as Schedule
    from .support.files import plugin_path as plugin_path
    from .support.options import FamilyOptions as FamilyOptions
    from .support.options import Path as Path
    from .sweeps.grid import Grid as Grid
    from .sweeps.sweep import sweep as sweep
    from .viz.pages import Html as Html
    from .viz.pages import page as page
    from .viz.pictures import Svg as Svg
    from .viz.pictures import draw as draw

    __version__: str

_NAMES = {
    "costs.catalogue": "models systems",
    "costs.costs": "Costs",
    "costs.pairs": "Pair overlap",
    "errors": "Diagnostic Location PipeSchedError PipeSchedWarning VerificationError",
    "fitting": "Fit fit",
    "planning": "Plan Proposal plan",
    "results.batch": "check_formula compare explain simulate_batch",
    "results.comparison": "Comparison",
    "results.configuration": "Configuration",
    "results.disturbances": "Sensitivity sensitivity",
    "results.measurement": "Measurement",
    "results.report": "Report",
    "results.simulation": "Simulation",
    "schedule.families": "Family families",
    "schedule.generation": "generate load loads problem",
    "schedule.optimize": "Alternative Optimization",
    "schedule.program": "Cell Columns Group Instruction ParameterSet Stage WorkerProgram",
    "schedule.registry": "register_family",
    "schedule.schedule": "Schedule",
    "support.options": "FamilyOptions Path",
    "support.files": "plugin_path",
    "sweeps.grid": "Grid",
    "sweeps.sweep": "sweep",
    "viz.pages": "Html page",
    "viz.pictures": "Svg draw",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
"""The module of each public name, loaded when the name is first asked for (PEP 562), so that
starting takes milliseconds. A test compares the list with the imports for type checkers above.
"""

_PARTS = ("fitting", "ir", "planning")
"""Modules that are attributes without a separate import."""

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

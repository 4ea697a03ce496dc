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

from . import _core
from ._batch import Configuration, compare, explain, simulate_batch
from ._catalogue import Family, families, models, systems
from ._comparison import Comparison
from ._costs import Costs
from ._errors import (
    Diagnostic,
    Location,
    PipeSchedError,
    PipeSchedWarning,
    VerificationError,
)
from ._families import register_family
from ._grid import Grid
from ._making import generate, load, loads, problem
from ._measurement import Measurement
from ._optimize import Alternative, Optimization
from ._options import FamilyOptions, Path
from ._pictures import Svg, draw
from ._plugin import plugin_path
from ._program import Cell, Columns, Group, Instruction, ParameterSet, Stage, WorkerProgram
from ._report import Report
from ._schedule import Schedule
from ._simulation import Simulation
from ._sensitivity import Sensitivity, sensitivity
from ._sweep import sweep
from .fitting import Fit, fit
from .pages import Html, page
from .planning import Plan, Proposal, plan

__version__: str = _core.version

__all__ = [
    "Alternative",
    "Cell",
    "Columns",
    "Comparison",
    "Configuration",
    "Costs",
    "Diagnostic",
    "Family",
    "FamilyOptions",
    "Fit",
    "Grid",
    "Group",
    "Html",
    "Instruction",
    "Location",
    "Measurement",
    "Optimization",
    "ParameterSet",
    "Path",
    "PipeSchedError",
    "PipeSchedWarning",
    "Plan",
    "Proposal",
    "Report",
    "Schedule",
    "Sensitivity",
    "Simulation",
    "Stage",
    "Svg",
    "VerificationError",
    "WorkerProgram",
    "compare",
    "draw",
    "explain",
    "families",
    "fit",
    "generate",
    "load",
    "loads",
    "models",
    "page",
    "plan",
    "plugin_path",
    "problem",
    "register_family",
    "sensitivity",
    "simulate_batch",
    "sweep",
    "systems",
]

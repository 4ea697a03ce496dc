"""Which terms of the cost model a prediction exercises: how much shorter a step is without each.

Every number is computed: the point is simulated again with one term free, and the rest as before.
Terms overlap, so that shares need not add up to anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import pipesched
from pipesched import Configuration, Costs, Simulation

from .study import Basis, Study
from .validation import all_rows

TERMS = {
    "pipeline": "idle_percent",
    "messages": "messages_percent",
    "tensor": "tensor_percent",
    "context": "context_percent",
    "experts": "all_to_all_percent",
    "sharding": "sharding_percent",
    "update": "update_percent",
    "recomputation": "recompute_percent",
}
"""The terms, and their columns: idle time by the schedule; messages between stages; all-reduces of
tensor parallelism; keys and values of context parallelism; rows of experts; weights and gradients
that cells wait for; gradients and the optimizer at the end; recomputation.
"""

FREE_GB_PER_S = 1e6
"""Bandwidth of a link that costs nothing."""

_WAITS = ("fill", "drain", "dependency")


def _system(costs: Costs) -> dict[str, Any]:
    given = costs.system
    fields = given if isinstance(given, Mapping) else pipesched.systems()[str(given)]
    return {name: field for name, field in fields.items() if name not in ("aliases", "sources")}


def _with_free(costs: Costs, *links: str) -> Costs:
    """Costs with these links free."""
    system = _system(costs)
    free = {"bandwidth_gb_per_s": FREE_GB_PER_S}
    return replace(costs, system=system | {name: free for name in links if name in system})


def _without_messages(costs: Costs) -> Costs:
    if isinstance(costs.times, Mapping):
        return replace(costs, times={**costs.times, "comm": 0})
    return replace(costs, boundary_bytes=0)


def _saved(step_ps: int, before: Configuration, costs: Costs) -> float:
    """The part of a step that these costs save, in percent."""
    found = replace(before, costs=costs).simulate().execution.makespan_ps
    return 100 * (before.simulate().execution.makespan_ps - found) / step_ps


def _waits(simulation: Simulation) -> float:
    execution = simulation.execution
    ratios = execution.idle_by_cause_ps.ratios(execution.makespan_ps)
    return 100 * sum(ratios[f"{cause}_ratio"] for cause in _WAITS)


def _all_to_all(simulation: Simulation) -> float:
    """The part of the all-to-alls that is not hidden, on the worker that waits longest."""
    execution = json.loads(simulation.to_json())["execution"]
    exposed = execution.get("exposed_all_to_all_ps", [0])
    return 100 * float(max(exposed)) / float(execution["makespan_ps"])


def shares(point: Configuration) -> dict[str, float]:
    """The share of each term in the step, in percent; terms that the point has not are missing.

    >>> costs = Costs(times={"F": 10, "B": 20, "comm": 1})
    >>> shares(Configuration("1f1b", 4, 8, costs=costs)).keys()
    dict_keys(['pipeline', 'messages'])
    """
    costs = point.costs or Costs()
    simulation = point.simulate()
    step = simulation.execution.makespan_ps
    found: dict[str, float] = {}
    if point.workers > 1:
        found["pipeline"] = _waits(simulation)
        found["messages"] = _saved(step, point, _without_messages(costs))
    if costs.system is None:
        return found
    degree = (costs.accelerators or _system(costs).get("accelerators", 1)) // costs.context_parallel
    if degree > 1:
        found["tensor"] = _saved(step, point, _with_free(costs, "link"))
    if costs.context_parallel > 1:
        alone = _without_messages(costs)
        bare = replace(point, costs=alone, optimizer_step="none")
        found["context"] = _saved(step, bare, _with_free(alone, "network"))
    if costs.expert_parallel > 1:
        found["experts"] = _all_to_all(simulation)
    if costs.sharding in ("gradients", "full"):
        found["sharding"] = 100 * float(simulation.execution.exposed_sharding_ps.max()) / step
    if point.optimizer_step != "none":
        bare = replace(point, optimizer_step="none")
        found["update"] = 100 * (1 - bare.simulate().execution.makespan_ps / step)
    if costs.recompute != "none":
        found["recomputation"] = _saved(step, point, replace(costs, recompute="none"))
    return found


def frame(points: Iterable[tuple[str, str, Configuration]]) -> pd.DataFrame:
    """The shares of several points by source and case; those that a point has not are empty."""
    rows = []
    for source, case, point in points:
        found = shares(point)
        columns = {column: found.get(term) for term, column in TERMS.items()}
        rows.append({"source": source, "case": case} | columns)
    return pd.DataFrame(rows)


def terms() -> Study:
    """The terms that each row of `validation` exercises.

    >>> TERMS["recomputation"]
    'recompute_percent'
    """
    points: dict[tuple[str, str], Configuration] = {}
    for row in all_rows():
        points.setdefault((row.source, row.case), row.point)
    found = frame((source, case, point) for (source, case), point in points.items())
    return Study(
        title="Terms of the cost model: what of a step each prediction owes to them",
        frame=found,
        basis=Basis(
            given="the rows of validation",
            fitted="nothing",
            open="terms overlap, so that they need not add up. Kernels are the rest",
        ),
    )

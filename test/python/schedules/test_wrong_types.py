"""Arguments of wrong types, for every public function: the package's own error names the found
type, or the value is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pipesched
import pytest
from pipesched import Configuration, Costs, Grid, Measurement, PipeSchedError, Schedule
from pipesched.fitting import Sample, correct, fit_steps

MADE = pipesched.generate("1f1b", workers=2, microbatches=2)
POINT = Configuration("1f1b", 2, 2, costs=Costs(times="F=1ms,B=2ms"))
TIMED = POINT.simulate()
PICTURE = MADE.to_svg()
PARTS = {"attention": {"F": 4, "I": 4, "W": 2}, "dispatch": {"F": 3, "I": 3},
         "mlp": {"F": 6, "I": 6, "W": 6}, "combine": {"F": 3, "I": 3}}  # fmt: skip
PROBLEM = pipesched.problem(workers=2, microbatches=2)
TIMES = "pipe-attach-profile{times=F=10ms,I=12ms,W=8ms}"
SMALL: dict[str, Any] = {
    "model": "llama3-8b", "system": "dgx-h100", "gpus": 8, "global_batch": 8, "top": 1,
    "schedules": ["1f1b"], "pp": [2], "tensor": [2], "microbatch_size": [1],
    "recompute": ["none"],
}  # fmt: skip
COSTS: dict[str, Any] = {
    "model": "llama3-8b", "system": "dgx-h100", "microbatch_size": 1, "sequence": 2048,
}  # fmt: skip
SAMPLES = [Sample("network", "message", 1e-6 + n / 2e9, bytes=n) for n in (1e3, 1e4, 1e5)]


def own(problem: Schedule) -> list[str]:
    cells = [f"F{n} B{n}" for n in range(problem.microbatches)]
    return [" ".join(f"{w}{c}" for x in cells for c in x.split()) for w in range(problem.workers)]


CALLS: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "Configuration": (
        Configuration,
        {"family": "1f1b", "workers": 2, "microbatches": 2, "options": {}, "paths": None},
    ),
    "Configuration.generate": (POINT.generate, {"name": "x"}),
    "Costs": (Costs, {**COSTS, "rates": "auto", "framework": "none"}),
    "Costs.with_": (Costs(**COSTS).with_, {"model": "llama3-8b", "sharding": "none"}),
    "Costs of times": (Costs, {"times": {"F": "1ms"}, "times_of": "stage"}),
    "Grid": (Grid, {"given": {"family": "1f1b", "workers": 2, "microbatches": 2}}),
    "Grid.from_file": (Grid.from_file, {"path": "missing.json", "allow_code": False}),
    "Measurement.from_file": (Measurement.from_file, {"path": "missing.json"}),
    "Measurement.from_json": (Measurement.from_json, {"text": "{}"}),
    "Schedule.from_text": (Schedule.from_text, {"text": MADE.to_text(), "name": None}),
    "Schedule.from_bytecode": (Schedule.from_bytecode, {"code": MADE.to_bytecode()}),
    "Schedule.from_csv": (
        Schedule.from_csv,
        {"text": MADE.to_csv(), "filename": "x", "keep_columns": False, "stages_per_path": None},
    ),
    "Schedule.from_file": (Schedule.from_file, {"path": "missing.mlir", "name": None}),
    "Schedule.from_rows": (
        Schedule.from_rows,
        {"rows": MADE.rows, "problem": None, "name": "x", "microbatches": None, "paths": None,
         "gradient_after": "I", "recompute": "none", "slices": None},
    ),  # fmt: skip
    "Schedule.from_frame": (
        Schedule.from_frame,
        {"frame": MADE.to_frame(), "problem": None, "name": None, "workers": None,
         "microbatches": None, "paths": None, "gradient_after": None, "recompute": None},
    ),  # fmt: skip
    "Schedule.to_csv": (MADE.to_csv, {"format": "compute_only"}),
    "Schedule.to_chakra": (MADE.to_chakra, {"costs": None}),
    "Schedule.save": (MADE.save, {"path": "/missing/x.svg", "width": None}),
    "Schedule.stages": (MADE.stages, {"worker": 0}),
    "Schedule.parameter_sets": (MADE.parameter_sets, {"worker": 0}),
    "Schedule.path_of": (MADE.path_of, {"microbatch": 0}),
    "Schedule.program": (MADE.program, {"worker": 0, "receives": None}),
    "Schedule.transform": (MADE.transform, {"pipeline": "pipe-compact"}),
    "Schedule.optimize": (
        PROBLEM.transform(TIMES).optimize,
        {"memory": 2, "offload": False, "recompute": "none", "gap": 0.5, "time_limit": 1,
         "max_evaluations": 10, "threads": 1, "placements": [], "microbatch_sizes": [],
         "split_backward": True, "explain": False, "objective": "makespan"},
    ),  # fmt: skip
    "Schedule.verify": (
        MADE.verify,
        {"messages": "unbounded", "memory": None, "memory_times": None,
         "receive_placement": None, "transport": None},
    ),  # fmt: skip
    "Schedule.simulate": (
        MADE.simulate,
        {"costs": None, "transport": "overlap", "receive_placement": "arrival",
         "forward_sends": "async", "runtime": "table", "disturbance": ""},
    ),  # fmt: skip
    "Schedule.to_svg": (MADE.to_svg, {"variant": None}),
    "Schedule": (Schedule, {"module": MADE._module}),
    "Simulation.to_frame": (TIMED.to_frame, {}),
    "Svg.scaled": (PICTURE.scaled, {"width": 400}),
    "Svg.to_png": (PICTURE.to_png, {"width": 400}),
    "Svg.contents": (PICTURE.contents, {"suffix": ".svg"}),
    "check_formula": (
        pipesched.check_formula, {"family": "with-a-formula", "workers": [2], "microbatches": [2]}
    ),
    "compare": (pipesched.compare, {"schedules": [POINT], "costs": None, "metrics": None}),
    "draw": (lambda first, variant: pipesched.draw(first, variant=variant),
             {"first": TIMED, "variant": "timed"}),
    "explain": (pipesched.explain, {"schedules": [POINT], "costs": None}),
    "fit": (
        pipesched.fit,
        {"system": "h100-sxm", "given": {}, "peak_tflops": None, "name": "x", "dtype": None,
         "message_bytes": None, "max_points": 6, "samples": SAMPLES, "command": None},
    ),  # fmt: skip
    "fitting.correct": (correct, {"steps": [], "system": "h100-sxm", "command": "x"}),
    "fitting.fit_steps": (fit_steps, {"system": "h100-sxm", "command": "x"}),
    "generate": (
        pipesched.generate,
        {"family": "interleaved-1f1b", "workers": 2, "microbatches": 2, "name": "x", "paths": None,
         "chunks": 2},
    ),  # fmt: skip
    "load": (pipesched.load, {"path": "missing.mlir"}),
    "loads": (pipesched.loads, {"text": MADE.to_text(), "filename": "x"}),
    "overlap": (
        pipesched.overlap,
        {"segments": {"layers": [PARTS]}, "order": "deepseek", "forward": (0, 1),
         "backward": (0, 1), "whole_backward": False, "contention": 1.1},
    ),  # fmt: skip
    "overlap of costs": (
        pipesched.overlap,
        {"costs": Costs(model="qwen3-30b-a3b", system="dgx-h100", microbatch_size=1,
                        expert_parallel=8, data_parallel=8), "microbatches": 1},
    ),  # fmt: skip
    "page": (pipesched.page, {"simulations": [TIMED], "title": "x"}),
    "plan": (pipesched.plan, SMALL),
    "plan with more": (
        pipesched.plan,
        {**SMALL, "misses": 0, "threads": 1, "optimize": None, "seeds": 2, "jitter": "1%",
         "slow_workers": {}, "slow_stages": {}, "slow_nodes": {}, "sequence": 2048,
         "attention": "fused", "precision": "bf16", "transport": "overlap", "context": [1],
         "context_exchange": None, "expert": [1], "chunks": [1], "vocabulary": None,
         "sharding": ["optimizer"], "launcher": "megatron", "memory": "80GiB", "reserve": 0,
         "expert_exposed": 100, "expert_balance": 1.0},
    ),  # fmt: skip
    "problem": (
        pipesched.problem,
        {"workers": 2, "microbatches": 2, "name": "x", "paths": [[0, 1]], "slices": 1},
    ),
    "register_family": (
        pipesched.register_family,
        {"name": "a-family", "function": own, "summary": "", "source": "", "formula": None},
    ),
    "sensitivity": (
        pipesched.sensitivity,
        {"point": POINT, "slow_workers": {}, "slow_stages": {}, "jitter": "5%", "seeds": 2,
         "slow_nodes": {}},
    ),  # fmt: skip
    "simulate_batch": (
        pipesched.simulate_batch,
        {"configurations": [POINT], "threads": 1, "progress": None, "metrics": None},
    ),
    "sweep": (
        pipesched.sweep,
        {"grid": {"family": "1f1b", "workers": 2, "microbatches": 2}, "processes": 1,
         "file": None, "executor": None, "progress": None, "metrics": None},
    ),  # fmt: skip
}
"""A valid call, except for missing files, of each function and method with arguments."""

MADE_BY_THE_PACKAGE = {
    "Alternative", "Cell", "Columns", "Comparison", "Diagnostic", "Family", "FamilyOptions", "Fit",
    "Group", "Html", "Instruction", "Location", "Measurement", "Optimization", "Pair",
    "ParameterSet", "Path", "PipeSchedError", "PipeSchedWarning", "Plan", "Proposal",
    "Report", "Sensitivity", "Simulation", "Stage", "Svg", "VerificationError",
    "WorkerProgram",
}  # fmt: skip
"""Classes whose constructors are not for users, or hold values that others check."""

WRONG = [
    None, True, -1, 0, 1.5, float("nan"), float("inf"), 10**30, "", "nope", "\ud800", "a\0b",
    b"bytes", [], [None], ["nope"], [[]], [["x"]], [[{}]], {}, {"nope": 1}, {1: 2}, (), (1, 2, 3),
    {1}, object(), lambda *given: None, pd.DataFrame(),
]  # fmt: skip


@pytest.fixture(autouse=True)
def registered() -> None:
    pipesched.register_family("with-a-formula", own, formula=lambda workers, microbatches: None)


def public() -> Iterator[str]:
    """The functions, constructors and methods that take arguments."""
    for name in pipesched.__all__:
        each = getattr(pipesched, name)
        if not inspect.isclass(each):
            if inspect.signature(each).parameters:
                yield name
            continue
        if name not in MADE_BY_THE_PACKAGE:
            yield name
        for method, value in vars(each).items():
            if method.startswith("_") or not (
                inspect.isfunction(value) or isinstance(value, staticmethod)
            ):
                continue
            parameters = list(inspect.signature(getattr(each, method)).parameters)
            if [n for n in parameters if n != "self"]:
                yield f"{name}.{method}"


OF_RESULTS = {
    "Comparison.to_html", "Comparison.to_svg", "Comparison.text", "Comparison.to_chrome_trace",
    "Fit.save", "Fit.worst", "Fit.rows", "Fit.summary", "Measurement.save",
    "Measurement.from_torch_traces", "Measurement.compare", "Measurement.profile",
    "Proposal.launchers", "Proposal.to_dict", "Plan.to_dicts", "Svg.to_pdf",
    "Measurement.to_frame", "Fit.to_json", "Svg.to_tikz",
}  # fmt: skip
"""Methods of results that take a folder, a width or a title, which others of the table have."""


def test_every_function_is_in_the_table() -> None:
    missing = [name for name in public() if name not in {*CALLS, *OF_RESULTS}]
    assert missing == []


@pytest.mark.parametrize("name", CALLS)
def test_wrong_types(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong value ends in the package's error, or is taken; nothing else is raised."""
    monkeypatch.chdir(tmp_path)
    function, arguments = CALLS[name]
    failed = []
    for argument in arguments:
        for value in WRONG:
            try:
                function(**{**arguments, argument: value})
            except (PipeSchedError, OSError):
                pass
            except BaseException as error:
                failed.append(f"{argument}={value!r}: {type(error).__name__}: {error}")
    assert failed == []

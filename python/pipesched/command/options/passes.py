"""The command line of `pipesched-opt` that does the same as a verb."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from pipesched import Costs, PipeSchedError
from pipesched.costs.costs import _looks_like_path
from pipesched.costs.passes import attach_model, attach_system
from pipesched.costs.stage_times import Place
from pipesched.schedule.registry import own_family
from pipesched.support.options import list_places, pass_options
from pipesched.support.options import one_pass as one_pass

from .arguments import families, passes_error, read_costs
from .files import Origin

DEFAULT_CHUNKS = 2
"""Default stages per worker of the families that have chunks."""

ONE_ROUND = ("seq1f1b", "slimpipe")
"""Families with chunks that have one stage per worker if no chunks are given."""


def generate(
    family: str,
    name: str,
    workers: int,
    microbatches: int,
    options: Mapping[str, Any],
    places: Sequence[Place] = (),
) -> list[str]:
    """The passes that make one schedule; `places` has its placement if stages differ in layers."""
    if own_family(family) is not None:
        raise PipeSchedError(
            f"family {family!r} is a Python function, which no pass calls: write its rows"
            " (pipesched convert -o FILE.mlir), and give the file"
        )
    given = {key: value for key, value in options.items() if value is not None}
    if "chunks" in families()[family].options and family not in ONE_ROUND:
        # Without chunks the pass would keep the linear path of `pipe-create`.
        given.setdefault("chunks", DEFAULT_CHUNKS)
    listed = ",".join(pass_options(given)[1:-1].split()) if given else None
    sizes = {"name": name, "workers": workers, "microbatches": microbatches}
    filling = {"schedule": name, "family": family, "options": listed}
    made = [one_pass("pipe-create", sizes)]
    if places:
        made.append(one_pass("pipe-place-list", {"schedule": name, "paths": list_places(places)}))
    return [*made, one_pass("pipe-schedule", filling)]


def _profiles(arguments: argparse.Namespace, times: Mapping[str, str] | None) -> list[str]:
    if times is not None:
        return [
            one_pass("pipe-attach-profile", {"schedule": schedule, "times": text})
            for schedule, text in times.items()
        ]
    kind = "file" if _looks_like_path(arguments.times) else "times"
    return [one_pass("pipe-attach-profile", {kind: arguments.times})]


_WRITTEN: list[TemporaryDirectory[str]] = []
"""Folders with descriptions that `--set` changed, which are removed at the end."""


def _folder_of(arguments: argparse.Namespace, costs: Costs) -> str:
    """The folder for changed descriptions. Raises an error if the passes are only shown."""
    changed = [n for n in ("system", "model") if isinstance(getattr(costs, n), Mapping)]
    if not changed:
        return ""
    if getattr(arguments, "show_passes", False):
        raise passes_error(arguments, changed[0])
    _WRITTEN.append(TemporaryDirectory(prefix="pipesched-"))
    return _WRITTEN[-1].name


def attach_costs(
    arguments: argparse.Namespace,
    times: Mapping[str, str] | None = None,
    costs: Costs | None = None,
) -> list[str]:
    """The passes that attach the costs of the arguments, or `costs` if they are already read.
    `times` has other times for each schedule.
    """
    passes = []
    costs = costs or read_costs(arguments)
    if costs is not None:
        folder, step = _folder_of(arguments, costs), getattr(arguments, "optimizer_step", None)
        if costs.system is not None:
            passes.append(attach_system(costs, folder, layer_buckets=step == "overlapped"))
        if costs.model is not None:
            passes.append(attach_model(costs, folder))
    if arguments.times:
        passes += _profiles(arguments, times)
    return passes


def end_step(arguments: argparse.Namespace) -> list[str]:
    """The pass that ends a training step, if requested; it follows `attach_costs`."""
    step = getattr(arguments, "optimizer_step", None)
    place = {"overlapped": "eager", "exposed": "end"}.get(step or "")
    return [one_pass("pipe-add-optimizer", {"all-reduce": place})] if place else []


def command_line(passes: Sequence[str], origin: Origin = Origin(), *, export: str = "") -> str:
    """A shell command line that starts from an empty module or from a file."""
    pipeline = shlex.quote(f"builtin.module({','.join(passes)})")
    line = f"pipesched-opt --pass-pipeline={pipeline}"
    file = origin.path
    if file != "-" and file.startswith("-"):
        file = f"./{file}"  # no option
    if origin.is_csv:
        line = f"pipesched-translate --import-torch-csv {shlex.quote(file)} | {line}"
    else:
        line = f"{line} {shlex.quote(file)}" if file else f"echo 'module {{}}' | {line}"
    return f"{line} | pipesched-translate {export}" if export else line


def timing_options(arguments: argparse.Namespace, disturbance: str = "") -> str:
    line = f"--transport={arguments.transport} --receive-placement={arguments.receive_placement}"
    sends = getattr(arguments, "forward_sends", None)
    line = f"{line} --forward-sends={sends}" if sends == "sync" else line
    runtime = getattr(arguments, "runtime", "table")
    line = line if runtime == "table" else f"{line} --runtime={runtime}"
    return f"{line} --disturbance={shlex.quote(disturbance)}" if disturbance else line

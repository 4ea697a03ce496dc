"""Fits a system to samples, and reports the quality of the fit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..costs.costs import Costs, Description
from ..errors import PipeSchedError, WrongType
from ..support.options import integer, list_of, mapping_of, number_of, path_of, text_of
from . import files as _files
from ._parts import NotFittedError, PartFit, Settings, fit_engine, fit_link
from ._samples import LINKS, PARTS, Found, Sample, dtype_of, medians
from ._system import REQUIRED, System, accelerators_of, get, predict, put, read_base

if TYPE_CHECKING:
    import pandas as pd

FieldValue = float | int | str
WORST = 3
"""The number of samples with large errors that the text lists."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A system that was fitted to measurements."""

    system: dict[str, Any]
    """The fields of a system file, with sources."""
    assumptions: tuple[str, ...]
    """Everything that affects the answer and was not measured, one sentence each."""
    unknown: Mapping[str, float]
    """The share of kernels in the time of all traces, by name, whose work is unknown."""
    _samples: tuple[Sample, ...]
    _parts: tuple[PartFit, ...]
    _used: frozenset[int]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that were fitted."""
        return tuple(part.part for part in self._parts)

    def residuals(self) -> pd.DataFrame:
        """One row per distinct sample: part, kind, name, dtype, flops, bytes, group, count,
        measured_s, predicted_s, error (predicted over measured, minus 1), fitted (or only
        predicted), place.
        """
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for at, sample in enumerate(self._samples):
            predicted = predict(sample, self.system)
            rows.append(
                {
                    "part": sample.part,
                    "kind": sample.kind,
                    "name": sample.name,
                    "dtype": sample.dtype,
                    "flops": float(sample.flops),
                    "bytes": float(sample.bytes),
                    "group": sample.group,
                    "count": sample.count,
                    "measured_s": float(sample.seconds),
                    "predicted_s": float(predicted),
                    "error": float(predicted / sample.seconds - 1),
                    "fitted": at in self._used,
                    "place": sample.place,
                }
            )
        return rows

    def summary(self) -> list[dict[str, Any]]:
        """One row per part and kind: number of sizes and samples, range, errors."""
        groups: dict[tuple[str, str, bool], list[dict[str, Any]]] = {}
        for row in self.rows():
            groups.setdefault((row["part"], row["kind"], row["fitted"]), []).append(row)
        order = sorted(groups, key=lambda key: (PARTS.index(key[0]), not key[2], key[1]))
        return [_summary(key, groups[key]) for key in order]

    def worst(self, number: int = WORST) -> list[dict[str, Any]]:
        """The fitted samples with the largest errors."""
        rows = [row for row in self.rows() if row["fitted"]]
        return sorted(rows, key=lambda row: -abs(row["error"]))[:number]

    def to_json(self) -> str:
        """The system file."""
        return json_of(self.system)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the system file, whole or not at all."""
        from ..command.render.output import write_text

        write_text(self.to_json(), os.fspath(path))

    def __repr__(self) -> str:
        return f"<fit of {', '.join(self.parts)} to {len(self._samples)} sizes>"


def json_of(system: System) -> str:
    text = json.dumps(system, indent=2, ensure_ascii=False)
    for _ in range(2):  # points of curves, and then curves, on one line each
        text = re.sub(r"\[\n\s+([-0-9.e, \[\]\n]*?)\n\s+\]", _on_one_line, text)
    return text + "\n"


def _on_one_line(numbers: re.Match[str]) -> str:
    return "[" + re.sub(r",\s+", ", ", numbers[1]) + "]"


def _summary(key: tuple[str, str, bool], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    part, kind, fitted = key
    unit = "flops" if part in ("matrix", "vector") else "bytes"
    sizes = [row[unit] for row in rows]
    errors = np.array([abs(row["error"]) for row in rows])
    known = errors[np.isfinite(errors)]
    at = int(np.nanargmax(errors)) if len(known) else 0
    return {
        "part": part,
        "kind": kind,
        "fitted": fitted,
        "samples": sum(row["count"] for row in rows),
        "sizes": len(rows),
        "unit": unit,
        "smallest": min(sizes),
        "largest": max(sizes),
        "median_error": float(np.median(known)) if len(known) else None,
        "worst_error": rows[at]["error"] if len(known) else None,
        "worst": rows[at]["name"],
        "worst_place": rows[at]["place"],
    }


# Making one


@dataclass
class _Request:
    base: System
    base_name: str
    given: dict[str, FieldValue]
    settings: Settings
    command: str
    sources: list[str] = field(default_factory=list)


def _start(request: _Request) -> System:
    system = request.base
    is_whole = bool(system)
    for path, value in request.given.items():
        if path not in _PEAKS and value == "measured":
            raise PipeSchedError(f"{path}: only peaks can be `measured`: {', '.join(_PEAKS)}")
        put(system, path, value)
    if is_whole:
        numbers = deepcopy(system)
        for path in request.settings.measured:
            put(numbers, path, 1)
        Costs(system=numbers)
    for path in request.settings.measured:
        parent, _, field = path.partition(".")
        del system[parent][field]
    return system


_PEAKS = ("matrix.tflops", "matrix.fp8_tflops", "vector.tflops", "memory.bandwidth_gb_per_s")


def _fit_all(samples: Sequence[Sample], system: System, settings: Settings) -> list[PartFit]:
    """Fits memory first: the engines are fitted to the kernels that memory does not bound."""
    fits, reasons = [], []
    for part in ("memory", "matrix", "vector", *LINKS):
        fit_part = fit_link if part in LINKS else fit_engine
        try:
            found = fit_part(part, samples, system, settings)
        except NotFittedError as error:
            reasons.append(str(error))
            continue
        if found is not None:
            fits.append(found)
    if not fits:
        raise PipeSchedError("\n".join(reasons) or "no sample can be fitted")
    for reason in reasons:
        settings.assume(f"not fitted, the system keeps what it has: {reason}")
    return fits


def _errors_text(samples: Sequence[Sample], fit: PartFit, system: System) -> str:
    errors = np.array([predict(samples[at], system) / samples[at].seconds - 1 for at in fit.used])
    count = sum(samples[at].count for at in fit.used)
    return (
        f"{count} samples of {len(fit.used)} sizes, errors: median "
        f"{100 * float(np.median(np.abs(errors))):.2g} %, "
        f"worst {100 * float(np.max(np.abs(errors))):.2g} %"
    )


def _set_sources(request: _Request, samples: Sequence[Sample], fits: list[PartFit]) -> None:
    system = request.base
    sources = {
        path: text
        for path, text in (system.get("sources") or {}).items()
        if get(system, path) is not None and isinstance(text, str)
    }
    for path in request.given:
        if path not in request.settings.measured:
            sources[path] = f"given: {request.command}"
    for fit in fits:
        text = f"fitted: {request.command}; {_errors_text(samples, fit, system)}"
        for name in fit.fields:
            path = f"{fit.part}.{name}"
            is_peak = name in ("tflops", "fp8_tflops", "capacity_gb")
            is_peak |= name == "bandwidth_gb_per_s" and fit.part == "memory"
            if not is_peak or (path not in sources and fit.part not in sources):
                sources[path] = text
        if fit.part in LINKS:
            sources.pop(fit.part, None)
    system["sources"] = sources


def _check_complete(system: System) -> None:
    missing = [path for path in REQUIRED if get(system, path) is None]
    if missing:
        options = " ".join(f"--set {path}=..." for path in missing)
        raise PipeSchedError(
            f"the samples do not say {', '.join(missing)}; give --system with a system that is "
            f"alike, or {options}"
        )


def fit(
    *files: str | os.PathLike[str],
    system: Description | None = None,
    given: Mapping[str, FieldValue] | None = None,
    peak_tflops: float | str | None = None,
    name: str | None = None,
    dtype: str | None = None,
    message_bytes: int | None = None,
    max_points: int = 6,
    samples: Iterable[Sample] = (),
    command: str | None = None,
) -> Fit:
    """Fits a system to the measurements of `files` (tables as CSV or JSON lines, output of
    nccl-tests, traces of PyTorch's profiler, measurements of schedules) and to `samples`.

    Values that are not measured come from `system` and from `given`, which maps fields such as
    `memory.capacity_gb` to values; peaks may be `"measured"`, the highest rate of the samples.
    `peak_tflops` is the same as `matrix.tflops` in `given`. `dtype` names the matrix products of
    the curve. `message_bytes` is the size of messages of measurements whose schedule has no model.
    `max_points` limits the points of a curve. `command` names the source in the file.

    Raises PipeSchedError for files that cannot be read or fitted.

    >>> import pipesched
    >>> from pipesched.fitting import Sample
    >>> fitted = pipesched.fit(system="toy", samples=[
    ...     Sample("network", "message", 1e-6 + size / 2e9, bytes=size)
    ...     for size in (1e3, 1e4, 1e5, 1e6)])
    >>> fitted.system["network"]
    {'bandwidth_gb_per_s': 2, 'latency_us': 1}
    """
    given_samples = list_of("samples", "[Sample(...)]", samples)
    for sample in given_samples:
        if not isinstance(sample, Sample):
            raise WrongType(f"samples are pipesched.fitting.Sample objects; got {sample!r}")
    for path in files:
        path_of("a file", path)
    _check_texts(name=name, dtype=dtype, command=command)
    if message_bytes is not None:
        integer("message_bytes", message_bytes, 0)
    integer("max_points", max_points, 2)
    found = _files.read(files, message_bytes)
    found.samples += given_samples
    values = _values(given, peak_tflops)
    base_name = system if isinstance(system, str) else ""
    settings = Settings(
        frozenset(path for path, value in values.items() if value == "measured"),
        _dtype(dtype),
        max_points,
        assumed=found.notes,
    )
    made_by = command or f"pipesched.fit({', '.join(repr(os.fspath(file)) for file in files)})"
    request = _Request(read_base(system), base_name, values, settings, made_by)
    return _make_fit(request, found, name)


def _check_texts(**texts: str | None) -> None:
    for what, text in texts.items():
        if text is not None:
            text_of(what, text)


def _values(
    given: Mapping[str, FieldValue] | None, peak_tflops: float | str | None
) -> dict[str, FieldValue]:
    """Values given in place of measurements, by field."""
    values = dict(mapping_of("given", "{'memory.capacity_gb': 80}", given))
    for name in values:
        text_of("a field of given", name)
    if peak_tflops is not None:
        check = text_of if isinstance(peak_tflops, str) else number_of
        check("peak_tflops", peak_tflops)
        values["matrix.tflops"] = peak_tflops
    return values


def _dtype(text: str | None) -> str | None:
    if text is None:
        return None
    found = dtype_of(text)
    if not found:
        raise PipeSchedError(f"dtype {text!r}: wanted one such as bfloat16, float16 or float32")
    return found


def _make_fit(request: _Request, found: Found, name: str | None) -> Fit:
    fitted = _start(request)
    distinct = medians(_place(found, fitted, request.settings))
    if not distinct:
        raise PipeSchedError(_nothing(found))
    fits = _fit_all(distinct, fitted, request.settings)
    _check_complete(fitted)
    base = request.base_name or "given values"
    fitted["name"] = name or f"{fitted.get('name', 'system')}-fitted"
    parts = ", ".join(fit.part for fit in fits)
    fitted["description"] = f"fitted to measurements: {parts}; the rest is of {base}"
    fitted.pop("aliases", None)
    _set_sources(request, distinct, fits)
    Costs(system=fitted)
    total = found.seconds or sum(found.unknown.values()) or 1.0
    unknown = {n: s / total for n, s in sorted(found.unknown.items(), key=lambda item: -item[1])}
    used = frozenset(at for each in fits for at in each.used)
    settings = request.settings
    return Fit(
        _in_order(fitted), tuple(settings.assumed), unknown, tuple(distinct), tuple(fits), used
    )


def _nothing(found: Found) -> str:
    text = "found nothing that can be fitted"
    if found.unknown:
        names = sorted(found.unknown, key=lambda name: -found.unknown[name])[:3]
        text += f"; the work of {', '.join(names)} is not known"
    return "\n".join([text, *(f"note: {note}" for note in found.notes)])


def _place(found: Found, system: System, settings: Settings) -> list[Sample]:
    """The samples; between ranks they are on a link or the network, by nodes."""
    per_node = int(system.get("accelerators_per_node") or 0)
    placed, mixed = [], 0
    for sample in found.samples:
        nodes = {rank // per_node for rank in sample.ranks} if per_node else set()
        if len(nodes) == 1:
            placed.append(replace(sample, part="link", ranks=()))
        elif nodes and len(nodes) < len(set(sample.ranks)):
            mixed += 1
        else:
            placed.append(replace(sample, ranks=()))
    if any(sample.ranks for sample in found.samples):
        text = f"nodes of {per_node} ranks" if per_node else "no nodes, so all are on the network"
        settings.assume(
            f"messages and collectives of ranks: the system says {text}; "
            "--set accelerators_per_node=N changes that"
        )
    workers = accelerators_of(system)
    if workers > 1 and any(sample.part == "network" for sample in placed):
        settings.assume(
            f"network: samples are those of one accelerator; a worker has {workers}, with as many "
            "adapters, so that its bandwidth is that many times theirs"
        )
    if mixed:
        settings.assume(
            f"{mixed} collectives have several ranks on each of several nodes; their times mix "
            "link and network and are left out"
        )
    return placed


_NODES = ("accelerators", "accelerators_per_node", "accelerators_per_pod")
_ORDER = ("$schema", "name", "description", *_NODES, *PARTS[:-1], "spine", PARTS[-1])


def _in_order(system: System) -> System:
    """The fields as the files that ship have them."""
    last = ("processing", "sources")
    names = [n for n in _ORDER if n in system]
    names += [n for n in system if n not in (*_ORDER, *last)]
    return {n: system[n] for n in (*names, *(n for n in last if n in system))}

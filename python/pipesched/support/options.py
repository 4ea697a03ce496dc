"""Options that several functions share, and their conversion for the library."""

from __future__ import annotations

import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args

from .. import _core
from ..errors import PipeSchedError, WrongType
from .text import valid

T = TypeVar("T")

_ENCODABLE = re.compile("[^\ud800-\udc7f\udd00-\udfff]*", re.DOTALL)
"""Matches paths that Python can encode: a path with bytes outside UTF-8 has U+DC80 to U+DCFF."""

# Type checkers read these lists, and `names_of` reads the lists of the library. A test checks that
# they are equal.
Transport = Literal["overlap", "delay", "blocking", "pairs"]
ReceivePlacement = Literal["arrival", "consumer"]
ForwardSends = Literal["async", "sync"]
Runtime = Literal["table", "torch"]
TimesOf = Literal["stage", "worker", "layer"]
Balance = Literal["auto", "cost", "exact"]
Messages = Literal["unbounded", "fifo", "rendezvous", "batched", "pairs"]
Phase = Literal[
    "F",
    "B",
    "I",
    "W",
    "R",
    "D",
    "U",
    "O",
    "G",
    "d",
    "u",
    "S",
    "T",
    "X",
    "Y",
    "Z",
    "E",
    "A",
    "C",
    "V",
]
"""F forward, B backward, I input gradient, W weight gradient, R recompute, D offload, U reload, O
optimizer step, G all-reduce of gradients; d and u are joins of offloads and reloads. For a
vocabulary that is spread over the workers: S logits of a shard, T their gradients, X broadcast of
the last output, Y softmax over the shards, Z sum of the gradients of that output; E lookup in a
shard of the embedding, A sum of the lookups, C broadcast of the gradient of that sum, V gradient of
the shard.
"""
InstructionKind = Literal[
    "compute",
    "send",
    "recv",
    "offload",
    "reload",
    "wait",
    "all_reduce",
    "broadcast",
    "combine",
    "reduce",
    "reduce_lookups",
    "broadcast_gradient",
]
Lane = Literal[
    "compute",
    "send",
    "receive",
    "offload",
    "reload",
    "all-reduce",
    "broadcast",
    "reduction",
    "lookup",
    "gradient",
]
Rates = Literal["auto", "load", "data-sheet"]
Recompute = Literal["none", "selective", "full"]
Attention = Literal["fused", "unfused", "flash-2", "flash-3", "cudnn"]
Precision = Literal["bf16", "fp8", "nvfp4"]
Sharding = Literal["none", "optimizer", "gradients", "full-kept", "full"]
RankOrder = Literal["data", "pipeline"]
ContextExchange = Literal["ring", "gather"]
ExpertDispatch = Literal["all-to-all", "per-node", "per-rank"]
KernelLaunch = Literal["single", "graphs"]
TensorOverlap = Literal["none", "backward"]
GradientBuckets = Literal["auto", "whole", "layers"]
SliceCut = Literal["tokens", "work"]
SliceExchange = Literal["none", "pairs"]
OptimizerStep = Literal["none", "overlapped", "exposed"]
SvgVariant = Literal["timed", "slots", "rows"]
CsvFormat = Literal["compute_only", "compute_comms"]
Construction = Literal["concat", "doubling", "halving"]
Vocabulary = Literal["vocab-1", "vocab-2"]
VocabularyKind = Literal["whole", "vocab-1", "vocab-2", "interlaced"]
GradientAfter = Literal["I", "W"]
Slots = Literal["unit", "blocks", "durations"]
Objective = Literal["makespan", "period"]
MemoryTimes = Literal["any", "given"]
PairOrder = Literal["in-turn", "deepseek", "megatron", "best", "fluid"]
PlacementName = Literal["linear", "interleaved", "v", "wave"]

ENUMS: dict[object, str] = {
    Transport: "transport",
    ReceivePlacement: "receive-placement",
    ForwardSends: "forward-sends",
    Runtime: "runtime",
    Messages: "messages",
    InstructionKind: "instruction",
    Lane: "lane",
    Rates: "rates",
    Recompute: "recompute",
    Attention: "attention",
    Precision: "precision",
    Sharding: "sharding",
    RankOrder: "rank-order",
    ContextExchange: "context-exchange",
    ExpertDispatch: "expert-dispatch",
    KernelLaunch: "kernel-launch",
    TensorOverlap: "tensor-overlap",
    GradientBuckets: "gradient-buckets",
    SliceCut: "slice-cut",
    SliceExchange: "slice-exchange",
    OptimizerStep: "optimizer-step",
    SvgVariant: "svg-variant",
    CsvFormat: "torch-csv-format",
    Construction: "construction",
    Vocabulary: "vocabulary",
    GradientAfter: "gradient-after",
    Slots: "slots",
    Objective: "objective",
    MemoryTimes: "memory-times",
    PlacementName: "placements",
    PairOrder: "order",
}
"""The names of the enums in the library."""

_AS_DESCRIBED = "as-described"
"""The name of the library for `attention=None`."""

_LISTED = _core.enums()


def names_of(choices: object) -> tuple[Any, ...]:
    """The names of an enum of the library, or of any other Literal."""
    if choices not in ENUMS:
        return get_args(choices)
    return tuple(name for name in _LISTED[ENUMS[choices]] if name != _AS_DESCRIBED)


class FamilyOptions(TypedDict, total=False):
    """Options of schedule families; `pipesched.families` lists the options of each."""

    chunks: int
    group: int
    waves: int
    pairs: int
    memory: int
    construction: Construction
    slices: int
    vocabulary: Vocabulary
    backward: int
    embedding: bool
    split_backward: bool
    gradient_after: GradientAfter
    forward_only: bool


class TimingOptions(TypedDict, total=False):
    """How messages occupy workers, the runtime of the cells, and disturbances."""

    transport: Transport
    receive_placement: ReceivePlacement
    forward_sends: ForwardSends
    runtime: Runtime
    disturbance: str


@dataclass(frozen=True)
class Path:
    """The workers of the stages that some microbatches pass.

    `takes` has those microbatches as ranges; a single path needs none and takes all. `blocks`
    divides the layers of the model among the stages; `weights` gives their relative lengths. At
    most one of the two is given. `frozen` has the stages without weight gradients; with
    `forward_only` no stage has a backward.
    """

    workers: Sequence[int]
    takes: Sequence[range] = ()
    blocks: Sequence[int] | None = None
    weights: Sequence[int] | None = None
    frozen: Sequence[int] = ()
    forward_only: bool = False


Paths = Sequence[Path | Sequence[int]]
"""Paths, or just the workers of their stages."""

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@cache
def _codes_of(choices: object) -> dict[str, int]:
    """The numbers of the names of an enum, cached since Python hashes a Literal slowly."""
    names = names_of(choices)
    listed = _LISTED[ENUMS[choices]] if choices in ENUMS else names
    return {name: listed.index(name) for name in names}


def code_of(choices: object, what: str, value: str) -> int:
    """The number of a choice in the library; for any other Literal, its position."""
    codes = _codes_of(choices)
    if not isinstance(value, str):
        raise WrongType(f"{what} is one of {', '.join(codes)}; got {value!r}")
    if value not in codes:
        raise PipeSchedError(f"{what} is one of {', '.join(codes)}; got {value!r}")
    return codes[value]


def integer(what: str, value: int, least: int = -_INT64_MAX, most: int = _INT64_MAX) -> int:
    """Checks that the library can represent the value; the library itself checks the rest."""
    try:
        value = int(operator.index(value))  # NumPy has separate integers.
    except TypeError:
        raise WrongType(f"{what} is an integer; got {value!r}") from None
    if not least <= value <= most:
        upper = f" to {most}" if most < _INT64_MAX or value > most else ""
        raise PipeSchedError(f"{what} is an integer from {least}{upper}; got {value!r}")
    return value


def integers(
    what: str, values: Sequence[int], least: int = -_INT64_MAX, most: int = _INT64_MAX
) -> list[int]:
    """Checks that the library can represent all values, one by one only to name a wrong one."""
    try:
        found = list(map(operator.index, values))
    except TypeError:
        found = []
    if found and least <= min(found) and max(found) <= most:
        return found
    return [integer(what, value, least, most) for value in values]


def text_of(what: str, value: object) -> str:
    """Checks that the value is a text that UTF-8 can encode."""
    if not isinstance(value, str):
        raise WrongType(f"{what} is a str; got {value!r}")
    if valid(value) != value:
        raise PipeSchedError(f"{what} has half of a surrogate pair, which is no UTF-8: {value!r}")
    return value


def path_of(what: str, value: object) -> str:
    """Checks that the value is a path, whose bytes need not be UTF-8."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise WrongType(f"{what} is a path; got {value!r}")
    path: str = os.fspath(value)
    if "\0" in path or not _ENCODABLE.fullmatch(path):
        raise PipeSchedError(f"{what} is a path, which no file can have: {path!r}")
    return path


def flag_of(what: str, value: object) -> bool:
    """Checks that the value is True or False."""
    if not isinstance(value, bool):
        raise WrongType(f"{what} is True or False; got {value!r}")
    return value


def callable_of(what: str, value: Callable[..., object] | None) -> None:
    """Checks that the value is None or can be called."""
    if value is not None and not callable(value):
        raise WrongType(f"{what} is a function; got {value!r}")


def mapping_of(what: str, such_as: str, value: Mapping[Any, Any] | None) -> Mapping[Any, Any]:
    """Checks that the value is a mapping; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise WrongType(f"{what} is a mapping such as {such_as}; got {value!r}")
    return value


def instance_of(what: str, kind: type[T], value: object) -> T:
    """Checks that the value is an object of a class of the package."""
    if not isinstance(value, kind):
        raise WrongType(f"{what} is a {kind.__name__}; got {value!r}")
    return value


def number_of(
    what: str, value: object, least: float = 0.0, most: float = sys.float_info.max
) -> float:
    """Checks that the value is a number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType(f"{what} is a number; got {value!r}")
    if not least <= value <= most:
        upper = f" to {most:g}" if most < sys.float_info.max else ""
        raise PipeSchedError(f"{what} is a number from {least:g}{upper}; got {value!r}")
    return float(value)


def list_of(what: str, such_as: str, value: Iterable[T]) -> list[T]:
    """Checks that the value is a list or another iterable of values, and no text."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise WrongType(f"{what} is a list such as {such_as}; got {value!r}")
    return list(value)


RawTiming = tuple[int, int, int, int, str]
"""Transport, receive placement, forward sends, runtime, disturbance."""


_TIMING: dict[str, tuple[object, str]] = {
    "transport": (Transport, "overlap"),
    "receive_placement": (ReceivePlacement, "arrival"),
    "forward_sends": (ForwardSends, "async"),
    "runtime": (Runtime, "table"),
}
"""The enums of the options of timing, and their defaults."""


@cache
def _codes_of_timing(chosen: tuple[str, ...]) -> tuple[int, int, int, int]:
    """The numbers of a combination of these options; there are few."""
    given = zip(_TIMING.items(), chosen, strict=True)
    one, two, three, four = (code_of(kind, name, value) for (name, (kind, _)), value in given)
    return one, two, three, four


def raw_timing(options: TimingOptions) -> RawTiming:
    """The options in the form that the library takes."""
    given = cast(Mapping[str, str], options)
    chosen = tuple(given.get(name, default) for name, (_, default) in _TIMING.items())
    disturbed = options.get("disturbance", "")
    for name, value in zip(_TIMING, chosen, strict=True):
        if not isinstance(value, str):  # Other values may not be keys of the cache.
            code_of(_TIMING[name][0], name, value)
    return *_codes_of_timing(chosen), text_of("disturbance", disturbed)


_Lengths = list[int] | None
_RawPath = tuple[list[int], list[tuple[int, int, int]], _Lengths, _Lengths, list[int], bool]


def _raw_lengths(what: str, lengths: Sequence[int] | None) -> _Lengths:
    return None if lengths is None else integers(what, lengths)


def _raw_path(path: Path | Sequence[int]) -> _RawPath:
    if not isinstance(path, (Path, Sequence)) or isinstance(path, str):
        raise WrongType(f"a path is a Path or a list of workers; got {path!r}")
    if not isinstance(path, Path):
        path = Path(path)
    return (
        integers("a worker", path.workers, 0, _INT32_MAX),
        [(taken.start, taken.stop, taken.step) for taken in path.takes],
        _raw_lengths("a number of blocks", path.blocks),
        _raw_lengths("a weight", path.weights),
        integers("a frozen stage", path.frozen, 0),
        bool(path.forward_only),
    )


def raw_paths(paths: Paths | None) -> list[_RawPath]:
    """Paths in the form that the library takes."""
    if paths is not None and (not isinstance(paths, Sequence) or isinstance(paths, str)):
        raise WrongType(f"paths are a list of paths, such as [[0, 1, 1, 0]]; got {paths!r}")
    return [_raw_path(path) for path in paths or ()]


def _read_path(
    workers: list[int],
    takes: list[tuple[int, int, int]],
    blocks: _Lengths,
    weights: _Lengths,
    frozen: Sequence[int] = (),
    forward_only: bool = False,
) -> Path:
    return Path(
        tuple(workers),
        tuple(range(*taken) for taken in takes),
        None if blocks is None else tuple(blocks),
        None if weights is None else tuple(weights),
        tuple(frozen),
        forward_only,
    )


def read_paths(raw: Sequence[_RawPath]) -> tuple[Path, ...]:
    """The inverse of `raw_paths`. Frames of earlier versions have four values a path."""
    return tuple(_read_path(*path) for path in raw)


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def raw_options(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the options as texts, without the ones that are None."""
    given = ((name, value) for name, value in options.items() if value is not None)
    return [(name.replace("_", "-"), text_of(name, _text_of(value))) for name, value in given]


def _why_unsayable(value: str) -> str | None:
    """Returns the reason why no text of a pass pipeline expresses this value. MLIR ends options at
    their brace even within quotes, has no escapes within quotes, and drops blanks at the ends of
    values.
    """
    depth = 0
    for letter in value:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth < 0:
            break
    if depth:
        return "braces that do not match"
    if '"' in value and "'" in value:
        return "both kinds of quotes"
    return "blanks at its ends" if value != value.strip() else None


def _quote(name: str, value: str) -> str:
    """A value as a pass reads it, quoted if it has to be."""
    if why := _why_unsayable(value):
        raise PipeSchedError(
            f"{name}: {value!r} has {why}, which no text of a pass pipeline can say; rename it"
        )
    if value and not any(letter.isspace() or letter in "\"'{}" for letter in value):
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


def pass_options(options: Mapping[str, Any]) -> str:
    """Options in the form that a pass takes: `{chunks=2 group=4}`. Values with blanks, quotes or
    braces are quoted; raises an error if that is impossible.

    >>> pass_options({"name": "the first", "chunks": 2})
    '{name="the first" chunks=2}'
    """
    given = raw_options(options)
    return "{" + " ".join(f"{name}={_quote(name, value)}" for name, value in given) + "}"


def one_pass(name: str, options: Mapping[str, Any] | None = None) -> str:
    """`pipe-create{workers=8 microbatches=24}`, without options that are None."""
    given = {key: value for key, value in (options or {}).items() if value is not None}
    return name + (pass_options(given) if given else "")


def list_places(places: Iterable[tuple[Sequence[int], Sequence[int] | None]]) -> str:
    """Paths with the layers of their stages, as `0,1,2,3 blocks 20,20,20,20`."""
    return ";".join(
        f"{','.join(map(str, workers))} blocks {','.join(map(str, lengths or ()))}"
        for workers, lengths in places
    )

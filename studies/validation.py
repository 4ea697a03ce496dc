"""Measured layers, steps, throughput and memory, alongside our predictions.

No value is fitted to the row that it predicts. Factors on the curves come from the times of one
layer: each layer is predicted from the other settings, steps from all of them. H100 clocks come
from another row of the same benchmark; zero bubble's schedules use its profiled times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple

import pandas as pd
import pipesched
from pipesched import Configuration, Costs, FamilyOptions, Path, Simulation
from pipesched.paper import Basis, Study

from . import zero_bubble
from .study import GIB, data, fields, percent, plain_costs

VOCABULARY = 51200
TENSOR_PARALLEL = 8
"""Accelerators per worker of all rows predicted by roofline: a worker is a node."""


def published() -> dict[str, Any]:
    """The measurements.

    >>> [row["full_recompute_s"] for row in published()["sequence_parallel_2205_05198"]["rows"]]
    [18.13, 49.05]
    """
    return data("validation.json")


class Row(NamedTuple):
    """One measured number, and its prediction."""

    source: str
    case: str
    quantity: str
    unit: str
    measured: float
    predicted: float
    curves: str
    point: Configuration
    """The configuration that is predicted, for studies of its terms."""
    group: str = ""
    """The rows with which it is grouped for medians; empty: the rows of its source."""
    cluster: str = ""
    """Rows of one cluster, model and batch, whose order counts; empty: none."""

    @property
    def error_percent(self) -> float:
        """How far the prediction is above the measurement."""
        return percent(self.predicted, self.measured)


def cluster_of(row: Row) -> str:
    """Returns the group of rows whose order counts; empty: the row has no others."""
    if row.quantity == "memory" or row.source == "2205.05198 table 4":
        return ""
    if row.source == "2401.10241 table 4":
        return f"{row.source} {row.case.rsplit(',', 1)[0]}"
    if row.source in ("2205.05198 table 5", "torchtitan 2024-12 table 5"):
        return f"{row.source} {row.case.split(',')[0]}"
    return f"{row.source} {row.cluster} {row.quantity}" if row.cluster else ""


# Models and systems


@dataclass(frozen=True)
class Gpt:
    """A model of the Megatron papers by hidden size, heads and layers."""

    hidden: int
    heads: int
    layers: int

    def description(self, *, has_ends: bool = True) -> dict[str, Any]:
        """The fields of its description; without ends it has no embedding and head."""
        ends = {"vocabulary": VOCABULARY, "learned_positions": True, "tied_embeddings": True}
        return {
            "name": "gpt",
            "description": "GPT of the Megatron papers",
            "hidden": self.hidden,
            "feedforward": 4 * self.hidden,
            "sequence": 2048,
            "layers": self.layers,
            "attention_heads": self.heads,
            "activation": "gelu",
            "norm": "layer",
            "attention": "unfused",
            "dropout": True,
            "biases": True,
            **(ends if has_ends else {}),
        }


MODELS = {
    "22B": Gpt(6144, 64, 48),
    "39.1B": Gpt(8192, 64, 48),
    "145.6B": Gpt(12288, 96, 80),
    "175B": Gpt(12288, 96, 96),
    "529.6B": Gpt(20480, 128, 105),
    "530B": Gpt(20480, 128, 105),
}


class Scales(NamedTuple):
    """Factors on the rates of a shipped system."""

    matrix: float = 1.0
    memory: float = 1.0
    """The factor on the traffic of vector kernels: fused kernels move less than one kernel per
    operation.
    """


def _scaled(system: Mapping[str, Any], scales: Scales, **memory: float) -> dict[str, Any]:
    made = fields(system)
    rates = {name: rate for name, rate in made["matrix"].items() if name.endswith("tflops")}
    made["name"] = f"{system['name']}-scaled"
    made["matrix"] = {
        **made["matrix"],
        **{name: scales.matrix * rate for name, rate in rates.items()},
    }
    made["memory"] = {**made["memory"], **memory}
    made["memory"]["bandwidth_gb_per_s"] *= scales.memory
    return made


def _a100(scales: Scales) -> dict[str, Any]:
    return _scaled(pipesched.systems()["dgx-a100"], scales)


# The layer of Korthikanti et al. (arXiv 2205.05198), table 4

SETTINGS: dict[str, tuple[Any, bool]] = {
    "plain": ("none", False),
    "sequence_parallel": ("none", True),
    "full_recompute": ("full", False),
    "selective_sp": ("selective", True),
}
"""For each setting, the recomputed part and whether the residual stream is divided."""

LAYER_MICROBATCH = 4
Times = tuple[float, float]
"""F and B of one layer in ms."""

GRID = [Scales(matrix / 20, memory / 4) for matrix in range(14, 27) for memory in range(2, 13)]
"""Factors in steps of 1/20 for matrices and 1/4 for memory."""


def layer_point(setting: str, scales: Scales) -> Configuration:
    """A layer of the 22B model, on eight A100 with these factors."""
    recompute, is_divided = SETTINGS[setting]
    model = Gpt(MODELS["22B"].hidden, MODELS["22B"].heads, 1)
    costs = plain_costs(
        model=model.description(has_ends=False),
        system=_a100(scales),
        microbatch_size=LAYER_MICROBATCH,
        recompute=recompute,
        sequence_parallel=is_divided,
    )
    return Configuration("1f1b", 1, 1, costs=costs)


def layer_times(setting: str, scales: Scales) -> Times:
    """F and B of a layer of the 22B model, on eight A100 with these factors."""
    cells = layer_point(setting, scales).simulate().to_frame()
    forward, backward = ((cells.end_ps - cells.start_ps) / 1e9).tolist()
    return forward, backward


def _measured_layer(setting: str) -> Times:
    times = published()["sequence_parallel_2205_05198"]["layer_22b_ms"][setting]
    return times["F"], times["B"]


@cache
def _grid_times(setting: str) -> list[Times]:
    return [layer_times(setting, scales) for scales in GRID]


def fit(settings: Iterable[str] = SETTINGS) -> Scales:
    """The factors of the grid with the least sum of squared relative errors of these layers."""
    squares = [0.0] * len(GRID)
    for setting in settings:
        measured = _measured_layer(setting)
        for i, times in enumerate(_grid_times(setting)):
            squares[i] += sum((t / m - 1) ** 2 for t, m in zip(times, measured, strict=True))
    return GRID[squares.index(min(squares))]


def layers() -> Iterator[Row]:
    """Predicts each setting with the factors fitted to the other three."""
    for setting in SETTINGS:
        scales = fit(other for other in SETTINGS if other != setting)
        predicted = layer_times(setting, scales)
        for phase, ours, measured in zip("FB", predicted, _measured_layer(setting), strict=True):
            yield Row(
                "2205.05198 table 4",
                f"22B, {setting.replace('_', ' ')}",
                f"layer {phase}",
                "ms",
                measured,
                ours,
                "other layers",
                layer_point(setting, scales),
            )


# Steps of Megatron


def _step_s(point: Configuration) -> float:
    return point.simulate().execution.makespan_ps / 1e12


def megatron_step(
    model: Gpt,
    workers: int,
    microbatches: int,
    setting: str,
    *,
    chunks: int = 1,
    microbatch_size: int = 1,
    data_parallel: int = 1,
) -> Configuration:
    """A whole step on A100 nodes, with the factors fitted to all layers."""
    recompute, is_divided = SETTINGS[setting]
    return Configuration(
        "1f1b" if chunks == 1 else "interleaved-1f1b",
        workers,
        microbatches,
        FamilyOptions() if chunks == 1 else FamilyOptions(chunks=chunks),
        costs=plain_costs(
            model=model.description(),
            system=_a100(fit()),
            microbatch_size=microbatch_size,
            recompute=recompute,
            sequence_parallel=is_divided,
            data_parallel=data_parallel,
        ),
        optimizer_step="exposed",
    )


def steps() -> Iterator[Row]:
    """The end-to-end steps of arXiv 2205.05198, table 5."""
    for row in published()["sequence_parallel_2205_05198"]["rows"]:
        for setting, key in (
            ("full_recompute", "full_recompute_s"),
            ("selective_sp", "selective_sp_s"),
        ):
            point = megatron_step(
                MODELS[row["model"]], row["pp"], row["batch"], setting, chunks=row["interleave"]
            )
            yield Row(
                "2205.05198 table 5",
                f"{row['model']}, {setting.replace('_', ' ')}",
                "step",
                "s",
                row[key],
                _step_s(point),
                "layers",
                point,
            )


def _most_chunks(layers: int, workers: int) -> int:
    """Two or three chunks: the first number that divides the layers of a worker."""
    return next(chunks for chunks in (2, 3) if layers % (chunks * workers) == 0)


def sc21() -> Iterator[Row]:
    """Weak scaling of arXiv 2104.04473, table 1: microbatches of one sequence, with and without
    chunks, as neither is stated.
    """
    for row in published()["megatron_sc21_table1"]["rows"]:
        model, workers = MODELS[row["model"]], row["pp"]
        data_parallel = row["gpus"] // (TENSOR_PARALLEL * workers)
        for chunks in (1, _most_chunks(model.layers, workers)):
            point = megatron_step(
                model,
                workers,
                row["batch"] // data_parallel,
                "full_recompute",
                chunks=chunks,
                data_parallel=data_parallel,
            )
            yield Row(
                "2104.04473 table 1",
                f"{row['model']}, {'1F1B' if chunks == 1 else f'{chunks} chunks'}",
                "step",
                "s",
                row["derived_s"],
                _step_s(point),
                "layers",
                point,
            )


# Llama 3.1 on H100

SEQUENCE = 8192
TITAN_70B_BATCH = 16
TITAN_ATTENTION: Final = "flash-2"
"""The kernel of scaled_dot_product_attention in the versions of PyTorch and torchtitan that the
benchmark states: FlashAttention-2 comes first in PyTorch's order, and torchtitan allows no other
fast kernel where sequences are divided.
"""
TITAN_MEMORY = {"capacity_gb": 96.0, "bandwidth_gb_per_s": 2400.0}
"""Its H100 have 96 GB of HBM2e at 2.4 TB/s, and run at 500 W."""
TORCHAO_BITS = {"linear_inputs": 16, "attention_output": 16}
"""The inputs that torchao's Float8 layers keep (`float8_linear.py`)."""
TITAN_BLOCKS = {1: (15, 16, 16, 16, 16, 16, 16, 15), 2: (7, *[8] * 14, 7)}
"""Layers of the stages of 405B by chunks: 126 in all, with one fewer at both ends."""


class TitanRates(NamedTuple):
    """Factors on the rates of `h100-sxm`, each fitted to rows of the benchmark for other models."""

    matrix: float = 1.0
    """The factor on the rates of GEMMs, whose operands are scaled and cast as they run, and of the
    attention.
    """
    link: float = 1.0
    """The factor on the link among tensor-parallel ranks, for the part of their collectives that
    AsyncTP hides.
    """
    pieces: float = 1.0
    """The factor on the attention for pieces of a sequence that ranks divide."""


def _titan_system(rates: TitanRates, is_divided: bool) -> dict[str, Any]:
    made = _scaled(pipesched.systems()["h100-sxm"], Scales(rates.matrix), **TITAN_MEMORY)
    made["link"] = {**made["link"]}
    made["link"]["bandwidth_gb_per_s"] *= rates.link
    factor = rates.matrix * (rates.pieces if is_divided else 1)
    made["attention"] = [
        {
            name: [[tokens, factor * rate] for tokens, rate in field]
            if name.endswith("by_tokens")
            else field
            for name, field in kernel.items()
        }
        for kernel in made["attention"]
    ]
    return made


def titan_fields(tensor: int, *, has_kernels: bool) -> dict[str, Any]:
    """The tensors that torchtitan keeps, with this number of tensor-parallel ranks, by fields of a
    model; `has_kernels`: its loss is not compiled. With ranks, DTensor keeps gathered inputs, and
    torchao casts them before that.
    """
    found: dict[str, Any] = {"separate_loss": has_kernels}
    if tensor == 1:
        return found | {"saved_bits": TORCHAO_BITS}
    return found | {"gathered_inputs": True, "parallel_loss": has_kernels}


def titan_costs(
    model: str,
    rates: TitanRates,
    *,
    sequence: int = SEQUENCE,
    tensor: int = TENSOR_PARALLEL,
    context: int = 1,
    microbatches: int = 1,
    attention: Any = TITAN_ATTENTION,
    **options: Any,
) -> Costs:
    changed = fields(pipesched.models()[model]) | {
        "sequence": sequence,
        # Gradients are summed and reduced with 4 bytes each; FSDP sums the gradients of several
        # microbatches itself.
        "gradient_bytes_per_parameter": 4,
        "separate_accumulation": microbatches > 1,
        "repeated_key_values": True,
        **titan_fields(tensor, has_kernels=True),
    }
    return plain_costs(
        model=changed,
        system=_titan_system(rates, context > 1),
        accelerators=tensor * context,
        context_parallel=context,
        attention=attention,
        precision="fp8",
        **{"recompute": "full", "sharding": "full-kept", "context_exchange": "gather"} | options,
    )


def tokens_per_s(
    batch: int, accelerators: int, simulation: Simulation, sequence: int = SEQUENCE
) -> float:
    """Tokens per second and accelerator of a step of this many sequences."""
    return batch * sequence / accelerators / (simulation.execution.makespan_ps / 1e12)


def peak_gib(simulation: Simulation, accelerators: int) -> float:
    """The peak of one of the accelerators of the fullest worker."""
    assert simulation.memory is not None
    return float(simulation.memory.peak_bytes.max()) / accelerators / GIB


def titan_70b_row(rates: TitanRates) -> Configuration:
    """The step of 70B of table 4."""
    costs = titan_costs("llama3-70b", rates, microbatch_size=TITAN_70B_BATCH, data_parallel=32)
    return Configuration("1f1b", 1, 1, costs=costs, runtime="torch", optimizer_step="overlapped")


def _titan_70b(rates: TitanRates) -> float:
    return tokens_per_s(TITAN_70B_BATCH, TENSOR_PARALLEL, titan_70b_row(rates).simulate())


def titan_8b_row(row: Mapping[str, Any], rates: TitanRates) -> Configuration:
    """A step of 8B of table 2, whose ranks divide only the sequence."""
    costs = titan_costs(
        "llama3-8b",
        rates._replace(link=1.0),
        sequence=row["sequence"],
        tensor=1,
        context=row["cp"],
        microbatch_size=1,
        data_parallel=row["fsdp"],
    )
    return Configuration("1f1b", 1, 1, costs=costs, runtime="torch", optimizer_step="overlapped")


def titan_8b(row: Mapping[str, Any], rates: TitanRates) -> float:
    """Tokens per second and GPU of a row of table 2."""
    return tokens_per_s(1, row["cp"], titan_8b_row(row, rates).simulate(), row["sequence"])


def _titan_rows(table: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = data("large_runs.json")[f"torchtitan_2024_12_table{table}"]["rows"]
    return rows


def _hundredths(least: int, most: int) -> list[float]:
    return [each / 100 for each in range(least, most + 1)]


@cache
def titan_rates() -> TitanRates:
    """The factors, each to a hundredth: on matrix rates from 70B without AsyncTP, on the link from
    70B with it, on attention in pieces from 8B on sequences that two, four and eight ranks divide.
    """
    plain, asynchronous = (row["tokens_per_s_per_gpu"] for row in _titan_rows(4))
    rates = min(
        (TitanRates(matrix) for matrix in _hundredths(50, 100)),
        key=lambda rates: abs(_titan_70b(rates) - plain),
    )
    rates = min(
        (rates._replace(link=link) for link in _hundredths(100, 300)),
        key=lambda rates: abs(_titan_70b(rates) - asynchronous),
    )
    divided = [row for row in _titan_rows(2) if row["cp"] > 1]

    def squares(rates: TitanRates) -> float:
        ratios = [titan_8b(row, rates) / float(row["tokens_per_s_per_gpu"]) for row in divided]
        return sum((ratio - 1) ** 2 for ratio in ratios)

    return min((rates._replace(pieces=each) for each in _hundredths(40, 120)), key=squares)


def titan_step(
    row: Mapping[str, Any],
    chunks: int,
    *,
    microbatches: int | None = None,
    rates: TitanRates | None = None,
    **options: Any,
) -> Configuration:
    """A step of 405B, by default with as many microbatches as workers, as torchtitan had then."""
    workers = row["pp"]
    microbatches = microbatches or workers
    costs = titan_costs(
        "llama3-405b",
        rates or titan_rates(),
        microbatches=microbatches,
        global_batch=row["global_batch"],
        data_parallel=row["fsdp"],
        **options,
    )
    blocks = TITAN_BLOCKS[chunks]
    return Configuration(
        "1f1b" if chunks == 1 else "interleaved-1f1b",
        workers,
        microbatches,
        FamilyOptions() if chunks == 1 else FamilyOptions(chunks=chunks),
        paths=[Path([stage % workers for stage in range(len(blocks))], blocks=blocks)],
        costs=costs,
        runtime="torch",
        optimizer_step="exposed",
    )


def torchtitan() -> Iterator[Row]:
    """Llama 3.1 405B on 512 H100."""
    for row in published()["h100"]["rows"]:
        for chunks, name in ((1, "1F1B"), (2, "interleaved")):
            point = titan_step(row, chunks)
            found = point.simulate()
            tokens = tokens_per_s(row["global_batch"], row["gpus"], found)
            measured = row["tokens_per_s_per_gpu"][name]
            case = f"405B FP8, {name}"
            source = "torchtitan 2024-12 table 5"
            unit = "tokens/s per GPU"
            yield Row(source, case, "throughput", unit, measured, tokens, "70B rows", point)
            peak = peak_gib(found, TENSOR_PARALLEL)
            yield Row(source, case, "memory", "GiB", row["memory_gib"][name], peak, "none", point)


# Zero bubble


def zero_bubble_throughput() -> Iterator[Row]:
    """Samples per second of arXiv 2401.10241, table 4, from its profiled times."""
    rows = data("zero_bubble_iclr24.json")["rows"]
    for profiled, row in zip(zero_bubble.published(), rows, strict=True):
        for schedule, measured in row["measured_samples_per_gpu_s"].items():
            point = zero_bubble.configuration(profiled, schedule)
            seconds = _step_s(point)
            samples = row["microbatch_size"] * row["microbatches"] / row["workers"]
            yield Row(
                "2401.10241 table 4",
                f"{row['model']}, N = {row['microbatches']}, {schedule}",
                "throughput",
                "samples/s per GPU",
                measured,
                samples / seconds,
                "profiled",
                point,
            )


# All rows


@cache
def all_rows() -> list[Row]:
    """Every measurement with its prediction."""
    from . import large_runs, recent_runs  # which have rows like these

    smaller = (layers(), steps(), sc21(), torchtitan(), zero_bubble_throughput())
    return [*chain.from_iterable(smaller), *large_runs.rows(), *recent_runs.rows()]


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    frame = pd.DataFrame(rows).drop(columns=["point", "group", "cluster"])
    frame.insert(6, "error_percent", [row.error_percent for row in rows])
    return frame


def validation() -> Study:
    """All measurements alongside our predictions.

    >>> study = validation()
    >>> bool(study.frame.error_percent.abs().median() < 20)
    True
    """
    frame = _frame(all_rows())
    scales, rates = fit(), titan_rates()
    errors = frame.error_percent.abs()
    by_source = errors.groupby(frame.source, sort=False).median()
    medians = ", ".join(f"{source} {error:.1f} %" for source, error in by_source.items())
    return Study(
        title="Measured and predicted: layers, steps, throughput and memory",
        frame=frame,
        basis=Basis(
            given="models, degrees, batches and hardware as the publications state them; F, I, W"
            " and message times of zero bubble; FP8 rates of DeepSeek's kernels; what the sources"
            " of recent runs leave open as recent_runs.json says",
            fitted=f"on the 22B layers, matrix rates by {scales.matrix:g} and memory rates by"
            f" {scales.memory:g}, for all A100 rows, a layer from the other settings; on the 70B"
            f" rows of torchtitan, matrix rates of the 500 W H100 by {rates.matrix:g} and its link"
            f" with AsyncTP by {rates.link:g}; on 8B rows, attention in pieces by"
            f" {rates.pieces:g}",
            open=f"median error {errors.median():.1f} %, largest {errors.max():.1f} %; medians:"
            f" {medians}. Not stated: microbatches and chunks of 2104.04473; microbatches of"
            " torchtitan, where as many as workers are taken; the attention kernel of 2407.21783;"
            " rows of the fullest rank of 2412.19437. Not in it: workspaces and caches of memory,"
            " data, gradient norms. `unknowns` changes such settings one by one",
        ),
    )

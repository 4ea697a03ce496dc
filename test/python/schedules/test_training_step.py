"""Whole training steps: data parallelism, sharding, precision, and how a step ends."""

import pickle
from typing import Any, get_args

import pytest
from pipesched import Configuration, Costs, PipeSchedError, simulate_batch
from pipesched._options import OptimizerStep, Sharding

SYSTEM = {
    "name": "round",
    "description": "A byte of memory or link takes 1 ps, one of the network 10 ps",
    "matrix": {"tflops": 1, "fp8_tflops": 4},
    "vector": {"tflops": 1},
    "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1000},
    "link": {"bandwidth_gb_per_s": 1000},
    "network": {"bandwidth_gb_per_s": 100},
}
MODEL = {
    "name": "small",
    "description": "Two layers of 12 * 8^2 parameters, and two norms",
    "hidden": 8,
    "feedforward": 32,
    "sequence": 16,
    "layers": 2,
    "attention_heads": 2,
    "norm": "layer_no_bias",
    "biases": False,
    "activation": "gelu",
}
PARAMETERS = 12 * 64 + 2 * 8


def costs(**options: Any) -> Costs:
    return Costs(
        **{"model": MODEL, "system": SYSTEM, "microbatch_size": 1, "sharding": "none", **options}
    )


def point(step: OptimizerStep, **options: Any) -> Configuration:
    return Configuration("1f1b", 2, 2, costs=costs(**options), optimizer_step=step)


def makespan(configuration: Configuration) -> int:
    return configuration.simulate().execution.makespan_ps


def optimizer_ps(sharers: int) -> int:
    return PARAMETERS * (2 + 2 + 2 * 12) // sharers


def test_step_is_compute_then_reductions_then_optimizer() -> None:
    alone = makespan(point("none"))
    assert makespan(point("exposed")) == alone + optimizer_ps(1)
    # A ring of four: six messages of a quarter.
    reduced = 6 * PARAMETERS * 2 // 4 * 10
    assert makespan(point("none", data_parallel=4)) == alone
    assert makespan(point("exposed", data_parallel=4)) == alone + reduced + optimizer_ps(1)
    for sharding in ("optimizer", "full-kept"):
        step = point("exposed", data_parallel=4, sharding=sharding)
        assert makespan(step) == alone + reduced + optimizer_ps(4)
    # All on one node.
    near = costs(system={**SYSTEM, "accelerators_per_node": 8}, data_parallel=4)
    times = [
        makespan(Configuration("1f1b", 2, 2, costs=near, optimizer_step=step))
        for step in get_args(OptimizerStep)
    ]
    assert times[2] - times[0] == reduced // 10 + optimizer_ps(1)
    assert times[0] < times[1] <= times[2]


@pytest.mark.parametrize("sharding", get_args(Sharding))
def test_sharding_divides_the_state(sharding: Sharding) -> None:
    memory = point("none", data_parallel=8, sharding=sharding).simulate().memory
    assert memory is not None
    # Each stage is one layer, which is whole while a cell runs.
    whole, shard = 2 * PARAMETERS, 2 * PARAMETERS // 8
    parts = memory.composition
    weights = whole + shard if sharding == "full" else whole
    gradients = whole + shard if sharding in ("gradients", "full") else whole
    assert parts.weight_bytes.tolist() == [weights] * 2
    assert parts.gradient_bytes.tolist() == [gradients] * 2
    state = 12 * PARAMETERS if sharding == "none" else 12 * PARAMETERS // 8
    assert memory.persistent_bytes.tolist() == [weights + gradients + state] * 2


@pytest.mark.parametrize(
    ("sharding", "forward", "backward"), [("gradients", 0, 1), ("full", 1, 2), ("full-kept", 0, 0)]
)
def test_sharded_cells_wait(sharding: Sharding, forward: int, backward: int) -> None:
    kept = point("none", data_parallel=4, sharding="optimizer").simulate().execution
    sharded = point("none", data_parallel=4, sharding=sharding).simulate().execution
    # One layer has nothing to hide behind: three messages of a quarter, for two microbatches.
    sent = 3 * PARAMETERS * 2 // 4
    moved = 2 * (forward + backward) * sent
    assert (sharded.bytes_sent - kept.bytes_sent).tolist() == [moved] * 2
    assert sharded.exposed_sharding_ps.tolist() == [10 * moved] * 2
    assert (sharded.busy_ps - kept.busy_ps).tolist() == [10 * moved] * 2


def test_batch_has_the_whole_step() -> None:
    points = [point(step, data_parallel=4) for step in get_args(OptimizerStep)]
    frame = simulate_batch(points)
    assert frame.makespan_ps.tolist() == [makespan(each) for each in points]
    assert frame.family.tolist() == ["1f1b"] * 3
    reports = [each.simulate() for each in points]
    assert [report.family for report in reports] == ["1f1b", None, None]


def test_profile_may_give_the_reduction() -> None:
    times = {"F": "1ms", "B": "2ms", "G": "4ms", "O": "8ms"}
    steps = [
        Configuration("1f1b", 1, 1, costs=Costs(times=times), optimizer_step=step)
        for step in get_args(OptimizerStep)
    ]
    assert [makespan(step) for step in steps] == [3 * 10**9, 15 * 10**9, 15 * 10**9]


def test_global_batch_is_that_of_all_pipelines() -> None:
    shared = costs(microbatch_size=None, global_batch=32, data_parallel=4)
    frame = simulate_batch([Configuration("1f1b", 2, n, costs=shared) for n in (4, 3)])
    assert frame.microbatch_size[0] == 2
    assert frame.error[1] == (
        "the schedule has 3 microbatches in each of 4 pipelines, 12 in all, which do not divide"
        " the global batch of 32; numbers that do: 8 and 16"
    )


def test_rank_order_says_what_is_near() -> None:
    near = {**SYSTEM, "accelerators_per_node": 2}
    pipeline = makespan(point("none", system=near, data_parallel=2, rank_order="pipeline"))
    data = makespan(point("none", system=near, data_parallel=2, rank_order="data"))
    assert pipeline < data == makespan(point("none", data_parallel=2))


def test_sequence_parallelism_divides_the_stream() -> None:
    def simulation(**options: Any) -> Any:
        return point("none", accelerators=2, **options).simulate()

    shared, whole = simulation(), simulation(sequence_parallel=False)
    assert whole.execution.makespan_ps > shared.execution.makespan_ps
    # Four streams of 2 bytes: inputs of two norms and of what follows them.
    assert whole.memory.peak_activation_bytes[1] - shared.memory.peak_activation_bytes[1] == (
        4 * 2 * 16 * 8
    )
    alone = [makespan(point("none", sequence_parallel=flag)) for flag in (True, False)]
    assert alone[0] == alone[1]


def test_fp8_needs_a_rate() -> None:
    assert makespan(point("none", precision="fp8")) < makespan(point("none"))
    with pytest.raises(PipeSchedError, match="FP8, for which the system 'toy' has no rate"):
        point("none", precision="fp8", system="toy").simulate()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_parallel": 0}, "data_parallel is an integer from 1"),
        ({"data_parallel": 2**31}, "expected 1 to 2147483647 data-parallel pipelines"),
        ({"sharding": "zero"}, "sharding is one of none, optimizer, gradients, full-kept, full; g"),
        ({"rank_order": "tensor"}, "rank_order is one of data, pipeline; got 'tensor'"),
        ({"precision": "fp16"}, "precision is one of bf16, fp8; got 'fp16'"),
        ({"system": None, "data_parallel": 2}, "data-parallel, sharding, rank-order, context-par"),
        ({"system": None, "sharding": "full"}, "data-parallel, sharding, rank-order, context-par"),
        ({"system": None, "rank_order": "pipeline"}, "are about a system; none is given"),
        ({"system": None, "expert_parallel": 2}, "are about a system; none is given"),
        ({"system": None, "expert_dispatch": "per-node"}, "are about a system; none is given"),
        ({"context_parallel": 0}, "context_parallel is an integer from 1"),
        ({"context_parallel": 3}, "3-way context parallelism does not divide the"),
        ({"expert_parallel": 7}, "7-way expert parallelism does not divide the"),
        ({"expert_balance": 0.5}, "expert_balance is a number from 1; got 0.5"),
        ({"expert_balance": float("inf")}, "expert_balance is a number from 1; got inf"),
        ({"expert_balance": 1001}, "expected an expert balance"),
        ({"context_exchange": "star"}, "context_exchange is one of ring, gather; got 'star'"),
        (
            {"expert_dispatch": "all"},
            "expert_dispatch is one of all-to-all, per-node, per-rank; got 'all'",
        ),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PipeSchedError, match=message):
        costs(**options)
    if "system" not in options:
        return
    with pytest.raises(PipeSchedError, match="are about a model; none is given"):
        Costs(times="F=1ms", precision="fp8")
    with pytest.raises(PipeSchedError, match="are about a model; none is given"):
        Costs(times="F=1ms", sequence_parallel=False)


def test_step_is_one_of_three() -> None:
    with pytest.raises(PipeSchedError, match="optimizer_step is one of none, overlapped, exposed"):
        Configuration("1f1b", 2, 2, optimizer_step="late").simulate()  # type: ignore[arg-type]


def test_costs_are_as_they_were_made() -> None:
    made = costs(data_parallel=2, sharding="full", sequence_parallel=False, precision="fp8")
    assert pickle.loads(pickle.dumps(made)) == made
    assert repr(Costs(model="toy", system="toy", data_parallel=2, rank_order="pipeline")) == (
        "Costs(model='toy', system='toy', data_parallel=2, rank_order='pipeline')"
    )

"""Whole training steps: the meaning of options of costs, and the end of a step."""

import pickle
from typing import Any, get_args

import pytest
from pipesched import Configuration, Costs, PipeSchedError, Simulation, generate, simulate_batch
from pipesched.support.options import (
    Attention,
    ContextExchange,
    ExpertDispatch,
    GradientBuckets,
    KernelLaunch,
    OptimizerStep,
    PairOrder,
    Precision,
    RankOrder,
    Recompute,
    Sharding,
    TensorOverlap,
    pass_options,
)

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


def costs(**options: Any) -> Costs:
    return Costs(
        **{"model": MODEL, "system": SYSTEM, "microbatch_size": 1, "sharding": "none", **options}
    )


def point(step: OptimizerStep, **options: Any) -> Configuration:
    return Configuration("1f1b", 2, 2, costs=costs(**options), optimizer_step=step)


def makespan(configuration: Configuration) -> int:
    return configuration.simulate().execution.makespan_ps


def test_batch_has_the_whole_step() -> None:
    points = [point(step, data_parallel=4) for step in get_args(OptimizerStep)]
    frame = simulate_batch(points)
    assert frame.makespan_ps.tolist() == [makespan(each) for each in points]
    assert frame.family.tolist() == ["1f1b"] * 3
    reports = [each.simulate() for each in points]
    assert [report.family for report in reports] == ["1f1b", None, None]


OF_MODEL: dict[str, tuple[Any, ...]] = {
    "recompute": get_args(Recompute),
    "attention": get_args(Attention),
    "precision": get_args(Precision),
    "sequence_parallel": (True, False),
}
OF_SYSTEM: dict[str, tuple[Any, ...]] = {
    "sharding": get_args(Sharding),
    "rank_order": get_args(RankOrder),
    "context_exchange": get_args(ContextExchange),
    "expert_dispatch": get_args(ExpertDispatch),
    "gradient_buckets": get_args(GradientBuckets)[1:],  # `auto` depends on the step
    "kernel_launch": get_args(KernelLaunch),
    "tensor_overlap": get_args(TensorOverlap),
    "pair_order": get_args(PairOrder),
    "expert_balance": (1.0, 1.5),
    "data_parallel": (8, 16),
    "expert_parallel": (1, 8, 16),
    "expert_tensor": (1, 2),
    "shard_groups": (1, 2, 16),
    "context_parallel": (1, 2, 4),
    "accelerators": (4, 8),
}


@pytest.mark.parametrize("name", [*OF_MODEL, *OF_SYSTEM])
def test_choices_mean_what_they_mean_in_passes(name: str) -> None:
    """The package gives the library codes and numbers, and passes read words. The unit tests of
    CostModel and Evaluation test the costs of each choice.
    """

    def numbers(simulation: Simulation) -> tuple[Any, ...]:
        assert simulation.memory is not None
        return simulation.execution.makespan_ps, simulation.memory.peak_bytes.tolist()

    is_long = name in ("context_exchange", "tensor_overlap")  # short ones are hidden
    sequence = 65536 if is_long else 4096
    found = set()
    for value in (OF_MODEL | OF_SYSTEM)[name]:
        model: dict[str, Any] = {"microbatch_size": 1, "sequence": sequence}
        system: dict[str, Any] = {"accelerators": 4, "data_parallel": 16}
        system |= {"expert_parallel": 8, "context_parallel": 2, "gradient_buckets": "layers"}
        if name == "shard_groups":
            system |= {"sharding": "full", "expert_parallel": 4}
        (model if name in OF_MODEL else system)[name] = value
        chip = "b200-sxm" if name == "precision" else "h100-sxm"
        names: dict[str, Any] = {"model": "qwen3-30b-a3b", "system": chip}
        given = Costs(**names, **model, **system, framework="none")  # passes have no habits
        step: Any = Configuration("dualpipe-v", 4, 8, costs=given, optimizer_step="overlapped")
        passes = (
            "pipe-attach-system" + pass_options({"name": names["system"], **system}),
            "pipe-attach-model" + pass_options({"name": names["model"], **model}),
            "pipe-add-optimizer{all-reduce=eager}",
        )
        made = generate("dualpipe-v", workers=4, microbatches=8).transform(",".join(passes))
        assert numbers(made.simulate()) == numbers(step.simulate()), value
        found.add(str(numbers(step.simulate())))
    assert len(found) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_parallel": 0}, "data_parallel is an integer from 1"),
        ({"data_parallel": 2**31}, "data_parallel is an integer from 1 to 2147483647; got 21474"),
        ({"sharding": "zero"}, "sharding is one of none, optimizer, gradients, full-kept, full; g"),
        ({"rank_order": "tensor"}, "rank_order is one of data, pipeline; got 'tensor'"),
        ({"precision": "fp16"}, "precision is one of bf16, fp8, nvfp4; got 'fp16'"),
        ({"system": None, "data_parallel": 2}, "data-parallel, sharding, rank-order, context-par"),
        ({"system": None, "sharding": "full"}, "data-parallel, sharding, rank-order, context-par"),
        ({"system": None, "rank_order": "pipeline"}, "are about a system; none is given"),
        ({"system": None, "expert_parallel": 2}, "are about a system; none is given"),
        ({"system": None, "expert_dispatch": "per-node"}, "are about a system; none is given"),
        ({"context_parallel": 0}, "context_parallel is an integer from 1"),
        ({"context_parallel": 3}, "3-way context parallelism does not divide the"),
        ({"expert_parallel": 7}, "7-way expert parallelism does not divide the"),
        ({"expert_balance": 0.5}, "expert_balance is a number from 1 to 1000; got 0.5; leave it"),
        ({"expert_balance": float("inf")}, "expert_balance is a number from 1 to 1000; got inf"),
        ({"expert_balance": 1001}, "expert_balance is a number from 1 to 1000; got 1001; leave it"),
        ({"tensor_exposed": 0}, "from 1 to 100; got 0; leave it out for 100 percent"),
        ({"expert_exposed": 101}, "from 1 to 100; got 101; leave it out for 100 percent"),
        ({"tensor_exposed": 50.5}, "tensor_exposed is an integer; got 50.5"),
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


def test_recomputed_layers_are_those_of_a_full_recomputation() -> None:
    """All layers: the times of `recompute="full"`, and its memory without the layer that runs. One
    of two: half of both differences.
    """

    def run(layers: list[int], recompute: Recompute = "none") -> tuple[int, int]:
        model = {**MODEL, "recomputed_layers": layers} if layers else MODEL
        made = Costs(model=model, system=SYSTEM, microbatch_size=1, recompute=recompute)
        found = generate("1f1b", workers=1, microbatches=2).simulate(made)
        assert found.memory is not None
        return found.execution.makespan_ps, int(found.memory.peak_bytes.max())

    kept, full = run([]), run([], "full")
    one, both = run([0]), run([0, 1])
    assert both[0] == full[0] > kept[0] and both[1] < full[1] < kept[1]
    assert 2 * one[0] == kept[0] + both[0]
    assert 2 * one[1] == kept[1] + both[1]


def test_step_is_one_of_three() -> None:
    with pytest.raises(PipeSchedError, match="optimizer_step is one of none, overlapped, exposed"):
        Configuration("1f1b", 2, 2, optimizer_step="late").simulate()  # type: ignore[arg-type]


def test_costs_are_as_they_were_made() -> None:
    made = costs(data_parallel=2, sharding="full", sequence_parallel=False, precision="fp8")
    assert pickle.loads(pickle.dumps(made)) == made
    assert repr(Costs(model="toy", system="toy", data_parallel=2, rank_order="pipeline")) == (
        "Costs(model='toy', system='toy', data_parallel=2, rank_order='pipeline')"
    )

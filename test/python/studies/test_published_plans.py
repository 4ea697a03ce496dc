"""DeepSeek-V3, the layouts that builders of published runs chose, and the reserve of plans."""

from typing import Any

import pandas as pd
import pipesched
import pytest
from pipesched import Configuration, Costs
from pipesched.planning.request import DEFAULT_RESERVE
from pipesched.support.units import reserve_of

from studies import deepseek, memory, plans

WIDE = {
    "name": "wide",
    "description": "one wide layer",
    "hidden": 32768,
    "feedforward": 262144,
    "sequence": 4096,
    "layers": 1,
    "attention_heads": 256,
    "activation": "gelu",
    "norm": "rms",
}


def test_the_measurement_is_that_of_the_report() -> None:
    """180 thousand GPU hours for a trillion tokens."""
    assert round(deepseek.MEASURED) == 1543


def test_plans_have_the_published_degrees() -> None:
    limits: dict[str, Any] = {"microbatch_size": [1], "context": [1], "sharding": ["optimizer"]}
    made = deepseek.planned(**deepseek.PUBLISHED, **limits, memory="1TiB", reserve=0)
    (found,) = made.fitting
    shape = found.shape
    assert (shape.tensor, shape.pipeline, shape.data, shape.expert) == (1, 16, 128, 64)
    assert shape.gpus == deepseek.GPUS and found.schedule == "dualpipe"
    assert found.request.global_batch == deepseek.BATCH
    row = deepseek._row("planned", found)
    assert row["memory_gib"] == found.peak_bytes / 2**30
    assert row["expert"] == "64" and row["microbatch_size"] == "1"


def test_a_part_of_the_accelerator_communicates() -> None:
    """20 of 132 multiprocessors: a stage of only GEMMs takes 132 / 112 as long."""
    system = deepseek.h800()
    assert system["multiprocessors"] == {"count": 132, "communication": 20}
    assert system["link"]["bandwidth_gb_per_s"] == 200
    whole, part = (
        # A layer so wide that only its GEMMs in 16 bits matter.
        Configuration(
            "1f1b", 1, 1, costs=Costs(model=WIDE, system=given, microbatch_size=1)
        ).simulate()
        for given in (deepseek.h800(communication=0), system)
    )
    ratio = part.execution.makespan_ps / whole.execution.makespan_ps
    assert ratio == pytest.approx(132 / 112, rel=0.01)


@pytest.fixture(scope="module")
def ladder() -> pd.DataFrame:
    rows = [deepseek._ladder_row(*step) for step in deepseek.ladder()]
    return pd.DataFrame(rows).set_index("case")


def test_parts_of_the_run_cost_what_they_should(ladder: pd.DataFrame) -> None:
    tokens, memory = ladder.tokens_per_s_per_gpu, ladder.memory_gib
    # Parts that take time make the run slower; parts that keep less make it smaller.
    for case in (
        "FP8 with scales of blocks",
        "20 multiprocessors communicate",
        "a layer predicts a second token",
        "outputs are computed again",
        "kernels cast operands",
    ):
        assert tokens[case] < tokens.shift()[case], case
    for case in (
        "moments in 2 bytes",
        "outputs are computed again",
        "tensors are kept in 8 and 12 bits",
    ):
        assert memory[case] < memory.shift()[case], case
    assert tokens["rows are dispatched in 8 bits"] > tokens["kernels cast operands"]
    run = "rows are dispatched in 8 bits"
    assert tokens["* rows 1.25 times the mean"] < tokens[run] < tokens["* kernels of DeepGEMM"]


def test_the_run_fits_and_is_predicted(ladder: pd.DataFrame) -> None:
    run = ladder.loc["rows are dispatched in 8 bits"]
    assert abs(run.error_percent) < 15
    assert run.memory_gib < 80e9 / 2**30
    assert ladder.memory_gib.iloc[0] > 80e9 / 2**30


def test_the_run_is_that_of_the_report() -> None:
    point = deepseek.run(deepseek.costs())
    assert point.microbatches * (deepseek.GPUS // deepseek.STAGES) == deepseek.BATCH
    assert sum(deepseek.BLOCKS) == pipesched.models()["deepseek-v3"]["layers"]
    report = point.simulate()
    # The layer that predicts, with a separate projection and three norms: 685 billion in all with
    # its copies of table and head, of which the model has one each.
    model = deepseek.costs().model_summary()
    plain = deepseek.costs(model="deepseek-v3").model_summary()
    extra = model["parameters"] - plain["parameters"]
    layer = next(block for block in plain["blocks"] if block["name"] == "expert_layer")
    hidden = pipesched.models()["deepseek-v3"]["hidden"]
    assert extra == layer["parameters"] + 2 * hidden**2 + 3 * hidden
    table = pipesched.models()["deepseek-v3"]["vocabulary"] * hidden
    assert (model["parameters"] + 2 * table) / 1e9 == pytest.approx(685, abs=0.6)
    assert report.memory is not None and report.memory.fits


# Layouts of builders


def test_published_layouts_fit() -> None:
    """Their builders ran them."""
    frame = plans.plans().frame
    assert len(frame) == len(plans.RUNS) == 9 and frame.fits.all()


def test_chosen_degrees_are_kept() -> None:
    """A plan with the published choices keeps them."""
    run = next(run for run in plans.RUNS if run.key == "nemotron")
    found = plans.theirs(run).to_dict()
    names = {"tensor": "tensor", "pp": "pipeline", "context": "context", "chunks": "chunks"}
    assert [found[name] for name in names.values()] == [run.chosen[name] for name in names]
    assert found["fits"] and found["gpus"] == run.gpus


# Memory


def test_the_reserve_covers_what_was_published() -> None:
    """A flat reserve of 15 % covers all published peaks, the reserve by parts all but one."""
    frame = memory.memory().frame
    assert (frame.uncounted_percent < 15).all()
    # 2401.10241 has A100 of 80 GB, torchtitan H100 of 96 GB.
    capacity = frame.source.str.startswith("torchtitan").map({True: 96, False: 80}) * 10**9
    kept = capacity.map(lambda each: reserve_of(DEFAULT_RESERVE, each) / 2**30)
    missing = frame[frame.measured_gib - frame.counted_gib > kept]
    assert missing.case.tolist() == ["405B FP8, 1F1B"]

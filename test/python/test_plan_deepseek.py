"""The study of DeepSeek-V3: its plans have the degrees of the report and the numbers of plans."""

from pipesched.studies import deepseek


def test_the_measurement_is_that_of_the_report() -> None:
    """180 thousand GPU hours for a trillion tokens."""
    assert round(deepseek.MEASURED) == 1543


def test_plans_have_the_published_degrees() -> None:
    made = deepseek.planned(**deepseek.PUBLISHED, memory="1TiB", reserve=0, microbatch_size=[1])
    (found,) = made.fitting
    shape = found.shape
    assert (shape.tensor, shape.pipeline, shape.data, shape.expert) == (1, 16, 128, 64)
    assert shape.gpus == deepseek.GPUS and found.schedule == "dualpipe"
    assert found.request.global_batch == deepseek.BATCH
    row = deepseek._row("planned", found)
    assert row["memory_gib"] == found.peak_bytes / 2**30
    assert row["expert"] == "64" and row["microbatch_size"] == "1"


def test_the_system_is_an_h100_with_slower_links() -> None:
    system = deepseek.h800()
    assert system["link"]["bandwidth_gb_per_s"] == 200.0
    assert system["accelerators_per_node"] == 8

"""Plans say whether a heavy head is better divided among the workers, or uneven layers are."""

import re
from pathlib import Path
from typing import Any

from heavy_head import heavy_head
from pipesched.planning import plan


def sentences(tmp_path: Path, vocabulary: int, **given: Any) -> list[str]:
    found = plan(
        heavy_head(tmp_path, vocabulary),
        "a100-sxm-80gb",
        gpus=8,
        global_batch=32,
        stages=[8],
        tensor=[1],
        context=[1],
        microbatch_size=[1],
        **given,
    )
    return [text for text in found.why() if "vocabulary" in text or "whole head" in text]


def test_a_heavy_head_is_proposed_in_shards(tmp_path: Path) -> None:
    (text,) = sentences(tmp_path, 262144)
    found = re.search(r"as long as ([\d.]+) layers; with the vocabulary in shards", text)
    assert found and float(found[1]) > 5, text
    assert re.search(r"would take [\d.]+ s and [\d.]+ GiB, [\d.]+ % ahead of layers", text)


def test_a_light_head_is_not(tmp_path: Path) -> None:
    assert not sentences(tmp_path, 512)


def test_schedules_that_are_named_are_searched(tmp_path: Path) -> None:
    (text,) = sentences(tmp_path, 262144, schedules=["1f1b", "interlaced-1f1b"])
    assert text.startswith("on the same shape shards of the vocabulary win, ")
    (text,) = sentences(tmp_path, 512, schedules=["zb-h1", "interlaced-1f1b"])
    assert text.startswith("on the same shape a whole head wins, ")

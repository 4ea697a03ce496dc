"""Bands of predicted steps: their rows, the share of steps that they hold, and their text."""

import json
import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched import Costs
from pipesched.bands import LEVEL, Band, Traits, band_of, band_of_traits, resembling, residuals
from pipesched.bands._statistics import interval, order_student, pool, student
from pipesched.bands.traits import GENERATIONS, generation_of
from pipesched.command import main
from pipesched.support.options import Rates
from schemas import is_valid
from test_command import Capture, text_of

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "band.schema.json").read_text())
PAGE = (ROOT / "docs" / "Validation.md").read_text()
DENSE = ["--model", "llama3-8b", "--global-batch", "64"]
SIZE = ["--pp", "4", "--microbatches", "8"]


def test_page_shows_a_band(capsys: Capture) -> None:
    block = PAGE.partition("    $ pipesched simulate")[2].partition("\n\n**")[0]
    command, *printed = block.replace("\n    ", "\n").splitlines()
    assert text_of(capsys, "simulate", *command.split()).splitlines() == printed


# Statistics


@pytest.mark.parametrize(("quantile", "below"), [(student, 0.9), (order_student, 0.975)])
def test_students_quantiles(quantile: Callable[[float], float], below: float) -> None:
    """Against Student's density, integrated."""
    for degrees in (1, 2, 5, 30, 31, 45, 120):
        scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
        scale /= math.sqrt(degrees * math.pi)
        end, count = quantile(degrees), 4000
        at = [end * (i + 0.5) / count for i in range(count)]
        area = sum((1 + x * x / degrees) ** (-(degrees + 1) / 2) for x in at) * end / count
        assert 0.5 + scale * area == pytest.approx(below, abs=2e-4)


@pytest.mark.parametrize("count", [3, 5, 12])
def test_interval_holds_the_next_value(count: int) -> None:
    """Also for few groups of correlated values."""
    chance = random.Random(count)

    def group() -> list[float]:
        middle = chance.gauss(0.1, 0.2)
        return [middle + chance.gauss(0, 0.02) for _ in range(3)]

    held = 0
    for _ in range(4000):
        low, high = interval([group() for _ in range(count)])
        held += low <= group()[0] <= high
    assert held / 4000 == pytest.approx(LEVEL, abs=0.025)


def test_values_of_a_group_count_as_one() -> None:
    once = interval([[0.0], [0.1], [0.3]])
    assert interval([[0.0] * 9, [0.1], [0.3] * 2]) == pytest.approx(once)
    spread, degrees = pool([[1.0, 1.2], [3.0]])
    assert (round(spread, 6), degrees) == (0.141421, 1)


# Which rows resemble


def test_the_chip_is_known_by_its_peaks() -> None:
    systems = pipesched.systems()
    found = {name: generation_of(system) for name, system in systems.items()}
    hopper = {"h100-sxm", "h200-sxm", "h800-sxm", "dgx-h100", "superpod-h100"}
    assert hopper <= {name for name, each in found.items() if each == "Hopper"}
    assert found["gb200-nvl72"] == found["dgx-b200"] == "Blackwell"
    # Its peaks are equal to Blackwell's except for memory.
    assert found["gb300-nvl72"] == found["b300-sxm"] == "Blackwell Ultra"
    others = {"mi300x-oam": "MI300X", "mi355x-oam": "MI355X", "tpu-v6e": "TPU v6e"}
    assert {name: found[name] for name in others} == others
    assert found["baseline"] is None and found["toy"] is None
    changed = {**systems["h100-sxm"], "name": "mine", "network": systems["toy"]["network"]}
    assert generation_of(changed) == "Hopper"
    faster = {**systems["h100-sxm"], "matrix": {"tflops": 1500.0}}
    assert generation_of(faster) is None
    assert generation_of({"matrix": [], "vector": None}) is None


def test_traits_are_dropped_in_order() -> None:
    wanted = Traits("computed", "Hopper", "under load", "dense", "8 or more", "megatron", "fp8")
    found = resembling(wanted._replace(tensor="2 to 4", precision="bf16"))
    assert found.dropped == ("precision",)
    assert {row.traits.precision for row in found.rows} == {"bf16", "fp8"}
    assert {row.traits.tensor for row in found.rows} == {"2 to 4"}
    few = resembling(wanted._replace(tensor="1", framework="torchtitan"))
    assert few.dropped == ("precision", "framework")
    assert {row.traits.tensor for row in few.rows} == {"1"}
    many = resembling(wanted._replace(tensor="2 to 4"))
    assert many.dropped == ()
    assert {row.traits.framework for row in many.rows} == {"megatron"}
    # Who runs it is not compared if it is not known.
    anyone = resembling(wanted._replace(framework=None))
    assert "framework" not in anyone.shared + anyone.dropped
    assert {row.traits.framework for row in anyone.rows} > {"megatron"}
    # Chip, rates, experts and tiny models are never dropped.
    tiny = resembling(wanted._replace(kind="tiny"))
    assert {row.traits.kind for row in tiny.rows} == {"tiny"}
    nowhere = resembling(wanted._replace(kind="experts", generation="A100"))
    assert nowhere.rows == () and nowhere.dropped == ("precision", "framework", "tensor")


def test_rates_under_load_are_closer() -> None:
    """Rates of data sheets are rates of single kernels, so that trainings take longer."""

    def band(rates: Rates) -> Band:
        given = Costs(model="llama3-70b", system="h100-sxm", accelerators=4, rates=rates)
        made = band_of(given, "megatron")
        assert made is not None
        return made

    sold, loaded = band("data-sheet"), band("load")
    assert band("auto") == loaded
    low, high = loaded.seconds(1)
    assert low and high and low < 1 < high
    assert 1 < loaded.middle < sold.middle
    runs: dict[str, list[float]] = {}
    for row in loaded.found.rows:
        runs.setdefault(row.run, []).append(math.log(row.ratio))
    assert math.log(loaded.middle) == pytest.approx(median(map(fmean, runs.values())), abs=1e-4)
    assert low < loaded.middle < high


def test_the_framework_is_that_of_the_costs() -> None:
    def framework(**given: Any) -> str | None:
        made = band_of(Costs(model="llama3-8b", system="h100-sxm", accelerators=1, **given))
        assert made is not None
        return made.traits.framework

    assert framework() == "megatron"
    assert framework(framework="torchtitan") == "torchtitan"
    assert framework(framework="none") is None


def test_small_models_are_apart() -> None:
    def kind(model: str) -> str | None:
        made = band_of(Costs(model=model, system="h100-sxm"))
        assert made is not None
        return made.traits.kind

    assert [kind(m) for m in ("qwen3-0.6b", "qwen3-1.7b", "mixtral-8x7b")] == [
        *("tiny", "dense", "experts")
    ]


def test_what_resembles_nothing_says_so() -> None:
    made = band_of(Costs(model="llama3-8b", system="baseline"))
    assert made is not None and not made.is_known and made.seconds(3.0) == (None, None)
    assert made.middle == 1
    assert made.text == "no band: no published row ran on accelerators with these peaks"
    few = band_of(Costs(model="llama3-8b", system="mi300x-oam"))
    assert few is not None and not few.is_known
    assert few.text.startswith("no band: only ")
    assert few.text.endswith(" of one run resemble it (MI300X, rates under load, dense)")
    mixed = band_of(Costs(model="mixtral-8x7b", system="a100-sxm-80gb"))
    assert mixed is not None
    assert mixed.text == (
        "no band: no published row resembles it (A100, rates under load, with experts)"
    )
    one = residuals()[0]
    alone = band_of_traits(one.traits, [one])
    assert alone.reason.startswith("only 1 of one run resembles it (A100, rates under load")
    assert band_of(None) is None and band_of(Costs(times="F=1ms,B=2ms")) is None
    assert band_of(Costs(model="llama3-8b")) is None


def test_given_times_have_their_own_rows() -> None:
    times = Costs(system="h100-sxm", model="llama3-8b", times="F=1ms,B=2ms,comm=1us")
    made = band_of(times)
    assert made is not None and made.rows == 24 and made.runs == 2
    assert "times of stages that were measured" in made.text
    messages = band_of(Costs(system="h100-sxm", model="llama3-8b", times="comm=1us"))
    assert messages is not None and messages.traits.generation == "Hopper"


# Texts


def answer(capsys: Capture, *words: str) -> Any:
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out)


PLAN = ["plan", *DENSE, "--gpus", "16", "--top", "2", "--pp", "2", "--system"]
COMPARE = ["simulate", "1f1b", "zb-v", *SIZE, *DENSE, "--system"]


@pytest.mark.parametrize("words", [PLAN, COMPARE], ids=["plan", "simulate"])
@pytest.mark.parametrize("system", ["h100-sxm", "mi300x-oam"])
def test_json_has_the_band(words: Sequence[str], system: str, capsys: Capture) -> None:
    for row in answer(capsys, *words, system, "--format", "json"):
        assert is_valid(SCHEMA, row["band"]), row["band"]
        if "step_s" in row:
            assert (row["step_low_s"], row["step_high_s"]) == (
                row["band"]["low_s"],
                row["band"]["high_s"],
            )
        if system == "mi300x-oam":
            assert row["band"]["low_s"] is None and row["band"]["runs"] == 1
            assert row["band"]["middle_ratio"] == 1
        else:
            step = row["band"]["low_s"] / row["band"]["low_ratio"]
            assert row["band"]["high_s"] == pytest.approx(step * row["band"]["high_ratio"])
            assert row["expected_s"] == pytest.approx(step * row["band"]["middle_ratio"])


def test_schema_refuses_other_values() -> None:
    made = band_of(Costs(model="llama3-8b", system="h100-sxm"))
    assert made is not None
    good = made.to_dict(1.0)
    assert is_valid(SCHEMA, good)
    wrongs: dict[str, Any] = {"level": 1.5, "rows": -1, "shared": {"colour": "red"}, "text": 1}
    for name, wrong in {**wrongs, "middle_ratio": None}.items():
        assert not is_valid(SCHEMA, {**good, name: wrong})
    assert not is_valid(SCHEMA, {name: good[name] for name in good if name != "runs"})


def test_schema_knows_all_traits() -> None:
    known = SCHEMA["properties"]["shared"]["properties"]
    for name in ("times", "generation", "rates", "kind", "tensor", "precision"):
        found = {getattr(row.traits, name) for row in residuals()}
        assert found <= {*known[name]["enum"], None}
    assert {*GENERATIONS.values(), None} == {*known["generation"]["enum"]}


@pytest.mark.parametrize("words", [PLAN, COMPARE], ids=["plan", "simulate"])
def test_text_and_page_tell_the_band(words: Sequence[str], tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    text = text_of(capsys, *words, "h100-sxm", "--draw", str(page))
    said = "80 % of steps like it took"
    assert said in text and said in page.read_text()
    header = next(line.split() for line in text.splitlines() if {"step", "from"} <= {*line.split()})
    assert header[header.index("step") + 1 :][:2] == ["from", "to"]
    text = text_of(capsys, *words, "mi300x-oam")
    said = "of one run resemble it (MI300X, rates under load, dense)"
    assert re.search(rf"^no band: only \d+ {re.escape(said)}$", text, re.MULTILINE)
    assert not any({"step", "from"} <= {*line.split()} for line in text.splitlines())


def test_slots_and_times_alone_have_no_band(capsys: Capture) -> None:
    assert "band:" not in text_of(capsys, "simulate", "1f1b", "zb-v", *SIZE)
    (row,) = answer(capsys, "simulate", "1f1b", *SIZE, "--times", "F=1ms,B=2ms", "--format", "json")
    assert row["band"] is None and row["step_low_s"] is None


def test_files_that_name_their_costs_say_so(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "plans"
    assert main([*PLAN, "h100-sxm", "--save", str(folder)]) == 0
    file = str(min(folder.glob("*.mlir")))
    capsys.readouterr()
    (row,) = answer(capsys, "simulate", file, "--format", "json")
    assert is_valid(SCHEMA, row["band"]) and row["may_be_first"] is None
    text = text_of(capsys, "simulate", file)
    assert "\nno band: its file names the model and the system" in f"\n{text}"


def test_proposals_have_bands() -> None:
    made = pipesched.plan("llama3-8b", "h100-sxm", gpus=16, global_batch=64, pp=[2])
    band = made.fitting[0].band
    assert band is not None and band.is_known
    frame = made.to_frame()
    assert (frame.step_low_s < frame.step_high_s).all() and "band" not in frame
    best = made.fitting[0]
    assert best.expected_s == best.step_s * band.middle
    assert (frame.step_low_s < frame.expected_s).all()
    assert (frame.expected_s < frame.step_high_s).all()

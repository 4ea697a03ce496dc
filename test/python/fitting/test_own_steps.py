"""Systems that are corrected by measured steps of own trainings."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched import Configuration, Costs, PipeSchedError
from pipesched.bands import LEVEL, band_of
from pipesched.bands.own import rates_before, ratios_of, source_of
from pipesched.bands.traits import DATA_SHEET, UNDER_LOAD
from pipesched.command import main
from pipesched.costs.catalogue import take_rates
from pipesched.fitting import OwnStep, correct, fit_steps
from pipesched.fitting._correct import seconds_of_log
from pipesched.support.options import Rates, Sharding

from studies import recent_runs

Capture = pytest.CaptureFixture[str]
Row = dict[str, Any]

ROW: Row = {
    "model": "llama3-8b",
    "system": "h100-sxm",
    "gpus": 16,
    "sharding": "optimizer",
    "global_batch": 64,
    "tensor": 2,
    "pipeline": 2,
    "microbatch_size": 1,
}


def system_of(name: str, rates: Rates = "load", **fields: Any) -> Row:
    shipped = take_rates(pipesched.systems()[name], rates)
    return {k: v for k, v in shipped.items() if k not in ("aliases", "sources")} | fields


def predicted_s(configuration: Configuration, system: Row) -> float:
    assert configuration.costs is not None
    costs = replace(configuration.costs, system=system)
    return replace(configuration, costs=costs).simulate().execution.makespan_ps / 1e12


def error(step: OwnStep, system: Row) -> float:
    return abs(math.log(step.seconds / predicted_s(step.configuration, system)))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        path = tmp_path / "steps.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return str(path)

    return written


# Published rows


def published(source: str, model: str) -> list[OwnStep]:
    """The rows of one publication and model on H100 as steps."""
    found = []
    for row in recent_runs.published()["rows"]:
        if row["source"] == source and row["model"] == model and row["system"] == "h100-sxm":
            if row["quantity"] not in ("step", "throughput"):
                continue
            point = recent_runs.point(row)
            step = point.simulate().execution.makespan_ps / 1e12
            ratio = recent_runs.predicted(row) / row["measured"]
            seconds = row["measured"] if row["quantity"] == "step" else step * ratio
            found.append(OwnStep(row["case"], point, seconds, row["case"]))
    return found


RUNS = {
    ("nemo", "gpt3-175b"): (2, 26, 6),
    ("nemo-long", "llama2-7b"): (4, 41, 4),
    ("sft", "llama3-70b"): (3, 22, 9),
    ("megatron-bridge", "gpt-oss-120b"): (2, 44, 16),
    ("moe-zoo", "qwen3-235b-a22b"): (5, 41, 32),
}
"""The number of layouts, and mean errors before and after in per cent, as in docs/Fitting.md.
"""


def changes(steps: Sequence[OwnStep], system: Row) -> list[tuple[float, float]]:
    """Errors of each step before and after a correction to each other one."""
    found = []
    for own in steps:
        corrected = correct([own], system).system
        found += [(error(s, system), error(s, corrected)) for s in steps if s is not own]
    return found


@pytest.mark.parametrize(("source", "model"), RUNS)
def test_one_layout_corrects_the_others(source: str, model: str) -> None:
    """The others of the cluster are predicted better in the mean. No value is fitted to them."""
    steps = published(source, model)
    count, *said = RUNS[source, model]
    assert len(steps) == count
    errors = changes(steps, system_of("h100-sxm", "data-sheet"))
    before, after = (fmean(each) for each in zip(*errors, strict=True))
    assert after < 0.85 * before
    assert [round(100 * each) for each in (before, after)] == said


def test_bands_hold() -> None:
    """Bands of others of the cluster, after a correction to one. They hold 73 of 84: of layouts of
    Qwen3 235B, which differ by a factor of three, 29 of 40.
    """
    held = []
    for system in (system_of("h100-sxm", "data-sheet"), system_of("h100-sxm")):
        for source, model in RUNS:
            steps = published(source, model)
            for own in steps:
                corrected = correct([own], system).system
                for step in steps:
                    if step is own:
                        continue
                    assert step.configuration.costs is not None
                    costs = replace(step.configuration.costs, system=corrected)
                    band = band_of(costs)
                    assert band is not None and band.low is not None and band.high is not None
                    ratio = step.seconds / predicted_s(step.configuration, corrected)
                    held.append(band.low <= ratio <= band.high)
    assert len(held) > 80 and sum(held) / len(held) >= LEVEL


# Terms


def truth(**factors: float) -> Row:
    """The H100 under load with other rates than it ships with."""
    made = system_of("h100-sxm")
    made["sustained"] *= factors.get("compute", 1)
    for field in ("operation_us", "launch_us"):
        made["host_time"][field] *= factors.get("host", 1)
    network = made["network"]["bandwidth_gb_per_s"] * factors.get("network", 1)
    made["network"] = {**made["network"], "bandwidth_gb_per_s": network}
    return made


def steps_on(system: Row) -> list[OwnStep]:
    """Dense models that are bound by compute, by launches, by the network and in part by the
    link.
    """
    found = []
    cases: tuple[tuple[str, int, int, int, Sharding], ...] = (
        ("llama3-8b", 8192, 1, 8, "optimizer"),
        ("llama3-8b", 1024, 1, 64, "full"),
        ("qwen3-0.6b", 512, 1, 1, "none"),
        ("llama3-70b", 1024, 1, 64, "full"),
        ("llama3-70b", 8192, 8, 1, "none"),
    )
    for model, sequence, tensor, data, sharding in cases:
        costs = Costs(
            model=model,
            system=system_of("h100-sxm"),
            accelerators=tensor,
            microbatch_size=1,
            data_parallel=data,
            sharding=sharding,
            sequence=sequence,
            framework="none",
        )
        point = Configuration("1f1b", 1, 2, costs=costs, optimizer_step="overlapped")
        found.append(OwnStep(model, point, predicted_s(point, system), model))
    return found


def determined(made: Any) -> set[str]:
    return {term.term for term in made.terms if term.is_determined}


def test_one_step_determines_compute() -> None:
    steps = steps_on(truth(compute=0.85))
    made = correct(steps[:1], system_of("h100-sxm"))
    assert determined(made) == {"compute"}
    assert any("network stays as it was" in note for note in made.notes)
    (before,), (after,) = made.before_s, made.after_s
    assert abs(after / steps[0].seconds - 1) < 0.5 * abs(before / steps[0].seconds - 1)
    assert made.system["network"] == system_of("h100-sxm")["network"]


def test_more_steps_determine_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """These steps are exact, so that they determine terms which layouts of a cluster blur."""
    monkeypatch.setattr("pipesched.fitting._correct._noise", lambda steps: 0.01)
    steps = steps_on(truth(compute=0.8, host=1.6, network=0.5))
    made = correct(steps, system_of("h100-sxm"))
    assert determined(made) >= {"compute", "host", "network"}
    factors = {term.term: term.factor for term in made.terms}
    assert factors["network"] > 1.3 and 1.05 < factors["compute"] < 1.4
    assert 1.4 < factors["host"] < 1.7
    # Not more terms than steps, and the others are listed.
    fewer = correct(steps[:2], system_of("h100-sxm"))
    assert len(determined(fewer)) <= 2
    assert sum("the steps do not determine it" in note for note in fewer.notes) >= 2
    after = [error(step, made.system) for step in steps]
    before = [error(step, system_of("h100-sxm")) for step in steps]
    assert max(after) < 0.2 * max(before)


def test_steps_as_predicted_change_nothing() -> None:
    made = correct(steps_on(truth()), system_of("h100-sxm"))
    assert all(term.after == pytest.approx(term.before, rel=1e-3) for term in made.terms)


def test_rates_stay_below_the_data_sheet() -> None:
    step = steps_on(truth())[0]
    sheet = system_of("h100-sxm", "data-sheet")
    made = correct([step._replace(seconds=step.seconds / 5)], sheet)
    assert made.system["sustained"] == 1.0 and made.after_s == made.before_s


# Files


def test_rows_of_plans(tmp_path: Path, capsys: Capture) -> None:
    """A row that `plan --save` writes, with its measured step."""
    words = ["--gpus", "16", "--global-batch", "64", "--top", "1", "--pp", "2"]
    plan = ["plan", "--model", "llama3-8b", "--rates", "data-sheet", *words]
    folder = tmp_path / "plans"
    assert main([*plan, "--system", "dgx-h100", "--save", str(folder)]) == 0
    (file,) = folder.glob("*.json")
    (row,) = json.loads(file.read_text())
    row["measured_s"] = 1.3 * row["step_s"]
    file.write_text(json.dumps([row]))
    saved = str(tmp_path / "mine.json")
    capsys.readouterr()
    assert main(["fit", str(file), "--save", saved, "--format", "json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["name"] == row["name"] and told["before_s"] == pytest.approx(row["step_s"])
    assert abs(told["error_after"]) < 0.05 < abs(told["error_before"])
    assert main([*plan, "--system", saved, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0]["band"]["own_steps"] == 1
    assert "corrected to 1 step of its own" in rows[0]["band"]["text"]
    compare = ["simulate", "1f1b", "zb-v", "--pp", "2", "--microbatches", "8"]
    compare += ["--model", "llama3-8b", "--global-batch", "8", "--system"]
    assert main([*compare, saved, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["band"]["own_steps"] == 1
    assert main([*compare, "dgx-h100", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["band"]["own_steps"] == 0


def test_the_source_says_the_steps(write: Callable[[Any], str]) -> None:
    made = fit_steps(write([{**ROW, "measured_s": 5.0}]), command="pipesched fit steps.json")
    assert len(ratios_of(made.system)) == 1
    assert rates_before(made.system) == UNDER_LOAD
    by_sheet = {**ROW, "rates": "data-sheet", "measured_s": 5.0}
    assert rates_before(fit_steps(write([by_sheet])).system) == DATA_SHEET
    assert made.system["sources"]["sustained"] == (
        "corrected to 1 measured steps: pipesched fit steps.json"
    )
    assert made.system["name"] == "h100-sxm-corrected"
    again = json.loads(made.to_json())
    assert again == made.system and Costs(system=again)
    for text in ("corrected to 2 measured steps, measured in terms of predicted: 1.0", "", 5):
        assert ratios_of({"sources": {"description": text}}) == ()
    nothing = source_of([1.0]).replace("1.0000", "nan")
    assert ratios_of({"sources": {"description": nothing}}) == ()
    assert ratios_of({}) == () and ratios_of({"sources": []}) == ()


def test_more_own_steps_narrow_the_band() -> None:
    def width(*ratios: float) -> float:
        sources = {"description": source_of(ratios, UNDER_LOAD)}
        system = system_of("a100-sxm-80gb", sources=sources)
        band = band_of(Costs(model="llama3-8b", system=system))
        assert band is not None and band.low is not None and band.high is not None
        assert band.low < ratios[0] < band.high
        return band.high / band.low

    assert width(1.0) > width(1.0, 1.0) > width(*[1.0] * 8)
    elsewhere = system_of("mi300x-oam", sources={"description": source_of([1.0])})
    band = band_of(Costs(model="llama3-8b", system=elsewhere))
    assert band is not None and band.is_known


MEGATRON = " [2026-11-02 10:00:00] iteration {}/ 100 | elapsed time per iteration (ms): {:.1f} |"


def test_logs(write: Callable[[Any], str], tmp_path: Path) -> None:
    lines = [MEGATRON.format(10 * i, 9000.0 if i < 2 else 3100.0 + i) for i in range(10)]
    (tmp_path / "train.log").write_text("starting\n" + "\n".join(lines))
    rows = [
        {**ROW, "measured_log": "train.log"},
        {**ROW, "measured_log": MEGATRON.format(20, 3105.0)},
        {**ROW, "measured_tokens_per_s_per_gpu": 64 * 8192 / 16 / 3.105},
    ]
    made = fit_steps(write(rows))
    assert [step.seconds for step in made.steps] == pytest.approx([3.1055, 3.105, 3.105])
    text = "step: 10  loss: 8.1  memory: 60.1GiB(76.0%)  tps: 16,384  tflops: 300  mfu: 40%"
    assert seconds_of_log(text, 8192) == 0.5
    assert seconds_of_log("train_step_timing in s: 2.5", 0) == 2.5
    assert seconds_of_log("nothing of it", 8192) is None
    assert seconds_of_log("tps: 0", 8192) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([1], "row 1: found 1, wanted an object"),
        ([{"measured_s": 1}], "row 1: wanted model, found none"),
        ([{**ROW, "measured_s": -1}], "measured_s is -1, wanted a number above 0"),
        ([{**ROW, "measured_s": True}], "measured_s is True, wanted a number above 0"),
        ([{**ROW, "measured_s": "3 s"}], "measured_s is '3 s', wanted a number above 0"),
        ([{**ROW, "measured_log": 3}], "measured_log is 3, wanted a line of a log or a file"),
        ([{**ROW, "measured_s": 1, "measured_log": "x"}], "found measured_s and measured_log"),
        ([{**ROW, "measured_s": None}], "wanted one of measured_s, "),
        (
            [{**ROW, "sharding": None, "measured_s": 1}],
            "row 1: wanted sharding, as it was run; it could be full, gradients, none, optimizer",
        ),
        ([{**ROW, "tensr": 1, "measured_s": 1}], "unknown key 'tensr', the closest is 'tensor'"),
        ([{**ROW, "tensor": 3, "measured_s": 1}], "tensor 3 does not divide 16 accelerators"),
        ([{**ROW, "gpus": "16", "measured_s": 1}], "gpus is an integer; got '16'"),
        ([{**ROW, "model": "nothing", "measured_s": 1}], "nothing"),
        ([{"request": 5, "measured_s": 1}], "row 1: "),
        ([{"request": {}, "measured_s": 1}], "a row of a plan has the key 'tensor'"),
        ('[{"measured_s": 1', "not JSON"),
        ('{"measured_s": 1}\n{"measured_s": ', "not lines of JSON"),
    ],
)
def test_mistakes(rows: Any, said: str, write: Callable[[Any], str], capsys: Capture) -> None:
    assert main(["fit", write(rows)]) == 1
    told = capsys.readouterr().err
    assert said in told and told.count("error:") == 1


def test_steps_and_samples_do_not_mix(write: Callable[[Any], str], capsys: Capture) -> None:
    steps, samples = write([{**ROW, "measured_s": 3.0}]), ROOT / "test/data/fit/kernels.csv"
    assert main(["fit", steps, str(samples)]) == 1
    assert "fit the samples first" in capsys.readouterr().err
    assert main(["fit", steps, "--dtype", "bfloat16"]) == 2
    assert "--dtype is about samples" in capsys.readouterr().err
    with pytest.raises(PipeSchedError, match="fit_steps takes the former alone"):
        pipesched.fit(steps, system="h100-sxm")
    other = {**ROW, "system": "h200-sxm", "measured_s": 3.0}
    with pytest.raises(PipeSchedError, match="of several systems"):
        fit_steps(write([{**ROW, "measured_s": 3.0}, other]))
    made = fit_steps(write([{**ROW, "measured_s": 3.0}, other]), system="h100-sxm")
    assert len(made.steps) == 2

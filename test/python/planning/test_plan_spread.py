"""Plans say whether a heavy head is better divided among the workers, or uneven layers are."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from heavy_head import heavy_head
from pipesched import PipeSchedError
from pipesched.costs.division import SPREAD
from pipesched.costs.frameworks import LauncherName
from pipesched.planning import Plan, plan
from pipesched.planning.request import Request
from pipesched.planning.search.search import Search
from pipesched.planning.space.heads import SHARDS, kinds_of
from pipesched.planning.space.space import Space
from pipesched.planning.whatif import case_of, change_vocabulary
from pipesched.support.options import ReceivePlacement
from test_command import Capture, rows_of, text_of

OTHER: dict[ReceivePlacement, ReceivePlacement] = {"arrival": "consumer", "consumer": "arrival"}


def planned(tmp_path: Path, entries: int, **given: Any) -> Plan:
    limits: dict[str, Any] = {"gpus": 8, "global_batch": 32, "pp": [8], "tensor": [1]}
    limits |= {"context": [1], "microbatch_size": [1], "rates": "data-sheet"}
    return plan(heavy_head(tmp_path, entries), "a100-sxm-80gb", **{**limits, **given})


def sentences(tmp_path: Path, entries: int, **given: Any) -> list[str]:
    found = planned(tmp_path, entries, **given)
    return [text for text in found.why() if "vocabulary" in text or "whole head" in text]


def test_a_heavy_head_is_proposed_in_shards(tmp_path: Path) -> None:
    (text,) = sentences(tmp_path, 262144)
    found = re.search(r"as long as ([\d.]+) layers; with the vocabulary in shards", text)
    assert found and float(found[1]) > 5, text
    assert re.search(r"would take [\d.]+ s and [\d.]+ GiB, [\d.]+ % ahead of layers", text)
    assert "no launcher of a framework runs shards of the vocabulary, so that it is not" in text
    named = re.search(r"--vocabulary (\S+) searches it$", text)
    assert named and named[1] in SHARDS, text
    kind = re.search(r"in shards (?:\S+ by )?(\S+) would take", text)
    assert kind and kind[1].lower().removesuffix("-1f1b") == named[1], text


def test_shards_are_proposed_beside_other_pipelines(tmp_path: Path) -> None:
    """Each of two pipelines of eight sums the gradients of shards with the other."""
    two: dict[str, Any] = {"gpus": 16, "global_batch": 64}
    (text,) = sentences(tmp_path, 262144, **two)
    assert "with the vocabulary in shards" in text, text
    found = planned(tmp_path, 262144, schedules=["vocab-1f1b"], **two).fitting
    assert found and all(each.shape.data == 2 for each in found)
    alone = planned(tmp_path, 262144, schedules=["vocab-1f1b"]).fitting[0]
    # Each pipeline has as many microbatches as that one; the sums come on top.
    assert alone.step_s < found[0].step_s < 1.2 * alone.step_s


def test_a_light_head_is_not(tmp_path: Path) -> None:
    assert not sentences(tmp_path, 512)


def test_schedules_that_are_named_are_searched(tmp_path: Path) -> None:
    (text,) = sentences(tmp_path, 262144, schedules=["1f1b", "interlaced-1f1b"])
    assert text.startswith("on the same shape shards of the vocabulary win, ")
    (text,) = sentences(tmp_path, 512, schedules=["zb-h1", "interlaced-1f1b"])
    assert text.startswith("on the same shape a whole head wins, ")


@pytest.mark.parametrize("launcher", ["torchtitan", "megatron"])
@pytest.mark.parametrize("schedule", SPREAD)
def test_no_launcher_runs_shards(tmp_path: Path, schedule: str, launcher: LauncherName) -> None:
    name = {"torchtitan": "torchtitan keeps the head whole", "megatron": "Megatron-LM has 1F1B"}
    with pytest.raises(PipeSchedError, match=f"nothing to plan.*{name[launcher]}.*{schedule}"):
        sentences(tmp_path, 512, schedules=[schedule], launcher=launcher)


@pytest.mark.parametrize("schedule", SPREAD)
def test_rows_of_shards_have_no_lines(tmp_path: Path, schedule: str) -> None:
    found = planned(tmp_path, 512, schedules=[schedule])
    lines = found.fitting[0].launchers()
    assert lines.torchtitan.lines is None and lines.megatron.lines is None
    assert f"pipesched.torch runs {schedule}" in (lines.torchtitan.reason or "")


@pytest.mark.parametrize("vocabulary", [512, 32768, 262144])
def test_bounds_of_shards_hold(tmp_path: Path, vocabulary: int) -> None:
    """A worker with the last stage has a share of the head, as the others have."""
    request = Request(
        model=heavy_head(tmp_path, vocabulary),
        system="a100-sxm-80gb",
        gpus=8,
        global_batch=32,
        schedules=SPREAD,
        context=[1],
        recompute=["none", "full"],
        sharding=["none", "optimizer"],
    )
    search = Search(Space(request), None, None)
    outcomes = search.evaluate(search.space.candidates())
    assert len(outcomes) > 200 and search.limits.bases
    for outcome in outcomes:
        step = float(outcome.step_ps)
        for limit in (math.inf, step):
            least = search.limits.of_candidate(outcome.candidate, limit)
            assert least.step_ps <= step
            assert least.peak_bytes <= outcome.peak_bytes
            assert search.limits.peak(outcome.candidate.shape, limit) <= outcome.peak_bytes
        assert search.limits.alive(outcome.candidate) <= outcome.peak_bytes


@pytest.mark.parametrize("entries", [131072, 196608, 262144])
def test_what_the_option_finds_is_no_slower_than_the_hint(tmp_path: Path, entries: int) -> None:
    (text,) = sentences(tmp_path, entries)
    hint = re.search(r" would take ([\d.]+) s and", text)
    named = re.search(r"--vocabulary (\S+) searches it", text)
    assert hint and named, text
    for kinds in ([named[1]], ["whole", named[1]], ["whole", *SHARDS]):
        found = planned(tmp_path, entries, vocabulary=kinds)
        # Round to the digits that the sentence has.
        fastest = min(p.expected_s for p in (*found.fitting, found.fastest) if p)
        assert float(f"{fastest:.4g}") <= float(hint[1])
        assert not [line for line in found.why() if "would take" in line]


def test_each_kind_is_searched_with_all_families(tmp_path: Path) -> None:
    for kind in SHARDS:
        found = planned(tmp_path, 262144, vocabulary=[kind], top=50)
        rows = found.to_dicts()
        assert {row["vocabulary"] for row in rows} == {kind}
        families = {family for family in SPREAD if kind in kinds_of(family)}
        assert {row["schedule"] for row in rows} == families
        assert all(row["options"].get("vocabulary", "interlaced") == kind for row in rows)
    whole = planned(tmp_path, 262144, vocabulary=["whole"])
    assert whole.fitting[0].step_s == planned(tmp_path, 262144).fitting[0].step_s
    assert not [line for line in whole.why() if "in shards" in line]


def test_kinds_and_schedules_restrict_together(tmp_path: Path) -> None:
    both: dict[str, Any] = {"schedules": ["1f1b", "vocab-1f1b"], "vocabulary": ["vocab-2"]}
    found = planned(tmp_path, 262144, **both).fitting
    assert {(each.schedule, each.candidate.vocabulary) for each in found} == {
        ("vocab-1f1b", "vocab-2")
    }
    with pytest.raises(PipeSchedError, match="1f1b has no vocabulary vocab-2"):
        planned(tmp_path, 512, schedules=["1f1b"], vocabulary=["vocab-2"])
    with pytest.raises(PipeSchedError, match="vocabulary is one of whole, vocab-1"):
        planned(tmp_path, 512, vocabulary=["vocab-3"])
    with pytest.raises(PipeSchedError, match="Megatron-LM has 1F1B.*vocab-1f1b"):
        planned(tmp_path, 512, vocabulary=["vocab-1"], launcher="megatron")


def test_receives_are_searched_too(tmp_path: Path) -> None:
    """Both places are tried, and the faster one is a row."""
    space = Space(planned(tmp_path, 262144, vocabulary=["vocab-1"]).request)
    found = planned(tmp_path, 262144, vocabulary=["vocab-1"], top=50).fitting
    for each in found:
        other = each.candidate._replace(receives=OTHER[each.candidate.receives])
        try:
            step_ps = space.configuration(other).simulate().execution.makespan_ps
        except PipeSchedError as error:  # as vocab-v-half before consumers
            assert "deadlock" in str(error)
        else:
            assert each.step_s <= step_ps / 1e12
    assert len({p.candidate._replace(receives="arrival") for p in found}) == len(found)


def test_a_saved_plan_has_its_shards(tmp_path: Path, capsys: Capture) -> None:
    line = ["plan", "--model", heavy_head(tmp_path, 262144), "--system", "a100-sxm-80gb"]
    line += ["--gpus", "8", "--global-batch", "32", "--pp", "8", "--tp", "1"]
    line += ["--vocabulary", "vocab-1,interlaced", "--top", "4"]
    folder = tmp_path / "saved"
    table = text_of(capsys, *line, "--save", str(folder))
    assert " vocabulary " in table and " vocab-1 " in table and "pipesched.torch runs" in table
    assert "receive placement arrival or consumer," in " ".join(table.split())
    rows = [json.loads(file.read_text())[0] for file in sorted(folder.glob("*.json"))]
    assert {row["vocabulary"] for row in rows} <= {"vocab-1", "interlaced"} and len(rows) == 3
    for row in rows:
        assert row["request"]["vocabulary"] == ["vocab-1", "interlaced"]
        receives = ["--receive-placement", row["receive_placement"]]
        (timed,) = rows_of(capsys, "simulate", str(folder / f"{row['name']}.mlir"), *receives)
        assert timed["execution"]["makespan_ps"] / 1e12 == pytest.approx(row["step_s"], rel=1e-9)
        changes = ["--vocabulary", "whole"]
        first, whole = rows_of(capsys, "whatif", str(folder / f"{row['name']}.json"), *changes)
        assert first["step_s"] == pytest.approx(row["step_s"], rel=1e-9)
        assert (first["vocabulary"], whole["vocabulary"]) == (row["vocabulary"], "whole")
        assert whole["step_s"] > first["step_s"]


def test_other_shards_are_a_change(tmp_path: Path) -> None:
    """On the same shape, with the schedule of the row where it has them."""
    best = planned(tmp_path, 262144, schedules=["vocab-v-half"], vocabulary=["vocab-2"]).fitting[0]
    case = case_of(best.to_dict())
    other = change_vocabulary("vocab-1")(case)
    assert other.candidate.schedule == "vocab-v-half" and other.shape == case.shape
    assert other.candidate.vocabulary == "vocab-1"
    assert change_vocabulary("interlaced")(case).candidate.schedule == "interlaced-1f1b"
    assert change_vocabulary("whole")(case).candidate.schedule == "v-half"


def test_optimized_rows_keep_the_head_whole(tmp_path: Path) -> None:
    found = planned(tmp_path, 262144, vocabulary=["vocab-1"], optimize=1)
    assert all(each.candidate.vocabulary == "vocab-1" for each in found.fitting)
    assert [line for line in found.why() if "the optimizer's rows keep the head whole" in line]

"""Plans: their numbers agree with each other, the best is the best, and the suggested changes
help.
"""

import json
import math
import re
import shlex
from pathlib import Path
from random import Random
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from pipesched import PipeSchedError, Plan, Proposal, plan
from pipesched.command import main
from pipesched.planning import Request
from pipesched.planning.request import bytes_of, divisors
from pipesched.planning.search.search import Search
from pipesched.planning.space.divisions import base_of
from pipesched.planning.space.space import Space
from points import SLICED, WHOLE
from test_command import Capture, failure_of, rows_of, run_passes, text_of

SMALL = ["--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16", "--global-batch", "32"]


def small(**limits: Any) -> Plan:
    return plan("llama3-8b", "dgx-h100", **{"gpus": 16, "global_batch": 32, **limits})


def flags(lines: tuple[str, ...]) -> dict[str, str]:
    """Reads lines as a launcher does: every word that starts with dashes is a flag, and a word with
    a colon is the subcommand after them.
    """
    found: dict[str, str] = {}
    flag = ""
    for word in shlex.split(" ".join(lines)):
        assert ":" not in flag, "the subcommand is the last word"
        if word.startswith(("--", "activation-checkpoint:")):
            flag = word
            assert flag not in found
            found[flag] = ""
        else:
            found[flag] = f"{found[flag]} {word}".strip()
    return found


# Plans are consistent


def check_launchers(proposal: Proposal) -> None:
    shape, launchers = proposal.shape, proposal.launchers()
    local = proposal.request.global_batch // shape.data
    if lines := launchers.megatron.lines:
        found = flags(lines)
        model = int(found["--tensor-model-parallel-size"]) * int(
            found["--pipeline-model-parallel-size"]
        )
        context = int(found.get("--context-parallel-size", 1))
        assert model * context * shape.data == proposal.request.gpus
        assert int(found["--global-batch-size"]) == proposal.request.global_batch
        assert int(found["--micro-batch-size"]) * shape.microbatches == local
        if layout := found.get("--pipeline-model-parallel-layout"):
            assert layout.count("|") + layout.count("*") > 0
    else:
        assert launchers.megatron.reason
    if lines := launchers.torchtitan.lines:
        found = flags(lines)
        names = ("replicate", "shard")
        degrees = [int(found[f"--parallelism.data_parallel_{name}_degree"]) for name in names]
        degrees += [
            int(found[f"--parallelism.{n}_parallel_degree"])
            for n in ("tensor", "pipeline", "context")
        ]
        assert math.prod(degrees) == proposal.request.gpus
        assert int(found["--training.global_batch_size"]) == proposal.request.global_batch
        if shape.pipeline > 1:
            size = int(found["--parallelism.pipeline_parallel_microbatch_size"])
            assert int(found["--training.local_batch_size"]) == size * shape.microbatches == local
            assert "--training.disable_cuda_graphs" in found
        assert f"activation-checkpoint:{shape.recompute}" in found
    else:
        assert launchers.torchtitan.reason


def check(proposal: Proposal) -> None:
    """Checks that the numbers of one proposal agree with each other and with its report."""
    shape, request = proposal.shape, proposal.request
    assert shape.gpus == request.gpus
    assert shape.data * shape.microbatch_size * shape.microbatches == request.global_batch
    layers = request.sizes["layers"]
    for path, held in zip(proposal.candidate.paths, proposal.candidate.layers, strict=True):
        assert len(path) == len(held)
        assert sum(held) == layers
        assert set(path) == set(range(shape.pipeline))
    report = proposal.report
    assert report.memory is not None
    assert 0 <= proposal.update_s < proposal.step_s
    assert proposal.step_s == report.execution.makespan_ps / 1e12
    assert proposal.peak_bytes == -(-int(report.memory.peak_bytes.max()) // shape.worker)
    assert proposal.fits == (proposal.peak_bytes <= request.usable_bytes)
    assert sum(proposal.causes().values()) == pytest.approx(report.execution.idle_ratio)
    assert 0 < (proposal.mfu or 0.5) < 1
    check_launchers(proposal)


requests = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama3-8b", "mistral-7b", "toy"]),
        "gpus": st.sampled_from([1, 2, 4, 6, 8, 16, 24]),
        "global_batch": st.sampled_from([1, 2, 6, 12, 24, 48, 96]),
    },
    optional={
        "schedules": st.lists(st.sampled_from([*WHOLE, *SLICED]), min_size=1, max_size=4),
        "recompute": st.lists(st.sampled_from(["none", "full"]), min_size=1),
        "sharding": st.lists(st.sampled_from(["none", "optimizer", "full"]), min_size=1),
        "memory": st.sampled_from(["8GiB", "24GiB", "80GB"]),
        "reserve": st.sampled_from(["1GiB", "5%"]),
        "transport": st.sampled_from(["overlap", "delay", "blocking"]),
        "precision": st.sampled_from(["bf16", "fp8"]),
        "launcher": st.sampled_from(["megatron", "torchtitan"]),
    },
)


@settings(max_examples=25)
@given(requests)
def test_plans_are_consistent(request: dict[str, Any]) -> None:
    try:
        made = plan(request.pop("model"), "h100-sxm", top=5, misses=2, **request)
    except PipeSchedError as error:
        assert "nothing to plan" in str(error)
        return
    for proposal in made.proposals:
        check(proposal)
    assert all(proposal.fits for proposal in made.fitting)
    assert not any(proposal.fits for proposal in made.missing)
    steps = [proposal.expected_s for proposal in made.fitting[1:]]
    assert steps == sorted(steps)
    missing = [proposal.missing_bytes for proposal in made.missing]
    assert missing == sorted(missing)
    assert made.why()


# The search equals trying everything


FEW = ["1f1b", "zb-h1", "VPP", "zb-v", "dualpipe", "hanayo"]


@pytest.mark.parametrize(
    "limits",
    [
        {"memory": "30GiB"},
        {"global_batch": 12, "sharding": ["none", "optimizer", "full"], "pp": [2, 4]},
        {"schedules": ["dualpipe", "zb-v", "VPP"], "transport": "delay"},
    ],
)
def test_nothing_better_is_pruned(limits: dict[str, Any]) -> None:
    arguments = {"gpus": 8, "global_batch": 8, "schedules": FEW, "chunks": [2, 4], **limits}
    request = Request(model="llama3-8b", system="dgx-h100", **arguments)
    everything = Search(Space(request), None, None)
    candidates = everything.space.candidates()
    outcomes = everything.evaluate(candidates)
    fitting = [o for o in outcomes if o.peak_bytes <= request.usable_bytes]
    best = sorted((o.step_ps, o.peak_bytes) for o in fitting)
    found = Search(Space(request), None, None).run(10, 3)
    assert len({o.candidate.row for o in found.fitting}) >= min(10, len(best))
    assert [(o.step_ps, o.peak_bytes) for o in found.fitting] == best[: len(found.fitting)]
    # Moves of layers improve the result of the search.
    planned = plan("llama3-8b", "dgx-h100", **arguments).fitting
    assert min(p.step_s for p in planned) <= best[0][0] / 1e12
    assert found.counts.evaluated <= len(candidates)
    fastest = min(step for step, _ in best)
    faster = (o for o in outcomes if o not in fitting and o.step_ps < fastest)
    nearest = min((o.peak_bytes for o in faster), default=None)
    assert bool(found.missing) == (nearest is not None)


@pytest.mark.parametrize(
    ("model", "system", "gpus", "batch"),
    [
        ("llama3-8b", "dgx-h100", 16, 64),
        ("llama3-70b", "dgx-h100", 32, 64),
        ("mixtral-8x7b", "dgx-a100", 16, 16),
        ("paper-gpt", "baseline", 8, 24),
    ],
)
def test_rounds_make_no_difference(
    model: str, system: str, gpus: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small rounds evaluate less than one round of all, and find the same."""
    arguments: dict[str, Any] = {"gpus": gpus, "global_batch": batch}
    arguments |= {"schedules": FEW, "chunks": [2, 4]}
    request = Request(model=model, system=system, **arguments)
    found = []
    for cells in (10**9, 50_000, 2_000):
        monkeypatch.setattr("pipesched.planning.search.search.FIRST_CELLS", cells)
        monkeypatch.setattr("pipesched.planning.search.search.MOST_CELLS", cells)
        found.append(Search(Space(request), None, None).run(5, 3))
    whole, *others = found
    assert whole.fitting or whole.missing
    for each in others:
        assert each.fitting == whole.fitting
        assert bool(each.missing) == bool(whole.missing)
        assert each.counts.evaluated <= whole.counts.evaluated


def test_most_is_pruned() -> None:
    counts = plan("llama3-70b", "dgx-h100", gpus=64, global_batch=128).counts
    assert 0 < counts.left_out < counts.shapes
    assert counts.too_large
    assert counts.evaluated < counts.considered / 2


def test_bounds_hold() -> None:
    request = Request(
        model="llama3-8b",
        system="dgx-h100",
        gpus=8,
        global_batch=12,
        chunks=[2],
        recompute=["none", "full"],
    )
    search = Search(Space(request), None, None)
    candidates = search.space.candidates()
    random = Random(5)
    outcomes = search.evaluate(random.sample(candidates, 2000))
    assert len(outcomes) > 1000
    limits = search.limits
    assert limits.bases
    of_shapes = {shape: step for step, shape in limits.expand(base for _, base in limits.bases)}
    for outcome in outcomes:
        shape, step = outcome.candidate.shape, float(outcome.step_ps)
        for limit in (math.inf, step):
            least = limits.of_candidate(outcome.candidate, limit)
            assert least.step_ps <= step
            assert least.peak_bytes <= outcome.peak_bytes
            assert limits.peak(shape, limit) <= outcome.peak_bytes
        assert shape not in of_shapes or of_shapes[shape] <= step
        # Bounds from other numbers of microbatches and other sharding hold, too.
        assert limits.alive(outcome.candidate) <= outcome.peak_bytes


@pytest.mark.parametrize(
    ("slower", "given"),
    [
        (1, {"rates": "data-sheet", "expert_dispatch": "all-to-all", "tensor_overlap": "none"}),
        (8, {}),
    ],
)
def test_bounds_of_experts_hold(slower: int, given: dict[str, Any]) -> None:
    """Pairs of cells hide exchanges, also exchanges longer than the compute."""
    system = {k: v for k, v in pipesched.systems()["dgx-h100"].items() if k != "aliases"}
    rate = system["network"]["bandwidth_gb_per_s"] / slower
    request = Request(
        model="qwen3-30b-a3b",
        system=system | {"network": system["network"] | {"bandwidth_gb_per_s": rate}},
        gpus=32,
        global_batch=64,
        sequence=1024,
        schedules=["1f1b", "dualpipe", "dualpipe-v"],
        pp=[2, 4],
        expert=[1, 8, 16],
        context=[1],
        microbatch_size=[1, 2, 4],
        recompute=["none", "full"],
        **given,
    )
    search = Search(Space(request), None, None)
    candidates = search.space.candidates()
    outcomes = search.evaluate(Random(7).sample(candidates, min(200, len(candidates))))
    limits = search.limits
    of_shapes = {shape: step for step, shape in limits.expand(base for _, base in limits.bases)}
    tighter = hidden_by_pairs = 0
    for outcome in outcomes:
        shape, step = outcome.candidate.shape, float(outcome.step_ps)
        least = limits.of_candidate(outcome.candidate, step)
        assert least.step_ps <= step and of_shapes.get(shape, 0.0) <= step
        base, size = base_of(shape), shape.microbatch_size
        hidden = limits.hidden(base, size)
        # A host that is slower than the device hides exchanges by itself.
        assert 0 <= hidden < limits.time(base, size) and (hidden == 0 or base.expert > 1)
        hidden_by_pairs += hidden > 0
        if outcome.candidate.schedule.startswith("dualpipe"):
            tighter += least.step_ps > max(limits.step_on(shape), 0.9 * step)
    assert len(outcomes) > 50 and tighter > 0 and hidden_by_pairs > 0
    schedules = {outcome.candidate.schedule for outcome in outcomes}
    assert {"dualpipe", "dualpipe-v"} & schedules


def test_it_is_the_same_every_time() -> None:
    first, second = small(threads=1), small(threads=4)
    assert json.dumps(first.to_dicts()) == json.dumps(second.to_dicts())
    assert first.why() == second.why()


# Choices


def test_limits_are_kept() -> None:
    limits = {
        "tensor": [2],
        "pp": [4],
        "microbatch_size": [2],
        "recompute": ["selective"],
        "chunks": [2, 4],
        "schedules": ["VPP", "LoopedBFS"],
        "context": [1],
    }
    for proposal in small(**limits).fitting:
        shape = proposal.shape
        assert (shape.tensor, shape.pipeline, shape.data) == (2, 4, 2)
        assert (shape.microbatch_size, shape.recompute) == (2, "selective")
        assert proposal.candidate.chunks in (2, 4)
        assert proposal.schedule in ("interleaved-1f1b", "looped-bfs")


def test_layers_that_do_not_divide() -> None:
    """32 layers and a head on six workers: the last worker gets fewer layers."""
    given: dict[str, Any] = {"gpus": 24, "global_batch": 24, "pp": [6], "context": [1]}
    best = small(**given, tensor=[4], schedules=["1f1b"]).fitting[0]
    (held,) = best.candidate.layers
    assert sum(held) == 32
    assert max(held) - min(held) <= 3
    assert held[-1] == min(held)
    layout = flags(best.launchers().megatron.lines or ())["--pipeline-model-parallel-layout"]
    assert layout.startswith("Et*") and layout.endswith("L")
    modules = flags(best.launchers().torchtitan.lines or ())[
        "--parallelism.module_fqns_per_model_part"
    ]
    parts = [part.split(",") for part in modules.split(" ")]
    assert [sum(name.startswith("layers.") for name in part) for part in parts] == list(held)
    assert parts[0][0] == "tok_embeddings" and parts[-1][-2:] == ["norm", "lm_head"]


def test_more_memory_is_never_worse() -> None:
    steps = [small(memory=memory).fitting[:1] for memory in ("20GiB", "40GiB", "80GiB")]
    times = [made[0].step_s if made else float("inf") for made in steps]
    assert times == sorted(times, reverse=True)
    kept = small(memory="80GiB", reserve="50%").fitting[0]
    assert kept.step_s == small(memory="40GiB", reserve=0).fitting[0].step_s


def test_data_parallelism_is_paid_for() -> None:
    """Replicas reduce gradients, so the same batch takes longer on each of them."""
    limits = {"tensor": [8], "pp": [1], "microbatch_size": [1], "recompute": ["none"]}
    alone = small(gpus=8, global_batch=8, memory="800GB", **limits).fitting[0]
    sharded = {**limits, "sharding": ["optimizer"]}
    both = small(gpus=16, global_batch=16, memory="800GB", **sharded).fitting[0]
    assert both.shape.microbatches == alone.shape.microbatches
    assert both.step_s > alone.step_s
    assert both.peak_bytes < alone.peak_bytes  # the optimizer state is divided
    unsharded = small(
        gpus=16, global_batch=16, memory="800GB", sharding=["none"], **limits
    ).fitting[0]
    assert unsharded.peak_bytes >= alone.peak_bytes


# Plans that do not fit


def test_what_helps_does() -> None:
    made = plan("llama3-70b", "dgx-h100", gpus=16, global_batch=32)
    assert made.missing
    for proposal in made.missing:
        assert proposal.missing_bytes > 0
        assert proposal.peak_cell is not None
        for change in proposal.help:
            assert change.fits == (change.missing_bytes == 0)
            assert change.peak_bytes < proposal.peak_bytes
        for change in proposal.help:
            if match := re.fullmatch(r"recompute (\w+)", change.change):
                check_help(proposal, change.step_s, recompute=[match[1]])


def check_help(proposal: Proposal, step_s: float, **changes: Any) -> None:
    """A plan that is restricted to the change has the same step time."""
    shape = proposal.shape
    limits: dict[str, Any] = {
        "tensor": [shape.tensor],
        "pp": [shape.pipeline],
        "microbatch_size": [shape.microbatch_size],
        "recompute": [shape.recompute],
        "schedules": [proposal.schedule],
        "memory": "9TB",
        **changes,
    }
    again = plan("llama3-70b", "dgx-h100", gpus=16, global_batch=32, top=100, **limits)
    assert step_s in [other.step_s for other in again.fitting]


def test_nothing_fits() -> None:
    made = plan("llama3-70b", "dgx-h100", gpus=8, global_batch=16)
    assert not made.fitting and len(made.missing) == 3
    assert made.why()[0].startswith("nothing fits into 69.5 GiB")
    more = [h for p in made.missing for h in p.help if "accelerators" in h.change]
    assert more and any(help.fits for help in more)


# The command


def test_command_is_the_library(capsys: Capture) -> None:
    rows = rows_of(capsys, "plan", *SMALL)
    assert rows == json.loads(json.dumps(small().to_dicts()))
    assert [row["fits"] for row in rows] == sorted((row["fits"] for row in rows), reverse=True)
    best = rows[0]
    assert best["expected_s"] == pytest.approx(best["step_s"] * best["band"]["middle_ratio"])
    tokens = 32 * 8192 / best["expected_s"] / 16
    assert best["tokens_per_s_per_gpu"] == pytest.approx(tokens)
    flops = json.loads(pipesched.Costs(model="llama3-8b")._raw.model())["flops_per_token"]
    assert best["mfu"] == pytest.approx(tokens * flops / 989.4e12)
    keys = {"torchtitan", "megatron", "reasons", "notes", "versions"}
    assert set(best["launcher"]) == keys


def test_json_alone_is_on_standard_output(capsys: Capture) -> None:
    assert main(["plan", *SMALL, "--top", "2", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("assumed: ")
    assert all(line.startswith(("assumed: ", "band")) for line in printed.err.splitlines())
    assert len([row for row in json.loads(printed.out) if row["fits"]]) == 2


def test_text_says_why(capsys: Capture) -> None:
    text = text_of(capsys, "plan", *SMALL, "--top", "3", "--explain")
    assert "- best: " in text
    listed = len(plan("llama3-8b", "dgx-h100", gpus=16, global_batch=32, top=3).proposals)
    assert text.count("is the fullest") == 1 + listed
    assert "for torchtitan 0.3.0:" in text


def test_saved_files(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "plans"
    page = tmp_path / "plan.html"
    arguments = ["plan", *SMALL, "--pp", "4", "--schedules", "zb-h1,1f1b", "--top", "2"]
    arguments += ["--cp", "1", "--sharding", "optimizer"]
    rows = rows_of(capsys, *arguments, "--save", str(folder), "--draw", str(page))
    for row in (row for row in rows if row["fits"]):
        schedule = pipesched.Schedule.from_file(folder / f"{row['name']}.mlir")
        report = schedule.simulate()
        assert report.execution.makespan_ps / 1e12 == row["step_s"]
        assert (folder / f"{row['name']}.svg").read_text().startswith("<?xml")
        lines = row["launcher"]["torchtitan"]
        named = [line.split()[1] for line in lines if "schedule_csv" in line]
        assert bool(named) == (row["schedule"] == "zb-h1")
        for file in named:
            again = pipesched.Schedule.from_csv(Path(file).read_text())
            assert again.microbatches == row["microbatches"]
    assert 'class="timelines"' in page.read_text()


def test_saved_pictures_of_many_cells(tmp_path: Path, capsys: Capture) -> None:
    """Every proposal has its picture, also above 20,000 cells."""
    arguments = ["plan", "--model", "toy", "--system", "toy", "--gpus", "4", "--pp", "4"]
    batch = ["--global-batch", "4096", "--microbatch-size", "1", "--schedules", "1f1b"]
    rows = rows_of(capsys, *arguments, *batch, "--top", "1", "--save", str(tmp_path))
    assert rows[0]["microbatches"] * 4 * 2 > 20_000
    assert (tmp_path / f"{rows[0]['name']}.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("extra", [[], ["--precision", "fp8"], ["--sharding", "full"]])
def test_passes(extra: list[str], capsys: Capture) -> None:
    arguments = ["plan", *SMALL, "--top", "3", *extra]
    rows = rows_of(capsys, *arguments)
    printed = run_passes(capsys, *arguments)
    reports = [json.loads(text)[0] for text in re.findall(r"(?ms)^\[\n.*?^\]$", printed)]
    assert [r["execution"]["makespan_ps"] / 1e12 for r in reports] == [r["step_s"] for r in rows]


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"--gpus": "9"}, "9 accelerators are no whole number of nodes of 8, and not equally"),
        ({"--global-batch": "3", "--pp": "1", "--cp": "1"}, "cannot be dealt to"),
        ({"--tp": "3"}, "tensor 3 does not divide 16 accelerators"),
        ({"--tp": "16", "--for": "torchtitan"}, "cannot divide 8 key-value heads by tensor 16"),
        ({"--pp": "3"}, "pp 3 and workers of "),
        ({"--microbatch-size": "5"}, "microbatches of 5 do not divide"),
        ({"--model": "llama3-7b"}, "the closest is"),
        ({"--system": "dgx-h101"}, "the closest is"),
        ({"--schedules": "1f1bb"}, "the closest is '1f1b'"),
        ({"--memory": "80 gigs"}, "memory is a number of bytes, such as 80GiB"),
        ({"--reserve": "100%"}, "leaves nothing"),
        ({"--vpp": "40", "--schedules": "VPP"}, "32 layers are too few"),
        ({"--gpus": "2097152"}, "gpus is an integer from 1 to"),
    ],
)
def test_mistakes(arguments: dict[str, str], said: str, capsys: Capture) -> None:
    given = dict(zip(SMALL[::2], SMALL[1::2], strict=True))
    line = [word for pair in {**given, **arguments}.items() for word in pair]
    assert said in failure_of(capsys, "plan", *line)


def test_bad_files(tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "model.json"
    broken.write_text('{"hidden": 1,\n  x}')
    line = ["plan", *SMALL[2:], "--model", str(broken)]
    assert re.search(r"model\.json:2:\d+: ", failure_of(capsys, *line))
    model = {k: v for k, v in pipesched.models()["toy"].items() if k != "layers"}
    broken.write_text(json.dumps(model))
    assert "needs the field 'layers'" in failure_of(capsys, *line)
    system: dict[str, Any] = dict(pipesched.systems()["toy"])
    system["accelerators"] = 2
    system.pop("link", None)
    file = tmp_path / "system.json"
    file.write_text(json.dumps(system))
    assert "link" in failure_of(capsys, "plan", *SMALL[:2], *SMALL[4:], "--system", str(file))


def test_nothing_fits_is_an_answer(capsys: Capture) -> None:
    tight = ["plan", *SMALL, "--memory", "1GiB", "--reserve", "0"]
    rows = rows_of(capsys, *tight, status=1)
    assert rows and not any(row["fits"] for row in rows)
    assert all(row["missing_bytes_per_gpu"] == row["peak_bytes_per_gpu"] - 2**30 for row in rows)


# Small parts


def test_bytes() -> None:
    assert bytes_of("memory", "80GB") == 80 * 10**9
    assert bytes_of("memory", "80gib") == 80 * 2**30
    assert bytes_of("memory", 5) == 5
    for wrong in ("", "GiB", "-1", "1e9", "10%", "4 apples"):
        with pytest.raises(PipeSchedError):
            bytes_of("memory", wrong)


@given(st.integers(1, 5000))
def test_divisors(number: int) -> None:
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


# Documentation


def test_documented_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The lines of docs/Planning.md after `$` print the output in the page; `...` marks omitted
    lines.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = (ROOT / "docs" / "Planning.md").read_text().replace("\\\n    >", "")
    text = re.sub(r"(?ms)^```.*?^```$", "", text)  # a search that the clock ends varies
    blocks = "".join(
        line[4:] if line.startswith("    ") else "" if line.strip() else "\n"
        for line in text.splitlines(keepends=True)
    )
    sessions = [session.split("\n", 1) for session in re.split(r"(?m)^\$ ", blocks)[1:]]
    assert len(sessions) >= 2
    for command, printed in sessions:
        _, *arguments = shlex.split(command)
        main(arguments)
        found = [line for line in capsys.readouterr().out.splitlines() if line]
        for expected in (line for line in printed.splitlines() if line):
            assert expected == "..." or expected in found, f"{command}: {expected}"


def test_slices_are_searched_where_they_are_named(capsys: Any) -> None:
    """Long sequences of few microbatches: slices are faster than their family without."""
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "64"]
    line += ["--global-batch", "8", "--sequence", "131072", "--pp", "8", "--cp", "1"]
    line += ["--schedules", "1f1b,seq1f1b", "--set", "slice-cut=work"]
    rows = json.loads(text_of(capsys, *line, "--format", "json"))
    whole = [row for row in rows if row["schedule"] == "1f1b"]
    best = rows[0]
    assert (best["schedule"], best["options"]) == ("seq1f1b", {"slices": best["slices"]})
    assert best["slices"] > 1
    assert all(row["step_s"] > best["step_s"] for row in whole)
    assert f"in {best['slices']} slices" in text_of(capsys, *line)

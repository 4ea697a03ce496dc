"""What if: changes of plans give the same as a simulation of the changed configuration, one at a
time and together, and wrong names and values are refused.
"""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Configuration, Costs, PipeSchedError, sensitivity
from pipesched.command import main
from pipesched.costs.settings import setting, with_settings
from pipesched.results.disturbances import Nodes
from test_command import Capture, failure_of, rows_of, text_of

PLAN = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "64"]
LIMITS = ["--schedules", "1f1b,zb-v", "--pp", "2,4", "--top", "2", "--rates", "data-sheet"]
SMALL = [*PLAN, "--global-batch", "128", *LIMITS]
SIZES = ["--pp", "4", "--microbatches", "16", "--schedules", "1f1b"]
COSTS = ["--model", "llama3-70b", "--system", "dgx-h100", "--global-batch", "16"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The JSON of a plan."""
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    assert main([*SMALL, "--format", "json", "-o", str(file)]) == 0
    return str(file)


def row_of(plan: str, place: int = 0) -> dict[str, Any]:
    rows = json.loads(Path(plan).read_text())
    return dict(rows[place])


def configuration_of(row: dict[str, Any], **changes: Any) -> Configuration:
    """The configuration of a row, made here only from its numbers."""
    degrees = {
        "data_parallel": row["data"],
        "sharding": row["sharding"],
        "context_parallel": row["context"],
        "context_exchange": row["context_exchange"] or "ring",
    }
    held = row["parameter_bytes"]
    options = {
        "model": "llama3-8b",
        "system": "dgx-h100",
        "rates": "data-sheet",
        "accelerators": row["tensor"] * row["context"],
        "microbatch_size": row["microbatch_size"],
        "recompute": row["recompute"],
        "parameter_bytes": (held["weight"], held["gradient"], held["optimizer"]),
        **degrees,
    }
    return Configuration(
        row["schedule"],
        row["pipeline"],
        changes.pop("microbatches", row["microbatches"]),
        row["options"],
        paths=[pipesched.Path(p["workers"], blocks=p["layers"]) for p in row["paths"]],
        optimizer_step="overlapped",
        disturbance=changes.pop("disturbance", ""),
        costs=Costs(**{**options, **changes}),
    )


def step_of(row: dict[str, Any], **changes: Any) -> float:
    return configuration_of(row, **changes).simulate().execution.makespan_ps / 1e12


def halved_network() -> dict[str, Any]:
    system = pipesched.systems()["dgx-h100"]
    system["network"]["bandwidth_gb_per_s"] = 200
    return system


# Rows


def test_first_row_is_the_plan(plan: str, capsys: Capture) -> None:
    for place in (0, 1):
        planned = row_of(plan, place)
        first, same = rows_of(
            capsys, "whatif", plan, "--name", planned["name"], "--transport", "overlap"
        )
        for key in ("step_s", "expected_s", "mfu", "peak_bytes_per_gpu", "fits", "schedule"):
            assert first[key] == pytest.approx(planned[key]), key
        assert first["tokens_per_s"] == pytest.approx(64 * planned["tokens_per_s_per_gpu"])
        assert same["step_ratio"] == 0 and same["why"] == "no difference"
        assert sum(first["parts_s"].values()) == pytest.approx(first["step_s"])


def test_changes_are_simulations(plan: str, capsys: Capture) -> None:
    row = row_of(plan)
    assert row["recompute"] == "none" and row["data"] % 2 == 0
    changed = ["--set", "network.bandwidth=0.5x", "--recompute", "full"]
    changed += ["--disturbance", "worker1=1.5"]
    found = {each["change"]: each for each in rows_of(capsys, "whatif", plan, *changed)}
    slow, system = {"disturbance": "worker1=1.5"}, {"system": halved_network()}
    wanted: dict[str, dict[str, Any]] = {
        "network.bandwidth=0.5x": system,
        "recompute full": {"recompute": "full"},
        "worker 1 x 1.5": slow,
        "all together": {**system, **slow, "recompute": "full"},
    }
    for change, options in wanted.items():
        assert found[change]["step_s"] == pytest.approx(step_of(row, **options)), change
        assert found[change]["step_ratio"] > 0
    assert "communication +" in found["network.bandwidth=0.5x"]["why"]
    assert "activations -" in found["recompute full"]["why"]


def test_lost_node(plan: str, capsys: Capture) -> None:
    """Whole pipelines remain, as many as divide the batch; or it is planned again."""
    row = row_of(plan)
    _, one, none = rows_of(capsys, "whatif", plan, "--lose-node", "0")
    group = row["tensor"] * row["context"] * row["pipeline"]
    fitting = [d for d in range(1, 56 // group + 1) if 128 % (d * row["microbatch_size"]) == 0]
    assert one["gpus"] == 56 and one["data"] == max(fitting)
    assert "there is nothing to plan for 56 accelerators" in none["error"]
    _, kept, again = rows_of(capsys, "whatif", plan, "--lose-node", "0,1,6:7")
    assert kept["gpus"] == again["gpus"] == 32 and kept["data"] == row["data"] // 2
    assert kept["microbatches"] * kept["data"] * kept["microbatch_size"] == 128
    changes = {"data_parallel": kept["data"], "microbatches": kept["microbatches"]}
    assert kept["step_s"] == pytest.approx(step_of(row, **changes))
    limits: dict[str, Any] = {"schedules": ["1f1b", "zb-v"], "pp": [2, 4], "top": 1}
    limits["rates"] = "data-sheet"
    best = pipesched.plan("llama3-8b", "dgx-h100", gpus=32, global_batch=128, **limits)
    assert again["step_s"] == pytest.approx(best.fitting[0].step_s)


def test_offload_frees_memory(tmp_path: Path, capsys: Capture) -> None:
    plan = str(tmp_path / "plan.json")
    only = ["--schedules", "interleaved-zb", "--pp", "2", "--vpp", "8"]
    assert main([*PLAN, "--global-batch", "128", *only, "--format", "json", "-o", plan]) == 0
    first, half, whole, both = rows_of(capsys, "whatif", plan, "--offload", "half") + rows_of(
        capsys, "whatif", plan, "--offload"
    )
    assert first == whole
    assert half["change"] == "offload half" and both["change"] == "offload all"
    assert half["step_s"] >= first["step_s"]
    held = [each["peak_bytes_per_gpu"] for each in (both, half, first)]
    assert held == sorted(held) and held[0] < held[2]


def test_other_shapes(plan: str, capsys: Capture) -> None:
    changed = ["--gpus", "128", "--global-batch", "256", "--tp", "2", "--pp", "4"]
    more = ["--microbatch-size", "2", "--schedule", "gpipe", "--precision", "fp8"]
    _, *rows = rows_of(capsys, "whatif", plan, *changed, *more)
    for each in rows:
        if each["error"]:
            continue
        assert each["tensor"] * each["context"] * each["pipeline"] * each["data"] == each["gpus"]
        batch = each["data"] * each["microbatch_size"] * each["microbatches"]
        assert batch == (256 if each["change"] in ("global batch 256", "all together") else 128)
    together = rows[-1]
    assert together["error"] is None
    names = ("gpus", "tensor", "pipeline", "microbatch_size", "schedule")
    assert [together[name] for name in names] == [128, 2, 4, 2, "gpipe"]


@pytest.mark.parametrize(
    "limits",
    [
        ["--cp", "2", "--set", "context-exchange=gather", "--tp", "2"],
        ["--cp", "2", "--set", "context-exchange=ring", "--tp", "2"],
        ["--tp", "12", "--cp", "1"],
    ],
)
def test_rows_with_divided_sequences(limits: list[str], tmp_path: Path, capsys: Capture) -> None:
    """A row keeps its exchange of keys and values, and its tensor degree, which need not divide
    the accelerators of a node.
    """
    file = str(tmp_path / "plan.json")
    given = ["--model", "gpt3-175b", "--system", "dgx-h100", "--gpus", "96", "--memory", "1TiB"]
    given += ["--global-batch", "96", "--pp", "4", "--schedules", "1f1b", "--top", "1"]
    assert main(["plan", *given, *limits, "--format", "json", "-o", file]) == 0
    planned = row_of(file)
    first, fuller = rows_of(capsys, "whatif", file, "--recompute", "full")
    assert first["step_s"] == pytest.approx(planned["step_s"])
    assert first["peak_bytes_per_gpu"] == planned["peak_bytes_per_gpu"]
    assert not fuller.get("error")


def test_files_of_save(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of `plan --save` name their numbers; a changed system is kept in them, and nowhere
    else.
    """
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "saved"
    changes = ["--set", "network.bandwidth=0.5x", "--save", str(folder)]
    planned = rows_of(capsys, *SMALL, *changes)[0]
    assert [each.name for each in tmp_path.iterdir()] == ["saved"]
    assert "pipesched show" in failure_of(capsys, *SMALL, *changes, "--show-passes", status=2)
    file = folder / f"{planned['name']}.mlir"
    first, _ = rows_of(capsys, "whatif", str(file), "--disturbance", "jitter=5%,seeds=2")
    assert first["step_s"] == pytest.approx(planned["step_s"])
    assert first["step_s"] == pytest.approx(step_of(planned, system=halved_network()))
    numbers = folder / f"{planned['name']}.json"
    over = failure_of(capsys, "whatif", str(file), "--offload", "-o", str(numbers), status=2)
    assert "names the file that is read as PLAN" in over
    numbers.unlink()
    assert "there is no" in failure_of(capsys, "whatif", str(file), "--offload")


def test_text(plan: str, capsys: Capture) -> None:
    table = text_of(capsys, "whatif", plan, "--pp", "3", "--recompute", "full")
    assert "as planned" in table and "why" in table
    row = row_of(plan)
    by = 3 * row["tensor"] * row["context"]
    said = f"not possible: data: 64 accelerators cannot be divided by {by}"
    assert said in " ".join(table.split())
    assert main(["whatif", plan, "--pp", "3"]) == 1
    capsys.readouterr()
    assert main(["whatif", plan, "--microbatch-size", "5"]) == 1
    said = f"{row['global_batch'] // row['data']} sequences of a pipeline cannot be divided by 5"
    assert said in " ".join(capsys.readouterr().out.split())


# Refusals


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("network.bandwith=0.5x", "the closest is 'network.bandwidth_gb_per_s'"),
        ("network=3", "network has several fields: network.bandwidth_gb_per_s"),
        ("network.bandwidth=x0.5", "expected a number such as 200, a factor such as 0.5x"),
        ("network.bandwidth=fast", "expected a number, found 'fast'"),
        ("network.bandwidth=1e999", "the number is too large"),
        ("network.bandwidth", "expected a field and a value"),
        ("=3", "expected a field and a value"),
        ("model.layer=3", "the closest is 'layers'"),
        ("matrix.efficiency_by_gflop=0.5", "is a curve; scale it by a factor"),
        ("memory.latency=2x", "this system does not say its memory.latency_us"),
        ("spine.latency=2", "this system has no spine"),
        ("link.efficiency=7", "expected an efficiency of at most 1, found 7"),
        ("model.biases=1", "expected true or false, found 1"),
        ("name=3", "has no field 'name'"),
    ],
)
def test_wrong_settings(change: str, wanted: str, capsys: Capture) -> None:
    for verb in (["simulate", *SIZES, *COSTS], [*SMALL]):
        assert wanted in failure_of(capsys, *verb, "--set", change)


def test_wrong_plans(plan: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "wrong.json"
    row = row_of(plan)
    wrong: Any
    for wrong in (
        [],
        {},
        [3],
        [{"name": "x"}],
        [{**row, "paths": 3}],
        [{**row, "tensor": 3}],
        [{**row, "request": {"nothing": 1}}],
        [{**row, "request": None}],
    ):
        file.write_text(json.dumps(wrong))
        failure_of(capsys, "whatif", str(file), "--offload")
    file.write_text("[{")
    assert "expected the JSON of a plan" in failure_of(capsys, "whatif", str(file), "--offload")
    assert "closest is" in failure_of(
        capsys, "whatif", plan, "--name", row["name"].upper().lower()[:-1] + "x", "--offload"
    )
    assert "say what changes" in failure_of(capsys, "whatif", plan, status=2)
    twice = ["--set", "link.latency=1", "--set", "link.latency=2"]
    assert "given twice" in failure_of(capsys, "whatif", plan, *twice)


def test_wrong_nodes(plan: str, capsys: Capture) -> None:
    assert main(["whatif", plan, "--disturbance", "node8=1.1", "--lose-node", "9"]) == 1
    table = " ".join(capsys.readouterr().out.split())
    assert "there is no node 8: 64 accelerators, 8 on a node, are on nodes 0 to 7" in table
    assert "there is no node 9 to lose; nodes are 0 to 7" in table


# Settings and nodes in other verbs


def test_settings_in_all_verbs(capsys: Capture, tmp_path: Path) -> None:
    """`--set` has the same effect as a file with the changed field."""
    file = tmp_path / "slow.json"
    file.write_text(json.dumps(halved_network()))
    point = ["--schedule", "1f1b", "--pp", "4", "--microbatches", "16"]
    for verb in (["simulate", *SIZES], ["simulate", *point]):
        changed = [*COSTS, "--set", "network.bandwidth=0.5x"]
        of_file = [str(file) if word == "dgx-h100" else word for word in COSTS]
        rows, wanted = rows_of(capsys, *verb, *changed), rows_of(capsys, *verb, *of_file)
        plain = json.loads(text_of(capsys, *verb, *COSTS, "--format", "json"))
        assert rows == wanted != plain
        assert "changed: network.bandwidth_gb_per_s 400 to 200" in text_of(capsys, *verb, *changed)
        assert "pipesched show" in failure_of(capsys, *verb, *changed, "--show-passes", status=2)


def test_settings_of_files_with_an_end(capsys: Capture, tmp_path: Path) -> None:
    """Passes that end a step read the changed system, too."""
    file = tmp_path / "rows.mlir"
    pipesched.generate("1f1b", workers=4, microbatches=16).save(file)
    step = [*COSTS, "--optimizer-step", "exposed"]
    (plain,) = rows_of(capsys, "simulate", str(file), *step)
    (slower,) = rows_of(capsys, "simulate", str(file), *step, "--set", "memory.bandwidth=0.5x")
    assert slower["step_s"] > plain["step_s"]


def test_fields() -> None:
    """Units may be left out, curves and lists are scaled, absent fields are added."""
    texts = ["network.bandwidth=-10%", "matrix.efficiency_by_gflop=0.5x", "memory.latency=1"]
    texts.append("attention.forward_tflops_by_tokens=2x")
    old = pipesched.systems()["dgx-h100"]
    new: Any = with_settings("system", "dgx-h100", map(setting, texts))
    assert new["network"]["bandwidth_gb_per_s"] == 360
    curve = old["matrix"]["efficiency_by_gflop"]
    assert new["matrix"]["efficiency_by_gflop"] == [[x, y / 2] for x, y in curve]
    assert new["memory"]["latency_us"] == 1
    for one, other in zip(old["attention"], new["attention"], strict=True):
        doubled = [[x, 2 * y] for x, y in one["forward_tflops_by_tokens"]]
        assert other["forward_tflops_by_tokens"] == doubled
    assert with_settings("model", "llama3-8b", []) == "llama3-8b"


def test_slow_nodes_by_ranks() -> None:
    """The workers of nodes, against the definition of ranks, for many layouts."""
    for each, workers, pipelines, node in product((1, 2, 3, 8), (1, 3, 4), (1, 2, 6), (4, 8)):
        for order in ("data", "pipeline"):
            nodes = Nodes(node, each, workers, pipelines, order)
            ranks: dict[tuple[int, int], list[int]] = {}
            numbers = iter(range(each * workers * pipelines))
            if order == "data":
                places = [(p, w) for w in range(workers) for p in range(pipelines)]
            else:
                places = [(p, w) for p in range(pipelines) for w in range(workers)]
            for place in places:
                ranks[place] = [next(numbers) for _ in range(each)]
            for number in range(nodes.count):
                on = {
                    p: {
                        w
                        for w in range(workers)
                        if any(rank // node == number for rank in ranks[p, w])
                    }
                    for p in range(pipelines)
                }
                assert nodes.on(number) == {p: some for p, some in on.items() if some}
            with pytest.raises(PipeSchedError, match="there is no node"):
                nodes.on(nodes.count)


def test_slowest_pipeline_has_the_step() -> None:
    """With two pipelines on the nodes of another order the slower one counts."""
    costs = Costs(
        model="llama3-8b",
        system="h100-sxm",
        accelerators=1,
        data_parallel=2,
        rank_order="pipeline",
        microbatch_size=1,
    )
    point = Configuration("1f1b", 6, 12, costs=costs)
    found = sensitivity(point, slow_nodes={0: 2})[0]
    slow = [",".join(f"worker{w}=2" for w in some) for some in (range(6), range(2))]
    steps = [replace(point, disturbance=text).simulate().execution.makespan_ps for text in slow]
    assert found.disturbed_ps == (max(steps),)
    with pytest.raises(PipeSchedError, match="a slow node is one of a system"):
        sensitivity(Configuration("1f1b", 2, 4), slow_nodes={0: 2})


def test_slow_nodes_and_workers_of_plans(capsys: Capture) -> None:
    rows = rows_of(capsys, *SMALL, "--disturbance", "node0=1.5", "--disturbance", "worker1=1.2")
    for row in rows:
        found = {each["disturbance"]: each for each in row["sensitivity"]}
        assert set(found) == {"node 0 x 1.5", "worker 1 x 1.2", "all together"}
        where = Nodes(8, row["tensor"] * row["context"], row["pipeline"], row["data"], "data").on(0)
        slow = ",".join(f"worker{n}=1.5" for n in sorted(set().union(*where.values())))
        wanted = step_of(row, disturbance=slow)
        assert found["node 0 x 1.5"]["disturbed_step_s"] == pytest.approx(wanted)


def test_slow_nodes_need_a_system(capsys: Capture) -> None:
    times = ["--times", "F=1ms,B=2ms,comm=1us", "--disturbance", "node0=1.5"]
    assert "a node is one of --system" in failure_of(capsys, "simulate", *SIZES, *times, status=2)


def test_another_number_of_accelerators_shares_the_experts(tmp_path: Path, capsys: Capture) -> None:
    file = str(tmp_path / "plan.json")
    sizes = ["--gpus", "32", "--global-batch", "64", "--cp", "1", "--tp", "1", "--ep", "8"]
    line = ["plan", "--model", "qwen3-30b-a3b", "--system", "dgx-h100", *sizes, "--top", "1"]
    line += ["--schedules", "1f1b", "--pp", "2"]
    assert main([*line, "--format", "json", "-o", file]) == 0
    planned, fewer = rows_of(capsys, "whatif", file, "--ep", "4")
    assert (planned["expert"], fewer["expert"], fewer["data"]) == (8, 4, planned["data"])
    assert fewer["peak_bytes_per_gpu"] > planned["peak_bytes_per_gpu"]
    wrong = {"3": "128 experts cannot be divided by 3", "32": "16 accelerators of a stage cannot"}
    for degree, said in wrong.items():
        assert main(["whatif", file, "--ep", degree, "--format", "json"]) == 1
        assert said in json.loads(capsys.readouterr().out)[1]["error"]

"""Launch scripts run: with a torchrun that only notes what it gets, and with the configuration of
Megatron-Bridge as plain objects.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Plan, Proposal
from pipesched.command import main
from pipesched.planning._launchers import Launcher
from pipesched.planning._scripts import _assignments, model_arguments

TORCHRUN = f"""#!{sys.executable}
import json, os, runpy, sys
script = sys.argv[sys.argv.index("--master-port") + 2]
if script.endswith(".py") and "BRIDGE" in os.environ:
    sys.argv = sys.argv[sys.argv.index(script):]
    runpy.run_path(script, run_name="__main__")
else:
    json.dump([sys.argv[1:], dict(os.environ)], open(os.environ["NOTED"], "w"))
"""

# A recipe has a division of its own, of which nothing may stay.
RECIPE = """
import json, os
class Config:
    def __getattr__(self, name):
        self.__dict__[name] = made = Config()
        return made
def recipe():
    made = Config()
    made.model.virtual_pipeline_model_parallel_size = 5
    made.model.pipeline_model_parallel_layout = "Et|tL"
    made.model.context_parallel_size = 16
    made.model.sequence_parallel = True
    made.model.recompute_granularity = "full"
    made.ddp.use_distributed_optimizer = made.optimizer.use_distributed_optimizer = True
    return made
def pretrain(cfg, forward_step):
    assert forward_step == "step"
    json.dump(cfg, open(os.environ["NOTED"], "w"), default=vars)
"""


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """An environment with the torchrun above, and with packages that stand for Megatron-Bridge."""
    folder = tmp_path / "tools"
    for package in ("megatron", "megatron/bridge", "megatron/bridge/training"):
        (folder / package).mkdir(parents=True, exist_ok=True)
        (folder / package / "__init__.py").touch()
    training = folder / "megatron" / "bridge" / "training"
    (training / "gpt_step.py").write_text("forward_step = 'step'\n")
    (training / "pretrain.py").write_text(RECIPE)
    (folder / "torchrun").write_text(TORCHRUN)
    (folder / "torchrun").chmod(0o755)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "NOTED": str(tmp_path / "noted.json"),
        "TMPDIR": str(tmp_path),
    }


def run(script: Path, environment: dict[str, str], *more: str, status: int = 0) -> Any:
    """What torchrun got from a script; its complaint if it stops before."""
    done = subprocess.run(
        [str(script), *more], env=environment, capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else json.loads(Path(environment["NOTED"]).read_text())


def planned(**limits: Any) -> Plan:
    return pipesched.plan(
        limits.pop("model", "llama3-8b"), "dgx-h100", gpus=16, global_batch=32, **limits
    )


def written(proposal: Proposal, folder: Path) -> dict[str, Path]:
    found = {}
    for name, text in proposal.scripts().items():
        found[name] = folder / f"{proposal.name}.{name}.sh"
        found[name].write_text(text)
        found[name].chmod(0o755)
    return found


def words(launcher: Launcher) -> list[str]:
    assert launcher.lines is not None
    return [word for line in launcher.lines for word in shlex.split(line)]


WHERE = ["--nnodes", "2", "--nproc-per-node", "8", "--node-rank", "0"]
WHERE += ["--master-addr", "localhost", "--master-port", "29500"]


def check_torchtitan(proposal: Proposal, script: Path, tools: dict[str, str]) -> None:
    got, environment = run(script, tools, "--training.steps", "3")
    folder = str(script.parent.resolve())
    *flags, last = words(proposal.launchers(folder).torchtitan)
    start = [*WHERE, "-m", "torchtitan.train", "--module", "llama3", "--config", "llama3_8b"]
    assert got == [*start, *flags, "--training.steps", "3", last]
    assert environment["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


def check_megatron(proposal: Proposal, script: Path, tools: dict[str, str]) -> None:
    assert "the folder of Megatron-LM" in run(script, tools, status=1)
    got, environment = run(script, {**tools, "MEGATRON": "/a b"}, "--save", "x")
    assert got[: len(WHERE) + 1] == [*WHERE, "/a b/pretrain_gpt.py"]
    own = words(proposal.launchers().megatron)
    begin = got.index(own[0])
    assert got[begin : begin + len(own)] == own
    assert {"--num-layers", "--swiglu", "--mock-data", "--vocab-size"} <= set(got)
    assert got[-2:] == ["--save", "x"]
    is_fsdp = "--use-megatron-fsdp" in own
    assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == ("8" if is_fsdp else "1")


def check_bridge(proposal: Proposal, script: Path, tools: dict[str, str]) -> None:
    recipe = "megatron.bridge.training.pretrain:recipe"
    cfg = run(script, {**tools, "BRIDGE": "1", "RECIPE": recipe})
    shape = proposal.shape
    assert cfg["model"]["tensor_model_parallel_size"] == shape.tensor
    assert cfg["model"]["pipeline_model_parallel_size"] == shape.pipeline
    assert cfg["train"]["micro_batch_size"] == shape.microbatch_size
    assert cfg["train"]["global_batch_size"] == proposal.request.global_batch
    assert cfg["dataset"]["sequence_length"] == cfg["model"]["seq_length"] == 8192
    assert (cfg["model"]["recompute_granularity"] or "none") == shape.recompute
    assert cfg["model"]["context_parallel_size"] == shape.context
    assert cfg["model"]["sequence_parallel"] == (shape.tensor > 1)
    is_even, chunks = proposal.candidate.is_even, proposal.candidate.chunks
    parts = cfg["model"]["virtual_pipeline_model_parallel_size"]
    assert parts == (chunks if chunks > 1 and is_even else None)
    assert (cfg["model"]["pipeline_model_parallel_layout"] is None) == is_even
    assert cfg["model"]["overlap_p2p_comm"] == (chunks > 1)
    is_sharded = shape.sharding != "none"
    assert cfg["ddp"]["use_distributed_optimizer"] == is_sharded
    assert cfg["optimizer"]["use_distributed_optimizer"] == is_sharded
    assert cfg["comm_overlap"] is None
    assert cfg["mixed_precision"] == "bf16_mixed"
    left = [each.name for each in Path(tools["TMPDIR"]).glob("*.py")]
    assert left == []  # the code is removed


def test_scripts_run(tmp_path: Path, tools: dict[str, str]) -> None:
    """Of all kinds of proposals each script starts what the lines say."""
    limits: list[dict[str, Any]] = [
        {"schedules": ["1f1b", "VPP", "zb-v", "zb-h1"], "stages": [2, 4]},
        {"launcher": "megatron", "sharding": ["none", "full"], "tensor": [1, 2]},
        {"launcher": "torchtitan", "recompute": ["full"]},
        {"schedules": ["1f1b"], "context": [2], "context_exchange": "gather"},
    ]
    checks = {"torchtitan": check_torchtitan, "megatron": check_megatron, "bridge": check_bridge}
    seen: dict[str, int] = {}
    for limit in limits:
        made = planned(**limit, top=4)
        for proposal in made.fitting:
            launchers = proposal.launchers()
            scripts = written(proposal, tmp_path)
            wanted = limit.get("launcher")
            for name in ("torchtitan", "megatron"):
                is_made = getattr(launchers, name).lines and wanted in (None, name)
                assert (name in scripts) == bool(is_made)
            for name, script in scripts.items():
                checks[name](proposal, script, tools)
                seen[name] = seen.get(name, 0) + 1
    assert seen.keys() == checks.keys() and all(count > 2 for count in seen.values())


def test_wrong_number_of_accelerators(tmp_path: Path, tools: dict[str, str]) -> None:
    best = planned(schedules=["1f1b"], stages=[2]).fitting[0]
    for script in written(best, tmp_path).values():
        environment = {**tools, "NNODES": "3", "MEGATRON": "x", "RECIPE": "x"}
        said = run(script, environment, status=2)
        assert said == "the plan is for 16 accelerators, not 3 x 8\n"


def test_models_that_are_not_known(tmp_path: Path, tools: dict[str, str]) -> None:
    """What a script cannot know it asks for."""
    usual: dict[str, Any] = {"sharding": ["optimizer"], "context": [1]}
    made = planned(model="mistral-7b", schedules=["1f1b"], stages=[2], **usual)
    scripts = written(made.fitting[0], tmp_path)
    assert "MODEL_ARGS" in run(scripts["megatron"], {**tools, "MEGATRON": "x"}, status=1)
    assert "MODULE" in run(scripts["torchtitan"], tools, status=1)
    assert "RECIPE" in run(scripts["bridge"], tools, status=1)
    given = {**tools, "MEGATRON": "x", "MODEL_ARGS": "--num-layers 32"}
    assert "--num-layers" in run(scripts["megatron"], given)[0]


def test_arguments_of_models() -> None:
    """The arguments have the sizes of the description."""
    fields = pipesched.models()["qwen3-30b-a3b"]
    made = model_arguments(fields)
    assert made is not None
    found = dict((line.split() + [""])[:2] for line in made)
    assert found["--num-experts"] == "128" and found["--moe-router-topk"] == "8"
    assert found["--num-query-groups"] == "4" and "--qk-layernorm" in found
    gpt = model_arguments(pipesched.models()["gpt3-175b"])
    assert gpt is not None and "--position-embedding-type learned_absolute" in gpt
    assert "--swiglu" not in gpt and "--disable-bias-linear" not in gpt
    for name in ("mistral-7b", "deepseek-v3"):
        assert model_arguments(pipesched.models()[name]) is None
    assert model_arguments({"hidden_size": 4}) is None
    assert _assignments(["--bf16", "--fp8-format hybrid"]) is None


def test_saved(tmp_path: Path, tools: dict[str, str]) -> None:
    """`--save` writes a script for each launcher and row, which finds its CSV file."""
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16"]
    line += ["--global-batch", "32", "--schedules", "zb-h1,1f1b", "--workers", "2", "--top", "20"]
    folder = tmp_path / "a b"
    assert main([*line, "--save", str(folder), "-o", str(tmp_path / "out.txt")]) == 0
    names = sorted(each.name for each in folder.glob("*.sh"))
    assert any("1f1b.megatron" in name for name in names)
    assert any("1f1b.bridge" in name for name in names)
    with_csv = next(folder.glob("*-zb-h1.csv"))
    got, _ = run(with_csv.with_suffix(".torchtitan.sh"), tools)
    assert got[got.index("--parallelism.pipeline_parallel_schedule_csv") + 1] == str(with_csv)


def test_torchtitan_pipelines_no_tied_head() -> None:
    """torchtitan refuses to train such models in a pipeline: "Weight tying is not supported with
    Pipeline Parallel."
    """
    run: dict[str, Any] = {"gpus": 8, "global_batch": 16}
    made = pipesched.plan("qwen3-4b", "dgx-h100", launcher="torchtitan", **run)
    assert made.fitting and {each.shape.pipeline for each in made.fitting} == {1}
    with pytest.raises(pipesched.PipeSchedError, match="no pipeline for a head that is the embedd"):
        pipesched.plan("qwen3-4b", "dgx-h100", launcher="torchtitan", stages=[2, 4], **run)
    free = pipesched.plan("qwen3-4b", "dgx-h100", schedules=["1f1b"], stages=[2], **run)
    launchers = free.fitting[0].launchers()
    assert "embedding" in (launchers.torchtitan.reason or "") and launchers.megatron.lines
    whole = pipesched.plan("qwen3-8b", "dgx-h100", launcher="torchtitan", stages=[2], **run)
    assert whole.fitting

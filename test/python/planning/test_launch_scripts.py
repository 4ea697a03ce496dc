"""Launch scripts run: with a torchrun that only notes its arguments, and with the configuration of
Megatron-Bridge as plain objects.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Plan, Proposal
from pipesched.command import main
from pipesched.planning.launch.launchers import Launcher
from pipesched.planning.launch.scripts import _assignments, model_arguments, read_config

TORCHRUN = f"""#!{sys.executable}
import json, os, runpy, sys
script = sys.argv[sys.argv.index("--master-port") + 2]
if script.endswith(".py") and "BRIDGE" in os.environ:
    sys.argv = sys.argv[sys.argv.index(script):]
    runpy.run_path(script, run_name="__main__")
else:
    json.dump([sys.argv[1:], dict(os.environ)], open(os.environ["NOTED"], "w"))
"""

OVERLAP = "--overlap-moe-expert-parallel-comm"

# A recipe has a separate division, all of which has to be replaced.
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
    """An environment with the torchrun above, and with packages in place of Megatron-Bridge."""
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
    """The arguments of torchrun from a script; its complaint if it stops before."""
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
    is_fsdp, overlaps = (f in own for f in ("--use-megatron-fsdp", OVERLAP))
    wanted = "32" if overlaps else "8" if is_fsdp else "1"
    assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == wanted


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
    """For all kinds of proposals each script starts the printed lines."""
    limits: list[dict[str, Any]] = [
        {"schedules": ["1f1b", "VPP", "zb-v", "zb-h1"], "pp": [2, 4]},
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
    best = planned(schedules=["1f1b"], pp=[2]).fitting[0]
    for script in written(best, tmp_path).values():
        environment = {**tools, "NNODES": "3", "MEGATRON": "x", "RECIPE": "x"}
        said = run(script, environment, status=2)
        assert said == "the plan is for 16 accelerators, not 3 x 8\n"


def test_models_that_are_not_known(tmp_path: Path, tools: dict[str, str]) -> None:
    """A script asks for everything that it cannot know."""
    usual: dict[str, Any] = {"sharding": ["optimizer"], "context": [1]}
    made = planned(model="mistral-7b", schedules=["1f1b"], pp=[2], **usual)
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
    for name in ("mistral-7b", "deepseek-v3", "qwen3-next-80b-a3b", "nemotron-h-8b"):
        assert model_arguments(pipesched.models()[name]) is None
    assert model_arguments({"hidden_size": 4}) is None


HUGGING_FACE = Path(__file__).parents[2] / "data/huggingface"


def test_arguments_of_a_configuration_of_hugging_face(
    tmp_path: Path, tools: dict[str, str]
) -> None:
    """The script of a plan with a config.json asks for no arguments, and gives those of the model
    that ships.
    """
    config = HUGGING_FACE / "llama-3-8b.json"
    usual: dict[str, Any] = {"schedules": ["1f1b"], "pp": [2], "sharding": ["optimizer"]}
    found = []
    for model in (str(config), "llama3-8b"):
        best = planned(model=model, **usual).fitting[0]
        got, _ = run(written(best, tmp_path)["megatron"], {**tools, "MEGATRON": "x"})
        found.append(got)
    at = found[1].index("--kv-channels")  # its head size follows from the others
    assert found[0] == found[1][:at] + found[1][at + 2 :]
    assert found[0][found[0].index("--rotary-base") + 1] == "500000"
    assert found[0][found[0].index("--norm-epsilon") + 1] == "1e-05"
    fields = json.loads(config.read_text())
    for changes, said in (
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "--rope-scaling-factor 8.0"),
        ({"model_type": "qwen2"}, "--add-qkv-bias"),
        ({"model_type": "qwen3"}, "--qk-layernorm"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, None),
        ({"model_type": "gemma3"}, None),
        ({"mlp_bias": True}, None),
        ({"sliding_window": 4096}, None),
    ):
        made = model_arguments(read_config({**fields, **changes}))
        assert said in made if made is not None and said else made is None
    assert _assignments(["--bf16", "--fp8-format hybrid"]) is None


def test_saved(tmp_path: Path, tools: dict[str, str]) -> None:
    """`--save` writes a script for each launcher and row, which finds its CSV file."""
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16"]
    line += ["--global-batch", "32", "--schedules", "zb-h1,1f1b", "--pp", "2", "--top", "20"]
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
        pipesched.plan("qwen3-4b", "dgx-h100", launcher="torchtitan", pp=[2, 4], **run)
    free = pipesched.plan("qwen3-4b", "dgx-h100", schedules=["1f1b"], pp=[2], **run)
    launchers = free.fitting[0].launchers()
    assert "embedding" in (launchers.torchtitan.reason or "") and launchers.megatron.lines
    whole = pipesched.plan("qwen3-8b", "dgx-h100", launcher="torchtitan", pp=[2], **run)
    assert whole.fitting


def test_overlapped_exchanges_need_many_connections(tmp_path: Path, tools: dict[str, str]) -> None:
    """As the note next to the lines says."""
    made = planned(
        model="qwen3-30b-a3b", launcher="megatron", schedules=["combined-1f1b"], pp=[2],
        chunks=[2], tensor=[1], context=[1], expert=[8], top=1,
        microbatch_size=[1], memory="100GiB",
    )  # fmt: skip
    lines = made.fitting[0].launchers().megatron
    assert OVERLAP in (lines.lines or ())
    assert any("CUDA_DEVICE_MAX_CONNECTIONS=32" in note for note in lines.notes)
    scripts = written(made.fitting[0], tmp_path)
    check_megatron(made.fitting[0], scripts["megatron"], tools)
    assert "export CUDA_DEVICE_MAX_CONNECTIONS=32" in scripts["bridge"].read_text()


def test_a_single_expert_is_chosen_after_the_softmax() -> None:
    """Megatron-Core refuses to choose one of several experts before it."""
    fields = pipesched.models()["qwen3-30b-a3b"]
    one = model_arguments({**fields, "experts": {**fields["experts"], "per_token": 1}})
    assert one is not None and "--moe-router-pre-softmax" in one
    assert "--moe-router-pre-softmax" not in (model_arguments(fields) or ())


@pytest.mark.parametrize(
    "changed",
    [
        {"activation": "geglu"},
        {"norm": "layer_no_bias"},
        {"norms": "around"},
        {"branches": "parallel"},
        {"query_key_norm": "width"},
        {"biases": {"mlp": True}},
        {"final_norm": False},
        {"attention_sinks": True},
        {"experts": {"count": 8, "per_token": 2, "feedforward": 64, "biases": True}},
        {"experts": {"count": 8, "per_token": 2, "feedforward": 64}, "biases": True},
    ],
)
def test_parts_without_arguments_are_asked_for(changed: dict[str, Any]) -> None:
    fields = {**pipesched.models()["llama3-8b"], **changed}
    assert model_arguments(fields) is None
    squared = model_arguments({**pipesched.models()["gpt3-175b"], "activation": "squared_relu"})
    assert squared is not None and "--squared-relu" in squared


# Combinations of flags


def refused(lines: Sequence[str], model: str, chunks: int) -> list[str]:
    """The objections of Megatron-Core 0.16.1 to some lines: transformer_config.py,
    model_parallel_config.py, mamba_block.py, combined_1f1b.py, distributed_data_parallel.py.
    """
    flag = {line.split()[0]: (line.split() + ["1"])[1] for line in lines}
    number = {name: int(value) for name, value in flag.items() if value.isdigit()}
    tensor, context = (number.get(f"--{n}-parallel-size", 1) for n in ("tensor-model", "context"))
    layout = "--pipeline-model-parallel-layout" in flag
    virtual = "--num-virtual-stages-per-pipeline-rank" in flag
    stages = number["--pipeline-model-parallel-size"]
    kind = pipesched.models()[model].get("linear_attention", {}).get("recurrence")
    overlaps, is_fsdp = OVERLAP in flag, "--use-megatron-fsdp" in flag
    layers = pipesched.models()[model]["layers"]
    return [
        what
        for what, is_wrong in {
            "layout with virtual stages": layout and virtual,
            "layers not divisible": not layout and layers % (stages * chunks) > 0,
            "overlap without chunks": overlaps and stages > 1 and chunks == 1,
            "overlap without experts": overlaps and "--expert-model-parallel-size" not in flag,
            "overlap with full recomputation": overlaps and "--recompute-method" in flag,
            "overlap with FSDP": overlaps and is_fsdp,
            "late weights without overlap": "--delay-wgrad-compute" in flag and not overlaps,
            "sequence parallel alone": "--sequence-parallel" in flag and tensor == 1,
            "gathers without optimizer": "--overlap-param-gather" in flag
            and "--use-distributed-optimizer" not in flag,
            "eight-bit gathers alone": "--fp8-param-gather" in flag
            and "--use-distributed-optimizer" not in flag,
            "checkpoints of FSDP": is_fsdp != (flag.get("--ckpt-format") == "fsdp_dtensor"),
            "Mamba in chunks": kind == "mamba2" and chunks > 1,
            "Mamba with a layout": kind == "mamba2" and layout,
            "Mamba with overlap": kind == "mamba2" and overlaps,
            "DeltaNet with context": kind == "gated_delta" and context > 1,
            "tokens not divisible": tensor > 1 and number["--seq-length"] % (tensor * context) > 0,
        }.items()
        if is_wrong
    ]


FEW: dict[str, Any] = {"microbatch_size": [1], "recompute": ["none"]}
FEW["schedules"] = ["1f1b", "interleaved-1f1b", "combined-1f1b"]
COMBINATIONS: list[dict[str, Any]] = [
    {"model": "nemotron-h-8b", "pp": [4, 8], "chunks": [2]},
    {"model": "qwen3-next-80b-a3b", "context": [2], "pp": [2], "precision": "fp8"},
    {"model": "qwen3-next-80b-a3b", "expert_exposed": 50, "memory": "200GiB", "pp": [2]},
    {"model": "qwen3-30b-a3b", "expert_exposed": 50, "sharding": ["full"], "pp": [1, 2]},
    {"model": "qwen3-30b-a3b", "chunks": [2], "recompute": ["none", "full"], "pp": [2, 4]},
    {"model": "llama3-8b", "tensor": [8], "sequence": 1020, "context": [1]},
]


@pytest.mark.parametrize("launcher", ["megatron", None])
@pytest.mark.parametrize("limits", COMBINATIONS)
def test_no_lines_that_megatron_refuses(limits: dict[str, Any], launcher: Any) -> None:
    try:
        made = planned(**{**FEW, **limits, "launcher": launcher}, top=20)
    except pipesched.PipeSchedError as error:
        assert "Megatron-LM" in str(error)
        return
    for each in made.proposals:
        lines = each.launchers().megatron.lines
        if lines is not None:
            assert refused(lines, limits["model"], each.candidate.chunks) == [], lines


def test_what_megatron_has_not_for_hybrids() -> None:
    """Each reason is said where nothing else is left."""
    hybrid: dict[str, Any] = {"model": "nemotron-h-8b", "launcher": "megatron"}
    hybrid |= {"microbatch_size": [1], "recompute": ["none"]}
    uneven = {"pp": [8], "chunks": [1], "schedules": ["1f1b"]}
    for given, why in (
        ({"schedules": ["interleaved-1f1b"], "pp": [4]}, "no chunks in models with Mamba-2"),
        (uneven, "no layout of the stages of models with Mamba-2"),
    ):
        with pytest.raises(pipesched.PipeSchedError, match=why):
            planned(**hybrid, **given)
    with pytest.raises(pipesched.PipeSchedError, match="sequences of models with Gated Delta"):
        planned(model="qwen3-next-80b-a3b", launcher="megatron", context=[2], **FEW)
    even = planned(**hybrid, pp=[4], top=1).fitting[0]
    assert even.schedule == "1f1b" and "pretrain_mamba.py" in even.scripts()["megatron"]

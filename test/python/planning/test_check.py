"""`pipesched check`: verdicts on recipes of launchers, and errors in wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pipesched.command import main
from pipesched.planning.launch.shell import flags_of, reason_of
from test_command import Capture, text_of

pytest.importorskip("yaml")

LLAMA_405B = "num_layers: 126, hidden_size: 16384, num_attention_heads: 128, seq_length: 8192"
LLAMA_70B = "num_layers: 80, hidden_size: 8192, num_attention_heads: 64, seq_length: 8192"


def _dump(model: str, tensor: int, pipeline: int, context: int, more: str, rest: str) -> str:
    return (
        f"model: !!python/object/apply:os.system {{{model}, tensor_model_parallel_size: {tensor},"
        f" pipeline_model_parallel_size: {pipeline}, context_parallel_size: {context},"
        f" sequence_parallel: true{more}}}\n{rest}\n"
    )


GPT3 = """
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-1}  # one node
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)
GPT_MODEL_ARGS=(--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048)
TRAINING_ARGS=(
    --micro-batch-size 1 --global-batch-size 1536
    --rampup-batch-size "16 16 5859375"
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\
    ${GPT_MODEL_ARGS[@]} "${TRAINING_ARGS[@]}" \\
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --save $1
"""

PRIMUS = """
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: {model}.yaml
    overrides:
      micro_batch_size: 1
      global_batch_size: 64
      {degrees}
"""

# The name, the text, the exit status, and parts of findings by check.
RECIPES: list[tuple[str, str, int, dict[str, tuple[str, str]]]] = [
    ("gpt3_175b.sh", GPT3, 1, {"ranks": ("no", "128"), "step": ("yes", "N = 16, idle 4")}),
    (
        "llama31_405b.yaml",
        _dump(LLAMA_405B, 8, 9, 4, ", virtual_pipeline_model_parallel_size: 2",
              "trainer: {num_nodes: 72, devices: 8}\n"
              "data: {micro_batch_size: 1, global_batch_size: 512}"),
        1,
        {"ranks": ("yes", ""), "rules": ("no", "leave 4 of 256, fewer than 9 workers; 13 run")},
    ),
    (
        "llama31_405b_finetune.yaml",
        _dump(LLAMA_405B, 8, 14, 1, "",
              "trainer: {num_nodes: 12, devices: 8}\n"
              "data: {micro_batch_size: 1, global_batch_size: 6}"),
        1,
        {"ranks": ("no", "112"), "batch": ("yes", "N = 6"), "step": ("yes", "idle 6")},
    ),
    (
        "llama31_405b_lora.yaml",
        _dump(LLAMA_405B, 4, 6, 1, ", virtual_pipeline_model_parallel_size: 7",
              "trainer: {num_nodes: 3, devices: 8}\npeft: lora\n"
              "data: {micro_batch_size: 1, global_batch_size: 6}"),
        0,
        {"messages": ("yes", ""), "memory": ("unknown", "adapters")},
    ),
    (
        "llama3_70b_h100.yaml",
        _dump(LLAMA_70B, 4, 4, 2, ", virtual_pipeline_model_parallel_size: 5",
              "train: {micro_batch_size: 1, global_batch_size: 256}\n"
              "trainer: {num_nodes: 8, devices: 8}"),
        0,
        {"memory": ("yes", "of 69.5 GiB"), "step": ("yes", "from"), "better": ("no", "no faster")},
    ),
    (
        "llama3_70b_h100_fp8.yaml",
        _dump(LLAMA_70B, 4, 8, 1, ", virtual_pipeline_model_parallel_size: 5, fp8: hybrid",
              "train: {micro_batch_size: 1, global_batch_size: 256}\n"
              "trainer: {num_nodes: 8, devices: 8}"),
        0,
        {"layers": ("yes", "2x40"), "memory": ("unknown", "69.7 GiB of 69.5 GiB")},
    ),
    (
        "llama3_70b_gb200_fp4.yaml",
        _dump(LLAMA_70B, 2, 4, 1, ", virtual_pipeline_model_parallel_size: 5, fp4: e2m1",
              "train: {micro_batch_size: 1, global_batch_size: 256}\n"
              "trainer: {num_nodes: 16, devices: 4}"),
        0,
        {"step": ("yes", "s, "), "memory": ("yes", "GiB")},
    ),
    (
        "llama3_70b_gb200_lora.yaml",
        _dump(LLAMA_70B, 1, 4, 1, ", virtual_pipeline_model_parallel_size: 20",
              "peft: {lora_rank: 16}\ntrain: {micro_batch_size: 1, global_batch_size: 32}"),
        0,
        {"messages": ("yes", ""), "memory": ("unknown", "adapters")},
    ),
    (
        "llama3.1_405B_mi300x.yaml",
        PRIMUS.format(
            model="llama3.1_405B",
            degrees="tensor_model_parallel_size: 8\n      pipeline_model_parallel_size: 8",
        ),
        1,
        {"layers": ("no", "126 on 8 stages: they do not divide; give a layout")},
    ),
    (
        "deepseek_v3_mi300x.yaml",
        PRIMUS.format(
            model="deepseek_v3",
            degrees="pipeline_model_parallel_size: ${PRIMUS_PP:1}\n"
            "      expert_model_parallel_size: ${PRIMUS_EP:8}",
        ),
        1,
        {"ranks": ("yes", "expert 8"), "memory": ("no", "of 177.3 GiB")},
    ),
    (
        "llama3_8b.sh",
        "torchrun --nproc_per_node 4 --nnodes 1 -m torchtitan.train --model.name llama3"
        " --model.flavor 8B --parallelism.pipeline_parallel_degree 4"
        " --parallelism.pipeline_parallel_schedule 1F1B --training.local_batch_size 4"
        " --training.seq_len 4096\n",
        0,
        {"batch": ("yes", "N = 4"), "layers": ("yes", "8+9+8+7"), "step": ("yes", "idle 4"),
         "better": ("yes", "change --parallelism")},
    ),
]  # fmt: skip


def _check(
    folder: Path, name: str, text: str, capsys: Capture, *more: str
) -> tuple[int, dict[str, tuple[str, str]], str]:
    (folder / name).write_text(text)
    status = main(["check", str(folder / name), "--format", "json", *more])
    out, err = capsys.readouterr()
    rows = json.loads(out) if out else []
    return status, {row["check"]: (row["answer"], row["finding"]) for row in rows}, err


@pytest.mark.parametrize("name, text, wanted, parts", RECIPES, ids=[r[0] for r in RECIPES])
def test_published_recipes(
    name: str,
    text: str,
    wanted: int,
    parts: dict[str, tuple[str, str]],
    tmp_path: Path,
    capsys: Capture,
) -> None:
    status, found, err = _check(tmp_path, name, text, capsys)
    assert status == wanted, (found, err)
    for check, (answer, part) in parts.items():
        assert found[check][0] == answer, found
        assert part in found[check][1], found


TITAN = """
[model]
name = "llama3"
flavor = "8B"
[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "{schedule}"
pipeline_parallel_schedule_csv = "rows.csv"
[training]
local_batch_size = 8
seq_len = 4096
"""


@pytest.mark.parametrize("schedule, answer", [("Interleaved1F1B", "no"), ("ZBVZeroBubble", "yes")])
def test_placement_fits_the_name(
    schedule: str, answer: str, tmp_path: Path, capsys: Capture
) -> None:
    file = str(tmp_path / "rows.csv")
    assert main(["convert", "zb-v", "--pp", "4", "--microbatches", "8", "-o", file]) == 0
    capsys.readouterr()
    status, found, _ = _check(tmp_path, "a.toml", TITAN.format(schedule=schedule), capsys)
    assert found["schedule"][0] == answer, found
    assert answer == "yes" or status == 1


def test_the_step_is_that_of_the_file(tmp_path: Path, capsys: Capture) -> None:
    """Rows of the named schedule take its step; rows that run all forwards first take longer."""
    steps = []
    for csv in (None, "1f1b", "gpipe"):
        text = TITAN.format(schedule="1F1B")
        if csv is None:
            text = text.replace('pipeline_parallel_schedule_csv = "rows.csv"\n', "")
        else:
            file = str(tmp_path / "rows.csv")
            assert main(["convert", csv, "--pp", "4", "--microbatches", "8", "-o", file]) == 0
        capsys.readouterr()
        _, found, _ = _check(tmp_path, "a.toml", text, capsys)
        steps.append((found["memory"][1], found["step"][1]))
    assert steps[0] == steps[1] != steps[2]


MOE = """
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 48 --hidden-size 2048 \\
    --num-attention-heads 32 --seq-length 4096 --tensor-model-parallel-size 2 --sequence-parallel \\
    --expert-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 64 \\
    --use-distributed-optimizer --num-distributed-optimizer-instances 2 {flags}
"""


def test_experts_are_divided_as_megatron_does_by_default(tmp_path: Path, capsys: Capture) -> None:
    """Without a size the ranks of a tensor-parallel group divide each expert."""
    found, more = {}, ("--model", "qwen3-30b-a3b")
    for flags in ("", "--expert-tensor-parallel-size 2", "--expert-tensor-parallel-size 1"):
        _, found[flags], err = _check(tmp_path, "moe.sh", MOE.format(flags=flags), capsys, *more)
        assert not err.count("not read")
    default, same, whole = found.values()
    assert default == same and "expert 4 x expert tensor 2" in default["ranks"][1]
    assert whole["step"] != default["step"] and "expert tensor" not in whole["ranks"][1]
    for instances, answer in (("3", "3 groups that share state do not divide 8"), ("1", "yes")):
        text = MOE.format(flags="").replace("instances 2", f"instances {instances}")
        _, other, _ = _check(tmp_path, "moe.sh", text, capsys, *more)
        assert answer in str(other["ranks"])
    assert other["memory"] != default["memory"]  # one group holds half of the state


def test_replicas_of_torchtitan_shard_in_groups(tmp_path: Path, capsys: Capture) -> None:
    text = TITAN.format(schedule="1F1B").replace('pipeline_parallel_schedule_csv = "rows.csv"', "")
    text = text.replace("[training]", "data_parallel_replicate_degree = {count}\n[training]")
    found = {}
    for count in (1, 2, 4):
        more = ("--gpus", "16")
        _, found[count], _ = _check(tmp_path, "a.toml", text.format(count=count), capsys, *more)
    held = [float(found[count]["memory"][1].partition(" GiB")[0]) for count in found]
    assert held[0] < held[1] < held[2], held  # all, half and none of the state are divided


WRONG = {
    "cycle.yaml": ("bases: [cycle.yaml]\nnum_layers: 8\n", "include each other"),
    "lost.yaml": ("extends: [none.yaml]\n", "none.yaml, which is not found"),
    "bad.yaml": ("a: [1, 2\n", "is not YAML"),
    "list.yaml": ("- 1\n", "expected names with values"),
    "bad.toml": ("a = = 1\n", "is not TOML"),
    "recipe.py": ("x = 1\n", "recipes in Python are not read"),
    "empty.sh": ("echo hello\n", "no command has the flags"),
    "unset.sh": (GPT3.replace("-size 8 ", "-size $UNSET_TP "), "$UNSET_TP has no value"),
    "zero.sh": (GPT3.replace("-size 8 ", "-size $((1/0)) "), "divides by 0"),
    "word.sh": (GPT3.replace("-size 8 ", "-size eight "), "expected a positive integer"),
    "run.sh": (GPT3.replace("-size 8 ", "-size $(nproc) "), "which is not run"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name: str, tmp_path: Path, capsys: Capture) -> None:
    text, said = WRONG[name]
    status, _, err = _check(tmp_path, name, text, capsys)
    assert status == 2
    assert said in err and "Traceback" not in err
    assert main(["check", str(tmp_path / "missing.sh")]) == 2


def test_names_what_it_does_not_read(tmp_path: Path, capsys: Capture) -> None:
    text = GPT3.replace("--save", "--patch-zero-bubble-parallel 2 --save")
    _, _, err = _check(tmp_path, "gpt3.sh", text, capsys)
    assert "patch_zero_bubble_parallel" in err


def test_one_node_is_the_default(tmp_path: Path, capsys: Capture) -> None:
    """Launchers start one node if a recipe gives no number."""
    text = GPT3.replace("    --nnodes $NUM_NODES\n", "")
    path = tmp_path / "gpt3.sh"
    path.write_text(text)
    printed = text_of(capsys, "check", str(path), "--system", "dgx-a100", status=1)
    assert "1 node" in printed and "8 accelerators: tensor 8 x pipeline 16" in printed


def test_files_of_primus(tmp_path: Path, capsys: Capture) -> None:
    """A model comes from the folder of configurations, with the files that its file extends."""
    models = tmp_path / "primus/configs/models/megatron"
    models.mkdir(parents=True)
    (models / "deepseek_v3.yaml").write_text("extends: [base.yaml]\nnum_layers: 8\n")
    (models / "base.yaml").write_text("num_layers: 61\nseq_length: 2048\n")
    text = PRIMUS.format(model="deepseek_v3", degrees="pipeline_model_parallel_size: 8")
    _, found, err = _check(tmp_path, "deepseek.yaml", text, capsys)
    assert found["layers"][1] == "8 on 8 stages: 1x8"
    assert "model deepseek-v3" in err and "model deepseek_v3.yaml is not found" not in err


def test_layers_of_stages(tmp_path: Path, capsys: Capture) -> None:
    """Flags of Megatron-LM divide layers into stages, evenly or not."""
    given = {
        "--decoder-first-pipeline-num-layers 3": "3+31x3",
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split": "",
        "--pipeline-model-parallel-layout 'Et*30|(t*22|)*2t*22L'": "30+22x3",
        "--pipeline-model-parallel-layout 'Et*48|t*48L'": "that divide them: 2",
        "--num-virtual-stages-per-pipeline-rank 6": "4x24",
        "--num-layers-per-virtual-pipeline-stage 12": "12x8",
    }
    for flags, layers in given.items():
        text = GPT3.replace("parallel-size 16", f"parallel-size 4 {flags}")
        _, found, err = _check(tmp_path, "gpt3.sh", text, capsys)
        answer, said = found.get("layers", ("", err))
        assert said.endswith(layers or "give a layout"), said
        assert answer == ("yes" if "x" in layers else "no"), said


def test_a_file_is_a_schedule_or_a_recipe(tmp_path: Path, capsys: Capture) -> None:
    for words, wanted in (
        (["1f1b", "--gpus", "8"], "--gpus is about recipes"),
        ([str(tmp_path / "a.sh"), "--messages", "batched"], "--messages is about schedules"),
        ([str(tmp_path / "a.sh"), "--pp", "4"], "--pp is about schedules"),
    ):
        assert main(["check", *words]) == 2
        assert wanted in capsys.readouterr().err


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[3] / "docs/Check.md").read_text()
    recipe, wanted = (text.partition(f"```{kind}\n")[2].partition("```")[0] for kind in KINDS)
    Path("train_llama3_70b_h100.sh").write_text(recipe)
    assert text_of(capsys, "check", "train_llama3_70b_h100.sh") == wanted


KINDS = "sh", "text"


def test_shell() -> None:
    text = """
    A=3; ARGS="--one $((A * (2 + 2)))"
    ARGS+=" --two ${B_UNSET:-'4 5'}"
    LIST=(--three "x y" # a comment
    )
    LIST+=(--four=${A})
    if [ -n "$C" ]; then
      A=7
      LIST+=(--cond 5)
    fi
    cat <<EOF
      it isn't "read
    EOF
    eval run.py $ARGS "${LIST[@]}" --five ${A} --six $(nproc)
    """
    found = {name: value for name, (value, _) in flags_of(text, "a.sh").items()}
    assert found["one"] == "12" and found["three"] == "x y" and found["four"] == "3"
    assert found["two"] == "4"
    for name, why in {"five": "A depends", "cond": "LIST depends", "six": "$(nproc) is a"}.items():
        assert why in (reason_of(found[name]) or "")

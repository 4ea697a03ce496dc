"""The lines of plans for torchtitan, parsed by the torchtitan of PyPI that imports here, 0.2.2."""

from __future__ import annotations

import importlib.util
import shlex
import sys
import warnings
from types import ModuleType
from typing import Any

import pipesched
import pytest

pytest.importorskip("torch")
pytest.importorskip("tyro")
if importlib.util.find_spec("torchtitan") is None:
    pytest.skip("needs torchtitan: pip install 'pipesched[test]'", allow_module_level=True)
if importlib.util.find_spec("triton") is None:
    # The build of PyTorch for CPUs comes without it, and these kernels are declared with it.
    kernels = ModuleType("torchtitan.models.moe.kernels")
    vars(kernels).update(generate_permute_indices=None)
    sys.modules[kernels.__name__] = kernels

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchtitan.config import ConfigManager
    from torchtitan.distributed.pipeline_parallel import generate_llm_fqn_per_model_part

LIMITS: list[dict[str, Any]] = [
    {"pp": [4]},
    {"pp": [1], "sharding": ["full"], "recompute": ["full"]},
    {"pp": [2], "schedules": ["zb-h1"]},
    {"pp": [4], "cp": [2], "tp": [2], "recompute": ["selective"]},
    {"pp": [4], "schedules": ["1f1b"], "sharding": ["none"]},
    {"pp": [4], "schedules": ["VPP"], "vpp": [2]},
    {"pp": [1], "sharding": ["full"], "shard_groups": 2, "tp": [2], "cp": [1]},
]


def renamed(line: str) -> str:
    """A line for 0.3.0 as its note says that 0.2.2 has it."""
    if line == "--training.disable_cuda_graphs":
        return ""
    line = line.replace("activation-checkpoint:", "--activation_checkpoint.mode ")
    return line.replace("lm_head", "output")


@pytest.mark.parametrize("limits", LIMITS)
def test_torchtitan_parses_the_lines_of_plans(limits: dict[str, Any]) -> None:
    made = pipesched.plan(
        "llama3-8b", "dgx-h100", gpus=16, global_batch=32, launcher="torchtitan", top=3, **limits
    )
    assert made.fitting
    for proposal in made.fitting:
        launcher = proposal.launchers("plans").torchtitan
        assert launcher.lines and any("0.2.2" in note for note in launcher.notes)
        words = [word for line in launcher.lines for word in shlex.split(renamed(line))]
        config, shape = ConfigManager().parse_args(words), proposal.shape
        parts = config.parallelism
        assert parts.pipeline_parallel_degree == shape.pipeline
        assert parts.tensor_parallel_degree == shape.tensor
        assert parts.context_parallel_degree == shape.context
        assert parts.data_parallel_shard_degree * parts.data_parallel_replicate_degree == shape.data
        assert config.training.global_batch_size == 32 and config.training.seq_len == 8192
        assert config.activation_checkpoint.mode == shape.recompute
        if shape.pipeline > 1:
            layers = proposal.candidate.layers[0]
            stages = parts.module_fqns_per_model_part or generate_llm_fqn_per_model_part(
                len(layers), 32, 0, 0
            )
            assert [sum("layers." in name for name in s) for s in stages] == list(layers)
            assert stages[0][0] == "tok_embeddings" and stages[-1][-1] == "output"

"""The models of examples/stages: lowered by upstream's tools, they compute the same as PyTorch.

Losses, gradients and parameters of two training steps are compared with autograd's from the same
first parameters, for split and whole backwards.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stage_reference
from stage_reference import Array, Named, StageProgram, Step

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import stage_models
import torch

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "stages"
STEPS = 2
Model = Callable[[torch.Tensor, list[dict[str, torch.Tensor]], argparse.Namespace], torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
MODELS: dict[str, tuple[Model, Loss]] = {
    "transformer": (stage_models.transformer, stage_models.transformer_loss),
    "mlp": (stage_models.perceptron, stage_models.perceptron_loss),
}
TYPES = {"f32": torch.float32, "f64": torch.float64}
# Largest difference from PyTorch in parts of the largest number of a tensor.
PRECISION = {"f32": 1e-5, "f64": 1e-11}

missing = [name for name, path in stage_reference.TOOLS.items() if path is None]
needs_tools = pytest.mark.skipif(bool(missing), reason=f"needs LLVM's {', '.join(missing)}")


@pytest.fixture(autouse=True)
def _generators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The generators find each other as they do when they run."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def program_of(name: str, options: str, folder: Path) -> tuple[StageProgram, argparse.Namespace]:
    generator = importlib.import_module(name)
    chosen = generator.parse(options.split())
    program = StageProgram(generator.program(chosen), folder)
    disturb(program)
    return program, chosen


def disturb(program: StageProgram) -> None:
    """Scales of one and shifts of zero would hide their factors and terms."""
    chance = np.random.default_rng(7)
    for kept in program.kept:
        for key, value in kept["param"].items():
            noise = chance.uniform(-0.1, 0.1, value.shape).astype(value.dtype)
            kept["param"][key] = value + noise


class Torch:
    """The same training in PyTorch; it has the program's data and targets."""

    def __init__(self, name: str, program: StageProgram, chosen: argparse.Namespace) -> None:
        self.model, self.loss = MODELS[name]
        self.program, self.chosen = program, chosen
        kind = TYPES[chosen.element_type]
        self.stages = [
            {k: torch.tensor(v, dtype=kind, requires_grad=True) for k, v in kept["param"].items()}
            for kept in program.kept
        ]
        every = [tensor for stage in self.stages for tensor in stage.values()]
        rate = chosen.learning_rate
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(every, lr=rate)
        if chosen.optimizer == "adam":
            self.optimizer = torch.optim.Adam(every, lr=rate)

    def train(self, step: int) -> Step:
        self.optimizer.zero_grad()
        losses = []
        before = [{k: v.detach().clone().numpy() for k, v in s.items()} for s in self.stages]
        for microbatch in range(self.chosen.microbatches):
            call, ends = self.program.call, self.program.ends
            when = {"microbatch": microbatch, "step": step}
            x = torch.tensor(call(ends["data"], {}, **when)["input"]["0"])
            target = torch.tensor(call(ends["target"], {}, **when)["target"]["0"])
            y = self.model(x, self.stages, self.chosen)
            loss = self.loss(y, target, self.chosen.microbatches)
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.item())
        gradients = [
            {k: v.grad.clone().numpy() for k, v in stage.items() if v.grad is not None}
            for stage in self.stages
        ]
        self.optimizer.step()
        return Step(sum(losses), losses, gradients, before)


def assert_close(found: list[Named], wanted: list[Named], precision: float) -> None:
    """Each tensor, in parts of its largest number."""
    assert [set(stage) for stage in found] == [set(stage) for stage in wanted]
    for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        for name, value in theirs.items():
            size = np.abs(value).max()
            error = np.abs(mine[name] - value).max()
            assert size > 0, f"stage {number}, {name}: nothing to compare"
            assert error <= precision * size, f"stage {number}, {name}: {error / size}"


def assert_trains_alike(program: StageProgram, torches: Torch, **how: Any) -> None:
    precision = PRECISION[torches.chosen.element_type]
    for step in range(STEPS):
        found, wanted = program.train(**how), torches.train(step)
        np.testing.assert_allclose(found.losses, wanted.losses, rtol=precision)
        assert_close(found.gradients, wanted.gradients, precision)
        assert_close(found.parameters, wanted.parameters, precision)
    last = [{k: v.detach().numpy() for k, v in stage.items()} for stage in torches.stages]
    assert_close([kept["param"] for kept in program.kept], last, precision)


SMALL = "--hidden 16 --heads 2 --sequence 6 --vocabulary 11 --microbatch-size 3 --microbatches 3"
CASES = {
    "two": "--stages 2 --layers 2",
    "double": "--stages 2 --layers 3 --element-type f64",
    "whole": "--stages 3 --layers 4 --backward whole",
    "rms": "--stages 2 --norm rms --no-bias --gelu tanh --mlp 24",
    "ends": "--stages 3 --layers 0,2,0 --element-type f64",
    # Adam divides small gradients by themselves, and so makes their rounding errors visible.
    "adam": "--stages 2 --optimizer adam --learning-rate 0.01 --element-type f64",
    "recompute": "--stages 2 --layers 1,2 --recompute attention --element-type f64",
    "one": "--stages 1 --layers 1",
    "narrow": "--microbatch-size 1 --sequence 2 --heads 16 --vocabulary 3 --element-type f64",
}


@needs_tools
@pytest.mark.parametrize("case", CASES)
def test_transformer(case: str, tmp_path: Path) -> None:
    program, chosen = program_of("transformer", f"{SMALL} {CASES[case]}", tmp_path)
    torches = Torch("transformer", program, chosen)
    split, again = chosen.backward == "split", chosen.recompute != "none"
    assert_trains_alike(program, torches, split=split, recompute=again)


@needs_tools
@pytest.mark.parametrize(
    "options",
    [
        "--stages 4 --widths 5,7,3,9,2",
        "--stages 3 --element-type f64 --optimizer adam --recompute selective",
        "--stages 1 --backward whole",
    ],
)
def test_perceptron(options: str, tmp_path: Path) -> None:
    program, chosen = program_of("mlp", f"{options} --microbatches 3", tmp_path)
    split, again = chosen.backward == "split", chosen.recompute != "none"
    assert_trains_alike(program, Torch("mlp", program, chosen), split=split, recompute=again)


@needs_tools
@pytest.mark.parametrize("split", [True, False])
def test_perceptron_to_read(split: bool, tmp_path: Path) -> None:
    program = StageProgram((FOLDER / "mlp.mlir").read_text(encoding="utf-8"), tmp_path)
    disturb(program)
    chosen = argparse.Namespace(
        microbatches=8, element_type="f32", optimizer="sgd", learning_rate=0.1
    )
    assert_trains_alike(program, Torch("mlp", program, chosen), split=split)


@needs_tools
@pytest.mark.parametrize("name", MODELS)
def test_split_and_whole_backwards_agree(name: str, tmp_path: Path) -> None:
    """In a file that has both, they agree to the last bit."""
    small = f"{SMALL} --layers 3" if name == "transformer" else "--microbatches 3"
    options = f"--stages 3 --backward both {small}"
    steps = []
    for split in (True, False):
        folder = tmp_path / str(split)
        folder.mkdir()
        steps.append(program_of(name, options, folder)[0].train(split=split))
    assert steps[0].losses == steps[1].losses
    for one, other in zip(steps[0].gradients, steps[1].gradients, strict=True):
        assert all(np.array_equal(one[key], other[key]) for key in one | other)


def wide(value: Array) -> Array:
    """bf16 as floats: they are the upper halves."""
    if value.dtype != np.uint16:
        return value
    return (value.astype(np.uint32) << 16).view(np.float32)


@needs_tools
def test_narrow_floats(tmp_path: Path) -> None:
    """In bf16, a step gives the same as in f32 except for the rounding of 8 bits."""
    steps, programs = {}, {}
    for kind in ("f32", "bf16"):
        (tmp_path / kind).mkdir()
        generator = importlib.import_module("transformer")
        chosen = generator.parse([*SMALL.split(), "--element-type", kind])
        programs[kind] = StageProgram(generator.program(chosen), tmp_path / kind)
        steps[kind] = programs[kind].train(split=True)
    np.testing.assert_allclose(steps["bf16"].losses, steps["f32"].losses, rtol=0.02)
    for narrow, full in zip(steps["bf16"].gradients, steps["f32"].gradients, strict=True):
        for name, value in full.items():
            assert narrow[name].dtype == np.float32
            error = np.linalg.norm(narrow[name] - value) / np.linalg.norm(value)
            assert 1e-5 < error < 0.1, f"{name}: {error}"
    for mine, theirs in zip(programs["bf16"].kept, programs["f32"].kept, strict=True):
        for name, value in theirs["param"].items():
            np.testing.assert_allclose(wide(mine["param"][name]), value, rtol=0.01, atol=2e-3)


@needs_tools
def test_targets(tmp_path: Path) -> None:
    """The next tokens, and absolute values; all microbatches differ."""
    programs = {}
    for name in MODELS:
        (tmp_path / name).mkdir()
        programs[name] = program_of(name, "--stages 2 --microbatch-size 4", tmp_path / name)[0]
    seen = []
    for step, microbatch in itertools.product(range(3), range(8)):
        when = {"step": step, "microbatch": microbatch}
        tokens, following = (
            next(iter(programs["transformer"].call(end, {}, **when)[role].values()))
            for end, role in (("data", "input"), ("target", "target"))
        )
        assert np.array_equal(tokens[:, 1:], following[:, :-1])
        assert tokens.min() >= 0 and max(tokens.max(), following.max()) < 64
        paces = (following - tokens) % 64
        assert np.all(paces == paces[:, :1]) and set(paces.flat) <= {1, 2, 3}
        x = programs["mlp"].call("data", {}, **when)["input"]["0"]
        y = programs["mlp"].call("target", {}, **when)["target"]["0"]
        assert np.array_equal(np.abs(x), y) and np.abs(x).max() <= 1 and x.min() < 0
        seen += [tokens.tobytes(), x.tobytes()]
    assert len(set(seen)) == len(seen)


@needs_tools
def test_transformer_learns(tmp_path: Path) -> None:
    """From a guess among all tokens to the rule of the sequences."""
    generator = importlib.import_module("transformer")
    options = "--optimizer adam --learning-rate 0.01 --vocabulary 16 --microbatches 4"
    program = StageProgram(generator.program(generator.parse(options.split())), tmp_path)
    losses = [program.train(split=True).loss for _ in range(80)]
    assert abs(losses[0] - math.log(16)) < 0.5
    assert losses[-1] < 0.5 * math.log(16)


@needs_tools
def test_first_parameters_spread_evenly(tmp_path: Path) -> None:
    """Uniform up to 1 / sqrt(rows), and different in each tensor."""
    generator = importlib.import_module("transformer")
    program = StageProgram(generator.program(generator.parse(["--hidden", "64"])), tmp_path)
    seen = set()
    for kept in program.kept:
        for name, value in kept["param"].items():
            if value.ndim == 1:
                assert np.all(value == (1 if name.endswith("scale") else 0))
                continue
            parts = value * math.sqrt(len(value))
            assert np.abs(parts).max() <= 1 and np.abs(parts).max() > 0.98
            assert abs(parts.mean()) < 5 / math.sqrt(3 * value.size)
            assert abs(parts.var() - 1 / 3) < 0.05
            seen.add(value.tobytes())
    matrices = [v for kept in program.kept for v in kept["param"].values() if v.ndim == 2]
    assert len(seen) == len(matrices)

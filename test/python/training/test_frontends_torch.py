"""Models of PyTorch as functions of stages: compiled schedules train the same as PyTorch."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")
pytest.importorskip("torch_mlir", reason="needs torch-mlir: pip install 'pipesched[test]'")

import pipesched  # noqa: E402
from compiled_runs import TOOL, losses_of, needs_tool  # noqa: E402
from frontend_models import CONTEXT, Llama, batches, gpt, loss, trained  # noqa: E402
from language_cases import language_model, next_word, words  # noqa: E402
from pipesched.command import main  # noqa: E402
from pipesched.frontends import FrontendError  # noqa: E402
from pipesched.frontends.torch import export  # noqa: E402
from pipesched.torch import from_hugging_face, split_model  # noqa: E402
from pipesched.torch.training import Source, find  # noqa: E402
from torch import Tensor, nn  # noqa: E402

ROOT = Path(__file__).parents[3]
MICROBATCHES, SIZE, STEPS = 4, 2, 20
DATA = batches(STEPS, MICROBATCHES * SIZE)
EXAMPLE = (DATA[0][0][:SIZE], DATA[0][1][:SIZE])
MPI = ("--backend=mpi", "--mpicc=mpicc.mpich", "--mpirun=mpirun.mpich")

Make = Callable[[list[nn.Parameter]], Any]


def adam(parameters: list[nn.Parameter]) -> Any:
    return torch.optim.Adam(parameters, lr=0.01)


def check(
    path: Path, folder: Path, wanted: list[float], *options: str, tolerance: float = 1e-5
) -> None:
    found = losses_of(path, folder, *options, steps=len(wanted))
    assert found == pytest.approx(wanted, rel=tolerance)
    assert abs(wanted[0] - wanted[-1]) > 1e-3  # they move


@pytest.fixture(scope="module")
def small_gpt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[float], Any]:
    """A GPT in four stages for ZB-V, and the losses of PyTorch."""
    folder = tmp_path_factory.mktemp("gpt")
    schedule = pipesched.generate("zb-v", workers=2, microbatches=MICROBATCHES, name="gpt")
    torch.manual_seed(0)
    model = gpt()
    made = export(model, schedule, EXAMPLE, loss=loss, optimizer=adam, batches=DATA)
    parameters = made.save(folder / "gpt.mlir")
    losses = trained(model, DATA, MICROBATCHES, adam(list(model.parameters())))
    return folder / "gpt.mlir", parameters, losses, made


@needs_tool
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--schedule=1f1b", "--workers=4", "--pipeline=pipe-add-recompute,pipe-add-offload"),
        ("--schedule=chimera", "--workers=4"),
    ],
    ids=" ".join,
)
def test_losses_are_those_of_pytorch(small_gpt: Any, options: tuple[str, ...]) -> None:
    path, folder, losses, _ = small_gpt
    check(path, folder, losses, *options)


@needs_tool
@pytest.mark.skipif(shutil.which("mpirun.mpich") is None, reason="needs MPICH")
@pytest.mark.parametrize("options", [(), ("--schedule=chimera", "--workers=4")], ids=" ".join)
def test_processes_have_the_same_losses(small_gpt: Any, options: tuple[str, ...]) -> None:
    path, folder, losses, _ = small_gpt
    check(path, folder, losses, *options, *MPI)


@needs_tool
def test_optimized_schedule_with_offload(small_gpt: Any, tmp_path: Path) -> None:
    _, _, losses, _ = small_gpt
    problem = pipesched.problem(workers=4, microbatches=MICROBATCHES, name="best")
    times = "F=2ms,I=2ms,W=2ms,R=1ms,D=1ms,U=1ms,comm=1us"
    problem = problem.transform(f"pipe-attach-profile{{times={times}}}")
    found = problem.optimize(memory=2, offload=True, recompute="full", explain=False, time_limit=2)
    schedule = found.schedule
    assert re.search(r"\d[DR]\d", schedule.to_text())
    torch.manual_seed(0)
    made = export(gpt(), schedule, EXAMPLE, loss=loss, optimizer=adam, batches=DATA)
    folder = made.save(tmp_path / "best.mlir")
    check(tmp_path / "best.mlir", folder, losses)


@needs_tool
def test_several_tensors_pass_between_stages(tmp_path: Path) -> None:
    schedule = pipesched.generate("zb-v", workers=2, microbatches=MICROBATCHES)
    torch.manual_seed(0)
    model = Llama()
    stages = split_model(model, schedule, at=["layers.0", "layers.1", "norm"])
    made = export(model, schedule, EXAMPLE, loss=loss, optimizer=adam, stages=stages, batches=DATA)
    folder = made.save(tmp_path / "llama.mlir")
    losses = trained(model, DATA, MICROBATCHES, adam(list(model.parameters())))
    check(tmp_path / "llama.mlir", folder, losses)


@needs_tool
def test_tied_parameters_are_one(tmp_path: Path) -> None:
    schedule = pipesched.generate("zb-v", workers=2, microbatches=MICROBATCHES)
    torch.manual_seed(0)
    model = gpt(tied=True)
    made = export(model, schedule, EXAMPLE, loss=loss, optimizer=adam, batches=DATA)
    assert made.text.count('pipe.tied = "0.tokens.weight"') == 4
    folder = made.save(tmp_path / "tied.mlir")
    saved = tmp_path / "after"
    losses = trained(model, DATA, MICROBATCHES, adam(list(model.parameters())))
    first, last = ("stage0.0.tokens.weight.npy", "stage3.0.scores.weight.npy")
    # One worker has both; then each of two workers has both; then two workers have one each.
    for options in ((), ("--schedule=chimera", "--workers=4"), ("--schedule=1f1b", "--workers=4")):
        check(tmp_path / "tied.mlir", folder, losses, *options, f"--save-parameters={saved}")
        assert (saved / first).read_bytes() == (saved / last).read_bytes()


OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.1, betas=(0.7, 0.9)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.3, eps=1e-4),
    "groups": lambda p: torch.optim.AdamW(
        [{"params": p[:2], "lr": 0.05}, {"params": p[2:3]}], lr=0.01
    ),
}


@needs_tool
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_alike(name: str, tmp_path: Path) -> None:
    schedule = pipesched.generate("gpipe", workers=2, microbatches=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    chance = torch.Generator().manual_seed(0)
    data = [
        (torch.randn(4, 3, generator=chance).double(), torch.randn(4, 2, generator=chance).double())
        for _ in range(5)
    ]
    model[2].bias.requires_grad_(False)
    mse = nn.functional.mse_loss
    made = export(
        model,
        schedule,
        (data[0][0][:2], data[0][1][:2]),
        loss=mse,
        optimizer=OPTIMIZERS[name],
        batches=data,
    )
    folder = made.save(tmp_path / "m.mlir")
    stepped = [each for each in model.parameters() if each.requires_grad]
    losses = trained(model, data, 2, OPTIMIZERS[name](stepped), mse)
    check(tmp_path / "m.mlir", folder, losses)


def test_equal_stages_share_their_functions(small_gpt: Any) -> None:
    made = small_gpt[3]
    schedule = pipesched.generate("1f1b", workers=10, microbatches=MICROBATCHES)
    long = export(gpt(layers=8), schedule, EXAMPLE, loss=loss, optimizer=adam)
    assert (made.stages, long.stages) == (4, 10)
    # A first, a last and the blocks between have five each, but all of the backward of an
    # embedding is its W; then data, target and loss.
    assert long.functions == made.functions == 3 * 5 - 1 + 3
    assert "stage 8 forward @stage1_forward backward @stage1_backward" in long.text


def test_files_of_a_name_have_a_folder(small_gpt: Any, tmp_path: Path) -> None:
    """Names with other endings would share one."""
    for name in ("gpt.a", "gpt", ".mlir"):
        with pytest.raises(FrontendError, match="wanted a name that ends in .mlir"):
            small_gpt[3].save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_stage_that_fails_is_named() -> None:
    """Batches of another type than the parameters."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).bfloat16()
    schedule = pipesched.generate("gpipe", workers=2, microbatches=2)
    wanted = (
        r"stage 0: the module '0' \(Linear\) raised RuntimeError: .*; the input of the stage is "
        r"float32 of shape \[2, 4, 4\], and its parameters are bfloat16"
    )
    with pytest.raises(FrontendError, match=wanted):
        export(model, schedule, (X, X), loss=nn.functional.mse_loss)


def test_names_of_files_lead_to_the_model(small_gpt: Any) -> None:
    made = small_gpt[3]
    names = set(made.names.values())
    buffers = {name for name, _ in gpt().named_buffers()}
    assert names == buffers | {name for name, _ in gpt().named_parameters()}
    assert made.arrays["stage0.inputs.npy"].shape == (STEPS * MICROBATCHES, SIZE, CONTEXT)


class Choice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.max_pool2d(x[None], 2)[0]


class Two(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, torch.arange(3)


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class Number(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.sum().item()


class Size(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.nonzero().shape[0]


X = torch.randn(2, 4, 4)


@pytest.mark.parametrize(
    ("middle", "wanted"),
    [
        (Choice(), r"stage 0, \w+ cannot be lowered: aten\.max_pool2d\w* of the module '1' "),
        (Two(), r"stages 0 and 1 pass tensors of several types \(float32 of shape"),
        (nn.BatchNorm1d(4), r"stage 0: the forward changes '1\.\w+' in place"),
        (Branch(), r"stage 0 cannot be traced"),
        (Number(), r"stage 0, \w+ cannot be lowered: aten\._local_scalar_dense of the module '1' "),
        (
            Size(),
            r"the module '1' \(Size\) makes a tensor whose size follows from values \(nonzero",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_form_is_refused(middle: nn.Module, wanted: str) -> None:
    schedule = pipesched.generate("gpipe", workers=2, microbatches=2)
    model = nn.Sequential(nn.Linear(4, 4), middle, nn.Linear(4, 4), nn.Flatten())
    with pytest.raises(FrontendError, match=wanted):
        export(model, schedule, (X, torch.randn(2, 8)), loss=nn.functional.mse_loss)


def test_slices_are_refused() -> None:
    """An exported model computes whole microbatches: as slices it would be another model."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    sliced = pipesched.generate("seq1f1b", workers=2, microbatches=2, slices=4)
    x = torch.zeros(SIZE, 2)
    with pytest.raises(FrontendError, match="has 4 slices a microbatch; exported models run whole"):
        export(model, sliced, (x, x), loss=nn.functional.mse_loss)


def test_other_optimizers_are_refused() -> None:
    schedule = pipesched.generate("gpipe", workers=2, microbatches=2)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for make, said in (
        (lambda p: torch.optim.Adagrad(p), "the optimizer is Adagrad; wanted SGD, Adam or AdamW"),
        (lambda p: torch.optim.Adam(p, amsgrad=True), "Adam with amsgrad is not known here"),
    ):
        with pytest.raises(FrontendError, match=said):
            export(model, schedule, (X, X), loss=nn.functional.mse_loss, optimizer=make)


@pytest.mark.parametrize(
    ("missing", "module"), [("torch_mlir", "torch"), ("torch", "torch"), ("jax", "jax")]
)
def test_missing_packages_are_named(missing: str, module: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
import pipesched
from pipesched.frontends.{module} import export
export(None, None, None, loss=None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "install the extra that has it: pip install 'pipesched[frontends]'" in done.stderr


def test_command_writes_what_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--model-option", "layers=2", "--model-option", "width=8"]
    sizes += ["--model-option", "heads=2", "--model-option", "context=4"]
    line = ["export", "gpt", "--schedule", "zb-v", "--workers", "2", "--microbatches", "2"]
    line += ["--microbatch-size", "2", "--batches", "3", *sizes]
    assert main([*line, "-o", str(tmp_path / "gpt")]) == 2
    assert "wanted a name that ends in .mlir" in capsys.readouterr().err
    assert main([*line, "-o", str(tmp_path / "gpt.mlir")]) == 0
    said = capsys.readouterr().err
    assert f"pipesched-run {tmp_path}/gpt.mlir --parameters={tmp_path}/gpt.parameters" in said
    (tmp_path / "a b").mkdir()
    assert main([*line, "--no-compare", "-o", str(tmp_path / "a b" / "g.mlir")]) == 0
    said = capsys.readouterr().err
    assert f"'{tmp_path}/a b/g.mlir' '--parameters={tmp_path}/a b/g.parameters'" in said
    if TOOL.exists():
        source = Source.load(find("gpt"), dict(text.split("=") for text in sizes[1::2]))
        torch.manual_seed(0)
        model = source.model(torch.float32)
        optimizer = source.optimizer(list(model.parameters()), 1e-3)
        data = list(itertools.islice(source.batches(4, 0), 3))
        wanted = trained(model, data, 2, optimizer, source.loss)
        check(tmp_path / "gpt.mlir", tmp_path / "gpt.parameters", wanted)


FLOATS = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 3))

def batches(size, seed):
    chance = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(size, 4, generator=chance), torch.randn(size, 3, generator=chance)

loss = nn.functional.mse_loss
"""


@needs_tool
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_batches_of_floats_have_the_type_of_the_parameters(tmp_path: Path, dtype: str) -> None:
    file = tmp_path / "floats.py"
    file.write_text(FLOATS)
    line = ["export", str(file), "--schedule", "1f1b", "--workers", "2", "--microbatches", "2"]
    line += ["--batches", "3", "--dtype", dtype, "-o", str(tmp_path / "floats.mlir")]
    assert main(line) == 0
    source = Source.load(file, {})
    kind = getattr(torch, dtype)
    torch.manual_seed(0)
    model = source.model(kind)
    optimizer = source.optimizer(list(model.parameters()), 1e-3)
    batches_of_floats = itertools.islice(source.batches(8, 0), 3)
    data = [(inputs.to(kind), targets.to(kind)) for inputs, targets in batches_of_floats]
    wanted = trained(model, data, 2, optimizer, source.loss)
    tolerance = 1e-5 if dtype == "float64" else 0.02
    check(tmp_path / "floats.mlir", tmp_path / "floats.parameters", wanted, tolerance=tolerance)


@needs_tool
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_models_of_hugging_face_train_as_in_pytorch(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("transformers", reason="needs transformers: pip install 'pipesched[test]'")
    schedule = pipesched.generate("1f1b", workers=2, microbatches=MICROBATCHES)
    model = language_model(kind).float()
    data = [(each, each) for each in (words(seed, 2 * MICROBATCHES) for seed in range(4))]
    example = (data[0][0][:2], data[0][1][:2])
    stages = from_hugging_face(model, schedule)
    made = export(
        model, schedule, example, loss=next_word, optimizer=adam, stages=stages, batches=data
    )
    folder = made.save(tmp_path / "model.mlir")
    optimizer = adam(list(model.parameters()))
    wanted = trained(model, data, MICROBATCHES, optimizer, next_word)
    check(tmp_path / "model.mlir", folder, wanted)

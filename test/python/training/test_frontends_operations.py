"""The export of single operations, and errors about operations that it cannot lower."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")
pytest.importorskip("torch_mlir", reason="needs torch-mlir: pip install 'pipesched[test]'")

import pipesched  # noqa: E402
import random_modules  # noqa: E402
from compiled_runs import losses_of, needs_tool  # noqa: E402
from pipesched.frontends import FrontendError, _decompositions  # noqa: E402
from pipesched.frontends.torch import export  # noqa: E402
from random_operations import ALONG, ELEMENTS, WHOLE, Operation  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402


def along(name: str, dimension: int) -> Operation:
    return Operation(name, lambda x: ALONG[name](x, dimension))


ONCE_REFUSED = [
    *(Operation(name, WHOLE[name]) for name in WHOLE if name.split()[0] in ("pad", "index")),
    *(Operation(name, WHOLE[name]) for name in ("avg_pool1d", "adaptive", "lrn", "eye", "empty")),
    *(along(name, 1) for name in ("roll", "unfold", "cumsum", "cumprod", "logcumsumexp", "max")),
    *(along(name, 2) for name in ("cumsum", "gather", "index list", "prod")),
    *(Operation(name, ELEMENTS[name]) for name in ("gelu tanh", "softshrink", "hypot")),
    Operation("equal", lambda x: x + x.sum(1, keepdim=True).expand_as(x).std(1, keepdim=True)),
]
"""Operations that export refused or lowered wrongly, or in which it ended by a signal."""


@needs_tool
@pytest.mark.parametrize("name", random_modules.TYPES)
def test_operations_compute_what_pytorch_computes(name: str, tmp_path: Path) -> None:
    """All in one model, with the same input, so that its gradient depends on each operation."""

    def together(x: Tensor) -> Tensor:
        found: Tensor = sum(0.1 * each(x) for each in ONCE_REFUSED)
        return found

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(5, 8),
        nn.Sequential(nn.Linear(8, 8), Operation("together", together), nn.Linear(8, 5)),
    ).to(random_modules.TYPES[name])
    inputs = torch.randn(4, 7, 5).to(random_modules.TYPES[name])
    trial = random_modules.Trial(model, inputs, inputs.sin(), "mse", "zb-h1")
    assert random_modules.differences(trial, tmp_path, name) == []


def exported(*middle: nn.Module, compare: bool = True) -> None:
    schedule = pipesched.generate("gpipe", workers=2, microbatches=2)
    x = torch.randn(2, 4, 4)
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(*middle, nn.Linear(4, 4)))
    export(model, schedule, (x, x), loss=functional.mse_loss, compare=compare)


def test_a_lowering_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """GELU by torch-mlir's own formula has 22/7 for pi."""
    monkeypatch.setattr(_decompositions, "_PYTORCHS", _decompositions._PYTORCHS[1:])
    gelu = nn.GELU(approximate="tanh")
    found = (
        r"stage 1: its functions do not compute what PyTorch computes: .* norm off, of which "
        r"rounding is .*; aten\.gelu of the module '1\.0' \(GELU\) alone is .* off"
    )
    with pytest.raises(FrontendError, match=found):
        exported(gelu)
    exported(gelu, compare=False)


def upsampled(x: Tensor) -> Tensor:
    return functional.interpolate(x[None], scale_factor=2, mode="bilinear")[0, :, :4, :4]


def narrow_range(x: Tensor) -> Tensor:
    found: Tensor = x + torch.arange(4, dtype=torch.uint8)
    return found


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x.sort(-1).values, "aten.sort .* needs tm_tensor.sort, which LLVM 22"),
        (upsampled, r"aten.upsample_bilinear2d .* has no form in linalg, for float32 \[1, 2, 4"),
        (narrow_range, f"aten.arange .* ends torch-mlir by {signal.SIGSEGV.name}"),
    ],
    ids=["dialect", "form", "signal"],
)
def test_an_operation_that_cannot_be_lowered_is_named(
    function: Callable[[Tensor], Tensor], wanted: str
) -> None:
    with pytest.raises(FrontendError, match=f"stage 1, forward cannot be lowered: {wanted}"):
        exported(Operation("it", function))


FROZEN = {"first": [0], "first two": [0, 1], "inner": [1], "last": [3], "all": [0, 1, 2, 3]}


@needs_tool
@pytest.mark.parametrize("case", FROZEN)
def test_frozen_stages_run(case: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(4)])
    for number in FROZEN[case]:
        model[number].requires_grad_(False)
    x, y = torch.randn(8, 5), torch.randn(8, 5)
    schedule = pipesched.generate("zb-v", workers=2, microbatches=4)
    other = nn.Parameter(torch.zeros(1))  # PyTorch's optimizers want one.
    made = export(
        copy.deepcopy(model),
        schedule,
        (x[:2], y[:2]),
        loss=functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD([*parameters, other], lr=0.5),
        batches=[(x, y)],
    )
    folder = made.save(tmp_path / "frozen.mlir")
    found = losses_of(tmp_path / "frozen.mlir", folder, steps=3)
    optimizer = torch.optim.SGD([*model.parameters(), other], lr=0.5)
    wanted = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        wanted.append(loss.item())
    assert found == pytest.approx(wanted, rel=1e-5)


@needs_tool
@pytest.mark.parametrize("where", [0, 1, 3])
def test_stages_without_parameters_run(where: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    stages: list[nn.Module] = [nn.Linear(5, 5) for _ in range(4)]
    stages[where] = nn.Tanh()
    x = torch.randn(4, 5)
    schedule = pipesched.generate("zb-v", workers=2, microbatches=2)
    model = nn.Sequential(*stages)
    made = export(
        model,
        schedule,
        (x[:2], x[:2]),
        loss=functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.5),
        batches=[(x, x)],
    )
    folder = made.save(tmp_path / "m.mlir")
    found = losses_of(tmp_path / "m.mlir", folder, steps=1)
    assert found == pytest.approx([functional.mse_loss(model(x), x).item()], rel=1e-5)

"""Bounds of PyTorch as functions of stages: NaN stays NaN."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")
pytest.importorskip("torch_mlir", reason="needs torch-mlir: pip install 'pipesched[test]'")

import pipesched  # noqa: E402
from compiled_runs import losses_of, needs_tool  # noqa: E402
from pipesched.frontends.torch import export  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Bounds(nn.Module):
    """Each bound, on numbers some of which are NaN."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.where(x > 0.5, x * float("nan"), x)
        parts = [torch.maximum(y, x), torch.maximum(x, y), torch.minimum(y, x)]
        parts += [y.clamp(-0.25, 0.25), y.clamp(max=0.25), y.clamp(min=x), y.clamp_min(0.1)]
        parts += [each(y) for each in (functional.hardtanh, functional.relu6, functional.relu)]
        parts += [each(y) for each in (functional.elu, functional.selu, functional.leaky_relu)]
        parts += [functional.logsigmoid(y), functional.hardsigmoid(y), functional.hardswish(y)]
        parts += [(y == y).to(x.dtype), torch.log1p(x * 1e-6) * 1e6, torch.expm1(x * 1e-6) * 1e6]
        weights = torch.arange(1, len(parts) + 1, dtype=x.dtype)
        found: Tensor = torch.stack(parts, -1) * weights
        return found


def squares(output: Tensor, target: Tensor) -> Tensor:
    found: Tensor = torch.nan_to_num(output, 3.0).square().mean() + target.mean() * 0
    return found


@needs_tool
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_bounds_keep_nan(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    dtype = getattr(torch, name)
    model = nn.Sequential(nn.Linear(4, 4, dtype=dtype), Bounds())
    x, target = torch.randn(8, 4, dtype=dtype), torch.zeros(8, 1, dtype=dtype)
    assert (model[0](x) > 0.5).any() and not (model[0](x) > 0.5).all()
    schedule = pipesched.generate("1f1b", workers=2, microbatches=2, name="bounds")
    made = export(model, schedule, (x[:4], target[:4]), loss=squares, batches=[(x, target)])
    folder = made.save(tmp_path / "bounds.mlir")
    (found,) = losses_of(tmp_path / "bounds.mlir", folder, steps=1)
    wanted = squares(model(x), target).item()
    assert found == pytest.approx(wanted, rel=1e-5)

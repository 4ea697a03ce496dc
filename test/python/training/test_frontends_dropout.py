"""Dropout in exported models: masks that follow from numbers, and trainings like PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")
pytest.importorskip("torch_mlir", reason="needs torch-mlir: pip install 'pipesched[test]'")

import pipesched  # noqa: E402
from compiled_runs import losses_of, needs_tool  # noqa: E402
from pipesched.frontends import FrontendError  # noqa: E402
from pipesched.frontends.torch import dropout_mask, dropout_masks, export  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

ROOT = Path(__file__).parents[3]
WIDTH, TOKENS, SIZE, MICROBATCHES, STEPS, SEED = 8, 3, 2, 4, 4, 7


# Masks


def philox(counter: tuple[int, ...], seed: int) -> int:
    """The first word of Philox4x32-10 with Python's integers, as in the paper."""
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = (
            (second >> 32) ^ counter[1] ^ key[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ counter[3] ^ key[1],
            first & 0xFFFFFFFF,
        )
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter[0]


def test_the_words_are_those_of_the_paper() -> None:
    """Known answers of Random123, the implementation of its authors."""
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox((0, 0, 0, 0), 0) == 0x6627E8D5
    assert philox((0xFFFFFFFF,) * 4, (1 << 64) - 1) == 0x408F276D
    assert philox(pi, 0x299F31D0_A4093822) == 0xD16CFE09


@pytest.mark.parametrize("seed", [0, 7, -1, (1 << 64) - 2, 0x299F31D0_A4093822])
def test_a_mask_compares_words_with_a_bound(seed: int) -> None:
    numbers = {"site": 3, "microbatch": 5, "step": 1 << 31}
    found = dropout_mask((4, 1, 25), 0.3, **numbers, seed=seed)
    assert found.shape == (4, 1, 25)
    bound = round(0.7 * (1 << 32))
    wanted = [philox((e, 3, 5, 1 << 31), seed % (1 << 64)) < bound for e in range(100)]
    assert found.flatten().tolist() == wanted


def mask(p: float, **numbers: int) -> Tensor:
    usual = {"site": 1, "step": 2, "microbatch": 3, "seed": 4}
    return dropout_mask((100, 200), p, **(usual | numbers))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_as_many_elements_are_kept_as_wanted(p: float) -> None:
    deviation = math.sqrt(p * (1 - p) / 20_000)
    means = [mask(p, step=step).float().mean().item() for step in range(50)]
    assert all(abs(mean - (1 - p)) < 5 * deviation for mean in means)
    assert abs(sum(means) / 50 - (1 - p)) < 4 * deviation / math.sqrt(50)


@pytest.mark.parametrize("name", ["site", "step", "microbatch", "seed"])
def test_masks_of_other_numbers_are_others(name: str) -> None:
    """Two masks agree where independent ones do, in half of the elements."""
    assert torch.equal(mask(0.5), mask(0.5))
    for other in (0, 5, 6):
        agreeing = (mask(0.5) == mask(0.5, **{name: other})).float().mean().item()
        assert abs(agreeing - 0.5) < 5 * math.sqrt(0.25 / 20_000)


def test_probabilities_at_the_ends() -> None:
    assert mask(0.0).all() and not mask(1.0).any()
    with pytest.raises(FrontendError, match=r"has probability 1\.5; wanted one from 0 to 1"):
        mask(1.5)
    with pytest.raises(FrontendError, match="the seed of dropout is 18446744073709551616; wanted"):
        mask(0.5, seed=1 << 64)
    with pytest.raises(FrontendError, match=r"shape \[65537, 65537\]; masks have at most 2\^32"):
        dropout_mask((65537, 65537), 0.5, site=0, step=0, microbatch=0)


# Trainings


class Calls(nn.Module):
    """A linear layer and a function after it."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(WIDTH, WIDTH), function

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.function(self.linear(x))
        return found


class Block(nn.Module):
    """With dropout of attention, as a module, and as a function in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop, self.off = nn.Linear(WIDTH, WIDTH), nn.Dropout(0.3), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        y = x.reshape(*x.shape[:2], 2, WIDTH // 2).transpose(1, 2)
        rate = 0.25 if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(y, y, y, dropout_p=rate, is_causal=True)
        z = self.off(self.drop(self.linear(mixed.transpose(1, 2).reshape(x.shape)))) * 2
        functional.dropout(z, 0.5, self.training, inplace=True)
        found: Tensor = x + z.tanh()
        return found


def model(blocks: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(blocks)))


def batches() -> list[tuple[Tensor, Tensor]]:
    chance = torch.Generator().manual_seed(1)
    size = (MICROBATCHES * SIZE, TOKENS, WIDTH)
    pairs = torch.randn(STEPS, 2, *size, generator=chance)
    return [(pair[0], pair[1]) for pair in pairs]


def sgd(parameters: list[nn.Parameter]) -> Any:
    return torch.optim.SGD(parameters, lr=0.1)


def trained(seed: int) -> list[float]:
    """The losses of PyTorch, with the same masks."""
    whole = model()
    optimizer, losses = sgd(list(whole.parameters())), []
    for step, (inputs, targets) in enumerate(batches()):
        parts = zip(inputs.chunk(MICROBATCHES), targets.chunk(MICROBATCHES), strict=True)
        losses.append(0.0)
        for number, (x, y) in enumerate(parts):
            with dropout_masks(step=step, microbatch=number, seed=seed):
                found = whole(x)
            loss = functional.mse_loss(found, y) / MICROBATCHES
            torch.autograd.backward(loss)
            losses[-1] += loss.item()
        optimizer.step()
        optimizer.zero_grad()
    return losses


def exported(whole: nn.Sequential, family: str, workers: int, **options: Any) -> Any:
    schedule = pipesched.generate(family, workers=workers, microbatches=MICROBATCHES, name="m")
    data = batches()
    example = (data[0][0][:SIZE], data[0][1][:SIZE])
    mse = functional.mse_loss
    return export(whole, schedule, example, loss=mse, optimizer=sgd, batches=data, **options)


@dataclass
class Exported:
    path: Path
    folder: Path
    losses: list[float]
    """The losses of PyTorch."""
    others: list[float]
    """The losses of another seed."""


@pytest.fixture(scope="module")
def four_stages(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    path = tmp_path_factory.mktemp("dropout") / "m.mlir"
    made = exported(model(), "zb-v", 2, seed=SEED)
    return Exported(path, made.save(path), trained(SEED), trained(SEED + 1))


@needs_tool
@pytest.mark.parametrize(
    "options",
    [
        ("--check",),
        ("--schedule=1f1b", "--workers=4"),
        ("--schedule=1f1b", "--workers=4", "--pipeline=pipe-add-recompute,pipe-add-offload"),
        ("--schedule=chimera", "--workers=4", "--pipeline=pipe-add-recompute"),
    ],
    ids=" ".join,
)
def test_losses_are_those_of_pytorch(four_stages: Exported, options: tuple[str, ...]) -> None:
    """Split and whole backwards, with and without recomputation, on two and four workers."""
    losses = losses_of(four_stages.path, four_stages.folder, *options, steps=STEPS)
    assert losses == pytest.approx(four_stages.losses, rel=1e-5)
    assert losses != pytest.approx(four_stages.others, rel=1e-3)  # Masks move them.


@needs_tool
def test_masks_do_not_depend_on_stages(four_stages: Exported, tmp_path: Path) -> None:
    made = exported(model(), "gpipe", 2, seed=SEED)
    folder = made.save(tmp_path / "m.mlir")
    losses = losses_of(tmp_path / "m.mlir", folder, steps=STEPS)
    assert losses == pytest.approx(four_stages.losses, rel=1e-5)


def test_equal_stages_share_their_functions() -> None:
    """Seeds and places are arrays: functions know neither."""
    made, long = exported(model(2), "1f1b", 2), exported(model(), "1f1b", 4, seed=SEED)
    assert made.functions == long.functions
    assert made.arrays["stage1.dropout_key.npy"].tolist() == [0, 3]
    assert long.arrays["stage3.dropout_key.npy"].tolist() == [SEED, 9]
    assert "// Masks of 12 dropouts begin with seed 7." in long.text


def test_evaluation_stays_as_it_is() -> None:
    """Nor does a stage without dropout have any operation of it."""
    made = exported(model(2).eval(), "1f1b", 2)
    assert "dropout" not in made.text and "dropout" not in " ".join(made.arrays)
    text = exported(nn.Sequential(*(Calls(nn.Identity()) for _ in range(2))), "1f1b", 2).text
    for dropping in (nn.Dropout(0.0), nn.Dropout(0.5).eval(), nn.Dropout1d(0.5).eval()):
        layers = nn.Sequential(*(Calls(dropping) for _ in range(2)))
        assert exported(layers, "1f1b", 2).text == text


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_every_way_to_drop_has_its_mask(p: float) -> None:
    """In PyTorch: the n-th dropout of a forward has mask n, whoever calls it."""
    x = torch.arange(1.0, 25).reshape(2, 3, 4)
    unit = torch.eye(3).expand(2, 3, 3)
    heads = nn.MultiheadAttention(4, 2, dropout=p, batch_first=True)
    calls: list[Callable[[], Tensor]] = [
        lambda: nn.Dropout(p)(x),
        lambda: nn.Dropout(p, inplace=True)(x.clone()),
        lambda: functional.dropout(x, p),
        lambda: torch.dropout(x, p, True),
        lambda: torch.dropout_(x.clone(), p, True),
        lambda: heads(x, x, x)[0],
        lambda: torch.native_dropout(x, p, True)[0],
        lambda: functional.scaled_dot_product_attention(x, x, unit, dropout_p=p),
    ]
    with dropout_masks(step=1, microbatch=2, seed=SEED):
        found = [call() for call in calls]
    attention = functional.softmax(x @ x.mT / 2, -1)
    for site, each in enumerate(found):
        if site != 5:
            kept = dropout_mask(each.shape, p, site=site, step=1, microbatch=2, seed=SEED)
            value = attention if site == 7 else x  # That of `heads`, number 5, is inside of it.
            torch.testing.assert_close(each, value * kept / (1 - p) if p < 1 else value * 0)


# Refusals


def again(x: Tensor) -> Tensor:
    found: Tensor = checkpoint(functional.dropout, x, use_reentrant=False)
    return found


REFUSED: list[tuple[nn.Module, str]] = [
    (nn.Dropout1d(), r"dropout1d of the module '1' \(Dropout1d\) drops whole channels or "),
    (nn.Dropout2d(), r"dropout2d of the module '1' \(Dropout2d\) drops whole channels or "),
    (nn.Dropout3d(), r"dropout3d of the module '1' \(Dropout3d\) drops whole channels or "),
    (nn.AlphaDropout(), r"alpha_dropout of the module '1' \(AlphaDropout\) drops whole "),
    (
        nn.FeatureAlphaDropout(),
        r"feature_alpha_dropout of the module '1' \(FeatureAlphaDropout\) drops whole ",
    ),
    (
        Calls(lambda x: functional.alpha_dropout(x, training=True)),
        r"alpha_dropout of the module '1' \(Calls\) drops whole channels",
    ),
    (nn.RReLU(), r"stage 0: aten\.rrelu\w+ of the module '1' \(RReLU\) draws random numbers"),
    (
        Calls(lambda x: x * torch.rand_like(x)),
        r"stage 0: aten\.rand_like of the module '1' \(Calls\) draws random numbers",
    ),
    (Calls(again), "stage 0 cannot be traced: CheckpointError"),
]


@pytest.mark.filterwarnings("ignore:dropout[23]d")
@pytest.mark.parametrize(("middle", "wanted"), REFUSED)
def test_other_random_numbers_are_refused(middle: nn.Module, wanted: str) -> None:
    layers = (nn.Linear(WIDTH, WIDTH), middle, nn.Linear(WIDTH, WIDTH))
    with pytest.raises(FrontendError, match=wanted):
        exported(nn.Sequential(*layers), "gpipe", 2)
    if not isinstance(middle, (Calls, nn.RReLU)):
        said = wanted[: wanted.index(" of the")] + " drops whole channels"
        with pytest.raises(FrontendError, match=said), dropout_masks(step=0, microbatch=0):
            middle(torch.ones(2, 3, 4))


def test_dropout_of_a_loss_is_refused() -> None:
    schedule = pipesched.generate("gpipe", workers=2, microbatches=2)
    layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    x = torch.zeros(SIZE, 2)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return functional.mse_loss(functional.dropout(output), target)

    with pytest.raises(FrontendError, match=r"the loss: aten\.bernoulli draws random numbers"):
        export(layers, schedule, (x, x), loss=loss)

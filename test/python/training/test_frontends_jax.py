"""Functions of JAX as functions of stages: compiled schedules train the same as JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_mlir", reason="needs torch-mlir: pip install 'pipesched[test]'")
jax = pytest.importorskip("jax", reason="needs JAX: pip install 'pipesched[test]'")

import pipesched  # noqa: E402
from compiled_runs import losses_of, needs_tool  # noqa: E402
from pipesched.frontends import FrontendError  # noqa: E402
from pipesched.frontends.jax import adam, export, sgd  # noqa: E402

jnp = jax.numpy
VOCABULARY, WIDTH, CONTEXT, MICROBATCHES, SIZE, STEPS = 13, 8, 5, 4, 2, 20


def norm(scale: Any, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def embed(p: Any, numbers: Any) -> Any:
    return jax.nn.one_hot(numbers, VOCABULARY) @ p["tokens"] + p["places"]


def block(p: Any, x: Any) -> Any:
    query, key, value = (norm(p["first"], x) @ each for each in p["project"])
    scores = jnp.einsum("bth,bsh->bts", query, key) / WIDTH**0.5
    seen = np.tril(np.ones((CONTEXT, CONTEXT), bool))
    x = x + jax.nn.softmax(jnp.where(seen, scores, -1e9)) @ value @ p["join"]
    return x + jax.nn.gelu(norm(p["second"], x) @ p["up"]) @ p["down"]


def head(p: Any, x: Any) -> Any:
    return norm(p["scale"], x) @ p["scores"]


def loss(scores: Any, following: Any) -> Any:
    wanted = jax.nn.one_hot(following, VOCABULARY)
    return -(jax.nn.log_softmax(scores) * wanted).sum(-1).mean()


STAGES = [embed, block, block, head]


def parameters() -> list[Any]:
    chance = np.random.default_rng(0)

    def made(*shape: int) -> Any:
        return jnp.asarray(0.3 * chance.standard_normal(shape), "float32")

    def of_block() -> Any:
        ones = jnp.ones(WIDTH)
        return {
            "first": ones,
            "second": ones,
            "project": [made(WIDTH, WIDTH) for _ in range(3)],
            "join": made(WIDTH, WIDTH),
            "up": made(WIDTH, 2 * WIDTH),
            "down": made(2 * WIDTH, WIDTH),
        }

    first = {"tokens": made(VOCABULARY, WIDTH), "places": made(CONTEXT, WIDTH)}
    last = {"scale": jnp.ones(WIDTH), "scores": made(WIDTH, VOCABULARY)}
    return [first, of_block(), of_block(), last]


def batches() -> list[tuple[Any, Any]]:
    chance = np.random.default_rng(1)
    shape = (MICROBATCHES * SIZE, CONTEXT + 1)
    whole = [chance.integers(0, VOCABULARY, shape) for _ in range(STEPS)]
    return [(each[:, :-1], each[:, 1:]) for each in whole]


DATA = batches()
EXAMPLE = (DATA[0][0][:SIZE], DATA[0][1][:SIZE])


def trained(rate: float) -> list[float]:
    """The losses of JAX itself, with Adam."""

    def whole(p: Any, x: Any, y: Any) -> Any:
        for stage, own in zip(STAGES, p, strict=True):
            x = stage(own, x)
        return loss(x, y)

    def mean(p: Any, x: Any, y: Any) -> Any:
        parts = zip(jnp.split(x, MICROBATCHES), jnp.split(y, MICROBATCHES), strict=True)
        return sum(whole(p, a, b) for a, b in parts) / MICROBATCHES

    def step(p: Any, m: Any, v: Any, number: Any, x: Any, y: Any) -> Any:
        found, gradient = jax.value_and_grad(mean)(p, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradient)
        first, second = 1 - 0.9**number, 1 - 0.999**number
        p = jax.tree.map(
            lambda p, m, v: p - rate * (m / first) / (jnp.sqrt(v / second) + 1e-8), p, m, v
        )
        return p, m, v, found

    compiled: Any = jax.jit(step)
    p = parameters()
    m = v = jax.tree.map(jnp.zeros_like, p)
    losses = []
    for number, (x, y) in enumerate(DATA):
        p, m, v, found = compiled(p, m, v, number + 1.0, jnp.asarray(x), jnp.asarray(y))
        losses.append(float(found))
    return losses


@needs_tool
def test_losses_are_those_of_jax(tmp_path: Path) -> None:
    schedule = pipesched.generate("zb-v", workers=2, microbatches=MICROBATCHES, name="decoder")
    made = export(
        STAGES, parameters(), schedule, EXAMPLE, loss=loss, optimizer=adam(0.01), batches=DATA
    )
    # An embedding, a block and a head; all of the backward of an embedding is its W.
    assert made.functions == 3 * 5 - 1 + 3
    assert "stage 2 forward @stage1_forward" in made.text
    assert "stage1.project.2.npy" in made.arrays
    folder = made.save(tmp_path / "decoder.mlir")
    wanted = trained(0.01)
    found = losses_of(tmp_path / "decoder.mlir", folder, steps=STEPS)
    assert found == pytest.approx(wanted, rel=1e-5)


def curved(p: Any, x: Any) -> Any:
    """Operations that JAX has in `chlo`, and a checkpoint."""
    y = jnp.square(x @ p["w"]) + jax.nn.gelu(x, approximate=False) + x.var(-1, keepdims=True)
    return y + jax.checkpoint(jnp.sinh)(jnp.tanh(y))


@needs_tool
def test_operations_of_chlo_compute_what_jax_computes(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    own = [{"w": jnp.asarray(0.3 * chance.standard_normal((4, 4)), "float32")}, {}]
    x, y = (chance.standard_normal((4, 4)).astype("float32") for _ in range(2))
    stages: list[Any] = [curved, lambda _, x: jnp.tanh(x)]  # The last one has no parameters.

    def mean(p: Any) -> Any:
        return ((stages[1](p[1], curved(p[0], x)) - y) ** 2).mean()

    schedule = pipesched.generate("gpipe", workers=2, microbatches=2, name="curved")
    made = export(
        stages,
        own,
        schedule,
        (x[:2], y[:2]),
        loss=lambda y, t: ((y - t) ** 2).mean(),
        optimizer=sgd(0.5),
        batches=[(x, y)],
    )
    folder = made.save(tmp_path / "curved.mlir")
    found = losses_of(tmp_path / "curved.mlir", folder, steps=2)
    first, gradient = jax.value_and_grad(mean)(own)
    stepped = jax.tree.map(lambda p, g: p - 0.5 * g, own, gradient)
    assert found == pytest.approx([float(first), float(mean(stepped))], rel=1e-5)


def gathering(p: Any, numbers: Any) -> Any:
    return p["tokens"][numbers]


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [
        ([embed, block, head], "there are 3 functions; schedule '"),
        ([gathering, block, block, head], "stage 0, .* cannot be lowered: .*gather"),
        ([lambda p, x: (embed(p, x), 1), block, block, head], "stage 0 gives a tuple; wanted one"),
    ],
)
def test_what_has_no_form_is_refused(stages: list[Any], wanted: str) -> None:
    schedule = pipesched.generate("zb-v", workers=2, microbatches=MICROBATCHES)
    with pytest.raises(FrontendError, match=wanted):
        export(stages, parameters(), schedule, EXAMPLE, loss=loss, optimizer=sgd(0.1))

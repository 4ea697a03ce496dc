"""`pipesched.jax` trains the same as JAX without a pipeline (docs/Jax.md)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs JAX: pip install 'pipesched[test]'")

import pipesched  # noqa: E402
from pipesched import PipeSchedError, Schedule  # noqa: E402
from pipesched.frontends import FrontendError  # noqa: E402
from pipesched.jax import PipelineRuntime  # noqa: E402

jnp = jax.numpy
EXAMPLE = Path(__file__).parents[3] / "examples" / "train_jax.py"
PAGE = Path(__file__).parents[3] / "docs" / "Jax.md"
MICROBATCHES, SIZE, WIDTH = 8, 2, 4


@pytest.fixture(scope="module", autouse=True)
def _float64() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def layer(own: Any, x: Any) -> Any:
    """Has parameters with a plain gradient, used twice, unused, and not trained."""
    y = jnp.tanh(x @ own["w"][0] + own["b"]) @ own["w"][0]
    return jax.checkpoint(jnp.sin)(y) * own["times"] + own["moved"]


def loss(y: Any, target: Any) -> Any:
    return ((y - target) ** 2).mean()


def parameters(stages: int) -> list[Any]:
    chance = np.random.default_rng(0)

    def of_stage() -> Any:
        return {
            "w": [chance.standard_normal((WIDTH, WIDTH)) / 2],
            "b": chance.standard_normal(WIDTH),
            "moved": chance.standard_normal((SIZE, WIDTH)),
            "unused": np.ones(3),
            "times": 2,
        }

    return [of_stage() for _ in range(stages)]


def batch() -> tuple[Any, Any]:
    chance = np.random.default_rng(1)
    shape = (MICROBATCHES * SIZE, WIDTH)
    return chance.standard_normal(shape), chance.standard_normal(shape)


def without_pipeline(functions: list[Any], params: list[Any], x: Any, y: Any) -> Any:

    def mean(params: list[Any]) -> Any:
        total = 0
        for a, b in zip(jnp.split(x, MICROBATCHES), jnp.split(y, MICROBATCHES), strict=True):
            for function, own in zip(functions, params, strict=True):
                a = function(own, a)
            total += loss(a, b) / MICROBATCHES
        return total

    return jax.value_and_grad(mean, allow_int=True)(params)


def generate(family: str, workers: int, change: str = "", **options: Any) -> Schedule:
    made = pipesched.generate(family, workers=workers, microbatches=MICROBATCHES, **options)
    return made.transform(change) if change else made


TABLES: list[tuple[str, int, str]] = [
    ("gpipe", 8, ""),
    ("1f1b", 4, ""),
    ("1f1b", 4, "pipe-add-recompute"),
    ("zb-h1", 4, "pipe-add-recompute"),
    ("zb-v", 4, ""),
    ("chimera", 4, ""),
    ("dualpipe", 4, ""),
    ("greedy", 4, ""),
]


@pytest.mark.parametrize(("family", "workers", "change"), TABLES)
def test_gradients_are_those_of_jax(family: str, workers: int, change: str) -> None:
    schedule = generate(family, workers, change)
    x, y = batch()
    count = schedule.blocks
    functions = [layer] * count
    runtime = PipelineRuntime(schedule, functions, parameters(count), loss)
    for _ in range(2):  # The second step has other parameters.
        wanted_loss, wanted = without_pipeline(functions, jax.device_get(runtime.params), x, y)
        found_loss, found = runtime.step(x, y)
        assert float(found_loss) == pytest.approx(float(wanted_loss), rel=1e-12)
        for stage, (mine, jaxs) in enumerate(zip(found, wanted, strict=True)):
            assert not np.any(mine["times"])
            for name in ("w", "b", "moved", "unused"):
                pair = (jax.tree.leaves(each[name])[0] for each in (mine, jaxs))
                a, b = map(np.asarray, pair)
                assert np.abs(a - b).max() <= 1e-12 * max(1, np.abs(b).max()), (stage, name)
        runtime.params = jax.tree.map(
            lambda p, g: p - 0.1 * g if g.dtype == "float64" else p, runtime.params, found
        )


def on_host(call: Callable[[], Any]) -> Any:
    """Returns a function that returns its argument, and makes a call in F and in B."""

    def called(y: Any) -> Any:
        call()
        return y

    def move(x: Any) -> Any:
        return jax.pure_callback(called, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    made: Any = jax.custom_vjp(lambda x: x)
    made.defvjp(lambda x: (move(x), None), lambda _, gradient: (move(gradient),))
    return made


SECONDS = 0.01


def test_steps_are_compared_with_their_prediction() -> None:
    pause = on_host(lambda: time.sleep(SECONDS))
    sleeping: Any = lambda own, x: pause(x) * own
    schedule = generate("1f1b", 4)
    runtime = PipelineRuntime(schedule, [sleeping] * 4, [jnp.ones(())] * 4, loss)
    runtime.step(*batch())
    with runtime.record() as recording:
        for _ in range(3):
            runtime.step(*batch())
    measured = recording.gather()
    assert measured.source == "pipesched.jax" and measured.steps == 3
    frame = measured.to_frame()
    # A worker has 8 forwards and 8 backwards. Stage 0 has no gradient to compute, so one thread
    # for all workers would take 56 cells, one after the other.
    assert 8 * SECONDS <= measured.step_s < 45 * SECONDS
    computes = frame[frame.kind == "compute"].sort_values(["step", "worker", "index"])
    for _, rows in computes.groupby(["step", "worker"]):
        assert (rows.start_s.to_numpy()[1:] >= rows.end_s.to_numpy()[:-1]).all()
    assert (frame[frame.kind == "recv"].arrived_s >= 0).all()
    assert "measured" in measured.compare().text()


def test_an_error_names_its_cell_and_ends_the_step() -> None:
    def fail() -> None:
        raise ValueError("as told")

    failing = on_host(fail)
    functions: list[Any] = [lambda own, x: x * own] * 4
    functions[2] = lambda own, x: failing(x) * own
    runtime = PipelineRuntime(generate("1f1b", 4), functions, [jnp.ones(())] * 4, loss)
    with pytest.raises(Exception, match="as told") as caught:
        runtime.step(*batch())
    assert any("worker 2, at" in note and "2F0" in note for note in caught.value.__notes__)


LONE = """pipe.schedule @lone workers 3 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
  worker 2 runs []
}"""


def make(schedule: Schedule, functions: int = 4, params: int = 4, devices: int = 4) -> Any:
    given = jax.devices()[:devices]
    own = parameters(4)[:params] if params <= 4 else parameters(params)
    return PipelineRuntime(schedule, [layer] * functions, own, loss, given)


TWICE = {"a.b": np.ones(1), "a": {"b": np.ones(1)}}
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: make(generate("1f1b", 4), functions=3), "there are 3 functions; .* has 4 stages"),
    (lambda: make(generate("1f1b", 4), params=3), "3 trees of parameters; .* has 4 stages"),
    (lambda: make(generate("1f1b", 4), devices=3), "there are 3 devices; .* has 4 workers"),
    (lambda: make(Schedule.from_text(LONE)), "worker 2 of 'lone' has no stages"),
    (lambda: make(generate("1f1b", 4, "pipe-add-optimizer")), "runs .*O.*, which pipesched.jax"),
    (lambda: make(generate("seq1f1b", 4, slices=2)), "has 2 slices a microbatch"),
    (lambda: make(generate("1f1b", 4)).step(np.ones((9, 4)), np.ones((9, 4))), "inputs have the"),
    (
        lambda: PipelineRuntime(generate("gpipe", 2), [layer] * 2, [TWICE] * 2, loss),
        "two parameters of one name",
    ),
]


@pytest.mark.parametrize(("call", "wanted"), REFUSED)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], wanted: str) -> None:
    with pytest.raises(PipeSchedError, match=wanted):
        call()


def test_a_stage_that_gives_whole_numbers_is_refused() -> None:
    functions: list[Any] = [lambda own, x: x.astype(int), layer]
    schedule = generate("gpipe", 2)
    runtime = PipelineRuntime(schedule, functions, parameters(2), loss)
    with pytest.raises(FrontendError, match="stage 0 gives int64 numbers, which have no gradient"):
        runtime.step(*batch())


def test_the_example_trains() -> None:
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    command = [sys.executable, str(EXAMPLE), "1f1b"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    first, last = map(float, done.stdout.splitlines()[0].split("loss ")[1].split(" to "))
    assert last < first / 2
    assert "predicted" in done.stdout


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    exec(text.split("```python\n")[1].split("```")[0], {})
    assert "predicted" in capsys.readouterr().out

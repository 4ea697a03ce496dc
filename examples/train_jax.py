"""Trains functions of JAX by pipeline schedules, and compares the steps with their predictions.

XLA_FLAGS=--xla_force_host_platform_device_count=4 python examples/train_jax.py 1f1b zb-v
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pipesched
from pipesched.jax import PipelineRuntime

WORKERS, MICROBATCHES, SAMPLES, WIDTH, RATE = 4, 8, 64, 32, 0.5


def layer(own, x):
    return jnp.tanh(x @ own["w"] + own["b"])


def loss(y, target):
    return ((y.mean(-1) - target) ** 2).mean()


def train(family, steps=20):
    """Trains by a schedule, and returns the times of the last steps."""
    schedule = pipesched.generate(
        family, workers=WORKERS, microbatches=MICROBATCHES, name=family.replace("-", "_")
    )
    keys = jax.random.split(jax.random.key(0), schedule.blocks)
    params = [{"w": jax.random.normal(k, (WIDTH, WIDTH)) / 6, "b": jnp.zeros(WIDTH)} for k in keys]
    runtime = PipelineRuntime(schedule, [layer] * len(keys), params, loss, jax.devices()[:WORKERS])
    x = np.random.default_rng(0).standard_normal((SAMPLES, WIDTH), "float32")
    target = np.tanh(x[:, 0])

    def run(count):
        for _ in range(count):
            found, gradients = runtime.step(x, target)
            runtime.params = jax.tree.map(lambda p, g: p - RATE * g, runtime.params, gradients)
        return float(found)

    first = run(1)
    run(steps - 6)
    with runtime.record() as recording:
        last = run(5)
    print(f"{family}: loss {first:.4f} to {last:.4f}")
    return recording.gather()


if __name__ == "__main__":
    for family in sys.argv[1:]:
        comparison = train(family).compare()
        print(comparison.text())

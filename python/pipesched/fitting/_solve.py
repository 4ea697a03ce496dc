"""Least squares for one part of a system: a rate whose share is a curve over the size, and a
latency. Times are linear in the latency and in the inverse of the share, so that Gauss-Newton steps
with constraints of sign suffice (numpy solves them; there are at most eight unknowns).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEAST_SHARE = 1e-6
"""System files have shares in parts per million."""
MAX_POINTS = 6
"""Of a curve. Those that ship have one to four."""
LEAST_RMS = 0.002
"""Relative errors below this are not worth another point."""
GAIN = 0.9
"""Another point must reduce the error at least by this factor, and the Bayesian information
criterion (Schwarz 1978) too."""
_HUBER = 1.345
"""Errors beyond this many standard deviations weigh less (Huber 1964)."""
LEAST_SCALE = 0.03
"""The least standard deviation that is assumed. So a few errors among many exact samples, as where
a curve lacks a point between two others, do not count as outliers.
"""


@cache
def _subsets(size: int) -> Array:
    return np.array(list(product((0.0, 1.0), repeat=size)))


def nonnegative(matrix: Array, target: Array) -> Array:
    """The x >= 0 that minimises |matrix x - target|. The solution is the unconstrained one of the
    columns where x > 0, so the best one of all subsets of columns whose solution is feasible is it.
    """
    # Scale by powers of two, which changes no digit, so that squares do not overflow.
    power = np.ldexp(0.5, np.frexp(np.abs(matrix).max(axis=0, initial=0.0))[1])
    scale = power * np.linalg.norm(matrix / power, axis=0)
    scale[scale == 0] = 1
    scaled = matrix / scale
    gram, right = scaled.T @ scaled, scaled.T @ target
    gram = gram + 1e-12 * np.eye(len(gram))
    masks = _subsets(len(gram))
    systems = gram * masks[:, :, None] * masks[:, None, :]
    systems += np.einsum("si,ij->sij", 1 - masks, np.eye(len(gram)))
    found = np.linalg.solve(systems, (right * masks)[:, :, None])[:, :, 0]
    value = np.einsum("si,ij,sj->s", found, gram, found) - 2 * found @ right
    value[(found < 0).any(axis=1)] = np.inf
    return np.asarray(found[int(np.argmin(value))] / scale)


@dataclass(frozen=True)
class Data:
    """Samples of one part. Times are predicted as work / share(size) + latencies * latency."""

    work: Array
    """Seconds at the full rate."""
    size: Array
    """What the curve is over."""
    latencies: Array
    """How often the latency is paid; zeros if there is none."""
    seconds: Array
    weight: Array

    @property
    def sizes(self) -> int:
        """How many sizes there are."""
        return len(np.unique(self.size))


@dataclass(frozen=True)
class Solution:
    """A curve and a latency."""

    points: tuple[float, ...]
    shares: tuple[float, ...]
    latency: float
    rms: float
    """Robust mean of relative errors."""
    latency_error: float = 0.0
    share_error: float = 0.0
    """Standard errors: of the latency in s, and of the last share, relative."""

    def at(self, size: Array) -> Array:
        """The shares at these sizes, as `EfficiencyCurve::at` computes them."""
        return np.interp(size, self.points, self.shares)

    def predict(self, data: Data) -> Array:
        """Seconds."""
        return data.work / self.at(data.size) + data.latencies * self.latency


def _basis(size: Array, points: tuple[float, ...]) -> Array:
    """Shares as a sum of steps up: the first share, and the rise to each further point."""
    columns = [np.ones_like(size)]
    for left, right in zip(points, points[1:], strict=False):
        columns.append(np.clip((size - left) / (right - left), 0, 1))
    return np.stack(columns, axis=1)


def _scale(errors: Array, weight: Array) -> float:
    order = np.argsort(np.abs(errors))
    cumulated = np.cumsum(weight[order])
    middle = int(np.searchsorted(cumulated, cumulated[-1] / 2))
    return max(1.4826 * float(np.abs(errors[order])[middle]), LEAST_SCALE)


def _huber(errors: Array, scale: float) -> Array:
    far = np.maximum(np.abs(errors) / (_HUBER * scale), 1)
    return np.asarray(1 / far)


class _Problem:
    """Least squares for given points of the curve."""

    def __init__(self, data: Data, points: tuple[float, ...], scale: float) -> None:
        self.data, self.points, self.scale = data, points, scale
        self.basis = _basis(data.size, points)
        self.has_latency = bool(data.latencies.any())

    def errors(self, rises: Array, latency: float) -> Array:
        """Relative errors of the times."""
        data = self.data
        shares = self.basis @ rises
        return np.asarray((data.work / shares + data.latencies * latency) / data.seconds - 1)

    def _linear(self, rises: Array, latency: float, root: Array) -> tuple[Array, Array]:
        """The errors to first order around this point: matrix (rises, latency) - target."""
        data = self.data
        shares = self.basis @ rises
        slope = (data.work / shares**2 / data.seconds)[:, None] * self.basis
        columns = [-slope]
        if self.has_latency:
            columns.append((data.latencies / data.seconds)[:, None])
        matrix = np.concatenate(columns, axis=1) * root[:, None]
        target = (1 - 2 * data.work / shares / data.seconds) * root
        return matrix, target

    def step(self, rises: Array, latency: float, weight: Array) -> tuple[Array, float]:
        """One step of Gauss-Newton, shortened until the sum of squares falls."""
        root = np.sqrt(weight)
        matrix, target = self._linear(rises, latency, root)
        floor = np.zeros(matrix.shape[1])
        floor[0] = LEAST_SHARE * 1.0000001
        found = nonnegative(matrix, target - matrix @ floor) + floor
        rises_to = found[: len(rises)]
        latency_to = float(found[-1]) if self.has_latency else 0.0
        now = float(weight @ self.errors(rises, latency) ** 2)
        for part in (1, 0.5, 0.25, 0.1, 0.02):
            between = rises + part * (rises_to - rises)
            later = latency + part * (latency_to - latency)
            if float(weight @ self.errors(between, later) ** 2) < now:
                return between, later
        return rises, latency

    def solve(self, rises: Array, latency: float, rounds: int) -> tuple[Array, float]:
        """Repeats steps, with less weight for what is far off."""
        for _ in range(rounds):
            errors = self.errors(rises, latency)
            weight = self.data.weight * _huber(errors, self.scale)
            before = rises, latency
            rises, latency = self.step(rises, latency, weight)
            change = np.abs(rises - before[0]).max() / rises.sum()
            if change < 1e-9 and abs(latency - before[1]) <= 1e-9 * latency:
                break
        return rises, latency

    def solution(self, rises: Array, latency: float) -> Solution:
        """The result, with its errors."""
        errors = self.errors(rises, latency)
        weight = self.data.weight * _huber(errors, self.scale)
        rms = float(np.sqrt(weight @ errors**2 / weight.sum()))
        matrix, _ = self._linear(rises, latency, np.sqrt(weight))
        free = max(len(errors) - matrix.shape[1], 1)
        cover = np.linalg.pinv(matrix.T @ matrix) * float(weight @ errors**2) / free
        deviation = np.sqrt(np.maximum(np.diag(cover), 0))
        top = np.zeros(len(cover))
        top[: len(rises)] = 1
        shares = np.cumsum(rises)
        return Solution(
            self.points,
            tuple(float(share) for share in shares),
            latency,
            rms,
            float(deviation[-1]) if self.has_latency else 0.0,
            float(np.sqrt(max(top @ cover @ top, 0)) / shares[-1]),
        )


def flat(data: Data) -> Solution:
    """One share for all sizes; an exact solution, since times are linear in its inverse. The share
    is infinite if times do not grow with the work.
    """
    columns = [data.work / data.seconds]
    if data.latencies.any():
        columns.append(data.latencies / data.seconds)
    matrix = np.stack(columns, axis=1)
    weight = data.weight
    found, scale = np.zeros(len(columns)), LEAST_SCALE
    for _ in range(20):
        root = np.sqrt(weight)
        found = nonnegative(matrix * root[:, None], root)
        errors = matrix @ found - 1
        scale = _scale(errors, data.weight)
        weight = data.weight * _huber(errors, scale)
    share = 1 / found[0] if found[0] > 0 else np.inf
    latency = float(found[1]) if len(found) > 1 else 0.0
    if not np.isfinite(share):
        return Solution((0.0,), (np.inf,), latency, np.inf)
    return _Problem(data, (0.0,), scale).solution(np.array([share]), latency)


_COARSE = (1.0, 2.0, 5.0)
_FINE = (1.0, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.4, 8.0)


def _sizes(low: float, high: float, digits: tuple[float, ...]) -> list[float]:
    """Round sizes between `low` and `high`: digits times powers of ten."""
    if not 0 < low < high:
        return []
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    rounds = [float(f"{digit}e{power}") for power in powers for digit in digits]
    return [size for size in rounds if low < size < high]


def _criterion(solution: Solution, data: Data) -> float:
    """Schwarz's, for normal errors; a point has a size and a share."""
    number = len(data.work)
    squares = max(solution.rms, LEAST_RMS) ** 2
    parameters = 2 * len(solution.points) - 1 + bool(data.latencies.any())
    return float(number * np.log(squares) + parameters * np.log(number))


class _Search:
    """Looks for the points of a curve. Errors of all curves are compared at one scale, that of the
    best curve so far.
    """

    def __init__(self, data: Data, best: Solution) -> None:
        self.data, self.best, self.scale = data, best, 0.0
        self.rescale()

    def rescale(self) -> None:
        """Takes the scale from the best curve, and fits the curve again with it."""
        errors = self.best.predict(self.data) / self.data.seconds - 1
        self.scale = _scale(errors, self.data.weight)
        self.best = self.at(self.best.points, 40)

    def at(self, points: tuple[float, ...], rounds: int) -> Solution:
        """The best curve with these points, found from the best curve so far."""
        shares = np.maximum(self.best.at(np.array(points)), LEAST_SHARE * 1.0001)
        rises = np.maximum(np.diff(shares, prepend=0.0), 1e-9)
        problem = _Problem(self.data, points, self.scale)
        return problem.solution(*problem.solve(rises, self.best.latency, rounds))

    def grown(self, sizes: list[float]) -> Solution | None:
        """The best curve with one point more, which is then moved."""
        points = self.best.points
        tried = [self.at(tuple(sorted((*points, s))), 6) for s in sizes if s not in points]
        if not tried:
            return None
        return self.moved(min(tried, key=lambda solution: solution.rms))

    def moved(self, found: Solution) -> Solution:
        """Moves each point but the first to the size near it that fits best."""
        last = float(self.data.size.max())
        for at in range(1, len(found.points)):
            here = found.points[at]
            others = found.points[:at] + found.points[at + 1 :]
            low = max(found.points[at - 1], here / 2.6)
            high = min((*found.points[at + 1 :], last)[0], here * 2.6)
            for size in _sizes(low, high, _FINE):
                tried = self.at(tuple(sorted((*others, size))), 12)
                if tried.rms < found.rms:
                    found = tried
        return found

    def drop_idle_points(self) -> None:
        """Leaves out points that later ones have made needless."""
        for point in self.best.points[1:]:
            found = self.at(tuple(p for p in self.best.points if p != point), 40)
            if _criterion(found, self.data) <= _criterion(self.best, self.data):
                self.best = found


def curve(data: Data, max_points: int = MAX_POINTS) -> Solution:
    """A curve that starts at size 0 and gets one round size after the other, always the one that
    reduces the errors most, as long as that is worth a further point.
    """
    best = flat(data)
    if not np.isfinite(best.shares[0]):
        return best
    search = _Search(data, best)
    sizes = _sizes(float(data.size.min()), float(data.size.max()) * 1.001, _COARSE)
    while len(search.best.points) < min(max_points, data.sizes - 1):
        found = search.grown(sizes)
        if found is None or found.rms > GAIN * search.best.rms:
            break
        if _criterion(found, data) >= _criterion(search.best, data):
            break
        search.best = found
        search.rescale()
    search.drop_idle_points()
    return search.best

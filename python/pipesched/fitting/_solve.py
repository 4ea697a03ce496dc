"""Least squares for one part of a system: a rate, whose share of the peak is a curve over the size,
and a latency. Times are linear in the latency and in the inverse of the share, so Gauss-Newton
steps with constraints of sign suffice. There are at most eight unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEAST_SHARE = 1e-6
"""System files have shares in parts per million."""
MOST_SHARE = 100.0
"""The largest share, as a multiple of the samples' highest rate. Without it, steps would grow
forever if all time is latency.
"""
MAX_POINTS = 6
"""The most points of a curve. Shipped curves have one to four."""
LEAST_RMS = 0.002
"""Relative errors below this are not worth another point."""
GAIN = 0.9
"""Another point must reduce the error by this factor, and by Schwarz's criterion (1978)."""
_HUBER = 1.345
"""Errors beyond this many standard deviations weigh less (Huber 1964)."""
FALL_GAIN = 0.8
"""A curve that falls is chosen only if it reduces the error by this factor compared with one that
does not.
"""
LONG_RUN = 4
"""This many neighbouring samples are not slow by chance, so they are kept."""
FALL_SIZES = 3
"""A curve may fall only if at least this many sizes show it."""
WINDOW = 9
"""The number of neighbouring samples that predict the time of one of them."""
SPAN = 5.0
"""The largest logarithm of the ratio of two sizes whose samples predict each other."""
FAST_WEIGHT = 2.0
"""The weight of an error of a fast sample relative to an error of a slow one."""
MOST_SLOPE = 1.25
"""The largest exponent with which times may grow with sizes."""
LOST = 5.0
"""A sample is lost if it is too slow by this many standard deviations,"""
LEAST_LOST = 0.25
"""and by at least this much, as a logarithm."""
MOST_LOST = 0.45
"""The largest share of lost samples. If more are slow, it is unknown which ones are right."""
LEAST_SCALE = 0.03
"""The smallest assumed standard deviation: otherwise small errors among exact samples would count
as outliers.
"""


@cache
def _subsets(size: int) -> Array:
    return np.array(list(product((0.0, 1.0), repeat=size)))


def nonnegative(matrix: Array, target: Array) -> Array:
    """Returns the x >= 0 that minimises |matrix x - target|: the best of the solutions for every
    subset of the columns.
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
    """The size of each sample: where it is on the curve."""
    latencies: Array
    """The number of latencies in each sample; 0 if there is none."""
    seconds: Array
    weight: Array

    @property
    def sizes(self) -> int:
        return len(np.unique(self.size))

    def of(self, chosen: npt.NDArray[Any]) -> Data:
        parts = (self.work, self.size, self.latencies, self.seconds, self.weight)
        return Data(*(part[chosen] for part in parts))


@dataclass(frozen=True)
class Solution:
    """A curve and a latency."""

    points: tuple[float, ...]
    shares: tuple[float, ...]
    latency: float
    rms: float
    """Robust mean of relative errors."""
    falls: bool = False
    """Whether the curve may fall with the size."""
    lost: frozenset[int] = frozenset()
    """The samples without weight, because something other than the part slowed them down."""
    latency_error: float = 0.0
    share_error: float = 0.0
    """Standard errors: of the latency in s, and of the last share, relative."""

    def at(self, size: Array) -> Array:
        """The shares at these sizes, as `EfficiencyCurve::at` computes them."""
        return np.interp(size, self.points, self.shares)

    def predict(self, data: Data) -> Array:
        """Seconds."""
        return data.work / self.at(data.size) + data.latencies * self.latency


def _basis(size: Array, points: tuple[float, ...], falls: bool) -> Array:
    """Returns the basis of the shares: steps upwards; for a curve that may fall, the shares of the
    points.
    """
    columns = [np.ones_like(size)]
    for left, right in zip(points, points[1:], strict=False):
        columns.append(np.clip((size - left) / (right - left), 0, 1))
    steps = np.stack(columns, axis=1)
    return steps - np.pad(steps[:, 1:], ((0, 0), (0, 1))) if falls else steps


def _scale(errors: Array, weight: Array) -> float:
    order = np.argsort(np.abs(errors))
    cumulated = np.cumsum(weight[order])
    middle = int(np.searchsorted(cumulated, cumulated[-1] / 2))
    return max(1.4826 * float(np.abs(errors[order])[middle]), LEAST_SCALE)


def _huber(errors: Array, scale: float) -> Array:
    far = np.maximum(np.abs(errors) / (_HUBER * scale), 1)
    return np.asarray(1 / far)


class _Problem:
    """Least squares for given points of the curve, in the unknowns of `_basis`."""

    def __init__(
        self, data: Data, points: tuple[float, ...], scale: float, falls: bool = False
    ) -> None:
        self.data, self.points, self.scale, self.falls = data, points, scale, falls
        self.basis = _basis(data.size, points, falls)
        self.has_latency = bool(data.latencies.any())
        self.most = MOST_SHARE * float((data.work / data.seconds).max(initial=1e-6))

    def unknowns(self, shares: Array) -> Array:
        """Returns the unknowns for given shares at the points."""
        shares = np.maximum(shares, LEAST_SHARE * 1.0001)
        return shares if self.falls else np.maximum(np.diff(shares, prepend=0.0), 1e-9)

    def errors(self, rises: Array, latency: float) -> Array:
        """Relative errors of the times."""
        data = self.data
        shares = self.basis @ rises
        return np.asarray((data.work / shares + data.latencies * latency) / data.seconds - 1)

    def _linear(self, rises: Array, latency: float, root: Array) -> tuple[Array, Array]:
        """Returns the errors to first order at this point, as matrix and target."""
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
        floor[: len(rises) if self.falls else 1] = LEAST_SHARE * 1.0000001
        found = nonnegative(matrix, target - matrix @ floor) + floor
        rises_to = np.minimum(found[: len(rises)], self.most)
        latency_to = float(found[-1]) if self.has_latency else 0.0
        now = float(weight @ self.errors(rises, latency) ** 2)
        for part in (1, 0.5, 0.25, 0.1, 0.02):
            between = rises + part * (rises_to - rises)
            later = latency + part * (latency_to - latency)
            if float(weight @ self.errors(between, later) ** 2) < now:
                return between, later
        return rises, latency

    def solve(self, rises: Array, latency: float, rounds: int) -> tuple[Array, float]:
        """Repeats the steps; outliers get less weight each time."""
        for _ in range(rounds):
            errors = self.errors(rises, latency)
            weight = self.data.weight * _huber(errors, self.scale)
            before = rises, latency
            rises, latency = self.step(rises, latency, weight)
            change = np.abs(rises - before[0]).max() / np.abs(rises).sum()
            if change < 1e-9 and abs(latency - before[1]) <= 1e-9 * latency:
                break
        return rises, latency

    def solution(self, rises: Array, latency: float) -> Solution:
        errors = self.errors(rises, latency)
        weight = self.data.weight * _huber(errors, self.scale)
        rms = _rms(errors, self.data.weight, self.scale)
        matrix, _ = self._linear(rises, latency, np.sqrt(weight))
        free = max(len(errors) - matrix.shape[1], 1)
        cover = np.linalg.pinv(matrix.T @ matrix) * float(weight @ errors**2) / free
        deviation = np.sqrt(np.maximum(np.diag(cover), 0))
        top = np.zeros(len(cover))
        top[len(rises) - 1 if self.falls else 0 : len(rises)] = 1
        shares = rises if self.falls else np.cumsum(rises)
        return Solution(
            self.points,
            tuple(float(share) for share in shares),
            latency,
            rms,
            self.falls,
            latency_error=float(deviation[-1]) if self.has_latency else 0.0,
            share_error=float(np.sqrt(max(top @ cover @ top, 0)) / shares[-1]),
        )


def flat(data: Data) -> Solution:
    """One share for all sizes, solved exactly; infinite if times do not grow with the work."""
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
    """A search for the points of a curve. Errors are scaled by the best curve found so far."""

    def __init__(self, data: Data, best: Solution, falls: bool) -> None:
        self.data, self.best, self.scale, self.falls = data, best, 0.0, falls
        self.rescale()

    def rescale(self) -> None:
        """Takes the scale from the best curve, and fits the curve again with it."""
        errors = self.best.predict(self.data) / self.data.seconds - 1
        self.scale = _scale(errors, self.data.weight)
        self.best = self.at(self.best.points, 40)

    def at(self, points: tuple[float, ...], rounds: int) -> Solution:
        """The best curve with these points, found from the best curve so far."""
        problem = _Problem(self.data, points, self.scale, self.falls)
        begin = problem.unknowns(self.best.at(np.array(points)))
        return problem.solution(*problem.solve(begin, self.best.latency, rounds))

    def grow(self, sizes: list[float]) -> Solution | None:
        """Adds one point to the best curve and moves it to its best size."""
        points = self.best.points
        tried = [self.at(tuple(sorted((*points, s))), 6) for s in sizes if s not in points]
        if not tried:
            return None
        return self.move_points(min(tried, key=lambda solution: solution.rms))

    def move_points(self, found: Solution) -> Solution:
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
        """Removes points that became unnecessary when later ones were added."""
        for point in self.best.points[1:]:
            found = self.at(tuple(p for p in self.best.points if p != point), 40)
            if _criterion(found, self.data) <= _criterion(self.best, self.data):
                self.best = found


def _search(data: Data, max_points: int, falls: bool) -> Solution:
    """A curve from size 0 that gets round sizes one by one while they reduce the errors enough."""
    search = _Search(data, flat(data), falls)
    sizes = _sizes(float(data.size.min()), float(data.size.max()) * 1.001, _COARSE)
    while len(search.best.points) < min(max_points, data.sizes - 1):
        found = search.grow(sizes)
        if found is None or found.rms > GAIN * search.best.rms:
            break
        if _criterion(found, data) >= _criterion(search.best, data):
            break
        search.best = found
        search.rescale()
    search.drop_idle_points()
    return search.best


def _best(data: Data, max_points: int) -> Solution:
    """The best curve that rises, or one that falls somewhere if that is much better."""
    rising = _search(data, max_points, falls=False)
    free = _search(data, max_points, falls=True)
    if all(np.diff(free.shares) >= 0) or not _falls_by_several(free, data):
        return rising
    errors = [each.predict(data) / data.seconds - 1 for each in (rising, free)]
    scale = min(_scale(each, data.weight) for each in errors)
    one, other = (
        replace(each, rms=_rms(found, data.weight, scale))
        for each, found in zip((rising, free), errors, strict=True)
    )
    is_better = other.rms < FALL_GAIN * max(one.rms, LEAST_RMS)
    return free if is_better and _criterion(other, data) < _criterion(one, data) else rising


def _falls_by_several(curve: Solution, data: Data) -> bool:
    """Returns whether several sizes support each falling part of the curve; a single slow size
    proves nothing.
    """
    ends = [*curve.points[1:], np.inf, np.inf]
    sizes = np.unique(data.size)
    return all(
        fall >= 0 or int(((sizes > begin) & (sizes <= end)).sum()) >= FALL_SIZES
        for fall, begin, end in zip(np.diff(curve.shares), curve.points, ends[1:], strict=False)
    )


def _rms(errors: Array, weight: Array, scale: float) -> float:
    weight = weight * _huber(errors, scale)
    return float(np.sqrt(weight @ errors**2 / weight.sum()))


# Samples that something else has slowed down


def _find_lost(data: Data) -> frozenset[int]:
    """Finds slow samples, and repeats this without them. Several slow neighbouring sizes are part
    of the curve.
    """
    kept = np.arange(len(data.work))
    while slow := _slow(data.of(kept)):
        kept = np.delete(kept, list(slow))
    is_slow = np.ones(len(data.work), dtype=bool)
    is_slow[kept] = False
    order = np.argsort(data.size, kind="stable")
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or not is_slow[order[end]]:
            if is_slow[order[begin]] and end - begin >= LONG_RUN:
                is_slow[order[begin:end]] = False
            begin = end
        elif not is_slow[order[begin]]:
            begin = end
    found = frozenset(np.flatnonzero(is_slow).tolist())
    return found if len(found) <= MOST_LOST * len(data.work) else frozenset()


def _slow(data: Data) -> frozenset[int]:
    """The samples that took much longer than their neighbours, by kind of transfer."""
    kinds = np.round(data.latencies * data.size / data.work, 9)
    slow: dict[int, float] = {}
    for kind in np.unique(kinds):
        chosen = np.flatnonzero(kinds == kind)
        order = chosen[np.argsort(data.size[chosen], kind="stable")]
        if len(np.unique(data.size[order])) >= WINDOW:
            beyond = _beyond(np.log(data.size[order]), np.log(data.seconds[order]))
            slow.update(zip(order.tolist(), beyond.tolist(), strict=True))
    scale = max(1.4826 * float(np.median(np.abs([*slow.values(), 0.0]))), LEAST_SCALE)
    return frozenset(at for at, beyond in slow.items() if beyond > max(LOST * scale, LEAST_LOST))


def _beyond(size: Array, time: Array) -> Array:
    """Returns how far each time is above the times around it, as a logarithm, for ascending sizes.
    The reference is the line nearest to most neighbours (least trimmed squares, Rousseeuw 1984).
    Samples below the line have more weight, because nothing makes a job faster.
    """
    found = np.zeros(len(size))
    last = len(size) - WINDOW
    for at in range(len(size)):
        begin = min(max(at - WINDOW // 2, 0), last)
        x, y = size[begin : begin + WINDOW], time[begin : begin + WINDOW]
        if x[-1] - x[0] > SPAN:
            continue
        one, other = np.triu_indices(WINDOW, 1)
        is_line = x[one] < x[other]
        one, other = one[is_line], other[is_line]
        slope = np.clip((y[other] - y[one]) / (x[other] - x[one]), 0, MOST_SLOPE)
        errors = y[None, :] - (y[one, None] + slope[:, None] * (x[None, :] - x[one, None]))
        far = np.where(errors < 0, -FAST_WEIGHT * errors, errors)
        near = np.sort(far, axis=1)[:, : WINDOW * 3 // 5 + 1]
        found[at] = errors[int(np.argmin((near**2).sum(axis=1))), at - begin]
    return found


def curve(data: Data, max_points: int = MAX_POINTS) -> Solution:
    """Returns the best curve, from samples that nothing else slowed down."""
    lost = _find_lost(data)
    best = _fit_without(data, lost, max_points)
    if not lost or not np.isfinite(best.shares[0]):
        return best
    late = np.log(data.seconds / best.predict(data))
    still = frozenset(at for at in lost if late[at] > LEAST_LOST)
    return replace(best if still == lost else _fit_without(data, still, max_points), lost=still)


def _fit_without(data: Data, lost: frozenset[int], max_points: int) -> Solution:
    """The best curve without some samples."""
    rest = data.of(np.setdiff1d(np.arange(len(data.work)), list(lost)))
    found = flat(rest)
    return _best(rest, max_points) if np.isfinite(found.shares[0]) else found

"""Student's t distribution; degrees of freedom need not be whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

_NORMAL_FROM = 1e7  # degrees of freedom; the t distribution differs from the normal one by less than 1e-7
_EPSILON = 1e-15


def error_and_freedom(variances: Sequence[float], sizes: Sequence[int], known: float = 0.0) -> tuple[float, float]:
    """Return the standard error of a sum or difference of means and its degrees of freedom (Welch, 1947).

    Args:
        variances: of each mean, estimated from so many values as `sizes` says.
        known: a further part of the variance, which adds no uncertainty.
    """
    total = sum(variances) + known
    spread = sum(variance**2 / (n - 1) for variance, n in zip(variances, sizes, strict=True))
    return math.sqrt(total), total**2 / spread if spread else math.inf


def two_sided_p(t: float, degrees_of_freedom: float) -> float:
    """Return the probability of a value at least as far from 0 as `t`."""
    if degrees_of_freedom >= _NORMAL_FROM:
        return math.erfc(abs(t) / math.sqrt(2))
    a, x = degrees_of_freedom / 2, degrees_of_freedom / (degrees_of_freedom + t * t)
    if x <= (a + 1) / (a + 2.5):  # where the continued fraction converges fast
        return _incomplete_beta(x, a, 0.5)
    return 1 - _incomplete_beta(t * t / (degrees_of_freedom + t * t), 0.5, a)


def quantile(confidence: float, degrees_of_freedom: float) -> float:
    """Return the t between which and -t the distribution has the share `confidence`."""
    t = NormalDist().inv_cdf((1 + confidence) / 2)
    if degrees_of_freedom >= _NORMAL_FROM:
        return t
    half = degrees_of_freedom / 2
    peak = math.exp(math.lgamma(half + 0.5) - math.lgamma(half)) / math.sqrt(degrees_of_freedom * math.pi)
    step = t
    while step > 1e-12 * t:  # Newton's method: p is convex, and t is smaller than the solution
        density = peak * (1 + t * t / degrees_of_freedom) ** (-half - 0.5)
        step = (two_sided_p(t, degrees_of_freedom) - (1 - confidence)) / (2 * density)
        t += step
    return t


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function by its continued fraction (NIST, dlmf.nist.gov/8.17.E22)."""
    if x <= 0:
        return 0.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    numerator, denominator = 1.0, 1 / (1 - (a + b) * x / (a + 1))  # Lentz's method
    result = denominator
    for m in range(1, 1000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            numerator, denominator = 1 + term / numerator, 1 / (1 + term * denominator)
            result *= numerator * denominator
        if abs(numerator * denominator - 1) < _EPSILON:
            break
    return front * result

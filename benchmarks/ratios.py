"""Ratios of rounds that ran side by side, and promises about them."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from statistics import median


@dataclass(frozen=True, slots=True)
class Ratio:
    """A median and its spread.

    Attributes:
        middle, low, high: median, smallest, largest.
        rounds: how many there are.
        sure_low, sure_high: the confidence interval of the median (`bounds_of_median`).
    """

    middle: float
    low: float
    high: float
    rounds: int
    sure_low: float
    sure_high: float

    @staticmethod
    def of(each: list[float]) -> Ratio:
        """From the rounds."""
        sure = bounds_of_median(each)
        return Ratio(median(each), min(each), max(each), len(each), *sure)

    def __str__(self) -> str:
        if self.low == self.middle == self.high == 1:
            return "1"
        return f"{short(self.middle)} ({short(self.low)}-{short(self.high)})"


@dataclass(frozen=True, slots=True)
class Goal:
    """A promise in numbers: what was measured, in which result, and whether it is kept.

    ``exact``: the figure is the same in each run, as a size on disk is, so one round is enough.
    """

    words: str
    measured: Ratio
    bound: float
    source: str
    at_least: bool = False
    unit: str = ""
    exact: bool = False

    @property
    def verdict(self) -> str:
        """ "yes" or "no" if the confidence interval of the median lies on one side of the bound; else, and with too few rounds, it is "not shown"."""
        if not self.exact and self.measured.rounds < FEWEST:
            return "not shown"
        low, high = self.measured.sure_low, self.measured.sure_high
        if self.at_least:
            return "yes" if low >= self.bound else "no" if high < self.bound else "not shown"
        return "yes" if high <= self.bound else "no" if low > self.bound else "not shown"


SURE = 0.9
"""How sure a claim about a median has to be."""
FEWEST = 4
"""Four rounds on one side of a bound show with a confidence of 94 % that the median is on this side; three rounds show it with 88 %."""


def bounds_of_median(each: list[float]) -> tuple[float, float]:
    """The k-th smallest and the k-th largest round, k as great as it may be for the median to lie between them with a chance of 90 % or more.

    That is the interval of the sign test; it assumes nothing about the distribution. Up to seven rounds it is the smallest and the largest one; with
    fewer than five the chance is below 90 %.
    """
    ordered = sorted(each)
    outside = 1  # how often, of 2**n, all rounds are on one side of the median; then all but one, ...
    k = 0
    while 2 * (k + 1) < len(ordered):
        outside += comb(len(ordered), k + 1)
        if 1 - 2 * outside / 2 ** len(ordered) < SURE:
            break
        k += 1
    return ordered[k], ordered[-1 - k]


def ratio(above: list[float], below: list[float]) -> Ratio:
    """The ratio of two contestants, round by round."""
    each = [one / other for one, other in zip(above, below, strict=True)]
    return Ratio.of(each)


def short(value: float) -> str:
    """A figure with two or three digits."""
    return (
        f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    )

"""Expected response times by size, against a weighted least-squares fit."""

import math
import random

import numpy as np
import pytest

from _core.deadlines.size_regression import SizeModel

KEEP = 1.0 - 1.0 / 1000.0
PRIOR = 10.0
Samples = list[tuple[float, float]]


def moments(samples: Samples) -> tuple[float, float, float, float, float]:
    """Weight, means and centred sums, each sample weighing KEEP ** (samples since)."""
    size, time = np.array(samples).T
    weight = KEEP ** np.arange(len(samples))[::-1]
    total = weight.sum()
    mean, mean_s = (weight * size).sum() / total, (weight * time).sum() / total
    off, off_s = size - mean, time - mean_s
    return total, mean, mean_s, (weight * off**2).sum(), (weight * off * off_s).sum()


def expected(own: Samples, pool: Samples, size: float, prior_s: float) -> float:
    """The twin: the pool's samples join with weights that add up to PRIOR; PRIOR samples of
    `prior_s` came before all others."""
    weight, mean, mean_s, size2, size_s = moments(pool)
    pool_weight = weight
    if own:
        share = min(PRIOR, weight) / weight
        n, x, y, xx, xy = moments(own)
        added = weight * share
        all_n = n + added
        all_x, all_y = (n * x + added * mean) / all_n, (n * y + added * mean_s) / all_n
        size2 = xx + share * size2 + n * (x - all_x) ** 2 + added * (mean - all_x) ** 2
        size_s = xy + share * size_s
        size_s += n * (x - all_x) * (y - all_y) + added * (mean - all_x) * (mean_s - all_y)
        weight, mean, mean_s = all_n, all_x, all_y
    slope = size_s / size2 * weight / (weight + PRIOR) if size2 else 0.0
    prior = PRIOR * KEEP ** len(pool)
    level = (mean_s * pool_weight + prior_s * prior) / (pool_weight + prior)
    return max(level + slope * (size - mean), 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_against_least_squares(seed: int) -> None:
    draw = random.Random(seed)
    model = SizeModel(0.2)
    own: list[Samples] = [[] for _ in range(40)]
    pool: Samples = []
    for _ in range(2_000):
        column = min(draw.randrange(40), draw.randrange(40))
        size = draw.uniform(1.0, 10_800.0)
        time_s = draw.lognormvariate(-3.0, 0.3) * (1.0 + column / 20) * (0.2 + size / 5_400)
        model.observe(column, size, time_s)
        own[column].append((size, time_s))
        pool.append((size, time_s))
    for column in (*range(40), 41):
        for size in (0.0, 1.0, 3_000.0, 20_000.0):
            known = own[column] if column < 40 else []
            assert model.expected(column, size) == pytest.approx(
                expected(known, pool, size, 0.2), rel=1e-9, abs=1e-12
            )


def test_nothing_known_is_the_prior() -> None:
    assert SizeModel(0.3).expected(7, 1e6) == 0.3


def test_a_size_that_explains_nothing_leaves_the_mean() -> None:
    draw = random.Random(1)
    model = SizeModel()
    for _ in range(5_000):
        model.observe(0, draw.uniform(1.0, 10_800.0), draw.lognormvariate(-2.5, 0.6))
    mean_s = math.exp(-2.5 + 0.18)
    for size in (1.0, 5_400.0, 10_800.0):
        assert model.expected(0, size) == pytest.approx(mean_s, rel=0.12)


def test_all_of_one_size() -> None:
    model = SizeModel()
    for _ in range(100_000):
        model.observe(0, 60.0, 0.05)
    assert model.expected(0, 60.0) == model.expected(0, 6_000.0) == pytest.approx(0.05, rel=1e-6)


def test_never_negative() -> None:
    model = SizeModel()
    for size in range(1_000):
        model.observe(0, 5_000.0 + size, size * 1e-3)
    assert model.expected(0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("column", "size", "time_s"),
    [(-1, 1.0, 1.0), (1 << 22, 1.0, 1.0), (0, math.nan, 1.0), (0, 1.0, math.inf)],
)
def test_bad_samples(column: int, size: float, time_s: float) -> None:
    model = SizeModel()
    with pytest.raises(ValueError, match=r"column|finite"):
        model.observe(column, size, time_s)
    assert model.expected(0, 1.0) == 0.1


def test_bad_questions() -> None:
    with pytest.raises(ValueError, match="out of range"):
        SizeModel().expected(-1, 1.0)
    with pytest.raises(ValueError, match="out of range"):
        SizeModel().expected(0, math.nan)
    with pytest.raises(ValueError, match="prior_mean_s"):
        SizeModel(0.0)

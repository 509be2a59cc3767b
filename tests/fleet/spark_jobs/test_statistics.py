"""Percentiles and intervals in Spark, against numpy and the binomial distribution itself."""

import itertools
import math
import random

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.statistics import (
    interval_ranks,
    nearest_rank,
    percentile,
    percentile_interval,
    percentiles,
    ranked,
    round_width,
    share,
    wilson,
)
from fleet.simulation.measures import percentile as percentile_of_list

LEVELS = (50.0, 90.0, 95.0, 99.0, 99.9)


def test_percentiles_are_those_of_numpy(spark: SparkSession) -> None:
    draw = random.Random(1)
    sizes = (0, 1, 2, 3, 10, 19, 20, 99, 100, 101, 999, 1_000, 1_001, 3_000)
    groups = {size: [round(draw.lognormvariate(3, 1), 1) for _ in range(size)] for size in sizes}
    rows = [(size, value) for size, values in groups.items() for value in [*values, None]]
    draw.shuffle(rows)
    frame = ranked(spark.createDataFrame(rows, "size int, x double"), ["size"], "x")
    found = frame.groupBy("size").agg(*(percentile("x", p) for p in LEVELS)).collect()
    assert len(found) == len(sizes)
    for size, *values in found:
        for p, value in zip(LEVELS, values, strict=True):
            assert value == percentile_of_list(sorted(groups[size]), p)
            if size * round(10 * p) % 1_000:  # at a whole rank numpy may err by one
                assert value == np.percentile(groups[size], p, method="inverted_cdf")


def test_percentiles_without_ranks_are_exact(spark: SparkSession) -> None:
    """Equal values, negative ones, zeros, a thousand bins and none at all."""
    draw = random.Random(2)
    groups: dict[str, list[float]] = {
        "none": [],
        "one": [7.25],
        "same": [3.0] * 400,
        "signs": [draw.choice((-1, 1)) * draw.lognormvariate(0, 9) for _ in range(999)] + [0.0] * 9,
        "close": [100.0 + draw.random() for _ in range(1_001)],
        "wide": [draw.lognormvariate(3, 1) for _ in range(3_000)],
        "tiny": [draw.choice((-1, 1)) * 2.0 ** draw.uniform(-60, -15) for _ in range(500)],
    }
    values = [(g, x, -x) for g, values in groups.items() for x in values]
    rows = [*values, *((g, None, None) for g in groups)]
    draw.shuffle(rows)
    frame = spark.createDataFrame(rows, "g string, x double, y double")
    for p in (1.0, 50.0, 99.0):
        found = percentiles(frame, ["g"], p, {"x": "x_p", "y": "y_p"}).collect()
        assert len(found) == len(groups) - 1
        for g, x, y in found:
            assert x == percentile_of_list(sorted(groups[g]), p), (g, p)
            assert y == percentile_of_list(sorted(-v for v in groups[g]), p), (g, p)


def test_no_rank_is_off_by_a_rounding_error(spark: SparkSession) -> None:
    numbers = [*range(1, 2_001), 10**6, 10**9]
    ranks = [nearest_rank(p, F.col("n")) for p in LEVELS]
    rows = spark.createDataFrame([(n,) for n in numbers], "n bigint").select("n", *ranks).collect()
    for n, *found in rows:
        # In thousandths of a percent, whole numbers: no rounding at all.
        assert found == [max(1, -(-round(p * 1_000) * n // 100_000)) for p in LEVELS]


def cumulative(n: int, p: float) -> list[float]:
    """P(B ≤ k) of the binomial distribution for k = 0 … n."""
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]
    terms = (math.exp(c + k * math.log(p) + (n - k) * math.log1p(-p)) for k, c in enumerate(logs))
    return list(itertools.accumulate(terms))


def test_intervals_of_percentiles_have_95_percent(spark: SparkSession) -> None:
    """Never an end that is too far in; mostly the innermost that there is, else the next one."""
    numbers = [*range(1, 301), *range(301, 5_000, 397)]
    levels = (50.0, 90.0, 99.0, 99.9)
    ranks = [rank for p in levels for rank in interval_ranks(p, F.col("n"))]
    rows = spark.createDataFrame([(n,) for n in numbers], "n bigint").select("n", *ranks).collect()
    inexact = 0
    for n, *found in rows:
        for p, low, high in zip(levels, found[::2], found[1::2], strict=True):
            below = cumulative(n, p / 100.0)
            lows: list[int | None] = [k for k in range(1, n + 1) if below[k - 1] <= 0.025]
            highs: list[int | None] = [k for k in range(1, n + 1) if 1.0 - below[k - 1] <= 0.025]
            assert low in (lows[-2:] or [None])
            assert high in (highs[:2] or [None])
            inexact += low != (lows or [None])[-1]
            inexact += high != (highs or [None])[0]
    assert inexact < 0.02 * len(numbers) * len(levels) * 2


def test_ends_of_intervals_are_values_of_the_sample(spark: SparkSession) -> None:
    values = [float(n) for n in range(1, 101)]
    frame = spark.createDataFrame([(1, x) for x in values], "g int, x double")
    ends = [*percentile_interval("x", 50.0), *percentile_interval("x", 99.0)]
    [row] = ranked(frame, ["g"], "x").groupBy("g").agg(*ends).collect()
    # Tables of the median's interval have ranks 40 and 61 of 100; no value of 100 lies above the
    # p99 with 97.5 %.
    assert tuple(row)[1:] == (40.0, 61.0, 97.0, None)


def test_wilson_intervals_by_hand(spark: SparkSession) -> None:
    cases = {
        (0, 10): (0.0, 0.2775),
        (1, 10): (0.0179, 0.4042),
        (5, 10): (0.2366, 0.7634),
        (10, 10): (0.7225, 1.0),
        (81, 263): (0.2553, 0.3662),  # Newcombe 1998, table I
    }
    frame = spark.createDataFrame([*cases, (0, 0)], "k bigint, n bigint")
    columns = (*wilson(F.col("k"), F.col("n")), share(F.col("k"), F.col("n")))
    for k, n, low, high, part in frame.select("k", "n", *columns).collect():
        if n == 0:
            assert (low, high, part) == (None, None, None)
        else:
            assert (low, high) == pytest.approx(cases[k, n], abs=5e-5)
            assert part == k / n


def test_widths_are_round(spark: SparkSession) -> None:
    cases = {12.0: 1.0, 12.1: 2.0, 24.0: 2.0, 30.0: 5.0, 61.0: 10.0, 1.2: 0.1, 0.5: 0.05, 0.1: 0.01}
    frame = spark.createDataFrame([(x,) for x in cases], "x double")
    for x, width in frame.select("x", round_width(F.col("x"), 12)).collect():
        assert width == pytest.approx(cases[x], rel=1e-12)

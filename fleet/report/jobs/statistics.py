"""Percentiles and confidence intervals as column expressions, exact at any data size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

# Of the normal distribution: 95 % lie within ± Z.
Z: Final = 1.959963984540054
TAIL: Final = 0.025
# Of a whole: percentiles have at most four decimals.
PARTS: Final = 1_000_000
# Bins of a histogram that a doubling spans, each 1 % wide, and the smallest size that has its own.
BINS: Final = 64
LEAST: Final = 2.0**-20
# Of a number of 64 bits.
MOST: Final = (1 << 63) - 1


def total(counts: Column | str) -> Column:
    """Aggregate: the sum of whole numbers, but at most `MOST`. Hosts say how much they counted, and
    one that says too much must not end the report of all. Null of nothing."""
    return F.coalesce(F.try_sum(counts), F.when(F.count(counts) > 0, F.lit(MOST)))


def ranked(frame: DataFrame, keys: Sequence[str], value: str) -> DataFrame:
    """`frame` with what `percentile` needs of `value`: each row's rank among those of equal `keys`,
    and how many values these have. Nulls are no values.

    Sorts each group, O(n log n), on disk where memory ends; one group is sorted by one task.
    """
    alike = Window.partitionBy(*keys)
    ascending = alike.orderBy(F.col(value).asc_nulls_last())
    return frame.withColumns(
        {
            _rank(value): F.row_number().over(ascending),
            _count(value): F.count(value).over(alike),
        }
    )


def percentile(value: str, p: float) -> Column:
    """Aggregate over a ranked group: the nearest-rank percentile, the smallest value that at least
    p % do not exceed. Null of nothing. `fleet.simulation.measures.percentile`, numpy's
    inverted_cdf."""
    return _at(value, nearest_rank(p, F.col(_count(value))))


def percentiles(
    frame: DataFrame, keys: Sequence[str], p: float, names: Mapping[str, str]
) -> DataFrame:
    """A row for each group of equal `keys`, which are not null: the nearest-rank percentile of each
    column of `names`, under the name that it gives, as exact as `percentile`. A column without
    values has null; a group without any has no row.

    Nothing is ranked: a histogram says in which bin the percentile lies, and in that bin values are
    counted by value. O(n) time, and two passes over `frame`; what is shuffled is the histogram, and
    the different values in a hundredth of their range.
    """
    each = [F.struct(F.lit(v).alias("of"), F.col(v).alias("value")) for v in names]
    long = frame.select(*keys, F.inline(F.array(*each))).where("value IS NOT NULL")
    group = [*keys, "of"]
    alike = Window.partitionBy(*group)

    def up_to(order: str) -> Column:
        upwards = alike.orderBy(order).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        return F.sum("here").over(upwards)

    binned = long.withColumn("bin", _bin(F.col("value")))
    bins = binned.groupBy(*group, "bin").agg(F.count("*").alias("here"))
    rank = nearest_rank(p, F.sum("here").over(alike)) - up_to("bin") + F.col("here")
    found = bins.withColumn("rank", rank).where(
        (F.col("rank") > 0) & (F.col("rank") <= F.col("here"))
    )
    # One row a group: few enough for every executor.
    inside = binned.join(F.broadcast(found.drop("here")), [*group, "bin"])
    counted = inside.groupBy(*group, "rank", "value").agg(F.count("*").alias("here"))
    reached = counted.withColumn("up_to", up_to("value")).where(F.col("up_to") >= F.col("rank"))
    return reached.groupBy(*keys).agg(
        *[F.min(F.when(F.col("of") == v, F.col("value"))).alias(n) for v, n in names.items()]
    )


def _bin(value: Column) -> Column:
    """The logarithmic bin of a value: of two values the greater has never the lesser bin."""
    size = F.floor(BINS * F.log2(F.greatest(F.abs(value), F.lit(LEAST) / 2)))
    return (F.signum(value) * (size - F.lit(BINS * math.log2(LEAST) - BINS - 1))).cast("int")


def percentile_interval(value: str, p: float) -> tuple[Column, Column]:
    """Aggregates over a ranked group: two of its values between which the percentile of the
    distribution lies with 95 %, whatever that distribution is. Null where no value of so small a
    sample is far enough out."""
    low, high = interval_ranks(p, F.col(_count(value)))
    return _at(value, low), _at(value, high)


def nearest_rank(p: float, n: Column) -> Column:
    """Rank among n values, counted from 1, of their percentile; p has at most four decimals."""
    # In whole numbers: 0.95 · 20 is a hair above 19 in floating point.
    parts = F.lit(round(p * PARTS / 100.0)).cast("bigint") * n
    whole = parts + F.lit(PARTS - 1)
    return F.greatest(((whole - whole % PARTS) / F.lit(PARTS)).cast("bigint"), F.lit(1))


def interval_ranks(p: float, n: Column) -> tuple[Column, Column]:
    """Ranks of the ends of a distribution-free 95 % interval of a percentile; null where there is
    no such rank.

    Of n values, a binomial number B lies below the percentile: the ends are the innermost ranks
    with P(B < low) and P(B ≥ high) ≤ 2.5 %. Quantiles of B come from the Cornish-Fisher expansion
    with a correction for continuity, which is right or one rank too far out (the tests say how
    often); whether there is an end at all is decided exactly.
    """
    share = p / 100.0
    rest = 1.0 - share
    n = F.greatest(n, F.lit(1)).cast("double")
    spread = F.sqrt(n * F.lit(share * rest))
    # Counted from above, by how many values exceed the percentile: at high percentiles few do.
    middle = n * F.lit(rest) + F.lit((1.0 - 2.0 * rest) * (Z**2 - 1.0) / 6.0)
    curve = (Z**3 - 3.0 * Z) * (1.0 - 6.0 * share * rest) / 24.0
    curve -= (2.0 * Z**3 - 5.0 * Z) * (1.0 - 2.0 * rest) ** 2 / 36.0
    reach = F.lit(Z) * spread + F.lit(curve) / spread
    none_above, none_below = F.pow(F.lit(share), n), F.pow(F.lit(rest), n)
    fewest = F.greatest(F.floor(middle - reach - F.lit(0.5)), F.lit(0))
    most = F.when(none_above >= 1.0 - TAIL, F.lit(1)).otherwise(
        F.greatest(F.ceil(middle + reach + F.lit(0.5)), F.lit(2))
    )
    low = F.when(none_below <= TAIL, F.greatest(n - most + F.lit(1), F.lit(1)))
    high = F.when(none_above <= TAIL, n - fewest)
    return low.cast("bigint"), high.cast("bigint")


def wilson(k: Column, n: Column) -> tuple[Column, Column]:
    """The 95 % Wilson interval of the share of which k of n are a sample; null if n is 0."""
    n = F.nullif(n, F.lit(0)).cast("double")
    share = k / n
    z2 = Z**2
    middle = share + F.lit(z2 / 2.0) / n
    half = F.lit(Z) * F.sqrt(share * (F.lit(1.0) - share) / n + F.lit(z2 / 4.0) / (n * n))
    scale = F.lit(1.0) + F.lit(z2) / n
    # The ends of none and of all are 0 and 1, which floating point may miss.
    low = F.when(k == 0, F.lit(0.0)).otherwise((middle - half) / scale)
    high = F.when(k == n, F.lit(1.0)).otherwise((middle + half) / scale)
    return F.when(n.isNotNull(), low), F.when(n.isNotNull(), high)


def share(k: Column, n: Column) -> Column:
    """k / n; null if n is 0."""
    return k / F.nullif(n, F.lit(0)).cast("double")


def round_width(most: Column, parts: int) -> Column:
    """The least of … 0.1, 0.2, 0.5, 1, 2, 5 … that goes at most `parts` times into `most`, > 0."""
    least = most / F.lit(float(parts))
    decade = F.pow(F.lit(10.0), F.floor(F.round(F.log10(least), 9)))
    lead = F.round(least / decade, 9)
    step = F.when(lead <= 1, 1.0).when(lead <= 2, 2.0).when(lead <= 5, 5.0).otherwise(10.0)
    return step * decade


def _at(value: str, rank: Column) -> Column:
    here = F.col(_rank(value)) == rank
    return F.max(F.when(here & F.col(value).isNotNull(), F.col(value)))


def _rank(value: str) -> str:
    return f"{value}_rank"


def _count(value: str) -> str:
    return f"{value}_count"

"""Settings under which Spark computes few rows fast: what it does before the first row goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

# Rows of a job's input up to which this is faster: compiling a job's byte code takes longer than
# interpreting it for them.
FEW: Final = 200_000
SETTINGS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each shuffle would be a job of its own, after which Spark plans again.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def for_few_rows(spark: SparkSession, rows: int) -> Iterator[None]:
    """Jobs inside are planned for few rows, if `rows` are; results are the same."""
    if rows > FEW:
        yield
        return
    before = {name: str(spark.conf.get(name)) for name in SETTINGS}
    _set(spark, SETTINGS)
    try:
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)

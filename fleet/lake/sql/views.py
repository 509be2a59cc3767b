"""SQL views of the lake's tables, the newest report's tables and the models."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from fleet.common.exits import CommandError
from fleet.lake.ingest.paths import uri
from fleet.lake.ingest.reading import read
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base, models, placing, report, requests, sensing
from fleet.lake.schema.tables.model import Table

LATEST: Final = "latest"
OF_A_REPORT: Final = (*requests.TABLES, *placing.TABLES, *sensing.TABLES, *report.TABLES)
PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical"
# Classes of Spark's parsed plans that are not plain queries; scripts are among them.
REFUSED: Final = (f"{PLANS}.Command", f"{PLANS}.ParsedStatement", f"{PLANS}.CompoundPlanStatement")
# Plans that do more than read, though they are none of the above.
REFUSED_NAMES: Final = re.compile("Insert|Execute|Write")
# Of these, what only reads.
HARMLESS: Final = frozenset(
    {
        "DescribeColumn",
        "DescribeFunction",
        "DescribeQueryCommand",
        "DescribeRelation",
        "ExplainCommand",
        "ShowColumns",
        "ShowFunctions",
        "ShowTables",
    }
)


class StatementError(CommandError):
    """The statement is not permitted; the text says why."""


def register(spark: SparkSession, lake: Lake) -> list[str]:
    """Create a view of every table that exists; returns their names."""
    names = []
    for table in base.TABLES:
        if lake.table(table.name).is_dir():
            read(spark, lake, table).createOrReplaceTempView(table.name)
            names.append(table.name)
    data = lake.reports / LATEST / "data"
    for table in OF_A_REPORT:
        names += _view(spark, table, data / f"{table.name}.parquet")
    for table in models.TABLES:
        names += _view(spark, table, lake.models / table.name)
    return names


def _view(spark: SparkSession, table: Table, path: Any) -> list[str]:
    if not path.exists():
        return []
    frame = spark.read.schema(table.ddl).parquet(uri(path))
    frame.createOrReplaceTempView(table.name)
    return [table.name]


def select(spark: SparkSession, statement: str, known: Collection[str]) -> DataFrame:
    """The result of a statement. StatementError if it would change something, or names an unknown
    table; otherwise Spark's own exceptions."""
    kind = _kind(spark, statement)
    if kind is not None:
        raise StatementError(
            f"that does more than read ({kind}); SELECT, WITH, VALUES, DESCRIBE, SHOW TABLES and "
            "EXPLAIN are answered"
        )
    try:
        return spark.sql(statement)
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
        raise StatementError(unknown(name, known)) from None


def unknown(name: str, known: Collection[str]) -> str:
    """Why a statement's table is not among those that are `known`, and what to do, in one line."""
    there = f"there are: {', '.join(sorted(known)) or 'none; `fleet lake ingest` makes them'}"
    if name.lower() in {table.name for table in base.TABLES}:
        return f"table {name} has no rows here yet; {there}"
    if name.lower() in {table.name for table in (*OF_A_REPORT, *models.TABLES)}:
        return f"table {name} is made by `fleet report`, from what it reports on; {there}"
    near = get_close_matches(name, known, 1)
    return f"there is no table {name}; {f'did you mean {near[0]}? ' if near else ''}{there}"


def _kind(spark: SparkSession, statement: str) -> str | None:
    """Effect of a statement beyond reading; None if it has none."""
    session: Any = spark
    parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(statement)  # noqa: SLF001 - PySpark has no parser of its own
    command = _command(session, parsed)
    return None if command in HARMLESS else command


def _command(session: Any, plan: Any) -> str | None:
    """The first node of a parsed plan that is a command or a write, identified by its class
    name."""
    gateway = session.sparkContext._gateway  # noqa: SLF001 - as above
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        name = str(node.getClass().getSimpleName())
        if REFUSED_NAMES.search(name) or any(is_instance_of(gateway, node, k) for k in REFUSED):
            return name
        children = node.children()
        waiting += [children.apply(n) for n in range(children.size())]
    return None

"""Parses lines of masters' records into table rows, or into quarantine rows with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from agent.wire import records
from fleet.lake.ingest import quarantine
from fleet.lake.ingest.paths import uri
from fleet.lake.ingest.times import EARLIEST_MS, latest_ms, possible, timestamp
from fleet.lake.schema.tables import base
from fleet.lake.schema.tables.model import Table

LONGEST: Final = 1_000_000
# As `agent.wire.base.Name` has it; the excluded one Spark reads as null.
IAD: Final = r"(?!__HIVE_DEFAULT_PARTITION__\\z)[A-Za-z0-9_.-]{1,64}"
CORRUPT: Final = "_corrupt"
NAME: Final = "get_json_object(value, '$.record')"
PARSING: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowNonNumericNumbers": "false",
}
WRONG: Final = {
    "double": "is no number",
    "bigint": "is no number",
    "int": "is no number",
    "boolean": "is neither true nor false",
}
WRONG_LIST: Final = "is no list"


class Kind(NamedTuple):
    """A kind of record: its name, its table, its typed fields, and the meaning of missing fields.
    `times` maps a time column to the field from which it is computed."""

    name: str
    table: Table
    fields: Mapping[str, str]
    defaults: Mapping[str, Any]
    times: Mapping[str, str]

    @property
    def required(self) -> list[str]:
        """The mandatory fields."""
        optional = {column.name for column in self.table.columns if column.nullable}
        return [name for name in self.fields if name not in optional | set(self.defaults)]


def _kind(record: type[records.Record], table: Table, times: Mapping[str, str]) -> Kind:
    fields = {c.name: c.type for c in table.columns if c.name != "date" and c.name not in times}
    defaults = {
        # Spark has arrays for lists, and no tuples.
        field.name: list(field.default) if isinstance(field.default, tuple) else field.default
        for field in msgspec.structs.fields(record)
        if field.default is not msgspec.NODEFAULT
    }
    every = fields | dict.fromkeys(times.values(), "bigint")
    return Kind(str(record.__struct_config__.tag), table, every, defaults, times)


KINDS: Final = (
    _kind(records.QueryRecord, base.QUERIES, {"time": "wall_ms"}),
    _kind(records.TaskRecord, base.TASKS, {"time": "wall_ms"}),
    _kind(records.SubtaskRecord, base.SUBTASKS, {"time": "wall_ms"}),
    _kind(records.NodeEventRecord, base.EVENTS, {"time": "time_ms", "received": "wall_ms"}),
    _kind(records.ProcessingRecord, base.PROCESSING, {"time": "wall_ms"}),
    _kind(records.MoveRecord, base.MOVES, {"time": "wall_ms"}),
    _kind(records.PlacementRecord, base.PLACEMENT, {"time": "wall_ms"}),
)


def parse(spark: SparkSession, paths: Sequence[Path], now: datetime) -> DataFrame:
    """One row per line that is not blank: `iad`, `date`, `kind` and a struct of that name. For an
    unusable line `kind` is null, and `path` and `value` identify it.

    Unknown fields, of a later version, are ignored; texts are stored unchanged.
    """
    lines = spark.read.text([uri(path) for path in paths], lineSep="\n").select(
        "value", F.col("_metadata.file_path").alias("path")
    )
    lines = lines.withColumn("folder", quarantine.iad(F.col("path")))
    named = lines.where(r"NOT value RLIKE '\\A\\s*\\z'").selectExpr(
        "*", f"CASE WHEN {_unusable()} IS NULL THEN {NAME} END AS named"
    )
    parsed = named.selectExpr("*", *(f"{_parsed(kind)} AS {kind.name}" for kind in KINDS))
    latest = latest_ms(now)
    judged = parsed.selectExpr("*", f"{_case(_sound(k, latest) for k in KINDS)} AS sound")
    return judged.select(
        F.expr(f"CASE WHEN sound THEN {_case(f'{k.name}.iad' for k in KINDS)} END").alias("iad"),
        F.expr(f"CASE WHEN sound THEN {_case(_date(k) for k in KINDS)} END").alias("date"),
        F.expr("CASE WHEN sound THEN named END").alias("kind"),
        F.expr("CASE WHEN NOT coalesce(sound, false) THEN path END").alias("path"),
        F.expr("CASE WHEN NOT coalesce(sound, false) THEN value END").alias("value"),
        *(kind.name for kind in KINDS),
    )


def rows(parsed: DataFrame, kind: Kind) -> DataFrame:
    """The rows of one kind's table."""

    def column(name: str) -> Column:
        if name == "date":
            return F.col("date")
        if name in kind.times:
            return timestamp(F.col(f"{kind.name}.{kind.times[name]}"))
        value = F.col(f"{kind.name}.{name}")
        return F.coalesce(value, F.lit(kind.defaults[name])) if name in kind.defaults else value

    chosen = parsed.where(F.col("kind") == kind.name)
    return chosen.select(*(column(name).alias(name) for name in kind.table.names))


def refused(parsed: DataFrame, now: datetime) -> DataFrame:
    """The unusable lines as rows of the quarantine; they are parsed again to find the reason."""
    lines = parsed.where(F.col("kind").isNull()).select(
        "value",
        quarantine.source(F.col("path")).alias("source"),
        quarantine.iad(F.col("path")).alias("iad"),
    )
    lines = lines.withColumn("folder", F.col("iad"))
    named = lines.selectExpr("*", f"{_unusable()} AS unusable", f"{NAME} AS named")
    parsed = named.selectExpr("*", *(f"{_parsed(kind)} AS {kind.name}" for kind in KINDS))
    latest = latest_ms(now)
    reason = f"coalesce(unusable, {_case(_reason(k, latest) for k in KINDS)})"
    return parsed.select(
        "iad",
        F.lit(now.date()).alias("date"),
        quarantine.identity(F.col("iad"), F.col("value")).alias("id"),
        "source",
        F.expr(reason).alias("reason"),
        quarantine.shown(F.col("value")).alias("text"),
    )


def _unusable() -> str:
    """Why a line is no record of any kind; null if it may be one."""
    names = ", ".join(f"'{kind.name}'" for kind in KINDS)
    # Two records on one line, whose line end was lost, would be taken for the first one.
    return f"""CASE
        WHEN NOT is_valid_utf8(value) THEN 'no text in UTF-8'
        WHEN octet_length(value) > {LONGEST} THEN 'longer than {LONGEST:,} bytes'
        WHEN NOT coalesce(json_array_length('[' || value || ']') = 1, false) THEN 'no JSON'
        WHEN {NAME} IS NULL THEN 'record is missing'
        WHEN {NAME} NOT IN ({names})
            THEN concat('no record kind is called \\'', left({NAME}, 40), '\\'')
        END"""


def _case(values: Iterable[str]) -> str:
    """The reason by the line's kind."""
    cases = (f"WHEN '{kind.name}' THEN {value}" for kind, value in zip(KINDS, values, strict=True))
    return f"CASE named {' '.join(cases)} END"


def _parsed(kind: Kind) -> str:
    ddl = ", ".join(f"`{name}` {type_}" for name, type_ in kind.fields.items())
    parsing = ", ".join(f"'{name}', '{value}'" for name, value in PARSING.items())
    struct = f"from_json(value, '{ddl}, `{CORRUPT}` string', map({parsing}))"
    return f"CASE WHEN named = '{kind.name}' THEN {struct} END"


def _date(kind: Kind) -> str:
    return f"date_from_unix_date(int(floor({kind.name}.{kind.times['time']} / 86400000)))"


def _checks(kind: Kind, latest: int) -> Iterator[tuple[str, str]]:
    """(condition that must hold, reason if it does not), in the order of reporting."""
    for name, type_ in kind.fields.items():
        if type_ == "double":
            yield f"coalesce(abs({kind.name}.{name}), 0) < double('inf')", f"{name} is no number"
    for name in kind.required:
        yield f"{kind.name}.{name} IS NOT NULL", f"{name} is missing"
    # An IAD without a name would have no partition.
    yield f"{kind.name}.iad <> ''", "iad is missing"
    # What is no name of a folder would end the ingest of all files.
    yield f"{kind.name}.iad RLIKE '\\\\A{IAD}\\\\z'", "iad is no name"
    # A host speaks for the IAD that the inventory gives it, which named the folder.
    yield f"{kind.name}.iad = folder", "iad is not the one of this master"
    for name in sorted(set(kind.times.values())):
        time = f"{kind.name}.{name}"
        masters = f"{time} BETWEEN {EARLIEST_MS} AND {latest}"
        yield masters if name == "wall_ms" else possible(time, latest), "time is impossible"


def _sound(kind: Kind, latest: int) -> str:
    checks = [f"({check})" for check, _ in _checks(kind, latest)]
    return " AND ".join([f"{kind.name}.{CORRUPT} IS NULL", *checks])


def _reason(kind: Kind, latest: int) -> str:
    wrong = [
        f"WHEN {kind.name}.{name} IS NULL AND get_json_object(value, '$.{name}') IS NOT NULL "
        f"THEN '{name} {says}'"
        for name, type_ in kind.fields.items()
        if (says := WRONG_LIST if type_.startswith("array<") else WRONG.get(type_))
    ]
    corrupt = (
        f"WHEN {kind.name}.{CORRUPT} IS NOT NULL THEN CASE {' '.join(wrong)} ELSE 'no JSON' END"
    )
    checks = [f"WHEN NOT ({check}) THEN '{text}'" for check, text in _checks(kind, latest)]
    return f"CASE {corrupt} {' '.join(checks)} END"

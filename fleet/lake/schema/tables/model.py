"""Schema types: tables and columns."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """`type` is its name in Spark and DuckDB; `unit` is "" if there is none; only if `nullable` may
    it be null."""

    name: str
    type: str
    unit: str
    meaning: str
    nullable: bool = False


class Table(NamedTuple):
    """No two rows have the same `key`. A table of the lake is partitioned by `partitions`; one of a
    report or a model is one folder of files."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def ddl(self) -> str:
        """Its schema as Spark takes it."""
        return ", ".join(
            f"`{c.name}` {c.type}" + ("" if c.nullable else " NOT NULL") for c in self.columns
        )


IAD = Column("iad", "string", "", "the IAD whose master or node it is from")
DATE = Column("date", "date", "", "the day of `time`, UTC")
NODE = Column("node", "string", "", "edge node")

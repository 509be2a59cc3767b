"""Prints the result of a SQL statement: a table on a terminal, CSV or JSON for programs."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

from fleet.terminal import output, screen
from fleet.terminal.csv_cells import cell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]


def write_table(frame: DataFrame, most: int) -> None:
    """Print the first `most` rows in columns; if there are more, say so on stderr."""
    rows = list(_rows(frame.limit(most + 1)))
    texts = [[" ".join(_text(value).split()) for value in row] for row in rows[:most]]
    draw(screen.console(), frame.columns, _numeric(frame), texts)
    if len(rows) > most:
        output.say(f"… more rows: the first {most:,} are shown; --rows or --format csv shows more")


def draw(
    console: Console, names: Sequence[str], right: Sequence[bool], rows: Iterable[Sequence[str]]
) -> None:
    """Print rows in columns, numbers (`right`) right-aligned; on a terminal that is too narrow for
    that each value after its column's name."""
    if not console.is_terminal:
        console.width = screen.BOUNDLESS
    table = screen.plain_table(*[output.printable(name) for name in names], left=len(names))
    for column, is_right in zip(table.columns, right, strict=True):
        column.justify = "right" if is_right else "left"
    for row in rows:
        table.add_row(*row)
    screen.show_table(console, table)


def write_csv(frame: DataFrame) -> None:
    """All rows, one partition at a time; a text that a spreadsheet would run gets a leading
    ``'``."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in _rows(frame, stream=True):
        writer.writerow([cell(_text(v) if isinstance(v, list | dict) else v) for v in row])


def write_json(frame: DataFrame) -> None:
    """All rows, one partition at a time, one object per line; NaN and infinities become null."""
    for row in _rows(frame, stream=True):
        text = msgspec.json.encode(dict(zip(frame.columns, row, strict=True)))
        sys.stdout.write(output.json_text(text) + "\n")


def _rows(frame: DataFrame, *, stream: bool = False) -> Iterator[list[Any]]:
    converts = [_converter(field.dataType) for field in frame.schema.fields]
    rows = frame.toLocalIterator() if stream else frame.collect()
    for row in rows:
        yield [convert(value) for convert, value in zip(converts, row, strict=True)]


def _converter(kind: DataType) -> Convert:
    """Converts PySpark's values of a type for printing: times in UTC, plain lists."""
    from pyspark.sql import types as t

    def optional(convert: Convert) -> Convert:
        return lambda value: None if value is None else convert(value)

    match kind:
        case t.TimestampType():
            # PySpark returns it in this process's time zone.
            return optional(lambda value: value.astimezone(UTC))
        case t.ArrayType():
            inner = _converter(kind.elementType)
            return optional(lambda value: [inner(each) for each in value])
        case t.MapType():
            key, inner = _converter(kind.keyType), _converter(kind.valueType)
            return optional(lambda value: {str(key(k)): inner(v) for k, v in value.items()})
        case t.StructType():
            fields = [(field.name, _converter(field.dataType)) for field in kind.fields]
            return optional(
                lambda value: {
                    name: inner(each) for (name, inner), each in zip(fields, value, strict=True)
                }
            )
        case t.BinaryType():
            return optional(lambda value: bytes(value).hex())
        case t.IntegralType() | t.StringType() | t.BooleanType() | t.FractionalType():
            return lambda value: value
        case t.DateType() | t.TimestampNTZType():
            return lambda value: value
    return optional(str)


def _numeric(frame: DataFrame) -> list[bool]:
    from pyspark.sql.types import NumericType

    return [isinstance(field.dataType, NumericType) for field in frame.schema.fields]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds").replace("+00:00", "")
    return value.isoformat() if isinstance(value, date) else str(value)

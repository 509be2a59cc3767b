"""Files of an export: CSV and Parquet, written a batch at a time, there when they are whole."""

from __future__ import annotations

import csv
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from fleet.query.export_rows import Column, Row
from fleet.terminal.csv_cells import cell

ROWS_AT_ONCE: Final = 20_000


class Sink(Protocol):
    """Takes rows of the same columns."""

    def write(self, rows: Iterable[Row]) -> int:
        """Write all of them; their number."""
        ...


@contextmanager
def csv_file(target: Path | None, columns: Sequence[Column]) -> Iterator[Sink]:
    """A CSV file, or stdout. OSError."""
    if target is None:
        yield CsvSink(sys.stdout, columns)
        sys.stdout.flush()  # a full disk is told of here
        return
    with whole(target) as part, part.open("w", encoding="utf-8", newline="") as file:
        yield CsvSink(file, columns)


@contextmanager
def parquet_file(target: Path, columns: Sequence[Column]) -> Iterator[Sink]:
    """A Parquet file; needs pyarrow. OSError."""
    from pyarrow import parquet

    schema = _schema(columns)
    with whole(target) as part, parquet.ParquetWriter(part, schema, compression="zstd") as writer:
        yield ParquetSink(writer, schema)


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """The path of a file beside `target`, which takes its place and its rights when the context
    ends, and is removed where that raises. A link stays, its file is replaced; a device or a pipe
    is written into: it must not become a file. OSError."""
    if target.exists() and not target.is_file():
        yield target
        return
    with suppress(FileNotFoundError):
        target.stat()  # links in a circle, of which `resolve` says nothing from Python 3.13 on
    target = target.resolve()
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # Nobody can have put a link of this name there, and a long name of the target does not matter.
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else 0o600))
    try:
        yield part
        if mode is not None:
            part.chmod(mode)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class CsvSink:
    """Rows as lines; times in ISO 8601, UTC; 32-bit values with the seven digits that they hold."""

    def __init__(self, file: TextIO, columns: Sequence[Column]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow([column.name for column in columns])
        self._forms = [FORMS[column.kind] for column in columns]

    def write(self, rows: Iterable[Row]) -> int:
        """As `Sink.write`."""
        count = 0
        for row in rows:
            self._writer.writerow([form(v) for form, v in zip(self._forms, row, strict=True)])
            count += 1
        return count


class ParquetSink:
    """Rows as columns, a row group a batch."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, rows: Iterable[Row]) -> int:
        """As `Sink.write`."""
        import pyarrow as pa

        count = 0
        left = iter(rows)
        while batch := list(islice(left, ROWS_AT_ONCE)):
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*batch, strict=True), self._schema, strict=True)
            ]
            self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
            count += len(batch)
        return count


def iso(time_ms: int | None) -> str:
    """``2026-11-23T10:00:00.250Z``; empty for None, and for what no calendar has."""
    if time_ms is None:
        return ""
    seconds, rest = divmod(time_ms, 1000)
    # A quarter of the seconds in a file are said more than once: channels and areas share them.
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"
    except (OverflowError, OSError, ValueError):
        return ""


def _seven(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"


FORMS: Final = {"time": iso, "text": cell, "float": _seven, "count": cell}


def _schema(columns: Sequence[Column]) -> Any:
    import pyarrow as pa

    kinds = {
        "time": pa.timestamp("ms", "UTC"),
        "text": pa.dictionary(pa.int32(), pa.string()),
        "float": pa.float32(),
        "count": pa.int64(),
    }
    return pa.schema([(column.name, kinds[column.kind]) for column in columns])

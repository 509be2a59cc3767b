"""The format of row groups, byte by byte; files that exist must stay readable."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from pathlib import Path

import pytest

from agent.edge.history.memtable import Sample
from agent.edge.history.row_groups import (
    OPENING,
    ROW,
    STATISTICS,
    channels_of,
    columns_of,
    row_crc,
    row_problem,
)
from tests.edge.history_oracle import open_history


def test_a_group_stands_in_the_file_as_the_format_says(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite", "b1", group_readings=2)
    stream = history.stream("dht", ("temperature",), keeps_raw=True)
    stream.append(Sample(1000, 10, True, (1.5,), 77, 3, (16,), (1.25,)))
    stream.append(Sample(2000, 1010, True, (2.5,), 78, 0, (), None))
    history.close()
    db = sqlite3.connect(tmp_path / "h.sqlite")
    ((*fields, crc),) = db.execute(f"SELECT {ROW}, crc FROM groups")
    ((columns_crc, data),) = db.execute("SELECT crc, data FROM columns")
    db.close()
    layout = "t8 s8 v4:temperature r4:temperature q1:temperature a4"
    statistics = struct.pack("<qdddqq", 2, 1.5, 2.5, 4.0, 0, 1)
    row = (OPENING, "dht", 2, 1000, 2000, 0, "b1", 10, 1010, 1, layout, statistics)
    assert tuple(fields) == row
    text = f"{OPENING} dht 2 1000 2000 0 b1 10 1010 1 {layout}"
    assert crc == row_crc(row) == zlib.crc32(text.encode() + statistics)
    assert data == struct.pack(
        "<qqqqffffBBII", 1000, 2000, 77, 78, 1.5, 2.5, 1.25, 2.5, 16, 0, 3, 0
    )
    assert columns_crc == zlib.crc32(data)
    assert row_problem(row, crc) == ""


def test_the_words_of_a_layout() -> None:
    layout = "t8 v4:co2 x2:later q1:co2"
    assert columns_of(layout) == (("t", 8, ""), ("v", 4, "co2"), ("x", 2, "later"), ("q", 1, "co2"))
    assert channels_of(layout) == ["co2"]


@pytest.mark.parametrize("layout", ["", "v4:co2", "t8 v0:co2", "t8 v", "t8  v4:co2", "t8 v-4:co2"])
def test_what_is_no_layout(layout: str) -> None:
    with pytest.raises(ValueError):
        columns_of(layout)


def test_a_row_that_was_changed_or_contradicts_itself() -> None:
    row = (1, "dht", 2, 1000, 2000, 0, "b1", 10, 1010, 1, "t8 v4:co2", bytes(STATISTICS.size))
    crc = row_crc(row)
    assert row_problem(row, crc) == ""
    assert row_problem((*row[:5], 1, *row[6:]), crc) == "its checksum is wrong"
    backwards = (*row[:3], 3000, *row[4:])
    assert row_problem(backwards, row_crc(backwards)) == "it contradicts itself"
    short = (*row[:11], b"")
    assert row_problem(short, row_crc(short)) == "it contradicts itself"
    assert row_problem((*row[:11], None), 0)

"""Row groups become rows of the landing: by hand, bit by bit, and with bytes that are none."""

from __future__ import annotations

import math
import random
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.edge.history.row_groups import STATISTICS, row_crc
from agent.wire.base import MAX_CHANNELS
from fleet.lake.pull.decode import Damaged, Group, GroupSource, Row, decode, row_of, table_of, write
from fleet.lake.pull.decode_schema import schema_of
from fleet.lake.schema import landing

LAYOUT = "t8 s8 v4:co2 v4:voc r4:voc q1:co2 x2:later a4"
# Two readings.
DATA = struct.pack(
    "<qqqqffffffBBHHII", 1000, 2000, -7, 8, 1.5, math.nan, 3.5, -0.0, 3.25, 1e30, 0, 48, 9, 9, 0, 7
)


def row(layout: str = LAYOUT, count: int = 2, shift_ms: int = 500, channels: int = 2) -> Row:
    statistics = bytes(STATISTICS.size * channels).hex()
    return Row(5, "air", count, 1500, 2500, shift_ms, "b1", 10, 1010, 1, layout, statistics)


def crc_of(row: Row) -> int:
    return row_crc((*row[:-1], bytes.fromhex(row.statistics)))


def decoded(each: Row, data: bytes = DATA) -> Group:
    return decode(each, crc_of(each), zlib.crc32(data), data)


def test_a_group_is_a_row_of_the_landing(tmp_path: Path) -> None:
    plain = row("t8 v4:co2", shift_ms=0, channels=1)
    groups = [decoded(row()), decoded(plain, struct.pack("<qqff", 1500, 2500, 4.0, 5.0))]
    table = table_of(groups, GroupSource("iad1", "e1", ["h1", "h2"], 99))
    table.validate(full=True)
    write(tmp_path / "groups.parquet", table)
    read = pq.ParquetFile(tmp_path / "groups.parquet")
    assert read.metadata.row_group(0).column(0).compression == "ZSTD"
    first, second = read.read().to_pylist()
    nan = first["channels"][0]["value"].pop()
    assert math.isnan(nan)
    assert first == {
        "iad": "iad1",
        "node": "e1",
        "history": "h1",
        "sequence": 5,
        "sensor": "air",
        "boot": "b1",
        "synchronised": True,
        "shift_ms": 500,
        "exported_ms": 99,
        "count": 2,
        "first_ms": 1500,
        "last_ms": 2500,
        "time_ms": [1500, 2500],
        "source_time_ms": [-7, 8],
        "age_ms": [0, 7],
        "channels": [
            {"name": "co2", "value": [1.5], "raw": None, "quality": [0, 48]},
            {
                "name": "voc",
                "value": [3.5, -0.0],
                "raw": [3.25, struct.unpack("<f", struct.pack("<f", 1e30))[0]],
                "quality": None,
            },
        ],
    }
    assert (second["history"], second["source_time_ms"], second["age_ms"]) == ("h2", None, None)
    assert second["channels"] == [
        {"name": "co2", "value": [4.0, 5.0], "raw": None, "quality": None}
    ]


def test_bits_are_kept() -> None:
    odd = bytes.fromhex("0100c07f010080ff0000008001000000")  # NaNs, -0, the smallest
    data = struct.pack("<4q", 1500, 1600, 1700, 2500) + odd
    table = table_of([decoded(row("t8 v4:x", 4, 0, 1), data)], GroupSource("i", "n", ["h"], 1))
    (channels,) = table["channels"].to_pylist()
    values = table["channels"].combine_chunks().values.field("value").values
    assert values.to_numpy().tobytes() == odd
    assert [channel["name"] for channel in channels] == ["x"]


@pytest.mark.parametrize(
    ("each", "data", "reason"),
    [
        (row()._replace(shift_ms=0), DATA, "its times are not those of its row"),
        (row(count=3), DATA, "bytes are not 3 readings"),
        (row(count=0), b"", "bytes are not 0 readings"),
        (row(count=-2), DATA, "bytes are not -2 readings"),
        (row("v4:co2", channels=1), DATA, "is none"),
        (row("t8 t", channels=0), DATA, "invalid literal"),
        (row("t4 v8:x", channels=1), bytes(24), "a column of kind t has 4 bytes"),
        (row(channels=1), DATA, "it contradicts itself"),
        (row()._replace(statistics="0g"), DATA, "no hexadecimal digits"),
        (row()._replace(sensor="\ud800"), DATA, "surrogates not allowed"),
    ],
)
def test_what_is_no_group_is_told(each: Row, data: bytes, reason: str) -> None:
    try:
        crc = crc_of(each)
    except ValueError:
        crc = 0
    with pytest.raises(Damaged, match=reason):
        decode(each, crc, zlib.crc32(data), data)


def test_checksums_are_held_against_what_came() -> None:
    with pytest.raises(Damaged, match="its checksum is wrong"):
        decode(row(), crc_of(row()) ^ 1, zlib.crc32(DATA), DATA)
    with pytest.raises(Damaged, match="the checksum of its columns is wrong"):
        decode(row(), crc_of(row()), zlib.crc32(DATA), DATA[:-1] + b"\1")


@pytest.mark.parametrize(
    "said", [None, [], list(row())[:-1], [None] * 12, [1 << 63, *row()[1:]], "x" * 12]
)
def test_what_is_no_row_is_told(said: object) -> None:
    with pytest.raises(Damaged):
        row_of(said)


def test_any_layout_that_passes_its_checks_is_decoded_or_refused() -> None:
    """A host that is hostile makes its own checksums."""
    chance = random.Random(7)
    words = ["t8", "s8", "v4:a", "v4:b", "r4:a", "q1:b", "a4", "v8:a", "x3", "t0", "v4:", "", "q1"]
    outcomes = set()
    for _ in range(3000):
        layout = " ".join(["t8", *chance.choices(words, k=chance.randrange(5))])
        count = chance.randrange(-1, 4)
        channels = sum(word.startswith("v") for word in layout.split(" "))
        data = struct.pack("<q", 1500) + chance.randbytes(chance.randrange(90))
        if chance.random() < 0.7:
            width = sum(int(word[1:2] or 0) for word in layout.split(" "))
            data = (data + bytes(200))[: width * max(count, 0)]
        each = row(layout, count, 0, channels)._replace(last_ms=chance.choice([0, 1500]))
        each = each._replace(first_ms=1500, last_ms=max(1500, each.last_ms))
        try:
            group = decoded(each, data)
        except Damaged:
            outcomes.add("refused")
            continue
        outcomes.add("decoded")
        table_of([group], GroupSource("i", "n", ["h"], 1)).validate(full=True)
    assert outcomes == {"refused", "decoded"}


def test_the_schemas_are_those_of_the_landing() -> None:
    assert schema_of(landing.REFUSED).names == ["iad", "time_ms", "source", "reason", "text"]
    assert schema_of(landing.NODES).field("areas").type == pa.list_(pa.string())
    groups = schema_of(landing.GROUPS)
    assert groups.field("age_ms").type == pa.list_(pa.int64())
    assert groups.field("count").type == pa.int32()
    assert groups.field("channels").type == pa.list_(
        pa.struct(
            [
                ("name", pa.string()),
                ("value", pa.list_(pa.float32())),
                ("raw", pa.list_(pa.float32())),
                ("quality", pa.list_(pa.int16())),
            ]
        )
    )


@pytest.mark.parametrize("name", ["sensor", "boot", "layout", "statistics"])
def test_a_row_of_endless_texts_is_damaged(name: str) -> None:
    """They are no bytes of a group, which are counted; a layout's columns are remembered."""
    with pytest.raises(Damaged, match="<= "):
        row_of(list(row()._replace(**{name: "t8" + " x1" * 3_000})))


def test_the_longest_row_of_an_agent_is_read() -> None:
    names = [f"{n:02}".rjust(32, "c") for n in range(MAX_CHANNELS)]
    layout = " ".join(["t8", "s8", "a4", *(f"v4:{n} r4:{n} q1:{n}" for n in names)])
    longest = row(layout, channels=MAX_CHANNELS)
    assert row_of(list(longest)) == longest

"""The landing that the pipeline's bench makes."""

import gzip
import hashlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from bench.pipeline.faults import BROKEN, DAY_S, DRIFTING, UNCHECKED, day
from bench.pipeline.generate import CORRECTION_MS, GROUP, fleet_of, generate
from bench.pipeline.rooms import rooms
from fleet.lake.pull.decode_schema import schema_of
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.landing import GROUPS
from sensors.quality.flags import NO_RESPONSE, SPIKE


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = Lake(tmp_path_factory.mktemp("lake"))
    return lake, generate(lake, 2 * DAY_S, seed=3)


def _groups(lake):
    files = sorted(lake.groups.rglob("*.parquet"))
    return [pq.ParquetFile(file).read() for file in files]


def test_counts(lake):
    lake, made = lake
    rows = [row for table in _groups(lake) for row in table.to_pylist()]
    assert made.landed == sum(row["count"] for row in rows)
    keys = {(row["node"], row["sequence"] + i) for row in rows for i in range(row["count"])}
    assert made.readings == len(keys)
    assert made.node_days == 2
    assert 0 < made.landed - made.readings < 0.1 * made.readings
    files = list(lake.groups.rglob("*.parquet"))
    assert (made.files, made.size) == (len(files), sum(file.stat().st_size for file in files))


def test_groups_are_as_the_landing_has_them(lake):
    lake, _ = lake
    for table in _groups(lake):
        assert table.schema.equals(schema_of(GROUPS))
        for row in table.to_pylist():
            times = row["time_ms"]
            assert row["count"] == len(times) <= GROUP
            assert (row["first_ms"], row["last_ms"]) == (times[0], times[-1])
            assert (np.diff(times) > 0).all()
            assert [channel["name"] for channel in row["channels"]] == ["temperature", "humidity"]
            for channel in row["channels"]:
                assert len(channel["value"]) == len(times)
                quality = channel["quality"]
                assert quality is None or (len(quality) == len(times) and any(quality))


def test_a_correction_moves_a_group_and_its_numbers_stay(lake):
    lake, _ = lake
    revisions = {}
    for table in _groups(lake):
        for row in table.to_pylist():
            revisions.setdefault((row["node"], row["sequence"]), []).append(row)
    corrected = [of for of in revisions.values() if any(row["shift_ms"] for row in of)]
    assert corrected
    for of in corrected:
        early, right = sorted(of, key=lambda row: row["exported_ms"])
        assert (early["synchronised"], right["synchronised"]) == (False, True)
        assert right["shift_ms"] == right["time_ms"][5] - early["time_ms"][5] == CORRECTION_MS
        assert right["channels"][0]["value"][:9] == pytest.approx(
            early["channels"][0]["value"][:9], nan_ok=True
        )
    assert any(len(of) == 2 and of not in corrected for of in revisions.values())  # repeated


@pytest.mark.long
def test_the_same_seed_gives_the_same_files(lake, tmp_path):
    def digests(of):
        files = sorted(of.landing.rglob("*.parquet"))
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]

    lake, made = lake
    again = Lake(tmp_path)
    assert generate(again, 2 * DAY_S, seed=3) == made
    assert digests(again) == digests(lake)


def test_faults():
    minutes = np.stack([np.full(9000, 20.0), np.full(9000, 50.0)])
    plain = day(minutes, 0, 0, 1)
    values, quality = plain.values, plain.quality
    assert (np.isnan(values) == (quality == NO_RESPONSE)).all()
    assert (values[0][quality[0] == SPIKE] > 30).all()
    assert abs(np.nanmedian(values[0]) - 20) < 0.05
    tenths = values[~np.isnan(values)] * 10
    assert np.abs(tenths - np.round(tenths)).max() < 1e-3
    assert np.nanmedian(day(minutes, BROKEN, 0, 1).values[0]) > 65
    assert np.nanmedian(day(minutes, DRIFTING, 8, 1).values[0]) == pytest.approx(24, abs=0.1)
    unchecked = day(minutes, UNCHECKED, 0, 1)
    assert np.isnan(unchecked.values).any()
    assert not unchecked.quality.any()
    days = [day(minutes, 0, number, 1) for number in range(40)]
    assert 0 < sum(len(made.ms) < DAY_S for made in days) < 20  # gaps


def test_nodes_and_days():
    fleet = fleet_of(["413", "415", "621"], 7)
    assert [(node.iad, node.area, days) for node, days in fleet] == [
        ("iad4", "b1/f4/r413", 3),
        ("iad4", "b1/f4/r415", 2),
        ("iad6", "b1/f6/r621", 2),
    ]
    assert len(fleet_of(["413", "415"], 1)) == 1


def test_rooms_are_on_whole_minutes_and_holes_are_filled(tmp_path):
    file = tmp_path / "rooms.csv.gz"
    lines = ["timestamp,room,temperature,humidity,co2"]
    # Minute 1 is missing; room 419 is broken, and 420 was heard of for a minute.
    for minute in (0, *range(2, 7 * 1440 + 1)):
        time = f"2013-08-{1 + minute // 1440:02} {minute // 60 % 24:02}:{minute % 60:02}:00"
        lines += [f"{time},{room},{20 + minute % 3},50,400" for room in (413, 419)]
    lines.append("2013-08-01 00:00:00,420,20,50,400")
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    (only,) = found = rooms(file)
    assert only == "413"
    assert found["413"].shape == (2, 7 * 1440 + 1)
    assert found["413"][0][:4].tolist() == [20.0, 21.0, 22.0, 20.0]


@pytest.mark.long
def test_the_rooms_of_the_repository_serve():
    found = rooms()
    assert len(found) >= 30
    assert all(np.isfinite(values).all() for values in found.values())

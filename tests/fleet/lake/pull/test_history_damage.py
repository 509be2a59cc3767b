"""Histories of which bits, rows or pages are damaged: what is sound arrives, the rest is told."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fleet.lake.pull.history import HistoryTaker
from fleet.lake.schema.folder import Lake
from fleet.on_host.history import frames
from fleet.ssh.errors import HostError
from tests.fleet.lake.pull.histories import (
    CHANNELS,
    Node,
    fill,
    landed,
    pull,
    reading,
    readings,
    refused,
    sample,
)

READINGS = 400
SOUND = {sample(n).time_ms: reading("dht", "boot-1", CHANNELS, sample(n)) for n in range(READINGS)}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of a hundred groups."""
    node = Node(tmp_path_factory.mktemp("sound"))
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(READINGS))
    history.close()
    return node.path.read_bytes()


def check(lake: Lake) -> int:
    """Only what was put in has arrived, each reading once; how many."""
    found = list(readings(landed(lake)))
    assert all(SOUND[each.time_ms] == each for each in found)
    assert len({each.time_ms for each in found}) == len(found)
    return len(found)


def test_flipped_bits_and_cut_files(content: bytes, tmp_path: Path) -> None:
    chance = random.Random(5)
    arrived = told = 0
    for n in range(60):
        node, lake = Node(tmp_path / str(n)), Lake(tmp_path / f"lake{n}")
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 3, 30])):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        if n % 4 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        if n % 4 == 1:
            page = 4096 * chance.randrange(1, len(damaged) // 4096)
            damaged[page : page + 4096] = chance.randbytes(4096)
        node.path.write_bytes(damaged)
        try:
            pull(lake, node)
        except HostError:
            told += 1
        arrived += check(lake)
    assert told < 45
    assert arrived > 10 * READINGS


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_anything(seed: int, content: bytes, tmp_path: Path) -> None:
    """Each group that is left has arrived or is refused, whatever stands in the others."""
    chance = random.Random(seed)
    node, lake = Node(tmp_path / "node"), Lake(tmp_path / "lake")
    node.path.write_bytes(content)
    anything = [None, 0, -1, 1 << 62, 0.5, "", "t8 v4:x", "\ud7ff", b"", b"\xff" * 70]
    db = sqlite3.connect(node.path)
    db.execute("PRAGMA writable_schema = ON")
    # Types are not checked by a table that is not strict, as damage does not either.
    db.execute("UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT', ''), 'NOT NULL', '')")
    db.commit()
    db.close()
    db = sqlite3.connect(node.path)
    columns = [name for _, name, *_ in db.execute("PRAGMA table_info(groups)")][1:]
    sequences = [sequence for (sequence,) in db.execute("SELECT sequence FROM groups")]
    damaged = chance.sample(sequences, 40)
    with db:
        for sequence in damaged[:30]:
            db.execute(
                f"UPDATE groups SET {chance.choice(columns)} = ? WHERE sequence = ?",
                (chance.choice(anything), sequence),
            )
        for sequence in damaged[30:]:
            db.execute(
                f"UPDATE columns SET {chance.choice(['crc', 'data'])} = ? WHERE sequence = ?",
                (chance.choice(anything), sequence),
            )
    db.close()
    counts = pull(lake, node)
    arrived = check(lake)
    assert arrived == counts.readings
    assert counts.groups >= 60
    # What was set to what it was before is sound.
    assert counts.groups + len(refused(lake)) == 100
    assert pull(lake, node).groups == 0
    assert check(lake) == arrived


def test_frames_of_anything(content: bytes, tmp_path: Path) -> None:
    """A host that sends nonsense amid its frames is told so; what it had sent well has landed."""
    chance = random.Random(3)
    node = Node(tmp_path / "node")
    node.path.write_bytes(content)
    asked = {"config": str(node.config), "known": {}, "latest": "", "since_ms": None}
    sound = list(frames(asked | {"max_bytes": 1 << 40, "max_groups": 1000}))
    anything: list[Any] = [None, -1, 1 << 70, 0.5, "", [], {}, "group", ["x"], float("nan")]
    told = 0
    for n in range(150):
        lake = Lake(tmp_path / f"lake{n}")
        taker = HistoryTaker(lake, "iad1", "e1", None, 1)
        try:
            for header, data in sound[:40]:
                spoiled = dict(header)
                if chance.random() < 0.03:
                    spoiled[chance.choice(list(header))] = chance.choice(anything)
                cut = chance.randrange(len(data) + 1) if chance.random() < 0.02 else len(data)
                taker.take(spoiled, data[:cut])
            taker.end()
        except HostError:
            told += 1
        taker.close()
        check(lake)
    assert 30 < told < 150

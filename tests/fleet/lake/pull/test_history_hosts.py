"""Hosts of a history that is pulled: undisturbed if they are honest, held in bounds if not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.edge.history.row_groups import OPENING
from fleet.lake.pull import history as taking
from fleet.lake.pull.history import HistoryTaker
from fleet.lake.schema.folder import Lake
from fleet.on_host.history import FRESH, frames
from fleet.ssh.errors import HostError
from tests.fleet.lake.pull.histories import CHANNELS, Node, fill, landed, numbers, pull
from tests.fleet.lake.pull.histories import refused as refused_in
from tests.fleet.on_host.running import run


def owners(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        path.name: (path.stat().st_uid, path.stat().st_gid)
        for path in folder.iterdir()
        if path.suffix != ".toml"
    }


def test_nothing_is_left_beside_a_history(lake: Lake, node: Node, tmp_path: Path) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(8))
    before = owners(node.path.parent)
    assert "history.sqlite-wal" in before
    pull(lake, node)
    assert owners(node.path.parent) == before
    history.close()
    before = owners(node.path.parent)
    assert before.keys() == {"history.sqlite", "history.sqlite.lock"}
    content = node.path.read_bytes()
    pull(Lake(tmp_path / "another"), node)
    assert owners(node.path.parent) == before
    assert node.path.read_bytes() == content


def test_a_writer_is_not_held_up(lake: Lake, node: Node) -> None:
    """Between two frames, the log can be emptied, and a clean stop leaves none."""
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(40))
    seen = []

    def checkpoint(header, data):
        db = sqlite3.connect(node.path)
        seen.append(db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        db.close()
        if header["at"] == "end":
            history.close()
            assert not Path(f"{node.path}-wal").exists()
        return header, data

    pull(lake, node, spoil=checkpoint)
    assert len(seen) > 10
    assert set(seen) == {0}


def test_an_agent_that_starts_meanwhile_is_seen(lake: Lake, node: Node) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(40))
    history.close()
    opened = []

    def start(header, data):
        if header["at"] == "history":
            opened.append(node.open("boot-2", retention_s=4.0))
            fill(opened[0].stream("dht", CHANNELS), range(1000, 1004))
        return header, data

    first = pull(lake, node, spoil=start)
    opened[0].close()
    counts = pull(lake, node)
    assert first.readings + counts.readings + counts.expired_readings == 44
    assert counts.expired_groups == 10 - first.groups


def test_what_is_no_history_is_told(lake: Lake, node: Node) -> None:
    assert pull(lake, node).groups == 0  # its agent was never started
    node.path.write_text("this is not a database, whatever else it may be" * 100)
    with pytest.raises(HostError, match=r"history\.sqlite: file is not a database"):
        pull(lake, node)
    node.path.unlink()
    sqlite3.connect(node.path).execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(HostError, match="it is not a Sanderling history"):
        pull(lake, node)
    node.path.unlink()
    os.mkfifo(node.path)  # SQLite would wait for its writer
    with pytest.raises(HostError, match=r"history\.sqlite: not a regular file"):
        pull(lake, node)
    node.config.unlink()
    with pytest.raises(HostError, match="no edge agent is installed there"):
        pull(lake, node)


def test_a_later_format_is_read_if_it_allows_that(lake: Lake, node: Node) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(4))
    history.close()
    db = sqlite3.connect(node.path)
    with db:
        db.execute("UPDATE meta SET value = 3 WHERE key = 'version'")
    assert pull(lake, node).readings == 4
    with db:
        db.execute("UPDATE meta SET value = 3 WHERE key = 'compatible'")
    db.close()
    with pytest.raises(HostError, match="it is of format 3, this reads 2"):
        pull(lake, node)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"at": "what"}, b""),
        ({}, b""),
        ({"at": "listed"}, b""),
        ({"at": "rest"}, b"x"),
        ({"at": "gone"}, b"x"),
        ({"at": "fresh"}, b"x"),
        ({"at": "fresh"}, FRESH.pack(0, (1 << 63) - 1)),
        ({"at": "fresh"}, FRESH.pack(0, -1)),
        ({"at": "group", "row": [], "crc": 0, "columns_crc": 0, "bytes": 0}, b""),
        ({"at": "history", "id": "../x", "openings": 1, "group_readings": 4, "tail": []}, b""),
    ],
)
def test_a_host_that_speaks_otherwise_is_refused(lake: Lake, header: dict, data: bytes) -> None:
    taker = HistoryTaker(lake, "iad1", "e1", None, 1)
    with pytest.raises(HostError):
        taker.take(header, data)
    taker.close()
    assert landed(lake) == {}


@pytest.fixture
def named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> HistoryTaker:
    """A taker to which a host has named two groups, of four that it may name."""
    monkeypatch.setattr(taking, "MAX_NAMED", 4)
    monkeypatch.setattr(taking, "MAX_REFUSED", 1)
    taker = HistoryTaker(lake, "iad1", "e1", None, 1)
    header = {"id": "h", "openings": 1, "group_readings": 4, "tail": [], "whole": True}
    taker.take({"at": "history", **header}, b"")
    taker.take({"at": "fresh"}, FRESH.pack(8, 4) + FRESH.pack(12, 4))
    return taker


def test_a_host_cannot_fill_the_memory(lake: Lake, named: HistoryTaker) -> None:
    with pytest.raises(HostError, match="named more groups as gone than were taken"):
        named.take({"at": "gone"}, bytes(12))
    named.take({"at": "listed"}, b"")
    bad = {"at": "bad", "sequence": 1, "crc": 1, "reason": "r" * 10_000, "text": "x" * 10_000}
    for _ in range(3):
        named.take(bad, b"")
    for header, data in ((bad, b""), ({"at": "fresh"}, bytes(16))):
        with pytest.raises(HostError, match="the host named more than 4 row groups"):
            named.take(header, data)
    named.close()
    rows = refused_in(lake)
    assert {(len(row["reason"]), len(row["text"])) for row in rows} == {(4096, 4096)}


def test_a_host_cannot_fill_the_memory_in_many_pulls(
    lake: Lake, named: HistoryTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MAX_TAKEN", 2)
    with pytest.raises(HostError, match="its history has more than 2 row groups"):
        named.take({"at": "fresh"}, bytes(16))


def test_a_host_cannot_fill_the_memory_with_starts(
    named: HistoryTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MAX_OPENINGS", 1)
    named.take({"at": "fresh"}, FRESH.pack(OPENING, 4))
    with pytest.raises(HostError, match="named groups of more than 1 starts"):
        named.take({"at": "listed"}, b"")


def test_groups_that_were_not_named_are_refused(lake: Lake, node: Node) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(8))
    taker = HistoryTaker(lake, "iad1", "e1", None, 1)
    sent = list(frames({**taker.asked(10**9), "config": str(node.config)}))
    history.close()
    found, _, listed, group, *_ = sent
    taker.take(*found)
    taker.take(*listed)
    with pytest.raises(HostError, match="sent a group that it has not named"):
        taker.take(*group)


@pytest.mark.parametrize("since_ms", [None, 1_700_000_005_000])
def test_more_groups_than_one_pull_takes_come_with_the_next_ones(
    lake: Lake, node: Node, monkeypatch: pytest.MonkeyPatch, since_ms: int | None
) -> None:
    monkeypatch.setattr(taking, "MAX_NAMED", 2)
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(20))
    first = 0 if since_ms is None else 4
    for pulls, more in enumerate((True, True, False) if since_ms is None else (True, False), 1):
        taker = HistoryTaker(lake, "iad1", "e1", since_ms, pulls * 1000)
        for header, data in frames({**taker.asked(10**9), "config": str(node.config)}):
            taker.take(header, data)
        taker.end()
        assert taker.more is more
        assert taker.counts.expired_groups == 0
        assert numbers(lake) == list(range(first, min(first + 8 * pulls, 20)))
    history.close()


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that other users may look into; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another")
def test_root_makes_no_file_of_its_own(open_to_all: Path) -> None:
    """On a host: the log's second file is missing, as after a copy."""
    node, cut = Node(open_to_all / "node"), Node(open_to_all / "cut")
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(8))
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{node.path}{suffix}", f"{cut.path}{suffix}")
        os.chown(f"{cut.path}{suffix}", 65534, 65534)
    history.close()
    os.chown(cut.path.parent, 65534, 65534)
    lines = run_on_host(cut)
    assert lines[-1] == {"ok": True}
    found = [line["header"]["at"] for line in lines if "header" in line]
    assert found == ["history", "fresh", "listed", "group", "group", "end"]
    assert set(owners(cut.path.parent).values()) == {(65534, 65534)}
    # It has no more rights than the owner.
    tail = Path(f"{cut.path}.tail")
    tail.write_bytes(b"")
    tail.chmod(0o600)
    assert run_on_host(cut)[-1]["error"] == f"{tail}: Permission denied"


def run_on_host(node: Node) -> list[dict[str, Any]]:
    """The lines that a host prints, in a process of its own."""
    asked = {"config": str(node.config), "known": {}, "latest": "", "since_ms": None}
    asked |= {"max_bytes": 1 << 40, "max_groups": 100}
    return run({"do": "logs", "program": "fleet.on_host.history", "asked": asked})

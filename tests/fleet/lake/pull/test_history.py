"""Pulls of a node's history, one promise a test; `test_history_stateful` has the random ones."""

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
from agent.edge.timebase import Correction
from fleet.lake.pull import history as taking
from fleet.lake.pull.history import HistoryTaker
from fleet.lake.schema.folder import Lake
from fleet.on_host.history import FRESH, frames
from fleet.ssh.errors import HostError
from tests.fleet.lake.pull.histories import (
    CHANNELS,
    Node,
    fill,
    landed,
    pull,
    reading,
    readings,
    sample,
)
from tests.fleet.lake.pull.histories import refused as refused_in
from tests.fleet.on_host.running import run


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


def numbers(lake: Lake) -> list[int]:
    """Which of `sample`s arrived."""
    return sorted(each.time_ms // 1000 - 1_700_000_000 for each in readings(landed(lake)))


def test_complete_groups_arrive_once_and_the_rest_when_it_is_complete(
    lake: Lake, node: Node
) -> None:
    history = node.open()
    stream = history.stream("dht", CHANNELS)
    fill(stream, range(10))
    counts = pull(lake, node, now_ms=1000)
    assert (counts.groups, counts.readings, counts.bytes) == (2, 8, 2 * 4 * 16)
    assert numbers(lake) == list(range(8))
    again = pull(lake, node, now_ms=2000)
    assert (again.groups, again.expired_groups) == (0, 0)
    history.close()
    assert pull(lake, node, now_ms=3000).readings == 2
    assert numbers(lake) == list(range(10))
    (name,) = {key[0] for key in landed(lake)}
    folder = lake.groups / "iad=iad1" / "node=e1"
    assert {path.name for path in folder.iterdir()} == {
        f"{name}-{OPENING}-1000.parquet",
        f"{name}-{OPENING + 8}-3000.parquet",
    }


def test_readings_arrive_as_they_were_stored(lake: Lake, node: Node) -> None:
    history = node.open()
    plain = [sample(n) for n in range(4)]
    odd = [
        sample(
            n,
            values=(float("nan"), 1e39),
            raw=(0.1, -0.0),
            quality=(1, 16),
            age_ms=4_000_000_000,
            source_time_ms=-5,
        )
        for n in range(4, 8)
    ]
    stream = history.stream("dht", CHANNELS, keeps_raw=True)
    for each in plain + odd:
        stream.append(each)
    history.close()
    pull(lake, node)
    expected = [reading("dht", "boot-1", CHANNELS, each) for each in plain + odd]
    assert sorted(readings(landed(lake)), key=lambda each: each.time_ms) == expected
    first, second = landed(lake).values()
    assert first["source_time_ms"] is first["age_ms"] is None
    assert [each["raw"] for each in first["channels"]] == [None, None]
    assert [each["quality"] for each in second["channels"]] == [[1] * 4, [16] * 4]


def test_a_corrected_group_comes_again_and_the_last_one_counts(lake: Lake, node: Node) -> None:
    history = node.open()
    stream = history.stream("dht", CHANNELS)
    for n in range(8):
        stream.append(sample(n, synchronised=False))
    assert pull(lake, node, now_ms=5).readings == 8
    history.correct(
        Correction(0, 9000, 1_800_000_000_000, 1_800_000_000_000, every=False, synchronised=True)
    )
    # This machine's clock was set back meanwhile.
    assert pull(lake, node, now_ms=4).readings == 8
    history.close()
    rows = landed(lake).values()
    assert [(row["first_ms"], row["shift_ms"]) for row in rows] == [
        (1_800_000_000_000, 100_000_000_000),
        (1_800_000_004_000, 100_000_000_000),
    ]
    assert [row["time_ms"][0] for row in rows] == [row["first_ms"] for row in rows]
    assert {(row["synchronised"], row["exported_ms"]) for row in rows} == {(True, 6)}


def test_what_retention_dropped_is_counted_once(lake: Lake, node: Node) -> None:
    history = node.open(retention_s=8.0, commit_s=1.0)
    stream = history.stream("dht", CHANNELS)
    fill(stream, range(8))
    pull(lake, node)
    fill(stream, range(8, 42))  # the last of it grows
    counts = pull(lake, node)
    assert numbers(lake) == [*range(8), *range(28, 40)]
    assert (counts.expired_groups, counts.expired_readings) == (5, 20)
    assert pull(lake, node).expired_groups == 0
    history.close()
    assert pull(lake, node).expired_groups == 0


def test_what_grows_for_long_has_not_expired(lake: Lake, node: Node) -> None:
    history = node.open(retention_s=8.0, commit_s=1.0)
    slow, stream = history.stream("co2", ("co2",)), history.stream("dht", CHANNELS)
    slow.append(sample(0, values=(400.0,)))  # begins first, and is complete last
    fill(stream, range(1, 43))
    counts = pull(lake, node)
    assert (counts.expired_groups, counts.groups) == (7, 3)
    for n in range(43, 46):
        slow.append(sample(n, values=(400.0,)))
    counts = pull(lake, node)
    assert (counts.expired_groups, counts.groups) == (0, 1)
    history.close()


def test_a_first_pull_counts_what_had_expired_before(lake: Lake, node: Node) -> None:
    for opening in range(3):
        history = node.open(f"boot-{opening}", retention_s=20.0)
        fill(
            history.stream("dht", CHANNELS),
            range(opening * 100, opening * 100 + 16),
            synchronised=False,
        )
        history.close()
    counts = pull(lake, node)
    # The first opening has nothing left: nobody knows what it had.
    assert numbers(lake) == [*range(108, 116), *range(200, 216)]
    assert (counts.expired_groups, counts.expired_readings) == (2, 8)


def test_after_a_power_cut_nothing_that_the_tail_had_is_lost(
    lake: Lake, node: Node, tmp_path: Path
) -> None:
    history = node.open(commit_s=1.0)
    fill(history.stream("dht", CHANNELS), range(10))
    assert pull(lake, node).readings == 8
    cut = Node(tmp_path / "cut")
    for suffix in ("", "-wal", ".tail"):
        shutil.copyfile(f"{node.path}{suffix}", f"{cut.path}{suffix}")
    history.close()
    assert pull(lake, cut).readings == 0
    cut.open("boot-2").close()
    counts = pull(lake, cut)
    assert (counts.readings, counts.expired_groups) == (2, 0)
    assert numbers(lake) == list(range(10))


def test_since_leaves_the_older_where_they_are(lake: Lake, node: Node) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(16))
    history.close()
    assert pull(lake, node, since_ms=sample(7).time_ms).readings == 12
    assert pull(lake, node).readings == 4


def test_a_bound_ends_a_pull_and_the_next_goes_on(lake: Lake, node: Node) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(16))
    history.close()
    assert pull(lake, node, max_bytes=100).readings == 8
    assert pull(lake, node, max_bytes=64).readings == 4
    counts = pull(lake, node)
    assert (counts.readings, counts.expired_groups) == (4, 0)
    assert numbers(lake) == list(range(16))


def test_what_was_there_and_not_taken_expires_with_its_exact_readings(
    lake: Lake, node: Node
) -> None:
    history = node.open("boot-1")
    stream = history.stream("dht", CHANNELS)
    fill(stream, range(6))
    history.close()  # a group of four, one of two
    pull(lake, node, max_bytes=1)
    history = node.open("boot-2", retention_s=4.0)
    fill(history.stream("dht", CHANNELS), range(100, 108))
    counts = pull(lake, node)
    history.close()
    assert (counts.expired_groups, counts.expired_readings) == (1, 2)


def test_cut_after_any_frame_nothing_is_lost_or_doubled(tmp_path: Path, node: Node) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(20))
    history.close()
    for most in range(9):
        lake = Lake(tmp_path / f"lake{most}")
        left = iter(range(most))

        def cut(header, data, left=left):
            if next(left, None) is None:
                raise HostError("lost", "the connection broke")
            return header, data

        with pytest.raises(HostError):
            pull(lake, node, spoil=cut)
        first = len(list(readings(landed(lake))))
        assert first + pull(lake, node, now_ms=2).readings == 20
        assert numbers(lake) == list(range(20))


def test_a_crash_before_the_state_takes_the_same_again(
    lake: Lake, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(8))
    history.close()

    with monkeypatch.context() as patch:
        patch.setattr(taking, "packed", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pull(lake, node, now_ms=1)
    assert pull(lake, node, now_ms=2).readings == 8
    assert len(list(lake.groups.glob("*/*/*.parquet"))) == 2
    assert numbers(lake) == list(range(8))


def test_files_have_a_bounded_size(lake: Lake, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "FILE_GROUPS", 3)
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(40))
    history.close()
    pull(lake, node)
    assert len(list(lake.groups.glob("*/*/*.parquet"))) == 4
    assert numbers(lake) == list(range(40))


def test_a_group_beyond_a_frame_arrives(lake: Lake, tmp_path: Path) -> None:
    node = Node(tmp_path / "node", group_readings=100_000)
    history = node.open(commit_s=1e6)
    history.stream("dht", CHANNELS).load(sample(n) for n in range(100_000))
    history.close()
    frames = []
    pull(
        lake, node, spoil=lambda header, data: frames.append((header["at"], data)) or (header, data)
    )
    assert [at for at, _ in frames] == ["history", "fresh", "listed", "group", "rest", "end"]
    assert max(len(data) for _, data in frames) == 1 << 20
    ((_, row),) = landed(lake).items()
    assert row["count"] == len(row["time_ms"]) == 100_000
    assert row["channels"][1]["value"][-1] == -99_999.0


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "UPDATE columns SET data = zeroblob(length(data))",
            "the checksum of its columns is wrong",
        ),
        ("UPDATE columns SET data = x'01'", "the checksum of its columns is wrong"),
        ("DELETE FROM columns", "its columns are missing"),
        ("UPDATE groups SET shift_ms = 1", "the checksum of its row is wrong"),
        ("UPDATE groups SET crc = 7", "the checksum of its row is wrong"),
    ],
)
def test_a_damaged_group_is_refused_once_and_spoils_no_other(
    lake: Lake, node: Node, statement: str, reason: str
) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(12))
    history.close()
    db = sqlite3.connect(node.path)
    with db:
        db.execute(f"{statement} WHERE sequence = ?", (OPENING + 4,))
    db.close()
    assert pull(lake, node).readings == 8
    (row,) = refused_in(lake)
    assert row["reason"] == reason
    assert row["source"].endswith(f"group {OPENING + 4}")
    assert (row["iad"], row["time_ms"]) == ("iad1", 1)
    assert pull(lake, node).readings == 0
    assert len(refused_in(lake)) == 1


def test_a_rebuilt_history_does_not_bring_its_groups_again(lake: Lake, node: Node) -> None:
    history = node.open()
    fill(history.stream("dht", CHANNELS), range(16))
    history.close()
    pull(lake, node)
    db = sqlite3.connect(node.path)
    with db:
        db.execute("DELETE FROM meta WHERE key = 'version'")
    db.close()
    history = node.open("boot-2")
    assert "with 16 readings of it" in history.report
    fill(history.stream("dht", CHANNELS), range(100, 104))
    history.close()
    counts = pull(lake, node)
    assert (counts.readings, counts.expired_groups) == (4, 0)
    assert numbers(lake) == [*range(16), *range(100, 104)]
    assert len({name for name, _ in landed(lake)}) == 2


def test_another_card_is_another_history_and_the_first_stays_known(
    lake: Lake, tmp_path: Path
) -> None:
    cards = [Node(tmp_path / name) for name in ("a", "b")]
    for boot, card in enumerate(cards):
        history = card.open(f"boot-{boot}")
        fill(history.stream("dht", CHANNELS), range(8))
        history.close()
    assert [pull(lake, cards[n]).readings for n in (0, 1, 0, 1)] == [8, 8, 0, 0]
    assert numbers(lake) == sorted([*range(8)] * 2)


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

"""Pulls of a node's history, one promise a test; `test_history_random` has the random ones."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from agent.edge.history.row_groups import OPENING
from agent.edge.timebase import Correction
from fleet.lake.pull import history as taking
from fleet.lake.schema.folder import Lake
from fleet.ssh.errors import HostError
from tests.fleet.lake.pull.histories import (
    CHANNELS,
    Node,
    fill,
    landed,
    numbers,
    pull,
    reading,
    readings,
    sample,
)
from tests.fleet.lake.pull.histories import refused as refused_in


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


def test_a_card_that_was_put_back_from_a_copy_replaces_nothing_that_was_taken(
    lake: Lake, node: Node
) -> None:
    def filled(boot: str, numbers: range) -> None:
        history = node.open(boot)
        fill(history.stream("dht", CHANNELS), numbers)
        history.close()

    filled("boot-1", range(8))
    copy = Path(f"{node.path}.copy")
    shutil.copyfile(node.path, copy)
    filled("boot-2", range(100, 112))
    filled("boot-3", range(200, 212))
    assert pull(lake, node, now_ms=1).readings == 32
    before = numbers(lake)
    # Twice: the second time the numbers of both former openings come once more.
    for now_ms, first in enumerate((300, 500), start=2):
        shutil.copyfile(copy, node.path)
        filled(f"boot-{first}", range(first, first + 8))
        assert pull(lake, node, now_ms=now_ms).readings == 8
        filled(f"boot-{first + 100}", range(first + 100, first + 108))
        assert pull(lake, node, now_ms=now_ms + 10).readings == 8
        assert pull(lake, node, now_ms=now_ms + 20).readings == 0
    after = [*range(300, 308), *range(400, 408), *range(500, 508), *range(600, 608)]
    assert numbers(lake) == [*before, *after]

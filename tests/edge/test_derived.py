"""What a node's clone computes: kept once, whoever is killed, and never taken for a reading."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.edge.derived.channels import DerivedChannels
from agent.edge.derived.intake import (
    MAX_OWED,
    MAX_SOURCES,
    MAX_UNDER_WAY,
    STREAM,
    DerivedIntake,
)
from agent.edge.history.derived_positions import MAX_REMEMBERED
from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.edge.node_time import Moment
from agent.runtime.disk_writer import InlineDiskWriter
from agent.wire.derived import Derived, DerivedTaken, DerivedValues
from tests.edge.broken_history import break_file, crash
from tests.edge.history_oracle import START_MS, open_history
from tests.master.held_writer import HeldWriter

COMMIT_S = 10.0
# Histories of nodes, those that were killed included.
OPENED: list[History] = []


def close_all() -> None:
    """Close the files of a test's histories."""
    while OPENED:
        with suppress(HistoryError):  # its folder may be gone
            OPENED.pop().close()


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


class Node:
    """A history with its intake; time stands still unless it is told to go on."""

    def __init__(self, path: Path, wanted: tuple[str, ...] = (), taken: tuple[str, ...] = ()):
        self.history = open_history(path, group_readings=8)
        OPENED.append(self.history)
        self.readings = self.history.stream("desk", ("temperature",))
        self.now = 1_000.0
        self.acknowledged: list[DerivedTaken] = []
        self.acted: list[DerivedValues] = []
        self.complaints: list[str] = []
        self.intake = DerivedIntake(
            self.history,
            self.history.stream(STREAM, ()),
            wanted,
            taken,
            commit_s=COMMIT_S,
            retention_s=86_400.0,
            moment=self.moment,
            disk=InlineDiskWriter(),
            acknowledge=self.acknowledged.append,
            complain=self.complaints.append,
            act=self.acted.extend,
        )

    def moment(self) -> Moment:
        return Moment(START_MS + self.ms, self.ms, True)

    @property
    def ms(self) -> int:
        return round(self.now * 1000)

    def take(self, *positions: int, source: str = "clone", age_ms: int = 0, **more: float) -> None:
        values = tuple(
            DerivedValues(p, age_ms + 100 * (positions[-1] - p), {"at": float(p), **more})
            for p in positions
        )
        self.intake.arrived(Derived("boot", source, values), self.now)

    def read(self) -> None:
        moment = self.moment()
        self.readings.append(Sample(moment.time_ms, moment.monotonic_ms, True, (20.0,)))

    def found(self, channel: str = "at") -> list[float]:
        return found_in(self.history, channel)

    def acks(self) -> list[int]:
        self.now = max(self.now, min(self.intake.wake_at, self.now + 1.0))
        self.intake.turn(self.now)
        return [each.position for each in self.acknowledged]


def found_in(history: History, channel: str) -> list[float]:
    reader = Reader(history)
    series = reader.series(0, 2**53, (channel,))
    reader.close()
    return [] if series is None else [v for v in series.values[channel].numbers() if v == v]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "h.sqlite")


def test_they_stand_beside_the_readings_at_the_time_when_they_were_computed(node: Node) -> None:
    node.read()
    node.now += 10
    node.take(1, age_ms=4_000)
    reader = Reader(node.history)
    series = reader.series(0, 2**53)
    assert series is not None
    assert list(series.time_ms.numbers()) == [START_MS + 1_000_000, START_MS + 1_006_000]
    assert list(series.values) == ["temperature", "at"]
    assert [v for v in series.values["at"].numbers() if v == v] == [1.0]
    aggregate = reader.aggregate(0, 2**53, ("at",))
    assert aggregate is not None
    assert aggregate.channels["at"].count == 1
    reader.close()


def test_they_are_acknowledged_once_they_are_on_stable_storage(node: Node) -> None:
    node.take(1, 2)
    assert node.found() == [1.0, 2.0]
    assert node.acks() == []
    node.history.commit()
    assert node.acks() == [2]
    assert node.acks() == [2]  # said once


def test_without_a_commit_of_the_sensors_they_have_one_of_their_own(node: Node) -> None:
    node.take(1)
    node.now += COMMIT_S - 1.0
    assert node.acks() == []
    assert node.history.derived == {}
    assert node.acks() == []
    assert node.history.derived == {"clone": 1}
    assert node.acks() == [1]


def test_what_comes_again_is_acknowledged_and_not_kept_again(node: Node) -> None:
    node.take(1, 2)
    node.history.commit()
    node.take(1, 2)
    node.take(2, 3)
    assert node.found() == [1.0, 2.0, 3.0]
    node.history.commit()
    assert node.acks() == [3]
    assert [each.position for each in node.acted] == [1, 2, 3]


def test_each_source_has_its_own_positions(node: Node) -> None:
    node.take(1, 2)
    node.take(1, source="anew")
    assert node.found() == [1.0, 2.0, 1.0]
    node.history.commit()
    node.acks()
    assert [(each.source, each.position) for each in node.acknowledged] == [
        ("clone", 2),
        ("anew", 1),
    ]


def test_values_that_are_not_to_be_kept_are_acknowledged(tmp_path: Path) -> None:
    node = Node(tmp_path / "h.sqlite", wanted=("comfort",))
    node.take(1)
    assert node.acks() == [1]
    node.take(2, comfort=0.5)
    assert node.acks() == [1]
    node.history.commit()
    assert node.acks() == [1, 2]
    assert node.found() == []
    assert node.found("comfort") == [0.5]


def test_values_older_than_the_history_keeps_any_are_acknowledged(node: Node) -> None:
    node.take(1, age_ms=2**52)
    assert node.acks() == [1]
    assert node.found() == []


def test_values_of_one_moment_stay_apart(node: Node) -> None:
    for position in range(1, 6):
        node.take(position)
    reader = Reader(node.history)
    series = reader.series(0, 2**53, ("at",))
    assert series is not None
    times = list(series.time_ms.numbers())
    assert times == sorted(set(times))
    reader.close()


def test_a_new_channel_begins_a_new_group(node: Node) -> None:
    node.take(1)
    node.take(2, comfort=0.5)
    node.take(3)
    node.history.close()
    again = Node(Path(node.history.path))
    assert again.found() == [1.0, 2.0, 3.0]
    assert again.found("comfort") == [0.5]


@pytest.mark.parametrize("how", ["text", "short", "page"])
def test_a_file_that_is_made_anew_keeps_what_it_can(how: str, tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    node = Node(path)
    node.take(*range(1, 20))
    node.history.close()
    break_file(path, how)
    again = Node(path)
    again.take(*range(15, 25))
    found = again.found()
    assert len(found) == len(set(found))
    assert {20.0, 21.0, 22.0, 23.0, 24.0} <= set(found)


def test_while_the_file_cannot_be_opened_they_are_left_to_the_master(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(History, "writable", False)
    node.take(1)
    assert node.found() == []
    node.now += 2 * COMMIT_S
    assert node.acks() == []


def test_values_from_before_the_boot_age_no_reading(tmp_path: Path) -> None:
    """A boot has not lasted longer because old values came in it."""
    path = tmp_path / "h.sqlite"
    history = open_history(path, boot="one", retention_s=3_600.0)
    stream = history.stream("desk", ("temperature",))
    stream.append(Sample(START_MS, 0, False, (20.0,)))
    history.close()
    node = Node(path)
    node.history._retention_ms = 3_600_000
    node.now = 10.0
    node.take(1, age_ms=50_000_000)
    node.history.close()
    again = open_history(path)
    assert found_in(again, "temperature") == [20.0]
    again.close()


@pytest.mark.parametrize("seed", range(6))
def test_each_is_there_once_whatever_is_killed(seed: int, tmp_path: Path) -> None:
    """The master sends from the last acknowledgement on; a crash leaves what was synced."""
    rng = random.Random(seed)
    crashes = 0
    node = Node(tmp_path / "0.sqlite")
    last = acknowledged = 0
    for _ in range(120):
        match rng.choice(("new", "again", "commit", "turn", "read", "time", "crash", "step")):
            case "new":
                count = rng.randint(1, 4)
                node.take(*range(acknowledged + 1, last + count + 1))
                last += count
            case "again" if last > acknowledged:
                node.take(*range(acknowledged + 1, last + 1))
            case "commit":
                node.history.commit()
            case "turn":
                acknowledged = max([acknowledged, *node.acks()])
            case "read":
                node.read()
            case "time":
                node.now += rng.choice((0.01, 1.0, 15.0))
            case "step" if last > acknowledged:
                node.take(*range(acknowledged + 1, last + 1), age_ms=300)
            case "crash":
                crashes += 1
                copy = tmp_path / f"{crashes}.sqlite"
                crash(Path(node.history.path), copy)
                now = node.now
                node = Node(copy)
                node.now = now + rng.choice((0.0, 5.0))
                found = sorted(node.found())
                assert found == [float(p) for p in range(1, len(found) + 1)]
                assert len(found) >= acknowledged
    if last > acknowledged:
        node.take(*range(acknowledged + 1, last + 1))
    assert sorted(node.found()) == [float(p) for p in range(1, last + 1)]
    node.history.commit()
    assert max(node.acks(), default=acknowledged) == last
    node.history.close()


# --- channels ---------------------------------------------------------------------------------


def test_a_name_that_a_sensor_has_is_never_mixed_with_its_readings() -> None:
    channels = DerivedChannels((), ("temperature",))
    assert channels.row({"temperature": 1.0, "comfort": 2.0, "temperature_raw": 3.0}) == (
        1.0,
        2.0,
        3.0,
    )
    assert channels.names == ("derived_temperature", "comfort", "derived_temperature_raw")


def test_channels_are_bounded() -> None:
    channels = DerivedChannels((), ())
    channels.row({f"c{n}": 1.0 for n in range(16)})
    assert channels.row({"more": 1.0}) == ()
    assert len(channels.names) == 16
    assert channels.left_out == {"more"}


def test_only_the_wanted_are_kept() -> None:
    channels = DerivedChannels(("comfort",), ())
    assert channels.row({"comfort": 1.0, "other": 2.0}) == (1.0,)


def test_ever_new_sources_take_no_memory(node: Node) -> None:
    """As a compromised master may name them."""
    for number in range(300):
        node.take(1, source=f"clone {number}")
        if number % MAX_SOURCES == MAX_SOURCES - 1:
            node.history.commit()
    assert len(node.history.derived) <= MAX_REMEMBERED
    assert len(node.intake._sources) <= MAX_SOURCES
    assert len(node.intake._owed) <= MAX_OWED
    # Of those that came last all is acknowledged, and each is there once.
    node.acks()
    assert {"clone 250", "clone 287"} <= {each.source for each in node.acknowledged}
    node.take(1, source="clone 287")
    node.history.commit()
    assert len(node.found()) == 300


def test_messages_beyond_some_wait_at_the_master(node: Node, monkeypatch) -> None:
    """While the disk is slow."""

    monkeypatch.setattr(node.intake, "_disk", HeldWriter(slow=True))
    for position in range(1, 1_000):
        node.take(position)
    jobs = node.intake._disk.jobs
    assert len(jobs) == MAX_UNDER_WAY
    while jobs:
        node.intake._disk.do()
    node.take(17)
    assert len(jobs) == 1
    node.intake._disk.do()
    assert node.found() == [float(each) for each in range(1, 18)]

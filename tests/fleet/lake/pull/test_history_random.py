"""Every reading of a node arrives exactly once or is counted, whatever it and its pulls do."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.edge.history import group_table
from agent.edge.history.memtable import Sample
from agent.edge.history.row_groups import OPENING
from agent.edge.timebase import Correction
from fleet.lake.schema.folder import Lake
from fleet.on_host.history import FRESH
from tests.fleet.lake.pull.histories import (
    CHANNELS,
    Node,
    Reading,
    landed,
    pull,
    reading,
    readings,
    sample,
)

SENSORS = (("dht", ("temperature", "humidity"), 1), ("co2", ("co2",), 3), ("door", ("open",), 20))
GROUP = 4
WALL_MS = 1_700_000_000_000


class Played:
    """A node with three sensors, one of them slow. A reading's source time is its number."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.retention_s = self.random.choice([10.0, 60.0, 200.0])
        self.folder = folder
        self.lake = Lake(folder / "lake")
        self.node = Node(folder / "0", GROUP)
        self.copies = self.boot = self.now_s = self.number = 0
        self.put_in: dict[int, Reading] = {}
        self.seen: dict[int, int] = {}  # by opening, the last group that a pull knew of
        self.expired_groups = self.expired_readings = 0
        self.start()

    def start(self) -> None:
        self.boot += 1
        self.history = self.node.open(
            f"boot-{self.boot}", retention_s=self.retention_s, commit_s=2.0
        )
        assert self.history.report == ""
        self.streams = [
            self.history.stream(name, channels, keeps_raw=True) for name, channels, _ in SENSORS
        ]

    def run(self) -> None:
        for _ in range(self.random.randrange(60)):
            self.now_s += 1
            for stream, (name, channels, every) in zip(self.streams, SENSORS, strict=True):
                if self.now_s % every == 0:
                    taken = self.sample(len(channels))
                    stream.append(taken)
                    self.put_in[self.number] = reading(name, f"boot-{self.boot}", channels, taken)

    def sample(self, channels: int) -> Sample:
        self.number += 1
        pick = self.random.random
        return Sample(
            WALL_MS + self.now_s * 1000,
            self.now_s * 1000,
            False,
            tuple(pick() * 1e3 for _ in range(channels)),
            self.number,
            self.random.choice([0, 0, 0, 250]),
            tuple(self.random.choice([0, 0, 16]) for _ in range(channels)),
            tuple(pick() for _ in range(channels)) if pick() < 0.3 else None,
        )

    def stop(self) -> None:
        self.history.close()
        self.start()

    def power_cut(self) -> None:
        self.history.commit()
        self.copies += 1
        cut = Node(self.folder / str(self.copies), GROUP)
        for suffix in ("", "-wal", ".tail"):
            if Path(f"{self.node.path}{suffix}").exists():
                shutil.copyfile(f"{self.node.path}{suffix}", f"{cut.path}{suffix}")
        self.history.close()
        self.node = cut
        self.start()

    def correct(self) -> None:
        offset_ms = WALL_MS + self.random.randrange(-5000, 5000)
        until_ms = self.now_s * 1000
        self.history.correct(
            Correction(0, until_ms, offset_ms, offset_ms, every=True, synchronised=False)
        )

    def pull(self, **bounds: Any) -> None:
        def look(header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
            known = header.get("tail", [])
            if header["at"] == "fresh":
                known = [sequence for sequence, _ in FRESH.iter_unpack(data)]
            for sequence in known:
                n = sequence // OPENING
                self.seen[n] = max(self.seen.get(n, 0), sequence)
            return header, data

        counts = pull(self.lake, self.node, spoil=look, **bounds)
        self.expired_groups += counts.expired_groups
        self.expired_readings += counts.expired_readings

    def play(self, steps: int) -> None:
        for _ in range(steps):
            what = self.random.choices(
                [self.run, self.stop, self.power_cut, self.correct, self.pull, self.pull_some],
                [8, 1, 1, 1, 2, 1],
            )
            what[0]()

    def pull_some(self) -> None:
        self.pull(max_bytes=self.random.choice([1, 200, 1000]))

    def end(self) -> None:
        """An opening is over when the next one has begun."""
        self.history.close()
        self.start()
        self.pull()
        self.history.close()


@pytest.mark.parametrize("seed", [0, 4, 124])
def test_every_reading_arrives_once_or_is_counted(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = group_table.insert
    filed: dict[int, set[int]] = {}

    def noting(db: Any, group: group_table.Complete) -> None:
        insert(db, group)
        numbers = memoryview(group.batch.source_time_ms or b"").cast("q")
        # The tail may bring again what was dropped, and drop it again.
        filed.setdefault(group.sequence, set()).update(numbers)

    monkeypatch.setattr(group_table, "insert", noting)
    played = Played(tmp_path, seed)
    played.play(40)
    played.end()

    arrived = list(readings(landed(played.lake)))
    by_number = {each.source_time_ms: each for each in arrived}
    assert len(by_number) == len(arrived)
    for number, each in by_number.items():
        assert each._replace(time_ms=0) == played.put_in[number or 0]._replace(time_ms=0)
    lost = {
        sequence: numbers for sequence, numbers in filed.items() if not numbers & by_number.keys()
    }
    assert len(played.put_in) == len(arrived) + sum(map(len, lost.values()))
    # What followed the last look at an opening, and went before the next, nobody can know.
    knowable = [
        len(numbers)
        for sequence, numbers in lost.items()
        if sequence <= played.seen.get(sequence // OPENING, 0)
    ]
    assert knowable
    assert played.expired_groups == len(knowable)
    assert sum(knowable) <= played.expired_readings <= GROUP * len(knowable)


def test_pulls_while_the_agent_writes(tmp_path: Path) -> None:
    """Nothing is torn, lost or taken twice, and nothing that is still to come counts as expired."""
    node, lake = Node(tmp_path / "node", group_readings=20), Lake(tmp_path / "lake")
    history = node.open(commit_s=5.0, retention_s=500.0)
    slow, quick = history.stream("co2", ("co2",)), history.stream("dht", CHANNELS)
    samples = {n: sample(n, source_time_ms=n) for n in range(1, 5_001)}

    def write() -> None:
        for n, each in samples.items():
            quick.append(each)
            if n % 50 == 0:
                slow.append(each._replace(values=(1.0,), source_time_ms=-n))

    writer = threading.Thread(target=write)
    writer.start()
    counts = [pull(lake, node)]
    while writer.is_alive():
        counts.append(pull(lake, node))
    writer.join()
    history.close()
    node.open("boot-2").close()
    counts.append(pull(lake, node))
    found = [each.source_time_ms or 0 for each in readings(landed(lake))]
    assert len(set(found)) == len(found) == sum(each.readings for each in counts)
    assert set(found) <= samples.keys() | {-n for n in samples if n % 50 == 0}
    lost = len(samples) + len(samples) // 50 - len(found)
    # A look amid a commit may see half of what it puts in the tail.
    assert lost <= sum(each.expired_readings for each in counts) <= lost + 40
    assert len(counts) > 2

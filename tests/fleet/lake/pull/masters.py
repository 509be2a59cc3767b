"""A master's folder with a real record log, and pulls of it that may be cut anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.master.recording.record_log import CURRENT, RecordLog
from agent.wire.master_config import MasterRecords
from agent.wire.records import NodeEventRecord
from fleet.lake.pull.counts import Counts
from fleet.lake.pull.host_source import Header
from fleet.lake.pull.records import RecordsTaker
from fleet.lake.schema.folder import Lake
from fleet.on_host import records as records_on_host
from fleet.ssh.errors import HostError

CONFIG = (
    '[iad]\nname = "{name}"\n[sockets]\npublic = "tcp://127.0.0.1:5700"\n'
    'operator = "tcp://127.0.0.1:5702"\nnodes = "tcp://127.0.0.1:5701"\n'
)


def record(number: int, length: int = 20) -> NodeEventRecord:
    return NodeEventRecord(
        iad="iad1",
        wall_ms=1_700_000_000_000 + number,
        start_s=float(number),
        node="n1",
        history="h",
        sequence=number,
        kind="fault",
        time_ms=number,
        synchronised=True,
        sensor="dht",
        channel="",
        text="x" * length,
    )


class Log(RecordLog):
    """Tells of the lines that go with an old file."""

    def __init__(self, settings: MasterRecords, folder: Path, gone: list[set[bytes]]) -> None:
        super().__init__(settings, folder)
        self._gone = gone

    def _rotate(self, current: Path) -> None:
        found = self._closed_files()
        for old in found[: max(0, len(found) + 1 - self._config.keep_files)]:
            self._gone.append(set(old.read_bytes().splitlines()))
        super()._rotate(current)


class Master:
    """Writes records to ``<folder>/records``, 15 or 20 of the shortest a file."""

    def __init__(self, folder: Path, name: str = "iad1", *, keep_files: int = 3) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "config.toml"
        self.config.write_text(CONFIG.format(name=name))
        self.records = folder / "records"
        self._settings = MasterRecords(rotate_bytes=4_096, keep_files=keep_files)
        self._next = 0
        self.gone: list[set[bytes]] = []  # lines of files that were too many
        self.restart()

    def restart(self) -> None:
        self._log = Log(self._settings, self.records, self.gone)

    def write(self, count: int, length: int = 20) -> None:
        for number in range(count):
            self._log.append(record(self._next, length), 0.0)
            self._next += 1
            if number % 5 == 4:
                self._log.flush()
        self._log.flush()

    @property
    def current(self) -> Path:
        return self.records / CURRENT

    @property
    def files(self) -> list[Path]:
        found = sorted(self.records.glob("records-*.jsonl"))
        return [*found, *([self.current] if self.current.exists() else [])]

    @property
    def lines(self) -> set[bytes]:
        return {line for file in self.files for line in file.read_bytes().splitlines()}


class CutError(Exception):
    """The connection is gone."""


def frames_of(taker: RecordsTaker, config: Path, max_bytes: int = 1 << 40) -> Iterator[Any]:
    asked = {**taker.asked(max_bytes), "config": str(config)}
    return records_on_host.frames(asked)


def pull(
    lake: Lake,
    config: Path,
    *,
    iad: str = "iad1",
    since_ms: int | None = None,
    max_bytes: int = 1 << 40,
    segment_bytes: int = 1_000,
    after: int | None = None,
    spoil: Callable[[Header, bytes], tuple[Header, bytes]] | None = None,
) -> tuple[Counts, int]:
    """What was counted and how many frames came; `after` so many of them it is cut off."""
    taker = RecordsTaker(lake, iad, since_ms, segment_bytes)
    count = 0
    try:
        for header, data in frames_of(taker, config, max_bytes):
            if after is not None and count >= after:
                break
            taker.take(*(spoil(header, data) if spoil else (header, data)))
            count += 1
        else:
            taker.end()
    except HostError:
        if spoil is None:
            raise
    finally:
        taker.close()
    return taker.counts, count


def landed(lake: Lake, iad: str = "iad1") -> list[bytes]:
    """All lines in the landing; every file in it ends with a whole one."""
    found = []
    for file in sorted((lake.records / f"iad={iad}").glob("*.jsonl")):
        data = file.read_bytes()
        assert data.endswith(b"\n")
        found += data.splitlines()
    return found

"""Record sink: passes records from the schedulers to the log, the metrics and other listeners."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from agent.master.recording.record_log import RecordLog
from agent.runtime import console
from agent.runtime.console import Say
from agent.runtime.disk_writer import DiskWriter
from agent.runtime.reactor import Reactor
from agent.runtime.token_bucket import TokenBuckets
from agent.scheduling.events import WriteRecord
from agent.wire.master_config import MasterRecords
from agent.wire.records import AnyRecord, QueryRecord, TaskRecord

# The log keeps the newest files, so who fills them soon has what others did gone, such as events of
# nodes, which have no other copy. What is refused costs its sender nothing: of each so much is
# recorded at once, and a second.
REFUSED_AT_ONCE: Final = 20_000
REFUSED_PER_S: Final = 100.0
# A query may have half a megabyte of areas. Beyond these bytes of a client its records have none.
AREA_BYTES_AT_ONCE: Final = 8 << 20
AREA_BYTES_PER_S: Final = 64 << 10


class Records:
    """Takes the schedulers' records and passes them to the log, if there is one, and to
    listeners, which hear of all that is refused."""

    def __init__(
        self,
        reactor: Reactor,
        config: MasterRecords,
        folder: Path,
        writer: DiskWriter | None = None,
        say: Say = console.write,
    ) -> None:
        self._reactor = reactor
        self._log = (
            RecordLog(config, folder / config.directory, say, writer) if config.directory else None
        )
        self._refused = TokenBuckets(REFUSED_AT_ONCE, REFUSED_PER_S)
        self._areas = TokenBuckets(AREA_BYTES_AT_ONCE, AREA_BYTES_PER_S)
        self._listeners: list[Callable[[AnyRecord, float], None]] = []
        reactor.performs(WriteRecord, self._write, brief=True)
        if self._log is not None:
            reactor.add_timer(self, often=True)

    @property
    def lost(self) -> int:
        """Records that the disk refused."""
        return self._log.lost if self._log else 0

    @property
    def next_due(self) -> float | None:
        """When the log is to be flushed."""
        return self._log.next_flush if self._log else None

    def tick(self, _now: float) -> None:
        """Flush the log."""
        if self._log:
            self._log.flush()

    def tell(self, listener: Callable[[AnyRecord, float], None]) -> None:
        """Call `listener(record, now)` for every record."""
        self._listeners.append(listener)

    def write_through(self, records: Sequence[AnyRecord], then: Callable[[bool], object]) -> None:
        """Put these on stable storage; `then` gets whether they are there. If not, the log has none
        of them."""

        def written(well: bool) -> None:
            now = self._reactor.clock()
            for record in records if well else ():
                for listener in self._listeners:
                    listener(record, now)
            then(well)

        if self._log is None:
            then(False)
        else:
            self._log.write_through(records, written)

    def recent(self, kind: str) -> Iterable[bytes]:
        """The most recent lines of that kind, on stable storage."""
        return self._log.recent(kind) if self._log else ()

    def close(self) -> None:
        """Write waiting records. It takes as long as the disk does."""
        if self._log:
            self._log.close()

    def _write(self, instruction: WriteRecord) -> None:
        now = self._reactor.clock()
        if self._log and self._is_kept(instruction.record, now):
            self._log.append(self._fitting(instruction.record, now), now)
        for listener in self._listeners:
            listener(instruction.record, now)

    def _is_kept(self, record: AnyRecord, now: float) -> bool:
        sender = _refused(record)
        return sender is None or self._refused.admits(sender, now)

    def _fitting(self, record: AnyRecord, now: float) -> AnyRecord:
        if not isinstance(record, QueryRecord):
            return record
        size, bucket = sum(map(len, record.areas)), self._areas.of(record.client, now)
        if bucket.wait_s(now, size):
            return replace(record, areas=())
        bucket.take(size)
        return record


def _refused(record: AnyRecord) -> Hashable:
    """Whose query or task was refused; None: it is none that was."""
    if isinstance(record, QueryRecord):
        return (QueryRecord, record.client) if record.status == "refused" else None
    if isinstance(record, TaskRecord):
        return (TaskRecord, record.origin) if record.status == "refused" else None
    return None

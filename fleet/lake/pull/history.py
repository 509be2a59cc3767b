"""Takes a node's history: verifies and decodes row groups, writes Parquet to the landing zone."""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct

from agent.edge.history.row_groups import OPENING
from fleet.common.msgspec_types import made_ready
from fleet.lake.pull.counts import Counts
from fleet.lake.pull.decode import (
    Damaged,
    Group,
    GroupSource,
    Int64,
    Row,
    decode,
    row_of,
    table_of,
    write,
)
from fleet.lake.pull.decode_schema import schema_of
from fleet.lake.pull.history_state import (
    KNOWN,
    HistoriesState,
    Key,
    Listing,
    TakenHistory,
    enter,
    older_copy,
    packed,
    settle,
    unpacked,
)
from fleet.lake.pull.host_source import Header
from fleet.lake.pull.landing_files import staged
from fleet.lake.pull.state import load, save, state_path
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.landing import REFUSED
from fleet.on_host.history import FRESH
from fleet.ssh.errors import HostError

# Of one file, and so of what waits in memory: ten days of a sensor with two channels at 1 Hz.
FILE_BYTES: Final = 16 << 20
FILE_GROUPS: Final = 4096
# No agent can be configured to a longer group.
MAX_GROUP: Final = 128 << 20
MAX_REFUSED: Final = 1000
# The ingest shows a thousand characters of what was refused.
MAX_TEXT: Final = 4096
# New groups of one pull, of some 250 bytes of memory each; the rest comes with the next one. Ten
# sensors at 1 Hz fill as many of the usual length in 90 days.
MAX_NAMED: Final = 1 << 17
# Groups of a history that are remembered, of all pulls: ten years of two such sensors.
MAX_TAKEN: Final = 1 << 20
# Starts of the agent of which a history has groups, of some 700 bytes each: 45 days of an agent
# that ends once a minute.
MAX_OPENINGS: Final = 1 << 16

Size = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Crc = Annotated[int, Meta(ge=0, lt=1 << 32)]


class Found(Struct, frozen=True, tag_field="at", tag="history"):
    """Identity of a history."""

    id: Annotated[str, Meta(pattern=r"^[0-9A-Za-z_-]{1,64}$(?!\n)")]
    openings: Annotated[int, Meta(ge=0, lt=1 << 31)]
    group_readings: Size
    tail: frozenset[Int64]
    whole: bool


class Gone(Struct, frozen=True, tag_field="at", tag="gone"):
    """Groups that are not there any more as they were."""


class Fresh(Struct, frozen=True, tag_field="at", tag="fresh"):
    """Groups that were not taken."""


class Listed(Struct, frozen=True, tag_field="at", tag="listed"):
    """These were all."""


class Sent(Struct, frozen=True, tag_field="at", tag="group"):
    """A group, or its first bytes."""

    row: list[Any]
    crc: Crc
    columns_crc: Crc
    bytes: Size


class Rest(Struct, frozen=True, tag_field="at", tag="rest"):
    """Further bytes of it."""


class Bad(Struct, frozen=True, tag_field="at", tag="bad"):
    """A group that its host cannot read."""

    sequence: Int64
    crc: Crc
    reason: str
    text: str


class More(Struct, frozen=True, tag_field="at", tag="more"):
    """There is more than was asked for."""


class End(Struct, frozen=True, tag_field="at", tag="end"):
    """That was all."""


AnyHeader = Found | Gone | Fresh | Listed | Sent | Rest | Bad | More | End
made_ready(AnyHeader, HistoriesState)


class _Waiting(NamedTuple):
    """A group to land, or the reason why it is refused."""

    key: Key
    bytes: int
    group: Group | None
    reason: str = ""
    text: str = ""


class HistoryTaker:
    """Takes what `fleet.on_host.history` sends; a `Taker` of fleet/lake/pull/host_source.py.

    Groups wait in memory until they make a file; when it is in the landing, the state says so.
    What is cut off is taken again under another name, and readers keep the last `exported_ms` of
    each group. What fails a check goes to `refused`, with the reason, and is not asked for again.
    """

    program = "fleet.on_host.history"

    def __init__(self, lake: Lake, iad: str, node: str, since_ms: int | None, now_ms: int) -> None:
        """HostError if the state cannot be read."""
        self.counts = Counts()
        self.received = 0
        self.more = False
        self._lake = lake
        self._iad, self._node = iad, node
        self._since_ms = since_ms
        self._path = state_path(lake, iad, node)
        self._state = load(self._path, HistoriesState)
        histories = self._state.histories.values()
        # The last export of a group counts, also if this clock was set back.
        self._exported_ms = max(now_ms, self._state.exported_ms + 1)
        self._found: Found | None = None
        self._gone: set[Key] = set()
        self._fresh: dict[int, int] = {}
        self._history: TakenHistory | None = None
        self._taken: dict[int, int] = {}
        self._refused: set[Key] = set()
        self._coming: Sent | None = None
        self._data = bytearray()
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._landed_refused = 0
        self._named = 0  # groups that are new
        self._may_go = max(
            (len(each.taken + each.refused) // KNOWN.size for each in histories), default=0
        )

    @property
    def under_way(self) -> bool:
        """As Taker has it."""
        return self._coming is not None

    def asked(self, max_bytes: int) -> dict[str, Any]:
        """Request to the host."""
        return {
            "known": {
                name: base64.b64encode(history.taken + history.refused).decode()
                for name, history in self._state.histories.items()
            },
            "latest": self._state.latest,
            "since_ms": self._since_ms,
            "max_bytes": max_bytes,
            "max_groups": MAX_NAMED,
        }

    def take(self, header: Header, data: bytes) -> None:
        """A frame has come. HostError for what no such host sends; OSError."""
        try:
            self._take(msgspec.convert(header, AnyHeader), data)
        except (msgspec.ValidationError, struct.error) as error:
            raise HostError("failed", f"the host sent what nobody understands: {error}") from None

    def end(self) -> None:
        """All frames have come."""
        self._land()

    def close(self) -> None:
        """Forget the group that is not complete; those that are may land yet."""
        with suppress(OSError):  # they are taken again
            self._land()
        self._waiting.clear()

    def _take(self, said: AnyHeader, data: bytes) -> None:
        match said:
            case Found():
                self._found = said
            case Gone():
                self._gone.update(KNOWN.iter_unpack(data))
                if len(self._gone) > self._may_go:
                    raise HostError("failed", "the host named more groups as gone than were taken")
            case Fresh():
                self._count_named(len(data) // FRESH.size)
                self._name(dict(FRESH.iter_unpack(data)))
            case Listed():
                self._listed()
            case Sent():
                if self._coming is not None:
                    raise HostError("failed", "the host sent half a group")
                self._coming = said
                self._add(data)
            case Rest():
                self._add(data)
            case Bad():
                self._wait_refused((said.sequence, said.crc), said.reason, said.text)
                self._land_if_full()
            case More():
                self.more = True
            case End():
                self._land()

    def _name(self, readings: dict[int, int]) -> None:
        """Groups are there, with so many readings each: what goes unread is counted by them."""
        if not all(0 <= count <= MAX_GROUP for count in readings.values()):
            raise HostError("failed", f"the host named a group of more than {MAX_GROUP:,} readings")
        self._fresh.update(readings)

    def _listed(self) -> None:
        """All groups are known: who went is counted."""
        found = self._found
        if found is None:
            raise HostError("failed", "the host sent groups of no history")
        self._history = enter(self._state, found.id, self._gone)
        openings = {sequence // OPENING for sequence in (*self._fresh, *found.tail)}
        if len(openings | self._history.openings.keys()) > MAX_OPENINGS:
            raise HostError("failed", f"the host named groups of more than {MAX_OPENINGS:,} starts")
        self._state.exported_ms = self._exported_ms
        if found.whole:
            expired = settle(
                self._history,
                Listing(
                    found.openings,
                    found.group_readings,
                    frozenset(self._gone),
                    self._fresh,
                    found.tail,
                ),
            )
            save(self._lake, self._path, self._state)
            self.counts.expired_groups += expired.groups
            self.counts.expired_readings += expired.readings
        self._taken = dict(KNOWN.iter_unpack(self._history.taken))
        self._refused = unpacked(self._history.refused)

    def _add(self, data: bytes) -> None:
        coming = self._coming
        if coming is None or self._history is None:
            raise HostError("failed", "the host sent bytes of no group")
        self._data += data
        self.received += len(data)
        if len(self._data) > min(coming.bytes, MAX_GROUP):
            raise HostError("failed", "the host sent more bytes of a group than it has")
        if len(self._data) == coming.bytes:
            self._coming, whole = None, bytes(self._data)
            self._data.clear()
            self._complete(coming, whole)

    def _complete(self, sent: Sent, data: bytes) -> None:
        """A group has come as a whole."""
        row: Row | None = None
        try:
            row = row_of(sent.row)
            group = decode(row, sent.crc, sent.columns_crc, data)
        except Damaged as error:
            sequence = row.sequence if row is not None else 0
            text = msgspec.json.encode(sent.row).decode()
            self._wait_refused((sequence, sent.crc), str(error), text)
        else:
            # The listing counts what a pull brings; small groups would take no bytes of its budget.
            if row.sequence not in self._fresh:
                raise HostError("failed", "the host sent a group that it has not named")
            self._waiting.append(_Waiting((row.sequence, sent.crc), len(data), group))
            self._waiting_bytes += len(data)
        self._land_if_full()

    def _wait_refused(self, key: Key, reason: str, text: str) -> None:
        self._count_named(1)
        self._waiting.append(_Waiting(key, 0, None, reason[:MAX_TEXT], text[:MAX_TEXT]))

    def _count_named(self, groups: int) -> None:
        """The host has named so many more groups. HostError if they are too many to keep."""
        self._named += groups
        if self._named > MAX_NAMED + MAX_REFUSED:
            raise HostError("failed", f"the host named more than {MAX_NAMED:,} row groups")
        if self._may_go + self._named > MAX_TAKEN:
            raise HostError(
                "failed",
                f"its history has more than {MAX_TAKEN:,} row groups: make history.group_readings "
                "larger, or history.retention_s shorter",
            )

    def _land_if_full(self) -> None:
        if len(self._waiting) >= FILE_GROUPS or self._waiting_bytes >= FILE_BYTES:
            self._land()

    def _land(self) -> None:
        """Give what waits its files, then say so in the state. OSError."""
        found, history = self._found, self._history
        if not self._waiting or found is None or history is None:
            return
        groups = [(each, each.group) for each in self._waiting if each.group is not None]
        refused = [each for each in self._waiting if each.group is None]
        boots = {each.key[0] // OPENING: group.row.boot for each, group in groups}
        if (since := older_copy(history, found.id, boots)) is not None:
            self._taken = {
                at: crc for at, crc in self._taken.items() if at < since or at in self._fresh
            }
        if groups:
            first = groups[0][0].key[0]
            table = table_of(
                [group for _, group in groups],
                GroupSource(
                    self._iad,
                    self._node,
                    [history.origin(each.key[0]) for each, _ in groups],
                    self._exported_ms,
                ),
            )
            folder = self._lake.groups / f"iad={self._iad}" / f"node={self._node}"
            with staged(
                self._lake, folder / f"{found.id}-{first}-{self._exported_ms}.parquet"
            ) as part:
                write(part, table)
        self._refuse(found.id, refused[: MAX_REFUSED - self._landed_refused])
        for each in self._waiting:
            sequence = each.key[0]
            if (opening := history.openings.get(sequence // OPENING)) is not None:
                opening.open.pop(sequence, None)
            # A damaged group whose row is sound was there as surely as others.
            if each.group is not None or sequence in self._fresh:
                self._taken[sequence] = each.key[1]
            else:
                self._refused.add(each.key)
        history.taken = packed(self._taken.items())
        history.refused = packed(self._refused)
        save(self._lake, self._path, self._state)
        self.counts.groups += len(groups)
        self.counts.readings += sum(group.row.readings for _, group in groups)
        self.counts.bytes += self._waiting_bytes
        self._waiting.clear()
        self._waiting_bytes = 0

    def _refuse(self, history: str, refused: list[_Waiting]) -> None:
        if not refused:
            return
        rows = [
            {
                "iad": self._iad,
                "time_ms": self._exported_ms,
                "source": f"{self._node}: history {history}, group {each.key[0]}",
                "reason": each.reason,
                "text": each.text,
            }
            for each in refused
        ]
        name = f"{self._iad}-{self._node}-{history}-{self._exported_ms}-{self._landed_refused}"
        with staged(self._lake, self._lake.refused / f"{name}.parquet") as part:
            write(part, pa.Table.from_pylist(rows, schema_of(REFUSED)))
        self._landed_refused += len(refused)

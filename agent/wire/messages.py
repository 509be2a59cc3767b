"""Queries, tasks and their answers, and the values in messages of other files: frozen structs.

Field names end in their unit. Budgets are relative: clocks of different hosts are never compared.
`docs/understand/wire.md` describes the same messages for programs in other languages. Frames
of earlier versions are kept in `tests/wire/golden`: new fields are optional and come last.
"""

from __future__ import annotations

import math
from array import array
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType, field

from _core.columns.series import summary
from agent.wire.about import About, AskedAreas, RoomName, ServiceInfo, check_areas
from agent.wire.base import (
    MAX_TIMEOUT_MS,
    MAX_WINDOW_S,
    Area,
    Channel,
    Channels,
    Count,
    Finite,
    Identifier,
    Label,
    MaybeName,
    Message,
    Milliseconds,
    Name,
    Percentile,
    QueryForm,
    SloPercentile,
    Text,
    WallMs,
    WireStruct,
)
from agent.wire.buckets import BucketCount, BucketMs, Buckets, asked_ms, check_buckets
from agent.wire.packed import (
    Float32Column,
    Int64Column,
    PackedColumn,
    UInt8Column,
    UInt32Column,
)
from agent.wire.quality import BAD

AnswerStatus = Literal["complete", "partial", "refused"]
Refusal = Literal[
    "malformed", "infeasible", "unknown_service", "overloaded", "over_rate", "not_authorised"
]
MissingReason = Literal[
    "no_node",
    "node_down",
    "timeout",
    "no_data",
    "no_channel",
    "node_error",
    "iad_unreachable",
    "too_large",
]


class Window(WireStruct, frozen=True, omit_defaults=True):
    """The readings wanted: the last `last_s` seconds that ended `ago_s` seconds ago, by the
    node's own clock, or the wall-clock interval from `start_ms` (inclusive) to `end_ms`
    (exclusive), in milliseconds since 1970 UTC."""

    last_s: Annotated[float, Meta(gt=0.0, le=MAX_WINDOW_S)] | None = None
    ago_s: Annotated[float, Meta(ge=0.0, le=MAX_WINDOW_S)] = 0.0
    start_ms: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    end_ms: Annotated[int, Meta(ge=0, lt=2**53)] | None = None

    def __post_init__(self) -> None:
        relative = self.last_s is not None
        absolute = self.start_ms is not None or self.end_ms is not None
        if relative == absolute or (absolute and self.ago_s):
            raise ValueError("a window has either last_s (and ago_s) or start_ms and end_ms")
        if absolute:
            if self.start_ms is None or self.end_ms is None:
                raise ValueError("a window by wall clock needs both start_ms and end_ms")
            if self.start_ms >= self.end_ms:
                raise ValueError("a window's start_ms must be before its end_ms")

    def bounds_ms(self, now_ms: int) -> tuple[int, int]:
        """[start, end) in milliseconds since 1970 UTC, at wall time `now_ms`.

        A relative window that ends now includes a reading taken in this very millisecond.
        """
        if self.last_s is None:
            assert self.start_ms is not None
            assert self.end_ms is not None
            return self.start_ms, self.end_ms
        end_ms = now_ms + 1 - round(self.ago_s * 1000)
        return end_ms - round(self.last_s * 1000), end_ms

    @property
    def length_s(self) -> float:
        """Length of the window in seconds."""
        if self.last_s is not None:
            return self.last_s
        assert self.start_ms is not None
        assert self.end_ms is not None
        return (self.end_ms - self.start_ms) / 1000


class Slo(WireStruct, frozen=True):
    """Tail-latency objective: the `percentile`-th percentile of response times is at most
    `latency_ms` (p_q and x_q of DSSP)."""

    percentile: SloPercentile
    latency_ms: Annotated[float, Meta(gt=0.0, le=MAX_TIMEOUT_MS)]


class Summary(NamedTuple):
    """The values of a channel that are neither missing nor bad: their number, the indices of the
    first and the last, minimum, maximum and sum (0 if there are none), and how many are suspect."""

    n: int
    first: int
    last: int
    low: float
    high: float
    total: float
    suspect: int


class Series(WireStruct, frozen=True, omit_defaults=True):
    """Readings in time order; every column has the same length.

    `source_time_ms` is present if some readings are replayed: the time of their first recording;
    for other readings their own time. `quality` has the flags (`agent.wire.quality`) of the
    channels that have any; all values of a channel without a column are good. `age_ms` is how long
    before its time each reading was measured; without the column all were measured at their times.
    """

    time_ms: Int64Column
    values: dict[Channel, Float32Column]
    source_time_ms: Int64Column | None = None
    quality: dict[Channel, UInt8Column] = field(default_factory=dict)
    age_ms: UInt32Column | None = None

    def __post_init__(self) -> None:
        columns: list[PackedColumn] = [self.time_ms, *self.values.values()]
        if self.quality:
            columns += self.quality.values()
        if self.source_time_ms is not None:
            columns.append(self.source_time_ms)
        if self.age_ms is not None:
            columns.append(self.age_ms)
        if len(set(map(len, columns))) > 1:
            raise ValueError("the columns of a series differ in length")

    def summary(self, channel: str) -> Summary:
        """Summary of a channel's measured values. O(readings), in compiled code."""
        quality = self.quality.get(channel)
        flags = None if quality is None else quality.data
        return Summary(*summary(self.values[channel].native, flags, BAD))

    def measured(self, channel: str) -> array[float]:
        """The values of a channel; NaN where one is missing or bad, and at readings of sensors
        without the channel, which a query for this channel alone excludes. O(readings)."""
        values = self.values[channel].numbers()
        if channel in self.quality:
            for i, flags in enumerate(self.quality[channel].data):
                if flags & BAD:
                    values[i] = math.nan
        return values


class ChannelAggregate(WireStruct, frozen=True, omit_defaults=True):
    """Aggregate of one channel. `bad` counts the readings, including missing ones, that are
    excluded from all other numbers (`agent.wire.quality`); `suspect` counts those that are included
    but doubtful. If all are bad, `count` is 0 and `min`, `mean` and `max` are absent. `last` is the
    newest value, of `last_ms`; absent if a sender of an earlier version had some of the values."""

    count: Count
    min: Finite | None = None
    mean: Finite | None = None
    max: Finite | None = None
    bad: Count = 0
    suspect: Count = 0
    last: Finite | None = None
    last_ms: WallMs | None = None

    def __post_init__(self) -> None:
        # For each channel of each node's result: no sums, no look at what is the same.
        if self.count:
            whole = self.min is not None and self.mean is not None and self.max is not None
        else:
            whole = self.min is None and self.mean is None and self.max is None
        if not whole:
            raise ValueError("an aggregate has min, mean and max where its count is above 0")
        if self.last is None and self.last_ms is None:
            return
        if self.last is None or self.last_ms is None or not self.count:
            raise ValueError("last and last_ms come together, where the count is above 0")

    @property
    def extent(self) -> tuple[float, float, float] | None:
        """(min, mean, max); None if all readings are bad."""
        if self.min is None or self.mean is None or self.max is None:
            return None
        return self.min, self.mean, self.max


class Aggregate(WireStruct, frozen=True):
    """Aggregate of a window; `first_ms` and `last_ms` are the times of its outermost readings."""

    first_ms: WallMs
    last_ms: WallMs
    channels: dict[Channel, ChannelAggregate]


class AreaResult(WireStruct, frozen=True, omit_defaults=True):
    """The result of one area, in the requested form. An answer's results have `held_from_ms`, the
    time of the first reading (of buckets the start of the first that has some), if the readings
    cover clearly less than the window. With `stale_ms` the area itself is missing: a clone's last
    known values, of which the newest is that old. `name` is what its operator calls the room."""

    area: Area
    series: Series | None = None
    aggregate: Aggregate | None = None
    held_from_ms: WallMs | None = None
    stale_ms: Count | None = None
    buckets: Buckets | None = None
    about: About | None = None
    name: RoomName | None = None


class Missing(WireStruct, frozen=True, omit_defaults=True):
    """An area without an answer, and the reason. With `no_channel`, `channels` are the available
    ones, unless the service provides only one; with `no_node`, `nearest` is the announced area that
    may have been meant, and `unknown` means that nothing known is called so, above or below what
    is asked. `message` is a line for people; if the readings exceed an answer, `longest_s` is the
    longest window that would fit. `name` is the room's, as in a result."""

    area: Area
    reason: MissingReason
    channels: Channels = ()
    message: Text = ""
    longest_s: Finite | None = None
    nearest: Annotated[tuple[Area, ...], Meta(max_length=1)] = ()
    unknown: bool = False
    name: RoomName | None = None


class Coverage(WireStruct, frozen=True):
    """Areas answered of areas asked."""

    answered: Count
    asked: Count


class TaskReport(WireStruct, frozen=True):
    """A client's view of one IAD's task: its budget (p_t, x_t), coverage and total time."""

    iad: Name
    percentile: Finite
    budget_ms: Finite
    coverage: Coverage
    total_ms: Finite


# --- client → master ---------------------------------------------------------------------------


class Query(Message, frozen=True, tag="query", omit_defaults=True):
    """A sensing query. `timeout_ms` is the answer timeout (default 4 × SLO latency); `label` goes
    to the log records; `emulation_seed` lets a lab repeat the service times of emulated hardware.
    `takes_too_large`: the sender supports that reason of a gap; without it, the reason is
    `node_error`. `stale_ok`: missing areas may have a clone's last known values (`stale_ms`).
    `buckets` is their maximum number in that form; in its place `bucket_s` is the length of one.
    In form `about`, which reads nothing, `areas` may be ``*``: all."""

    id: Identifier
    areas: AskedAreas
    window: Window
    slo: Slo
    channels: Channels = ()
    form: QueryForm = "series"
    timeout_ms: Annotated[float, Meta(gt=0.0, le=MAX_TIMEOUT_MS)] | None = None
    service: Name = "default"
    label: Label = ""
    emulation_seed: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    takes_too_large: bool = False
    stale_ok: bool = False
    buckets: BucketCount | None = None
    bucket_s: Annotated[float, Meta(gt=0.0, le=MAX_WINDOW_S)] | None = None

    def __post_init__(self) -> None:
        check_areas(self.areas, self.form)
        if self.stale_ok and self.form == "buckets":
            raise ValueError("a clone keeps no buckets: leave stale_ok out")
        asked_ms(self.form, self.window, self.buckets, self.bucket_s)

    @property
    def bucket_ms(self) -> int:
        """Length of a bucket, in milliseconds; 0 in other forms."""
        return asked_ms(self.form, self.window, self.buckets, self.bucket_s)


class Answer(Message, frozen=True, tag="answer"):
    """The one reply to a query. `reason` says why it was refused, `missing` why it is partial. In
    form `about` it has the `services` that the client may query."""

    id: Annotated[str, Meta(max_length=64)]
    status: AnswerStatus
    elapsed_ms: Finite
    slo_met: bool
    coverage: Coverage
    results: tuple[AreaResult, ...] = ()
    missing: tuple[Missing, ...] = ()
    tasks: tuple[TaskReport, ...] = ()
    reason: Refusal | None = None
    message: Text = ""
    services: tuple[ServiceInfo, ...] | UnsetType = UNSET


# --- master → master ---------------------------------------------------------------------------


class Task(Message, frozen=True, tag="task", omit_defaults=True):
    """One IAD's share of a query: its sub-areas and its budget (DSSP Eq. 2)."""

    id: Identifier
    areas: AskedAreas
    window: Window
    percentile: Percentile
    budget_ms: Milliseconds
    timeout_ms: Milliseconds
    channels: Channels = ()
    form: QueryForm = "series"
    service: Name = "default"
    label: Label = ""
    emulation_seed: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    # The sending IAD: trusted on loopback, checked against the key elsewhere.
    origin: MaybeName = ""
    # How much earlier (negative: later) its class of queries is served than its budget says
    # (docs/understand/policy.md); only the policy `sanderling` uses it.
    advance_ms: Finite = 0.0
    # As in `Query`: a master of an earlier version could not decode the result.
    takes_too_large: bool = False
    stale_ok: bool = False
    # Length of a bucket; 0 in other forms.
    bucket_ms: BucketMs = 0

    def __post_init__(self) -> None:
        check_areas(self.areas, self.form)
        check_buckets(self.form, self.window, self.bucket_ms)


class CancelTask(Message, frozen=True, tag="cancel_task"):
    """The sender no longer wants the result of its task. No reply."""

    id: Identifier


class Budget(WireStruct, frozen=True):
    """A task's budget (p_t, x_t)."""

    percentile: Percentile
    budget_ms: Milliseconds


class TaskResult(Message, frozen=True, tag="task_result"):
    """A task's outcome: results per area and coverage; nothing about individual nodes. Of an
    infeasible one, `would_keep` are budgets that idle nodes keep: more time for its percentile, and
    a lower percentile in its time, if there is one."""

    id: Annotated[str, Meta(max_length=64)]
    status: AnswerStatus
    total_ms: Finite
    results: tuple[AreaResult, ...] = ()
    missing: tuple[Missing, ...] = ()
    reason: Refusal | None = None
    message: Text = ""
    would_keep: Annotated[tuple[Budget, ...], Meta(max_length=2)] | UnsetType = UNSET

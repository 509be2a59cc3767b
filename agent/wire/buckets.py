"""Buckets: readings of a window in stretches of equal length, with statistics of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Protocol

from msgspec import Meta

from agent.wire.base import MAX_WINDOW_S, Channel, QueryForm, WallMs, WireStruct
from agent.wire.packed import Float32Column, PackedColumn, UInt32Column

if TYPE_CHECKING:
    from _core.columns.buckets import BucketSums

MAX_BUCKETS: Final = 2_000
# A relative window begins and ends within a bucket, so it may touch one more.
MAX_CELLS: Final = MAX_BUCKETS + 1
# Of one bucket of one channel, packed: count, minimum, mean and maximum.
BUCKET_BYTES: Final = 16

BucketCount = Annotated[int, Meta(ge=1, le=MAX_BUCKETS)]
BucketMs = Annotated[int, Meta(ge=0, lt=2**53)]


class ChannelBuckets(WireStruct, frozen=True, omit_defaults=True):
    """One channel: in each bucket how many values are there and not bad, and their minimum, mean
    and maximum (NaN, in JSON null, where there are none). `bad` counts those that are, missing ones
    included, and `suspect` the doubtful ones of `count`; a column of zeros is left out."""

    count: UInt32Column
    min: Float32Column
    mean: Float32Column
    max: Float32Column
    bad: UInt32Column | None = None
    suspect: UInt32Column | None = None

    @property
    def columns(self) -> list[PackedColumn]:
        """All columns that are there."""
        every = [self.count, self.min, self.mean, self.max, self.bad, self.suspect]
        return [column for column in every if column is not None]


class Buckets(WireStruct, frozen=True):
    """Bucket i holds the readings from `start_ms` + i · `length_ms` (included) to the next (not).
    All columns have the same length, at most `MAX_CELLS`."""

    start_ms: WallMs
    length_ms: Annotated[int, Meta(ge=1, lt=2**53)]
    channels: dict[Channel, ChannelBuckets]

    def __post_init__(self) -> None:
        lengths = {len(c) for channel in self.channels.values() for c in channel.columns}
        if len(lengths) > 1:
            raise ValueError("the columns of buckets differ in length")
        if lengths and max(lengths) > MAX_CELLS:
            raise ValueError(f"{max(lengths)} buckets are more than {MAX_CELLS}")

    def __len__(self) -> int:
        return next((len(channel.count) for channel in self.channels.values()), 0)

    @property
    def filled_ms(self) -> tuple[int, int] | None:
        """The start of the first bucket that has readings and the end of the last one; None if all
        are empty. The bytes of an empty bucket's counts are zeros. O(buckets)."""
        counts = [
            each.data
            for channel in self.channels.values()
            for each in (channel.count, channel.bad)
            if each is not None and each.data.strip(b"\0")
        ]
        if not counts:
            return None
        item = UInt32Column.ITEM_BYTES
        first = min([(len(each) - len(each.lstrip(b"\0"))) // item for each in counts])
        last = max([(len(each.rstrip(b"\0")) - 1) // item for each in counts])
        return self.start_ms + first * self.length_ms, self.start_ms + (last + 1) * self.length_ms

    @property
    def bytes(self) -> int:
        """Packed bytes on the wire, neglecting names and lengths."""
        return sum([len(c.data) for channel in self.channels.values() for c in channel.columns])


class Grid(NamedTuple):
    """Starts of buckets: the first at `start_ms`, `number` of them."""

    start_ms: int
    length_ms: int
    number: int

    def place(self, time_ms: int) -> int:
        """The number of a time's bucket; of times outside below 0, or too high."""
        return (time_ms - self.start_ms) // self.length_ms


def of_sums(sums: Mapping[str, BucketSums], grid: Grid) -> Buckets:
    """As they go on the wire. O(buckets)."""
    channels = {}
    for name, found in sums.items():
        count, low, mean, high, bad, suspect = found.columns()
        channels[name] = ChannelBuckets(
            UInt32Column.of_native(count),
            Float32Column.of_native(low),
            Float32Column.of_native(mean),
            Float32Column.of_native(high),
            None if bad is None else UInt32Column.of_native(bad),
            None if suspect is None else UInt32Column.of_native(suspect),
        )
    return Buckets(grid.start_ms, grid.length_ms, channels)


def grid_of(start_ms: int, end_ms: int, length_ms: int, *, relative: bool) -> Grid:
    """The buckets of the readings of [start_ms, end_ms). Those of a `relative` window begin at
    multiples of their length, so that nodes whose clocks differ a little have the same ones, and
    the same from one query to the next; others at the window's start. ValueError if there are too
    many."""
    origin_ms = start_ms // length_ms * length_ms if relative else start_ms
    number = -(-(end_ms - origin_ms) // length_ms)
    if number > MAX_CELLS:
        raise ValueError(f"{number} buckets are more than {MAX_CELLS}")
    return Grid(origin_ms, length_ms, number)


class HasLength(Protocol):
    """A window."""

    @property
    def length_s(self) -> float:
        """Its length in seconds."""


def asked_ms(form: QueryForm, window: HasLength, count: int | None, bucket_s: float | None) -> int:
    """Milliseconds of a bucket of a query: at most `count` in the window, or `bucket_s` seconds
    each; 0 in other forms. ValueError in one line for what does not go together, or too many."""
    given = (count is not None) + (bucket_s is not None)
    if form != "buckets":
        if given:
            raise ValueError('buckets and bucket_s go with form "buckets" only')
        return 0
    if given != 1:
        raise ValueError('form "buckets" needs buckets, their number, or bucket_s, but not both')
    if count is not None:
        if count < 1:
            raise ValueError(f"buckets is at least 1; got {count}")
        return -(-_milliseconds(window.length_s) // count)
    length_ms = _milliseconds(bucket_s or 0.0)
    _check_number(window, length_ms)
    return length_ms


def check_buckets(form: QueryForm, window: HasLength, bucket_ms: int) -> None:
    """ValueError if a task or subtask of this form may not have buckets of this length."""
    if (form == "buckets") != (bucket_ms > 0):
        raise ValueError('bucket_ms goes with form "buckets", and with no other')
    if bucket_ms:
        if bucket_ms > 1e3 * max(window.length_s, MAX_WINDOW_S) + 1:
            raise ValueError(f"buckets of {bucket_ms} ms are longer than any that may be asked")
        _check_number(window, bucket_ms)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1e3))


def _check_number(window: HasLength, length_ms: int) -> None:
    count = -(-_milliseconds(window.length_s) // length_ms)
    if count > MAX_BUCKETS:
        raise ValueError(f"{count:,} buckets are more than {MAX_BUCKETS:,}: take longer ones")

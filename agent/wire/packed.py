"""Packed columns: a series travels as little-endian bytes in MessagePack, as numbers in JSON."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from _core.columns.json_numbers import float32_array, int64_array, uint8_array, uint32_array
from _core.columns.series import bounds

_JSON_ARRAYS = {"q": int64_array, "f": float32_array, "B": uint8_array, "I": uint32_array}


class PackedColumn:
    """An immutable column of numbers kept as the little-endian bytes that go on the wire.

    `data` holds ``len(column) * ITEM_BYTES`` bytes. Decoding a message unpacks no value: a master
    that only forwards a series never reads them.
    """

    __slots__ = ("data",)
    TYPECODE: ClassVar[str]
    ITEM_BYTES: ClassVar[int]

    def __init__(self, data: bytes) -> None:
        if len(data) % self.ITEM_BYTES:
            raise ValueError(
                f"a packed column of {self.ITEM_BYTES}-byte numbers has {len(data)} bytes"
            )
        self.data = data

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Self:
        """Pack `numbers`; O(n)."""
        return cls(_little_endian(array(cls.TYPECODE, numbers)).tobytes())

    def numbers(self) -> array[Any]:
        """The column as an `array.array` in this machine's byte order; O(n)."""
        numbers = array(self.TYPECODE)
        numbers.frombytes(self.data)
        return _little_endian(numbers)

    @property
    def native(self) -> bytes:
        """The column's bytes in this machine's byte order, for compiled code."""
        return self.data if sys.byteorder == "little" else self.numbers().tobytes()

    @classmethod
    def of_native(cls, data: bytes) -> Self:
        """A column of numbers in this machine's byte order; the inverse of `native`."""
        if sys.byteorder == "little":
            return cls(data)
        numbers = array(cls.TYPECODE)
        numbers.frombytes(data)
        return cls.of(numbers)

    def json(self) -> bytes:
        """The column as a JSON array; O(n), most of it without the GIL."""
        return _JSON_ARRAYS[self.TYPECODE](self.native)

    @classmethod
    def from_json(cls, numbers: list[Any]) -> Self:
        """A column from a JSON array; ValueError unless all elements are numbers in range."""
        try:
            return cls.of(numbers)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"expected an array of numbers: {error}") from None

    def __len__(self) -> int:
        return len(self.data) // self.ITEM_BYTES

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{len(self)} numbers>)"


class Int64Column(PackedColumn):
    """Signed 64-bit integers, such as times in milliseconds since 1970 UTC."""

    __slots__ = ()
    TYPECODE = "q"
    ITEM_BYTES = 8

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last number; both 0 without any. O(1)."""
        first, last = self.data[: self.ITEM_BYTES], self.data[-self.ITEM_BYTES :]
        return _int64(first), _int64(last)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest number; both 0 without any. O(n), without the GIL."""
        return bounds(self.data)


class Float32Column(PackedColumn):
    """32-bit floats, such as a sensor channel; NaN (JSON: null) is a missing reading.

    JSON shows seven digits, all that a 32-bit float holds: 23.46, not 23.459999084472656.
    """

    __slots__ = ()
    TYPECODE = "f"
    ITEM_BYTES = 4

    @classmethod
    def from_json(cls, numbers: list[Any]) -> Self:
        return super().from_json([float("nan") if x is None else x for x in numbers])


class UInt8Column(PackedColumn):
    """Unsigned bytes, such as the flags of `agent.wire.quality`."""

    __slots__ = ()
    TYPECODE = "B"
    ITEM_BYTES = 1


class UInt32Column(PackedColumn):
    """Unsigned 32-bit integers, such as ages in milliseconds."""

    __slots__ = ()
    TYPECODE = "I"
    ITEM_BYTES = 4


def _little_endian(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _int64(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)

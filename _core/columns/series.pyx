"""Merge and statistics of columns; the GIL is released while a column is processed."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.float cimport FLT_MAX
from libc.math cimport fabs, fabsf
from libc.string cimport memcpy

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef size_t run_end(
    const char *times, const uint32_t *order, size_t start, size_t count
) noexcept nogil:
    cdef size_t i = start + 1
    if start >= count:
        return count
    while i < count and (
        little_endian_at(times, order[i]) >= little_endian_at(times, order[i - 1])
    ):
        i += 1
    return i


cdef uint32_t *sort_by_time(
    const char *times, size_t count, uint32_t *order, uint32_t *spare
) noexcept nogil:
    cdef size_t start, middle, end, left, right, to
    while run_end(times, order, 0, count) < count:
        start = 0
        while start < count:
            middle = run_end(times, order, start, count)
            end = run_end(times, order, middle, count)
            left = start
            right = middle
            for to in range(start, end):
                if right == end or (
                    left < middle
                    and little_endian_at(times, order[left])
                    <= little_endian_at(times, order[right])
                ):
                    CHECK(left < middle)
                    spare[to] = order[left]
                    left += 1
                else:
                    CHECK(right < end)
                    spare[to] = order[right]
                    right += 1
            start = end
        order, spare = spare, order
    return order


cdef void gather(
    const char *items, size_t item_bytes, const uint32_t *order, size_t count, char *to
) noexcept nogil:
    cdef size_t i
    if item_bytes == 8:
        for i in range(count):
            memcpy(to + 8 * i, items + 8 * <size_t>order[i], 8)
    elif item_bytes == 4:
        for i in range(count):
            memcpy(to + 4 * i, items + 4 * <size_t>order[i], 4)
    else:
        for i in range(count):
            to[i] = items[order[i]]


cdef bytes time_order(bytes times):
    """Indices of a column of times in time order, stable; None if it is in order. O(n log runs)."""
    cdef size_t count = <size_t>PyBytes_GET_SIZE(times) // 8
    cdef const char *items = PyBytes_AS_STRING(times)
    cdef bytes order, spare
    cdef uint32_t *places
    cdef uint32_t *others
    cdef uint32_t *found
    cdef size_t i = 1
    while i < count and little_endian_at(items, i) >= little_endian_at(items, i - 1):
        i += 1
    if i >= count:
        return None
    if count >= 1 << 31:
        raise ValueError("too many readings for one series")
    order = PyBytes_FromStringAndSize(NULL, 4 * count)
    spare = PyBytes_FromStringAndSize(NULL, 4 * count)
    places = <uint32_t *>PyBytes_AS_STRING(order)
    others = <uint32_t *>PyBytes_AS_STRING(spare)
    with nogil:
        for i in range(count):
            places[i] = <uint32_t>i
        found = sort_by_time(items, count, places, others)
    return order if found == places else spare


cdef bint follow(list parts):
    """Whether each column of times begins where the one before it ended, or later. O(parts)."""
    cdef bytes part
    cdef size_t count
    cdef bint begun = False
    cdef int64_t ended = 0
    for part in parts:
        count = <size_t>PyBytes_GET_SIZE(part) // 8
        if count == 0:
            continue
        if begun and little_endian_at(PyBytes_AS_STRING(part), 0) < ended:
            return False
        begun = True
        ended = little_endian_at(PyBytes_AS_STRING(part), count - 1)
    return True


cdef class Merge:
    """Merges several series by time. Readings of equal time keep the order of the series, and
    within a series their own. `times` has one column of times a series, signed 64 bits,
    little-endian. O(n log r) for r stretches in time order, so O(n) for two sorted series. With
    `ascending` the caller knows that each series is in time order: those that follow one another
    are joined without a look at the times between their ends."""

    def __init__(self, list times not None, *, bint ascending=False):
        cdef bytes each, together = b"".join(times)
        self._counts = [len(each) // 8 for each in times]
        self._order = None if ascending and follow(times) else time_order(together)
        self.times = together if self._order is None else self.column(times, bytes(8))

    def column(self, list parts not None, bytes default not None) -> bytes:
        """A merged column: `parts` has the column of each series, None for one that lacks it,
        whose readings get the item `default`, of 1, 4 or 8 bytes. ValueError if a part has
        another length than its times. O(n)."""
        cdef size_t item_bytes = <size_t>PyBytes_GET_SIZE(default)
        cdef size_t count
        cdef bytes joined, found
        cdef const uint32_t *places
        cdef const char *items
        cdef char *to
        if item_bytes not in (1, 4, 8):
            raise ValueError(f"items of {item_bytes} bytes")
        cdef bytes part
        cdef size_t n
        cdef list columns = []
        for part, n in zip(parts, self._counts, strict=True):
            if part is None:
                part = default * n
            elif <size_t>PyBytes_GET_SIZE(part) != item_bytes * n:
                raise ValueError("the columns of a series differ in length")
            columns.append(part)
        joined = b"".join(columns)
        if self._order is None:
            return joined
        count = <size_t>PyBytes_GET_SIZE(self._order) // 4
        found = PyBytes_FromStringAndSize(NULL, item_bytes * count)
        places = <const uint32_t *>PyBytes_AS_STRING(self._order)
        items = PyBytes_AS_STRING(joined)
        to = PyBytes_AS_STRING(found)
        with nogil:
            gather(items, item_bytes, places, count, to)
        return found


cdef inline bint is_there(float value) noexcept nogil:
    # NaN compares unequal to everything, itself included.
    return fabsf(value) <= FLT_MAX


cdef Summary summarize(
    const float *values, const uint8_t *flags, uint8_t bad, size_t count
) noexcept nogil:
    cdef Summary found
    cdef float value
    cdef double total, lost = 0.0
    cdef size_t i
    found.count = found.first = found.last = found.suspect = 0
    found.low = found.high = 0.0
    found.total = 0.0
    for i in range(count):
        value = values[i]
        if not is_there(value) or (flags != NULL and flags[i] & bad):
            continue
        if found.count == 0:
            found.first = i
            found.low = found.high = value
        elif value < found.low:
            found.low = value
        elif value > found.high:
            found.high = value
        found.last = i
        found.count += 1
        if flags != NULL and flags[i]:
            found.suspect += 1
        total = found.total + value
        if fabs(found.total) >= fabs(value):
            lost += (found.total - total) + value
        else:
            lost += (value - total) + found.total
        found.total = total
    found.total += lost
    return found


def bounds(bytes times not None) -> tuple[int, int]:
    """The earliest and the latest of a column of times, signed 64 bits, little-endian, in any
    order; both 0 without any. O(n)."""
    cdef size_t count = <size_t>PyBytes_GET_SIZE(times) // 8
    cdef const char *items = PyBytes_AS_STRING(times)
    cdef int64_t low = 0, high = 0, time_ms
    cdef size_t i
    if count:
        with nogil:
            low = high = little_endian_at(items, 0)
            for i in range(1, count):
                time_ms = little_endian_at(items, i)
                if time_ms < low:
                    low = time_ms
                elif time_ms > high:
                    high = time_ms
    return low, high


def summary(
    bytes values not None, bytes flags, uint8_t bad
) -> tuple[int, int, int, float, float, float, int]:
    """(count, first index, last index, minimum, maximum, total, suspect) of the values of a column,
    32-bit floats in this machine's byte order, that are finite and not bad; all 0 if there are
    none. `flags` has one byte per value, None if all are good: any bit of `bad` makes a value bad,
    any other suspect. ValueError if their lengths differ. O(n)."""
    cdef size_t count = <size_t>PyBytes_GET_SIZE(values) // 4
    cdef const float *items = <const float *>PyBytes_AS_STRING(values)
    cdef const uint8_t *marks = NULL
    cdef Summary found
    if flags is not None:
        if <size_t>PyBytes_GET_SIZE(flags) != count:
            raise ValueError("not as many flags as values")
        marks = <const uint8_t *>PyBytes_AS_STRING(flags)
    with nogil:
        found = summarize(items, marks, bad, count)
    return (
        found.count, found.first, found.last, found.low, found.high, found.total, found.suspect
    )

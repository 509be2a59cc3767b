"""The interpreter's lock is let go of while columns are gone through."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil


cdef bint in_time_order(const int64_t *times, size_t count) noexcept nogil:
    cdef size_t i
    for i in range(1, count):
        if times[i] < times[i - 1]:
            return False
    return True


cdef void merge_times(
    const int64_t *a, uint32_t first, const int64_t *b, uint32_t second, uint32_t *order
) noexcept nogil:
    cdef uint32_t i = 0
    cdef uint32_t j = 0
    while i < first and j < second:
        if b[j] < a[i]:
            order[i + j] = first + j
            j += 1
        else:
            order[i + j] = i
            i += 1
    while i < first:
        order[i + j] = i
        i += 1
    while j < second:
        order[i + j] = first + j
        j += 1


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


def merged_order(bytes a not None, bytes b not None) -> bytes | None:
    """The places of both columns of times (64-bit, in this machine's byte order) in order of time,
    a's first where equal, 32 bits each; None if one of them goes back in time. O(n)."""
    cdef size_t first = <size_t>PyBytes_GET_SIZE(a) // 8
    cdef size_t second = <size_t>PyBytes_GET_SIZE(b) // 8
    # The data of a bytes object is aligned.
    cdef const int64_t *left = <const int64_t *>PyBytes_AS_STRING(a)
    cdef const int64_t *right = <const int64_t *>PyBytes_AS_STRING(b)
    cdef bytes found
    cdef uint32_t *order
    cdef bint sorted_both
    if first + second >= 1 << 31:
        raise ValueError("too many readings for one series")
    found = PyBytes_FromStringAndSize(NULL, 4 * (first + second))
    order = <uint32_t *>PyBytes_AS_STRING(found)
    with nogil:
        sorted_both = in_time_order(left, first) and in_time_order(right, second)
        if sorted_both:
            merge_times(left, <uint32_t>first, right, <uint32_t>second, order)
    return found if sorted_both else None


def in_order(bytes column not None, size_t item_bytes, bytes order not None) -> bytes:
    """The items of a column, of 1, 4 or 8 bytes each, by these places, 32 bits each. ValueError if
    a place is beyond the column. O(n)."""
    cdef size_t count = <size_t>PyBytes_GET_SIZE(order) // 4
    cdef const uint32_t *places = <const uint32_t *>PyBytes_AS_STRING(order)
    cdef const char *items = PyBytes_AS_STRING(column)
    cdef size_t most
    cdef bytes found
    cdef char *to
    cdef bint inside = True
    cdef size_t i
    if item_bytes not in (1, 4, 8):
        raise ValueError(f"items of {item_bytes} bytes")
    most = <size_t>PyBytes_GET_SIZE(column) // item_bytes
    found = PyBytes_FromStringAndSize(NULL, item_bytes * count)
    to = PyBytes_AS_STRING(found)
    with nogil:
        for i in range(count):
            if places[i] >= most:
                inside = False
                break
        if inside:
            gather(items, item_bytes, places, count, to)
    if not inside:
        raise ValueError("a place beyond the column")
    return found

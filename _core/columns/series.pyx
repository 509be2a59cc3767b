"""Merge and statistics of columns; the GIL is released while a column is processed."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.float cimport FLT_MAX
from libc.math cimport fabsf
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


cdef inline bint is_there(float value) noexcept nogil:
    # NaN compares unequal to everything, itself included.
    return fabsf(value) <= FLT_MAX


cdef Summary summarize(
    const float *values, const uint8_t *flags, uint8_t bad, size_t count
) noexcept nogil:
    cdef Summary found
    cdef float value
    cdef size_t i
    found.count = found.first = found.last = 0
    found.low = found.high = 0.0
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
    return found


def merged_order(bytes a not None, bytes b not None) -> bytes | None:
    """Indices into both columns of times (64-bit, in this machine's byte order) in time order, a's
    first where equal, 32 bits each; None if one of the columns is not sorted. O(n)."""
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
    """The items of a column, of 1, 4 or 8 bytes each, in the order of these indices, 32 bits each.
    ValueError if an index is beyond the column. O(n)."""
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


def summary(bytes values not None, bytes flags, uint8_t bad) -> tuple[int, int, int, float, float]:
    """(count, first index, last index, minimum, maximum) of the values of a column, 32-bit floats
    in this machine's byte order, that are finite and not bad; all 0 if there are none. `flags` has
    one byte per value, None if all are good: any bit of `bad` makes a value bad. ValueError if
    their lengths differ. O(n)."""
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
    return found.count, found.first, found.last, found.low, found.high


def those_there(bytes values not None, bytes flags, uint8_t bad) -> bytes:
    """The values that `summary` counts, in order. O(n)."""
    cdef size_t count = <size_t>PyBytes_GET_SIZE(values) // 4
    cdef const float *items = <const float *>PyBytes_AS_STRING(values)
    cdef const uint8_t *marks = NULL
    cdef size_t left = <size_t>summary(values, flags, bad)[0]
    cdef bytes found = PyBytes_FromStringAndSize(NULL, 4 * left)
    cdef float *to = <float *>PyBytes_AS_STRING(found)
    cdef size_t i
    if flags is not None:
        marks = <const uint8_t *>PyBytes_AS_STRING(flags)
    with nogil:
        for i in range(count):
            if is_there(items[i]) and (marks == NULL or not marks[i] & bad):
                to[0] = items[i]
                to += 1
    return found

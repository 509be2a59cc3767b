"""Series of readings: merging columns by time, and statistics of a column."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline int64_t little_endian_at(const char *items, size_t i) {
        uint64_t found;
        memcpy(&found, items + 8 * i, 8);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        found = __builtin_bswap64(found);
    #endif
        return (int64_t)found;
    }
    """
    # Number i of a column of signed 64-bit numbers.
    int64_t little_endian_at(const char *items, size_t i) noexcept nogil

# All arrays belong to the caller; nothing is allocated here. `times` are signed 64-bit numbers,
# little-endian, and need no alignment.

# End of the stretch of `order` [count] that begins at `start` and whose times never go back.
# O(length).
cdef size_t run_end(
    const char *times, const uint32_t *order, size_t start, size_t count
) noexcept nogil

# Sorts the indices `order` [count] into `times` by time, stable: natural merge sort. `spare`
# [count] is overwritten. Returns `order` or `spare`, whichever holds the result. O(count) for two
# stretches in time order, O(count log stretches) in general.
cdef uint32_t *sort_by_time(
    const char *times, size_t count, uint32_t *order, uint32_t *spare
) noexcept nogil

# Writes items[order[i]] to `to` for each i < count. An item has 1, 4 or 8 bytes; `to` must hold
# count * item_bytes and must not overlap `items`. O(count).
cdef void gather(
    const char *items, size_t item_bytes, const uint32_t *order, size_t count, char *to
) noexcept nogil

cdef class Merge:
    cdef readonly bytes times     # of all series, in time order
    cdef list _counts             # readings of each series
    cdef bytes _order             # indices into the series one after another; None: as they are

cdef struct Summary:
    size_t count                  # valid values: finite and not bad; if 0, ignore the rest
    size_t first                  # index of the first valid value
    size_t last                   # index of the last valid value
    float low                     # minimum; of equal values the first
    float high                    # maximum; of equal values the first
    double total                  # compensated sum
    size_t suspect                # valid values with any flag

# Statistics of `values` [count]. `flags` [count] has a byte per value, NULL if all are good; a
# value is bad if its byte shares a bit with the mask `bad`. O(count).
cdef Summary summarize(
    const float *values, const uint8_t *flags, uint8_t bad, size_t count
) noexcept nogil

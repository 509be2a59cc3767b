"""Series of readings: merging columns by time, and statistics of a column."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

# All arrays belong to the caller; nothing is allocated here.

# Whether `times` [count] are in ascending order; equal neighbours are allowed. O(count).
cdef bint in_time_order(const int64_t *times, size_t count) noexcept nogil

# Merges two ascending arrays of times, `a` [first] and `b` [second]. Writes a permutation to
# `order` [first + second]: an index below `first` refers to a[index], any other to
# b[index - first]. Of equal times those of `a` come first. O(first + second).
cdef void merge_times(
    const int64_t *a, uint32_t first, const int64_t *b, uint32_t second, uint32_t *order
) noexcept nogil

# Writes items[order[i]] to `to` for each i < count. An item has 1, 4 or 8 bytes; `to` must hold
# count * item_bytes and must not overlap `items`. O(count).
cdef void gather(
    const char *items, size_t item_bytes, const uint32_t *order, size_t count, char *to
) noexcept nogil

cdef struct Summary:
    size_t count                  # valid values: neither NaN nor bad; if 0, ignore the rest
    size_t first                  # index of the first valid value
    size_t last                   # index of the last valid value
    float low                     # minimum; of equal values the first
    float high                    # maximum; of equal values the first

# Statistics of `values` [count]. `flags` [count] has a byte per value, NULL if all are good; a
# value is bad if its byte shares a bit with the mask `bad`. O(count).
cdef Summary summarize(
    const float *values, const uint8_t *flags, uint8_t bad, size_t count
) noexcept nogil

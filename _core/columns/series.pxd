"""Series of readings: merging columns by time, and statistics of a column."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

# Whether `count` times never go back. O(count).
cdef bint in_time_order(const int64_t *times, size_t count) noexcept nogil

# The places of `first` + `second` times in order of time, the first's before the second's where
# equal: places below `first` are those of `a`, the others, less `first`, those of `b`. Both are in
# order, `order` has room for all. O(first + second).
cdef void merge_times(
    const int64_t *a, uint32_t first, const int64_t *b, uint32_t second, uint32_t *order
) noexcept nogil

# items[order[i]] for each i, of 1, 4 or 8 bytes each. O(count).
cdef void gather(
    const char *items, size_t item_bytes, const uint32_t *order, size_t count, char *to
) noexcept nogil

cdef struct Summary:
    size_t count                  # values that are there: finite and not bad
    size_t first                  # the places of the first and the last of them
    size_t last
    float low                     # the least and the greatest; of equal ones the first
    float high

# What `count` values tell; `flags` of each, or NULL if all are good: one of `bad` makes a value bad.
# O(count).
cdef Summary summarize(
    const float *values, const uint8_t *flags, uint8_t bad, size_t count
) noexcept nogil

"""Series of readings from several sensors put into one, by time: packed columns are only copied."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t

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

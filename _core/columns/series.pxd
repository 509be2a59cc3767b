"""Series of readings: merging columns by time, and statistics of a column."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

# End of the run of times that never go back, from position `start` of `order` on. O(length).
cdef size_t run_end(
    const char *times, const uint32_t *order, size_t start, size_t count
) noexcept nogil

# Sort the indices in `order` by time, stable: natural merge sort. `times` are little-endian and
# need no alignment; `spare` has room for as many indices. Returns the one of both that holds the
# result. O(count) for two runs in time order, O(count log runs) in general.
cdef uint32_t *sort_by_time(
    const char *times, size_t count, uint32_t *order, uint32_t *spare
) noexcept nogil

# items[order[i]] for each i, of 1, 4 or 8 bytes each. O(count).
cdef void gather(
    const char *items, size_t item_bytes, const uint32_t *order, size_t count, char *to
) noexcept nogil

cdef class Merge:
    cdef readonly bytes times     # of all series, in order
    cdef list _counts             # readings of each series
    cdef bytes _order             # indices into the series one after another; None: as they are

cdef struct Summary:
    size_t count                  # values that are there: finite and not bad
    size_t first                  # indices of the first and the last of them
    size_t last
    float low                     # the least and the greatest; of equal ones the first
    float high
    double total                  # compensated sum
    size_t suspect                # those of them with any flag

# Statistics of `count` values; `flags` of each, or NULL if all are good: any bit of `bad` makes a
# value bad. O(count).
cdef Summary summarize(
    const float *values, const uint8_t *flags, uint8_t bad, size_t count
) noexcept nogil

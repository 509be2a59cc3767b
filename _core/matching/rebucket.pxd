"""Rebuild of an interval index's buckets, with about equally many bounds each."""

from libc.stdint cimport uint32_t

from _core.matching.index cimport IntervalIndex

cdef enum:
    BOUNDS_A_ROW = 8          # minimum per row: with fewer, rows would take more memory than bounds

# Rebuilds all buckets. If memory runs out the index stays as it is. O(bounds + rows * slots / 64).
cdef void index_cut(IntervalIndex *index) noexcept nogil

# Maximum number of buckets of an index. O(1).
cdef uint32_t most_rows(const IntervalIndex *index) noexcept nogil

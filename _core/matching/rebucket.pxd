"""Rebuild of a span index's buckets, with about equally many bounds each."""

from libc.stdint cimport uint32_t

from _core.matching.index cimport SpanIndex

cdef enum:
    BOUNDS_A_ROW = 8          # while there are few: less would make rows dearer than bounds

# Cuts anew. Without memory for it all stays as it is. O(bounds + rows · slots / 64).
cdef void index_cut(SpanIndex *index) noexcept nogil

# How many buckets an index may be cut into. O(1).
cdef uint32_t most_rows(const SpanIndex *index) noexcept nogil

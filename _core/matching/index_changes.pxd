"""Insertion and removal in a span index.

Buckets are rebuilt after as many changes as there were bounds at the last rebuild, or after an
eighth of that if one bucket has become much larger than the others.
"""

from libc.stdint cimport uint32_t, uint64_t

from _core.matching.index cimport SpanIndex
from _core.matching.intervals cimport Spans

# Makes room for slots below `slots`. 0, or -1 if memory ran out, nothing lost. O(1) amortised.
cdef int index_reserve(SpanIndex *index, uint32_t slots) noexcept nogil

# Gives a free slot its spans, which become the index's. 0, or -1 if memory ran out, the spans
# still the caller's. O(rows + bounds of a bucket).
cdef int index_add(SpanIndex *index, uint32_t slot, Spans spans) noexcept nogil

# Takes a slot's spans out. As much.
cdef void index_remove(SpanIndex *index, uint32_t slot) noexcept nogil

"""Insertion and removal in an interval index.

Buckets are rebuilt after as many changes as there were bounds at the last rebuild, or after an
eighth of that if one bucket has become much larger than the others.
"""

from libc.stdint cimport uint32_t, uint64_t

from _core.matching.index cimport IntervalIndex
from _core.matching.intervals cimport Intervals

# Reserves room for `slots` slots. Returns 0, or -1 if memory ran out, with nothing lost. O(1)
# amortised.
cdef int index_reserve(IntervalIndex *index, uint32_t slots) noexcept nogil

# Gives a free slot its intervals. Returns 0, and the index owns them; or -1 if memory ran out, and
# the caller still does. O(rows + bounds of a bucket).
cdef int index_add(IntervalIndex *index, uint32_t slot, Intervals intervals) noexcept nogil

# Removes a slot's intervals and frees them. O(rows + bounds of a bucket).
cdef void index_remove(IntervalIndex *index, uint32_t slot) noexcept nogil

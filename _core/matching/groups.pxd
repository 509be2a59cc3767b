"""Groups of conjunctions with the same equality predicates.

Conjunctions that require one value (by ``=``) of the same attributes have the same shape; those of
a shape that require the same values form a group, found in a dict. Within a group each conjunction
has a slot, its position in all bit vectors, and each other attribute that any of them constrains
has an index (`_core.matching.index`). A group with very many attributes is a chain of several.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from _core.matching.index cimport IntervalIndex
from _core.matching.intervals cimport Point


cdef class Attribute:
    cdef str name
    cdef list shapes          # shapes filed here, to try if an event has this attribute
    cdef uint32_t users       # indexes, and shapes with this attribute wherever they are filed
    # The last event that had this attribute:
    cdef uint64_t event       # its number
    cdef PyObject *value      # its value, borrowed while that event is matched
    cdef Point point          # the value's point; valid if `placed`
    cdef object key           # the value as `hashed` returns it; valid if `keyed`
    cdef bint placed
    cdef bint keyed

    cdef int place(self) except -1


cdef class Shape:
    cdef tuple name           # the names of its attributes
    cdef tuple equal          # the Attributes for which its conjunctions require one value
    cdef dict groups          # {value, or tuple of several values: first Group of a chain}
    cdef Attribute home       # the attribute that it is filed under; None without attributes


cdef class Group:
    cdef Shape shape
    cdef object key           # its key in shape.groups
    cdef Group next           # the next group of the chain, None at its end
    cdef uint32_t number      # its index in Conjunctions.groups
    cdef int64_t *ids         # [capacity] owned; FREE in a free slot
    cdef uint64_t *used       # [capacity bits, in whole words] owned: a bit per slot in use
    cdef uint32_t slots       # slots ever used; those from here on are untouched
    cdef uint32_t capacity    # slots allocated
    cdef uint32_t live        # slots in use
    cdef list free            # free slots below `slots`
    cdef IntervalIndex *indexes      # [width] owned
    cdef list attributes      # [width] the Attribute of each index
    cdef uint32_t width

    cdef bint has_room(self, list attributes) except -1
    cdef int reserve(self) except -1
    cdef uint32_t index_of(self, Attribute attribute) except? 0xFFFFFFFF
    cdef uint32_t add(self, int64_t number, list attributes, list allowed) except? 0xFFFFFFFF
    cdef int clear(self, uint32_t slot) except -1
    cdef list remove(self, uint32_t slot)
    cdef list drop_indexes(self)
    cdef int64_t *all_ids(self, int64_t *found) noexcept
    cdef int64_t *ids_of(self, const uint64_t *bits, int64_t *found) noexcept
    cdef bint compact(self) except -1
    cdef bint copied(self, IntervalIndex *index, IntervalIndex *to) noexcept


# The first groups of all chains of a shape whose values are in `allowed`, a dict from attribute
# names to IntervalSet.
cdef list groups_meeting(Shape shape, dict allowed)

"""Groups of conjunctions with the same equality predicates.

Conjunctions that require one value (by ``=``) of the same attributes have the same shape; those of
a shape that require the same values form a group, found in a dict. Within a group each conjunction
has a slot, its position in all bit vectors, and each other attribute that any of them constrains
has an index (`_core.matching.index`). A group with very many attributes is a chain of several.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from _core.matching.index cimport SpanIndex
from _core.matching.intervals cimport Point


cdef class Attribute:
    cdef str name
    cdef list shapes          # that are looked at when an event has it; each is filed under one
    cdef uint32_t users       # shapes with it, filed here or not, and indexes
    # Of the event that had it last:
    cdef uint64_t event       # which it was
    cdef PyObject *value      # borrowed while that event is matched
    cdef Point point          # valid if `placed`
    cdef object key           # as `hashed`; valid if `keyed`
    cdef bint placed
    cdef bint keyed

    cdef int place(self) except -1


cdef class Shape:
    cdef tuple name           # the names of its attributes
    cdef tuple equal          # its attributes, of which its conjunctions ask one value
    cdef dict groups          # {value, or tuple of values unless it is one: first Group of a chain}
    cdef Attribute home       # where it is filed; None without attributes


cdef class Group:
    cdef Shape shape
    cdef object key           # in shape.groups
    cdef Group next           # of the chain, None at its end
    cdef uint32_t number      # in Conjunctions.groups
    cdef PyObject **ids       # [slots] owned; NULL in a free slot
    cdef uint64_t *used       # a bit for each slot that is not free
    cdef uint32_t slots       # used at least once
    cdef uint32_t capacity    # of ids; of used: so many bits, in whole words
    cdef uint32_t live        # slots - free ones
    cdef list free            # slots
    cdef SpanIndex *indexes      # [width]
    cdef list attributes      # [width] whose they are
    cdef uint32_t width

    cdef bint has_room(self, list attributes) except -1
    cdef int reserve(self) except -1
    cdef uint32_t index_of(self, Attribute attribute) except? 0xFFFFFFFF
    cdef uint32_t add(self, object number, list attributes, list allowed) except? 0xFFFFFFFF
    cdef int clear(self, uint32_t slot) except -1
    cdef list remove(self, uint32_t slot)
    cdef list drop_indexes(self)
    cdef PyObject **all_ids(self, PyObject **found) noexcept
    cdef PyObject **ids_of(self, const uint64_t *bits, PyObject **found) noexcept
    cdef bint compact(self) except -1
    cdef bint copied(self, SpanIndex *index, SpanIndex *to) noexcept


# The first groups of all chains of a shape whose values are among those allowed.
cdef list groups_meeting(Shape shape, dict allowed)

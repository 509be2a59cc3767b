"""Groups of conjunctions that constrain the same attributes and ask for the same values.

Conjunctions that constrain the same attributes are of one shape; those of a shape that ask for the
same values (by ``=``) are one group, found in a dict. Within a group each other attribute has a
column (`_core.span_index`), and a conjunction a slot, its place in all bit vectors.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from _core.span_index cimport Column
from _core.spans cimport Point


cdef class Attribute:
    cdef str name
    cdef list shapes          # that are looked at when an event has it; each is filed under one
    cdef uint32_t users       # shapes with it, filed here or not
    # Of the event that had it last:
    cdef uint64_t event       # which it was
    cdef PyObject *value      # borrowed while that event is matched
    cdef Point point          # valid if `placed`
    cdef object key           # as `hashed`; valid if `keyed`
    cdef bint placed
    cdef bint keyed

    cdef int place(self) except -1


cdef class Shape:
    cdef tuple name           # the names of its attributes: (of `equal`, of `others`)
    cdef tuple equal          # Attributes of which its conjunctions ask one value
    cdef tuple others         # Attributes with a column
    cdef dict groups          # {value, or tuple of values where `equal` are several: Group}
    cdef Attribute home       # where it is filed; None without attributes


cdef class Group:
    cdef Shape shape
    cdef object key           # in shape.groups
    cdef uint32_t number      # in Conjunctions.groups
    cdef PyObject **ids       # [slots] owned; NULL in a free slot
    cdef uint32_t slots       # used at least once
    cdef uint32_t capacity
    cdef uint32_t live        # slots - free ones; without columns there are no free ones
    cdef list free            # slots
    cdef Column *columns      # [width], as shape.others
    cdef uint32_t width

    cdef int reserve(self) except -1
    cdef uint32_t add(self, object number, list allowed) except? 0xFFFFFFFF
    cdef object remove(self, uint32_t slot)
    cdef PyObject **all_ids(self, PyObject **found) noexcept
    cdef PyObject **ids_of(self, const uint64_t *bits, PyObject **found) noexcept
    cdef bint compact(self) except -1
    cdef bint copied(self, Column *column, Column *to) noexcept

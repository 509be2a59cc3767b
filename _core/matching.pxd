"""Matching of events against many conjunctions of predicates: which of them hold?

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
    cdef bint compact(self) except -1
    cdef bint copied(self, Column *column, Column *to) noexcept


cdef class Conjunctions:
    cdef dict where           # {id: group number << 32 | slot, or -1: nothing can fulfil it}
    cdef dict attributes      # {name: Attribute}
    cdef dict shapes          # {Shape.name: Shape}
    cdef Shape unfiled        # the one without attributes
    cdef list groups          # by number, None where free
    cdef list free            # numbers
    cdef PyObject **found     # [found_capacity] borrowed; room for all ids
    cdef size_t found_capacity
    cdef size_t count         # found
    cdef uint64_t event       # counts those matched
    cdef PyObject **present   # [present_capacity] borrowed: Attributes that the event has
    cdef size_t present_capacity
    cdef size_t present_count
    cdef uint64_t *scratch    # [3 · scratch_words]
    cdef uint32_t scratch_words

    cdef Group _group_for(self, list equal, list others, dict allowed)
    cdef Shape _new_shape(self, tuple name)
    cdef Attribute _attribute(self, str name)
    cdef int _forget(self, Group group) except -1
    cdef int _make_scratch(self, uint32_t words) except -1
    cdef int _take(self, dict event) except -1
    cdef void _note(self, Attribute attribute, PyObject *value) noexcept
    cdef int _match_shape(self, Shape shape) except -1
    cdef int _match_group(self, Group group, Shape shape) except -1
    cdef void _collect_all(self, Group group) noexcept
    cdef void _collect(self, Group group, const uint64_t *bits) noexcept
    cdef list _result(self)
    cdef int _meet_group(self, Group group, dict allowed) except -1

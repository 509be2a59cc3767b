"""Matching engine: finds the conjunctions of predicates that an event fulfils."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from _core.matching.groups cimport Attribute, Group, Shape


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

    cdef Group _group_for(self, tuple equal, list values, list others)
    cdef Shape _new_shape(self, tuple equal)
    cdef Attribute _attribute(self, str name)
    cdef int _release(self, list attributes) except -1
    cdef int _forget(self, Group group) except -1
    cdef int _make_scratch(self, uint32_t words) except -1
    cdef int _take(self, dict event) except -1
    cdef void _note(self, Attribute attribute, PyObject *value) noexcept
    cdef int _match_shape(self, Shape shape) except -1
    cdef int _match_group(self, Group group) except -1
    cdef void _collect(self, Group group, const uint64_t *bits) noexcept
    cdef list _result(self)
    cdef int _meet_group(self, Group group, dict allowed) except -1

"""Matching engine: finds the conjunctions of predicates that an event fulfils."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from _core.matching.groups cimport Attribute, Group, Shape


cdef class Conjunctions:
    cdef dict where           # {id: group number << 32 | slot; -1 if no event can fulfil it}
    cdef dict attributes      # {name: Attribute}
    cdef dict shapes          # {Shape.name: Shape}
    cdef Shape unfiled        # the shape without attributes, which every event is matched against
    cdef list groups          # Group by number; None at a free number
    cdef list free            # free group numbers
    # The three arrays are owned, freed with the object and reused by every match.
    cdef int64_t *found       # [found_capacity] ids found; room for all ids
    cdef size_t found_capacity
    cdef size_t count         # entries of `found`
    cdef uint64_t event       # number of events matched so far
    cdef PyObject **present   # [present_capacity] Attributes of the event, borrowed references
    cdef size_t present_capacity
    cdef size_t present_count
    cdef uint64_t *scratch    # [3 * scratch_words] bit vectors
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
    cdef object _result(self)
    cdef int _meet(self, object conjunction, bint one_is_enough) except -1
    cdef int _meet_group(self, Group group, dict allowed) except -1

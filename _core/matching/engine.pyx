"""Matching engine: finds the conjunctions of predicates that an event fulfils.

Equality is decided first, for all attributes at once, by a dict: one look-up for each shape of
conjunctions, as in Fabret et al. (SIGMOD 2001). Ranges and all other predicates are decided within
the group found, by ANDing the bit vectors from each attribute's index.

A result is an array of 64-bit ids, so that it costs a copy of 8 bytes per id: a list of the int
objects inserted would cost a reference count each, scattered in memory.
"""

from cpython.array cimport array, clone
from cpython.dict cimport PyDict_Check, PyDict_GetItemWithError, PyDict_Next
from cpython.object cimport PyObject
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from _core.matching.groups cimport Attribute, Group, Shape, groups_meeting
from _core.matching.predicates cimport read_conjunction
from _core.matching.index cimport index_at, index_meeting
from _core.matching.intervals cimport IntervalSet, hashed

from _core.matching.predicates import covers, holds, intersects

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

__all__ = ["Conjunctions", "covers", "holds", "intersects"]

cdef enum:
    FIRST_IDS = 4
    ENTRY_BYTES = 8           # of an id, and of a pointer to an Attribute

NEVER = -1
cdef object _NEVER = NEVER
cdef array _NO_IDS = array("q")


cdef class Conjunctions:
    """A set of conjunctions, each with an id from 0 to 2**63 - 1. One thread at a time.

    A conjunction is a sequence of predicates (attribute, operator, operands); an event maps
    attributes to values: bool, int, float or str. `agent.wire.predicates` defines their semantics.
    """

    def __cinit__(self):
        self.where = {}
        self.attributes = {}
        self.shapes = {}
        self.groups = []
        self.free = []

    def __dealloc__(self):
        free(self.found)
        free(self.present)
        free(self.scratch)

    def __len__(self):
        return len(self.where)

    def __contains__(self, number):
        return number in self.where

    def insert(self, number, conjunction):
        """Add a conjunction.

        ValueError for an invalid predicate, or an id that exists or is out of range. For each
        attribute O(rows + bounds of a bucket): at most 256 rows, and a 256th of the group's bounds.
        Rebuilding the buckets is O(group), once in as many changes.
        """
        cdef dict allowed
        cdef IntervalSet one
        cdef Group group
        cdef uint32_t slot
        number = _checked_id(number)
        if number in self.where:
            raise ValueError(f"id {number} is there already")
        allowed = read_conjunction(conjunction)
        # Branch-free collection of ids may write one more than there are.
        _make_room(<void **>&self.found, &self.found_capacity, len(self.where) + 2)
        for one in allowed.values():
            if one.intervals.count == 0:
                self.where[number] = _NEVER
                return
        equal = sorted([name for name, one in allowed.items() if (<IntervalSet>one).is_value()])
        values = [(<IntervalSet>allowed.pop(name)).value() for name in equal]
        others = [self._attribute(name) for name in allowed]
        group = self._group_for(tuple(equal), values, others)
        try:
            self._make_scratch(group.slots // 64 + 1)
            slot = group.add(number, others, list(allowed.values()))
            self.where[number] = <uint64_t>group.number << 32 | slot
        except MemoryError:
            self._release(group.drop_indexes() + others)
            if group.live == 0:
                self._forget(group)
            raise

    def remove(self, number):
        """Remove a conjunction. KeyError for an unknown id. Complexity as `insert`."""
        cdef Group group
        cdef uint64_t place
        cdef uint32_t slot
        known = self.where.pop(number)
        if known == _NEVER:
            return
        place = known
        group = self.groups[place >> 32]
        self._release(group.remove(<uint32_t>place))
        if group.live == 0:
            self._forget(group)
        elif group.compact():
            for slot in range(group.slots):
                self.where[<object>group.ids[slot]] = <uint64_t>group.number << 32 | slot

    def match(self, event):
        """The ids of the conjunctions that an event fulfils, each once, in no particular order: an
        `array.array` of signed 64-bit integers.

        ValueError for a value that is no bool, number or str, if it is looked at. O(shapes that
        share an attribute with the event) look-ups; for each attribute of a group found
        O(conjunctions of the group / 64 + bounds of a bucket); O(result).
        """
        cdef dict values = event if PyDict_Check(event) else dict(event)
        cdef size_t i
        cdef Shape shape
        self.count = 0
        self.event += 1
        self._take(values)
        if self.unfiled is not None:
            self._match_shape(self.unfiled)
        for i in range(self.present_count):
            for shape in (<Attribute>self.present[i]).shapes:
                self._match_shape(shape)
        return self._result()

    def intersecting(self, conjunction):
        """The ids of the conjunctions that share some event with this one, exactly, for events with
        any double or string; an array as from `match`.

        ValueError for a predicate that makes no sense. O(groups + conjunctions of those that can
        meet it / 64 + bounds between its ends).
        """
        self._meet(conjunction, False)
        return self._result()

    def intersects(self, conjunction):
        """Whether any conjunction shares some event with this one: `intersecting` until the first
        group that has one."""
        self._meet(conjunction, True)
        return self.count > 0

    cdef int _meet(self, object conjunction, bint one_is_enough) except -1:
        cdef dict allowed = read_conjunction(conjunction)
        cdef IntervalSet one
        cdef Shape shape
        self.count = 0
        for one in allowed.values():
            if one.intervals.count == 0:
                return 0
        for shape in self.shapes.values():
            for group in groups_meeting(shape, allowed):
                while group is not None:
                    self._meet_group(group, allowed)
                    if one_is_enough and self.count:
                        return 0
                    group = (<Group>group).next
        return 0

    # Keeping groups.

    cdef Group _group_for(self, tuple equal, list values, list others):
        """The group of a conjunction, made if there is none."""
        cdef Shape shape = self.shapes.get(equal)
        cdef Group group, first
        if shape is None:
            shape = self._new_shape(equal)
        key = values[0] if len(values) == 1 else tuple(values)
        first = group = shape.groups.get(key)
        while group is not None and not group.has_room(others):
            group = group.next
        if group is None:
            if not self.free:
                self.free.append(len(self.groups))
                self.groups.append(None)
            group = Group(shape, key, self.free.pop())
            group.next = first
            shape.groups[key] = group
            self.groups[group.number] = group
        return group

    cdef Shape _new_shape(self, tuple equal):
        cdef Attribute attribute
        cdef Attribute home = None
        cdef Shape shape = Shape(equal, tuple([self._attribute(name) for name in equal]))
        # Under the one where fewest are: attributes that only some events have sort shapes best.
        for attribute in shape.equal:
            attribute.users += 1
            if home is None or len(attribute.shapes) < len(home.shapes):
                home = attribute
        shape.home = home
        if home is None:
            self.unfiled = shape
        else:
            home.shapes.append(shape)
        self.shapes[equal] = shape
        return shape

    cdef Attribute _attribute(self, str name):
        cdef Attribute attribute = self.attributes.get(name)
        if attribute is None:
            attribute = Attribute(name)
            _make_room(<void **>&self.present, &self.present_capacity, len(self.attributes) + 1)
            self.attributes[name] = attribute
        return attribute

    cdef int _release(self, list attributes) except -1:
        """Remove unused attributes."""
        cdef Attribute attribute
        for attribute in attributes:
            if attribute.users == 0:
                self.attributes.pop(attribute.name, None)
        return 0

    cdef int _forget(self, Group group) except -1:
        """Remove an empty group, and the shape and attributes that become unused."""
        cdef Shape shape = group.shape
        cdef Group before = shape.groups[group.key]
        cdef Attribute attribute
        self.groups[group.number] = None
        self.free.append(group.number)
        if before is not group:
            while before.next is not group:
                before = before.next
            before.next = group.next
        elif group.next is not None:
            shape.groups[group.key] = group.next
        else:
            del shape.groups[group.key]
        if shape.groups:
            return 0
        del self.shapes[shape.name]
        if shape.home is None:
            self.unfiled = None
        else:
            shape.home.shapes.remove(shape)
        for attribute in shape.equal:
            attribute.users -= 1
        self._release(list(shape.equal))
        return 0

    cdef int _make_scratch(self, uint32_t words) except -1:
        cdef uint32_t capacity = words + (words >> 2)
        cdef void *memory
        if self.scratch_words >= words:
            return 0
        memory = realloc(self.scratch, 3 * <size_t>capacity * sizeof(uint64_t))
        if memory == NULL:
            raise MemoryError
        self.scratch = <uint64_t *>memory
        self.scratch_words = capacity
        return 0

    # Matching.

    cdef int _take(self, dict event) except -1:
        """Store an event's values of the attributes that any conjunction uses."""
        cdef PyObject *attribute
        cdef PyObject *value
        cdef PyObject *name
        cdef Py_ssize_t position = 0
        self.present_count = 0
        if len(self.attributes) <= 2 * len(event):
            while PyDict_Next(self.attributes, &position, &name, &attribute):
                value = PyDict_GetItemWithError(event, <object>name)
                if value != NULL:
                    self._note(<Attribute>attribute, value)
        else:
            while PyDict_Next(event, &position, &name, &value):
                attribute = PyDict_GetItemWithError(self.attributes, <object>name)
                if attribute != NULL:
                    self._note(<Attribute>attribute, value)
        return 0

    cdef void _note(self, Attribute attribute, PyObject *value) noexcept:
        attribute.value = value
        attribute.event = self.event
        attribute.placed = False
        attribute.keyed = False
        self.present[self.present_count] = <PyObject *>attribute
        self.present_count += 1

    cdef int _match_shape(self, Shape shape) except -1:
        cdef Attribute attribute
        cdef PyObject *group
        cdef Group chain
        for attribute in shape.equal:
            if attribute.event != self.event:
                return 0
            if not attribute.keyed:
                attribute.key = hashed(<object>attribute.value)
                attribute.keyed = True
        if len(shape.equal) == 1:
            key = attribute.key
        elif len(shape.equal) == 0:
            key = ()
        else:
            key = tuple([(<Attribute>one).key for one in shape.equal])
        group = PyDict_GetItemWithError(shape.groups, key)
        if group != NULL:
            chain = <Group>group
            while chain is not None:
                self._match_group(chain)
                chain = chain.next
        return 0

    cdef int _match_group(self, Group group) except -1:
        cdef uint32_t words = (group.slots + 63) >> 6
        cdef uint64_t *all = self.scratch
        cdef uint64_t *one = self.scratch + words
        cdef const uint64_t *constrained
        cdef uint32_t i, w
        cdef bint by_all
        cdef Attribute attribute
        if group.width:
            memcpy(all, group.used, words * sizeof(uint64_t))
        for i in range(group.width):
            attribute = <Attribute>group.attributes[i]
            constrained = group.indexes[i].constrained
            by_all = group.indexes[i].users == group.live
            if attribute.event != self.event:
                if by_all:
                    return 0
                for w in range(words):
                    all[w] &= ~constrained[w]
                continue
            attribute.place()
            index_at(&group.indexes[i], &attribute.point, one, words)
            if by_all:
                for w in range(words):
                    all[w] &= one[w]
            else:
                for w in range(words):
                    all[w] &= one[w] | ~constrained[w]
        self._collect(group, all if group.width else NULL)
        return 0

    cdef void _collect(self, Group group, const uint64_t *bits) noexcept:
        """Collect the ids of a group: of all slots, or of those whose bits are set."""
        cdef int64_t *found = self.found + self.count
        found = group.all_ids(found) if bits == NULL else group.ids_of(bits, found)
        self.count = found - self.found
        CHECK(self.count < self.found_capacity)

    cdef object _result(self):
        cdef array ids = clone(_NO_IDS, self.count, zero=False)
        if self.count:
            memcpy(ids.data.as_longlongs, self.found, self.count * sizeof(int64_t))
        return ids

    cdef int _meet_group(self, Group group, dict allowed) except -1:
        """Collect the conjunctions whose intervals meet `allowed` at every shared attribute."""
        cdef uint32_t words = (group.slots + 63) >> 6
        cdef uint64_t *all = self.scratch
        cdef uint64_t *one = self.scratch + words
        cdef uint32_t i, w
        cdef const uint64_t *constrained
        cdef IntervalSet other
        if group.width:
            memcpy(all, group.used, words * sizeof(uint64_t))
        for i in range(group.width):
            other = allowed.get((<Attribute>group.attributes[i]).name)
            if other is not None:
                constrained = group.indexes[i].constrained
                index_meeting(&group.indexes[i], &other.intervals, one, words)
                for w in range(words):
                    all[w] &= one[w] | ~constrained[w]
        self._collect(group, all if group.width else NULL)
        return 0


cdef int _make_room(void **memory, size_t *capacity, size_t count) except -1:
    cdef size_t more = capacity[0] + max(capacity[0] >> 2, <size_t>FIRST_IDS)
    cdef void *larger
    if capacity[0] >= count:
        return 0
    larger = realloc(memory[0], more * ENTRY_BYTES)
    if larger == NULL:
        raise MemoryError
    memory[0] = larger
    capacity[0] = more
    return 0


cdef object _checked_id(object number):
    if not isinstance(number, int):
        raise TypeError(f"an id is an int, not {type(number).__name__}")
    number = int(number)
    if not 0 <= number < 2**63:
        raise ValueError(f"an id is from 0 to 2**63 - 1, not {number}")
    return number

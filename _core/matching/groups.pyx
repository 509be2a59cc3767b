"""Groups of conjunctions with the same equality predicates."""

from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from _core.matching.index_changes cimport index_add, index_remove, index_reserve
from _core.matching.index cimport IntervalIndex, index_free, index_init, flip
from _core.matching.intervals cimport IntervalSet, Point, hashed_point, point_of, intervals_contain

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef extern from *:
    """
    #define LAST_BIT 0x8000000000000000ULL
    """
    const uint64_t LAST_BIT
    int __builtin_ctzll(unsigned long long bits) noexcept nogil

cdef enum:
    FIRST_IDS = 4
    STRIDE = 8                # words looked at together
    FREE = -1                 # in place of the id of a free slot
    MAX_SLOTS = 0x40000000
    MAX_INDEXES = 32
    SPARSE = 4                # slots for each one in use, from where a group is made anew …
    WORTH = 256               # … if it has as many slots at least


cdef class Attribute:
    def __cinit__(self, str name):
        self.name = name
        self.shapes = []

    cdef int place(self) except -1:
        if not self.placed:
            point_of(<object>self.value, &self.point)
            self.placed = True
        return 0


cdef class Shape:
    def __cinit__(self, tuple name, tuple equal):
        self.name = name
        self.equal = equal
        self.groups = {}


cdef class Group:
    def __cinit__(self, Shape shape, object key, uint32_t number):
        self.shape = shape
        self.key = key
        self.number = number
        self.free = []
        self.attributes = []

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.width):
            index_free(&self.indexes[i])
        free(self.indexes)
        free(self.ids)
        free(self.used)

    cdef bint has_room(self, list attributes) except -1:
        """Whether indexes for all these attributes exist or may be added."""
        missing = sum([attribute not in self.attributes for attribute in attributes])
        return self.width == 0 or self.width + missing <= MAX_INDEXES

    cdef int reserve(self) except -1:
        """Make room for one more slot."""
        cdef uint32_t capacity, i
        cdef void *memory
        if self.slots == self.capacity:
            capacity = self.capacity + max(self.capacity >> 2, FIRST_IDS)
            if capacity > MAX_SLOTS:
                raise MemoryError
            memory = realloc(self.ids, capacity * sizeof(int64_t))
            if memory == NULL:
                raise MemoryError
            self.ids = <int64_t *>memory
            memory = realloc(self.used, ((capacity + 63) >> 6) * sizeof(uint64_t))
            if memory == NULL:
                raise MemoryError
            self.used = <uint64_t *>memory
            self.capacity = capacity
        for i in range(self.width):
            if index_reserve(&self.indexes[i], self.slots + 1) != 0:
                raise MemoryError
        return 0

    cdef uint32_t index_of(self, Attribute attribute) except? 0xFFFFFFFF:
        """The attribute's index, created if there is none."""
        cdef uint32_t i
        cdef void *memory
        for i in range(self.width):
            if self.attributes[i] is attribute:
                return i
        memory = realloc(self.indexes, (self.width + 1) * sizeof(IntervalIndex))
        if memory == NULL:
            raise MemoryError
        self.indexes = <IntervalIndex *>memory
        i = self.width
        if index_init(&self.indexes[i]) != 0:
            raise MemoryError
        if index_reserve(&self.indexes[i], self.slots + 1) != 0:
            index_free(&self.indexes[i])
            raise MemoryError
        self.attributes.append(attribute)
        self.width += 1
        attribute.users += 1
        return i

    cdef uint32_t add(self, int64_t number, list attributes, list allowed) except? 0xFFFFFFFF:
        """Add a conjunction and take over its intervals, one per attribute; returns its slot."""
        cdef uint32_t slot, i
        cdef IntervalSet taken
        self.reserve()
        slot = self.free[len(self.free) - 1] if self.free else self.slots
        try:
            for attribute, taken in zip(attributes, allowed):
                i = self.index_of(attribute)
                if index_add(&self.indexes[i], slot, taken.intervals) != 0:
                    raise MemoryError
                taken.intervals.points = NULL
                taken.intervals.count = 0
        except MemoryError:
            self.clear(slot)
            raise
        if slot == self.slots:
            if slot & 63 == 0:
                self.used[slot >> 6] = 0
            self.slots += 1
        else:
            self.free.pop()
        self.ids[slot] = number
        flip(self.used, slot)
        self.live += 1
        return slot

    cdef int clear(self, uint32_t slot) except -1:
        """Remove a slot's intervals from all indexes."""
        cdef uint32_t i
        for i in range(self.width):
            if self.indexes[i].intervals[slot].count:
                index_remove(&self.indexes[i], slot)
        return 0

    cdef list remove(self, uint32_t slot):
        """Free a slot; returns the attributes whose index was dropped."""
        CHECK(slot < self.slots)
        self.clear(slot)
        self.ids[slot] = FREE
        flip(self.used, slot)
        self.live -= 1
        self.free.append(slot)
        return self.drop_indexes()

    cdef list drop_indexes(self):
        """Drop unused indexes; returns their attributes."""
        cdef list dropped = []
        cdef uint32_t i = self.width
        cdef Attribute attribute
        while i > 0:
            i -= 1
            if self.indexes[i].users == 0:
                index_free(&self.indexes[i])
                self.width -= 1
                self.indexes[i] = self.indexes[self.width]
                attribute = self.attributes[i]
                self.attributes[i] = self.attributes[self.width]
                self.attributes.pop()
                attribute.users -= 1
                dropped.append(attribute)
        return dropped

    cdef int64_t *all_ids(self, int64_t *found) noexcept:
        """Write the ids of all slots in use; returns the end of the output."""
        cdef uint32_t slot
        if self.live == self.slots:
            memcpy(found, self.ids, self.slots * sizeof(int64_t))
            return found + self.slots
        for slot in range(self.slots):
            if self.ids[slot] != FREE:
                found[0] = self.ids[slot]
                found += 1
        return found

    cdef int64_t *ids_of(self, const uint64_t *bits, int64_t *found) noexcept:
        """Write the ids of the slots whose bits are set; returns the end of the output, after which
        one more element may be overwritten.

        With one or two bits per word, a loop over them mispredicts its end every time: three bits
        are taken without a branch, and words are skipped only if eight in a row are empty.
        """
        cdef uint32_t whole = self.slots >> 6
        cdef uint32_t w = 0, stop
        while w < whole:
            stop = min(w + STRIDE, whole)
            if _any(bits + w, stop - w):
                while w < stop:
                    found = _ids_of_word(bits[w], self.ids + 64 * <size_t>w, found)
                    w += 1
            w = stop
        if self.slots & 63:
            found = _rest_of_word(bits[whole], self.ids + 64 * <size_t>whole, found)
        return found

    cdef bint compact(self) except -1:
        """Move all conjunctions to the first slots if few slots are used; whether it did."""
        cdef IntervalIndex *indexes
        cdef uint32_t i, slot, to
        if self.slots < WORTH or self.live > self.slots // SPARSE:
            return False
        indexes = <IntervalIndex *>calloc(self.width + 1, sizeof(IntervalIndex))
        if indexes == NULL:
            return False
        for i in range(self.width):
            if not self.copied(&self.indexes[i], &indexes[i]):
                # Their intervals still belong to the old ones.
                for to in range(i + 1):
                    _free_borrowing(&indexes[to])
                free(indexes)
                return False
        for i in range(self.width):
            self.indexes[i].capacity = 0  # the new one has the intervals
            index_free(&self.indexes[i])
        free(self.indexes)
        self.indexes = indexes
        to = 0
        for slot in range(self.slots):
            if self.ids[slot] != FREE:
                self.ids[to] = self.ids[slot]
                to += 1
        self.slots = to
        self.free.clear()
        memset(self.used, 0, ((to + 63) >> 6) * sizeof(uint64_t))
        for slot in range(to):
            flip(self.used, slot)
        return True

    cdef bint copied(self, IntervalIndex *index, IntervalIndex *to) noexcept:
        """Copy the intervals to the first slots of a new index; False if memory ran out."""
        cdef uint32_t slot, next = 0
        if index_init(to) != 0 or index_reserve(to, self.live) != 0:
            return False
        for slot in range(self.slots):
            if self.ids[slot] != FREE:
                if index.intervals[slot].count and index_add(to, next, index.intervals[slot]) != 0:
                    return False
                next += 1
        return True


cdef void _free_borrowing(IntervalIndex *index) noexcept:
    index.capacity = 0
    index_free(index)


cdef list groups_meeting(Shape shape, dict allowed):
    """The groups of a shape whose values are allowed."""
    cdef IntervalSet one
    cdef Attribute attribute
    cdef Point point
    cdef list asked = [allowed.get((<Attribute>attribute).name) for attribute in shape.equal]
    if None not in asked and all([(<IntervalSet>one).is_value() for one in asked]):
        values = [(<IntervalSet>one).value() for one in asked]
        group = shape.groups.get(values[0] if len(values) == 1 else tuple(values))
        return [] if group is None else [group]
    return [
        group for key, group in shape.groups.items() if _meets(shape, key, asked)
    ]


cdef bint _meets(Shape shape, object key, list asked) except -1:
    """Whether `asked` allows a group's values; None allows everything."""
    cdef IntervalSet one
    cdef Point point
    values = (key,) if len(shape.equal) == 1 else key
    for one, value in zip(asked, values):
        if one is not None:
            hashed_point(value, &point)
            if not intervals_contain(&one.intervals, &point):
                return False
    return True


cdef inline bint _any(const uint64_t *bits, uint32_t words) noexcept:
    cdef uint64_t all = 0
    cdef uint32_t w
    for w in range(words):
        all |= bits[w]
    return all != 0


cdef inline int64_t *_ids_of_word(uint64_t bits, int64_t *ids, int64_t *found) noexcept:
    """The 64 ids must all be there to be read, even if no bit is set."""
    cdef int i
    for i in range(3):
        found[0] = ids[__builtin_ctzll(bits | LAST_BIT)]
        found += bits != 0
        bits &= bits - 1
    return _rest_of_word(bits, ids, found)


cdef inline int64_t *_rest_of_word(uint64_t bits, int64_t *ids, int64_t *found) noexcept:
    while bits:
        found[0] = ids[__builtin_ctzll(bits)]
        found += 1
        bits &= bits - 1
    return found

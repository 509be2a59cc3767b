"""Insertion and removal in an interval index: capacity, bounds, bits in rows.

The bounds of a bucket are a sorted array: an insertion moves half of them, which with a million
conjunctions is some 60 KB and still less than the rest of the insertion costs.
"""

from libc.stdlib cimport calloc, realloc
from libc.string cimport memcpy, memmove, memset

from _core.matching.rebucket cimport BOUNDS_A_ROW, index_cut, most_rows
from _core.matching.index cimport (
    BLOCK_WORDS,
    Bound,
    Bucket,
    bound_order,
    bucket_of,
    free_blocks,
    new_blocks,
    flip,
)
from _core.matching.intervals cimport Point, compare, intervals_free

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FEW_CHANGES = 64          # not worth cutting buckets for
    FIRST_BOUNDS = 4          # room in a new bucket
    FIRST_SLOTS = 4
    FULL = 8                  # times the bounds that buckets had when they were cut


cdef int _widen(IntervalIndex *index, uint32_t words) noexcept nogil:
    """Widen the rows of a single block to this many words."""
    cdef uint64_t **bits = new_blocks(1, index.rows, words)
    cdef uint32_t r
    if bits == NULL:
        return -1
    if index.blocks:
        for r in range(index.rows):
            memcpy(
                bits[0] + <size_t>r * words,
                index.bits[0] + <size_t>r * index.block_words,
                index.block_words * sizeof(uint64_t),
            )
    free_blocks(index.bits, index.blocks)
    index.bits = bits
    index.blocks = 1
    index.block_words = words
    return 0


cdef int _append_block(IntervalIndex *index) noexcept nogil:
    cdef void *memory = realloc(index.bits, (index.blocks + 1) * sizeof(uint64_t *))
    if memory == NULL:
        return -1
    index.bits = <uint64_t **>memory
    index.bits[index.blocks] = <uint64_t *>calloc(
        <size_t>index.rows * index.block_words, sizeof(uint64_t)
    )
    if index.bits[index.blocks] == NULL:
        return -1
    index.blocks += 1
    return 0


cdef int _grow_bits(IntervalIndex *index) noexcept nogil:
    """Double the words of a row, or add a block."""
    cdef uint32_t words = index.blocks * index.block_words
    cdef bint single = index.block_words < BLOCK_WORDS
    cdef uint32_t more = max(words, <uint32_t>1) if single else BLOCK_WORDS
    cdef void *memory = realloc(index.constrained, (words + more) * sizeof(uint64_t))
    if memory == NULL:
        return -1
    index.constrained = <uint64_t *>memory
    memset(index.constrained + words, 0, more * sizeof(uint64_t))
    return _widen(index, words + more) if single else _append_block(index)


cdef int index_reserve(IntervalIndex *index, uint32_t slots) noexcept nogil:
    cdef uint32_t capacity = index.capacity
    cdef void *memory
    while index.blocks * index.block_words * 64 < slots:
        if _grow_bits(index) != 0:
            return -1
    if capacity >= slots:
        return 0
    while capacity < slots:
        capacity += max(capacity >> 2, FIRST_SLOTS)
    memory = realloc(index.intervals, <size_t>capacity * sizeof(Intervals))
    if memory == NULL:
        return -1
    index.intervals = <Intervals *>memory
    memset(index.intervals + index.capacity, 0, (capacity - index.capacity) * sizeof(Intervals))
    index.capacity = capacity
    if index.rows > 2 * most_rows(index):
        index_cut(index)  # it has got sparse
    return 0


cdef int _make_room(IntervalIndex *index, const Point *point, uint32_t more) noexcept nogil:
    """Make room for `more` bounds in the bucket of a point."""
    cdef Bucket *bucket = &index.buckets[bucket_of(index, point)]
    cdef uint32_t capacity = max(bucket.capacity, <uint32_t>FIRST_BOUNDS)
    cdef void *memory
    while capacity < bucket.count + more:
        capacity += capacity >> 1
    if capacity == bucket.capacity:
        return 0
    memory = realloc(bucket.bounds, capacity * sizeof(Bound))
    if memory == NULL:
        return -1
    bucket.bounds = <Bound *>memory
    bucket.capacity = capacity
    return 0


cdef uint32_t _first_row_from(const IntervalIndex *index, const Point *point) noexcept nogil:
    """The first row whose first point is at `point` or after it."""
    cdef uint32_t row = bucket_of(index, point)
    return row + (compare(&index.buckets[row].first, point) < 0)


cdef void _flip_rows(
    IntervalIndex *index, uint32_t slot, const Point *first, const Point *end
) noexcept nogil:
    """Flip a slot's bit in the rows from one point to before another."""
    cdef uint32_t row = _first_row_from(index, first)
    cdef uint32_t stop = _first_row_from(index, end)
    cdef uint32_t word = slot >> 6
    cdef uint64_t bit = <uint64_t>1 << (slot & 63)
    cdef uint64_t *place
    place = index.bits[word // index.block_words]
    place += <size_t>row * index.block_words + word % index.block_words
    for row in range(row, stop):
        place[0] ^= bit
        place += index.block_words


cdef uint32_t _place(
    const IntervalIndex *index, const Bucket *bucket, const Point *point, uint32_t slot
) noexcept nogil:
    """The index of a slot's bound at `point` among a bucket's, or its insertion index."""
    cdef uint32_t low = 0, size = bucket.count, half
    cdef int order
    while size > 0:
        half = size >> 1
        order = bound_order(index, &bucket.bounds[low + half], point)
        if order < 0 or (order == 0 and bucket.bounds[low + half].slot < slot):
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low


cdef uint32_t _add_bound(IntervalIndex *index, uint32_t slot, uint32_t nth) noexcept nogil:
    """Add a bound; returns the number of bounds in its bucket."""
    cdef const Point *point = &index.intervals[slot].points[nth]
    cdef Bucket *bucket = &index.buckets[bucket_of(index, point)]
    cdef uint32_t i
    if compare(&bucket.first, point) == 0:
        bucket.at_first += 1
        return bucket.count
    i = _place(index, bucket, point, slot)
    CHECK(bucket.count < bucket.capacity)
    memmove(&bucket.bounds[i + 1], &bucket.bounds[i], (bucket.count - i) * sizeof(Bound))
    bucket.bounds[i] = Bound(point.key, slot, nth)
    bucket.count += 1
    return bucket.count


cdef void _remove_bound(IntervalIndex *index, uint32_t slot, uint32_t nth) noexcept nogil:
    cdef const Point *point = &index.intervals[slot].points[nth]
    cdef Bucket *bucket = &index.buckets[bucket_of(index, point)]
    cdef uint32_t i
    if compare(&bucket.first, point) == 0:
        CHECK(bucket.at_first > 0)
        bucket.at_first -= 1
        return
    i = _place(index, bucket, point, slot)
    CHECK(i < bucket.count)
    CHECK(bucket.bounds[i].slot == slot and bucket.bounds[i].nth == nth)
    bucket.count -= 1
    memmove(&bucket.bounds[i], &bucket.bounds[i + 1], (bucket.count - i) * sizeof(Bound))


cdef int index_add(IntervalIndex *index, uint32_t slot, Intervals intervals) noexcept nogil:
    cdef uint32_t i
    cdef uint32_t fullest = 0
    CHECK(slot < index.capacity)
    CHECK(index.intervals[slot].count == 0)
    for i in range(intervals.count):
        if _make_room(index, &intervals.points[i], intervals.count) != 0:
            return -1
    index.intervals[slot] = intervals
    for i in range(intervals.count):
        fullest = max(fullest, _add_bound(index, slot, i))
    for i in range(0, intervals.count, 2):
        _flip_rows(index, slot, &intervals.points[i], &intervals.points[i + 1])
    flip(index.constrained, slot)
    index.users += 1
    index.bounds += intervals.count
    _changed(index, intervals.count, fullest)
    return 0


cdef void index_remove(IntervalIndex *index, uint32_t slot) noexcept nogil:
    cdef Intervals *intervals = &index.intervals[slot]
    cdef uint32_t count = intervals.count
    cdef uint32_t i
    CHECK(slot < index.capacity)
    CHECK(count > 0)
    for i in range(count):
        _remove_bound(index, slot, i)
    for i in range(0, count, 2):
        _flip_rows(index, slot, &intervals.points[i], &intervals.points[i + 1])
    flip(index.constrained, slot)
    index.users -= 1
    index.bounds -= count
    intervals_free(intervals)
    _changed(index, count, 0)


cdef void _changed(IntervalIndex *index, uint32_t bounds, uint32_t fullest) noexcept nogil:
    """Count changes; `fullest` is the size of a bucket that has grown."""
    cdef bint uneven = fullest > FULL * (index.built // index.rows + BOUNDS_A_ROW)
    cdef uint64_t most = index.built >> 3 if uneven else index.built
    index.changes += bounds
    if index.changes > FEW_CHANGES and index.changes > most:
        index.changes = 0
        index_cut(index)  # without memory for it all goes on as it is

"""Conjunctions come to an index of spans and go: rooms for them, bounds, bits in rows.

Bounds of a bucket are an ordinary sorted array: adding one moves half of them, which at a million
conjunctions is some 60 KB and still less than what else an insertion does.
"""

from libc.stdlib cimport calloc, realloc
from libc.string cimport memcpy, memmove, memset

from _core.span_cut cimport BOUNDS_A_ROW, column_cut, most_rows
from _core.span_index cimport (
    BLOCK_WORDS,
    Bound,
    Bucket,
    bound_order,
    bucket_of,
    free_blocks,
    new_blocks,
    turn,
)
from _core.spans cimport Point, compare, spans_free

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FEW_CHANGES = 64          # not worth cutting buckets for
    FIRST_BOUNDS = 4          # room in a new bucket
    FIRST_SLOTS = 4
    FULL = 8                  # times the bounds that buckets had when they were cut


cdef int _widen(Column *c, uint32_t words) noexcept nogil:
    """A single block with rows of so many words."""
    cdef uint64_t **bits = new_blocks(1, c.rows, words)
    cdef uint32_t r
    if bits == NULL:
        return -1
    if c.blocks:
        for r in range(c.rows):
            memcpy(
                bits[0] + <size_t>r * words,
                c.bits[0] + <size_t>r * c.block_words,
                c.block_words * sizeof(uint64_t),
            )
    free_blocks(c.bits, c.blocks)
    c.bits = bits
    c.blocks = 1
    c.block_words = words
    return 0


cdef int _append_block(Column *c) noexcept nogil:
    cdef void *memory = realloc(c.bits, (c.blocks + 1) * sizeof(uint64_t *))
    if memory == NULL:
        return -1
    c.bits = <uint64_t **>memory
    c.bits[c.blocks] = <uint64_t *>calloc(<size_t>c.rows * c.block_words, sizeof(uint64_t))
    if c.bits[c.blocks] == NULL:
        return -1
    c.blocks += 1
    return 0


cdef int _grow_bits(Column *c) noexcept nogil:
    """Twice the words of a row, or one block more."""
    cdef uint32_t words = c.blocks * c.block_words
    cdef bint single = c.block_words < BLOCK_WORDS
    cdef uint32_t more = max(words, <uint32_t>1) if single else BLOCK_WORDS
    cdef void *memory = realloc(c.constrained, (words + more) * sizeof(uint64_t))
    if memory == NULL:
        return -1
    c.constrained = <uint64_t *>memory
    memset(c.constrained + words, 0, more * sizeof(uint64_t))
    return _widen(c, words + more) if single else _append_block(c)


cdef int column_reserve(Column *c, uint32_t slots) noexcept nogil:
    cdef uint32_t capacity = c.capacity
    cdef void *memory
    while c.blocks * c.block_words * 64 < slots:
        if _grow_bits(c) != 0:
            return -1
    if capacity >= slots:
        return 0
    while capacity < slots:
        capacity += max(capacity >> 2, FIRST_SLOTS)
    memory = realloc(c.spans, <size_t>capacity * sizeof(Spans))
    if memory == NULL:
        return -1
    c.spans = <Spans *>memory
    memset(c.spans + c.capacity, 0, (capacity - c.capacity) * sizeof(Spans))
    c.capacity = capacity
    if c.rows > 2 * most_rows(c):
        column_cut(c)  # it has got sparse
    return 0


cdef int _make_room(Column *c, const Point *point, uint32_t more) noexcept nogil:
    """Room for so many bounds in the bucket of a point."""
    cdef Bucket *bucket = &c.buckets[bucket_of(c, point)]
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


cdef uint32_t _first_row_from(const Column *c, const Point *point) noexcept nogil:
    """The first row whose first point is at `point` or after it."""
    cdef uint32_t row = bucket_of(c, point)
    return row + (compare(&c.buckets[row].first, point) < 0)


cdef void _turn_rows(Column *c, uint32_t slot, const Point *first, const Point *end) noexcept nogil:
    """Turn a slot's bit in the rows from one point to before another."""
    cdef uint32_t row = _first_row_from(c, first)
    cdef uint32_t stop = _first_row_from(c, end)
    cdef uint32_t word = slot >> 6
    cdef uint64_t bit = <uint64_t>1 << (slot & 63)
    cdef uint64_t *place
    place = c.bits[word // c.block_words] + <size_t>row * c.block_words + word % c.block_words
    for row in range(row, stop):
        place[0] ^= bit
        place += c.block_words


cdef uint32_t _place(
    const Column *c, const Bucket *bucket, const Point *point, uint32_t slot
) noexcept nogil:
    """Where a slot's bound at `point` is among a bucket's, or would be."""
    cdef uint32_t low = 0, size = bucket.count, half
    cdef int order
    while size > 0:
        half = size >> 1
        order = bound_order(c, &bucket.bounds[low + half], point)
        if order < 0 or (order == 0 and bucket.bounds[low + half].slot < slot):
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low


cdef uint32_t _add_bound(Column *c, uint32_t slot, uint32_t nth) noexcept nogil:
    """How many bounds its bucket has now."""
    cdef const Point *point = &c.spans[slot].points[nth]
    cdef Bucket *bucket = &c.buckets[bucket_of(c, point)]
    cdef uint32_t i
    if compare(&bucket.first, point) == 0:
        bucket.at_first += 1
        return bucket.count
    i = _place(c, bucket, point, slot)
    CHECK(bucket.count < bucket.capacity)
    memmove(&bucket.bounds[i + 1], &bucket.bounds[i], (bucket.count - i) * sizeof(Bound))
    bucket.bounds[i] = Bound(point.key, slot, nth)
    bucket.count += 1
    return bucket.count


cdef void _remove_bound(Column *c, uint32_t slot, uint32_t nth) noexcept nogil:
    cdef const Point *point = &c.spans[slot].points[nth]
    cdef Bucket *bucket = &c.buckets[bucket_of(c, point)]
    cdef uint32_t i
    if compare(&bucket.first, point) == 0:
        CHECK(bucket.at_first > 0)
        bucket.at_first -= 1
        return
    i = _place(c, bucket, point, slot)
    CHECK(i < bucket.count)
    CHECK(bucket.bounds[i].slot == slot and bucket.bounds[i].nth == nth)
    bucket.count -= 1
    memmove(&bucket.bounds[i], &bucket.bounds[i + 1], (bucket.count - i) * sizeof(Bound))


cdef int column_add(Column *c, uint32_t slot, Spans spans) noexcept nogil:
    cdef uint32_t i
    cdef uint32_t fullest = 0
    CHECK(slot < c.capacity)
    CHECK(c.spans[slot].count == 0)
    for i in range(spans.count):
        if _make_room(c, &spans.points[i], spans.count) != 0:
            return -1
    c.spans[slot] = spans
    for i in range(spans.count):
        fullest = max(fullest, _add_bound(c, slot, i))
    for i in range(0, spans.count, 2):
        _turn_rows(c, slot, &spans.points[i], &spans.points[i + 1])
    turn(c.constrained, slot)
    c.users += 1
    c.bounds += spans.count
    _changed(c, spans.count, fullest)
    return 0


cdef void column_remove(Column *c, uint32_t slot) noexcept nogil:
    cdef Spans *spans = &c.spans[slot]
    cdef uint32_t count = spans.count
    cdef uint32_t i
    CHECK(slot < c.capacity)
    CHECK(count > 0)
    for i in range(count):
        _remove_bound(c, slot, i)
    for i in range(0, count, 2):
        _turn_rows(c, slot, &spans.points[i], &spans.points[i + 1])
    turn(c.constrained, slot)
    c.users -= 1
    c.bounds -= count
    spans_free(spans)
    _changed(c, count, 0)


cdef void _changed(Column *c, uint32_t bounds, uint32_t fullest) noexcept nogil:
    """Count changes; `fullest` is the size of a bucket that has grown."""
    cdef bint uneven = fullest > FULL * (c.built // c.rows + BOUNDS_A_ROW)
    c.changes += bounds
    if c.changes > FEW_CHANGES and c.changes > (c.built >> 3 if uneven else c.built):
        c.changes = 0
        column_cut(c)  # without memory for it all goes on as it is

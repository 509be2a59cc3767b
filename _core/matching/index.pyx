"""Interval index: finds the conjunctions that hold for a value of one attribute."""

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from _core.matching.intervals cimport FALSE_KEY, compare, intervals_free


cdef int index_init(IntervalIndex *index) noexcept nogil:
    memset(index, 0, sizeof(IntervalIndex))
    index.buckets = <Bucket *>calloc(1, sizeof(Bucket))
    index.keys = <uint64_t *>malloc(sizeof(uint64_t))
    if index.buckets == NULL or index.keys == NULL:
        index_free(index)
        return -1
    index.rows = 1
    index.buckets[0].first.key = FALSE_KEY
    index.keys[0] = FALSE_KEY
    return 0


cdef void free_buckets(Bucket *buckets, uint32_t rows) noexcept nogil:
    cdef uint32_t r
    if buckets == NULL:
        return
    for r in range(rows):
        free(<void *>buckets[r].first.text)
        free(buckets[r].bounds)
    free(buckets)


cdef void free_blocks(uint64_t **bits, uint32_t blocks) noexcept nogil:
    cdef uint32_t b
    if bits == NULL:
        return
    for b in range(blocks):
        free(bits[b])
    free(bits)


cdef void index_free(IntervalIndex *index) noexcept nogil:
    cdef uint32_t slot
    for slot in range(index.capacity):
        intervals_free(&index.intervals[slot])
    free(index.intervals)
    free_buckets(index.buckets, index.rows)
    free_blocks(index.bits, index.blocks)
    free(index.keys)
    free(index.constrained)
    memset(index, 0, sizeof(IntervalIndex))


cdef uint64_t **new_blocks(uint32_t blocks, uint32_t rows, uint32_t words) noexcept nogil:
    """Allocate zeroed blocks; NULL if memory ran out."""
    cdef uint64_t **bits = <uint64_t **>calloc(blocks, sizeof(uint64_t *))
    cdef uint32_t b
    if bits == NULL:
        return NULL
    for b in range(blocks):
        bits[b] = <uint64_t *>calloc(<size_t>rows * words, sizeof(uint64_t))
        if bits[b] == NULL:
            free_blocks(bits, blocks)
            return NULL
    return bits


cdef inline uint32_t _up_to(
    const IntervalIndex *index, const Bucket *bucket, const Point *point
) noexcept nogil:
    """How many of a bucket's bounds are at `point` or before it."""
    cdef uint32_t low = 0, size = bucket.count, half
    while size > 0:
        half = size >> 1
        if bound_order(index, &bucket.bounds[low + half], point) <= 0:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low


cdef inline uint32_t _before(
    const IntervalIndex *index, const Bucket *bucket, const Point *point
) noexcept nogil:
    """How many of a bucket's bounds are before `point`."""
    cdef uint32_t low = 0, size = bucket.count, half
    while size > 0:
        half = size >> 1
        if bound_order(index, &bucket.bounds[low + half], point) < 0:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low


cdef void index_at(
    const IntervalIndex *index, const Point *point, uint64_t *out, uint32_t words
) noexcept nogil:
    cdef uint32_t row = bucket_of(index, point)
    cdef const Bucket *bucket = &index.buckets[row]
    cdef uint32_t i, block, first, size
    for block in range(index.blocks):
        first = block * index.block_words
        if first >= words:
            break
        size = min(index.block_words, words - first)
        memcpy(
            out + first,
            index.bits[block] + <size_t>row * index.block_words,
            size * sizeof(uint64_t),
        )
    for i in range(_up_to(index, bucket, point)):
        CHECK(bucket.bounds[i].slot < words * 64)
        flip(out, bucket.bounds[i].slot)


cdef void index_meeting(
    const IntervalIndex *index, const Intervals *intervals, uint64_t *out, uint32_t words
) noexcept nogil:
    """The slots that contain the first point of an interval, or begin or end before its end."""
    cdef uint32_t i, row, last, w
    cdef uint64_t *here = NULL
    for i in range(words):
        out[i] = 0
    for i in range(0, intervals.count, 2):
        here = out + words  # the caller's, too: see the declaration
        index_at(index, &intervals.points[i], here, words)
        for w in range(words):
            out[w] |= here[w]
        row = bucket_of(index, &intervals.points[i])
        last = bucket_of(index, &intervals.points[i + 1])
        _mark(index, row, last, &intervals.points[i], &intervals.points[i + 1], out, words)


cdef void _mark(
    const IntervalIndex *index,
    uint32_t row,
    uint32_t last,
    const Point *first,
    const Point *end,
    uint64_t *out,
    uint32_t words,
) noexcept nogil:
    """Set the bit of every slot that holds after `first` and before `end`, and begins there."""
    cdef const Bucket *bucket
    cdef uint32_t i, start, stop, r
    for r in range(row, last + 1):
        bucket = &index.buckets[r]
        start = _up_to(index, bucket, first) if r == row else 0
        stop = _before(index, bucket, end) if r == last else bucket.count
        for i in range(start, stop):
            out[bucket.bounds[i].slot >> 6] |= <uint64_t>1 << (bucket.bounds[i].slot & 63)
        if r > row and compare(&bucket.first, end) < 0:
            _mark_row(index, r, out, words)


cdef void _mark_row(
    const IntervalIndex *index, uint32_t row, uint64_t *out, uint32_t words
) noexcept nogil:
    """Set the bits of a row, which includes intervals that begin at its bucket's first point."""
    cdef size_t first = <size_t>row * index.block_words
    cdef uint32_t w
    for w in range(words):
        out[w] |= index.bits[w // index.block_words][first + w % index.block_words]

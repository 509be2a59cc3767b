"""Span index: finds the conjunctions that hold for a value of one attribute.

The line of values is divided into buckets. A bucket has a row, which is the bit vector of the
conjunctions that hold at its first point, and the sorted bounds of spans after that point. The
conjunctions that hold at a point are the row of its bucket, with the bit of every bound up to the
point flipped. This is exact, and the same for every operator.

Rows are stored in blocks of conjunctions, so that growth appends a block and moves nothing.
"""

from libc.stdint cimport uint32_t, uint64_t

from _core.matching.intervals cimport STRINGS_START, Point, Spans, compare

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    MAX_ROWS = 256           # fewer where few of the slots have spans: bits for each, see span_cut
    BLOCK_WORDS = 64          # of a row in one block: 4,096 conjunctions

cdef struct Bound:            # the first point of a span, or its end; by point, then slot
    uint64_t key              # of its point
    uint32_t slot             # whose span
    uint32_t nth              # which of its points: leads to the text

cdef struct Bucket:
    Point first               # its text is owned
    Bound *bounds             # [count] ascending, after `first` and before that of the next bucket
    uint32_t count
    uint32_t capacity
    uint32_t at_first         # so many more are at `first` itself: the row has taken them in

cdef struct SpanIndex:
    Bucket *buckets           # [rows]
    uint64_t *keys            # [rows] of their first points
    uint32_t rows             # at least 1, from the start of the line
    uint32_t block_words      # 1 .. BLOCK_WORDS, a power of two; less only in a single block
    uint32_t blocks
    uint64_t **bits           # [blocks][rows · block_words]
    Spans *spans              # [capacity] of each slot, count 0 where free; owned
    uint32_t capacity         # slots; at most blocks · block_words · 64
    uint64_t *constrained     # [blocks · block_words] a bit for each slot that has spans
    uint32_t users            # so many have
    uint64_t bounds           # in all buckets
    uint64_t built            # so many when the buckets were last cut
    uint64_t changes          # bounds added and removed since then

# 0, or -1 if memory ran out.
cdef int index_init(SpanIndex *index) noexcept nogil
cdef void index_free(SpanIndex *index) noexcept nogil

# Writes a bit for each slot: whether it has spans and they contain the point. 64 · `words` slots,
# which are all that were ever used. O(words + bounds of a bucket).
cdef void index_at(
    const SpanIndex *index, const Point *point, uint64_t *out, uint32_t words
) noexcept nogil

# The same: whether its spans and those given have a point in common; `out` has room for twice as
# many words. O(words + bounds between) for each of the given spans.
cdef void index_meeting(
    const SpanIndex *index, const Spans *spans, uint64_t *out, uint32_t words
) noexcept nogil

# For the modules that change an index.

cdef void free_buckets(Bucket *buckets, uint32_t rows) noexcept nogil
cdef void free_blocks(uint64_t **bits, uint32_t blocks) noexcept nogil

# So many blocks of zeros; NULL if memory ran out.
cdef uint64_t **new_blocks(uint32_t blocks, uint32_t rows, uint32_t words) noexcept nogil


cdef inline void turn(uint64_t *row, uint32_t slot) noexcept nogil:
    row[slot >> 6] ^= <uint64_t>1 << (slot & 63)


cdef inline Point bound_point(const SpanIndex *index, const Bound *bound) noexcept nogil:
    CHECK(bound.slot < index.capacity)
    CHECK(bound.nth < index.spans[bound.slot].count)
    return index.spans[bound.slot].points[bound.nth]


cdef inline int bound_order(
    const SpanIndex *index, const Bound *bound, const Point *point
) noexcept nogil:
    """As compare(); the bound's own point is only looked up where the keys do not decide."""
    cdef Point own
    if bound.key != point.key:
        return 1 if bound.key > point.key else -1
    if bound.key < STRINGS_START:
        return 0
    own = bound_point(index, bound)
    return compare(&own, point)


cdef inline uint32_t bucket_of(const SpanIndex *index, const Point *point) noexcept nogil:
    """The last bucket whose first point is not after `point`."""
    cdef uint32_t low = 0, size = index.rows, half
    cdef const uint64_t *keys = index.keys
    if point.key < STRINGS_START:
        while size > 1:
            half = size >> 1
            low += half * (keys[low + half] <= point.key)  # without a branch
            size -= half
        return low
    while size > 1:
        half = size >> 1
        if compare(&index.buckets[low + half].first, point) <= 0:
            low += half
        size -= half
    return low

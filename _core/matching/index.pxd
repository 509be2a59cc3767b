"""Interval index: finds the conjunctions that hold for a value of one attribute.

The line of values is divided into buckets. A bucket has a row, which is the bit vector of the
conjunctions that hold at its first point, and the sorted bounds of intervals after that point. The
conjunctions that hold at a point are the row of its bucket, with the bit of every bound up to the
point flipped. This is exact, and the same for every operator.

Rows are stored in blocks of conjunctions, so that growth appends a block and moves nothing.
"""

from libc.stdint cimport uint32_t, uint64_t

from _core.matching.intervals cimport STRINGS_START, Point, Intervals, compare

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    MAX_ROWS = 256           # sparse indexes get fewer: a row has a bit per slot, see rebucket
    BLOCK_WORDS = 64          # words of a row in one block: 4,096 conjunctions

cdef struct Bound:            # start or end of an interval; ordered by point, then slot
    uint64_t key              # key of its point
    uint32_t slot             # the slot of the interval's conjunction
    uint32_t nth              # index into the slot's points, for the text of the point

cdef struct Bucket:
    Point first               # its text is owned
    Bound *bounds             # [capacity] owned; `count` bounds > `first`, ascending
    uint32_t count
    uint32_t capacity
    uint32_t at_first         # bounds at `first` itself: contained in the row, not in `bounds`

cdef struct IntervalIndex:        # owns all its arrays; free with index_free
    Bucket *buckets           # [rows] in order; the first begins at the start of the line
    uint64_t *keys            # [rows] keys of the buckets' first points
    uint32_t rows             # at least 1
    uint32_t block_words      # 1 .. BLOCK_WORDS, a power of two; below only in a single block
    uint32_t blocks
    uint64_t **bits           # [blocks][rows * block_words] rows of bits, one bit per slot
    Intervals *intervals              # [capacity] by slot; count 0 in a slot without any
    uint32_t capacity         # slots; at most blocks * block_words * 64
    uint64_t *constrained     # [blocks * block_words] a bit per slot: 1 if it has intervals
    uint32_t users            # number of such slots
    uint64_t bounds           # number of bounds in all buckets
    uint64_t built            # that number when the buckets were last rebuilt
    uint64_t changes          # bounds added and removed since then

# Initialises an empty index. Returns 0, or -1 if memory ran out.
cdef int index_init(IntervalIndex *index) noexcept nogil
cdef void index_free(IntervalIndex *index) noexcept nogil

# Writes a bit per slot to `out` [words]: 1 if the slot has intervals that contain the point.
# 64 * words must cover all slots ever used. O(words + bounds of a bucket).
cdef void index_at(
    const IntervalIndex *index, const Point *point, uint64_t *out, uint32_t words
) noexcept nogil

# The same for slots whose intervals share a point with the given ones; `out` must hold 2 * words,
# the second half being scratch. O(words + bounds between) for each of the given intervals.
cdef void index_meeting(
    const IntervalIndex *index, const Intervals *intervals, uint64_t *out, uint32_t words
) noexcept nogil

# Internal: for the modules that change an index.

cdef void free_buckets(Bucket *buckets, uint32_t rows) noexcept nogil
cdef void free_blocks(uint64_t **bits, uint32_t blocks) noexcept nogil

# [blocks][rows * words] of zeros, to be freed with free_blocks; NULL if memory ran out.
cdef uint64_t **new_blocks(uint32_t blocks, uint32_t rows, uint32_t words) noexcept nogil


cdef inline void flip(uint64_t *row, uint32_t slot) noexcept nogil:
    row[slot >> 6] ^= <uint64_t>1 << (slot & 63)


cdef inline Point bound_point(const IntervalIndex *index, const Bound *bound) noexcept nogil:
    CHECK(bound.slot < index.capacity)
    CHECK(bound.nth < index.intervals[bound.slot].count)
    return index.intervals[bound.slot].points[bound.nth]


cdef inline int bound_order(
    const IntervalIndex *index, const Bound *bound, const Point *point
) noexcept nogil:
    """As compare(); the bound's own point is looked up only if the keys are equal."""
    cdef Point own
    if bound.key != point.key:
        return 1 if bound.key > point.key else -1
    if bound.key < STRINGS_START:
        return 0
    own = bound_point(index, bound)
    return compare(&own, point)


cdef inline uint32_t bucket_of(const IntervalIndex *index, const Point *point) noexcept nogil:
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

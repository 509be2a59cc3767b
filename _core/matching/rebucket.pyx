"""Rebuild of an interval index's buckets, with about equally many bounds each.

Points with many bounds become first points of buckets: there the row includes the bounds, and they
cost a search nothing. So does the end of all numbers, where every "greater than" interval ends.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from _core.matching.index cimport (
    MAX_ROWS,
    Bound,
    Bucket,
    bound_order,
    bound_point,
    bucket_of,
    free_blocks,
    free_buckets,
    new_blocks,
    flip,
)
from _core.matching.intervals cimport Point, compare, point_copy

cdef enum:
    SPARE = 4                 # room in a bucket for so many more, and a quarter

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil


cdef uint32_t most_rows(const IntervalIndex *index) noexcept nogil:
    """Maximum number of rows. A row has a bit for every slot, so sparse indexes get fewer rows."""
    cdef uint64_t slots = <uint64_t>index.blocks * index.block_words * 64
    cdef uint64_t paid = MAX_ROWS * index.users // max(slots, <uint64_t>1)
    return <uint32_t>max(min(paid, index.bounds // BOUNDS_A_ROW), <uint64_t>1)


cdef void index_cut(IntervalIndex *index) noexcept nogil:
    """New buckets with about as many bounds each, and their rows."""
    cdef Bound *all = <Bound *>malloc(max(index.bounds, <uint64_t>1) * sizeof(Bound))
    cdef uint64_t *starts = <uint64_t *>malloc((MAX_ROWS + 1) * sizeof(uint64_t))
    cdef uint32_t rows
    if all != NULL and starts != NULL:
        _gather(index, all, starts)
        rows = _choose(index, all, starts)
        _rebuild(index, all, starts, rows)
        index.built = index.bounds
    free(all)
    free(starts)


cdef void _gather(const IntervalIndex *index, Bound *all, uint64_t *starts) noexcept nogil:
    """All bounds in order; those at first points, which no bucket keeps, from the intervals."""
    cdef uint64_t at = 0
    cdef uint32_t r, slot, nth
    cdef const Point *point
    for r in range(index.rows):
        starts[r] = at
        at += index.buckets[r].at_first
        memcpy(all + at, index.buckets[r].bounds, index.buckets[r].count * sizeof(Bound))
        at += index.buckets[r].count
    CHECK(at == index.bounds)
    for slot in range(index.capacity):
        for nth in range(index.intervals[slot].count):
            point = &index.intervals[slot].points[nth]
            r = bucket_of(index, point)
            if compare(&index.buckets[r].first, point) == 0:
                all[starts[r]] = Bound(point.key, slot, nth)
                starts[r] += 1


cdef uint64_t _run_end(const IntervalIndex *index, const Bound *all, uint64_t i) noexcept nogil:
    """The end of the run of bounds that are at the point of number i."""
    cdef Point point = bound_point(index, &all[i])
    i += 1
    while i < index.bounds and bound_order(index, &all[i], &point) == 0:
        i += 1
    return i


cdef uint32_t _choose(
    const IntervalIndex *index, const Bound *all, uint64_t *starts
) noexcept nogil:
    """Choose the bounds that begin a bucket (indices in `all`), besides the first; returns the
    number of buckets."""
    cdef uint64_t most = most_rows(index)
    cdef uint64_t share = (index.bounds + most - 1) // most
    cdef uint64_t heavy = 0, heavy_points = 0, inside = 0, i = 0, end
    cdef uint32_t rows = 1
    while i < index.bounds:
        end = _run_end(index, all, i)
        if end - i > share:
            heavy += end - i
            heavy_points += 1
        i = end
    # Points with many bounds begin a bucket each and leave the rest of the rows to the others.
    if heavy_points < most:
        share = (index.bounds - heavy + most - heavy_points - 1) // (most - heavy_points)
    i = index.buckets[0].at_first  # the start of the line begins a bucket anyway
    while i < index.bounds and rows < most:
        end = _run_end(index, all, i)
        inside += end - i
        if inside > share:
            starts[rows] = i
            rows += 1
            inside = 0
        i = end
    return rows


cdef void _rebuild(
    IntervalIndex *index, const Bound *all, const uint64_t *starts, uint32_t rows
) noexcept nogil:
    cdef Bucket *buckets = <Bucket *>calloc(rows, sizeof(Bucket))
    cdef uint64_t *keys = <uint64_t *>malloc(rows * sizeof(uint64_t))
    cdef uint64_t **bits = new_blocks(index.blocks, rows, index.block_words)
    cdef uint64_t *state = <uint64_t *>calloc(
        index.blocks * index.block_words, sizeof(uint64_t)
    )
    cdef uint64_t **old_bits
    cdef Bucket *old_buckets
    cdef uint32_t old_rows = index.rows
    if (
        buckets == NULL
        or keys == NULL
        or bits == NULL
        or state == NULL
        or not _fill(index, buckets, all, starts, rows)
    ):
        free_buckets(buckets, rows)
        free_blocks(bits, index.blocks)
        free(keys)
        free(state)
        return
    old_bits = index.bits
    old_buckets = index.buckets
    free(index.keys)
    index.buckets = buckets
    index.keys = keys
    index.bits = bits
    index.rows = rows
    _write_rows(index, all, state)
    free(state)
    free_blocks(old_bits, index.blocks)
    free_buckets(old_buckets, old_rows)


cdef bint _fill(
    const IntervalIndex *index,
    Bucket *buckets,
    const Bound *all,
    const uint64_t *starts,
    uint32_t rows,
) noexcept nogil:
    """Give each new bucket its first point and its bounds; False if memory ran out."""
    cdef uint64_t start, inside, end
    cdef uint32_t r
    cdef Point first
    cdef Bucket *bucket
    for r in range(rows):
        start = starts[r] if r else 0
        end = starts[r + 1] if r + 1 < rows else index.bounds
        bucket = &buckets[r]
        first = bound_point(index, &all[start]) if r else index.buckets[0].first
        if not point_copy(&bucket.first, &first):
            return False
        inside = start
        while inside < end and bound_order(index, &all[inside], &first) == 0:
            inside += 1
        bucket.at_first = <uint32_t>(inside - start)
        bucket.count = <uint32_t>(end - inside)
        bucket.capacity = bucket.count + (bucket.count >> 2) + SPARE
        bucket.bounds = <Bound *>malloc(bucket.capacity * sizeof(Bound))
        if bucket.bounds == NULL:
            return False
        memcpy(bucket.bounds, all + inside, bucket.count * sizeof(Bound))
    return True


cdef void _write_rows(IntervalIndex *index, const Bound *all, uint64_t *state) noexcept nogil:
    """Write the rows in one pass over the line; `state` has the slots that hold, initially none."""
    cdef uint32_t r, i, block
    cdef Bucket *bucket
    for r in range(index.rows):
        bucket = &index.buckets[r]
        index.keys[r] = bucket.first.key
        for i in range(bucket.at_first):
            flip(state, all[i].slot)
        for block in range(index.blocks):
            memcpy(
                index.bits[block] + <size_t>r * index.block_words,
                state + <size_t>block * index.block_words,
                index.block_words * sizeof(uint64_t),
            )
        all += bucket.at_first
        for i in range(bucket.count):
            flip(state, all[i].slot)
        all += bucket.count

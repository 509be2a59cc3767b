"""Which of many conjunctions hold for a value of one attribute: an index of their spans.

Buckets are cut anew, so that all have about as many bounds, when there are twice as many bounds as
at the last time, or as many changes. Points where many bounds are become firsts of buckets: there
the row has taken them in, and they cost a search nothing. So does the point where all numbers end,
up to which everything above something holds.

Bounds of a bucket are an ordinary sorted array: adding one moves half of them, which at a million
conjunctions is some 60 KB and still less than what else an insertion does.
"""

from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from _core.spans cimport FALSE_KEY, STRINGS_START, compare, point_copy, spans_free

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    BOUNDS_A_ROW = 8          # while there are few: less would make rows dearer than bounds
    FEW_CHANGES = 64          # not worth cutting buckets for
    FIRST_BOUNDS = 4          # room in a new bucket
    FIRST_SLOTS = 4
    FULL = 8                  # times the bounds that buckets had when they were cut


cdef inline void _turn(uint64_t *row, uint32_t slot) noexcept nogil:
    row[slot >> 6] ^= <uint64_t>1 << (slot & 63)


cdef inline Point _point(const Column *c, const Bound *bound) noexcept nogil:
    CHECK(bound.slot < c.capacity)
    CHECK(bound.nth < c.spans[bound.slot].count)
    return c.spans[bound.slot].points[bound.nth]


cdef inline int _order(const Column *c, const Bound *bound, const Point *point) noexcept nogil:
    """As compare(); the bound's own point is only looked up where the keys do not decide."""
    cdef Point own
    if bound.key != point.key:
        return 1 if bound.key > point.key else -1
    if bound.key < STRINGS_START:
        return 0
    own = _point(c, bound)
    return compare(&own, point)


cdef int column_init(Column *c) noexcept nogil:
    memset(c, 0, sizeof(Column))
    c.buckets = <Bucket *>calloc(1, sizeof(Bucket))
    c.keys = <uint64_t *>malloc(sizeof(uint64_t))
    if c.buckets == NULL or c.keys == NULL:
        column_free(c)
        return -1
    c.rows = 1
    c.buckets[0].first.key = FALSE_KEY
    c.keys[0] = FALSE_KEY
    return 0


cdef void _free_buckets(Bucket *buckets, uint32_t rows) noexcept nogil:
    cdef uint32_t r
    if buckets == NULL:
        return
    for r in range(rows):
        free(<void *>buckets[r].first.text)
        free(buckets[r].bounds)
    free(buckets)


cdef void _free_blocks(uint64_t **bits, uint32_t blocks) noexcept nogil:
    cdef uint32_t b
    if bits == NULL:
        return
    for b in range(blocks):
        free(bits[b])
    free(bits)


cdef void column_free(Column *c) noexcept nogil:
    cdef uint32_t slot
    for slot in range(c.capacity):
        spans_free(&c.spans[slot])
    free(c.spans)
    _free_buckets(c.buckets, c.rows)
    _free_blocks(c.bits, c.blocks)
    free(c.keys)
    memset(c, 0, sizeof(Column))


# Room for slots.

cdef uint64_t **_new_blocks(uint32_t blocks, uint32_t rows, uint32_t words) noexcept nogil:
    """So many blocks of zeros; NULL if memory ran out."""
    cdef uint64_t **bits = <uint64_t **>calloc(blocks, sizeof(uint64_t *))
    cdef uint32_t b
    if bits == NULL:
        return NULL
    for b in range(blocks):
        bits[b] = <uint64_t *>calloc(<size_t>rows * words, sizeof(uint64_t))
        if bits[b] == NULL:
            _free_blocks(bits, blocks)
            return NULL
    return bits


cdef int _widen(Column *c, uint32_t words) noexcept nogil:
    """A single block with rows of so many words."""
    cdef uint64_t **bits = _new_blocks(1, c.rows, words)
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
    _free_blocks(c.bits, c.blocks)
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


cdef int column_reserve(Column *c, uint32_t slots) noexcept nogil:
    cdef uint32_t capacity = c.capacity
    cdef void *memory
    cdef int failed
    while c.blocks * c.block_words * 64 < slots:
        if c.block_words < BLOCK_WORDS:
            failed = _widen(c, max(2 * c.block_words, 1))
        else:
            failed = _append_block(c)
        if failed:
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
    return 0


# Finding.

cdef inline uint32_t _bucket_of(const Column *c, const Point *point) noexcept nogil:
    """The last bucket whose first point is not after `point`."""
    cdef uint32_t low = 0, size = c.rows, half
    cdef const uint64_t *keys = c.keys
    if point.key < STRINGS_START:
        while size > 1:
            half = size >> 1
            low += half * (keys[low + half] <= point.key)  # without a branch
            size -= half
        return low
    while size > 1:
        half = size >> 1
        if compare(&c.buckets[low + half].first, point) <= 0:
            low += half
        size -= half
    return low


cdef inline uint32_t _up_to(const Column *c, const Bucket *bucket, const Point *point) noexcept nogil:
    """How many of a bucket's bounds are at `point` or before it."""
    cdef uint32_t low = 0, size = bucket.count, half
    while size > 0:
        half = size >> 1
        if _order(c, &bucket.bounds[low + half], point) <= 0:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low


cdef inline uint32_t _before(const Column *c, const Bucket *bucket, const Point *point) noexcept nogil:
    """How many of a bucket's bounds are before `point`."""
    cdef uint32_t low = 0, size = bucket.count, half
    while size > 0:
        half = size >> 1
        if _order(c, &bucket.bounds[low + half], point) < 0:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low


cdef void column_at(const Column *c, const Point *point, uint64_t *out, uint32_t words) noexcept nogil:
    cdef uint32_t row = _bucket_of(c, point)
    cdef const Bucket *bucket = &c.buckets[row]
    cdef uint32_t i, block, first, size
    for block in range(c.blocks):
        first = block * c.block_words
        if first >= words:
            break
        size = min(c.block_words, words - first)
        memcpy(
            out + first,
            c.bits[block] + <size_t>row * c.block_words,
            size * sizeof(uint64_t),
        )
    for i in range(_up_to(c, bucket, point)):
        CHECK(bucket.bounds[i].slot < words * 64)
        _turn(out, bucket.bounds[i].slot)


cdef void column_meeting(
    const Column *c, const Spans *spans, uint64_t *out, uint32_t words
) noexcept nogil:
    """Who contains the first point of a span, and who begins or ends before its end."""
    cdef uint32_t i, row, last, w
    cdef uint64_t *here = NULL
    for i in range(words):
        out[i] = 0
    for i in range(0, spans.count, 2):
        here = out + words  # the caller's, too: see the declaration
        column_at(c, &spans.points[i], here, words)
        for w in range(words):
            out[w] |= here[w]
        row = _bucket_of(c, &spans.points[i])
        last = _bucket_of(c, &spans.points[i + 1])
        _mark(c, row, last, &spans.points[i], &spans.points[i + 1], out, words)


cdef void _mark(
    const Column *c,
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
        bucket = &c.buckets[r]
        start = _up_to(c, bucket, first) if r == row else 0
        stop = _before(c, bucket, end) if r == last else bucket.count
        for i in range(start, stop):
            out[bucket.bounds[i].slot >> 6] |= <uint64_t>1 << (bucket.bounds[i].slot & 63)
        if r > row and compare(&bucket.first, end) < 0:
            _mark_row(c, r, out, words)


cdef void _mark_row(const Column *c, uint32_t row, uint64_t *out, uint32_t words) noexcept nogil:
    """Set the bits of a row, which has those who begin at its bucket's first point."""
    cdef uint32_t w
    for w in range(words):
        out[w] |= c.bits[w // c.block_words][<size_t>row * c.block_words + w % c.block_words]


# Changing.

cdef int _make_room(Column *c, const Point *point, uint32_t more) noexcept nogil:
    """Room for so many bounds in the bucket of a point."""
    cdef Bucket *bucket = &c.buckets[_bucket_of(c, point)]
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
    cdef uint32_t row = _bucket_of(c, point)
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
        order = _order(c, &bucket.bounds[low + half], point)
        if order < 0 or (order == 0 and bucket.bounds[low + half].slot < slot):
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low


cdef uint32_t _add_bound(Column *c, uint32_t slot, uint32_t nth) noexcept nogil:
    """How many bounds its bucket has now."""
    cdef const Point *point = &c.spans[slot].points[nth]
    cdef Bucket *bucket = &c.buckets[_bucket_of(c, point)]
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
    cdef Bucket *bucket = &c.buckets[_bucket_of(c, point)]
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
    c.bounds -= count
    spans_free(spans)
    _changed(c, count, 0)


# Cutting buckets.

cdef void _changed(Column *c, uint32_t bounds, uint32_t fullest) noexcept nogil:
    """Count changes; `fullest` is the size of a bucket that has grown."""
    cdef bint uneven = fullest > FULL * (c.built // c.rows + BOUNDS_A_ROW)
    c.changes += bounds
    if c.changes > FEW_CHANGES and c.changes > (c.built >> 3 if uneven else c.built):
        c.changes = 0
        _cut(c)  # without memory for it all goes on as it is


cdef void _cut(Column *c) noexcept nogil:
    """New buckets with about as many bounds each, and their rows."""
    cdef Bound *all = <Bound *>malloc(max(c.bounds, <uint64_t>1) * sizeof(Bound))
    cdef uint64_t *starts = <uint64_t *>malloc((MOST_ROWS + 1) * sizeof(uint64_t))
    cdef uint32_t rows
    if all != NULL and starts != NULL:
        _gather(c, all, starts)
        rows = _choose(c, all, starts)
        _rebuild(c, all, starts, rows)
        c.built = c.bounds
    free(all)
    free(starts)


cdef void _gather(const Column *c, Bound *all, uint64_t *starts) noexcept nogil:
    """All bounds in order; those at first points, which no bucket keeps, from the spans."""
    cdef uint64_t at = 0
    cdef uint32_t r, slot, nth
    cdef const Point *point
    for r in range(c.rows):
        starts[r] = at
        at += c.buckets[r].at_first
        memcpy(all + at, c.buckets[r].bounds, c.buckets[r].count * sizeof(Bound))
        at += c.buckets[r].count
    CHECK(at == c.bounds)
    for slot in range(c.capacity):
        for nth in range(c.spans[slot].count):
            point = &c.spans[slot].points[nth]
            r = _bucket_of(c, point)
            if compare(&c.buckets[r].first, point) == 0:
                all[starts[r]] = Bound(point.key, slot, nth)
                starts[r] += 1


cdef uint64_t _run_end(const Column *c, const Bound *all, uint64_t i) noexcept nogil:
    """The end of the run of bounds that are at the point of number i."""
    cdef Point point = _point(c, &all[i])
    i += 1
    while i < c.bounds and _order(c, &all[i], &point) == 0:
        i += 1
    return i


cdef uint32_t _choose(const Column *c, const Bound *all, uint64_t *starts) noexcept nogil:
    """Which bounds begin a bucket (numbers in `all`), beside the first one; how many buckets."""
    cdef uint64_t most = min(max(c.bounds // BOUNDS_A_ROW, <uint64_t>1), <uint64_t>MOST_ROWS)
    cdef uint64_t share = (c.bounds + most - 1) // most
    cdef uint64_t heavy = 0, heavy_points = 0, inside = 0, i = 0, end
    cdef uint32_t rows = 1
    while i < c.bounds:
        end = _run_end(c, all, i)
        if end - i > share:
            heavy += end - i
            heavy_points += 1
        i = end
    # Points with many bounds begin a bucket each and leave the rest of the rows to the others.
    if heavy_points < most:
        share = (c.bounds - heavy + most - heavy_points - 1) // (most - heavy_points)
    i = c.buckets[0].at_first  # the start of the line begins a bucket anyway
    while i < c.bounds and rows < most:
        end = _run_end(c, all, i)
        inside += end - i
        if inside > share:
            starts[rows] = i
            rows += 1
            inside = 0
        i = end
    return rows


cdef void _rebuild(Column *c, const Bound *all, const uint64_t *starts, uint32_t rows) noexcept nogil:
    cdef Bucket *buckets = <Bucket *>calloc(rows, sizeof(Bucket))
    cdef uint64_t *keys = <uint64_t *>malloc(rows * sizeof(uint64_t))
    cdef uint64_t **bits = _new_blocks(c.blocks, rows, c.block_words)
    cdef uint64_t *state = <uint64_t *>calloc(
        c.blocks * c.block_words, sizeof(uint64_t)
    )
    cdef uint64_t **old_bits
    cdef Bucket *old_buckets
    cdef uint32_t old_rows = c.rows
    if (
        buckets == NULL
        or keys == NULL
        or bits == NULL
        or state == NULL
        or not _fill(c, buckets, all, starts, rows)
    ):
        _free_buckets(buckets, rows)
        _free_blocks(bits, c.blocks)
        free(keys)
        free(state)
        return
    old_bits = c.bits
    old_buckets = c.buckets
    free(c.keys)
    c.buckets = buckets
    c.keys = keys
    c.bits = bits
    c.rows = rows
    _write_rows(c, all, state)
    free(state)
    _free_blocks(old_bits, c.blocks)
    _free_buckets(old_buckets, old_rows)


cdef bint _fill(
    const Column *c, Bucket *buckets, const Bound *all, const uint64_t *starts, uint32_t rows
) noexcept nogil:
    """Give each new bucket its first point and its bounds; False if memory ran out."""
    cdef uint64_t start, inside, end
    cdef uint32_t r
    cdef Point first
    cdef Bucket *bucket
    for r in range(rows):
        start = starts[r] if r else 0
        end = starts[r + 1] if r + 1 < rows else c.bounds
        bucket = &buckets[r]
        first = _point(c, &all[start]) if r else c.buckets[0].first
        if not point_copy(&bucket.first, &first):
            return False
        inside = start
        while inside < end and _order(c, &all[inside], &first) == 0:
            inside += 1
        bucket.at_first = <uint32_t>(inside - start)
        bucket.count = <uint32_t>(end - inside)
        bucket.capacity = bucket.count + (bucket.count >> 2) + FIRST_BOUNDS
        bucket.bounds = <Bound *>malloc(bucket.capacity * sizeof(Bound))
        if bucket.bounds == NULL:
            return False
        memcpy(bucket.bounds, all + inside, bucket.count * sizeof(Bound))
    return True


cdef void _write_rows(Column *c, const Bound *all, uint64_t *state) noexcept nogil:
    """Go along the line once; `state` is who holds, at first nobody."""
    cdef uint32_t r, i, block
    cdef Bucket *bucket
    for r in range(c.rows):
        bucket = &c.buckets[r]
        c.keys[r] = bucket.first.key
        for i in range(bucket.at_first):
            _turn(state, all[i].slot)
        for block in range(c.blocks):
            memcpy(
                c.bits[block] + <size_t>r * c.block_words,
                state + <size_t>block * c.block_words,
                c.block_words * sizeof(uint64_t),
            )
        all += bucket.at_first
        for i in range(bucket.count):
            _turn(state, all[i].slot)
        all += bucket.count

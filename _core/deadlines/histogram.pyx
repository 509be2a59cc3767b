"""Moving-window histogram of response times in logarithmic buckets.

1,024 buckets from 10 µs to 600 s, each 1.0176 times the previous one. A sample counts as the
geometric mean of its bucket, which is within 0.88 % of it. The window is limited by count and by
age; ages have a resolution of 1 ms.
"""

from libc.math cimport exp, floor, isfinite, isnan, log, sqrt
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

BUCKETS = BUCKET_COUNT
MIN_S = 10e-6
MAX_S = 600.0

cdef enum:
    FIRST_CAPACITY = 16

cdef double LOW = 10e-6
cdef double HIGH = 600.0
cdef double BUCKETS_PER_E = BUCKET_COUNT / log(HIGH / LOW)

cdef double[BUCKET_COUNT + 1] _edges
cdef double[BUCKET_COUNT] _middles
bucket_edges = _edges
bucket_middles = _middles


cdef void _fill_tables() noexcept:
    cdef int i
    for i in range(BUCKET_COUNT + 1):
        _edges[i] = LOW * exp(i / BUCKETS_PER_E)
    _edges[0] = LOW
    _edges[BUCKET_COUNT] = HIGH
    for i in range(BUCKET_COUNT):
        _middles[i] = sqrt(_edges[i] * _edges[i + 1])


_fill_tables()


cdef bint is_finite(double value) noexcept nogil:
    return isfinite(value)


cdef int64_t milliseconds(double now_s) except? -1:
    cdef double ms = floor(now_s * 1000.0)
    if not (-4503599627370496.0 <= ms <= 4503599627370496.0):
        raise ValueError(f"time {now_s!r} s is not a time")
    return <int64_t>ms


cdef int bucket_index(double value_s) noexcept nogil:
    cdef int i
    if value_s <= LOW:
        return 0
    if value_s >= HIGH:
        return BUCKET_COUNT - 1
    i = <int>(log(value_s / LOW) * BUCKETS_PER_E)
    if i > BUCKET_COUNT - 1:
        i = BUCKET_COUNT - 1
    # The table decides at the edges, so that bucket_bounds() holds exactly.
    if value_s < _edges[i]:
        i -= 1
    elif value_s >= _edges[i + 1]:
        i += 1
    CHECK(0 <= i)
    CHECK(i < BUCKET_COUNT)
    return i


cdef int histogram_init(Histogram *h, uint32_t max_count, int64_t max_age_ms) noexcept nogil:
    memset(h, 0, sizeof(Histogram))
    h.max_count = max_count
    h.max_age_ms = max_age_ms
    h.now_ms = -9007199254740992  # before any time that `milliseconds` gives
    h.counts = <uint32_t *>calloc(BUCKET_COUNT, sizeof(uint32_t))
    return 0 if h.counts != NULL else -1


cdef void histogram_free(Histogram *h) noexcept nogil:
    free(h.counts)
    free(h.ring_bucket)
    free(h.ring_ms)
    memset(h, 0, sizeof(Histogram))


cdef void histogram_advance(Histogram *h, int64_t now_ms) noexcept nogil:
    cdef uint32_t newest
    if now_ms <= h.now_ms:
        return
    if h.count > 0:
        # Ring times are modulo 2**32. They stay comparable because no age may pass 2**31 there: if
        # the newest sample is too old by now, all are, and all get the oldest time still due.
        newest = (h.head + h.count - 1) % h.capacity
        CHECK(newest < h.capacity)
        if now_ms - h.now_ms + <uint32_t>(<uint32_t>h.now_ms - h.ring_ms[newest]) > h.max_age_ms:
            _age_all(h, <uint32_t>now_ms - <uint32_t>h.max_age_ms - 1)
    h.now_ms = now_ms


cdef void _age_all(Histogram *h, uint32_t time_ms) noexcept nogil:
    cdef uint32_t i
    for i in range(h.capacity):
        h.ring_ms[i] = time_ms


cdef int histogram_drop_one(Histogram *h) noexcept nogil:
    cdef int bucket
    if h.count == 0:
        return -1
    CHECK(h.head < h.capacity)
    bucket = h.ring_bucket[h.head]
    CHECK(bucket < BUCKET_COUNT)
    CHECK(h.counts[bucket] > 0)
    h.counts[bucket] -= 1
    h.head += 1
    if h.head == h.capacity:
        h.head = 0
    h.count -= 1
    h.version += 1
    return bucket


cdef int histogram_expire_one(Histogram *h) noexcept nogil:
    if h.count == 0:
        return -1
    CHECK(h.head < h.capacity)
    if <uint32_t>(<uint32_t>h.now_ms - h.ring_ms[h.head]) <= h.max_age_ms:
        return -1
    return histogram_drop_one(h)


cdef int _grow(Histogram *h) noexcept nogil:
    """Give a full ring about twice the room, its oldest sample moved to index 0. 0, or -1."""
    cdef uint32_t capacity = FIRST_CAPACITY if h.capacity == 0 else h.capacity * 2
    cdef uint32_t tail = h.capacity - h.head
    if capacity > h.max_count or capacity < h.capacity:
        capacity = h.max_count
    cdef uint16_t *buckets = <uint16_t *>malloc(capacity * sizeof(uint16_t))
    cdef uint32_t *times = <uint32_t *>malloc(capacity * sizeof(uint32_t))
    if buckets == NULL or times == NULL:
        free(buckets)
        free(times)
        return -1
    if h.capacity > 0:
        memcpy(buckets, h.ring_bucket + h.head, tail * sizeof(uint16_t))
        memcpy(buckets + tail, h.ring_bucket, h.head * sizeof(uint16_t))
        memcpy(times, h.ring_ms + h.head, tail * sizeof(uint32_t))
        memcpy(times + tail, h.ring_ms, h.head * sizeof(uint32_t))
    free(h.ring_bucket)
    free(h.ring_ms)
    h.ring_bucket = buckets
    h.ring_ms = times
    h.capacity = capacity
    h.head = 0
    return 0


cdef int histogram_add(Histogram *h, int bucket) noexcept nogil:
    cdef uint32_t place
    CHECK(0 <= bucket)
    CHECK(bucket < BUCKET_COUNT)
    CHECK(h.count < h.max_count)
    if h.count == h.capacity and _grow(h) != 0:
        return -1
    place = h.head + h.count
    if place >= h.capacity:
        place -= h.capacity
    CHECK(place < h.capacity)
    h.ring_bucket[place] = <uint16_t>bucket
    h.ring_ms[place] = <uint32_t>h.now_ms
    h.counts[bucket] += 1
    h.count += 1
    h.version += 1
    return 0


cdef int checked_bucket(Histogram *h, double value_s) except -1:
    if not (0.0 <= value_s <= 1.7976931348623157e308):
        raise ValueError(f"response time {value_s!r} s is negative or not finite")
    if value_s < LOW or value_s > HIGH:
        h.clamped += 1
    return bucket_index(value_s)


def bucket_of(double value_s):
    """The index of the bucket that `value_s` (seconds) falls into, clamped to the range. O(1).

    ValueError for a negative or non-finite value.
    """
    cdef Histogram scratch  # only counts the clamped
    scratch.clamped = 0
    return checked_bucket(&scratch, value_s)


def bucket_bounds(int i):
    """The bounds (low, high) of bucket `i`, in seconds: low <= value < high. IndexError."""
    if not 0 <= i < BUCKET_COUNT:
        raise IndexError(f"bucket {i} is not in 0..{BUCKET_COUNT - 1}")
    return _edges[i], _edges[i + 1]


cdef class ResponseHistogram:
    """Response times of the last `max_age_s` seconds, at most the last `max_count` of them.

    `now_s` is on any single clock; a time that goes back counts as the latest one. Memory: 4 KiB
    plus 6 bytes per sample, allocated as samples arrive.
    """

    def __cinit__(self, max_count=10_000, double max_age_s=600.0):
        check_window(max_count, max_age_s)
        if histogram_init(&self.h, max_count, <int64_t>(max_age_s * 1000.0)) != 0:
            raise MemoryError

    def __dealloc__(self):
        histogram_free(&self.h)

    @property
    def count(self):
        """Samples in the window."""
        return self.h.count

    @property
    def version(self):
        """A number that increases with every sample added or removed."""
        return self.h.version

    @property
    def clamped(self):
        """Total number of samples outside 10 µs to 600 s; they count in the nearest bucket."""
        return self.h.clamped

    def insert(self, double value_s, double now_s):
        """Add a sample (seconds) at `now_s`, and drop samples that left the window by then.

        ValueError for a negative or non-finite value or time, nothing changed. Amortised O(1).
        """
        cdef int64_t now_ms = milliseconds(now_s)
        cdef int bucket = checked_bucket(&self.h, value_s)
        histogram_advance(&self.h, now_ms)
        while histogram_expire_one(&self.h) >= 0:
            pass
        if self.h.count == self.h.max_count:
            histogram_drop_one(&self.h)
        if histogram_add(&self.h, bucket) != 0:
            raise MemoryError

    def expire(self, double now_s):
        """Drop the samples older than the window's age at `now_s`; returns their number. Amortised
        O(1)."""
        cdef uint32_t before = self.h.count
        histogram_advance(&self.h, milliseconds(now_s))
        while histogram_expire_one(&self.h) >= 0:
            pass
        return before - self.h.count

    def mean(self):
        """The mean in seconds, within 1 %. ValueError if empty. O(BUCKETS)."""
        cdef double total = 0.0
        cdef int i
        _not_empty(&self.h)
        for i in range(BUCKET_COUNT):
            total += self.h.counts[i] * _middles[i]
        return total / self.h.count

    def quantile(self, double p):
        """The smallest sample with at least the share `p` (0..1) at or below it, within 1 %.

        In seconds. ValueError if empty or `p` is out of range. O(BUCKETS).
        """
        cdef double below = 0.0
        cdef double wanted
        cdef int i
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"p = {p!r} is not in 0..1")
        _not_empty(&self.h)
        wanted = max(p * self.h.count, 1.0)
        for i in range(BUCKET_COUNT):
            below += self.h.counts[i]
            if below >= wanted:
                return _middles[i]
        return _middles[BUCKET_COUNT - 1]

    def cdf(self, double t_s):
        """The share of samples at or below `t_s` seconds; 0 if the window is empty. O(BUCKETS).

        Exact at the bounds of buckets; inside one the samples count as spread evenly over log t.
        """
        cdef double below = 0.0
        cdef int bucket
        cdef int i
        if isnan(t_s):
            raise ValueError("time is NaN")
        if self.h.count == 0 or t_s < LOW:
            return 0.0
        if t_s >= HIGH:
            return 1.0
        bucket = bucket_index(t_s)
        for i in range(bucket):
            below += self.h.counts[i]
        below += self.h.counts[bucket] * log(t_s / _edges[bucket]) * BUCKETS_PER_E
        return min(below / self.h.count, 1.0)

    def counts(self):
        """Samples in each bucket, a list of BUCKETS numbers."""
        cdef int i
        return [self.h.counts[i] for i in range(BUCKET_COUNT)]


cdef int _not_empty(const Histogram *h) except -1:
    if h.count == 0:
        raise ValueError("the window is empty")
    return 0


cdef int check_window(object max_count, double max_age_s) except -1:
    if not 1 <= max_count <= 0x7FFFFFFF:
        raise ValueError(f"max_count = {max_count!r} is not in 1..{0x7FFFFFFF}")
    if not 0.001 <= max_age_s <= 2_000_000.0:  # ages must fit twice into 32 bits of ms
        raise ValueError(f"max_age_s = {max_age_s!r} is not in 0.001..2000000")
    return 0

"""Statistics of readings in buckets of equal length; the GIL is released meanwhile."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.float cimport FLT_MAX
from libc.math cimport NAN, fabs, fabsf
from libc.stdint cimport UINT32_MAX, uint32_t
from libc.stdlib cimport calloc, free

from _core.columns.series cimport little_endian_at

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

# Times are milliseconds of fewer bits, so that no difference overflows.
cdef int64_t FARTHEST_MS = <int64_t>1 << 60


cdef inline bint is_there(float value) noexcept nogil:
    # NaN compares unequal to everything, itself included.
    return fabsf(value) <= FLT_MAX


cdef inline void accumulate(
    Bucket *bucket, uint64_t count, float low, float high, double total
) noexcept nogil:
    cdef double summed
    if bucket.count == 0:
        bucket.low = low
        bucket.high = high
    else:
        if low < bucket.low:
            bucket.low = low
        if high > bucket.high:
            bucket.high = high
    bucket.count += count
    summed = bucket.total + total
    if fabs(bucket.total) >= fabs(total):
        bucket.lost += (bucket.total - summed) + total
    else:
        bucket.lost += (total - summed) + bucket.total
    bucket.total = summed


cdef void add_readings(
    Bucket *buckets, size_t buckets_count, int64_t start_ms, int64_t length_ms,
    const char *times, const float *values, const uint8_t *flags, uint8_t bad, bint gaps_are_bad,
    size_t count,
) noexcept nogil:
    cdef int64_t end_ms = start_ms + <int64_t>buckets_count * length_ms
    cdef int64_t time_ms
    cdef int64_t from_ms = 0, to_ms = 0
    cdef Bucket *bucket = NULL
    cdef size_t i
    for i in range(count):
        time_ms = little_endian_at(times, i)
        if time_ms < start_ms or time_ms >= end_ms:
            continue
        if not from_ms <= time_ms < to_ms:
            CHECK(<size_t>((time_ms - start_ms) // length_ms) < buckets_count)
            bucket = &buckets[(time_ms - start_ms) // length_ms]
            from_ms = start_ms + (time_ms - start_ms) // length_ms * length_ms
            to_ms = from_ms + length_ms
        if flags != NULL and flags[i] & bad:
            bucket.bad += 1
        elif not is_there(values[i]):
            bucket.bad += gaps_are_bad
        else:
            accumulate(bucket, 1, values[i], values[i], values[i])
            bucket.suspect += flags != NULL and flags[i] != 0


cdef inline uint32_t narrow(uint64_t number) noexcept nogil:
    return <uint32_t>number if number < UINT32_MAX else UINT32_MAX


cdef class BucketSums:
    """Minimum, mean, maximum and counts of one channel in `count` buckets of `length_ms`, of which
    the first begins at `start_ms`. Readings are added in any order; those outside are left out."""

    def __cinit__(self, int64_t start_ms, int64_t length_ms, size_t count):
        if count < 1 or length_ms < 1 or length_ms > FARTHEST_MS // <int64_t>count:
            raise ValueError(f"{count} buckets of {length_ms} ms")
        if not -FARTHEST_MS < start_ms < FARTHEST_MS:
            raise ValueError(f"buckets from {start_ms} ms on")
        self.start_ms = start_ms
        self.length_ms = length_ms
        self.count = count
        self._buckets = <Bucket *>calloc(count, sizeof(Bucket))
        if self._buckets == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._buckets)

    def add(
        self, bytes times not None, bytes values not None, bytes flags, uint8_t bad,
        *, bint gaps_are_bad
    ):
        """Add readings: `times` are signed 64-bit numbers, little-endian; `values` and `flags` as
        in `series.summary`. A value that is missing without a flag counts as bad if `gaps_are_bad`;
        otherwise it is another sensor's reading. ValueError if their lengths differ. O(n)."""
        cdef size_t count = <size_t>PyBytes_GET_SIZE(times) // 8
        cdef const uint8_t *marks = NULL
        if <size_t>PyBytes_GET_SIZE(values) != 4 * count:
            raise ValueError("not as many values as times")
        if flags is not None:
            if <size_t>PyBytes_GET_SIZE(flags) != count:
                raise ValueError("not as many flags as values")
            marks = <const uint8_t *>PyBytes_AS_STRING(flags)
        cdef const char *when = PyBytes_AS_STRING(times)
        cdef const float *items = <const float *>PyBytes_AS_STRING(values)
        with nogil:
            add_readings(
                self._buckets, self.count, self.start_ms, self.length_ms,
                when, items, marks, bad, gaps_are_bad, count,
            )

    def add_total(
        self, int64_t time_ms, uint64_t count, double low, double high, double total,
        uint64_t bad, uint64_t suspect,
    ):
        """Add `count` values of the bucket of `time_ms` whose statistics are known. O(1)."""
        cdef int64_t end_ms = self.start_ms + <int64_t>self.count * self.length_ms
        if not self.start_ms <= time_ms < end_ms:
            return
        cdef Bucket *bucket = &self._buckets[(time_ms - self.start_ms) // self.length_ms]
        bucket.bad += bad
        if count:
            accumulate(bucket, count, <float>low, <float>high, total)
            bucket.suspect += suspect

    def add_buckets(
        self, int64_t start_ms, bytes counts not None, bytes lows not None, bytes means not None,
        bytes highs not None, bytes bads, bytes suspects,
    ):
        """Add buckets of the same length, of which the first begins at `start_ms`, as `columns`
        gives them. Those outside are left out, and those that state no numbers for their values.
        ValueError if their lengths differ. O(buckets)."""
        cdef size_t count = <size_t>PyBytes_GET_SIZE(counts) // 4
        cdef bytes column
        for column in (lows, means, highs, bads, suspects):
            if column is not None and <size_t>PyBytes_GET_SIZE(column) != 4 * count:
                raise ValueError("the columns of buckets differ in length")
        cdef const uint32_t *numbers = <const uint32_t *>PyBytes_AS_STRING(counts)
        cdef const float *low = <const float *>PyBytes_AS_STRING(lows)
        cdef const float *mean = <const float *>PyBytes_AS_STRING(means)
        cdef const float *high = <const float *>PyBytes_AS_STRING(highs)
        cdef const uint32_t *bad = NULL
        cdef const uint32_t *suspect = NULL
        if bads is not None:
            bad = <const uint32_t *>PyBytes_AS_STRING(bads)
        if suspects is not None:
            suspect = <const uint32_t *>PyBytes_AS_STRING(suspects)
        if not -FARTHEST_MS < start_ms < FARTHEST_MS:
            return
        cdef int64_t place = (start_ms - self.start_ms) // self.length_ms
        cdef Bucket *bucket
        cdef size_t i
        for i in range(count):
            if place + <int64_t>i < 0 or place + <int64_t>i >= <int64_t>self.count:
                continue
            bucket = &self._buckets[place + <int64_t>i]
            if bad != NULL:
                bucket.bad += bad[i]
            if numbers[i] and is_there(low[i]) and is_there(mean[i]) and is_there(high[i]):
                accumulate(bucket, numbers[i], low[i], high[i], <double>numbers[i] * mean[i])
                if suspect != NULL:
                    bucket.suspect += suspect[i]

    def columns(self) -> tuple[bytes, bytes, bytes, bytes, bytes | None, bytes | None]:
        """(count, minimum, mean, maximum, bad, suspect) of all buckets, in this machine's byte
        order: 32-bit floats, NaN where there are no values, and unsigned 32-bit counts; None for
        one of the last two that is 0 everywhere. O(buckets)."""
        cdef size_t size = 4 * self.count
        cdef bytes counts = PyBytes_FromStringAndSize(NULL, size)
        cdef bytes lows = PyBytes_FromStringAndSize(NULL, size)
        cdef bytes means = PyBytes_FromStringAndSize(NULL, size)
        cdef bytes highs = PyBytes_FromStringAndSize(NULL, size)
        cdef bytes bads = PyBytes_FromStringAndSize(NULL, size)
        cdef bytes suspects = PyBytes_FromStringAndSize(NULL, size)
        cdef uint32_t *count = <uint32_t *>PyBytes_AS_STRING(counts)
        cdef float *low = <float *>PyBytes_AS_STRING(lows)
        cdef float *mean = <float *>PyBytes_AS_STRING(means)
        cdef float *high = <float *>PyBytes_AS_STRING(highs)
        cdef uint32_t *bad = <uint32_t *>PyBytes_AS_STRING(bads)
        cdef uint32_t *suspect = <uint32_t *>PyBytes_AS_STRING(suspects)
        cdef bint some_bad = False, some_suspect = False
        cdef Bucket *bucket
        cdef size_t i
        for i in range(self.count):
            bucket = &self._buckets[i]
            count[i] = narrow(bucket.count)
            bad[i] = narrow(bucket.bad)
            suspect[i] = narrow(bucket.suspect)
            some_bad |= bucket.bad != 0
            some_suspect |= bucket.suspect != 0
            if bucket.count:
                low[i] = bucket.low
                high[i] = bucket.high
                mean[i] = <float>((bucket.total + bucket.lost) / <double>bucket.count)
            else:
                low[i] = mean[i] = high[i] = NAN
        return (
            counts, lows, means, highs,
            bads if some_bad else None, suspects if some_suspect else None,
        )

"""Moving-window histogram of response times in logarithmic buckets.

`Histogram` is plain C for other Cython modules, without the GIL; `ResponseHistogram` is the thin
class over it. A sample takes 6 bytes: its bucket and its time.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

cdef enum:
    BUCKET_COUNT = 1024

# Static arrays, never freed.
cdef double *bucket_edges         # [BUCKET_COUNT + 1] s: bucket i is [edge i, edge i + 1)
cdef double *bucket_middles       # [BUCKET_COUNT] s: geometric mean, the value a sample counts as

cdef struct Histogram:            # owns its three arrays; free with histogram_free
    uint32_t *counts              # [BUCKET_COUNT] samples per bucket in the window
    uint16_t *ring_bucket         # [capacity] ring of samples in order of arrival: bucket
    uint32_t *ring_ms             # [capacity] and time of arrival, ms modulo 2**32
    uint32_t capacity             # allocated; grows up to max_count
    uint32_t head                 # index of the oldest sample
    uint32_t count                # samples in the window
    uint32_t max_count            # limit of `count`
    int64_t max_age_ms            # limit of a sample's age
    int64_t now_ms                # latest time seen; time never goes back
    uint64_t version              # incremented at every change
    uint64_t clamped              # samples outside the buckets' range since the start

# Initialises an empty histogram. Returns 0, or -1 if memory ran out.
# 1 <= max_count, 0 < max_age_ms < 2**31.
cdef int histogram_init(Histogram *h, uint32_t max_count, int64_t max_age_ms) noexcept nogil
cdef void histogram_free(Histogram *h) noexcept nogil

# Moves the clock; ages count from the latest time ever given. now_ms from `milliseconds`.
cdef void histogram_advance(Histogram *h, int64_t now_ms) noexcept nogil

# Removes one sample that is too old and returns its bucket; -1 if there is none. Call it after an
# advance until it returns -1.
cdef int histogram_expire_one(Histogram *h) noexcept nogil

# Removes the oldest sample, whatever its age, and returns its bucket; -1 if empty.
cdef int histogram_drop_one(Histogram *h) noexcept nogil

# Adds a sample at the current time. Returns 0, or -1 if memory ran out. If count == max_count, call
# histogram_drop_one first.
cdef int histogram_add(Histogram *h, int bucket) noexcept nogil

# The bucket of a value in s, clamped to the range; the value must be finite. O(1).
cdef int bucket_index(double value_s) noexcept nogil

# Whether the value is neither NaN nor infinite. Defined here because -ffast-math, with which one
# other file is compiled, may drop such checks.
cdef bint is_finite(double value) noexcept nogil

# Seconds to whole ms, rounded down. ValueError for NaN, infinity and beyond 2**52 ms.
cdef int64_t milliseconds(double now_s) except? -1

# As bucket_index, for an unvalidated value in s; counts it in `clamped` if it is out of range.
# ValueError if it is negative or not finite.
cdef int checked_bucket(Histogram *h, double value_s) except -1

# ValueError unless a window may have these limits.
cdef int check_window(object max_count, double max_age_s) except -1


cdef class ResponseHistogram:
    cdef Histogram h

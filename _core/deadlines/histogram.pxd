"""Moving-window histogram of response times in logarithmic buckets.

`Histogram` is plain C for other Cython modules, without the GIL; `ResponseHistogram` is the thin
class over it. A sample takes 6 bytes: its bucket and its time.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

cdef enum:
    BUCKET_COUNT = 1024

cdef double *bucket_edges         # BUCKET_COUNT + 1 values, s: bucket i is [edge i, edge i + 1)
cdef double *bucket_middles       # BUCKET_COUNT values, s: geometric means, what a sample counts as

cdef struct Histogram:
    uint32_t *counts              # [BUCKET_COUNT] samples per bucket in the window
    uint16_t *ring_bucket         # [capacity] samples in order of arrival: bucket
    uint32_t *ring_ms             # [capacity] and time, ms modulo 2**32
    uint32_t capacity             # allocated; grows up to max_count
    uint32_t head                 # index of the oldest sample
    uint32_t count                # samples in the window
    uint32_t max_count
    int64_t max_age_ms
    int64_t now_ms                # latest time seen; time never goes back
    uint64_t version              # bumps at every change
    uint64_t clamped              # samples outside the range, ever

# 0, or -1 if memory ran out. 1 <= max_count, 0 < max_age_ms < 2**31.
cdef int histogram_init(Histogram *h, uint32_t max_count, int64_t max_age_ms) noexcept nogil
cdef void histogram_free(Histogram *h) noexcept nogil

# Moves the clock; ages count from the latest time ever given. now_ms from `milliseconds`.
cdef void histogram_advance(Histogram *h, int64_t now_ms) noexcept nogil

# The bucket of one sample that left the window, -1 if none is due. Call until -1 after an advance.
cdef int histogram_expire_one(Histogram *h) noexcept nogil

# The bucket of the oldest sample, taken out whatever its age; -1 if empty.
cdef int histogram_drop_one(Histogram *h) noexcept nogil

# Adds a sample at the current time. 0, or -1 if memory ran out. A full window must first lose one
# sample by histogram_drop_one.
cdef int histogram_add(Histogram *h, int bucket) noexcept nogil

# The bucket of a value in s, clamped to the range; the value must be finite. O(1).
cdef int bucket_index(double value_s) noexcept nogil

# Checks that live outside the one file compiled with -ffast-math, which may drop them.
cdef bint is_finite(double value) noexcept nogil

# Seconds to whole ms, rounded down. ValueError for NaN, infinity and beyond 2**52 ms.
cdef int64_t milliseconds(double now_s) except? -1

# `bucket_index` for a value from outside, counting it if clamped. ValueError if negative or not
# finite.
cdef int checked_bucket(Histogram *h, double value_s) except -1

# ValueError unless a window may have these limits.
cdef int check_window(object max_count, double max_age_s) except -1


cdef class ResponseHistogram:
    cdef Histogram h

"""Statistics of readings in buckets of equal length."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef struct Bucket:
    uint64_t count                # valid values: finite and not bad; if 0, ignore the next four
    float low                     # minimum
    float high                    # maximum
    double total                  # sum, with what rounding took from it in `lost`
    double lost
    uint64_t bad
    uint64_t suspect              # valid values with any flag

# The bucket of a time is (time - start_ms) // length_ms if that is in [0, count).
cdef class BucketSums:
    cdef readonly int64_t start_ms
    cdef readonly int64_t length_ms
    cdef readonly size_t count
    cdef Bucket *_buckets         # [count]

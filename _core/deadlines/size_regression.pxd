"""Size regression: the expected time of a request by its size, with one line per node.

Plain C for other Cython modules, without the GIL, one thread at a time. Sums decay with each
sample, so that a line follows its node; a node's line is shrunk to the pool's, and the pool's to a
constant.
"""

from libc.stdint cimport int32_t

cdef struct Line:                 # exponentially weighted moments of (size, time in s)
    double weight                 # sum of the samples' weights
    double mean_size
    double mean_s
    double size2                  # weighted sum of (size - mean_size)^2
    double size_s                 # weighted sum of (size - mean_size) * (time - mean_s)

cdef struct Sizes:                # owns `lines`; free with sizes_free
    Line *lines                   # [capacity] by node
    int32_t capacity
    Line pool                     # of all nodes' samples
    double prior_mean_s           # expected time before the first sample

cdef void sizes_init(Sizes *s, double prior_mean_s) noexcept nogil
cdef void sizes_free(Sizes *s) noexcept nogil

# Adds a sample of node `column` >= 0; `size` and `time_s` must be finite. Returns 0, or -1 if
# memory ran out. O(1) amortised.
cdef int sizes_observe(Sizes *s, int32_t column, double size, double time_s) noexcept nogil

# The expected time in s, never negative; the pool's line is used for a node without samples. O(1).
cdef double sizes_expected(const Sizes *s, int32_t column, double size) noexcept nogil


cdef class SizeModel:
    cdef Sizes s
    cdef bint lent                # in use by a simulation without the GIL: other calls raise
    cdef int check_own(self) except -1

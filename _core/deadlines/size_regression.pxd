"""Size regression: the expected time of a request by its size, with one line per node.

Plain C for other Cython modules, without the GIL, one thread at a time. Sums decay with each
sample, so that a line follows its node; a node's line is shrunk to the pool's, and the pool's to a
constant.
"""

from libc.stdint cimport int32_t

cdef struct Line:                 # weighted moments of (size, time)
    double weight                 # samples, the older the less
    double mean_size
    double mean_s
    double size2                  # weighted sum of (size - mean)^2
    double size_s                 # and of (size - mean) * (time - mean)

cdef struct Sizes:
    Line *lines                   # [capacity] of the nodes
    int32_t capacity
    Line pool                     # of all nodes' samples
    double prior_mean_s           # expected before anything was measured

cdef void sizes_init(Sizes *s, double prior_mean_s) noexcept nogil
cdef void sizes_free(Sizes *s) noexcept nogil

# Adds a sample of node `column` >= 0; `size` and `time_s` finite. 0, or -1 if memory ran out. O(1)
# amortised.
cdef int sizes_observe(Sizes *s, int32_t column, double size, double time_s) noexcept nogil

# The expected time in s, never negative; of the pool where the node has no samples. O(1).
cdef double sizes_expected(const Sizes *s, int32_t column, double size) noexcept nogil


cdef class SizeModel:
    cdef Sizes s
    cdef bint lent                # to a simulation, which holds no GIL
    cdef int check_own(self) except -1

"""Matrix of the nodes' log-CDFs, and the quantile of a product over any set of its columns.

A row for each bucket, a column for each node: log G at a bucket's upper bound (DSSP Eq. 3) is the
sum of its row over the set's columns.
"""

from libc.stdint cimport int16_t, int32_t, uint64_t

from _core.deadlines.hazard_cdf cimport LogCdf

cdef struct Run:                  # the buckets [low, high) of a column that are not at either end
    int16_t low
    int16_t high

cdef struct Matrix:
    float *cells                  # log F at the upper bound of bucket b for column c: [b*stride + c]
    Run *runs                     # [capacity]
    int32_t capacity              # columns
    int32_t stride                # floats from one bucket's row to the next
    uint64_t version              # bumps when a column changes

cdef struct Columns:              # a set of columns
    int32_t *column               # [size] ascending
    int32_t size
    bint contiguous               # a run without gaps

# Room for `capacity` columns, at least as many as before; 0, or -1, nothing changed, if memory ran
# out. Zeros make an empty matrix.
cdef int matrix_resize(Matrix *m, int32_t capacity) noexcept nogil
cdef void matrix_free(Matrix *m) noexcept nogil

# Writes what a column has in its old run or its new one.
cdef void matrix_store(Matrix *m, int32_t column, const LogCdf *log_cdf) noexcept nogil

# log G at the upper bound of a bucket: one row's sum. O(size).
cdef double matrix_log_g(const Matrix *m, const Columns *s, int bucket) noexcept nogil

# G^-1(exp(target)) in s, MAX_S if G stays below in the range. The search starts from bucket
# `*start` (-1: none), which moves to the answer's. Two or three row sums where that is near, else
# log2(BUCKET_COUNT).
cdef double matrix_search(
    const Matrix *m, const Columns *s, double target, int *start
) noexcept nogil

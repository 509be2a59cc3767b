"""Matrix of the nodes' log-CDFs, and the quantile of a product over any set of its columns.

A row for each bucket, a column for each node: log G at a bucket's upper bound (DSSP Eq. 3) is the
sum of its row over the set's columns.
"""

from libc.stdint cimport int16_t, int32_t, uint64_t

from _core.deadlines.hazard_cdf cimport LogCdf

cdef struct Run:                  # the buckets [low, high) of a column between LOG_ZERO and LOG_ONE
    int16_t low
    int16_t high

cdef struct Matrix:               # owns its arrays; free with matrix_free
    float *cells                  # log F at the upper bound of bucket b for column c: [b*stride + c]
    Run *runs                     # [capacity] of each column
    int32_t capacity              # columns allocated
    int32_t stride                # floats from one bucket's row to the next
    uint64_t version              # incremented when a column changes

cdef struct Columns:              # a set of columns; `column` belongs to whoever made the set
    int32_t *column               # [size] indices of columns, ascending
    int32_t size
    bint contiguous               # the indices have no gaps

# Grows the matrix to `capacity` columns, never fewer than before; a zeroed struct is an empty
# matrix. Returns 0, or -1 if memory ran out, with the matrix unchanged.
cdef int matrix_resize(Matrix *m, int32_t capacity) noexcept nogil
cdef void matrix_free(Matrix *m) noexcept nogil

# Replaces a column. Only the buckets of its old and its new run are written.
cdef void matrix_store(Matrix *m, int32_t column, const LogCdf *log_cdf) noexcept nogil

# log G at the upper bound of a bucket: the sum of its row over the set's columns. O(size).
cdef double matrix_log_g(const Matrix *m, const Columns *s, int bucket) noexcept nogil

# G^-1(exp(target)) in s; MAX_S if G stays below exp(target) in the buckets' range. The search
# starts at bucket `*start` (-1: anywhere) and sets it to the answer's bucket. Two or three row sums
# if the start is near the answer, else log2(BUCKET_COUNT).
cdef double matrix_search(
    const Matrix *m, const Columns *s, double target, int *start
) noexcept nogil

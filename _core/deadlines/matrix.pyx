"""Matrix of the nodes' log-CDFs, and the quantile of a product over any set of its columns.

This file is compiled with -ffast-math, which assumes that NaN and infinity do not occur.

Measured: with 16 independent partial sums gcc keeps four vector registers busy; a single sum waits
for each addition and takes three times as long. A stride of whole rows of 4 KiB would map a column
to one cache set; an odd number of cache lines spreads it.
"""

from libc.math cimport exp, log
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from _core.deadlines.hazard_cdf cimport LOG_ONE, LOG_ZERO
from _core.deadlines.histogram cimport BUCKET_COUNT, bucket_edges

cdef extern from "<stdlib.h>":
    void *aligned_alloc(size_t alignment, size_t size) noexcept nogil

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FLOATS_PER_LINE = 16

# An answer is this close to every point of its bucket.
cdef double ERROR_LIMIT = 1.01


# Columns.

cdef int matrix_resize(Matrix *m, int32_t capacity) noexcept nogil:
    cdef int32_t stride = capacity + FLOATS_PER_LINE  # an odd number of cache lines from 32 on
    cdef size_t size = <size_t>stride * BUCKET_COUNT * sizeof(float)
    cdef float *cells = <float *>aligned_alloc(64, size)
    cdef Run *runs = <Run *>calloc(capacity, sizeof(Run))
    cdef int32_t i
    cdef int b
    if cells == NULL or runs == NULL:
        free(cells)
        free(runs)
        return -1
    memset(cells, 0, size)
    if m.capacity > 0:
        memcpy(runs, m.runs, m.capacity * sizeof(Run))
        for b in range(BUCKET_COUNT):
            memcpy(
                cells + <size_t>b * stride,
                m.cells + <size_t>b * m.stride,
                m.capacity * sizeof(float),
            )
    for i in range(m.capacity, capacity):
        runs[i].high = BUCKET_COUNT  # so that the first store writes them all
    matrix_free(m)
    m.cells = cells
    m.runs = runs
    m.capacity = capacity
    m.stride = stride
    return 0


cdef void matrix_free(Matrix *m) noexcept nogil:
    free(m.cells)
    free(m.runs)


cdef void matrix_store(Matrix *m, int32_t column, const LogCdf *log_cdf) noexcept nogil:
    cdef Run *run = &m.runs[column]
    cdef float *cell = m.cells + column
    cdef int b
    CHECK(0 <= column)
    CHECK(column < m.capacity)
    CHECK(0 <= log_cdf.low)
    CHECK(log_cdf.low <= log_cdf.high)
    CHECK(log_cdf.high <= BUCKET_COUNT)
    for b in range(run.low, log_cdf.low):
        cell[<size_t>b * m.stride] = LOG_ZERO
    for b in range(log_cdf.low, log_cdf.high):
        cell[<size_t>b * m.stride] = log_cdf.value[b]
    for b in range(log_cdf.high, run.high):
        cell[<size_t>b * m.stride] = LOG_ONE
    run.low = <int16_t>log_cdf.low
    run.high = <int16_t>log_cdf.high
    m.version += 1


# The row sums.

cdef inline float _sum_run(const float *row, int32_t size) noexcept nogil:
    cdef float[FLOATS_PER_LINE] part
    cdef float total = 0.0
    cdef int32_t i = 0
    cdef int j
    for j in range(FLOATS_PER_LINE):
        part[j] = 0.0
    while i + FLOATS_PER_LINE <= size:
        for j in range(FLOATS_PER_LINE):
            part[j] += row[i + j]
        i += FLOATS_PER_LINE
    while i < size:
        total += row[i]
        i += 1
    for j in range(FLOATS_PER_LINE):
        total += part[j]
    return total


cdef inline float _sum_gathered(
    const float *row, const int32_t *columns, int32_t size
) noexcept nogil:
    cdef float a = 0.0
    cdef float b = 0.0
    cdef float c = 0.0
    cdef float d = 0.0
    cdef int32_t i = 0
    while i + 4 <= size:
        a += row[columns[i]]
        b += row[columns[i + 1]]
        c += row[columns[i + 2]]
        d += row[columns[i + 3]]
        i += 4
    while i < size:
        a += row[columns[i]]
        i += 1
    return (a + b) + (c + d)


cdef inline double _log_g(const Matrix *m, const Columns *s, int bucket) noexcept nogil:
    """log G at the upper bound of `bucket` (DSSP Eq. 3)."""
    cdef const float *row = m.cells + <size_t>bucket * m.stride
    CHECK(0 <= bucket)
    CHECK(bucket < BUCKET_COUNT)
    CHECK(s.size > 0)
    CHECK(s.column[s.size - 1] < m.capacity)
    if s.contiguous:
        return _sum_run(row + s.column[0], s.size)
    return _sum_gathered(row, s.column, s.size)


cdef double matrix_log_g(const Matrix *m, const Columns *s, int bucket) noexcept nogil:
    return _log_g(m, s, bucket)


# The search.

cdef double matrix_search(
    const Matrix *m, const Columns *s, double target, int *start
) noexcept nogil:
    # Invariant once bracketed: log G(low) < target <= log G(high). Bucket -1 stands for G = 0 and
    # BUCKET_COUNT for G = 1.
    cdef int low = -1
    cdef int high = BUCKET_COUNT
    cdef int middle
    cdef int step = 1
    cdef double low_sum = <double>LOG_ZERO * s.size
    cdef double high_sum = 0.0
    cdef double g
    cdef double edge
    if start[0] >= 0:  # gallop away from the previous answer
        g = _log_g(m, s, start[0])
        if g >= target:
            high = start[0]
            high_sum = g
            while high > 0:
                middle = max(high - step, 0)
                g = _log_g(m, s, middle)
                if g < target:
                    low = middle
                    low_sum = g
                    break
                high = middle
                high_sum = g
                step *= 2
        else:
            low = start[0]
            low_sum = g
            while low < BUCKET_COUNT - 1:
                middle = min(low + step, BUCKET_COUNT - 1)
                g = _log_g(m, s, middle)
                if g >= target:
                    high = middle
                    high_sum = g
                    break
                low = middle
                low_sum = g
                step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        g = _log_g(m, s, middle)
        if g < target:
            low = middle
            low_sum = g
        else:
            high = middle
            high_sum = g
    if high == BUCKET_COUNT:
        start[0] = BUCKET_COUNT - 1
        return bucket_edges[BUCKET_COUNT]
    start[0] = high
    edge = bucket_edges[high]
    # log t taken as linear in log G within the bucket, but never more than 1 % from any point of
    # it, which is what the histogram promises wherever in the bucket the samples lay.
    g = edge * exp((target - low_sum) / (high_sum - low_sum) * log(bucket_edges[high + 1] / edge))
    return max(min(g, edge * ERROR_LIMIT), bucket_edges[high + 1] / ERROR_LIMIT)

"""CDF of a node's unloaded response time, by shrinking its hazards towards the pool's.

Hazards are shrunk instead of the distribution: where many samples lie above a bucket, the node's
own share dominates, where few do, the pool's. The level of a tail is therefore the node's, and its
shape beyond the node's samples is the pool's (docs/understand/deadlines.md).

This file is compiled with -ffast-math, which assumes that NaN and infinity do not occur.

Measured for a node with 1,000 samples: of 1,024 buckets about 400 are neither below F_MIN nor above
LOG_ONE; only these are computed. Survival is a product over buckets, a chain of dependent
multiplications; multiplying by four at a time makes the chain a quarter as long. Logarithms are a
polynomial over float32 that gcc vectorises; the C library's would take two thirds of the total
time.
"""

from libc.math cimport exp
from libc.stdint cimport int32_t, uint32_t

from _core.deadlines.histogram cimport bucket_edges, bucket_middles
from _core.deadlines.staleness cimport lag_restart

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef union Float:
    float value
    int32_t bits

LOG_ONE = -1e-12

# F below this counts as 0: no deadline's percentile is that low, and this range would need half of
# all buckets for the prior.
cdef double F_MIN = 1e-4
# 1 - F below this is as good as the floor under it that LOG_ONE makes.
cdef double SURVIVAL_MIN = 1e-12
# Smaller values would become denormal, which is slow.
cdef double TINY = 1e-280


cdef double _mean_excess(const Pool *pool, double p, double prior_s) noexcept nogil:
    """Mean of (x - u | x > u) for u the pool's p-quantile, shrunk to `prior_s`. Seconds."""
    cdef double below = 0.0
    cdef double above = 0.0
    cdef double excess = 0.0
    cdef double u
    cdef int b = 0
    if pool.total == 0:
        return prior_s
    while b < BUCKET_COUNT - 1:
        below += pool.counts[b]
        if below >= p * pool.total:
            break
        b += 1
    u = bucket_edges[b + 1]
    for b in range(b + 1, BUCKET_COUNT):
        above += pool.counts[b]
        excess += pool.counts[b] * (bucket_middles[b] - u)
    return (pool.prior_weight * prior_s + excess) / (pool.prior_weight + above)


cdef void pool_refresh(Pool *pool, double errors) noexcept nogil:
    cdef double w = pool.prior_weight
    cdef double scale = _mean_excess(pool, 0.9, pool.prior_mean_s)
    scale = _mean_excess(pool, 0.99, scale)
    cdef double left = <double>pool.total + w
    cdef double above = 1.0
    cdef double low = 0.0  # bucket 0 stands for all that is below it too
    cdef double hazard
    cdef int b
    pool.low = BUCKET_COUNT - 1
    for b in range(BUCKET_COUNT):
        hazard = pool.counts[b] + w * (1.0 - exp((low - bucket_edges[b + 1]) / scale))
        hazard /= left
        left -= pool.counts[b]
        low = bucket_edges[b + 1]
        above *= 1.0 - hazard
        if above < TINY:
            above = 0.0
        pool.hazard[b] = w * hazard
        pool.survival[b] = above
    for b in range(BUCKET_COUNT):
        if 1.0 - pool.survival[b] >= F_MIN:
            pool.low = b
            break
    lag_restart(&pool.lag, pool.survival, 0, BUCKET_COUNT, errors, pool.total)
    pool.epoch += 1


cdef inline double _survive(
    const Pool *pool, const uint32_t *counts, int begin, int end, uint32_t count, double *survival
) noexcept nogil:
    """1 - F over the buckets [begin, end) that hold samples; returns the last."""
    cdef double[BUCKET_COUNT] kept
    cdef int32_t[BUCKET_COUNT] left  # integers: a sum of doubles would wait for each
    cdef int32_t rest = <int32_t>count
    cdef double w = pool.prior_weight
    cdef double above = 1.0
    cdef double two
    cdef double four
    cdef int b
    for b in range(begin, end):
        left[b] = rest
        rest -= <int32_t>counts[b]
    for b in range(begin, end):
        kept[b] = 1.0 - (<int32_t>counts[b] + pool.hazard[b]) / (left[b] + w)
    if begin > 0:  # nothing but the pool's hazards, too small there for their products to count
        above -= (1.0 - pool.survival[begin - 1]) * w / (count + w)
    b = begin
    while b + 4 <= end:
        two = kept[b] * kept[b + 1]
        four = two * (kept[b + 2] * kept[b + 3])
        survival[b] = above * kept[b]
        survival[b + 1] = above * two
        survival[b + 2] = above * (two * kept[b + 2])
        above *= four
        survival[b + 3] = above
        b += 4
    while b < end:
        above *= kept[b]
        survival[b] = above
        b += 1
    return above


cdef inline int _end_of_tail(const Pool *pool, int begin, double least) noexcept nogil:
    """The first bucket from `begin` on where the pool's survival is at most `least`."""
    cdef int high = BUCKET_COUNT
    cdef int middle
    while begin < high:
        middle = (begin + high) // 2
        if pool.survival[middle] <= least:
            high = middle
        else:
            begin = middle + 1
    return begin


cdef inline void _logarithms(
    const double *survival, int begin, int end, float *log_f
) noexcept nogil:
    """log(1 - survival), within 1e-6 of it; exact to float32 where survival is small."""
    cdef Float x
    cdef Float m
    cdef int32_t shifted
    cdef int32_t exponent
    cdef float z
    cdef float zz
    cdef float value
    cdef int b
    for b in range(begin, end):
        x.value = <float>(1.0 - survival[b])
        shifted = x.bits - 0x3F3504F3  # sqrt(1/2): the mantissa will be sqrt(1/2)..sqrt(2)
        exponent = shifted >> 23
        m.bits = (shifted & 0x7FFFFF) + 0x3F3504F3
        # With exponent 0 the mantissa is x: what it lost of a small survival is taken from there.
        z = (-<float>survival[b] if exponent == 0 else m.value - <float>1.0)
        z = z / (m.value + <float>1.0)
        zz = z * z
        value = z * (<float>2.0 + zz * (
            <float>(2.0 / 3.0) + zz * (
                <float>(2.0 / 5.0) + zz * (<float>(2.0 / 7.0) + zz * <float>(2.0 / 9.0))
            )
        ))
        value += <float>exponent * <float>0.6931471805599453
        log_f[b] = min(value, LOG_ONE)


cdef void node_log_cdf(
    const Pool *pool,
    const uint32_t *counts,
    uint32_t count,
    BucketRange *occupied,
    LogCdf *log_cdf,
    Lag *lag,
    double errors,
) noexcept nogil:
    cdef double[BUCKET_COUNT] survival
    cdef double above = 1.0
    cdef double scale
    cdef int begin
    cdef int end
    cdef int high
    cdef int b
    while occupied.first < BUCKET_COUNT and counts[occupied.first] == 0:
        occupied.first += 1
    while occupied.last >= 0 and counts[occupied.last] == 0:
        occupied.last -= 1
    # Below its own samples a node's F is at most the pool's, so negligible before either begins.
    begin = min(occupied.first, pool.low)
    end = max(begin, occupied.last + 1)
    CHECK(begin < BUCKET_COUNT)
    CHECK(end <= BUCKET_COUNT)
    if end > begin:
        above = _survive(pool, counts, begin, end, count, survival)
    elif begin > 0:
        above = pool.survival[begin - 1]
    # Beyond the node's samples: the pool's shape at the node's level.
    scale = above
    if end > 0:
        scale = above / pool.survival[end - 1] if pool.survival[end - 1] > 0.0 else 0.0
    high = end
    if scale > 0.0:
        high = _end_of_tail(pool, end, SURVIVAL_MIN / scale)
    for b in range(end, high):
        survival[b] = scale * pool.survival[b]
    lag_restart(lag, survival, begin, high, errors, count)
    while begin < high and 1.0 - survival[begin] < F_MIN:
        begin += 1
    log_cdf.low = begin
    log_cdf.high = high
    _logarithms(survival, begin, high, log_cdf.value)

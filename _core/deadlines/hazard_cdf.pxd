"""CDF of a node's unloaded response time, by shrinking its hazards towards the pool's.

The hazard h(b) is the share of the samples at or above bucket b that lie in it. A node's hazards
are shrunk to the pool's, the pool's to those of an exponential; see docs/understand/deadlines.md.
"""

from libc.stdint cimport uint32_t, uint64_t

from _core.deadlines.histogram cimport BUCKET_COUNT
from _core.deadlines.staleness cimport Lag

# Stands for log 0. Even summed over the maximum number of columns it stays far inside float32.
cdef enum:
    LOG_ZERO = -10_000

cdef struct Pool:                 # the windows of all nodes, added up
    uint64_t[BUCKET_COUNT] counts # samples per bucket, current
    uint64_t total                # sum of `counts`
    double prior_mean_s           # mean of the exponential prior
    double prior_weight           # its weight, in samples
    # As of the last refresh:
    double[BUCKET_COUNT] hazard   # prior_weight * h(b)
    double[BUCKET_COUNT] survival # 1 - F at the upper bound of bucket b
    int low                       # the first bucket where F is not too small to count
    Lag lag                       # how far `counts` has moved since
    double due_s                  # time of the next refresh if anything changed
    uint64_t epoch                # incremented at every refresh

cdef struct BucketRange:                 # range of buckets outside which a window has no samples
    int first                     # inclusive
    int last                      # inclusive; below `first` if the window is empty

cdef struct LogCdf:               # log F at the upper bounds of buckets
    float[BUCKET_COUNT] value     # valid in [low, high) only
    int low                       # below this bucket log F is LOG_ZERO
    int high                      # from this bucket on log F is LOG_ONE

# Maximum of log F: F never reaches 1, so that no product claims certainty.
cdef float LOG_ONE

# Recomputes hazards and survival from `counts`; afterwards they may lag by `errors` standard errors
# before the next refresh is due. O(BUCKET_COUNT).
cdef void pool_refresh(Pool *pool, double errors) noexcept nogil

# Writes the distribution of a node with `count` samples, `counts` [BUCKET_COUNT] per bucket, to
# `log_cdf`. No sample lies outside `occupied`, which is narrowed. Restarts `lag`.
# O(buckets that hold samples or tail).
cdef void node_log_cdf(
    const Pool *pool,
    const uint32_t *counts,
    uint32_t count,
    BucketRange *occupied,
    LogCdf *log_cdf,
    Lag *lag,
    double errors,
) noexcept nogil

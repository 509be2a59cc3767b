"""CDF of a node's unloaded response time, by shrinking its hazards towards the pool's.

The hazard h(b) is the share of the samples at or above bucket b that lie in it. A node's hazards
are shrunk to the pool's, the pool's to those of an exponential; see docs/understand/deadlines.md.
"""

from libc.stdint cimport uint32_t, uint64_t

from _core.deadlines.histogram cimport BUCKET_COUNT
from _core.deadlines.staleness cimport Lag

# log 0. A sum of as many as there may be columns is still far inside float32.
cdef enum:
    LOG_ZERO = -10_000

cdef struct Pool:                 # all nodes' windows as one
    uint64_t[BUCKET_COUNT] counts
    uint64_t total
    double prior_mean_s
    double prior_weight           # samples
    double[BUCKET_COUNT] hazard   # prior_weight * h(b), as of the last refresh, as all below
    double[BUCKET_COUNT] survival # 1 - F at the upper bound of bucket b
    int low                       # the first bucket where F is not too small to count
    Lag lag
    double due_s                  # refresh at this time if anything changed
    uint64_t epoch                # bumps at every refresh

cdef struct Span:                 # which buckets of a window may hold samples
    int first
    int last                      # before `first` if none

cdef struct LogCdf:               # log F at the upper bounds of buckets
    float[BUCKET_COUNT] value     # filled in [low, high)
    int low                       # LOG_ZERO before this bucket
    int high                      # the largest value allowed from this bucket on

# The largest log F: F never reaches 1, so that no product claims certainty.
cdef float LOG_ONE

# Takes in the changes of `counts`; may lag by `errors` standard errors afterwards. O(BUCKET_COUNT).
cdef void pool_refresh(Pool *pool, double errors) noexcept nogil

# The distribution of a node with these samples, none of them outside `span`, which it narrows.
# Restarts `lag`. O(buckets that hold samples or tail).
cdef void node_log_cdf(
    const Pool *pool,
    const uint32_t *counts,
    uint32_t count,
    Span *span,
    LogCdf *log_cdf,
    Lag *lag,
    double errors,
) noexcept nogil

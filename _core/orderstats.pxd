"""Order statistics of unloaded response times over any set of nodes (DSSP Eqs. 2-6).

`Model` and `ColumnSet` are plain C for other Cython modules, without the GIL, one thread at a time;
`UnloadedModel` and `NodeSet` are the thin classes over them. The model of a node's distribution,
what stands in for its unseen tail and how stale a column may be: docs/deadlines.md.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from _core.histogram cimport BUCKET_COUNT, Histogram

cdef enum:
    CACHED_PERCENTILES = 8

cdef struct Column:               # what the model knows of one node
    Histogram window
    bint used
    uint32_t generation           # bumps when the column's node is removed
    uint32_t arrivals             # samples that came since the column was last refreshed
    uint32_t departures           # samples that left since then
    double patience               # 0.5..1: its share of the allowed staleness
    int tail_bucket               # the bucket in which F passes 99.9 %
    uint64_t pool_epoch           # the pool's epoch that it was computed with

cdef struct Pool:                 # all nodes' windows as one
    uint64_t[BUCKET_COUNT] counts
    double[BUCKET_COUNT] hazard   # P(in bucket i | not below it), as of the last refresh
    uint64_t total
    uint64_t arrivals             # since the last refresh
    uint64_t departures
    int tail_bucket
    double due_s                  # refresh at this time if anything changed
    uint64_t epoch                # bumps at every refresh

cdef struct Model:
    Column *columns               # [capacity]
    double *due_s                 # [capacity] when to look at a column again, s
    float *matrix                 # log F at the upper bound of bucket b for column c: [b*stride + c]
    int32_t capacity
    int32_t stride                # floats from one bucket's row to the next
    Pool *pool
    uint32_t max_count
    int64_t max_age_ms
    double prior_mean_s
    double prior_weight           # samples
    double max_stale_fraction
    double max_stale_age_s
    double now_s                  # latest time seen; time never goes back
    int64_t now_ms
    uint64_t matrix_version       # bumps when a column's floats change
    uint64_t due_version          # bumps when a due_s moves forward
    uint64_t removals             # bumps when a node is removed

cdef struct CachedQuantile:
    double p_t                    # percent; 0 in an unused entry
    double target                 # log(p_t / 100)
    double x_s                    # the answer at matrix_version
    int bucket                    # where it was found: the next search starts there
    uint64_t matrix_version

cdef struct ColumnSet:
    int32_t *columns              # [size] ascending
    uint32_t *generations         # [size] of these columns when the set was made
    int32_t size
    bint contiguous               # columns are a run without gaps
    uint64_t due_version          # up to here nothing is due before next_due_s
    double next_due_s
    uint64_t removals             # up to here all columns are known to be alive
    CachedQuantile[CACHED_PERCENTILES] cache
    int next_entry                # the cache entry to overwrite next

# Moves the model's clock. `now_ms` from histogram.milliseconds(now_s), which checks it.
cdef void model_advance(Model *m, double now_s, int64_t now_ms) noexcept nogil

# Adds a sample of the given bucket at the current time. 0, or -1 if memory ran out. Amortised O(1).
cdef int model_observe(Model *m, int32_t column, int bucket) noexcept nogil

# Refreshes the columns of `s` that are too stale. O(1) if none can be, else O(size) and
# O(BUCKET_COUNT) for each refreshed.
cdef void model_settle(Model *m, ColumnSet *s) noexcept nogil

# x_u in s (DSSP Eq. 4), 0 < p_t < 100, all columns alive. MAX_S if G stays below p_t in the range.
# Settles first. O(1) if nothing changed, O(size) if little did, else O(size log BUCKET_COUNT).
cdef double model_quantile(Model *m, ColumnSet *s, double p_t) noexcept nogil

# The same search without cache, from bucket `*start` (-1: none), which it moves to the answer's.
cdef double model_search(
    const Model *m, const ColumnSet *s, double target, int *start
) noexcept nogil

# log G at the upper bound of a bucket: one row's sum. O(size).
cdef double model_log_g(const Model *m, const ColumnSet *s, int bucket) noexcept nogil

# Makes the next settle look at a column, whatever its age.
cdef void model_make_due(Model *m, int32_t column) noexcept nogil

# False if a node of `s` was removed since it was made. O(1) if none was removed at all.
cdef bint model_alive(const Model *m, ColumnSet *s) noexcept nogil


cdef class NodeSet:
    cdef ColumnSet s
    cdef uint64_t owner           # the model's identity
    cdef object __weakref__


cdef class UnloadedModel:
    cdef Model m
    cdef uint64_t identity
    cdef dict interned            # columns -> NodeSet, least recently asked for first
    cdef int32_t checked_column(self, object column) except -1
    cdef int checked_set(self, NodeSet nodes, double p_t) except -1
    cdef int advance(self, double now_s) except -1

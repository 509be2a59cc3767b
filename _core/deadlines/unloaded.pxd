"""Model of unloaded response times: the samples of an IAD's nodes and their cached distributions.

Plain C for other Cython modules, without the GIL, one thread at a time. See
docs/understand/deadlines.md for the model of a node's distribution and its unobserved tail, and
for how stale a column may be.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from _core.deadlines.hazard_cdf cimport Pool, BucketRange
from _core.deadlines.histogram cimport BUCKET_COUNT, Histogram
from _core.deadlines.staleness cimport Lag
from _core.deadlines.matrix cimport Columns, Matrix

cdef enum:
    CACHED_PERCENTILES = 8

cdef struct Column:               # the state of one node
    Histogram window              # its samples; owned
    BucketRange occupied                     # the buckets that `window` uses
    Lag lag                       # how far its column of the matrix lags behind `window`
    double patience               # 0.5..1: its share of the allowed staleness
    uint64_t pool_epoch           # epoch of the pool at its last refresh
    uint32_t generation           # incremented when the column's node is removed
    bint used                     # a node has this column

cdef struct Model:                # owns its arrays and pool; free with model_free
    Column *columns               # [capacity]
    double *due_s                 # [capacity] time of a column's next check; never moves back
    int32_t capacity              # columns allocated
    Matrix matrix
    Pool *pool
    uint32_t max_count            # per window
    int64_t max_age_ms            # of a sample
    double max_stale_errors       # allowed staleness of a column, in standard errors
    double max_stale_age_s        # and in seconds
    double now_s                  # latest time seen; time never goes back
    int64_t now_ms                # the same in ms, rounded down
    uint64_t removals             # incremented when a node is removed

cdef struct CachedQuantile:
    double p_t                    # percent; 0 in an unused entry
    double target                 # log(p_t / 100)
    double x_s                    # the quantile as of matrix_version
    int bucket                    # its bucket: the next search starts there
    uint64_t matrix_version

cdef struct ColumnSet:            # `chosen.column` and `generations` belong to its NodeSet
    Columns chosen
    uint32_t *generations         # [chosen.size] of these columns when the set was made
    double next_due_s             # no column is due before
    int32_t next_look             # index at which the next scan for due columns starts
    uint64_t removals             # Model.removals when all columns were last seen alive
    CachedQuantile[CACHED_PERCENTILES] cache
    int next_entry                # the cache entry to overwrite next

# Advances the model's clock. `now_ms` is histogram.milliseconds(now_s), which validates it.
cdef void model_advance(Model *m, double now_s, int64_t now_ms) noexcept nogil

# Adds a sample of the given bucket at the current time and refreshes the column if it lags too far
# behind. Returns 0, or -1 if memory ran out. O(1), and O(BUCKET_COUNT) about once in
# sqrt(samples) / 4 calls.
cdef int model_observe(Model *m, int32_t column, int bucket) noexcept nogil

# Refreshes columns of `s` that are due by age, at most 16 + size / 16 in one call. O(1) if none can
# be due, else O(size), and O(BUCKET_COUNT) for each refresh.
cdef void model_settle(Model *m, ColumnSet *s) noexcept nogil

# x_u in s (DSSP Eq. 4); MAX_S if G stays below p_t in the buckets' range. 0 < p_t < 100, and all
# columns must be alive. Calls model_settle first. O(1) if nothing changed, O(size) after small
# changes, else O(size log BUCKET_COUNT).
cdef double model_quantile(Model *m, ColumnSet *s, double p_t) noexcept nogil

# Recomputes a column from its window now. O(BUCKET_COUNT).
cdef void model_refresh(Model *m, int32_t column) noexcept nogil

# False if a node of `s` was removed since it was made. O(1) if none was removed at all.
cdef bint model_alive(const Model *m, ColumnSet *s) noexcept nogil

# Initialises a model that is zeroed but for its limits. Returns 0, or -1 if memory ran out; call
# model_free in either case.
cdef int model_init(Model *m, double prior_mean_s, double prior_weight) noexcept nogil
cdef void model_free(Model *m) noexcept nogil

# The column of a new node, the lowest free one; -1 if memory ran out. O(columns + BUCKET_COUNT).
cdef int32_t model_add_node(Model *m) noexcept nogil

# Forgets a node and its samples. O(BUCKET_COUNT).
cdef void model_remove_node(Model *m, int32_t column) noexcept nogil

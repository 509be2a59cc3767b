"""Model of unloaded response times: the samples of an IAD's nodes and their cached distributions.

Plain C for other Cython modules, without the GIL, one thread at a time. See
docs/understand/deadlines.md for the model of a node's distribution and its unobserved tail, and
for how stale a column may be.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from _core.deadlines.hazard_cdf cimport Pool, Span
from _core.deadlines.histogram cimport BUCKET_COUNT, Histogram
from _core.deadlines.staleness cimport Lag
from _core.deadlines.matrix cimport Columns, Matrix

cdef enum:
    CACHED_PERCENTILES = 8

cdef struct Column:               # what the model knows of one node
    Histogram window
    Span span
    Lag lag                       # of its floats in the matrix
    double patience               # 0.5..1: its share of the allowed staleness
    uint64_t pool_epoch           # the pool's epoch that it was computed with
    uint32_t generation           # bumps when the column's node is removed
    bint used

cdef struct Model:
    Column *columns               # [capacity]
    double *due_s                 # [capacity] when to look at a column again, s; never moves back
    int32_t capacity
    Matrix matrix
    Pool *pool
    uint32_t max_count
    int64_t max_age_ms
    double max_stale_errors
    double max_stale_age_s
    double now_s                  # latest time seen; time never goes back
    int64_t now_ms
    uint64_t removals             # bumps when a node is removed

cdef struct CachedQuantile:
    double p_t                    # percent; 0 in an unused entry
    double target                 # log(p_t / 100)
    double x_s                    # the answer at matrix_version
    int bucket                    # where it was found: the next search starts there
    uint64_t matrix_version

cdef struct ColumnSet:
    Columns chosen
    uint32_t *generations         # [size] of these columns when the set was made
    double next_due_s             # nothing is due before
    int32_t next_look             # where the next look for columns that are due begins
    uint64_t removals             # up to here all columns are known to be alive
    CachedQuantile[CACHED_PERCENTILES] cache
    int next_entry                # the cache entry to overwrite next

# Moves the model's clock. `now_ms` from histogram.milliseconds(now_s), which checks it.
cdef void model_advance(Model *m, double now_s, int64_t now_ms) noexcept nogil

# Adds a sample of the given bucket at the current time and refreshes the column if it lags too far
# behind. 0, or -1 if memory ran out. O(1), or O(BUCKET_COUNT) once in about sqrt(samples) / 4 calls.
cdef int model_observe(Model *m, int32_t column, int bucket) noexcept nogil

# Looks at columns of `s` that are due by age, at most at 16 + size / 16. O(1) if none can be, else
# O(size) and O(BUCKET_COUNT) for each refreshed.
cdef void model_settle(Model *m, ColumnSet *s) noexcept nogil

# x_u in s (DSSP Eq. 4), 0 < p_t < 100, all columns alive. MAX_S if G stays below p_t in the range.
# Settles first. O(1) if nothing changed, O(size) if little did, else O(size log BUCKET_COUNT).
cdef double model_quantile(Model *m, ColumnSet *s, double p_t) noexcept nogil

# Brings a column up to date now. O(BUCKET_COUNT).
cdef void model_refresh(Model *m, int32_t column) noexcept nogil

# False if a node of `s` was removed since it was made. O(1) if none was removed at all.
cdef bint model_alive(const Model *m, ColumnSet *s) noexcept nogil

# Makes an empty model of zeros with its limits set. 0, or -1 if memory ran out; free it either way.
cdef int model_init(Model *m, double prior_mean_s, double prior_weight) noexcept nogil
cdef void model_free(Model *m) noexcept nogil

# The column of a new node, the lowest free one; -1 if memory ran out. O(columns + BUCKET_COUNT).
cdef int32_t model_add_node(Model *m) noexcept nogil

# Forgets a node and its samples. O(BUCKET_COUNT).
cdef void model_remove_node(Model *m, int32_t column) noexcept nogil

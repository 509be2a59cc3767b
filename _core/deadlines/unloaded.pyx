"""Model of unloaded response times: the samples of an IAD's nodes and their cached distributions.

Combines three modules: `_core.deadlines.hazard_cdf` computes a node's distribution,
`_core.deadlines.matrix` holds all of them, and `_core.deadlines.staleness` decides when to refresh
one.
"""

from libc.math cimport floor, log
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from _core.deadlines.hazard_cdf cimport LogCdf, node_log_cdf, pool_refresh
from _core.deadlines.histogram cimport (
    histogram_add,
    histogram_advance,
    histogram_drop_one,
    histogram_expire_one,
    histogram_free,
    histogram_init,
)
from _core.deadlines.staleness cimport lag_any, lag_due, lag_force, lag_weight
from _core.deadlines.matrix cimport matrix_free, matrix_resize, matrix_search, matrix_store

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FIRST_CAPACITY = 16
    MAX_CAPACITY = 1 << 22
    # One call checks the age of this many columns, and of this share of a larger set.
    LOOKS = 16
    LOOK_SHARE = 16

cdef double LONG_AGO = -1e300
cdef double GOLDEN = 0.6180339887498949


# Refreshing.

cdef void _refresh_pool(Model *m) noexcept nogil:
    pool_refresh(m.pool, m.max_stale_errors)
    m.pool.due_s = m.now_s + m.max_stale_age_s


cdef void model_refresh(Model *m, int32_t column) noexcept nogil:
    cdef Column *c = &m.columns[column]
    cdef LogCdf log_cdf
    CHECK(0 <= column)
    CHECK(column < m.capacity)
    CHECK(c.used)
    if lag_due(&m.pool.lag):
        _refresh_pool(m)
    node_log_cdf(
        m.pool,
        c.window.counts,
        c.window.count,
        &c.occupied,
        &log_cdf,
        &c.lag,
        c.patience * m.max_stale_errors,
    )
    matrix_store(&m.matrix, column, &log_cdf)
    c.pool_epoch = m.pool.epoch
    m.due_s[column] = m.now_s + c.patience * m.max_stale_age_s


cdef void _look_at(Model *m, int32_t column) noexcept nogil:
    """Refresh a column that is due by age, unless nothing it depends on has changed."""
    cdef Column *c = &m.columns[column]
    if lag_any(&c.lag) or c.pool_epoch != m.pool.epoch:
        model_refresh(m, column)
    else:
        m.due_s[column] = m.now_s + c.patience * m.max_stale_age_s


cdef double _first_due(const Model *m, const Columns *chosen) noexcept nogil:
    cdef double first = m.due_s[chosen.column[0]]
    cdef int32_t i
    for i in range(1, chosen.size):
        first = min(first, m.due_s[chosen.column[i]])
    return first


cdef void model_settle(Model *m, ColumnSet *s) noexcept nogil:
    cdef const int32_t *column = s.chosen.column
    cdef int32_t size = s.chosen.size
    cdef int32_t allowed = LOOKS + size // LOOK_SHARE
    cdef int32_t begin
    cdef int32_t passed = 0
    cdef int32_t i
    if m.now_s < s.next_due_s:
        return
    # Refreshes only postpone due times, so the earliest stays a lower bound.
    s.next_due_s = _first_due(m, &s.chosen)
    if m.now_s < s.next_due_s:
        return
    # First apply everything that changes the pool, so that all columns use the same one.
    begin = s.next_look
    while passed < size and allowed > 0:
        i = s.next_look
        if m.due_s[column[i]] <= m.now_s:
            _expire(m, &m.columns[column[i]])
            allowed -= 1
        s.next_look = i + 1 if i + 1 < size else 0
        passed += 1
    if lag_due(&m.pool.lag) or (lag_any(&m.pool.lag) and m.pool.due_s <= m.now_s):
        _refresh_pool(m)
    i = begin
    while passed > 0:
        if m.due_s[column[i]] <= m.now_s:
            _look_at(m, column[i])
        i = i + 1 if i + 1 < size else 0
        passed -= 1


cdef double model_quantile(Model *m, ColumnSet *s, double p_t) noexcept nogil:
    cdef CachedQuantile *entry
    cdef int i
    model_settle(m, s)
    for i in range(CACHED_PERCENTILES):
        entry = &s.cache[i]
        if entry.p_t == p_t:
            break
    else:
        entry = &s.cache[s.next_entry]
        s.next_entry = (s.next_entry + 1) % CACHED_PERCENTILES
        entry.p_t = p_t
        entry.target = log(p_t / 100.0)
        entry.bucket = -1
        entry.matrix_version = 0
    if entry.matrix_version != m.matrix.version:
        entry.x_s = matrix_search(&m.matrix, &s.chosen, entry.target, &entry.bucket)
        entry.matrix_version = m.matrix.version
    return entry.x_s


# Samples.

cdef void model_advance(Model *m, double now_s, int64_t now_ms) noexcept nogil:
    if now_s > m.now_s:
        m.now_s = now_s
        m.now_ms = now_ms


cdef inline void _departed(Model *m, Column *c, int bucket) noexcept nogil:
    CHECK(m.pool.counts[bucket] > 0)
    m.pool.counts[bucket] -= 1
    m.pool.total -= 1
    m.pool.lag.departed += lag_weight(&m.pool.lag, bucket)
    c.lag.departed += lag_weight(&c.lag, bucket)


cdef inline void _expire(Model *m, Column *c) noexcept nogil:
    cdef int bucket
    histogram_advance(&c.window, m.now_ms)
    while True:
        bucket = histogram_expire_one(&c.window)
        if bucket < 0:
            return
        _departed(m, c, bucket)


cdef int model_observe(Model *m, int32_t column, int bucket) noexcept nogil:
    cdef Column *c = &m.columns[column]
    CHECK(0 <= column)
    CHECK(column < m.capacity)
    CHECK(c.used)
    CHECK(bucket < BUCKET_COUNT)
    _expire(m, c)
    if c.window.count == c.window.max_count:
        _departed(m, c, histogram_drop_one(&c.window))
    if histogram_add(&c.window, bucket) != 0:
        return -1
    c.occupied.first = min(c.occupied.first, bucket)
    c.occupied.last = max(c.occupied.last, bucket)
    c.lag.arrived += lag_weight(&c.lag, bucket)
    m.pool.counts[bucket] += 1
    m.pool.total += 1
    m.pool.lag.arrived += lag_weight(&m.pool.lag, bucket)
    if lag_due(&c.lag):
        model_refresh(m, column)
    return 0


cdef bint model_alive(const Model *m, ColumnSet *s) noexcept nogil:
    cdef int32_t i
    if s.removals == m.removals:
        return True
    for i in range(s.chosen.size):
        if m.columns[s.chosen.column[i]].generation != s.generations[i]:
            return False
    s.removals = m.removals
    return True


# Nodes.

cdef bint _grow(Model *m) noexcept nogil:
    """Double the room for columns; False, with nothing changed, if memory ran out."""
    cdef int32_t capacity = m.capacity * 2 if m.capacity else FIRST_CAPACITY
    cdef Column *columns = <Column *>calloc(capacity, sizeof(Column))
    cdef double *due_s = <double *>calloc(capacity, sizeof(double))
    if columns == NULL or due_s == NULL or matrix_resize(&m.matrix, capacity) != 0:
        free(columns)
        free(due_s)
        return False
    if m.capacity > 0:
        memcpy(columns, m.columns, m.capacity * sizeof(Column))
        memcpy(due_s, m.due_s, m.capacity * sizeof(double))
    free(m.columns)
    free(m.due_s)
    m.columns = columns
    m.due_s = due_s
    m.capacity = capacity
    return True


cdef int model_init(Model *m, double prior_mean_s, double prior_weight) noexcept nogil:
    m.now_s = LONG_AGO
    m.matrix.version = 1
    m.pool = <Pool *>calloc(1, sizeof(Pool))
    if m.pool == NULL or not _grow(m):
        return -1
    m.pool.prior_mean_s = prior_mean_s
    m.pool.prior_weight = prior_weight
    _refresh_pool(m)
    return 0


cdef void model_free(Model *m) noexcept nogil:
    cdef int32_t i
    for i in range(m.capacity):
        histogram_free(&m.columns[i].window)
    free(m.columns)
    free(m.due_s)
    matrix_free(&m.matrix)
    free(m.pool)


cdef int32_t model_add_node(Model *m) noexcept nogil:
    cdef int32_t i = 0
    cdef Column *column
    while i < m.capacity and m.columns[i].used:
        i += 1
    if i == m.capacity and (i >= MAX_CAPACITY or not _grow(m)):
        return -1
    column = &m.columns[i]
    if histogram_init(&column.window, m.max_count, m.max_age_ms) != 0:
        return -1
    column.used = True
    column.occupied.first = BUCKET_COUNT
    column.occupied.last = -1
    # Wide tasks give all nodes a sample at once: with the same limits all columns would become due
    # in the same task. Multiples of the golden ratio spread them evenly.
    column.patience = 1.0 - 0.5 * (i * GOLDEN - floor(i * GOLDEN))
    model_refresh(m, i)
    return i


cdef void model_remove_node(Model *m, int32_t column) noexcept nogil:
    cdef Column *c = &m.columns[column]
    cdef int b
    CHECK(0 <= column)
    CHECK(column < m.capacity)
    CHECK(c.used)
    for b in range(BUCKET_COUNT):
        m.pool.counts[b] -= c.window.counts[b]
    m.pool.total -= c.window.count
    if c.window.count > 0:
        lag_force(&m.pool.lag)
    histogram_free(&c.window)
    c.used = False
    c.generation += 1
    m.removals += 1

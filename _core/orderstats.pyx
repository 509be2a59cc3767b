"""Order statistics of unloaded response times over any set of nodes (DSSP Eqs. 2-6).

    G(t) = product of F_m(t) over the set        x_u = G^-1(p_t / 100)        t_Q = x_t - x_u

Each node has a column of float32 log F in one matrix with a row for each bucket: G at a bucket's
upper bound is the sum along a row. The search for x_u starts at the previous answer, usually two
row sums away from the new one. docs/deadlines.md has the model and its errors.

This file is compiled with -ffast-math, for which NaN and infinity do not exist: log 0 is a finite
floor, and checks of what comes from outside are called from _core.histogram.

Measured: with 16 independent partial sums gcc keeps four vector registers busy; one alone waits for
each addition and takes three times as long. A stride of whole rows of 4 KiB would map a column to
one set of the cache; an odd number of cache lines spreads it.
"""

from libc.math cimport exp, floor, log
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from _core.histogram cimport (
    bucket_edges,
    bucket_middles,
    check_window,
    checked_bucket,
    histogram_add,
    histogram_advance,
    histogram_drop_one,
    histogram_expire_one,
    histogram_free,
    histogram_init,
    is_finite,
    milliseconds,
)

cdef extern from "<stdlib.h>":
    void *aligned_alloc(size_t alignment, size_t size) noexcept nogil

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FIRST_CAPACITY = 16
    MAX_CAPACITY = 1 << 22
    MAX_INTERNED = 1024
    FLOATS_PER_LINE = 16

# log 0. A sum of MAX_CAPACITY of them is still far inside float32.
cdef float LOG_ZERO = -1e4
# F never reaches 1, so that no product claims certainty.
cdef float LOG_ONE = -1e-12
cdef double LONG_AGO = -1e300
cdef double TAIL = 1e-3
cdef double GOLDEN = 0.6180339887498949
# An answer is this close to every point of its bucket.
cdef double ERROR_LIMIT = 1.01


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


cdef inline double _log_g(const Model *m, const ColumnSet *s, int bucket) noexcept nogil:
    """log G at the upper bound of `bucket` (DSSP Eq. 3)."""
    cdef const float *row = m.matrix + <size_t>bucket * m.stride
    CHECK(0 <= bucket)
    CHECK(bucket < BUCKET_COUNT)
    CHECK(s.size > 0)
    CHECK(s.columns[s.size - 1] < m.capacity)
    if s.contiguous:
        return _sum_run(row + s.columns[0], s.size)
    return _sum_gathered(row, s.columns, s.size)


cdef double model_log_g(const Model *m, const ColumnSet *s, int bucket) noexcept nogil:
    return _log_g(m, s, bucket)


# The search.

cdef double model_search(
    const Model *m, const ColumnSet *s, double target, int *start
) noexcept nogil:
    # Invariant once bracketed: log G(low) < target <= log G(high). Bucket -1 stands for G = 0 and
    # BUCKET_COUNT for G = 1.
    cdef int low = -1
    cdef int high = BUCKET_COUNT
    cdef int middle
    cdef int step = 1
    cdef double low_sum = LOG_ZERO * s.size
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
    if entry.matrix_version != m.matrix_version:
        entry.x_s = model_search(m, s, entry.target, &entry.bucket)
        entry.matrix_version = m.matrix_version
    return entry.x_s


# Refreshing. Both levels shrink hazards, not the distribution itself: where many samples are still
# above a bucket its own share decides, where few are, the prior's does. So the level of a tail is
# the node's and its shape beyond the node's samples the pool's (docs/deadlines.md).

cdef double _mean_excess(const Pool *pool, double p, double weight, double prior_s) noexcept nogil:
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
    return (weight * prior_s + excess) / (weight + above)


cdef void _refresh_pool(Model *m) noexcept nogil:
    cdef Pool *pool = m.pool
    cdef double w = m.prior_weight
    cdef double scale = _mean_excess(pool, 0.9, w, m.prior_mean_s)
    scale = _mean_excess(pool, 0.99, w, scale)
    cdef double left = <double>pool.total
    cdef double survival = 1.0
    cdef double low = 0.0  # bucket 0 stands for all that is below it too
    cdef double base
    cdef int b
    pool.tail_bucket = BUCKET_COUNT - 1
    for b in range(BUCKET_COUNT):
        base = 1.0 - exp((low - bucket_edges[b + 1]) / scale)
        low = bucket_edges[b + 1]
        pool.hazard[b] = (pool.counts[b] + w * base) / (left + w)
        left -= pool.counts[b]
        survival *= 1.0 - pool.hazard[b]
        if survival <= TAIL and pool.tail_bucket == BUCKET_COUNT - 1:
            pool.tail_bucket = b
    pool.arrivals = 0
    pool.departures = 0
    pool.due_s = m.now_s + m.max_stale_age_s
    pool.epoch += 1


cdef inline bint _pool_is_stale(const Model *m) noexcept nogil:
    cdef uint64_t changes = max(m.pool.arrivals, m.pool.departures)
    return changes > 0 and (
        changes > m.max_stale_fraction * m.pool.total or m.pool.due_s <= m.now_s
    )


cdef void _refresh_column(Model *m, int32_t column) noexcept nogil:
    cdef Column *c = &m.columns[column]
    cdef const uint32_t *counts = c.window.counts
    cdef const double *hazard = m.pool.hazard
    cdef float *cell = m.matrix + column
    cdef double[BUCKET_COUNT] survival
    cdef double w = m.prior_weight
    cdef double left = c.window.count + w
    cdef double above = 1.0
    cdef double value
    cdef int b
    CHECK(0 <= column)
    CHECK(column < m.capacity)
    CHECK(c.used)
    for b in range(BUCKET_COUNT):
        above *= 1.0 - (counts[b] + w * hazard[b]) / left
        left -= counts[b]
        survival[b] = above
    c.tail_bucket = BUCKET_COUNT - 1
    for b in range(BUCKET_COUNT):
        above = survival[b]
        if above < 1e-5:  # log1p(-above), exact to float32; also what 1 - above would lose
            value = -above - 0.5 * above * above
        elif above < 1.0:
            value = log(1.0 - above)
        else:
            value = LOG_ZERO
        cell[<size_t>b * m.stride] = <float>min(value, LOG_ONE)
    for b in range(BUCKET_COUNT):
        if survival[b] <= TAIL:
            c.tail_bucket = b
            break
    c.arrivals = 0
    c.departures = 0
    c.pool_epoch = m.pool.epoch
    m.matrix_version += 1


cdef void _look_at(Model *m, int32_t column) noexcept nogil:
    """Refresh a column that is due, unless nothing it depends on has changed."""
    cdef Column *c = &m.columns[column]
    if c.arrivals > 0 or c.departures > 0 or c.pool_epoch != m.pool.epoch:
        _refresh_column(m, column)
    m.due_s[column] = m.now_s + c.patience * m.max_stale_age_s


cdef double _first_due(const Model *m, const ColumnSet *s) noexcept nogil:
    cdef double first = m.due_s[s.columns[0]]
    cdef const double *due = m.due_s + s.columns[0]
    cdef int32_t i
    if s.contiguous:
        for i in range(s.size):
            first = min(first, due[i])
    else:
        for i in range(s.size):
            first = min(first, m.due_s[s.columns[i]])
    return first


cdef void model_settle(Model *m, ColumnSet *s) noexcept nogil:
    cdef int32_t i
    if s.due_version == m.due_version and m.now_s < s.next_due_s:
        return
    s.next_due_s = _first_due(m, s)
    if s.next_due_s <= m.now_s:
        # First everything that changes the pool, so that all columns see the same one.
        for i in range(s.size):
            if m.due_s[s.columns[i]] <= m.now_s:
                _expire(m, &m.columns[s.columns[i]])
        if _pool_is_stale(m):
            _refresh_pool(m)
        for i in range(s.size):
            if m.due_s[s.columns[i]] <= m.now_s:
                _look_at(m, s.columns[i])
        s.next_due_s = _first_due(m, s)
    s.due_version = m.due_version


# Samples.

cdef void model_advance(Model *m, double now_s, int64_t now_ms) noexcept nogil:
    if now_s > m.now_s:
        m.now_s = now_s
        m.now_ms = now_ms


cdef inline void _departed(Model *m, Column *c, int bucket) noexcept nogil:
    CHECK(m.pool.counts[bucket] > 0)
    m.pool.counts[bucket] -= 1
    m.pool.total -= 1
    m.pool.departures += 1
    c.departures += 1


cdef inline void _expire(Model *m, Column *c) noexcept nogil:
    cdef int bucket
    histogram_advance(&c.window, m.now_ms)
    while True:
        bucket = histogram_expire_one(&c.window)
        if bucket < 0:
            return
        _departed(m, c, bucket)


cdef void model_make_due(Model *m, int32_t column) noexcept nogil:
    m.due_s[column] = LONG_AGO
    m.due_version += 1


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
    c.arrivals += 1
    m.pool.counts[bucket] += 1
    m.pool.total += 1
    m.pool.arrivals += 1
    if bucket > m.pool.tail_bucket:
        m.pool.due_s = LONG_AGO
    if (
        bucket > c.tail_bucket
        or max(c.arrivals, c.departures) > c.patience * m.max_stale_fraction * c.window.count
    ):
        model_make_due(m, column)
    return 0


cdef bint model_alive(const Model *m, ColumnSet *s) noexcept nogil:
    cdef int32_t i
    if s.removals == m.removals:
        return True
    for i in range(s.size):
        if m.columns[s.columns[i]].generation != s.generations[i]:
            return False
    s.removals = m.removals
    return True


# Nodes.

cdef bint _grow(Model *m) noexcept nogil:
    """Make room for twice as many columns; False, nothing changed, if memory ran out."""
    cdef int32_t capacity = m.capacity * 2 if m.capacity else FIRST_CAPACITY
    cdef int32_t stride = capacity + FLOATS_PER_LINE  # an odd number of cache lines from 32 on
    cdef size_t size = <size_t>stride * BUCKET_COUNT * sizeof(float)
    cdef Column *columns = <Column *>calloc(capacity, sizeof(Column))
    cdef double *due_s = <double *>calloc(capacity, sizeof(double))
    cdef float *matrix = <float *>aligned_alloc(64, size)
    cdef int b
    if columns == NULL or due_s == NULL or matrix == NULL:
        free(columns)
        free(due_s)
        free(matrix)
        return False
    memset(matrix, 0, size)
    if m.capacity > 0:
        memcpy(columns, m.columns, m.capacity * sizeof(Column))
        memcpy(due_s, m.due_s, m.capacity * sizeof(double))
        for b in range(BUCKET_COUNT):
            memcpy(
                matrix + <size_t>b * stride,
                m.matrix + <size_t>b * m.stride,
                m.capacity * sizeof(float),
            )
    free(m.columns)
    free(m.due_s)
    free(m.matrix)
    m.columns = columns
    m.due_s = due_s
    m.matrix = matrix
    m.capacity = capacity
    m.stride = stride
    return True


cdef uint64_t _models = 0


def task_percentile(double p_q, int k_q):
    """The percentile (percent) that each of `k_q` tasks must meet for the query to meet `p_q`.

    DSSP Eq. 2: p_t = 100 (p_q / 100)^(1 / k_q). ValueError unless 0 < p_q < 100 and k_q >= 1.
    """
    _check_percentile(p_q)
    if k_q < 1:
        raise ValueError(f"fanout {k_q} is not positive")
    return 100.0 * (p_q / 100.0) ** (1.0 / k_q)


cdef int _check_percentile(double p) except -1:
    if not is_finite(p) or not 0.0 < p < 100.0:
        raise ValueError(f"percentile {p!r} is not between 0 and 100")
    return 0


cdef class NodeSet:
    """A set of an `UnloadedModel`'s nodes, made by its `node_set`; remembers its last answers."""

    def __init__(self):
        raise TypeError("a NodeSet is made by UnloadedModel.node_set")

    def __dealloc__(self):
        free(self.s.columns)
        free(self.s.generations)

    def __len__(self):
        return self.s.size

    @property
    def columns(self):
        """The set's columns, ascending."""
        cdef int32_t i
        return tuple([self.s.columns[i] for i in range(self.s.size)])


cdef NodeSet _new_set(UnloadedModel model, tuple columns):
    cdef NodeSet nodes = NodeSet.__new__(NodeSet)
    cdef int32_t size = len(columns)
    cdef int32_t i
    nodes.owner = model.identity
    nodes.s.columns = <int32_t *>malloc(size * sizeof(int32_t))
    nodes.s.generations = <uint32_t *>malloc(size * sizeof(uint32_t))
    if nodes.s.columns == NULL or nodes.s.generations == NULL:
        raise MemoryError
    for i in range(size):
        nodes.s.columns[i] = model.checked_column(columns[i])
        nodes.s.generations[i] = model.m.columns[nodes.s.columns[i]].generation
        if i > 0 and nodes.s.columns[i] == nodes.s.columns[i - 1]:
            raise ValueError(f"column {columns[i]} stands twice in the set")
    nodes.s.size = size
    nodes.s.contiguous = nodes.s.columns[size - 1] - nodes.s.columns[0] == size - 1
    nodes.s.next_due_s = LONG_AGO
    nodes.s.removals = model.m.removals
    return nodes


cdef class UnloadedModel:
    """Unloaded response times of an IAD's nodes, and the deadlines that follow from them.

    A node is a column. Its distribution is its own window (`max_count` samples, `max_age_s`
    seconds), shrunk with the weight of `prior_weight` samples to the pool of all nodes' windows,
    which is itself shrunk to an exponential: a new node starts as the pool, a new pool with the
    mean `prior_mean_s`.

    A column may lag behind its window by the share `max_stale_fraction` of its samples, and for
    `max_stale_age_s`; never behind a sample in its tail. Times are seconds on one monotonic clock;
    a time before an earlier one counts as that earlier one.
    """

    def __cinit__(
        self,
        *,
        max_count=10_000,
        double max_age_s=600.0,
        double prior_mean_s=0.1,
        double prior_weight=10.0,
        double max_stale_fraction=0.005,
        double max_stale_age_s=1.0,
    ):
        global _models
        check_window(max_count, max_age_s)
        _check_between("prior_mean_s", prior_mean_s, 1e-5, 600.0)
        _check_between("prior_weight", prior_weight, 1e-3, 1e9)
        _check_between("max_stale_fraction", max_stale_fraction, 0.0, 1.0)
        _check_between("max_stale_age_s", max_stale_age_s, 0.0, 1e9)
        self.m.max_count = max_count
        self.m.max_age_ms = <int64_t>(max_age_s * 1000.0)
        self.m.prior_mean_s = prior_mean_s
        self.m.prior_weight = prior_weight
        self.m.max_stale_fraction = max_stale_fraction
        self.m.max_stale_age_s = max_stale_age_s
        self.m.now_s = LONG_AGO
        self.m.due_version = 1
        self.m.matrix_version = 1
        self.m.pool = <Pool *>calloc(1, sizeof(Pool))
        if self.m.pool == NULL or not _grow(&self.m):
            raise MemoryError
        _refresh_pool(&self.m)
        _models += 1
        self.identity = _models
        self.interned = {}

    def __dealloc__(self):
        cdef int32_t i
        if self.m.columns != NULL:
            for i in range(self.m.capacity):
                histogram_free(&self.m.columns[i].window)
        free(self.m.columns)
        free(self.m.due_s)
        free(self.m.matrix)
        free(self.m.pool)

    cdef int32_t checked_column(self, object column) except -1:
        if not isinstance(column, int):
            raise TypeError(f"column must be an int, not {type(column).__name__}")
        if not 0 <= column < self.m.capacity or not self.m.columns[<int32_t>column].used:
            raise ValueError(f"no node has column {column}")
        return column

    cdef int checked_set(self, NodeSet nodes, double p_t) except -1:
        _check_percentile(p_t)
        if nodes.owner != self.identity:
            raise ValueError("the node set belongs to another model")
        if not model_alive(&self.m, &nodes.s):
            raise ValueError("the node set holds a removed node")
        return 0

    cdef int advance(self, double now_s) except -1:
        model_advance(&self.m, now_s, milliseconds(now_s))
        return 0

    def add_node(self):
        """Add a node without samples; its column, the lowest free one. O(columns)."""
        cdef int32_t i = 0
        cdef Column *column
        while i < self.m.capacity and self.m.columns[i].used:
            i += 1
        if i == self.m.capacity and (i >= MAX_CAPACITY or not _grow(&self.m)):
            raise MemoryError
        column = &self.m.columns[i]
        if histogram_init(&column.window, self.m.max_count, self.m.max_age_ms) != 0:
            raise MemoryError
        column.used = True
        column.arrivals = 0
        column.departures = 0
        # Wide tasks give all nodes a sample at once: with the same limits all columns would become
        # due in the same call. Multiples of the golden ratio spread them evenly.
        column.patience = 1.0 - 0.5 * (i * GOLDEN - floor(i * GOLDEN))
        column.tail_bucket = 0
        column.pool_epoch = 0  # before every epoch: refreshed before it is first read
        model_make_due(&self.m, i)
        return i

    def remove_node(self, column):
        """Forget a node and its samples. Sets that hold it become invalid. ValueError. O(BUCKETS).
        """
        cdef int32_t i = self.checked_column(column)
        cdef Column *c = &self.m.columns[i]
        cdef int b
        for b in range(BUCKET_COUNT):
            self.m.pool.counts[b] -= c.window.counts[b]
        self.m.pool.total -= c.window.count
        self.m.pool.departures += c.window.count
        histogram_free(&c.window)
        c.used = False
        c.generation += 1
        self.m.removals += 1

    def observe(self, column, double value_s, double now_s):
        """Add an unloaded response time (seconds) of a node, measured until `now_s`.

        ValueError for an unknown column and a negative or non-finite value or time, nothing changed.
        Amortised O(1).
        """
        cdef int32_t i = self.checked_column(column)
        cdef int64_t now_ms = milliseconds(now_s)
        cdef int bucket = checked_bucket(&self.m.columns[i].window, value_s)
        model_advance(&self.m, now_s, now_ms)
        if model_observe(&self.m, i, bucket) != 0:
            raise MemoryError

    def node_count(self, column):
        """Samples in a node's window when it was last touched. ValueError for an unknown column."""
        return self.m.columns[self.checked_column(column)].window.count

    def node_set(self, columns):
        """The set of these columns, the same object for the same columns while in use.

        ValueError for an empty set, duplicates and unknown columns. The last 1,024 sets asked for
        are kept. O(k log k).
        """
        cdef tuple key = tuple(sorted(columns))
        cdef NodeSet nodes
        if not key:
            raise ValueError("a node set needs at least one node")
        nodes = self.interned.pop(key, None)
        if nodes is None or not model_alive(&self.m, &nodes.s):
            nodes = _new_set(self, key)
            if len(self.interned) >= MAX_INTERNED:
                del self.interned[next(iter(self.interned))]
        self.interned[key] = nodes
        return nodes

    def quantile(self, NodeSet nodes not None, double p_t, double now_s):
        """x_u in seconds: all nodes of the set answer unloaded within it with `p_t` percent.

        DSSP Eqs. 3-4. MAX_S if that is beyond the range. ValueError for a set with a removed node
        or of another model and unless 0 < p_t < 100. O(1) if nothing changed, else O(k) for k
        nodes, at most O(k log BUCKETS), and O(BUCKETS) for each column that is due.
        """
        self.checked_set(nodes, p_t)
        self.advance(now_s)
        return model_quantile(&self.m, &nodes.s, p_t)

    def queueing_deadline(
        self, NodeSet nodes not None, double p_t, double x_t_s, double now_s
    ):
        """t_Q in seconds (DSSP Eq. 5): how long subtasks may queue for the task to meet its budget.

        Negative if the budget (`p_t` percent within `x_t_s` seconds) cannot be met even unloaded.
        Errors and complexity as of `quantile`.
        """
        if not is_finite(x_t_s):
            raise ValueError(f"x_t = {x_t_s!r} s is not a duration")
        self.checked_set(nodes, p_t)
        self.advance(now_s)
        return x_t_s - model_quantile(&self.m, &nodes.s, p_t)

    @staticmethod
    def samples_needed(double p_t, int k):
        """The samples per node below which the tail that a task of fanout `k` needs is extrapolated.

        1 / (1 - (p_t / 100)^(1 / k)). ValueError unless 0 < p_t < 100 and k >= 1.
        """
        _check_percentile(p_t)
        if k < 1:
            raise ValueError(f"fanout {k} is not positive")
        return 1.0 / (1.0 - (p_t / 100.0) ** (1.0 / k))

    def min_count(self, NodeSet nodes not None):
        """The least number of samples that a node of the set has. ValueError as of `quantile`."""
        cdef uint32_t least = 0xFFFFFFFF
        cdef int32_t i
        self.checked_set(nodes, 50.0)
        for i in range(nodes.s.size):
            least = min(least, self.m.columns[nodes.s.columns[i]].window.count)
        return least


cdef int _check_between(str name, double value, double low, double high) except -1:
    if not is_finite(value) or not low <= value <= high:
        raise ValueError(f"{name} = {value!r} is not in {low!r}..{high!r}")
    return 0

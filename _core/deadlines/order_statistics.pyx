"""Order statistics of unloaded response times over any set of nodes (DSSP Eqs. 2-6).

    G(t) = product of F_m(t) over the set        x_u = G^-1(p_t / 100)        t_Q = x_t - x_u

The Python classes over `_core.deadlines.unloaded`, which validate their arguments.
docs/understand/deadlines.md has the model and its errors.
"""

from libc.math cimport expm1, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from _core.deadlines.histogram cimport check_window, checked_bucket, is_finite, milliseconds
from _core.deadlines.unloaded cimport (
    model_add_node,
    model_advance,
    model_alive,
    model_free,
    model_init,
    model_observe,
    model_quantile,
    model_remove_node,
)

cdef enum:
    MAX_INTERNED = 1024

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
    """A set of an `UnloadedModel`'s nodes, made by its `node_set`; caches its latest answers."""

    def __init__(self):
        raise TypeError("a NodeSet is made by UnloadedModel.node_set")

    def __dealloc__(self):
        free(self.s.chosen.column)
        free(self.s.generations)

    def __len__(self):
        return self.s.chosen.size

    @property
    def columns(self):
        """The set's columns, ascending."""
        cdef int32_t i
        return tuple([self.s.chosen.column[i] for i in range(self.s.chosen.size)])


cdef NodeSet _new_set(UnloadedModel model, tuple columns):
    cdef NodeSet nodes = NodeSet.__new__(NodeSet)
    cdef int32_t size = len(columns)
    cdef int32_t i
    nodes.owner = model.identity
    nodes.s.chosen.column = <int32_t *>malloc(size * sizeof(int32_t))
    nodes.s.generations = <uint32_t *>malloc(size * sizeof(uint32_t))
    if nodes.s.chosen.column == NULL or nodes.s.generations == NULL:
        raise MemoryError
    for i in range(size):
        nodes.s.chosen.column[i] = model.checked_column(columns[i])
        nodes.s.generations[i] = model.m.columns[nodes.s.chosen.column[i]].generation
        if i > 0 and nodes.s.chosen.column[i] == nodes.s.chosen.column[i - 1]:
            raise ValueError(f"column {columns[i]} stands twice in the set")
    nodes.s.chosen.size = size
    nodes.s.chosen.contiguous = (
        nodes.s.chosen.column[size - 1] - nodes.s.chosen.column[0] == size - 1
    )
    nodes.s.next_due_s = -1e300
    nodes.s.removals = model.m.removals
    return nodes


cdef class UnloadedModel:
    """Unloaded response times of an IAD's nodes, and the deadlines that follow from them.

    A node is a column. Its distribution is its own window (`max_count` samples, `max_age_s`
    seconds), shrunk with the weight of `prior_weight` samples to the pool of all nodes' windows,
    which is itself shrunk to an exponential: a new node starts as the pool, a new pool with the
    mean `prior_mean_s`.

    A column may lag behind its window by `max_stale_errors` of the window's standard errors, but
    never behind a sample in its tail; it may lag behind other nodes' samples and expired samples
    for `max_stale_age_s`, after which a set of more than 16 nodes takes up to 16 calls to refresh.
    Times are seconds on one monotonic clock; a time that goes back counts as the latest one.
    """

    def __cinit__(
        self,
        *,
        max_count=10_000,
        double max_age_s=600.0,
        double prior_mean_s=0.1,
        double prior_weight=10.0,
        double max_stale_errors=1.0,
        double max_stale_age_s=1.0,
    ):
        global _models
        check_window(max_count, max_age_s)
        _check_between("prior_mean_s", prior_mean_s, 1e-5, 600.0)
        _check_between("prior_weight", prior_weight, 1e-3, 1e9)
        _check_between("max_stale_errors", max_stale_errors, 0.0, 1e9)
        _check_between("max_stale_age_s", max_stale_age_s, 0.0, 1e9)
        self.m.max_count = max_count
        self.m.max_age_ms = <int64_t>(max_age_s * 1000.0)
        self.m.max_stale_errors = max_stale_errors
        self.m.max_stale_age_s = max_stale_age_s
        if model_init(&self.m, prior_mean_s, prior_weight) != 0:
            raise MemoryError
        _models += 1
        self.identity = _models
        self.interned = {}

    def __dealloc__(self):
        model_free(&self.m)

    cdef int check_own(self) except -1:
        if self.lent:
            raise ValueError("a simulation uses the model; others may when it has ended")
        return 0

    cdef int32_t checked_column(self, object column) except -1:
        self.check_own()
        if not isinstance(column, int):
            raise TypeError(f"column must be an int, not {type(column).__name__}")
        if not 0 <= column < self.m.capacity or not self.m.columns[<int32_t>column].used:
            raise ValueError(f"no node has column {column}")
        return column

    cdef int checked_set(self, NodeSet nodes, double p_t) except -1:
        self.check_own()
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
        """Add a node without samples; its column, the lowest free one. O(columns + BUCKETS)."""
        cdef int32_t i
        self.check_own()
        i = model_add_node(&self.m)
        if i < 0:
            raise MemoryError
        return i

    def remove_node(self, column):
        """Remove a node and its samples. Sets with it become invalid. ValueError. O(BUCKETS).
        """
        model_remove_node(&self.m, self.checked_column(column))

    def observe(self, column, double value_s, double now_s):
        """Add an unloaded response time (seconds) of a node, measured until `now_s`.

        ValueError for an unknown column and a negative or non-finite value or time, nothing changed.
        O(1); O(BUCKETS) when the column lags too far behind, about once in sqrt(samples) / 4.
        """
        cdef int32_t i = self.checked_column(column)
        cdef int64_t now_ms = milliseconds(now_s)
        cdef int bucket = checked_bucket(&self.m.columns[i].window, value_s)
        model_advance(&self.m, now_s, now_ms)
        if model_observe(&self.m, i, bucket) != 0:
            raise MemoryError

    def node_count(self, column):
        """Samples in a node's window as of its last update. ValueError for an unknown column."""
        return self.m.columns[self.checked_column(column)].window.count

    def node_set(self, columns):
        """The set of these columns, the same object for the same columns while in use.

        ValueError for an empty set, duplicates and unknown columns. The 1,024 most recently used
        sets are kept. O(k log k).
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
        """x_u in seconds: without load, all nodes of the set answer within it in `p_t` percent.

        DSSP Eqs. 3-4. MAX_S if that is beyond the range. ValueError for a set with a removed node
        or of another model and unless 0 < p_t < 100. O(1) if nothing changed, else O(k) for k
        nodes, at most O(k log BUCKETS), and O(BUCKETS) for each column that is due by age, which
        are at most 16 + k / 16 a call.
        """
        self.checked_set(nodes, p_t)
        self.advance(now_s)
        return model_quantile(&self.m, &nodes.s, p_t)

    @staticmethod
    def samples_needed(double p_t, int k):
        """The samples per node below which the tail that a task of fanout `k` needs is extrapolated.

        1 / (1 - (p_t / 100)^(1 / k)). ValueError unless 0 < p_t < 100 and k >= 1.
        """
        _check_percentile(p_t)
        if k < 1:
            raise ValueError(f"fanout {k} is not positive")
        # In a double, 1 - the root may be 0.
        return -1.0 / expm1(log(p_t / 100.0) / k)

    def min_count(self, NodeSet nodes not None):
        """The minimum number of samples over the set's nodes. ValueError as for `quantile`."""
        cdef uint32_t least = 0xFFFFFFFF
        cdef int32_t i
        self.checked_set(nodes, 50.0)
        for i in range(nodes.s.chosen.size):
            least = min(least, self.m.columns[nodes.s.chosen.column[i]].window.count)
        return least


cdef int _check_between(str name, double value, double low, double high) except -1:
    if not is_finite(value) or not low <= value <= high:
        raise ValueError(f"{name} = {value!r} is not in {low!r}..{high!r}")
    return 0

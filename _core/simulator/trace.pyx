"""Workload trace, independent of the policy: queries in order of arrival, tasks and subtasks.

One trace serves every policy and every seed of service times. Input arrays are copied and validated
once, here; the simulators index them without bounds checks.
"""

from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    MAX_PODS = 1 << 16
    MAX_ITEMS = 0x7FFFFFFF

LATEST_S = 1e12
DEFAULT_PERCENTILE = 99.0


# Copies of what comes from outside.

cdef void *_room(int64_t count, size_t size) except NULL:
    cdef void *memory = malloc(max(count, 1) * size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef int _same_length(str name, int64_t found, str unit, int64_t wanted) except -1:
    if found != wanted:
        raise ValueError(f"{name} has {found} values for {wanted} {unit}")
    return 0


cdef int32_t *_int32(const int32_t[::1] source) except NULL:
    cdef int32_t *copy = <int32_t *>_room(source.shape[0], sizeof(int32_t))
    if source.shape[0] > 0:
        memcpy(copy, &source[0], source.shape[0] * sizeof(int32_t))
    return copy


cdef int64_t *_int64(const int64_t[::1] source) except NULL:
    cdef int64_t *copy = <int64_t *>_room(source.shape[0], sizeof(int64_t))
    if source.shape[0] > 0:
        memcpy(copy, &source[0], source.shape[0] * sizeof(int64_t))
    return copy


cdef double *_float64(const double[::1] source) except NULL:
    cdef double *copy = <double *>_room(source.shape[0], sizeof(double))
    if source.shape[0] > 0:
        memcpy(copy, &source[0], source.shape[0] * sizeof(double))
    return copy


# Checks, each on a copy.

cdef int _check_nodes(TraceData *t) except -1:
    """Check node_iad and node_pods; fill in iads and iad_first."""
    cdef int32_t node
    cdef int32_t iad = -1
    for node in range(t.nodes):
        if not iad <= t.node_iad[node] <= iad + 1 or t.node_iad[node] < 0:
            raise ValueError(
                f"node_iad must ascend from 0 without gaps, but node {node} has {t.node_iad[node]}"
            )
        iad = t.node_iad[node]
        if not 1 <= t.node_pods[node] <= MAX_PODS:
            raise ValueError(f"node {node} has {t.node_pods[node]} pods, not 1..{MAX_PODS}")
    t.iads = iad + 1
    t.iad_first = <int32_t *>_room(t.iads + 1, sizeof(int32_t))
    for node in range(t.nodes - 1, -1, -1):
        t.iad_first[t.node_iad[node]] = node
    t.iad_first[t.iads] = t.nodes
    return 0


cdef int _check_sets(TraceData *t, int64_t members) except -1:
    cdef int64_t *last_set = <int64_t *>calloc(t.nodes, sizeof(int64_t))  # set + 1
    cdef int64_t s
    cdef int64_t i
    cdef int32_t node
    if last_set == NULL:
        raise MemoryError
    try:
        if t.set_first[0] != 0 or t.set_first[t.sets] != members:
            raise ValueError(f"set_first must go from 0 to the {members} values of set_nodes")
        for s in range(t.sets):
            if not t.set_first[s] < t.set_first[s + 1] <= members:
                raise ValueError(f"set {s} has no node, or set_first does not ascend")
            for i in range(t.set_first[s], t.set_first[s + 1]):
                node = t.set_nodes[i]
                if not 0 <= node < t.nodes:
                    raise ValueError(f"set {s} holds node {node} of {t.nodes}")
                if last_set[node] == s + 1:
                    raise ValueError(f"set {s} holds node {node} twice")
                if t.node_iad[node] != t.node_iad[t.set_nodes[t.set_first[s]]]:
                    raise ValueError(f"set {s} holds nodes of several IADs")
                last_set[node] = s + 1
    finally:
        free(last_set)
    return 0


cdef int _check_queries(const TraceData *t) except -1:
    cdef double before = -LATEST_S
    cdef int64_t q
    for q in range(t.queries):
        if not before <= t.query_arrived_s[q] <= LATEST_S:
            raise ValueError(
                f"queries must arrive in order, but query {q} at {t.query_arrived_s[q]!r} s"
            )
        before = t.query_arrived_s[q]
        if t.query_class[q] < 0:
            raise ValueError(f"query {q} has class {t.query_class[q]}")
        if t.query_scheduler != NULL and not 0 <= t.query_scheduler[q] < MAX_SCHEDULERS:
            raise ValueError(f"query {q} has scheduler {t.query_scheduler[q]}")
        if t.query_percentile != NULL and not 0.0 < t.query_percentile[q] < 100.0:
            raise ValueError(f"query {q} has percentile {t.query_percentile[q]!r}, not 0..100")
    return 0


cdef int _check_places(const TraceData *t) except -1:
    """Check where tasks belong and go to."""
    cdef int64_t i
    cdef int64_t size
    cdef int64_t query = -1
    for i in range(t.tasks):
        if not query <= t.task_query[i] <= query + 1 or t.task_query[i] < 0:
            raise ValueError(
                f"task_query must ascend from 0 without gaps, but task {i} has {t.task_query[i]}"
            )
        query = t.task_query[i]
        if query >= t.queries:
            raise ValueError(f"task {i} belongs to query {query} of {t.queries}")
        if not 0 <= t.task_set[i] < t.sets:
            raise ValueError(f"task {i} goes to set {t.task_set[i]} of {t.sets}")
        size = t.set_first[t.task_set[i] + 1] - t.set_first[t.task_set[i]]
        if not 1 <= t.task_size[i] <= size:
            raise ValueError(f"task {i} goes to {t.task_size[i]} nodes of a set of {size}")
    if query != t.queries - 1:
        raise ValueError(f"query {query + 1} has no task")
    return 0


cdef int _check_times(const TraceData *t) except -1:
    cdef int64_t i
    cdef double arrived_s
    for i in range(t.tasks):
        arrived_s = t.query_arrived_s[t.task_query[i]]
        if not arrived_s <= t.task_enqueued_s[i] <= LATEST_S:
            raise ValueError(
                f"task {i} is enqueued at {t.task_enqueued_s[i]!r} s, its query arrives at"
                f" {arrived_s!r} s"
            )
        if not 0.0 < t.task_budget_s[i] <= LATEST_S:
            raise ValueError(f"task {i} has a budget of {t.task_budget_s[i]!r} s")
        if not 0.0 < t.task_percentile[i] < 100.0:
            raise ValueError(f"task {i} has percentile {t.task_percentile[i]!r}, not 0..100")
        if not 0.0 <= t.task_after_s[i] <= LATEST_S:
            raise ValueError(f"task {i} takes {t.task_after_s[i]!r} s afterwards")
        if t.task_window_s != NULL and not 0.0 <= t.task_window_s[i] <= LATEST_S:
            raise ValueError(f"task {i} asks for a window of {t.task_window_s[i]!r} s")
    return 0


cdef int _number_subtasks(TraceData *t) except -1:
    cdef int64_t i
    t.task_first = <int64_t *>_room(t.tasks + 1, sizeof(int64_t))
    t.task_first[0] = 0
    for i in range(t.tasks):
        t.task_first[i + 1] = t.task_first[i] + t.task_size[i]
    return 0


# Order.

cdef struct Timed:
    double at_s
    int32_t task


cdef int _compare(const void *a, const void *b) noexcept nogil:
    cdef const Timed *x = <const Timed *>a
    cdef const Timed *y = <const Timed *>b
    if x.at_s != y.at_s:
        return 1 if x.at_s > y.at_s else -1
    return (x.task > y.task) - (x.task < y.task)


cdef bint _in_order(const TraceData *t, const int32_t *tasks, int64_t count) noexcept nogil:
    """Whether ascending tasks are in order of enqueueing as they are."""
    cdef int64_t i
    for i in range(1, count):
        if t.task_enqueued_s[tasks[i]] < t.task_enqueued_s[tasks[i - 1]]:
            return False
    return True


cdef int sort_by_enqueueing(const TraceData *t, int32_t *tasks, int64_t count) noexcept nogil:
    cdef Timed *timed
    cdef int64_t i
    if _in_order(t, tasks, count):
        return 0
    timed = <Timed *>malloc(count * sizeof(Timed))
    if timed == NULL:
        return -1
    for i in range(count):
        CHECK(0 <= tasks[i])
        CHECK(tasks[i] < t.tasks)
        timed[i].at_s = t.task_enqueued_s[tasks[i]]
        timed[i].task = tasks[i]
    qsort(timed, count, sizeof(Timed), _compare)
    for i in range(count):
        tasks[i] = timed[i].task
    free(timed)
    return 0


cdef class Trace:
    """A fleet's workload, independent of the policy. All times are seconds on one clock.

    | argument | values | meaning |
    |---|---|---|
    | `node_iad` | int32 a node | its IAD, ascending from 0 without gaps |
    | `node_pods` | int32 a node | its pods, at least 1 |
    | `set_first` | int64 a set, and one | set s is `set_nodes[set_first[s]:set_first[s + 1]]` |
    | `set_nodes` | int32 | at least one node a set, all distinct, all of one IAD |
    | `task_set`, `task_size` | int32 a task | it goes to the first `task_size` nodes of the set |
    | `query_arrived_s` | float64 a query | ascending |
    | `query_class` | int32 a query | not negative |
    | `task_query` | int32 a task | ascending; each query has at least one task |
    | `task_enqueued_s` | float64 a task | when its subtasks are enqueued, not before the arrival |
    | `task_budget_s` | float64 a task | x_t > 0 |
    | `task_percentile` | float64 a task | p_t in percent |
    | `task_after_s` | float64 a task | added to its last result before the query sees it |
    | `task_window_s` | float64 a task, optional | the window it asks for: its size |
    | `query_scheduler` | int32 a query, optional | the query scheduler that it comes to, else 0 |
    | `query_percentile` | float64 a query, optional | p_q in percent, else 99 |

    The buffers are copied. ValueError for an invalid one. Subtasks are numbered task by
    task, in the order of the task's set. O(nodes + sets + tasks) time and memory, not O(subtasks).
    """

    def __init__(
        self,
        *,
        const int32_t[::1] node_iad not None,
        const int32_t[::1] node_pods not None,
        const int64_t[::1] set_first not None,
        const int32_t[::1] set_nodes not None,
        const int32_t[::1] task_set not None,
        const int32_t[::1] task_size not None,
        const double[::1] query_arrived_s not None,
        const int32_t[::1] query_class not None,
        const int32_t[::1] task_query not None,
        const double[::1] task_enqueued_s not None,
        const double[::1] task_budget_s not None,
        const double[::1] task_percentile not None,
        const double[::1] task_after_s not None,
        const double[::1] task_window_s=None,
        const int32_t[::1] query_scheduler=None,
        const double[::1] query_percentile=None,
    ):
        cdef TraceData *t = &self.data
        if t.node_iad != NULL:
            raise TypeError("a trace is filled only once")
        for name, count in (
            ("nodes", node_iad.shape[0]),
            ("sets", set_first.shape[0] - 1),
            ("queries", query_arrived_s.shape[0]),
            ("tasks", task_query.shape[0]),
        ):
            if not 1 <= count <= MAX_ITEMS:
                raise ValueError(f"a trace of {max(count, 0)} {name}; it takes 1..{MAX_ITEMS}")
        t.nodes = <int32_t>node_iad.shape[0]
        t.sets = set_first.shape[0] - 1
        t.queries = query_arrived_s.shape[0]
        t.tasks = task_query.shape[0]
        _same_length("node_pods", node_pods.shape[0], "nodes", t.nodes)
        _same_length("query_class", query_class.shape[0], "queries", t.queries)
        _same_length("task_set", task_set.shape[0], "tasks", t.tasks)
        _same_length("task_size", task_size.shape[0], "tasks", t.tasks)
        _same_length("task_enqueued_s", task_enqueued_s.shape[0], "tasks", t.tasks)
        _same_length("task_budget_s", task_budget_s.shape[0], "tasks", t.tasks)
        _same_length("task_percentile", task_percentile.shape[0], "tasks", t.tasks)
        _same_length("task_after_s", task_after_s.shape[0], "tasks", t.tasks)
        t.node_iad = _int32(node_iad)
        t.node_pods = _int32(node_pods)
        t.set_first = _int64(set_first)
        t.set_nodes = _int32(set_nodes)
        t.query_arrived_s = _float64(query_arrived_s)
        t.query_class = _int32(query_class)
        t.task_set = _int32(task_set)
        t.task_size = _int32(task_size)
        t.task_query = _int32(task_query)
        t.task_enqueued_s = _float64(task_enqueued_s)
        t.task_budget_s = _float64(task_budget_s)
        t.task_percentile = _float64(task_percentile)
        t.task_after_s = _float64(task_after_s)
        if task_window_s is not None:
            _same_length("task_window_s", task_window_s.shape[0], "tasks", t.tasks)
            t.task_window_s = _float64(task_window_s)
        if query_scheduler is not None:
            _same_length("query_scheduler", query_scheduler.shape[0], "queries", t.queries)
            t.query_scheduler = _int32(query_scheduler)
        if query_percentile is not None:
            _same_length("query_percentile", query_percentile.shape[0], "queries", t.queries)
            t.query_percentile = _float64(query_percentile)
        _check_nodes(t)
        _check_sets(t, set_nodes.shape[0])
        _check_queries(t)
        _check_places(t)
        _check_times(t)
        _number_subtasks(t)

    def __dealloc__(self):
        cdef TraceData *t = &self.data
        free(t.node_iad)
        free(t.node_pods)
        free(t.iad_first)
        free(t.set_first)
        free(t.set_nodes)
        free(t.query_arrived_s)
        free(t.query_class)
        free(t.query_scheduler)
        free(t.query_percentile)
        free(t.task_set)
        free(t.task_size)
        free(t.task_query)
        free(t.task_enqueued_s)
        free(t.task_budget_s)
        free(t.task_percentile)
        free(t.task_after_s)
        free(t.task_window_s)
        free(t.task_first)

    @property
    def nodes(self):
        """Number of nodes in the fleet."""
        return self.data.nodes

    @property
    def iads(self):
        """Number of IADs."""
        return self.data.iads

    @property
    def queries(self):
        """Number of queries."""
        return self.data.queries

    @property
    def tasks(self):
        """Number of tasks."""
        return self.data.tasks

    @property
    def subtasks(self):
        """Number of subtasks."""
        return 0 if self.data.task_first == NULL else self.data.task_first[self.data.tasks]

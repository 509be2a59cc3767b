"""Queries at their schedulers, with balanced classes: from arrival to end.

As `agent.scheduling.queries.classes`: a class has one SLO and percentile at one scheduler, numbered
by its first query; a query gets its class's advance on arrival, and reports at its end whether it
missed its SLO.
"""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free, malloc

from _core.deadlines.class_advance cimport (
    CLASSES,
    balance_finished,
    balance_init,
    balance_set_class,
    limited_advance_c,
)
from _core.queue.edf cimport edf_free, edf_init, edf_pop, edf_push
from _core.simulator.trace cimport DEFAULT_PERCENTILE

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil


cdef int queries_init(Queries *q, const TraceData *t) noexcept nogil:
    cdef int64_t i
    q.t = t
    q.arrived = 0
    q.first_task = 0
    q.schedulers = 1
    q.balances = NULL
    edf_init(&q.ends)
    q.query = <Query *>calloc(t.queries, sizeof(Query))
    if q.query == NULL:
        return -1
    for i in range(t.tasks):
        q.query[t.task_query[i]].pending += t.task_size[i]
    if t.query_scheduler != NULL:
        for i in range(t.queries):
            q.query[i].scheduler = t.query_scheduler[i]
            q.schedulers = max(q.schedulers, t.query_scheduler[i] + 1)
    q.balances = <Balance *>malloc(q.schedulers * sizeof(Balance))
    if q.balances == NULL:
        return -1
    for i in range(q.schedulers):
        balance_init(&q.balances[i])
    return 0


cdef void queries_free(Queries *q) noexcept nogil:
    edf_free(&q.ends)
    free(q.query)
    free(q.balances)
    q.query = NULL
    q.balances = NULL


cdef int _class_of(Balance *b, double slo_s, double allowed) noexcept nogil:
    """The number of a class, which may be new; -1 if there are too many."""
    cdef int c
    for c in range(b.count):
        if b.classes[c].slo_s == slo_s and b.classes[c].allowed == allowed:
            return c
    if b.count == CLASSES:
        return -1
    balance_set_class(b, b.count, slo_s, allowed)
    return b.count - 1


cdef int queries_arrive(Queries *q) noexcept nogil:
    cdef const TraceData *t = q.t
    cdef Query *query = &q.query[q.arrived]
    cdef Balance *b = &q.balances[query.scheduler]
    cdef double percentile = DEFAULT_PERCENTILE
    CHECK(q.arrived < t.queries)
    if t.query_percentile != NULL:
        percentile = t.query_percentile[q.arrived]
    while t.task_query[q.first_task] < q.arrived:
        q.first_task += 1
    query.number = _class_of(b, t.task_budget_s[q.first_task], 1.0 - percentile / 100.0)
    if query.number < 0:
        return -1
    # Converted to milliseconds and back, as in a task's message, which rounds.
    query.advance_s = b.classes[query.number].advance_s * 1e3 / 1e3
    q.arrived += 1
    return 0


cdef int queries_hear(Queries *q, int32_t query, double done_s) noexcept nogil:
    CHECK(q.query[query].pending > 0)
    q.query[query].pending -= 1
    if q.query[query].pending > 0:
        return 0
    return 0 if edf_push(&q.ends, done_s, <void *>(<uintptr_t>query + 1)) != 0 else -1


cdef void queries_end_first(Queries *q) noexcept nogil:
    cdef double done_s = q.ends.heap[0].key
    cdef int64_t number = <int64_t>(<uintptr_t>edf_pop(&q.ends)) - 1
    cdef const Query *query = &q.query[number]
    cdef Balance *b = &q.balances[query.scheduler]
    cdef double latency_s = done_s - q.t.query_arrived_s[number]
    balance_finished(b, query.number, latency_s > b.classes[query.number].slo_s)


cdef double queries_advance_s(const Queries *q, int32_t task) noexcept nogil:
    return limited_advance_c(
        q.query[q.t.task_query[task]].advance_s, q.t.task_budget_s[task]
    )

"""Queries at their schedulers, with balanced classes: from arrival to end.

Plain C for `_core.simulator.events`.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

from _core.deadlines.class_advance cimport Balance
from _core.queue.edf cimport Edf
from _core.simulator.trace cimport TraceData

cdef struct Query:
    int64_t pending               # subtasks without a result
    double advance_s
    int32_t scheduler             # index of its query scheduler
    int32_t number                # number of its class at that scheduler

cdef struct Queries:              # owns its arrays, not the trace; free with queries_free
    const TraceData *t
    Query *query                  # [queries]; NULL if classes are not balanced
    Balance *balances             # [schedulers]
    int32_t schedulers
    int64_t arrived               # number of queries that have arrived
    int64_t first_task            # at most the number of the next query's first task
    Edf ends                      # queries (as number + 1) by the time of their end in s

# Initialises from a trace: no query has arrived, no class is known. Returns 0, or -1 if memory ran
# out; call queries_free in either case. O(queries + tasks).
cdef int queries_init(Queries *q, const TraceData *t) noexcept nogil
cdef void queries_free(Queries *q) noexcept nogil

# The time in s at which the next query arrives; then that at which the next one ends. Infinity if
# there is none.
cdef inline double queries_arrival_s(const Queries *q) noexcept nogil:
    if q.query == NULL or q.arrived == q.t.queries:
        return INFINITY
    return q.t.query_arrived_s[q.arrived]


cdef inline double queries_end_s(const Queries *q) noexcept nogil:
    return q.ends.heap[0].key if q.ends.count > 0 else INFINITY

# The next query arrives and gets the current advance of its class. Returns 0, or -1 if there are
# too many classes.
cdef int queries_arrive(Queries *q) noexcept nogil

# Records one more result of a query, which ends at `done_s` if it was the last. Returns 0, or -1 if
# memory ran out.
cdef int queries_hear(Queries *q, int32_t query, double done_s) noexcept nogil

# Removes the query that ends first and tells its class whether it missed its SLO.
cdef void queries_end_first(Queries *q) noexcept nogil

# The advance of a task in s: that of its query.
cdef double queries_advance_s(const Queries *q, int32_t task) noexcept nogil

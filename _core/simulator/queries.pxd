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
    int32_t scheduler
    int32_t number                # of its class

cdef struct Queries:
    const TraceData *t
    Query *query                  # [queries]; NULL if nothing is balanced
    Balance *balances             # [schedulers]
    int32_t schedulers
    int64_t arrived               # so many
    int64_t first_task            # of the next one, or earlier
    Edf ends                      # of queries (number + 1), by the time of their end

# All queries of a trace, none arrived, and balances that know of none. 0, or -1 if memory ran out;
# free it either way. O(queries + tasks).
cdef int queries_init(Queries *q, const TraceData *t) noexcept nogil
cdef void queries_free(Queries *q) noexcept nogil

# When the next query arrives, and when the first of those that are done is; infinity if none.
cdef inline double queries_arrival_s(const Queries *q) noexcept nogil:
    if q.query == NULL or q.arrived == q.t.queries:
        return INFINITY
    return q.t.query_arrived_s[q.arrived]


cdef inline double queries_end_s(const Queries *q) noexcept nogil:
    return q.ends.heap[0].key if q.ends.count > 0 else INFINITY

# The next query gets the advance that its class has now. 0, or -1 if there are too many classes.
cdef int queries_arrive(Queries *q) noexcept nogil

# A query has one more result; it is done at `done_s` if that was the last. 0, or -1 if memory ran
# out.
cdef int queries_hear(Queries *q, int32_t query, double done_s) noexcept nogil

# The query that is done first tells its class whether it missed its SLO.
cdef void queries_end_first(Queries *q) noexcept nogil

# By how much a task is advanced.
cdef double queries_advance_s(const Queries *q, int32_t task) noexcept nogil

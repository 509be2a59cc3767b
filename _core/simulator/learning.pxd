"""Learning state of a simulated fleet: its IADs' models, and its query schedulers' advances."""

from libc.stdint cimport int64_t

from _core.simulator.queries cimport Queries
from _core.simulator.run cimport Run
from _core.deadlines.size_regression cimport Sizes
from _core.simulator.trace cimport TraceData
from _core.deadlines.unloaded cimport ColumnSet, Model

cdef struct Learnt:
    Model **models                # [iads], NULL if there are none
    ColumnSet **sets              # [set_nodes] the same: what a task asks its model for
    Sizes **sizes                 # [iads], NULL if there are none
    Queries queries               # empty until a simulation fills it

cdef inline int64_t set_place(const TraceData *t, int64_t task) noexcept nogil:
    """Where in `sets`: one for each set and size of a task."""
    return t.set_first[t.task_set[task]] + t.task_size[task] - 1


cdef class Learning:              # keeps alive, and frees, what `l` points to
    cdef Learnt l
    cdef list models              # of both kinds
    cdef list sets                # asked of them

# Check what the caller gave and take it. ValueError unless it is one model for each IAD.
cdef int take_models(Learning learning, const TraceData *t, object given) except -1
cdef int take_sizes(Learning learning, const TraceData *t, object given) except -1

# While a simulation runs without the GIL nobody else may use the models: ValueError if somebody does.
cdef int lend(Learning learning) except -1
cdef int give_back(Learning learning) except -1

# What the query schedulers learnt, into the run.
cdef int take_queries(Run run, Learning learning) except -1

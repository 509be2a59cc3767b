"""Learning state of a simulated fleet: its IADs' models, and its query schedulers' advances."""

from libc.stdint cimport int64_t

from _core.simulator.queries cimport Queries
from _core.simulator.run cimport Run
from _core.deadlines.size_regression cimport Sizes
from _core.simulator.trace cimport TraceData
from _core.deadlines.unloaded cimport ColumnSet, Model

cdef struct Learnt:
    Model **models                # [iads] borrowed from the UnloadedModels; NULL if not learning
    ColumnSet **sets              # [length of set_nodes] borrowed, by set_place; NULL likewise
    Sizes **sizes                 # [iads] borrowed from the SizeModels; NULL if not learning
    Queries queries               # empty until a simulation fills it

cdef inline int64_t set_place(const TraceData *t, int64_t task) noexcept nogil:
    """A task's index in `sets`, which has an entry for each set of nodes and each size of it."""
    return t.set_first[t.task_set[task]] + t.task_size[task] - 1


cdef class Learning:              # owns the arrays of `l`, and keeps the objects behind them alive
    cdef Learnt l
    cdef list models              # UnloadedModels and SizeModels
    cdef list sets                # NodeSets

# Validate and take the caller's models. ValueError unless there is one model for each IAD.
cdef int take_models(Learning learning, const TraceData *t, object given) except -1
cdef int take_sizes(Learning learning, const TraceData *t, object given) except -1

# Lock the models while a simulation uses them without the GIL. ValueError if they are locked.
cdef int lend(Learning learning) except -1
cdef int give_back(Learning learning) except -1

# Copies what the query schedulers learnt into the run.
cdef int take_queries(Run run, Learning learning) except -1

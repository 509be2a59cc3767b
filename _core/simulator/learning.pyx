"""Learning state of a simulated fleet: its IADs' models, and its query schedulers' advances."""

from array import array

from cpython cimport array as c_array
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc

from _core.deadlines.class_advance cimport Balance
from _core.deadlines.order_statistics cimport NodeSet, UnloadedModel
from _core.simulator.queries cimport queries_free
from _core.deadlines.size_regression cimport SizeModel
from _core.simulator.trace cimport task_nodes

cdef c_array.array _DOUBLES = array("d")


cdef class Learning:
    """The validated learning state of a run."""

    def __cinit__(self):
        self.models = []
        self.sets = []

    def __dealloc__(self):
        free(self.l.models)
        free(self.l.sets)
        free(self.l.sizes)
        queries_free(&self.l.queries)


cdef list _one_an_iad(const TraceData *t, str name, object given, type kind):
    made = list(given)
    if len(made) != t.iads or len({id(model) for model in made}) != t.iads:
        raise ValueError(f"{name} needs one model for each of the {t.iads} IADs")
    for iad, model in enumerate(made):
        if not isinstance(model, kind):
            raise ValueError(f"{name}: {iad} is not a {kind.__name__}")
    return made


cdef list _columns(const TraceData *t, int64_t task, int32_t first_node):
    cdef const int32_t *nodes = task_nodes(t, task)
    cdef int32_t j
    return [nodes[j] - first_node for j in range(t.task_size[task])]


cdef int take_models(Learning learning, const TraceData *t, object given) except -1:
    cdef Learnt *l = &learning.l
    cdef list models = _one_an_iad(t, "models", given, UnloadedModel)
    cdef NodeSet nodes
    cdef int64_t place
    cdef int64_t task
    cdef int32_t iad
    learning.models += models
    l.models = <Model **>malloc(t.iads * sizeof(Model *))
    l.sets = <ColumnSet **>calloc(t.set_first[t.sets], sizeof(ColumnSet *))
    if l.models == NULL or l.sets == NULL:
        raise MemoryError
    for iad in range(t.iads):
        l.models[iad] = &(<UnloadedModel>models[iad]).m
    for task in range(t.tasks):
        place = set_place(t, task)
        if l.sets[place] == NULL:
            iad = t.node_iad[task_nodes(t, task)[0]]
            nodes = (<UnloadedModel>models[iad]).node_set(_columns(t, task, t.iad_first[iad]))
            learning.sets.append(nodes)
            l.sets[place] = &nodes.s
    return 0


cdef int take_sizes(Learning learning, const TraceData *t, object given) except -1:
    cdef Learnt *l = &learning.l
    cdef list models = _one_an_iad(t, "sizes", given, SizeModel)
    cdef int32_t iad
    if t.task_window_s == NULL:
        raise ValueError("sizes need a trace with task_window_s")
    learning.models += models
    l.sizes = <Sizes **>malloc(t.iads * sizeof(Sizes *))
    if l.sizes == NULL:
        raise MemoryError
    for iad in range(t.iads):
        l.sizes[iad] = &(<SizeModel>models[iad]).s
    return 0


cdef int lend(Learning learning) except -1:
    for model in learning.models:
        if isinstance(model, UnloadedModel):
            (<UnloadedModel>model).check_own()
        else:
            (<SizeModel>model).check_own()
    _mark(learning, True)
    return 0


cdef int give_back(Learning learning) except -1:
    _mark(learning, False)
    return 0


cdef int _mark(Learning learning, bint lent) except -1:
    for model in learning.models:
        if isinstance(model, UnloadedModel):
            (<UnloadedModel>model).lent = lent
        else:
            (<SizeModel>model).lent = lent
    return 0


cdef int take_queries(Run run, Learning learning) except -1:
    cdef const Queries *q = &learning.l.queries
    cdef const Balance *b = q.balances
    cdef c_array.array advances = c_array.clone(_DOUBLES, q.t.queries, zero=False)
    cdef int64_t i
    for i in range(q.t.queries):
        advances.data.as_doubles[i] = q.query[i].advance_s
    run.query_advance_s = advances
    run.class_advance_s = [
        [b[i].classes[c].advance_s for c in range(b[i].count)] for i in range(q.schedulers)
    ]
    return 0

"""The whole fleet on one clock: what couples its nodes can be simulated here.

Two sources of events: tasks, in order of enqueueing, and results, in a heap (an `Edf` by time).
What happens at an event is what `agent.scheduling` does, in its order: a task gets its deadline,
then each of its nodes takes a subtask into its queue and serves; a result is observed, then its node
serves, then its query hears of it.
"""

from libc.math cimport INFINITY, floor
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from _core.edf cimport Edf, edf_free, edf_init, edf_pop, edf_push
from _core.histogram cimport bucket_index
from _core.orderstats cimport NodeSet, UnloadedModel
from _core.policy cimport policy_key_c
from _core.service_times cimport (
    SERVICE_GIVEN,
    Distribution,
    Stream,
    service_draw,
    stream_seed,
)
from _core.simulation_run cimport (
    ENDED,
    NO_MEMORY,
    TOO_LATE,
    Results,
    Run,
    Setup,
    checked_setup,
    empty_run,
    finished_run,
)
from _core.trace cimport LATEST_S, Trace, TraceData, sort_by_enqueueing, task_nodes
from _core.unloaded cimport ColumnSet, Model, model_advance, model_observe, model_quantile

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FIRST_CAPACITY = 256

cdef struct Subtask:              # queued or dispatched; or a free place
    int64_t number                # in the trace; in a free place the next free one, -1 if none is
    double service_s
    double dispatched_s
    int32_t task
    int32_t node

cdef struct Node:
    Edf queue                     # of places in `subtasks`
    Stream stream
    Model *model                  # its IAD's; NULL where deadlines are given
    int32_t column                # its own in there
    int32_t idle_pods

cdef struct Task:
    double key
    double deadline_s             # infinity if none is known

cdef struct Fleet:
    const TraceData *t
    const Distribution **service  # [nodes]
    int policy
    Results *results
    int32_t *order                # tasks in order of enqueueing
    Task *tasks
    Node *nodes
    ColumnSet **sets              # what a task asks its model for (`_set_place`); NULL: no models
    Edf returns                   # of places in `subtasks`, by the time of the result
    Subtask *subtasks
    int64_t capacity              # places
    int64_t fresh                 # places below this have been used
    int64_t free_place            # head of the list of free ones, -1 if there is none


# Places. A queue's item is a place + 1: never NULL, valid when `subtasks` moves.

cdef inline void *_item(int64_t place) noexcept nogil:
    return <void *><uintptr_t>(place + 1)


cdef inline int64_t _place(void *item) noexcept nogil:
    return <int64_t><uintptr_t>item - 1


cdef inline int64_t _take_place(Fleet *f) noexcept nogil:
    """A place for a subtask; -1 if memory ran out."""
    cdef int64_t place = f.free_place
    cdef int64_t capacity
    cdef void *memory
    if place >= 0:
        f.free_place = f.subtasks[place].number
        return place
    if f.fresh == f.capacity:
        capacity = max(2 * f.capacity, FIRST_CAPACITY)
        memory = realloc(f.subtasks, capacity * sizeof(Subtask))
        if memory == NULL:
            return -1
        f.subtasks = <Subtask *>memory
        f.capacity = capacity
    f.fresh += 1
    return f.fresh - 1


cdef inline void _leave_place(Fleet *f, int64_t place) noexcept nogil:
    f.subtasks[place].number = f.free_place
    f.free_place = place


# Events.

cdef int _dispatch(Fleet *f, int64_t place, double now_s) noexcept nogil:
    """Send a subtask, which is in no queue any more, to an idle pod of its node."""
    cdef Subtask *subtask = &f.subtasks[place]
    cdef Node *node = &f.nodes[subtask.node]
    cdef double finished_s = now_s + subtask.service_s
    CHECK(place < f.fresh)
    CHECK(node.idle_pods > 0)
    if not finished_s <= LATEST_S:
        return TOO_LATE
    node.idle_pods -= 1
    subtask.dispatched_s = now_s
    f.results.busy_s[subtask.node] += subtask.service_s
    f.results.late += now_s > f.tasks[subtask.task].deadline_s
    if f.results.dispatched_s != NULL:
        f.results.dispatched_s[subtask.number] = now_s
        f.results.finished_s[subtask.number] = finished_s
    return ENDED if edf_push(&f.returns, finished_s, _item(place)) != 0 else NO_MEMORY


cdef int _serve(Fleet *f, Node *node, double now_s) noexcept nogil:
    """Dispatch from the node's queue while it has an idle pod."""
    cdef int ending = ENDED
    while ending == ENDED and node.idle_pods > 0 and node.queue.count > 0:
        ending = _dispatch(f, _place(edf_pop(&node.queue)), now_s)
    return ending


cdef inline int64_t _milliseconds(double now_s) noexcept nogil:
    """As histogram.milliseconds; no time here is out of its range."""
    return <int64_t>floor(now_s * 1000.0)


cdef inline int64_t _set_place(const TraceData *t, int64_t task) noexcept nogil:
    """One for each set and size of a task."""
    return t.set_first[t.task_set[task]] + t.task_size[task] - 1


cdef void _decide_deadline(Fleet *f, int32_t task, Model *model) noexcept nogil:
    """t_D = t_0 + t_Q (DSSP Eqs. 3-6)."""
    cdef const TraceData *t = f.t
    cdef double now_s = t.task_enqueued_s[task]
    cdef double unloaded_s
    model_advance(model, now_s, _milliseconds(now_s))
    unloaded_s = model_quantile(model, f.sets[_set_place(t, task)], t.task_percentile[task])
    f.tasks[task].deadline_s = now_s + (t.task_budget_s[task] - unloaded_s)


cdef inline double _key(const Fleet *f, int32_t task) noexcept nogil:
    """Where the subtasks of a task stand in a queue."""
    return policy_key_c(
        f.policy,
        f.t.task_enqueued_s[task],
        f.t.task_budget_s[task],
        f.tasks[task].deadline_s,
        0.0,
    )


cdef int _enqueue_subtask(Fleet *f, int32_t task, int32_t j, double now_s) noexcept nogil:
    """The j-th subtask of a task into its node's queue; past the queue if nothing is before it."""
    cdef int32_t number = task_nodes(f.t, task)[j]
    cdef Node *node = &f.nodes[number]
    cdef const Distribution *service = f.service[number]
    cdef int64_t place = _take_place(f)
    cdef Subtask *subtask
    if place < 0:
        return NO_MEMORY
    subtask = &f.subtasks[place]
    subtask.number = f.t.task_first[task] + j
    subtask.task = task
    subtask.node = number
    if service.kind == SERVICE_GIVEN:
        CHECK(subtask.number < service.size)
        subtask.service_s = service.values[subtask.number]
    else:
        subtask.service_s = service_draw(service, &node.stream)
    if node.idle_pods > 0:  # then its queue is empty
        CHECK(node.queue.count == 0)
        return _dispatch(f, place, now_s)
    return ENDED if edf_push(&node.queue, f.tasks[task].key, _item(place)) != 0 else NO_MEMORY


cdef int _enqueue_task(Fleet *f, int32_t task) noexcept nogil:
    cdef const TraceData *t = f.t
    cdef double now_s = t.task_enqueued_s[task]
    cdef Model *model = f.nodes[task_nodes(t, task)[0]].model
    cdef int ending = ENDED
    cdef int32_t j
    if model != NULL:
        _decide_deadline(f, task, model)
    f.tasks[task].key = _key(f, task)
    for j in range(t.task_size[task]):
        if ending == ENDED:
            ending = _enqueue_subtask(f, task, j, now_s)
    return ending


cdef int _observe(const Subtask *subtask, Node *node, double now_s) noexcept nogil:
    if node.model == NULL:
        return ENDED
    model_advance(node.model, now_s, _milliseconds(now_s))
    if model_observe(node.model, node.column, bucket_index(now_s - subtask.dispatched_s)) != 0:
        return NO_MEMORY
    return ENDED


cdef inline void _hear(Fleet *f, int32_t task, double now_s) noexcept nogil:
    """A task has a result, and its query may be done when the task has passed it on."""
    cdef double *done_s = &f.results.query_done_s[f.t.task_query[task]]
    done_s[0] = max(done_s[0], now_s + f.t.task_after_s[task])


cdef int _return_first(Fleet *f) noexcept nogil:
    """The earliest result."""
    cdef double now_s = f.returns.heap[0].key
    cdef int64_t place = _place(edf_pop(&f.returns))
    cdef Subtask *subtask = &f.subtasks[place]
    cdef Node *node = &f.nodes[subtask.node]
    cdef int32_t task = subtask.task
    cdef int ending
    CHECK(place < f.fresh)
    node.idle_pods += 1
    ending = _observe(subtask, node, now_s)
    _leave_place(f, place)
    if ending == ENDED:
        ending = _serve(f, node, now_s)
    _hear(f, task, now_s)
    return ending


cdef int _run(Fleet *f) noexcept nogil:
    cdef const TraceData *t = f.t
    cdef int ending = ENDED
    cdef int64_t i = 0
    while ending == ENDED:
        if f.returns.count > 0 and (
            i == t.tasks or f.returns.heap[0].key <= t.task_enqueued_s[f.order[i]]
        ):
            ending = _return_first(f)
        elif i < t.tasks:
            ending = _enqueue_task(f, f.order[i])
            i += 1
        else:
            break
    return ending


# The fleet.

cdef int _make_fleet(Fleet *f, Setup setup, Model **models) noexcept nogil:
    """Idle nodes, and nothing enqueued."""
    cdef const TraceData *t = f.t
    cdef Node *node
    cdef int32_t i
    cdef int64_t task
    f.order = <int32_t *>malloc(t.tasks * sizeof(int32_t))
    f.tasks = <Task *>malloc(t.tasks * sizeof(Task))
    f.nodes = <Node *>calloc(t.nodes, sizeof(Node))
    if f.order == NULL or f.tasks == NULL or f.nodes == NULL:
        return NO_MEMORY
    for i in range(t.nodes):
        node = &f.nodes[i]
        edf_init(&node.queue)
        stream_seed(&node.stream, setup.seed, i)
        node.idle_pods = t.node_pods[i]
        node.column = i - t.iad_first[t.node_iad[i]]
        node.model = NULL if models == NULL else models[t.node_iad[i]]
    for task in range(t.tasks):
        f.order[task] = <int32_t>task
        f.tasks[task].deadline_s = INFINITY if setup.deadline_s == NULL else setup.deadline_s[task]
    return ENDED if sort_by_enqueueing(t, f.order, t.tasks) == 0 else NO_MEMORY


cdef void _free_fleet(Fleet *f) noexcept nogil:
    cdef int32_t i
    if f.nodes != NULL:
        for i in range(f.t.nodes):
            edf_free(&f.nodes[i].queue)
    edf_free(&f.returns)
    free(f.order)
    free(f.tasks)
    free(f.nodes)
    free(f.subtasks)


cdef int _simulate(Setup setup, Results *results, Model **models, ColumnSet **sets) noexcept nogil:
    cdef Fleet f
    cdef int ending
    cdef int64_t task
    memset(&f, 0, sizeof(Fleet))
    edf_init(&f.returns)
    f.t = &setup.trace.data
    f.service = setup.service
    f.policy = setup.policy
    f.results = results
    f.sets = sets
    f.free_place = -1
    ending = _make_fleet(&f, setup, models)
    if ending == ENDED:
        ending = _run(&f)
    if ending == ENDED and models != NULL and results.deadline_s != NULL:
        for task in range(f.t.tasks):
            results.deadline_s[task] = f.tasks[task].deadline_s
    _free_fleet(&f)
    return ending


cdef class _Models:
    """The models of all IADs, and the node set for each set and size of a task."""

    cdef list kept                # whose memory `model` and `sets` point into
    cdef Model **model            # [iads]
    cdef ColumnSet **sets         # [set_nodes]

    def __dealloc__(self):
        free(self.model)
        free(self.sets)


cdef _Models _no_models():
    return _Models.__new__(_Models)


cdef _Models _checked_models(const TraceData *t, object models):
    cdef _Models made = _no_models()
    cdef UnloadedModel model
    cdef NodeSet nodes
    cdef int64_t place
    cdef int64_t task
    cdef int32_t iad
    made.kept = list(models)
    if len(made.kept) != t.iads or len({id(model) for model in made.kept}) != t.iads:
        raise ValueError(f"models needs one model for each of the {t.iads} IADs")
    made.model = <Model **>malloc(t.iads * sizeof(Model *))
    made.sets = <ColumnSet **>calloc(t.set_first[t.sets], sizeof(ColumnSet *))
    if made.model == NULL or made.sets == NULL:
        raise MemoryError
    for iad in range(t.iads):
        if not isinstance(made.kept[iad], UnloadedModel):
            raise ValueError(f"model {iad} is not an UnloadedModel")
        model = made.kept[iad]
        made.model[iad] = &model.m
    for task in range(t.tasks):
        place = _set_place(t, task)
        if made.sets[place] == NULL:
            iad = t.node_iad[task_nodes(t, task)[0]]
            nodes = (<UnloadedModel>made.kept[iad]).node_set(_columns(t, task, t.iad_first[iad]))
            made.kept.append(nodes)
            made.sets[place] = &nodes.s
    return made


cdef list _columns(const TraceData *t, int64_t task, int32_t first_node):
    cdef const int32_t *nodes = task_nodes(t, task)
    cdef int32_t j
    return [nodes[j] - first_node for j in range(t.task_size[task])]


def simulate_events(
    Trace trace not None,
    services,
    node_service,
    *,
    policy,
    models=None,
    deadline_s=None,
    seed=0,
    bint record=False,
):
    """Simulate a trace under one policy, all nodes on one clock; a `Run`.

    As `simulate_nodes`, bit for bit, where `deadline_s` is given or no deadline is needed. With
    `models`, one `UnloadedModel` for each IAD whose first columns are the IAD's nodes in order,
    every task asks its IAD's for x_u as it is enqueued, and every result is observed before its
    node serves the next: the deadlines and events of `agent.scheduling`. The models go on from what
    they hold, and nobody else may use them meanwhile. Nothing is refused here: a task whose SLO
    cannot be met even unloaded is served like any other. Nothing times out either.

    Without the GIL; threads may share a trace and services. ValueError for arguments that do not
    fit. Memory: 40 bytes a task, a `NodeSet` for each set and size asked for where there are
    models, 16 bytes each subtask of all with `record`. O(log pods + log queued) a subtask.
    """
    cdef Setup setup = checked_setup(trace, services, node_service, policy, deadline_s, seed)
    cdef Run run = empty_run(setup, record)
    cdef _Models known = _no_models()
    cdef int ending
    if models is not None:
        if deadline_s is not None:
            raise ValueError("models and deadline_s both tell deadlines; give one of them")
        known = _checked_models(&trace.data, models)
    elif setup.reads_deadlines and setup.deadline_s == NULL:
        raise ValueError(f"policy {policy} needs models or deadline_s")
    with nogil:
        ending = _simulate(setup, &run.results, known.model, known.sets)
    return finished_run(run, trace, ending)

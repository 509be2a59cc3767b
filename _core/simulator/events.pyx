"""Event-driven simulator: the whole fleet on one clock, for nodes that affect each other.

There are two sources of events: tasks, in order of enqueueing, and results, in a heap (an `Edf` by
time). Events are processed as in `agent.scheduling`, in the same order: a task gets its deadline,
then each of its nodes enqueues a subtask and serves; a result is observed, then its node serves,
then its query is informed. With balanced classes of queries there are two more sources
(`_core.simulator.queries`): queries, in order of arrival, and the ends of queries, in another heap.
"""

from libc.math cimport INFINITY, floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from _core.queue.edf cimport Edf, edf_free, edf_head, edf_init, edf_pop, edf_push, edf_rekey_head
from _core.deadlines.histogram cimport bucket_index
from _core.queue.policy cimport DEMOTED_S, hopeless_c, policy_key_c
from _core.simulator.service_times cimport (
    SERVICE_GIVEN,
    Distribution,
    Stream,
    service_draw,
    service_draw_expected,
    stream_seed,
)
from _core.simulator.run cimport (
    ENDED,
    NO_MEMORY,
    TOO_LATE,
    TOO_MANY_CLASSES,
    Results,
    Run,
    Setup,
    check_expected,
    checked_setup,
    empty_run,
    finished_run,
)
from _core.simulator.learning cimport (
    Learning,
    Learnt,
    give_back,
    lend,
    set_place,
    take_models,
    take_queries,
    take_sizes,
)
from _core.simulator.queries cimport (
    Queries,
    queries_advance_s,
    queries_arrival_s,
    queries_arrive,
    queries_end_first,
    queries_end_s,
    queries_hear,
    queries_init,
)
from _core.deadlines.size_regression cimport Sizes, sizes_expected, sizes_observe
from _core.simulator.trace cimport LATEST_S, Trace, TraceData, sort_by_enqueueing, task_nodes
from _core.deadlines.unloaded cimport ColumnSet, Model, model_advance, model_observe, model_quantile

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FIRST_CAPACITY = 256

# Scope of the demotion of a hopeless subtask: itself, its task or its query.
cdef enum Demotion:
    NEVER
    BY_NODE
    BY_TASK
    BY_QUERY

cdef dict DEMOTIONS = {"never": NEVER, "node": BY_NODE, "task": BY_TASK, "query": BY_QUERY}

cdef struct Subtask:              # queued or dispatched; or a free place
    int64_t number                # in the trace; in a free place the next free one, -1 if none is
    double service_s
    double expected_s             # what it is expected to take, where a policy demotes
    double dispatched_s
    int32_t task
    int32_t node

cdef struct Node:
    Edf queue                     # of places in `subtasks`
    Stream stream
    Model *model                  # its IAD's; NULL where deadlines are given
    Sizes *sizes                  # its IAD's; NULL where service times tell what is expected
    int32_t column                # its own in there
    int32_t idle_pods

cdef struct Task:
    double key
    double deadline_s             # infinity if none is known

cdef struct Fleet:
    const TraceData *t
    const Distribution **service  # [nodes]
    const double *advance_s       # [tasks], NULL if none are given
    int policy
    bint demotes
    Results *results
    int32_t *order                # tasks in order of enqueueing
    Task *tasks
    Node *nodes
    ColumnSet **sets              # what a task asks its model for (`_set_place`); NULL: no models
    Demotion demotion
    uint8_t *hopeless             # [tasks] or [queries] whether known to be; NULL by node
    Queries *queries              # NULL if no classes are balanced
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


cdef inline uint8_t *_flag(Fleet *f, int32_t task) noexcept nogil:
    """The flag that says whether the task is known to be hopeless; NULL if there is none."""
    if f.demotion == BY_NODE:
        return NULL
    return &f.hopeless[task if f.demotion == BY_TASK else f.t.task_query[task]]


cdef bint _hopeless(Fleet *f, const Subtask *subtask, double now_s) noexcept nogil:
    """Whether the subtask to be dispatched next is unlikely to finish within its budget."""
    cdef const TraceData *t = f.t
    cdef int32_t task = subtask.task
    cdef const Node *node = &f.nodes[subtask.node]
    cdef double expected_s = subtask.expected_s
    cdef uint8_t *known = _flag(f, task)
    if known != NULL and known[0]:
        return True
    if node.sizes != NULL:
        expected_s = sizes_expected(node.sizes, node.column, t.task_window_s[task])
    if not hopeless_c(now_s, expected_s, t.task_enqueued_s[task] + t.task_budget_s[task]):
        return False
    if known != NULL:
        known[0] = True
    return True


cdef inline void _note_demotion(Fleet *f, const Subtask *subtask) noexcept nogil:
    f.results.demotions += 1
    if f.results.demoted != NULL:
        f.results.demoted[subtask.number] = 1


cdef void _demote_hopeless(Fleet *f, Node *node, double now_s) noexcept nogil:
    """Demote hopeless subtasks until the first one is not hopeless, or is demoted already."""
    cdef const Subtask *subtask
    cdef double key
    while True:
        subtask = &f.subtasks[_place(edf_head(&node.queue))]
        key = f.tasks[subtask.task].key
        if node.queue.heap[0].key != key or not _hopeless(f, subtask, now_s):
            return
        _note_demotion(f, subtask)
        edf_rekey_head(&node.queue, key + DEMOTED_S)


cdef int _serve(Fleet *f, Node *node, double now_s) noexcept nogil:
    """Dispatch from the node's queue while it has an idle pod."""
    cdef int ending = ENDED
    while ending == ENDED and node.idle_pods > 0 and node.queue.count > 0:
        if f.demotes:
            _demote_hopeless(f, node, now_s)
        ending = _dispatch(f, _place(edf_pop(&node.queue)), now_s)
    return ending


cdef inline int64_t _milliseconds(double now_s) noexcept nogil:
    """As histogram.milliseconds; no time here is out of its range."""
    return <int64_t>floor(now_s * 1000.0)


cdef void _decide_deadline(Fleet *f, int32_t task, Model *model) noexcept nogil:
    """t_D = t_0 + t_Q (DSSP Eqs. 3-6)."""
    cdef const TraceData *t = f.t
    cdef double now_s = t.task_enqueued_s[task]
    cdef double unloaded_s
    model_advance(model, now_s, _milliseconds(now_s))
    unloaded_s = model_quantile(model, f.sets[set_place(t, task)], t.task_percentile[task])
    f.tasks[task].deadline_s = now_s + (t.task_budget_s[task] - unloaded_s)


cdef inline double _key(const Fleet *f, int32_t task) noexcept nogil:
    """The queue key of a task's subtasks."""
    cdef double advance_s = 0.0
    if f.queries != NULL:
        advance_s = queries_advance_s(f.queries, task)
    elif f.advance_s != NULL:
        advance_s = f.advance_s[task]
    return policy_key_c(
        f.policy,
        f.t.task_enqueued_s[task],
        f.t.task_budget_s[task],
        f.tasks[task].deadline_s,
        advance_s,
    )


cdef inline void _draw(const Fleet *f, const Node *node, Subtask *subtask) noexcept nogil:
    """Draw the subtask's service time, and its expectation if that is used."""
    cdef const Distribution *service = f.service[subtask.node]
    if service.kind == SERVICE_GIVEN:
        CHECK(subtask.number < service.size)
        subtask.service_s = service.values[subtask.number]
        if service.expected != NULL:
            subtask.expected_s = service.expected[subtask.number]
    elif f.demotes:
        subtask.service_s = service_draw_expected(service, &node.stream, &subtask.expected_s)
    else:
        subtask.service_s = service_draw(service, &node.stream)


cdef int _enqueue_subtask(Fleet *f, int32_t task, int32_t j, double now_s) noexcept nogil:
    """The j-th subtask of a task into its node's queue; past the queue if nothing is before it."""
    cdef int32_t number = task_nodes(f.t, task)[j]
    cdef Node *node = &f.nodes[number]
    cdef int64_t place = _take_place(f)
    cdef Subtask *subtask
    if place < 0:
        return NO_MEMORY
    subtask = &f.subtasks[place]
    subtask.number = f.t.task_first[task] + j
    subtask.task = task
    subtask.node = number
    _draw(f, node, subtask)
    if node.idle_pods > 0:  # then its queue is empty
        CHECK(node.queue.count == 0)
        if f.demotes and _hopeless(f, subtask, now_s):
            _note_demotion(f, subtask)
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


cdef int _observe(Fleet *f, const Subtask *subtask, Node *node, double now_s) noexcept nogil:
    cdef double unloaded_s = now_s - subtask.dispatched_s
    if node.model != NULL:
        model_advance(node.model, now_s, _milliseconds(now_s))
        if model_observe(node.model, node.column, bucket_index(unloaded_s)) != 0:
            return NO_MEMORY
    if node.sizes != NULL:
        return _observe_size(node, f.t.task_window_s[subtask.task], unloaded_s)
    return ENDED


cdef int _observe_size(Node *node, double window_s, double unloaded_s) noexcept nogil:
    return ENDED if sizes_observe(node.sizes, node.column, window_s, unloaded_s) == 0 else NO_MEMORY


cdef inline int _hear(Fleet *f, int32_t task, double now_s) noexcept nogil:
    """Count a task's result; its query may be complete once the task has passed it on."""
    cdef int32_t query = f.t.task_query[task]
    cdef double *done_s = &f.results.query_done_s[query]
    done_s[0] = max(done_s[0], now_s + f.t.task_after_s[task])
    if f.queries != NULL and queries_hear(f.queries, query, done_s[0]) != 0:
        return NO_MEMORY
    return ENDED


cdef int _return_first(Fleet *f) noexcept nogil:
    """Process the earliest result."""
    cdef double now_s = f.returns.heap[0].key
    cdef int64_t place = _place(edf_pop(&f.returns))
    cdef Subtask *subtask = &f.subtasks[place]
    cdef Node *node = &f.nodes[subtask.node]
    cdef int32_t task = subtask.task
    cdef int ending
    CHECK(place < f.fresh)
    node.idle_pods += 1
    ending = _observe(f, subtask, node, now_s)
    _leave_place(f, place)
    if ending == ENDED:
        ending = _serve(f, node, now_s)
    if ending == ENDED:
        ending = _hear(f, task, now_s)
    return ending


cdef int _run(Fleet *f) noexcept nogil:
    """Process all events; at the same time results come before ends, arrivals and tasks."""
    cdef const TraceData *t = f.t
    cdef int ending = ENDED
    cdef int64_t i = 0
    cdef double end_s = INFINITY
    cdef double arrival_s = INFINITY
    cdef double enqueueing_s
    while ending == ENDED:
        if f.queries != NULL:
            end_s = queries_end_s(f.queries)
            arrival_s = queries_arrival_s(f.queries)
        enqueueing_s = t.task_enqueued_s[f.order[i]] if i < t.tasks else INFINITY
        if f.returns.count > 0 and f.returns.heap[0].key <= min(
            end_s, min(arrival_s, enqueueing_s)
        ):
            ending = _return_first(f)
        elif end_s < INFINITY and end_s <= min(arrival_s, enqueueing_s):
            queries_end_first(f.queries)
        elif arrival_s < INFINITY and arrival_s <= enqueueing_s:
            ending = ENDED if queries_arrive(f.queries) == 0 else TOO_MANY_CLASSES
        elif i < t.tasks:
            ending = _enqueue_task(f, f.order[i])
            i += 1
        else:
            break
    return ending


# The fleet.

cdef int _make_fleet(Fleet *f, Setup setup, const Learnt *learnt) noexcept nogil:
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
        node.model = NULL if learnt.models == NULL else learnt.models[t.node_iad[i]]
        node.sizes = NULL if learnt.sizes == NULL else learnt.sizes[t.node_iad[i]]
    for task in range(t.tasks):
        f.order[task] = <int32_t>task
        f.tasks[task].deadline_s = INFINITY if setup.deadline_s == NULL else setup.deadline_s[task]
    if f.demotes and f.demotion != BY_NODE:
        f.hopeless = <uint8_t *>calloc(t.queries if f.demotion == BY_QUERY else t.tasks, 1)
        if f.hopeless == NULL:
            return NO_MEMORY
    if f.queries != NULL and queries_init(f.queries, t) != 0:
        return NO_MEMORY
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
    free(f.hopeless)


cdef int _simulate(
    Setup setup, Results *results, Learnt *learnt, Demotion demotion, bint balance
) noexcept nogil:
    cdef Fleet f
    cdef int ending
    cdef int64_t task
    memset(&f, 0, sizeof(Fleet))
    edf_init(&f.returns)
    f.t = &setup.trace.data
    f.service = setup.service
    f.advance_s = setup.advance_s
    f.policy = setup.policy
    f.demotes = setup.demotes and demotion != NEVER
    f.demotion = demotion
    f.results = results
    f.sets = learnt.sets
    f.queries = &learnt.queries if balance else NULL
    f.free_place = -1
    ending = _make_fleet(&f, setup, learnt)
    if ending == ENDED:
        ending = _run(&f)
    if ending == ENDED and learnt.models != NULL and results.deadline_s != NULL:
        for task in range(f.t.tasks):
            results.deadline_s[task] = f.tasks[task].deadline_s
    _free_fleet(&f)
    return ending


def simulate_events(
    Trace trace not None,
    services,
    node_service,
    *,
    policy,
    models=None,
    deadline_s=None,
    advance_s=None,
    sizes=None,
    bint balance=False,
    demotion="task",
    seed=0,
    bint record=False,
):
    """Simulate a trace under one policy, all nodes on one clock; a `Run`.

    As `simulate_nodes`, bit for bit, where `deadline_s` is given or no deadline is needed. With
    `models`, one `UnloadedModel` for each IAD whose first columns are the IAD's nodes in order,
    every task asks its IAD's for x_u as it is enqueued, and every result is observed before its
    node serves the next: the deadlines and events of `agent.scheduling`. The models go on from what
    they hold; nobody else can use them meanwhile. Nothing is refused here: a task whose SLO
    cannot be met even unloaded is served like any other. Nothing times out either.

    A policy that demotes (`_core.queue.policy.DEMOTING`) asks what each subtask is expected to take when
    its turn comes: `sizes`, one `SizeModel` for each IAD with columns as the models', which learn
    from every result how long a task's window takes; otherwise the service times. `demotion` says
    whom it concerns that one of them is hopeless: all subtasks of its "task", as in
    `agent.scheduling`; the "node" alone, as in `simulate_nodes`; or all of its "query", which would
    take that all IADs know at once; "never" leaves every subtask in its place.

    With `balance` every query scheduler learns by how much each class of its queries (percentile,
    and SLO: the budget of a query's first task) is advanced, from the latency of the queries that
    have ended; otherwise `advance_s` says it, float64 a task.

    Without the GIL; threads may share a trace and services. ValueError for arguments that do not
    fit. Memory: 40 bytes a task, a `NodeSet` for each set and size asked for where there are
    models, 16 bytes each subtask of all with `record`. O(log pods + log queued) a subtask.
    """
    cdef Setup setup = checked_setup(
        trace, services, node_service, policy, deadline_s, advance_s, seed
    )
    cdef Run run = empty_run(setup, record)
    cdef Learning learning = Learning()
    cdef Demotion found
    cdef int ending
    if models is not None:
        if deadline_s is not None:
            raise ValueError("models and deadline_s both tell deadlines; give one of them")
        take_models(learning, &trace.data, models)
    elif setup.reads_deadlines and setup.deadline_s == NULL:
        raise ValueError(f"policy {policy} needs models or deadline_s")
    if demotion not in DEMOTIONS:
        raise ValueError(f"no demotion {demotion!r}; known: {', '.join(DEMOTIONS)}")
    found = DEMOTIONS[demotion]
    if sizes is not None:
        take_sizes(learning, &trace.data, sizes)
    elif setup.demotes and found != NEVER:
        check_expected(setup)
    if balance and advance_s is not None:
        raise ValueError("balance and advance_s both tell advances; give one of them")
    lend(learning)
    with nogil:
        ending = _simulate(setup, &run.results, &learning.l, found, balance)
    give_back(learning)
    finished_run(run, trace, ending)
    if balance:
        take_queries(run, learning)
    return run

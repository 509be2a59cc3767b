"""Node-by-node simulator: fast simulation of a fleet whose nodes are independent.

With given arrivals and deadlines, nodes do not affect each other. The subtasks of one IAD at a time
are grouped by node (a counting sort), and each node is simulated to its end: its queue, its pods
and the IAD's tasks stay in the cache, and memory holds one IAD's subtasks instead of the fleet's.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from _core.queue.edf cimport Edf, edf_free, edf_head, edf_init, edf_pop, edf_push, edf_rekey_head
from _core.queue.policy cimport DEMOTED_S, hopeless_c, policy_key_c
from _core.simulator.service_times cimport (
    SERVICE_GIVEN,
    Distribution,
    Stream,
    service_fill,
    service_fill_expected,
    stream_seed,
)
from _core.simulator.run cimport (
    ENDED,
    NO_MEMORY,
    TOO_LATE,
    Results,
    Run,
    Setup,
    check_expected,
    checked_setup,
    empty_run,
    finished_run,
)
from _core.simulator.trace cimport LATEST_S, Trace, TraceData, sort_by_enqueueing, task_nodes

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil
    void PREFETCH(const void *place) noexcept nogil

cdef enum:
    AHEAD = 16                    # arrivals to look ahead: tasks of narrow queries lie far apart

cdef struct LocalTask:            # what nodes need of a task, in one half of a cache line
    double enqueued_s
    double key
    double deadline_s
    double finished_s             # the last subtask so far

cdef struct Iad:                  # the IAD that is being simulated
    int32_t *tasks                # its tasks in order of enqueueing
    LocalTask *local              # the same, what nodes need of them
    double *latest_s              # the same, the ends of their budgets; NULL if nobody demotes
    int64_t count
    int64_t *node_end             # [nodes of the IAD] the end of each node's part of the lists
    uint32_t *arrivals            # subtasks by node, in order of enqueueing: index of the task
    int64_t *subtask              # the same: number of the subtask; NULL unless someone asks

cdef struct Station:              # the node that is being simulated
    Edf queue
    double *free_s                # [pods] a binary heap: when pods get idle, the earliest first
    int32_t pods
    const uint32_t *arrivals      # index of the task, for each subtask in order of enqueueing
    const int64_t *subtask        # number of the subtask; NULL unless recorded
    const double *service_s       # for each subtask
    const double *expected_s      # for each subtask; NULL if nobody demotes
    LocalTask *local
    const double *latest_s        # of each task; NULL if nobody demotes
    double *dispatched_s          # NULL unless recorded
    double *finished_s            # NULL unless recorded
    signed char *demoted          # NULL unless recorded
    double busy_s
    int64_t late
    int64_t demotions


cdef inline void _free_first_pod_at(Station *s, double at_s) noexcept nogil:
    """Postpone the earliest time at which a pod becomes idle to `at_s`, which is not earlier."""
    cdef int32_t i = 0
    cdef int32_t child = 1
    while child < s.pods:
        if child + 1 < s.pods and s.free_s[child + 1] < s.free_s[child]:
            child += 1
        if at_s <= s.free_s[child]:
            break
        s.free_s[i] = s.free_s[child]
        i = child
        child = 2 * i + 1
    s.free_s[i] = at_s


cdef inline void _dispatch(Station *s, int64_t i, double now_s) noexcept nogil:
    """Dispatch the node's i-th subtask to the pod that has been idle the longest."""
    cdef LocalTask *task = &s.local[s.arrivals[i]]
    cdef double finished_s = now_s + s.service_s[i]
    _free_first_pod_at(s, finished_s)
    s.busy_s += s.service_s[i]
    s.late += now_s > task.deadline_s
    task.finished_s = max(task.finished_s, finished_s)
    if s.dispatched_s != NULL:
        s.dispatched_s[s.subtask[i]] = now_s
        s.finished_s[s.subtask[i]] = finished_s


cdef inline bint _hopeless(const Station *s, int64_t i, double now_s) noexcept nogil:
    return hopeless_c(now_s, s.expected_s[i], s.latest_s[s.arrivals[i]])


cdef inline void _note_demotion(Station *s, int64_t i) noexcept nogil:
    s.demotions += 1
    if s.demoted != NULL:
        s.demoted[s.subtask[i]] = 1


cdef inline int64_t _number(void *item) noexcept nogil:
    """The subtask number of a queue item."""
    return <int64_t><uintptr_t>item - 1


cdef void _demote_hopeless(Station *s, double now_s) noexcept nogil:
    """Demote hopeless subtasks until the first one is not hopeless, or is demoted already."""
    cdef double key
    cdef int64_t i
    while True:
        i = _number(edf_head(&s.queue))
        key = s.local[s.arrivals[i]].key
        if s.queue.heap[0].key != key or not _hopeless(s, i, now_s):
            return
        _note_demotion(s, i)
        edf_rekey_head(&s.queue, key + DEMOTED_S)


cdef inline void _dispatch_queued(Station *s) noexcept nogil:
    if s.latest_s != NULL:
        _demote_hopeless(s, s.free_s[0])
    _dispatch(s, _number(edf_pop(&s.queue)), s.free_s[0])


cdef int _serve(Station *s, int64_t count) noexcept nogil:
    """Simulate a node with `count` subtasks, from idle to idle."""
    cdef const LocalTask *task
    cdef int64_t i
    for i in range(count):
        if i + AHEAD < count:
            PREFETCH(&s.local[s.arrivals[i + AHEAD]])
        task = &s.local[s.arrivals[i]]
        while s.queue.count > 0 and s.free_s[0] <= task.enqueued_s:
            _dispatch_queued(s)
        if s.free_s[0] <= task.enqueued_s:
            if s.latest_s != NULL and _hopeless(s, i, task.enqueued_s):
                _note_demotion(s, i)
            _dispatch(s, i, task.enqueued_s)
        elif edf_push(&s.queue, task.key, <void *><uintptr_t>(i + 1)) == 0:
            return NO_MEMORY
    while s.queue.count > 0:
        _dispatch_queued(s)
    for i in range(s.pods):
        if not s.free_s[i] <= LATEST_S:
            return TOO_LATE
    return ENDED


# An IAD.

cdef void _free_iad(Iad *iad) noexcept nogil:
    free(iad.local)
    free(iad.latest_s)
    free(iad.node_end)
    free(iad.arrivals)
    free(iad.subtask)
    memset(iad, 0, sizeof(Iad))


cdef void _fill_local(const TraceData *t, Setup setup, Iad *iad) noexcept nogil:
    cdef LocalTask *local
    cdef double advance_s = 0.0
    cdef int64_t i
    cdef int32_t task
    for i in range(iad.count):
        task = iad.tasks[i]
        local = &iad.local[i]
        local.enqueued_s = t.task_enqueued_s[task]
        local.deadline_s = INFINITY if setup.deadline_s == NULL else setup.deadline_s[task]
        if setup.advance_s != NULL:
            advance_s = setup.advance_s[task]
        local.key = policy_key_c(
            setup.policy, local.enqueued_s, t.task_budget_s[task], local.deadline_s, advance_s
        )
        local.finished_s = -INFINITY
        if iad.latest_s != NULL:
            iad.latest_s[i] = local.enqueued_s + t.task_budget_s[task]


cdef int64_t _count_arrivals(const TraceData *t, Iad *iad, int32_t first_node) noexcept nogil:
    """Where each node's part of the lists begins, in node_end; the subtasks of the IAD."""
    cdef int32_t nodes = t.iad_first[t.node_iad[first_node] + 1] - first_node
    cdef const int32_t *node
    cdef int64_t total = 0
    cdef int64_t count
    cdef int64_t i
    cdef int32_t j
    for i in range(iad.count):
        node = task_nodes(t, iad.tasks[i])
        for j in range(t.task_size[iad.tasks[i]]):
            CHECK(0 <= node[j] - first_node)
            CHECK(node[j] - first_node < nodes)
            iad.node_end[node[j] - first_node] += 1
    for j in range(nodes):
        count = iad.node_end[j]
        iad.node_end[j] = total
        total += count
    return total


cdef void _list_arrivals(const TraceData *t, Iad *iad, int32_t first_node) noexcept nogil:
    """Fill the lists; node_end moves from the beginnings to the ends."""
    cdef const int32_t *node
    cdef int64_t *end
    cdef int64_t i
    cdef int32_t j
    for i in range(iad.count):
        node = task_nodes(t, iad.tasks[i])
        for j in range(t.task_size[iad.tasks[i]]):
            end = &iad.node_end[node[j] - first_node]
            iad.arrivals[end[0]] = <uint32_t>i
            if iad.subtask != NULL:
                iad.subtask[end[0]] = t.task_first[iad.tasks[i]] + j
            end[0] += 1


cdef int _fill_iad(
    const TraceData *t, Setup setup, Iad *iad, int32_t number, bint numbered
) noexcept nogil:
    """List the subtasks of `iad.tasks` by node."""
    cdef int32_t first_node = t.iad_first[number]
    cdef int64_t total
    if sort_by_enqueueing(t, iad.tasks, iad.count) != 0:
        return NO_MEMORY
    iad.local = <LocalTask *>malloc(max(iad.count, 1) * sizeof(LocalTask))
    iad.node_end = <int64_t *>calloc(t.iad_first[number + 1] - first_node, sizeof(int64_t))
    if iad.local == NULL or iad.node_end == NULL:
        return NO_MEMORY
    if setup.demotes:
        iad.latest_s = <double *>malloc(max(iad.count, 1) * sizeof(double))
        if iad.latest_s == NULL:
            return NO_MEMORY
    _fill_local(t, setup, iad)
    total = _count_arrivals(t, iad, first_node)
    iad.arrivals = <uint32_t *>malloc(max(total, 1) * sizeof(uint32_t))
    if iad.arrivals == NULL:
        return NO_MEMORY
    if numbered:
        iad.subtask = <int64_t *>malloc(max(total, 1) * sizeof(int64_t))
        if iad.subtask == NULL:
            return NO_MEMORY
    _list_arrivals(t, iad, first_node)
    return ENDED


cdef void _draw(
    const Distribution *d, uint64_t seed, int32_t node, const int64_t *subtask, double *times_s,
    double *expected_s, int64_t count,
) noexcept nogil:
    """The service times of a node's subtasks, and, unless that is NULL, what is expected."""
    cdef Stream stream
    cdef int64_t i
    if d.kind == SERVICE_GIVEN:
        for i in range(count):
            CHECK(subtask[i] < d.size)
            times_s[i] = d.values[subtask[i]]
            if expected_s != NULL:
                expected_s[i] = d.expected[subtask[i]]
        return
    stream_seed(&stream, seed, node)
    if expected_s == NULL:
        service_fill(d, &stream, times_s, count)
    else:
        service_fill_expected(d, &stream, times_s, expected_s, count)


cdef int _serve_node(
    Setup setup, const TraceData *t, const Iad *iad, int32_t node, Results *results
) noexcept nogil:
    cdef int32_t place = node - t.iad_first[t.node_iad[node]]
    cdef int64_t begin = iad.node_end[place - 1] if place > 0 else 0
    cdef int64_t count = iad.node_end[place] - begin
    cdef double *service_s = <double *>malloc(max(count, 1) * sizeof(double))
    cdef double *expected_s = NULL
    cdef const int64_t *subtask = iad.subtask + begin if iad.subtask != NULL else NULL
    cdef Station s
    cdef int ending = NO_MEMORY
    cdef int32_t i
    memset(&s, 0, sizeof(Station))
    edf_init(&s.queue)
    s.pods = t.node_pods[node]
    s.free_s = <double *>malloc(s.pods * sizeof(double))
    if setup.demotes:
        expected_s = <double *>malloc(max(count, 1) * sizeof(double))
    if service_s != NULL and s.free_s != NULL and (expected_s != NULL or not setup.demotes):
        _draw(setup.service[node], setup.seed, node, subtask, service_s, expected_s, count)
        for i in range(s.pods):
            s.free_s[i] = -INFINITY
        s.arrivals = iad.arrivals + begin
        s.subtask = subtask
        s.service_s = service_s
        s.expected_s = expected_s
        s.local = iad.local
        s.latest_s = iad.latest_s
        s.dispatched_s = results.dispatched_s
        s.finished_s = results.finished_s
        s.demoted = results.demoted
        ending = _serve(&s, count)
        results.busy_s[node] = s.busy_s
        results.late += s.late
        results.demotions += s.demotions
    edf_free(&s.queue)
    free(s.free_s)
    free(service_s)
    free(expected_s)
    return ending


cdef void _gather(const TraceData *t, const Iad *iad, Results *results) noexcept nogil:
    """Transfer the tasks' results to their queries."""
    cdef int64_t i
    cdef int32_t task
    cdef double *done_s
    for i in range(iad.count):
        task = iad.tasks[i]
        done_s = &results.query_done_s[t.task_query[task]]
        done_s[0] = max(done_s[0], iad.local[i].finished_s + t.task_after_s[task])


# The fleet.

cdef int32_t _iad_of(const TraceData *t, int64_t task) noexcept nogil:
    return t.node_iad[task_nodes(t, task)[0]]


cdef void _list_tasks(const TraceData *t, int32_t *tasks, int64_t *iad_end) noexcept nogil:
    """The tasks by IAD; where the part of each ends in `iad_end`, zeros at first."""
    cdef int64_t total = 0
    cdef int64_t count
    cdef int64_t i
    for i in range(t.tasks):
        iad_end[_iad_of(t, i)] += 1
    for i in range(t.iads):
        count = iad_end[i]
        iad_end[i] = total
        total += count
    for i in range(t.tasks):
        count = iad_end[_iad_of(t, i)]
        tasks[count] = <int32_t>i
        iad_end[_iad_of(t, i)] += 1


cdef int _simulate(Setup setup, const TraceData *t, Results *results) noexcept nogil:
    cdef int32_t *tasks = <int32_t *>malloc(t.tasks * sizeof(int32_t))
    cdef int64_t *iad_end = <int64_t *>calloc(t.iads, sizeof(int64_t))
    cdef bint numbered = results.dispatched_s != NULL
    cdef int ending = NO_MEMORY
    cdef int64_t begin = 0
    cdef int32_t number
    cdef int32_t node
    cdef Iad iad
    for node in range(t.nodes):
        numbered |= setup.service[node].kind == SERVICE_GIVEN
    if tasks != NULL and iad_end != NULL:
        _list_tasks(t, tasks, iad_end)
        ending = ENDED
        for number in range(t.iads):
            memset(&iad, 0, sizeof(Iad))
            iad.tasks = tasks + begin
            iad.count = iad_end[number] - begin
            begin = iad_end[number]
            ending = _fill_iad(t, setup, &iad, number, numbered)
            for node in range(t.iad_first[number], t.iad_first[number + 1]):
                if ending == ENDED:
                    ending = _serve_node(setup, t, &iad, node, results)
            if ending == ENDED:
                _gather(t, &iad, results)
            _free_iad(&iad)
            if ending != ENDED:
                break
    free(tasks)
    free(iad_end)
    return ending


def simulate_nodes(
    Trace trace not None,
    services,
    node_service,
    *,
    policy,
    deadline_s=None,
    advance_s=None,
    demotion="node",
    seed=0,
    bint record=False,
):
    """Simulate a trace under one policy whose tasks' deadlines are known; a `Run`.

    A node is one queue, ordered by the policy's key, equal keys in order of enqueueing, in front of
    its pods; no pod idles while the queue has work, none is interrupted. `services` are
    `ServiceTimes`, `node_service` (int32 a node) says which of them is a node's. `policy` is one of
    `_core.queue.policy.POLICIES`; `deadline_s` (float64 a task) is t_D, absolute, and may be left out
    where the policy does not read it. `seed` chooses the service times: the same for every policy.

    A policy that demotes (`_core.queue.policy.DEMOTING`) orders by `advance_s` (float64 a task, 0 if left
    out) too. Here each node looks for itself whether a subtask is hopeless, when its turn comes:
    that its task is late elsewhere it does not know, as in `simulate_events` with `demotion`
    "node"; "never" leaves every subtask in its place.

    At one instant results come before what is enqueued, and that is taken in the order of tasks.

    Without the GIL; threads may share a trace and services. ValueError for arguments that do not
    fit. Memory: 12 to 24 bytes a subtask of the IAD that has the most, 16 more each subtask of all
    with `record`. O(log queued) a subtask.
    """
    cdef Setup setup = checked_setup(
        trace, services, node_service, policy, deadline_s, advance_s, seed
    )
    cdef Run run = empty_run(setup, record)
    cdef int ending
    if setup.reads_deadlines and setup.deadline_s == NULL:
        raise ValueError(f"policy {policy} needs deadline_s")
    if demotion not in ("never", "node"):
        raise ValueError(f"no demotion {demotion!r} node by node; known: never, node")
    if demotion == "never":
        setup.demotes = False
    if setup.demotes:
        check_expected(setup)
    with nogil:
        ending = _simulate(setup, &trace.data, &run.results)
    return finished_run(run, trace, ending)

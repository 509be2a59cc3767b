"""Arguments and results of both simulators: validation of arguments, results as arrays."""

from array import array

from cpython cimport array as c_array
from libc.math cimport INFINITY, NAN, isnan
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from _core.queue.policy import POLICIES
from _core.deadlines.class_advance cimport CLASSES
from _core.queue.policy cimport policy_demotes, policy_key_c
from _core.simulator.service_times cimport SERVICE_GIVEN, ServiceTimes
from _core.simulator.trace cimport LATEST_S

cdef c_array.array _DOUBLES = array("d")
cdef c_array.array _BYTES = array("b")


cdef class Setup:
    """The validated arguments of a simulation."""

    def __dealloc__(self):
        free(self.service)


cdef Setup checked_setup(
    Trace trace,
    object services,
    object node_service,
    object policy,
    object deadline_s,
    object advance_s,
    object seed,
):
    cdef Setup setup = Setup.__new__(Setup)
    if trace.data.task_first == NULL:
        raise ValueError("the trace is empty")
    if policy not in POLICIES:
        raise ValueError(f"no policy {policy!r}; known: {', '.join(POLICIES)}")
    if not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise ValueError(f"seed = {seed!r} is not an int in 0..2^64 - 1")
    setup.trace = trace
    setup.policy = POLICIES[policy]
    setup.seed = seed
    _take_services(setup, tuple(services), node_service)
    if deadline_s is not None:
        _take_deadlines(setup, deadline_s)
    if advance_s is not None:
        _take_advances(setup, advance_s)
    setup.reads_deadlines = isnan(policy_key_c(setup.policy, 0.0, 1.0, NAN, 0.0))
    setup.demotes = policy_demotes(setup.policy)
    return setup


cdef int check_expected(Setup setup) except -1:
    cdef int32_t i
    for i in range(setup.trace.data.nodes):
        if setup.service[i].kind == SERVICE_GIVEN and setup.service[i].expected == NULL:
            raise ValueError(
                f"the policy asks what node {i} is expected to take: give `expected` with its times"
            )
    return 0


cdef int _take_services(Setup setup, tuple services, const int32_t[::1] node_service) except -1:
    cdef const TraceData *t = &setup.trace.data
    cdef int64_t subtasks = t.task_first[t.tasks]
    cdef ServiceTimes times
    cdef int32_t i
    if node_service is None or node_service.shape[0] != t.nodes:
        raise ValueError(f"node_service needs one value for each of the {t.nodes} nodes")
    for times in services:
        if times is None:
            raise ValueError("services holds None")
        if times.d.kind == SERVICE_GIVEN and times.d.size != subtasks:
            raise ValueError(
                f"{times.d.size} service times are given for {subtasks} subtasks"
            )
    setup.services = services
    setup.service = <const Distribution **>malloc(t.nodes * sizeof(Distribution *))
    if setup.service == NULL:
        raise MemoryError
    for i in range(t.nodes):
        if not 0 <= node_service[i] < len(services):
            raise ValueError(f"node {i} has service {node_service[i]} of {len(services)}")
        times = <ServiceTimes>services[node_service[i]]
        setup.service[i] = &times.d
    return 0


cdef int _take_deadlines(Setup setup, const double[::1] deadline_s) except -1:
    cdef int64_t i
    if deadline_s.shape[0] != setup.trace.data.tasks:
        raise ValueError(
            f"deadline_s has {deadline_s.shape[0]} values for {setup.trace.data.tasks} tasks"
        )
    for i in range(deadline_s.shape[0]):
        if isnan(deadline_s[i]):
            raise ValueError(f"the deadline of task {i} is NaN")
    setup.deadlines = deadline_s
    setup.deadline_s = &deadline_s[0]
    return 0


cdef int _take_advances(Setup setup, const double[::1] advance_s) except -1:
    cdef int64_t i
    if advance_s.shape[0] != setup.trace.data.tasks:
        raise ValueError(
            f"advance_s has {advance_s.shape[0]} values for {setup.trace.data.tasks} tasks"
        )
    for i in range(advance_s.shape[0]):
        if not -LATEST_S <= advance_s[i] <= LATEST_S:
            raise ValueError(f"task {i} is advanced by {advance_s[i]!r} s")
    setup.advances = advance_s
    setup.advance_s = &advance_s[0]
    return 0


cdef class Run:
    """The results of a simulation; times in seconds, arrays of float64.

    `query_latency_s`: a value a query, from its arrival to its last task's result and what follows.
    `subtasks`: how many were served; `late_subtasks`: how many of them were dispatched after t_D
    (0 where no deadlines are known); `demoted_subtasks`: how many were found hopeless or belonged
    to what was. `busy_s`: a value a node, what its pods worked in sum. Where advances are learnt,
    else None: `query_advance_s`, a value a query, what it was given; `class_advance_s`, those at
    the end: a list a query scheduler, of its classes in the order of their first queries.

    Recorded on demand, else None: `subtask_dispatched_s`, `subtask_finished_s` and
    `subtask_demoted` (int8), a value a subtask, task by task in the order of the task's set;
    `task_deadline_s`, t_D of each task (NaN where none are known).
    """

    def __init__(self):
        raise TypeError("a Run is made by a simulation")


cdef c_array.array _doubles(int64_t count, double **place):
    cdef c_array.array made = c_array.clone(_DOUBLES, count, zero=True)
    place[0] = made.data.as_doubles
    return made


cdef c_array.array _bytes(int64_t count, signed char **place):
    cdef c_array.array made = c_array.clone(_BYTES, count, zero=True)
    place[0] = made.data.as_schars
    return made


cdef Run empty_run(Setup setup, bint record):
    cdef const TraceData *t = &setup.trace.data
    cdef Run run = Run.__new__(Run)
    cdef int64_t i
    run.subtasks = t.task_first[t.tasks]
    run.query_latency_s = _doubles(t.queries, &run.results.query_done_s)
    run.busy_s = _doubles(t.nodes, &run.results.busy_s)
    for i in range(t.queries):
        run.results.query_done_s[i] = -INFINITY
    if record:
        run.subtask_dispatched_s = _doubles(run.subtasks, &run.results.dispatched_s)
        run.subtask_finished_s = _doubles(run.subtasks, &run.results.finished_s)
        run.subtask_demoted = _bytes(run.subtasks, &run.results.demoted)
        run.task_deadline_s = _doubles(t.tasks, &run.results.deadline_s)
        for i in range(t.tasks):
            run.results.deadline_s[i] = NAN if setup.deadline_s == NULL else setup.deadline_s[i]
    return run


cdef Run finished_run(Run run, Trace trace, int ending):
    cdef const TraceData *t = &trace.data
    cdef int64_t i
    if ending == NO_MEMORY:
        raise MemoryError
    if ending == TOO_LATE:
        raise ValueError(f"a subtask would finish after {LATEST_S:g} s; are the times in seconds?")
    if ending == TOO_MANY_CLASSES:
        raise ValueError(f"more than {CLASSES} classes of queries at one scheduler")
    for i in range(t.queries):
        run.results.query_done_s[i] -= t.query_arrived_s[i]
    run.late_subtasks = run.results.late
    run.demoted_subtasks = run.results.demotions
    memset(&run.results, 0, sizeof(Results))
    return run

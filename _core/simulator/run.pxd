"""Arguments and results of both simulators."""

from libc.stdint cimport int64_t, uint64_t

from _core.simulator.service_times cimport Distribution
from _core.simulator.trace cimport Trace, TraceData

# How a simulation ended.
cdef enum Ending:
    ENDED = 0
    NO_MEMORY = -1
    TOO_LATE = -2                 # a subtask finished after LATEST_S
    TOO_MANY_CLASSES = -3         # of queries at one scheduler

cdef class Setup:                 # checked arguments; kept alive as long as their memory is used
    cdef Trace trace
    cdef tuple services
    cdef const Distribution **service  # [nodes]
    cdef const double[::1] deadlines
    cdef const double *deadline_s # [tasks], NULL if none are given
    cdef const double[::1] advances
    cdef const double *advance_s  # [tasks], NULL if none are given
    cdef int policy
    cdef bint reads_deadlines     # the policy's key needs t_D
    cdef bint demotes             # it asks what a subtask is expected to take
    cdef uint64_t seed

cdef Setup checked_setup(
    Trace trace,
    object services,
    object node_service,
    object policy,
    object deadline_s,
    object advance_s,
    object seed,
)

# ValueError unless the service times tell what is expected of them.
cdef int check_expected(Setup setup) except -1

# Where a simulator writes. Arrays that are not asked for are NULL.
cdef struct Results:
    double *query_done_s          # [queries] last task seen, minus infinity at first
    double *busy_s                # [nodes] zeros at first
    double *dispatched_s          # [subtasks]
    double *finished_s            # [subtasks]
    signed char *demoted          # [subtasks] zeros at first
    double *deadline_s            # [tasks]
    int64_t late
    int64_t demotions

cdef class Run:
    cdef readonly object query_latency_s
    cdef readonly object busy_s
    cdef readonly object subtask_dispatched_s
    cdef readonly object subtask_finished_s
    cdef readonly object subtask_demoted
    cdef readonly object task_deadline_s
    cdef readonly object query_advance_s
    cdef readonly object class_advance_s
    cdef readonly int64_t subtasks
    cdef readonly int64_t late_subtasks
    cdef readonly int64_t demoted_subtasks
    cdef Results results

cdef Run empty_run(Setup setup, bint record)

# From what the simulator wrote to what the caller reads. MemoryError or ValueError if it failed.
cdef Run finished_run(Run run, Trace trace, int ending)

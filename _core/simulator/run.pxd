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

cdef class Setup:                 # validated arguments; its objects own what its pointers refer to
    cdef Trace trace
    cdef tuple services           # ServiceTimes
    cdef const Distribution **service  # [nodes] owned array of borrowed pointers into `services`
    cdef const double[::1] deadlines
    cdef const double *deadline_s # [tasks] into `deadlines`; NULL if none are given
    cdef const double[::1] advances
    cdef const double *advance_s  # [tasks] into `advances`; NULL if none are given
    cdef int policy               # a Policy
    cdef bint reads_deadlines     # the policy's key needs t_D
    cdef bint demotes             # the policy demotes, so expected service times are needed
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

# ValueError unless all service times come with expected ones.
cdef int check_expected(Setup setup) except -1

# Output of a simulator, in arrays that the Run owns. Arrays that are not requested are NULL.
cdef struct Results:
    double *query_done_s          # [queries] when its last task was seen; initially -infinity
    double *busy_s                # [nodes] initially 0
    double *dispatched_s          # [subtasks]
    double *finished_s            # [subtasks]
    signed char *demoted          # [subtasks] 0 or 1; initially 0
    double *deadline_s            # [tasks]
    int64_t late                  # subtasks dispatched after their deadline
    int64_t demotions             # subtasks demoted

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

# Turns a simulator's output into the Run that Python code reads. MemoryError or ValueError if
# `ending` is a failure.
cdef Run finished_run(Run run, Trace trace, int ending)

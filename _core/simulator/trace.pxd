"""Workload trace, independent of the policy: queries in order of arrival, tasks and subtasks.

`TraceData` is plain C for the simulators, which only read it: any number of threads may share one.
All its indices have been validated. Its arrays belong to the `Trace`.
"""

from libc.stdint cimport int32_t, int64_t

cdef struct TraceData:
    int32_t nodes
    int32_t iads
    int32_t *node_iad             # [nodes] ascending from 0 without gaps
    int32_t *node_pods            # [nodes] 1..MAX_PODS
    int32_t *iad_first            # [iads + 1] the first node of each IAD
    int64_t sets
    int64_t *set_first            # [sets + 1] index of a set's first node in set_nodes
    int32_t *set_nodes            # [set_first[sets]] nodes; those of a set are distinct, of one IAD
    int64_t queries
    double *query_arrived_s       # [queries] ascending
    int32_t *query_class          # [queries]
    int32_t *query_scheduler      # [queries] index of its scheduler; NULL: one for all
    double *query_percentile      # [queries] p_q in percent; NULL: DEFAULT_PERCENTILE
    int64_t tasks
    int32_t *task_set             # [tasks] the task goes to the first task_size nodes of this set
    int32_t *task_size            # [tasks]
    int32_t *task_query           # [tasks] ascending from 0 without gaps
    double *task_enqueued_s       # [tasks] not before its query's arrival
    double *task_budget_s         # [tasks] x_t > 0
    double *task_percentile       # [tasks] p_t in percent
    double *task_after_s          # [tasks] delay from a task's last result to its query scheduler
    double *task_window_s         # [tasks] length of the window that it reads; NULL if not given
    int64_t *task_first           # [tasks + 1] number of its first subtask, in set order

# Limit on the absolute value of times in a trace, so that sums stay finite and exact to 0.1 ms.
cdef double LATEST_S
cdef double DEFAULT_PERCENTILE

cdef enum:
    MAX_SCHEDULERS = 4096

cdef inline const int32_t *task_nodes(const TraceData *t, int64_t task) noexcept nogil:
    """The nodes of a task: [task_size[task]]."""
    return t.set_nodes + t.set_first[t.task_set[task]]

# Sorts `tasks` [count], given in ascending order, by time of enqueueing, then by number. Returns 0,
# or -1 if memory ran out. O(count) if they are in order already, else O(count log count).
cdef int sort_by_enqueueing(const TraceData *t, int32_t *tasks, int64_t count) noexcept nogil


cdef class Trace:
    cdef TraceData data

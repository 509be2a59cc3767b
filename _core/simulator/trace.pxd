"""Workload trace, independent of the policy: queries in order of arrival, tasks and subtasks.

`TraceData` is plain C for the simulators, which only read it: any number of threads may share one.
All its indices have been validated.
"""

from libc.stdint cimport int32_t, int64_t

cdef struct TraceData:
    int32_t nodes
    int32_t iads
    int32_t *node_iad             # [nodes] ascending from 0 without gaps
    int32_t *node_pods            # [nodes] 1..MAX_PODS
    int32_t *iad_first            # [iads + 1] the first node of each IAD
    int64_t sets
    int64_t *set_first            # [sets + 1] where a set begins in set_nodes
    int32_t *set_nodes            # the nodes of a set, all distinct and of one IAD
    int64_t queries
    double *query_arrived_s       # [queries] ascending
    int32_t *query_class          # [queries]
    int32_t *query_scheduler      # [queries] who asks for it; NULL: one for all
    double *query_percentile      # [queries] p_q in percent; NULL: DEFAULT_PERCENTILE
    int64_t tasks
    int32_t *task_set             # [tasks] the task goes to the first task_size nodes of this set
    int32_t *task_size            # [tasks]
    int32_t *task_query           # [tasks] ascending from 0 without gaps
    double *task_enqueued_s       # [tasks] not before its query's arrival
    double *task_budget_s         # [tasks] x_t > 0
    double *task_percentile       # [tasks] p_t in percent
    double *task_after_s          # [tasks] from a task's last result to the query's sight of it
    double *task_window_s         # [tasks] how much it asks for; NULL if not told
    int64_t *task_first           # [tasks + 1] subtasks are numbered task by task, in set order

# No time in a trace is further than this from 0, so that sums stay finite and exact to 0.1 ms.
cdef double LATEST_S
cdef double DEFAULT_PERCENTILE

cdef enum:
    MAX_SCHEDULERS = 4096

cdef inline const int32_t *task_nodes(const TraceData *t, int64_t task) noexcept nogil:
    """The nodes of a task, task_size of them."""
    return t.set_nodes + t.set_first[t.task_set[task]]

# Puts `count` ascending tasks in order of enqueueing, by number where that is equal. 0, or -1 if
# memory ran out. O(count) if they are in order already, else O(count log count).
cdef int sort_by_enqueueing(const TraceData *t, int32_t *tasks, int64_t count) noexcept nogil


cdef class Trace:
    cdef TraceData data

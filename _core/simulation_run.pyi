from array import array

class Run:
    query_latency_s: array[float]
    busy_s: array[float]
    subtasks: int
    late_subtasks: int
    subtask_dispatched_s: array[float] | None
    subtask_finished_s: array[float] | None
    task_deadline_s: array[float] | None

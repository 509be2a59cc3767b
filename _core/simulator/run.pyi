from array import array

class Run:
    query_latency_s: array[float]
    busy_s: array[float]
    subtasks: int
    late_subtasks: int
    demoted_subtasks: int
    query_advance_s: array[float] | None
    class_advance_s: list[list[float]] | None
    subtask_dispatched_s: array[float] | None
    subtask_finished_s: array[float] | None
    subtask_demoted: array[int] | None
    task_deadline_s: array[float] | None

from typing_extensions import Buffer

class Trace:
    def __init__(
        self,
        *,
        node_iad: Buffer,
        node_pods: Buffer,
        set_first: Buffer,
        set_nodes: Buffer,
        task_set: Buffer,
        task_size: Buffer,
        query_arrived_s: Buffer,
        query_class: Buffer,
        task_query: Buffer,
        task_enqueued_s: Buffer,
        task_budget_s: Buffer,
        task_percentile: Buffer,
        task_after_s: Buffer,
        task_window_s: Buffer | None = None,
        query_scheduler: Buffer | None = None,
        query_percentile: Buffer | None = None,
    ) -> None: ...
    @property
    def nodes(self) -> int: ...
    @property
    def iads(self) -> int: ...
    @property
    def queries(self) -> int: ...
    @property
    def tasks(self) -> int: ...
    @property
    def subtasks(self) -> int: ...

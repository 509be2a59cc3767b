from collections.abc import Iterable
from typing import Literal

from typing_extensions import Buffer

from _core.deadlines.order_statistics import UnloadedModel
from _core.deadlines.size_regression import SizeModel
from _core.simulator.run import Run
from _core.simulator.service_times import ServiceTimes
from _core.simulator.trace import Trace

def simulate_events(
    trace: Trace,
    services: Iterable[ServiceTimes],
    node_service: Buffer,
    *,
    policy: str,
    models: Iterable[UnloadedModel] | None = None,
    deadline_s: Buffer | None = None,
    advance_s: Buffer | None = None,
    sizes: Iterable[SizeModel] | None = None,
    balance: bool = False,
    demotion: Literal["never", "node", "task", "query"] = "task",
    seed: int = 0,
    record: bool = False,
) -> Run: ...

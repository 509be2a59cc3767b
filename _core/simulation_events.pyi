from collections.abc import Iterable
from typing import Literal

from typing_extensions import Buffer

from _core.orderstats import UnloadedModel
from _core.service_times import ServiceTimes
from _core.simulation_run import Run
from _core.sizes import SizeModel
from _core.trace import Trace

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

from collections.abc import Iterable

from typing_extensions import Buffer

from _core.orderstats import UnloadedModel
from _core.service_times import ServiceTimes
from _core.simulation_run import Run
from _core.trace import Trace

def simulate_events(
    trace: Trace,
    services: Iterable[ServiceTimes],
    node_service: Buffer,
    *,
    policy: str,
    models: Iterable[UnloadedModel] | None = None,
    deadline_s: Buffer | None = None,
    seed: int = 0,
    record: bool = False,
) -> Run: ...

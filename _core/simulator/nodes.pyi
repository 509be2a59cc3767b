from collections.abc import Iterable
from typing import Literal

from typing_extensions import Buffer

from _core.simulator.run import Run
from _core.simulator.service_times import ServiceTimes
from _core.simulator.trace import Trace

def simulate_nodes(
    trace: Trace,
    services: Iterable[ServiceTimes],
    node_service: Buffer,
    *,
    policy: str,
    deadline_s: Buffer | None = None,
    advance_s: Buffer | None = None,
    demotion: Literal["never", "node"] = "node",
    seed: int = 0,
    record: bool = False,
) -> Run: ...

from typing_extensions import Buffer

def simulate_broker(
    topic: Buffer,
    arrived_s: Buffer,
    service_s: Buffer,
    finished_s: Buffer,
    *,
    topics: int,
    cores: int,
    interference: float,
    budget_s: Buffer | None = None,
) -> None: ...

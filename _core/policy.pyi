from typing import Final

FIFO: Final[int]
SPR: Final[int]
TEDFQ: Final[int]
EDFQ: Final[int]
POLICIES: Final[dict[str, int]]

def policy_key(policy: int, enqueued_s: float, slo_s: float, deadline_s: float) -> float: ...

from typing import Final

FIFO: Final[int]
SPR: Final[int]
TEDFQ: Final[int]
EDFQ: Final[int]
SANDERLING: Final[int]
POLICIES: Final[dict[str, int]]
DEMOTING: Final[frozenset[str]]
DEMOTED: Final[float]

def policy_key(
    policy: int,
    enqueued_s: float,
    slo_s: float,
    deadline_s: float,
    advance_s: float = 0.0,
) -> float: ...
def hopeless(now_s: float, expected_s: float, latest_s: float) -> bool: ...

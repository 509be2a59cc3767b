"""The invariants of the overlay under random schedules; SANDERLING_SCHEDULES says how many.

`make test` runs the first tenth of them, `make test-long` the others.
"""

import os
from collections.abc import Callable

import pytest

from tests.overlay.schedules import with_failures, with_little_room, without_failures
from tests.overlay.world import World

SCHEDULES = int(os.environ.get("SANDERLING_SCHEDULES", "10000"))
PIECES = 20
SHORT = 2


def _run(schedule: Callable[[int], World], first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            schedule(seed)
        except Exception as error:
            error.add_note(f"{schedule.__name__}({seed})")
            raise


@pytest.mark.parametrize(
    "piece",
    [*range(SHORT), *(pytest.param(n, marks=pytest.mark.long) for n in range(SHORT, PIECES))],
)
def test_schedules(piece: int) -> None:
    """Of ten schedules seven are without failures, and one keeps few notifications."""
    count = SCHEDULES // PIECES
    _run(without_failures, piece * count, count * 7 // 10)
    _run(with_failures, piece * count, count * 2 // 10)
    _run(with_little_room, piece * count, count // 10)

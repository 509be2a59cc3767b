"""The invariants of the overlay under random schedules; SANDERLING_SCHEDULES says how many.

`make test` runs the first tenth of them, `make test-long` the others.
"""

import os
from collections.abc import Callable

import pytest

from tests.examples import campaign
from tests.overlay.schedules import (
    with_failures,
    with_impatience,
    with_little_room,
    without_failures,
)
from tests.overlay.world import World

SCHEDULES = int(os.environ.get("SANDERLING_SCHEDULES", "10000"))
PIECES = 20
SHORT = 2


def _run(schedule: Callable[[int], World], first: int, count: int) -> int:
    """How often links were reopened."""
    reopened = 0
    for seed in range(first, first + count):
        try:
            reopened += len(schedule(seed).pauses)
        except Exception as error:
            error.add_note(f"{schedule.__name__}({seed})")
            raise
    return reopened


@pytest.mark.parametrize(
    "piece",
    [*range(SHORT), *(pytest.param(n, marks=campaign(n)) for n in range(SHORT, PIECES))],
)
def test_schedules(piece: int) -> None:
    """Of ten schedules six are without failures; one keeps few notifications, and in one links are
    reopened to neighbours that say nothing for a while."""
    count = SCHEDULES // PIECES
    _run(without_failures, piece * count, count * 6 // 10)
    _run(with_failures, piece * count, count * 2 // 10)
    _run(with_little_room, piece * count, count // 10)
    reopened = _run(with_impatience, piece * count, count // 10)
    # Four to forty of fifty schedules; of few schedules all may go without.
    assert reopened or count < 500

"""How much a run tries.

Of hypothesis's examples `make test` and CI try a quarter, `make test-long` all; of each campaign
`make test-long` runs the whole, CI a part.
"""

import os
from collections.abc import Callable, Iterable
from typing import Final

import pytest

ALL: Final = os.environ.get("SANDERLING_EXAMPLES") == "all"
FEWEST: Final = 10
# Kills of the streaming job; campaigns are whole with as many as `make test-long` has by itself.
KILLS: Final = int(os.environ.get("SANDERLING_KILLS", "20"))
WHOLE: Final = KILLS >= 20
CAMPAIGN: Final = [
    pytest.mark.long,
    pytest.mark.skipif(not WHOLE, reason="CI runs a part of this campaign; make test-long all"),
]


def examples(full: int) -> int:
    """Of so many, as many as this run tries."""
    return full if ALL else max(FEWEST, full // 4)


def share(whole: int, part: int = 5) -> int:
    """Of so many runs of a campaign: all, or in CI one of `part`."""
    return whole if WHOLE else max(1, whole // part)


def campaign(n: int, part: int = 5) -> list[pytest.MarkDecorator]:
    """Marks of a campaign's n-th case: `make test-long` runs each, CI one of `part`."""
    return CAMPAIGN if n % part else [pytest.mark.long]


def lives(seeds: Iterable[int], life: Callable[[int], int]) -> int:
    """The sum of `life(seed)`; a failure names its seed."""
    total = 0
    for seed in seeds:
        try:
            total += life(seed)
        except BaseException as error:
            error.add_note(f"{life.__name__}({seed})")
            raise
    return total

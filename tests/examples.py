"""How many examples hypothesis tries: a quarter of them in `make test`, all in `make test-long`."""

import os
from typing import Final

ALL: Final = os.environ.get("SANDERLING_EXAMPLES") == "all"
FEWEST: Final = 10


def examples(full: int) -> int:
    """Of so many, as many as this run tries."""
    return full if ALL else max(FEWEST, full // 4)

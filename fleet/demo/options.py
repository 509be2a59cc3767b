"""Options of `fleet demo`."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Options(Struct, frozen=True):
    """Options of the command line: `rate_per_s` is λ, over all query schedulers. `keep`: the fleet
    stays up until Ctrl-C. `verbose`: all details on the terminal in place of the story."""

    directory: Path
    seconds: float
    rate_per_s: float
    seed: int
    virtual_queries: int
    keep: bool
    verbose: bool = False

"""How a benchmark tells its results: one line of JSON each.

A result is {name, value, unit, peer, ratio}: `peer` names what was measured beside it in the same
run and how long that took in the same unit, `ratio` is peer over value (how many times faster);
both are null for a value that only informs. Where the peer is a floor, the ratio is below one.
"""

import json
import statistics
from collections.abc import Callable, Iterable
from typing import Any

Result = dict[str, Any]


def result(
    name: str, value_s: float, unit: str, peer: str | None = None, peer_s: float | None = None
) -> Result:
    """A result whose times are given in seconds and told in `unit` (ns, us, ms or s)."""
    scale = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}[unit]
    told = None
    ratio = None
    if peer is not None and peer_s is not None:
        told = f"{peer}: {peer_s * scale:.4g} {unit}"
        ratio = round(peer_s / value_s, 3)
    value = float(f"{value_s * scale:.4g}")
    return {"name": name, "value": value, "unit": unit, "peer": told, "ratio": ratio}


def interleaved(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure, all taken in turn so that a noisy moment hits all alike."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def report(results: Iterable[Result]) -> None:
    """Print the results."""
    for line in results:
        print(json.dumps(line), flush=True)

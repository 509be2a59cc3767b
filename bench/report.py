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


SCALES = {"ns": 1e9, "us": 1e6, "ms": 1e3}


def result(
    name: str,
    value: float,
    unit: str,
    peer: str | None = None,
    peer_value: float | None = None,
    **more: Any,
) -> Result:
    """A result. Times are given in seconds and told in `unit` (ns, us, ms or s); values of any
    other unit are told as they are. `more` stands beside the rest."""
    scale = SCALES.get(unit, 1.0)
    told = None
    ratio = None
    if peer is not None and peer_value is not None:
        told = f"{peer}: {peer_value * scale:.4g} {unit}"
        ratio = round(peer_value / value, 3)
    number = float(f"{value * scale:.4g}")
    return {"name": name, "value": number, "unit": unit, "peer": told, "ratio": ratio} | more


def interleaved(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure, all taken in turn so that a noisy moment hits all alike."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def report(results: Iterable[Result]) -> None:
    """Print the results."""
    for line in results:
        print(json.dumps(line), flush=True)

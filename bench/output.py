"""Output format of the benchmarks: one line of JSON per result.

A result is {name, value, unit, peer, ratio}: `peer` names the alternative measured in the same run
and its time in the same unit, `ratio` is peer over value (how many times faster); both are null for
a value that is informative only. If the peer is a floor, the ratio is below one.
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
    """A result. Times are given in seconds and reported in `unit` (ns, us, ms or s); values of any
    other unit are reported unchanged. `more` adds further fields."""
    scale = SCALES.get(unit, 1.0)
    told = None
    ratio = None
    if peer is not None and peer_value is not None:
        told = f"{peer}: {peer_value * scale:.4g} {unit}"
        ratio = round(peer_value / value, 3)
    number = float(f"{value * scale:.4g}")
    return {"name": name, "value": number, "unit": unit, "peer": told, "ratio": ratio} | more


def interleaved(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure, with the measures interleaved so that a noisy moment affects
    all."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def report(results: Iterable[Result]) -> None:
    """Print the results."""
    for line in results:
        print(json.dumps(line), flush=True)

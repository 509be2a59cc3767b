"""Output format of the benchmarks: one line of JSON per result.

A result is {name, value, unit, peer, ratio, goal, goal_met}: `peer` names the alternative measured
in the same run and its time in the same unit, `ratio` is peer over value, or value over peer of a
rate (how many times faster); both are null for a value that is informative only. If the peer is a
floor, the ratio is below one. `goal` says in words what the value or the ratio has to be; null
where nothing is wanted.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Result = dict[str, Any]


class CannotRunError(Exception):
    """This host lacks what a benchmark needs; the message says what, and where it comes from."""


SCALES = {"ns": 1e9, "us": 1e6, "ms": 1e3}


def result(
    name: str,
    value: float,
    unit: str,
    peer: str | None = None,
    peer_value: float | None = None,
    *,
    most: float | None = None,
    least: float | None = None,
    least_ratio: float | None = None,
    also: Mapping[str, bool] | None = None,
    **more: Any,
) -> Result:
    """A result. Times are given in seconds and reported in `unit` (ns, us, ms or s); values of any
    other unit are reported unchanged. The goal is a value of at most `most` and at least `least`, a
    ratio of at least `least_ratio`, and what else has to hold, in words. There is no ratio to 0.
    `more` adds further fields."""
    scale = SCALES.get(unit, 1.0)
    told = None
    ratio = None
    if peer is not None and peer_value is not None:
        told = f"{peer}: {peer_value * scale:.4g} {unit}"
        above, below = (value, peer_value) if unit.endswith("/s") else (peer_value, value)
        ratio = round(above / below, 3) if below else None
    number = float(f"{value * scale:.4g}")
    goals: list[tuple[str, bool]] = []
    if most is not None:
        goals.append((f"≤ {most * scale:g} {unit}", value <= most))
    if least is not None:
        goals.append((f"≥ {least * scale:g} {unit}", value >= least))
    if least_ratio is not None:
        assert peer_value is not None, "a ratio to nothing"
        goals.append((f"ratio ≥ {least_ratio:.3g}", ratio is None or ratio >= least_ratio))
    goals += (also or {}).items()
    return {
        "name": name,
        "value": number,
        "unit": unit,
        "peer": told,
        "ratio": ratio,
        "goal": ", ".join(words for words, _ in goals) or None,
        "goal_met": all(met for _, met in goals) if goals else None,
    } | more


def interleaved(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure, with the measures interleaved so that a noisy moment affects
    all."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def report(results: Iterable[Result]) -> None:
    """Print the results."""
    for line in results:
        print(json.dumps(line), flush=True)

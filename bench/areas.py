"""Area matching: the nodes that cover 1,024 asked areas among 1,000 nodes, and the areas without
one.

Compared in the same run with a scan of each asked area against each declared one, and with a floor:
one set look-up per asked area. All, half or few of the areas are unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from agent.scheduling.tasks.nodes import Node, NodeTable
from agent.wire.areas import covers
from agent.wire.messages import Hello
from bench.output import Result, interleaved, report, result

NODES = 1_000
ASKED = 1_024
ROUNDS = 40
GOAL_S = 300e-6


def _room(number: int) -> str:
    return f"b{number % 10}/f{number // 10 % 10}/r{number}"


def naive(asked: tuple[str, ...], declared: list[str]) -> tuple[list[str], list[str]]:
    """The scan: every pair."""
    found = [area for area in declared if any(covers(a, area) for a in asked)]
    return found, [a for a in asked if not any(covers(a, area) for area in declared)]


def timed(do: Callable[[], object]) -> Callable[[], float]:
    """Duration of one call, in seconds."""

    def measure() -> float:
        started = time.perf_counter()
        do()
        return time.perf_counter() - started

    return measure


def run() -> list[Result]:
    """Goal of areas: at most 300 us."""
    table = NodeTable()
    for number in range(NODES):
        node = Node(f"n{number}", number)
        table.bind(node, Hello(node.name, "1", "h", (_room(number),), (), 1, "1.0"), number, "")
    declared = [_room(number) for number in range(NODES)]
    known = set(declared)
    lines = []
    for name, first in (
        ("areas", NODES - ASKED // 2),
        ("areas-unknown", 2 * NODES),
        ("areas-known", 0),
    ):
        asked = tuple(_room(number) for number in range(first, first + ASKED))
        covering = table.covering(asked)
        found = [area for _, own in covering.nodes for area in own]
        assert (found, covering.unmatched) == naive(asked, declared)
        ours, floor = interleaved(
            ROUNDS,
            timed(lambda asked=asked: table.covering(asked)),
            timed(lambda asked=asked: [area in known for area in asked]),
        )
        slow = timed(lambda asked=asked: naive(asked, declared))()
        lines.append(
            result(
                name,
                ours,
                "us",
                "each with each",
                slow,
                floor_us=round(floor * 1e6, 1),
                over_floor=round(ours / floor, 2),
                goal_met=ours <= GOAL_S,
            )
        )
    return lines


if __name__ == "__main__":
    report(run())

"""Area matching: the nodes that cover 1,024 asked areas among 1,000 nodes, and the areas without
one; and the members of a pool that offer them.

Compared in the same run with a scan of each asked area against each declared one, and with a floor:
one set look-up per asked area. All, half or few of the areas are unknown. A set of areas is asked
for the first time, or, as an application does, again, in a tuple of other strings.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from agent.scheduling.pools import Pool
from agent.scheduling.tasks.entry import Node
from agent.scheduling.tasks.nodes import NodeTable
from agent.wire.areas import covers
from agent.wire.market import Member, Service
from agent.wire.node_messages import Hello
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


def timed(do: Callable[[tuple[str, ...]], object], rooms: range, turn: int) -> Callable[[], float]:
    """Duration of one call for these rooms, in seconds; each call's begin `turn` rooms later."""
    turns = itertools.count()

    def measure() -> float:
        names = [_room(number) for number in rooms]
        start = next(turns) * turn % len(names)
        asked = tuple(names[start:] + names[:start])
        started = time.perf_counter()
        do(asked)
        return time.perf_counter() - started

    return measure


def nodes() -> NodeTable:
    """A node for each room."""
    table = NodeTable()
    for number in range(NODES):
        node = Node(f"n{number}", number)
        table.bind(node, Hello(node.name, "1", "h", (_room(number),), (), 1, "1.0"), number, "")
    return table


def run() -> list[Result]:
    """Goal of all: at most 300 us."""
    table, declared = nodes(), [_room(number) for number in range(NODES)]
    members = [Member(f"iad{n}", f"tcp://h{n}", tuple(declared[n::10])) for n in range(10)]
    pool, known = Pool(Service("s", "iad0", 0, tuple(members)), None), set(declared)
    half = range(NODES - ASKED // 2, NODES + ASKED // 2)
    lines = []
    for name, do, rooms, turn in (
        ("areas", table.covering, half, 1),
        ("areas-unknown", table.covering, range(2 * NODES, 2 * NODES + ASKED), 1),
        ("areas-known", table.covering, range(ASKED), 1),
        ("areas-again", table.covering, half, 0),
        ("areas-pool-again", pool.fanout, half, 0),
    ):
        asked = tuple(_room(number) for number in rooms)
        covering = table.covering(asked)
        found = [area for _, own in covering.nodes for area in own]
        assert (found, covering.unmatched) == naive(asked, declared)
        ours, floor = interleaved(
            ROUNDS,
            timed(do, rooms, turn),
            timed(lambda asked: [area in known for area in asked], rooms, turn),
        )
        slow = timed(lambda asked: naive(asked, declared), rooms, 0)()
        lines.append(
            result(
                name,
                ours,
                "us",
                "each with each",
                slow,
                floor_us=round(floor * 1e6, 1),
                over_floor=round(ours / floor, 2),
                most=GOAL_S,
            )
        )
    return lines


if __name__ == "__main__":
    report(run())

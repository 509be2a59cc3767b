"""What a run found, as tables of its page and rows of its data. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from agent.wire.records import MoveRecord
from fleet.terminal.tables import Table
from lab.placement.flock.run import Found

MOVE: Final = ("unit", "source", "target", "state", "reason", "pause_ms", "ended_s")


def rows(found: Found) -> list[list[object]]:
    """A row for each move, in order; `ended_s` counts from when drift could begin."""
    ordered = sorted(found.moves, key=_ended_ms)
    return [
        [
            *(each.unit, each.source, each.target, each.state, each.reason),
            "" if each.pause_ms is None else f"{each.pause_ms:.2f}",
            f"{(_ended_ms(each) - found.began_ms) / 1e3:.2f}",
        ]
        for each in ordered
    ]


def tables(found: Found) -> dict[str, Table]:
    """By the names that the page uses."""
    return {
        "settles": _settles(found),
        "cost": _cost(found),
        "messages": _messages(found),
        "pauses": _pauses(found),
    }


def _settles(found: Found) -> Table:
    setting, done = found.setting, settled(found.moves)
    late_s = [(_ended_ms(each) - found.began_ms) / 1e3 for each in done]
    took_s = max([0.0, *late_s])
    before = sum(late <= 0.0 for late in late_s)
    return Table(
        "Until it is settled",
        ("", "", "goal"),
        [
            ["masters", str(setting.masters), ""],
            ["clones", str(setting.clones), ""],
            ["settled", "yes" if found.settled else "no", "always"],
            ["time from the end of the quiet minute to the last move", f"{took_s:.0f} s", ""],
            [
                f"the same in rounds of {setting.round_s:g} s",
                f"{took_s / setting.round_s:.0f}",
                "≤ 100",
            ],
            ["moves", str(len(done)), ""],
            ["of these before the end of the quiet minute", str(before), ""],
            ["moves a clone", f"{len(done) / setting.clones:.2f}", "≤ 1.5"],
            ["moves that came to nothing", str(len(found.moves) - len(done)), ""],
            ["clones that would still gain more than a move costs", str(found.unsettled), "0"],
        ],
    )


def _cost(found: Found) -> Table:
    costs = found.costs
    shown = {
        "all clones at their devices' masters": costs.homes,
        "as drift left them": costs.drift,
        "a central plan from the devices' masters": costs.planned,
        "a central plan from where drift left them": costs.after_plan,
    }
    least = min(costs.planned, costs.after_plan)
    return Table(
        "Social cost",
        ("placement", "cost, s of delay a second", "to the cheaper plan"),
        [[name, f"{cost:.3f}", f"{cost / least:.3f}"] for name, cost in shown.items()],
    )


def _messages(found: Found) -> Table:
    check = found.check
    return Table(
        "Messages at subscribers",
        ("", "", "goal"),
        [
            ["subscribers, each of all clones", str(found.setting.subscribers), ""],
            ["topics that each has heard", str(found.heard), str(found.setting.clones)],
            ["outputs that came to them", str(check.outputs), ""],
            ["lost", str(check.lost), "0"],
            ["doubled", str(check.doubled), "0"],
            ["out of order", str(check.reordered), "0"],
            ["rounds of readings, at all homes", str(found.rounds), ""],
            ["of these without an answer in time", str(found.rounds_failed), ""],
            [
                "readings of a device that became no output, at a subscriber",
                str(check.unanswered),
                "",
            ],
        ],
    )


def _pauses(found: Found) -> Table:
    pauses = [each.pause_ms for each in settled(found.moves) if each.pause_ms is not None]
    shown = [
        ["p50", f"{percentile(pauses, 50.0):.1f}" if pauses else "–"],
        ["p99", f"{percentile(pauses, 99.0):.1f}" if pauses else "–"],
        ["most", f"{max(pauses):.1f}" if pauses else "–"],
    ]
    ways = sorted(found.world.ways_s.values())
    shown.append(["one way between two masters, least", f"{ways[0] * 1e3:.1f}"])
    shown.append(["one way between two masters, most", f"{ways[-1] * 1e3:.1f}"])
    return Table("Pause of a move", ("", "ms"), shown)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100.0) - 1)]


def settled(moves: Sequence[MoveRecord]) -> list[MoveRecord]:
    """The moves that were made."""
    return [each for each in moves if each.state == "settled"]


def _ended_ms(move: MoveRecord) -> float:
    return move.wall_ms + move.moved_ms

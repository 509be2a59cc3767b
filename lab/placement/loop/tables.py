"""What a run found, as tables of its page and rows of its data. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from fleet.lake.schema.tables.placing import MOVE_EFFECTS
from fleet.simulation.measures import percentile
from fleet.terminal.tables import Table
from lab.placement.loop.building import FLOORS, OBJECTIVE
from lab.placement.loop.run import Found, Shift, Side

EFFECT: Final = MOVE_EFFECTS.names
PERCENTILES: Final = (50, 90, 99)
NONE: Final = "–"


def rows(found: Found) -> list[list[object]]:
    """A row for each settled move, in order: before and after it."""
    return [[_cell(row[name]) for name in EFFECT] for row in found.effects]


def _cell(value: Any) -> object:
    return "" if value is None else round(value, 4) if isinstance(value, float) else value


def tables(found: Found) -> dict[str, Table]:
    """By the names that the page uses."""
    return {
        "looks": _looks(found),
        "latencies": _latencies(found),
        "report": _report(found),
        "messages": _messages(found),
        "pauses": _pauses(found),
    }


def _looks(found: Found) -> Table:
    looks = [(f"at {found.first.floor}, as in the beginning", found.first)]
    for shift in found.shifts:
        looks.append((f"gone to {shift.floor}", shift.moved))
        looks.append((f"at {shift.floor} still", shift.stayed))
    return Table(
        "What the job says",
        ("load", "moves", "line"),
        [[load, str(look.moves), look.line] for load, look in looks],
    )


def _latencies(found: Found) -> Table:
    shown = []
    for shift, name in zip(found.shifts, _ways(found.shifts), strict=True):
        for text, side in (("not yet moved", shift.before), ("moved", shift.after)):
            shown.append([name, text, str(len(side.took_ms)), *_percentiles(side)])
    return Table(
        "Before and after",
        (
            *("load", "topics", "messages"),
            *[f"p{p}, ms" for p in PERCENTILES],
            *[f"processor's p{p}, ms" for p in PERCENTILES],
        ),
        shown,
        left=2,
    )


def _percentiles(side: Side) -> Iterable[str]:
    took_ms = sorted(side.took_ms)
    of_people = [percentile(took_ms, p) for p in PERCENTILES]
    return [_ms(ms) for ms in (*of_people, *(side.processors_ms or [None] * len(PERCENTILES)))]


def _report(found: Found) -> Table:
    """What the report says of the moves after each shift, each of which moved all topics."""
    shown, topics = [], found.setting.topics
    for n, name in enumerate(_ways(found.shifts)):
        moved = found.effects[n * topics : (n + 1) * topics]
        for side in ("before", "after"):
            of = {
                what: _known([row[f"{side}_{what}"] for row in moved])
                for what in ("way_ms", "achieved_ms", "worst_ms", "late_share")
            }
            shown.append(
                [
                    *(name, side),
                    *(_ms(_median(of[what])) for what in ("way_ms", "achieved_ms")),
                    _ms(max(of["worst_ms"], default=None)),
                    _percent(max(of["late_share"], default=None)),
                ]
            )
    achieved = f"p{OBJECTIVE.percentile:g}"
    return Table(
        "What the report says of the moves",
        ("load", "side", "way, ms", f"{achieved}, ms", f"worst {achieved}, ms", "late"),
        shown,
        left=2,
    )


def _messages(found: Found) -> Table:
    check = found.check
    return Table(
        "Messages of people",
        ("", "", "goal"),
        [
            ["outputs that came to them", str(check.outputs), ""],
            ["lost", str(check.lost), "0"],
            ["doubled", str(check.doubled), "0"],
            ["out of order", str(check.reordered), "0"],
        ],
    )


def _pauses(found: Found) -> Table:
    settled = [each for each in found.moves if each.state == "settled"]
    pauses = sorted(_known([each.pause_ms for each in settled]))
    return Table(
        "Pause of a move",
        ("", ""),
        [
            ["moves", str(len(settled))],
            ["moves that came to nothing", str(len(found.moves) - len(settled))],
            ["p50, ms", _ms(percentile(pauses, 50.0))],
            ["most, ms", _ms(percentile(pauses, 100.0))],
            ["one way between two masters, ms", _ms(found.setting.way_s * 1e3)],
        ],
    )


def _ways(shifts: Sequence[Shift]) -> list[str]:
    """From floor to floor, with a number."""
    floors = [FLOORS[0], *(shift.floor for shift in shifts)]
    return [f"{n}: {one} → {other}" for n, (one, other) in enumerate(pairwise(floors), 1)]


def _known(values: Iterable[float | None]) -> list[float]:
    return [each for each in values if each is not None]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _ms(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{share * 100:.1f} %"

"""Series of one channel, and what a terminal shows of answers with them."""

import io

from rich.console import Console

from agent.wire.messages import Series
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from agent.wire.watches import Round
from fleet.query.watch import round_lines
from fleet.terminal.screen import show_readings

NOW_MS = 1_377_298_800_000


def series(values, flags=(), ages=(), sources=(), start_ms=NOW_MS, channel="temperature"):
    return Series(
        Int64Column.of(range(start_ms, start_ms + 1000 * len(values), 1000)),
        {channel: Float32Column.of(values)},
        Int64Column.of(sources) if sources else None,
        {channel: UInt8Column.of(flags)} if flags else {},
        UInt32Column.of(ages) if ages else None,
    )


def shown(given, width=80):
    out = io.StringIO()
    show_readings(Console(file=out, width=width, markup=False, highlight=False), given)
    return out.getvalue().splitlines()


def below(given):
    """What a watch shows below the line of a round."""
    return [line.plain.strip() for line in round_lines(Round("w", 1, 0, 0, 1, given), 0.0)[1:]]

"""Buckets as tables: a row for each that holds something."""

from __future__ import annotations

from datetime import datetime

from rich.console import Console

from agent.wire.buckets import Buckets
from agent.wire.messages import Answer
from fleet.terminal.screen import format_value, line, local_time, plain_table, show_table, unit_of
from fleet.terminal.summary import labelled
from fleet.terminal.units import format_duration


def show_buckets(screen: Console, answer: Answer) -> None:
    """One table for each channel of each area."""
    for result in answer.results:
        if result.buckets is None:
            continue
        area = labelled(result.area, result.name)
        for name in sorted(result.buckets.channels):
            _show(screen, area, name, result.buckets)


def _show(screen: Console, area: str, name: str, buckets: Buckets) -> None:
    length = format_duration(buckets.length_ms / 1e3)
    unit = unit_of(name)
    line(screen, f"{area}: {name}{unit and f' in {unit}'}, {length} each", style="bold")
    found = buckets.channels[name]
    bad = None if found.bad is None else found.bad.numbers()
    columns = ["from", "n", "min", "mean", "max"]
    table = plain_table(*columns, *(["bad"] if bad is not None else []))
    today = datetime.now().astimezone()
    finer = bool(buckets.length_ms % 1_000)  # else some begin at the same second, or seem to
    rows = zip(
        *[column.numbers() for column in (found.count, found.min, found.mean, found.max)],
        strict=True,
    )
    for number, (count, *extent) in enumerate(rows):
        if not count and (bad is None or not bad[number]):
            continue
        start_ms = buckets.start_ms + number * buckets.length_ms
        cells = [local_time(start_ms, today, finer=finer), str(count), *map(format_value, extent)]
        table.add_row(*cells, *([str(bad[number])] if bad is not None else []))
    show_table(screen, table)

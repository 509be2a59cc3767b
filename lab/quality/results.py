"""Output of the campaign: every measured kind of fault as CSV, and a page around a picture."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from fleet.terminal.tables import Table
from lab.provenance import Provenance
from lab.quality.campaign import Alarms, Real, Result, Trial
from lab.quality.cost import Cost
from lab.quality.injection import sizes
from lab.quality.recordings import Label, Recording
from lab.quality.statistics import Interval, rate, share

NAME: Final = "quality"
MAX_ALARMS: Final = 1.0  # a room and week
SENSORS_OF_A_ROOM: Final = 6  # series of a room at 1 Hz: three sensors, two channels


class Report(Struct, frozen=True):
    """The measurements, and their data."""

    origin: Provenance
    seed: int
    recording: Recording
    labels: list[Label]
    healthy: list[str]
    real: Real
    injected: Result
    every_second: Result
    cost: Cost

    @property
    def kept(self) -> bool:
        """Whether every label was found, and healthy rooms had few enough false alarms."""
        alarms = (self.real.healthy, at_rooms(self.every_second.alarms))
        few = all(len(each.told) < MAX_ALARMS * each.weeks for each in alarms)
        return few and not self.real.missed


class Row(Struct, frozen=True):
    """One kind and size of fault: the number injected, the number found, and their median delay."""

    part: str
    channel: str
    kind: str
    size: str
    n: int
    found: int
    delay_s: float | None

    @property
    def share(self) -> Interval:
        """The share that was found."""
        return share(self.found, self.n)


def at_rooms(alarms: Alarms) -> Alarms:
    """Weeks of series at 1 Hz as weeks of rooms, each with all of its series."""
    return Alarms(alarms.weeks / SENSORS_OF_A_ROOM, alarms.told)


def rows_of(part: str, trials: Sequence[Trial]) -> list[Row]:
    """A row for each channel, kind and size, in the order in which they come up."""
    grouped: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in trials:
        grouped.setdefault((trial.channel, trial.kind, trial.size), []).append(trial)
    rows = []
    for (channel, kind, size), each in grouped.items():
        delays = [trial.delay_s for trial in each if trial.delay_s is not None]
        delay_s = median(delays) if delays else None
        rows.append(Row(part, channel, kind, size, len(each), len(delays), delay_s))
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[str, int, int]:
    if not row.size:
        return row.channel, 0, 0
    known = sizes(row.channel)
    return row.channel, list(known).index(row.kind), known[row.kind].index(row.size)


def write(report: Report, folder: Path) -> list[Path]:
    """Write data, picture and page into `folder`; their paths."""
    from lab.quality.pictures import draw

    folder.mkdir(parents=True, exist_ok=True)
    data, picture, page = (folder / f"{NAME}.{end}" for end in ("csv", "svg", "md"))
    rows = all_rows(report)
    with data.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([*Row.__struct_fields__, "share_low", "share_high"])
        for row in rows:
            delay = "" if row.delay_s is None else f"{row.delay_s:g}"
            some = [row.part, row.channel, row.kind, row.size, row.n, row.found, delay]
            lines.writerow([*some, f"{row.share.low:.4f}", f"{row.share.high:.4f}"])
    draw(report.recording, report.labels, report.real.found, rows, picture)
    page.write_text(page_of(report, rows), encoding="utf-8")
    return [data, picture, page]


def all_rows(report: Report) -> list[Row]:
    """Of all three parts."""
    return [
        *rows_of("recording", report.real.trials),
        *rows_of("injected", report.injected.trials),
        *rows_of("1 Hz", report.every_second.trials),
    ]


def verdict(report: Report) -> list[str]:
    """Three lines for the terminal."""
    found = sum(trial.delay_s is not None for trial in report.real.trials)
    return [
        f"labelled faults found: {found} of {len(report.real.trials)}",
        f"false alarms a healthy room and week: {_rate(report.real.healthy)}",
        f"the same at 1 Hz, synthetic: {_rate(at_rooms(report.every_second.alarms))}",
    ]


def _rate(alarms: Alarms) -> str:
    found = rate(len(alarms.told), alarms.weeks)
    return (
        f"{found.found:.2f} [{found.low:.2f}, {found.high:.2f}] "
        f"({len(alarms.told)} in {alarms.weeks:.1f} weeks)"
    )


def _percent(interval: Interval, digits: int = 0) -> str:
    found, low, high = (
        f"{100 * each:.{digits}f} %" for each in (interval.found, interval.low, interval.high)
    )
    return f"{found} [{low}, {high}]"


def _delay(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _table(rows: Iterable[Row]) -> str:
    headings = ("channel", "fault", "size", "n", "found", "delay, median")
    return Table(
        "",
        headings,
        [(r.channel, r.kind, r.size, str(r.n), _percent(r.share), _delay(r.delay_s)) for r in rows],
        left=3,
    ).markdown()


def _list(told: Sequence[str]) -> str:
    if not told:
        return "none"
    return ", ".join(f"{text} ({n})" for text, n in Counter(told).most_common())


def page_of(report: Report, rows: Sequence[Row]) -> str:
    """The page, in Markdown."""
    real, injected, second = report.real, report.injected, at_rooms(report.every_second.alarms)
    found = sum(trial.delay_s is not None for trial in real.trials)
    by_label = Table(
        "",
        ("channel", "fault", "labelled", "found", "delay, median"),
        [
            (r.channel, r.kind, str(r.n), str(r.found), _delay(r.delay_s))
            for r in rows
            if r.part == "recording"
        ],
        left=2,
    ).markdown()
    missed = [f"{label.kind} in {label.channel} of room {label.room}" for label in real.missed]
    told = len(injected.trials) and sum(t.delay_s is not None for t in injected.trials)
    precision = share(told, told + len(injected.alarms.told)) if told else Interval(0, 0, 1)
    return f"""\
# How well the quality checks find faults

Written by `fleet lab quality`; what the checks do and why is in
[quality.md](../understand/quality.md).

![What was told of which room, and how large a fault must be to be found](quality.svg)

{report.origin.table(data=f"[{NAME}.csv]({NAME}.csv): a row for each kind and size of fault")}

All checks run with their default limits, in the order in which the readings came; rooms of one
floor are each other's co-located channels. An interval in brackets is one of 95 % (Wilson's of a
share, the exact Poisson one of a rate).

| | |
|---|---|
| labelled faults found | {found} of {len(real.trials)} |
| false alarms a room and week, {len(report.healthy)} healthy rooms | {_rate(real.healthy)} |
| the same, all {len(report.recording.rooms)} rooms outside their labels | {_rate(real.alarms)} |
| the same, healthy rooms at 1 Hz (synthetic) | {_rate(second)} |
| injected: share of what was told that is a fault | {_percent(precision, 2)} |
| time a value, checks of one sensor | {report.cost.alone_us:.1f} µs |
| time a value, with drift among four sensors and episodes | {report.cost.all_us:.1f} µs |
| memory a channel | {report.cost.channel_bytes:.0f} bytes |

## The recording: {len(report.recording.rooms)} rooms, faults left in

One-minute means of {", ".join(report.recording.series)} in an office building, 2013-08-23 to
2013-08-31 (D. Hong, Q. Gu, K. Whitehouse, "High-dimensional Time Series Clustering via
Cross-Predictability", AISTATS 2017). [The labels](../../tests/sensors/fixtures/building_faults.csv)
were made by [rules](../../tests/sensors/fixtures/README.md) that see the whole recording, past and
future and all rooms, and nothing of the checks. A label counts as found where a fault with a flag
of its kind is told of its channel in its time; a gap where that happens in every channel. A healthy
room has no label but the hole that all rooms share. A room counts with all its channels.

{by_label}

Missed: {_list(missed)}. Told without a label: {_list(real.alarms.told)}.

## Injected faults

With seed {report.seed}, into one channel of one healthy room at a time, the rest of its floor as it
was. Short faults come every three to six hours, their kind and size drawn; one stuck or drifting
channel a run. *Found* is whatever the checks told in the fault's time; the delay counts from the
fault's start. A gap of 2 min is two lost messages, and is not meant to be told. Light that drifts
down in the dark is soon out of range, below 0 lx.

{_table(r for r in rows if r.part == "injected")}

Told where nothing was injected, in {injected.alarms.weeks:.0f} weeks of single channels:
{_list(injected.alarms.told)}.

## 1 Hz (synthetic)

The recording has a value a minute; sensors of a node are read each second. So a healthy room's
means are made into three co-located sensors at 1 Hz: a straight line from minute to minute, an
offset a sensor (σ 0.3 °C, 2 %), steps of 0.1 as a DHT22 has them, and noise: none at all, which is
the worst for the flatline check, or σ 0.1 °C and 0.5 %. One of the three gets short faults; all are
judged. A room counts with its six series.

{_table(r for r in rows if r.part == "1 Hz")}

Told where nothing was injected: {_list(second.told)}.
"""

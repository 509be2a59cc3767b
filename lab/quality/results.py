"""Output of the campaign: every measured kind of fault as CSV, a picture, and the page's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from fleet.terminal.tables import Table
from lab import pages
from lab.provenance import Provenance
from lab.quality.campaign import Alarms, Real, Result, Row, Trial
from lab.quality.cost import Cost
from lab.quality.injection import sizes
from lab.quality.recordings import Label, Recording
from lab.statistics import Interval, rate, share

NAME: Final = "quality"
MAX_ALARMS: Final = 1.0  # a room and week
SENSORS_OF_A_ROOM: Final = 6  # series of a room at 1 Hz: three sensors, two channels


class QualityReport(Struct, frozen=True):
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


def write(report: QualityReport, folder: Path) -> list[Path]:
    """Write data, picture, tables and page into `folder`; the paths of data, picture and page."""
    from lab.quality.pictures import draw

    rows = all_rows(report)
    data = pages.write_csv(
        folder / f"{NAME}.csv",
        [*Row.__struct_fields__, "share_low", "share_high"],
        (
            [
                *(row.part, row.channel, row.kind, row.size, row.n, row.found),
                *("" if row.delay_s is None else f"{row.delay_s:g}",),
                *(f"{row.share.low:.4f}", f"{row.share.high:.4f}"),
            ]
            for row in rows
        ),
    )
    picture = folder / f"{NAME}.svg"
    draw(report.recording, report.labels, report.real.found, rows, picture)
    more = {"data": f"[{NAME}.csv]({NAME}.csv): a row for each kind and size of fault"}
    page = pages.write(folder, NAME, tables(report, rows), report.origin, more)
    return [data, picture, page]


def all_rows(report: QualityReport) -> list[Row]:
    """Of all three parts."""
    return [
        *rows_of("recording", report.real.trials),
        *rows_of("injected", report.injected.trials),
        *rows_of("1 Hz", report.every_second.trials),
    ]


def verdict(report: QualityReport) -> list[str]:
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


def _list(told: Sequence[str]) -> str:
    if not told:
        return "none"
    return ", ".join(f"{text} ({n})" for text, n in Counter(told).most_common())


def tables(report: QualityReport, rows: Sequence[Row]) -> dict[str, Table]:
    """The tables of the page."""
    found: dict[str, Table] = {"summary": summary(report), "untrue": untrue(report)}
    found["labelled"] = Table(
        "Labelled faults",
        ("channel", "fault", "labelled", "found", "delay, median"),
        [
            (r.channel, r.kind, str(r.n), str(r.found), _delay(r.delay_s))
            for r in rows
            if r.part == "recording"
        ],
        left=2,
    )
    headings = ("channel", "fault", "size", "n", "found", "delay, median")
    for key, part, title in (
        ("injected", "injected", "Injected faults"),
        ("every-second", "1 Hz", "1 Hz (synthetic)"),
    ):
        of_part = [row for row in rows if row.part == part]
        cells = [
            (r.channel, r.kind, r.size, str(r.n), _percent(r.share), _delay(r.delay_s))
            for r in of_part
        ]
        found[key] = Table(title, headings, cells, left=3)
    return found


def summary(report: QualityReport) -> Table:
    """How much is found, how much is told for nothing, and what a value costs."""
    real, injected, second = report.real, report.injected, at_rooms(report.every_second.alarms)
    found = sum(trial.delay_s is not None for trial in real.trials)
    told = sum(t.delay_s is not None for t in injected.trials)
    precision = share(told, told + len(injected.alarms.told)) if told else Interval(0, 0, 1)
    rows = [
        ("labelled faults found", f"{found} of {len(real.trials)}"),
        (
            f"false alarms a room and week, {len(report.healthy)} healthy rooms",
            _rate(real.healthy),
        ),
        (
            f"the same, all {len(report.recording.rooms)} rooms outside their labels",
            _rate(real.alarms),
        ),
        ("the same, healthy rooms at 1 Hz (synthetic)", _rate(second)),
        ("injected: share of what was told that is a fault", _percent(precision, 2)),
        ("time a value, checks of one sensor", f"{report.cost.alone_us:.1f} µs"),
        (
            "time a value, with drift among four sensors and episodes",
            f"{report.cost.all_us:.1f} µs",
        ),
        ("memory a channel", f"{report.cost.channel_bytes:.0f} bytes"),
    ]
    return Table("Summary", ("measure", "value"), rows)


def untrue(report: QualityReport) -> Table:
    """What was missed, and what was told without a cause."""
    missed = [
        f"{label.kind} in {label.channel} of room {label.room}" for label in report.real.missed
    ]
    weeks = f"{report.injected.alarms.weeks:.0f} weeks of single channels"
    rows = [
        ("labels that were missed", _list(missed)),
        ("told without a label", _list(report.real.alarms.told)),
        (f"told where nothing was injected, {weeks}", _list(report.injected.alarms.told)),
        ("the same at 1 Hz", _list(report.every_second.alarms.told)),
    ]
    return Table("Missed, and told without a cause", ("", "faults"), rows)

"""The campaign's figure: reported faults over time, and the share found by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fleet.simulation.pictures import COLOURS, pyplot, save
from lab.quality.injection import DRIFTS, SPIKES
from lab.quality.judging import Found
from lab.quality.recordings import Label, Recording
from sensors.quality import flags

if TYPE_CHECKING:
    from lab.quality.campaign import Row

DAY_S: Final = 86_400.0
SHOWN: Final = {
    flags.NO_RESPONSE: "no response",
    flags.OUT_OF_RANGE: "out of range",
    flags.SPIKE: "spike",
    flags.FLATLINE: "flatline",
    flags.DRIFT: "drift",
}
UNITS: Final = {"temperature": "°C", "humidity": "%", "co2": "ppm", "light": "lx"}


def draw(
    recording: Recording,
    labels: Sequence[Label],
    found: Mapping[str, Sequence[Found]],
    rows: Sequence[Row],
    path: Path,
) -> None:
    """Faults reported for all rooms over time on the left; shares found by size on the right."""
    figure = pyplot("quality").figure(figsize=(11, 8.2))
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1))
    _rooms(figure.add_subplot(grid[:, 0]), recording, labels, found)
    injected = [row for row in rows if row.part == "injected"]
    _spikes(figure.add_subplot(grid[0, 1]), injected)
    _drifts(figure.add_subplot(grid[1, 1]), injected)
    save(figure, path)


def _rooms(
    axes: Any,
    recording: Recording,
    labels: Sequence[Label],
    found: Mapping[str, Sequence[Found]],
) -> None:
    rooms = recording.rooms
    row = {room: number for number, room in enumerate(rooms)}

    def days(time_s: float) -> float:
        return (time_s - recording.first_s) / DAY_S

    for label in labels:
        if label.room in row and label.channel in {*found, "all"}:
            width = days(label.end_s) - days(label.start_s)
            axes.barh(row[label.room], width, 0.86, days(label.start_s), color="#dddddd", zorder=1)
    for each in found.values():
        for one in each:
            colour = COLOURS[list(SHOWN).index(_shown(one.flags))]
            start, end = days(one.began_s), days(one.ended_s)
            if end - start < 0.05:
                axes.plot(start, row[one.name], "o", ms=4, color=colour, zorder=3)
            else:
                axes.barh(row[one.name], end - start, 0.36, start, color=colour, zorder=2)
    for number, (_, name) in enumerate(SHOWN.items()):
        axes.barh(0, 0, color=COLOURS[number], label=name)
    axes.barh(0, 0, color="#dddddd", label="labelled")
    axes.set_yticks(range(len(rooms)), rooms, fontsize=6)
    axes.set_ylim(len(rooms) - 0.4, -0.6)
    axes.set_xlim(0, recording.minutes * 60 / DAY_S)
    axes.set_xlabel("days")
    axes.set_title("What was told of which room, any channel")
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.06))


def _shown(seen: int) -> int:
    """The flag that represents several: the most specific one that is no missing value."""
    order = (flags.SPIKE, flags.OUT_OF_RANGE, flags.DRIFT, flags.FLATLINE)
    return next((flag for flag in order if seen & flag), flags.NO_RESPONSE)


def _spikes(axes: Any, rows: Sequence[Row]) -> None:
    for number, (channel, known) in enumerate(SPIKES.items()):
        shares = {
            float(row.size): row.share
            for row in rows
            if row.channel == channel and row.kind == "spike"
        }
        sizes = [size for size in known if size in shares]
        if sizes:
            _errors(axes, sizes, [shares[size] for size in sizes], number, channel)
    _log_sizes(axes)
    axes.set_ylim(-3, 103)
    axes.set_ylabel("found, %")
    axes.set_xlabel("size of a spike in one one-minute mean")
    axes.set_title("Injected spikes")
    axes.legend(fontsize=7)


def _log_sizes(axes: Any) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def _errors(
    axes: Any, sizes: Sequence[float], shares: Sequence[Any], number: int, channel: str
) -> None:
    middle = [100 * each.found for each in shares]
    below = [100 * (each.found - each.low) for each in shares]
    above = [100 * (each.high - each.found) for each in shares]
    axes.errorbar(
        sizes,
        middle,
        yerr=[below, above],
        fmt="o-",
        ms=4,
        lw=1,
        capsize=2,
        color=COLOURS[number],
        label=f"{channel}, {UNITS[channel]}",
    )


def _drifts(axes: Any, rows: Sequence[Row]) -> None:
    for number, channel in enumerate(DRIFTS):
        points = [
            (float(row.size.split()[0]), row.delay_s / DAY_S, row.found / row.n)
            for row in rows
            if row.channel == channel and row.kind == "drift" and row.delay_s is not None
        ]
        if points:
            slopes, delays, shares = zip(*points, strict=True)
            axes.plot(slopes, delays, "-", lw=1, color=COLOURS[number])
            filled = [COLOURS[number] if each == 1.0 else "white" for each in shares]
            axes.scatter(slopes, delays, s=22, c=filled, edgecolors=COLOURS[number], zorder=3)
            axes.plot(
                [], [], "o-", ms=4, color=COLOURS[number], label=f"{channel}, {UNITS[channel]}"
            )
    _log_sizes(axes)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("days until told, median of those found")
    axes.set_xlabel("drift a day; hollow: not all were found in time")
    axes.set_title("Injected drift")
    axes.legend(fontsize=7)

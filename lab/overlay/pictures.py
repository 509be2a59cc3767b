"""Figures of the overlay experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fleet.simulation.pictures import COLOURS, pyplot, save

if TYPE_CHECKING:
    from lab.overlay.burst import BurstResult
    from lab.overlay.formulas import Expected
    from lab.overlay.real import Found
    from lab.overlay.scale import Measured
    from lab.overlay.sizes import Cost

COLOUR: Final = {"idr": COLOURS[0], "snr": COLOURS[1], "tid": COLOURS[2]}
TITLE: Final = {"idr": "IDR", "snr": "SNR", "tid": "TID"}
SALT: Final = "overlay"


def draw_sizes(costs: Sequence[Cost], path: Path) -> None:
    """A row of panels for advertisements and one for subscriptions; bars side by side."""
    from lab.overlay.sizes import EXPERIMENTS, measures_of, pairs

    figure, axes = pyplot(SALT).subplots(2, 3, figsize=(11, 6))
    for row, experiment in enumerate(EXPERIMENTS):
        found = pairs(costs, experiment)
        places = range(len(found))
        for column, measure in enumerate(measures_of(experiment)):
            panel = axes[row][column]
            for offset, name, values in (
                (-0.2, "OctopiA", [measure.of(pair.ours) for pair in found]),
                (0.2, "TID", [measure.of(pair.theirs) for pair in found]),
            ):
                colour = COLOUR["idr" if name == "OctopiA" else "tid"]
                panel.bar([at + offset for at in places], values, 0.4, color=colour, label=name)
            panel.set_xticks(places, [f"{pair.count:,}" for pair in found], fontsize=7)
            panel.set_xlabel(experiment)
            panel.set_title(measure.title)
    axes[0][0].legend()
    save(figure, path)


def draw_bursts(results: Sequence[BurstResult], path: Path) -> None:
    """The longest delay of each thousand deliveries over time, in the first draw: bottlenecks from
    top to bottom, rates from left to right."""
    from lab.overlay.burst import ORDER, SHORT, bottlenecks, rates, runs

    down, across = bottlenecks(results), rates(results)
    latest = max([1.0, *(each.stable_s for each in results)])
    size = (1 + 3.4 * len(across), 1 + 2.5 * len(down))
    figure, axes = pyplot(SALT).subplots(len(down), len(across), figsize=size, squeeze=False)
    for row, bottleneck in enumerate(down):
        for column, rate in enumerate(across):
            panel = axes[row][column]
            for contender in ORDER:
                for one in runs(results, bottleneck, rate, contender)[:1]:
                    times, delays = zip(*one.curve, strict=True)
                    panel.plot(times, delays, lw=1, color=COLOUR[contender], label=TITLE[contender])
            panel.set_ylim(bottom=0)
            panel.set_xlim(0, 1.2 * latest)
            panel.set_title(f"{SHORT[bottleneck]}, {rate:,}/min", loc="left", fontsize=8)
            if column == 0:
                panel.set_ylabel("longest delay of 1,000, s")
            if row == len(down) - 1:
                panel.set_xlabel("s since the burst began")
    axes[0][0].legend()
    save(figure, path)


def draw_scale(
    results: Sequence[Measured], paper: Sequence[tuple[int, int, Expected]], path: Path
) -> None:
    """Measured against expected on the left; ten thousand brokers by shape on the right."""
    figure, (left, right) = pyplot(SALT).subplots(1, 2, figsize=(11, 4.4))
    _agreement(left, results)
    clusters = [each for _, each, _ in paper]
    for number, (title, name) in enumerate(
        (
            ("PRT entries a broker", "prt"),
            ("SRT entries a broker", "srt"),
            ("messages an advertisement", "advertisement_messages"),
            ("messages a subscription", "subscription_messages"),
            ("messages a notification", "notification_messages"),
        )
    ):
        values = [getattr(expected, name) or math.nan for _, _, expected in paper]
        right.plot(clusters, values, "o-", ms=3, lw=1, color=COLOURS[number], label=title)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("clusters, of 10,000 brokers; a million subscriptions")
    right.set_title("By arithmetic")
    right.legend(fontsize=7)
    save(figure, path)


def _agreement(axes: Any, results: Sequence[Measured]) -> None:
    from lab.overlay.scale import COLUMNS

    for number, (title, name, _) in enumerate(COLUMNS):
        expected = [getattr(each.expected, name) for each in results]
        measured = [getattr(each, name) for each in results]
        axes.plot(expected, measured, "o", ms=4, color=COLOURS[number], label=title)
    axes.axline((1, 1), slope=1, color="#999999", lw=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("expected")
    axes.set_ylabel("measured")
    axes.set_title("Measured and expected, each overlay")
    axes.legend(fontsize=7)


def draw_real(found: Found, path: Path) -> None:
    """Entries of both tables, and the longest delay of each hundred deliveries over time, in the
    first round, a panel for each rate."""
    from lab.overlay.real import of
    from lab.overlay.real_burst import ROUTINGS

    rates = found.setup.rates_per_s
    size = (3.2 * (2 + len(rates)), 3.4)
    figure, axes = pyplot(SALT).subplots(1, 2 + len(rates), figsize=size)
    for panel, experiment in zip(axes, ("advertisements", "subscriptions"), strict=False):
        rows = [row for row in found.tables if row.experiment == experiment]
        for offset, name, values in (
            (-0.2, "masters", [row.entries / row.brokers for row in rows]),
            (0.2, "TID", [row.tid_entries / row.brokers for row in rows]),
        ):
            colour = COLOUR["idr" if name == "masters" else "tid"]
            places = [at + offset for at in range(len(rows))]
            panel.bar(places, values, 0.4, color=colour, label=name)
        panel.set_xticks(range(len(rows)), [f"{row.count:,}" for row in rows], fontsize=7)
        panel.set_xlabel(experiment)
        panel.set_title("Entries a broker")
    axes[0].legend()
    for panel, rate in zip(axes[2:], rates, strict=True):
        for routing in ROUTINGS:
            for one in of(found.bursts, rate, routing)[:1]:
                times, delays = zip(*one.curve, strict=True)
                panel.plot(times, delays, lw=1, color=COLOUR[routing], label=TITLE[routing])
        panel.set_ylim(bottom=0)
        panel.set_xlabel("s since the burst began")
        panel.set_title(f"Longest delay, s: burst of {rate:g}/s", loc="left", fontsize=8)
    axes[2].legend()
    save(figure, path)

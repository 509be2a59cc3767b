"""Tables on the experiments with real masters, beside virtual time and the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np

from fleet.terminal.tables import Table
from lab import pages
from lab.overlay import burst_page, pictures, real
from lab.overlay.real import Found
from lab.overlay.real_burst import ROUTINGS, Result
from lab.overlay.real_tables import Row
from lab.overlay.sizes_page import change, percent
from lab.provenance import Provenance, load_average

NAME: Final = "overlay-real"
# OctopiA Fig. 9, percent against TID: SRT and PRT entries, messages of subscriptions.
PAPER_ENTRIES: Final = {"advertisements": -93.0, "subscriptions": 33.0}
PAPER_MESSAGES: Final = {"advertisements": -98.9, "subscriptions": 48.6}
TABLE: Final = {"advertisements": "SRT", "subscriptions": "PRT"}
# The paper's rate per minute for each rate per second here.
PAPER_RATE: Final = 1_000


def percentile(results: list[Result], of: Callable[[Result], list[float]], percent: float) -> float:
    """Of all deliveries of these runs, in seconds."""
    return float(np.percentile(np.concatenate([of(each) for each in results]), percent))


def average(results: list[Result], of: Callable[[Result], list[float]]) -> float:
    """Of all deliveries of these runs, in seconds."""
    return float(np.concatenate([of(each) for each in results]).mean())


def everything(result: Result) -> list[float]:
    """Delays of all deliveries."""
    return result.delays_s


def bursting(result: Result) -> list[float]:
    """Delays of the bursting publisher's notifications."""
    return result.burst_delays_s


def entries(found: Found) -> Table:
    """Tables: real masters, virtual time, TID, paper."""
    rows = [
        (
            f"{row.count:,} {row.experiment}",
            TABLE[row.experiment],
            f"{row.entries / row.brokers:,.2f}",
            f"{row.virtual_entries / row.brokers:,.2f}",
            f"{row.differing} of {row.brokers}",
            f"{row.tid_entries / row.brokers:,.2f}",
            percent(change(row.entries, row.tid_entries)),
            percent(PAPER_ENTRIES[row.experiment]),
        )
        for row in found.tables
    ]
    headings = ("", "", "entries a master", "in virtual time", "masters that differ", "TID")
    return Table("Tables", (*headings, "masters against TID", "in the paper"), rows, left=2)


def messages(found: Found) -> Table:
    """Messages between brokers for subscriptions."""
    rows = []
    for row in found.tables:
        if row.experiment == "subscriptions":
            said = sum(row.messages.values())
            rows.append(
                (
                    f"{row.count:,}",
                    _kinds(row.messages),
                    _kinds(row.virtual_messages),
                    f"{said - sum(row.virtual_messages.values()):,}",
                    f"{row.tid_messages:,}",
                    percent(change(said, row.tid_messages)),
                    percent(PAPER_MESSAGES["subscriptions"]),
                )
            )
    headings = ("subscriptions", "masters", "in virtual time", "difference", "TID")
    return Table("Messages", (*headings, "masters against TID", "in the paper"), rows, left=3)


def summary(found: Found) -> Table:
    """The benefit of dynamic over static routing."""
    rows = []
    for rate in found.setup.rates_per_s:
        idr, snr = (real.of(found.bursts, rate, routing) for routing in ROUTINGS)
        paper = burst_page.PAPER.get(round(rate * PAPER_RATE))
        rows.append(
            (
                f"{rate:g}",
                percent(change(average(idr, everything), average(snr, everything))),
                percent(change(_virtual(idr), _virtual(snr))),
                percent(paper) if paper is not None else "",
                percent(change(average(idr, bursting), average(snr, bursting))),
                percent(change(percentile(idr, everything, 99), percentile(snr, everything, 99))),
                percent(change(_said(idr, "notify"), _said(snr, "notify"))),
                percent(burst_page.PAPER_MESSAGES),
            )
        )
    headings = ("burst, 1/s", "IDR: mean delay against SNR", "in virtual time", "in the paper")
    more = ("of the burst alone", "99 %", "notifications sent", "in the paper")
    return Table("IDR against SNR under a burst", (*headings, *more), rows)


def bursts(found: Found) -> Table:
    """All rates, both ways of routing; all rounds together."""
    rows = []
    for rate in found.setup.rates_per_s:
        for routing in ROUTINGS:
            runs = real.of(found.bursts, rate, routing)
            rows.append(
                (
                    f"{rate:g}",
                    routing.upper(),
                    f"{average(runs, everything):.2f}",
                    ", ".join(f"{np.mean(each.delays_s):.2f}" for each in runs),
                    f"{percentile(runs, everything, 99):.2f}",
                    f"{average(runs, bursting):.2f}",
                    f"{percentile(runs, bursting, 99):.2f}",
                    f"{_virtual(runs):.2f}",
                    f"{_said(runs, 'notify'):,.0f}",
                    f"{_said(runs, 'have'):,.0f}",
                    f"{sum(each.cpu_s for each in runs) / sum(each.seconds for each in runs):.2f}",
                    f"{max(each.late_s for each in runs):.2f}",
                )
            )
    headings = ("burst, 1/s", "", "mean delay, s", "by round", "99 %, s", "burst alone: mean, s")
    more = ("99 %, s", "all in virtual time: mean, s", "notifications sent", "Have")
    last = ("masters' processors", "publishers late, s")
    return Table("Bursts", (*headings, *more, *last), rows, left=2)


def delivered(found: Found) -> Table:
    """The number of deliveries due, and their outcomes."""
    names = ("due", "missing", "repeated", "unwanted", "links_lost")
    row = (f"{sum(getattr(each, name) for each in found.bursts):,}" for name in names)
    headings = ("bursts", "deliveries due", "did not come", "came again", "were not wanted")
    return Table(
        "Deliveries", (*headings, "links that went down"), [(f"{len(found.bursts)}", *row)], left=0
    )


def set_up(found: Found) -> Table:
    """The overlay and its load."""
    setup, load = found.setup, found.setup.load
    i_link = f"{setup.i_link_bytes_s:,.0f}" if setup.i_link_bytes_s else "not limited"
    if found.why_not_short:
        i_link = f"not limited: {found.why_not_short}"
    rows = [
        ("masters", f"{setup.scot.order}"),
        ("vertices × clusters", f"{len(setup.scot.vertices)} × {setup.scot.clusters}"),
        ("memory of a master's own, MB", f"{found.memory_bytes / 1e6:.0f}"),
        ("processors that all take while nothing is published", f"{found.idle:.2f}"),
        ("bytes/s from a master to a secondary neighbour", i_link),
        ("publishers", f"{load.publishers:,}"),
        ("their alerts, 1/s together", f"{load.base_per_s:g}"),
        ("subscribers", f"{load.subscribers:,}"),
        ("alerts in a burst", f"{load.in_burst:,}"),
        ("subscribers that want it", f"{100 * setup.want_burst:g} %"),
        (
            "times the other load",
            ", ".join(f"{rate / load.base_per_s:.1f}" for rate in setup.rates_per_s),
        ),
        ("rounds", f"{setup.rounds}"),
    ]
    return Table("Set-up", ("", "value"), rows)


def whole_sets(found: Found) -> Table:
    """Messages sent while links came up, in the largest case."""
    advertised = [each for each in found.tables if each.experiment == "advertisements"]
    rows = []
    for row in sorted(advertised, key=lambda each: each.count)[-1:]:
        virtual = sum(row.virtual_messages.values())
        rows.append(
            (
                f"{row.count:,}",
                _kinds({k: n for k, n in row.messages.items() if k.startswith(("advert", "cib"))}),
                f"{virtual:,}",
                f"{row.tid_messages:,}",
                percent(change(virtual, row.tid_messages)),
                percent(PAPER_MESSAGES["advertisements"]),
            )
        )
    headings = ("advertisements", "masters", "in virtual time", "TID", "virtual time against TID")
    return Table("Messages of advertisements", (*headings, "in the paper"), rows, left=2)


def write(found: Found, origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture, tables and page into `folder`; the paths of data, picture and page."""
    data = pages.write_csv(
        folder / f"{NAME}.csv", ("experiment", "case", "round", "measure", "value"), _lines(found)
    )
    picture = folder / f"{NAME}.svg"
    pictures.draw_real(found, picture)
    tables = {
        "setup": set_up(found),
        "entries": entries(found),
        "whole-sets": whole_sets(found),
        "messages": messages(found),
        "deliveries": delivered(found),
        "summary": summary(found),
        "bursts": bursts(found),
    }
    more = {
        "load average just after": f"{load_average():.2f}",
        "data": f"[{NAME}.csv]({NAME}.csv): a row for each number",
    }
    return [data, picture, pages.write(folder, NAME, tables, origin, more)]


def _lines(found: Found) -> Iterator[tuple[object, ...]]:
    for row in found.tables:
        yield from ((row.experiment, row.count, 0, *each) for each in _numbers(row))
    for result in found.bursts:
        case = f"{result.case.routing} {result.case.burst_per_s:g}/s"
        yield from (("burst", case, result.case.round, *one) for one in _measures(result))


def _numbers(row: Row) -> Iterator[tuple[str, int]]:
    yield from (
        ("entries", row.entries),
        ("virtual_entries", row.virtual_entries),
        ("tid_entries", row.tid_entries),
        ("tid_messages", row.tid_messages),
        ("links_lost", row.links_lost),
    )
    yield from row.messages.items()
    yield from ((f"virtual_{kind}", count) for kind, count in row.virtual_messages.items())


def _measures(result: Result) -> Iterator[tuple[str, str]]:
    for name in ("due", "missing", "repeated", "unwanted", "links_lost"):
        yield name, str(getattr(result, name))
    for name, delays in (("all", result.delays_s), ("burst", result.burst_delays_s)):
        yield f"{name}_mean_s", f"{np.mean(delays):.4f}"
        yield f"{name}_p99_s", f"{np.percentile(delays, 99):.4f}"
        yield f"{name}_most_s", f"{np.max(delays):.4f}"
    yield from ((kind, str(count)) for kind, count in result.messages.items())
    for name in ("virtual_s", "late_s", "cpu_s", "seconds"):
        yield name, f"{getattr(result, name):.3f}"


def _said(results: list[Result], kind: str) -> float:
    return mean(each.messages.get(kind, 0) for each in results)


def _virtual(results: list[Result]) -> float:
    return mean(each.virtual_s for each in results)


def _kinds(counted: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {kind}" for kind, n in sorted(counted.items()) if n) or "none"

"""The page on the experiments with real masters, beside virtual time and the paper."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np

from agent.overlay.session import WINDOW
from fleet.terminal.tables import Table
from lab.overlay import burst_page, pictures, real
from lab.overlay.contenders import TID
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


def delivered(found: Found) -> str:
    """The number of deliveries due, and their outcomes."""
    due, missing, repeated, unwanted = (
        sum(getattr(each, name) for each in found.bursts)
        for name in ("due", "missing", "repeated", "unwanted")
    )
    return (
        f"Of {due:,} deliveries that were due in {len(found.bursts)} bursts {missing:,} did not "
        f"come, {repeated:,} came again, {unwanted:,} were not wanted."
    )


def write(found: Found, origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture and page into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, picture, page = (folder / f"{NAME}.{end}" for end in ("csv", "svg", "md"))
    with data.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("experiment", "case", "round", "measure", "value"))
        for row in found.tables:
            lines.writerows((row.experiment, row.count, 0, *each) for each in _numbers(row))
        for each in found.bursts:
            case = f"{each.case.routing} {each.case.burst_per_s:g}/s"
            lines.writerows(("burst", case, each.case.round, *one) for one in _measures(each))
    pictures.draw_real(found, picture)
    page.write_text(_page(found, origin), encoding="utf-8")
    return [data, picture, page]


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


def _whole_sets(found: Found) -> str:
    """Messages sent while links came up, in the largest case."""
    row = max(
        (each for each in found.tables if each.experiment == "advertisements"),
        key=lambda each: each.count,
    )
    said = _kinds({k: n for k, n in row.messages.items() if k.startswith(("advert", "cib"))})
    virtual = sum(row.virtual_messages.values())
    return (
        f"With {row.count:,} advertisements masters said\n{said}. Brokers\n"
        f"in virtual time, which get them one by one, said {virtual:,} changes, and with TID "
        f"{row.tid_messages:,}\n({percent(change(virtual, row.tid_messages))}; in the paper "
        f"{percent(PAPER_MESSAGES['advertisements'])})."
    )


def _links(found: Found) -> str:
    bytes_s = found.setup.i_link_bytes_s
    if found.why_not_short or bytes_s is None:
        why = found.why_not_short or "not asked for"
        return f"**No link was short in this run** ({why}), so there is nothing to go round."
    return (
        "Every master is in a network namespace of its own, with a bridge between them, and sends\n"
        f"to each of its secondary neighbours {bytes_s:,.0f} bytes/s at most, headers included\n"
        "(`tc`, a class of `htb` for each), and to everybody else as fast as it goes: clusters\n"
        "are sites, and iLinks are short, as in [overlay-burst.md](overlay-burst.md)."
    )


def _page(found: Found, origin: Provenance) -> str:
    setup, load = found.setup, found.setup.load
    more = {
        "load average just after": f"{load_average():.2f}",
        "data": f"[{NAME}.csv]({NAME}.csv): a row for each number",
    }
    lost = sum(each.links_lost for each in found.bursts)
    return f"""\
# Overlay: real masters

Written by `fleet lab overlay --experiment real`; how it is done is in
[overlay-lab.md](../papers/overlay-lab.md#real-masters).

![Entries of tables, and the longest delay of each hundred deliveries over time](overlay-real.svg)

{origin.table(**more)}

{setup.scot.order} processes `sanderling-master` on this machine, with keys, as brokers of
{len(setup.scot.vertices)} vertices times {setup.scot.clusters} clusters. Each has
{found.memory_bytes / 1e6:.0f} MB of memory of its own; all together take {found.idle:.2f} of a
processor while nothing is published. Publishers are pretended nodes, of which a trigger with the
name of a stock symbol is raised; subscribers are connections of one process, and want two of a
hundred symbols. Everything shares the processors, subscribers too.

## Tables and messages (Fig. 9)

By the masters' own counters (`overlay_subscriptions`, `overlay_advertisements`, `overlay_sent_…`
of `fleet status --json`), and the same population at the same places through brokers in virtual
time. {TID.title} is no routing of masters: it is in virtual time alone.

{entries(found).markdown()}

Advertisements are counted with those by which each master announces that it may tell of losses.
They stand in the masters' files, so sets go whole, each to all secondary neighbours when their
links come up. {_whole_sets(found)}

{messages(found).markdown()}

## A publisher that bursts (Fig. 11)

{load.publishers} publishers bring {load.base_per_s:g} alerts a second together, each wanted by 2 %
of {load.subscribers:,} subscribers; one more brings {load.in_burst:,}, wanted by
{100 * setup.want_burst:g} %, in all clusters and not at its own master. The burst is
{", ".join(f"{rate / load.base_per_s:.1f}" for rate in setup.rates_per_s)} times the other load, as
in the paper, at a pace that two processors carry.

{_links(found)}

Two overlays stand side by side, one with each way of routing, and take turns, {setup.rounds} times
each, with the same alerts. A delay is from before a node tells its master until the subscriber's
process has the notification decoded. In virtual time the same alerts go over links of that
bandwidth, and brokers take as long as in
[overlay-lab.md](../papers/overlay-lab.md#what-is-simulated).

{delivered(found)}
Links that went down meanwhile: {lost}.

{summary(found).markdown()}

{bursts(found).markdown()}

A link has up to {WINDOW} messages under way before any wait where the link monitor sees them, which
is some seconds of such an iLink: until then dynamic routing sends as static routing does.
"""

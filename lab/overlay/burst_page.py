"""Tables on the burst experiment, with the paper's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Final

from fleet.terminal.tables import Table
from lab import pages
from lab.overlay import pictures
from lab.overlay.burst import ORDER, SHORT, BurstResult, bottlenecks, rates, runs
from lab.overlay.contenders import CONTENDERS
from lab.overlay.model import Bottleneck
from lab.overlay.sizes_page import change, percent
from lab.provenance import Provenance

NAME: Final = "overlay-burst"
# OctopiA section VIII, percent: IDR's mean delay against SNR's, by rate.
PAPER: Final = {60_000: -21.0, 80_000: -17.7, 100_000: -17.5}
PAPER_MESSAGES: Final = 0.3
CUSTODY: Final = "Have"


def notifications(result: BurstResult) -> int:
    """Messages that carry a notification."""
    kinds = CONTENDERS[result.case.contender].notifications
    return sum(count for kind, count in result.messages.items() if kind in kinds)


def custody(result: BurstResult) -> int:
    """Messages of custody, which confirm notifications."""
    return result.messages.get(CUSTODY, 0)


def gain(
    results: Sequence[BurstResult],
    bottleneck: Bottleneck,
    rate: int,
    of: Callable[[BurstResult], float],
    against: str = "snr",
) -> float:
    """Difference of IDR's mean over the seeds from another's, in percent."""
    ours, theirs = (
        mean(of(each) for each in runs(results, bottleneck, rate, name))
        for name in ("idr", against)
    )
    return change(ours, theirs)


def summary(results: Sequence[BurstResult]) -> Table:
    """The benefit of dynamic over static routing."""
    rows = []
    for bottleneck in bottlenecks(results):
        for rate in rates(results):

            def told(
                of: Callable[[BurstResult], float],
                against: str = "snr",
                bottleneck: Bottleneck = bottleneck,
                rate: int = rate,
            ) -> str:
                return percent(gain(results, bottleneck, rate, of, against))

            rows.append(
                (
                    bottleneck,
                    f"{rate:,}",
                    told(lambda each: each.everything.mean_s),
                    percent(PAPER[rate]) if rate in PAPER else "",
                    told(lambda each: each.bursting.mean_s),
                    told(lambda each: each.stable_s),
                    told(notifications),
                    told(notifications, "tid"),
                )
            )
    headings = (
        *("short", "burst, 1/min", "IDR: mean delay against SNR", "in the paper"),
        *("of the burst alone", "time to stability", "messages", "messages against TID"),
    )
    return Table("IDR against SNR under a burst", headings, rows)


def table(results: Sequence[BurstResult], bottleneck: Bottleneck) -> Table:
    """All contenders for this bottleneck, means over the seeds."""
    rows = []
    for rate in rates(results):
        for contender in ORDER:
            found = runs(results, bottleneck, rate, contender)
            if found:
                rows.append([f"{rate:,}", CONTENDERS[contender].title, *_row(found)])
    headings = (
        *("burst, 1/min", "", "mean delay, s", "99 %, s", "burst alone: mean, s", "99 %, s"),
        *("within 1 s", "stable after, s", "wait for an aLink, s", "for an iLink, s"),
        *("notifications sent", "Have"),
    )
    return Table(SHORT[bottleneck], headings, rows, left=2)


def _row(found: Sequence[BurstResult]) -> list[str]:
    def of(measure: Callable[[BurstResult], float]) -> float:
        return mean(measure(each) for each in found)

    return [
        f"{of(lambda each: each.everything.mean_s):.2f}",
        f"{of(lambda each: each.everything.p99_s):.1f}",
        f"{of(lambda each: each.bursting.mean_s):.2f}",
        f"{of(lambda each: each.bursting.p99_s):.1f}",
        f"{100 * of(lambda each: each.everything.soon):.1f} %",
        f"{of(lambda each: each.stable_s):.1f}",
        f"{of(lambda each: each.a_link_wait_s):.3f}",
        f"{of(lambda each: each.i_link_wait_s):.3f}",
        f"{of(notifications):,.0f}",
        f"{of(custody):,.0f}",
    ]


def deliveries(results: Sequence[BurstResult]) -> Table:
    """Deliveries that were due in all runs, and those that were missing or duplicated."""
    due = sum(each.expected for each in results)
    off = sum(abs(each.expected - each.everything.deliveries) for each in results)
    headings = ("runs", "deliveries due", "did not come, or came twice")
    return Table("Deliveries", headings, [(f"{len(results)}", f"{due:,}", f"{off:,}")], left=0)


def write(results: Sequence[BurstResult], origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture, tables and page into `folder`; the paths of data, picture and page."""
    data = pages.write_csv(
        folder / f"{NAME}.csv",
        [
            *("bottleneck", "rate_per_min", "contender", "size", "seed", "expected"),
            *("deliveries", "mean_s", "p99_s", "most_s", "within_1s", "burst_mean_s"),
            *("burst_p99_s", "burst_within_1s", "stable_s", "notifications", "have"),
            *("messages", "a_link_wait_s", "i_link_wait_s"),
        ],
        map(_line, results),
    )
    picture = folder / f"{NAME}.svg"
    pictures.draw_bursts(results, picture)
    tables = {"summary": summary(results), "deliveries": deliveries(results)}
    tables |= {name.lower(): table(results, name) for name in bottlenecks(results)}
    more = {"data": f"[{NAME}.csv]({NAME}.csv): a row for each run"}
    return [data, picture, pages.write(folder, NAME, tables, origin, more)]


def _line(result: BurstResult) -> list[str]:
    case, everything, alone = result.case, result.everything, result.bursting
    return [
        *(case.bottleneck, str(case.rate_per_min), case.contender, f"{case.size:g}"),
        *(str(case.seed), str(result.expected), str(everything.deliveries)),
        *(f"{everything.mean_s:.4f}", f"{everything.p99_s:.4f}", f"{everything.most_s:.4f}"),
        *(f"{everything.soon:.5f}", f"{alone.mean_s:.4f}", f"{alone.p99_s:.4f}"),
        *(f"{alone.soon:.5f}", f"{result.stable_s:.3f}", str(notifications(result))),
        *(str(custody(result)), str(sum(result.messages.values()))),
        *(f"{result.a_link_wait_s:.5f}", f"{result.i_link_wait_s:.5f}"),
    ]

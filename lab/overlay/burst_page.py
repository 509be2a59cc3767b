"""The page on the burst experiment, with the paper's results."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Final, Literal

from agent.overlay.links import THRESHOLD, WINDOW_S
from fleet.terminal.tables import Table
from lab.overlay import burst, pictures
from lab.overlay.burst import BurstResult
from lab.overlay.contenders import CONTENDERS
from lab.overlay.model import BROKER_PACE, BYTES_PER_S, DELAY_S, SITE_BANDWIDTH, Bottleneck
from lab.overlay.sizes_page import change, percent
from lab.provenance import Provenance

NAME: Final = "overlay-burst"
ORDER: Final = ("idr", "snr", "tid")
# OctopiA section VIII, percent: IDR's mean delay against SNR's, by rate.
PAPER: Final = {60_000: -21.0, 80_000: -17.7, 100_000: -17.5}
PAPER_MESSAGES: Final = 0.3
CUSTODY: Final = "Have"
SHORT: Final[dict[Bottleneck, str]] = {
    "links": "All links are short of bandwidth",
    "iLinks": "iLinks are short of bandwidth",
    "brokers": "Brokers are short of time",
}


def notifications(result: BurstResult) -> int:
    """Messages that carry a notification."""
    kinds = CONTENDERS[result.case.contender].notifications
    return sum(count for kind, count in result.messages.items() if kind in kinds)


def custody(result: BurstResult) -> int:
    """Messages of custody, which confirm notifications."""
    return result.messages.get(CUSTODY, 0)


def runs(
    results: Sequence[BurstResult], bottleneck: Bottleneck, rate: int, contender: str
) -> list[BurstResult]:
    """Of one contender in one case, by seed."""
    return [
        each
        for each in results
        if (each.case.bottleneck, each.case.rate_per_min, each.case.contender)
        == (bottleneck, rate, contender)
    ]


def rates(results: Sequence[BurstResult]) -> list[int]:
    """The rates of the runs, ascending."""
    return sorted({each.case.rate_per_min for each in results})


def bottlenecks(results: Sequence[BurstResult]) -> list[Bottleneck]:
    """The bottlenecks of the runs."""
    return list(dict.fromkeys(each.case.bottleneck for each in results))


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


def missing(results: Sequence[BurstResult]) -> int:
    """Deliveries that were missing or duplicated, over all runs."""
    return sum(abs(each.expected - each.everything.deliveries) for each in results)


def write(results: Sequence[BurstResult], origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture and page into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, picture, page = (folder / f"{NAME}.{end}" for end in ("csv", "svg", "md"))
    with data.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(
            [
                *("bottleneck", "rate_per_min", "contender", "size", "seed", "expected"),
                *("deliveries", "mean_s", "p99_s", "most_s", "within_1s", "burst_mean_s"),
                *("burst_p99_s", "burst_within_1s", "stable_s", "notifications", "have"),
                *("messages", "a_link_wait_s", "i_link_wait_s"),
            ]
        )
        lines.writerows(_line(each) for each in results)
    pictures.draw_bursts(results, picture)
    page.write_text(_page(results, origin), encoding="utf-8")
    return [data, picture, page]


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


def _draws(seeds: int) -> str:
    return (
        "One draw of who is where." if seeds == 1 else f"Means over {seeds} draws of who is where."
    )


def _moved(results: Sequence[BurstResult]) -> str:
    """Waiting time of a notification for links of either kind where all are alike, at the highest
    rate."""
    static, dynamic = (
        runs(results, "links", rates(results)[-1], contender) for contender in ("snr", "idr")
    )

    def of(found: Sequence[BurstResult], kind: Literal["a", "i"]) -> str:
        waits = [each.a_link_wait_s if kind == "a" else each.i_link_wait_s for each in found]
        return f"{mean(waits):.2f}"

    return (
        f"a notification waits {of(static, 'i')} s for an iLink with SNR and {of(dynamic, 'i')} s"
        f" with IDR,\nbut {of(static, 'a')} s and {of(dynamic, 'a')} s for each aLink:"
    )


def _page(results: Sequence[BurstResult], origin: Provenance) -> str:
    size = results[0].case.size
    seeds = len({each.case.seed for each in results})
    shown = "\n\n".join(
        f"## {SHORT[bottleneck]}\n\n{table(results, bottleneck).markdown()}"
        for bottleneck in bottlenecks(results)
    )
    lost = missing(results)
    return f"""\
# Overlay: a publisher that bursts

Written by `fleet lab overlay --experiment burst`; what is simulated, and how, is in
[overlay-lab.md](../papers/overlay-lab.md).

![The longest delay of each thousand deliveries over time](overlay-burst.svg)

{origin.table(data=f"[{NAME}.csv]({NAME}.csv): a row for each run")}

A simulation in virtual time, around the brokers of production and a baseline, in the paper's
overlay of 70 brokers: {burst.SUBSCRIBERS:,} subscribers; {burst.PUBLISHERS} publishers of 60
notifications a minute, each wanted by 2 % of the subscribers; one more that bursts, wanted by 2 %
in all five clusters. The rates are the paper's, the numbers of notifications {100 * size:g} % of
its: {burst.IN_BURST * size:,.0f} in the burst, {burst.EACH * size:,.0f} of each other publisher. So
the burst is that much shorter, and queues and delays are that much smaller than at full size.
{_draws(seeds)}

The link monitor's window is {1e3 * WINDOW_S:.0f} ms, its threshold {THRESHOLD:g}, as in the paper.
A link passes about two hundred notifications a second ({BYTES_PER_S:,.0f} bytes/s, and
{1e3 * DELAY_S:.0f} ms on the way). Where only iLinks are short, aLinks have {SITE_BANDWIDTH:g}
times that. Where brokers are, a broker sends one message at a time, whichever link it takes, at
{BROKER_PACE:g} times that pace.

{summary(results).markdown()}

The paper reports {percent(PAPER_MESSAGES)} messages against SNR and −58.6 % against TID, stability
239 s before SNR, and within 1 s 53.8 % of deliveries with IDR, 44.1 % with SNR, 31 % with TID.

What IDR brings depends on what is short. It bypasses iLinks, and spares the publisher's broker
copies. Where all links are alike {_moved(results)}
a queue moves, and does not get shorter: the aLinks behind an iLink let through no more than it did,
and nearly every copy has to go over them, whichever way it came into the cluster. The paper's
testbed had six computers with 10 Gbit/s between them and some twelve brokers on each: no link was
short there, but the brokers' time, the first of its two causes of congestion (section VII-B), so
its figures are to be held against the rows where brokers are short. TID's trees lie in the whole
overlay, and share its links more evenly.

Time to stability is from the beginning of the burst to the last thousand deliveries in sequence of
which one took more than {burst.SOON_S:g} s. Messages are those that carry a notification. Those by
which brokers tell each other that notifications have arrived (`Have`, gathered for
{1e3 * WINDOW_S:.0f} ms) take their time on the links and stand apart: they make delivery certain
through failures, which neither the paper's system nor TID does.

Deliveries that were due and did not come, or came twice, in all {len(results)} runs: {lost}.

{shown}
"""

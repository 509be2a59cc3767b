"""Tables of docs/results/push.md: alerts and MQTT side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.push.measure import Case, Contender
from fleet.terminal.tables import Table

NAME: Final = "push"
NAMES: Final = {
    "alerts": "alerts",
    "durable": "alerts, durable",
    "tree": "mosquitto, all",
    "topics": "mosquitto, by topic",
}
Taken = Mapping[str, tuple[Case, dict[str, Contender]]]


def tables(taken: Taken) -> dict[str, Table]:
    """The tables of the page: a key of `taken` is also a table's name."""
    of_cases = {name: case_table(*each) for name, each in taken.items()}
    return {"cases": cases(taken), **of_cases, "goals": goals(taken)}


def cases(taken: Taken) -> Table:
    """What was sent to whom, and the links between masters that went down since they were started,
    while all of this was subscribed and sent."""
    rows = [
        (
            f"{case.connections:,}",
            f"{case.subscriptions:,}",
            f"{case.rate:g}",
            f"{_wanted(case, found):.2%}",
            f"{case.rounds} × {case.round_s:g} s",
            f"{case.processes}",
            f"{max(each.links_lost for each in found.values())}",
        )
        for case, found in taken.values()
    ]
    headings = ("connections", "subscriptions", "alerts a second", "wanted", "rounds")
    return Table("Cases", (*headings, "processes a contender", "links lost"), rows, left=0)


def case_table(case: Case, found: Mapping[str, Contender]) -> Table:
    """The contenders of one case."""
    rows = [
        (
            NAMES[kind],
            f"{each.percentile(50):.1f}",
            f"{each.percentile(99):.1f}",
            ", ".join(f"{one:.1f}" for one in each.by_round(99)),
            f"{each.expected - each.delivered:,} of {each.expected:,}",
            f"{each.messages / each.alerts:,.1f}",
            f"{each.payload / each.alerts:,.0f}",
            f"{each.cpu_s / each.alerts * 1e3:.1f}",
        )
        for kind, each in found.items()
    ]
    headings = ("", "p50, ms", "p99, ms", "p99 by round", "not delivered", "messages an alert")
    title = f"{case.subscriptions:,} subscriptions over {case.connections:,} connections"
    return Table(title, (*headings, "bytes an alert", "CPU ms an alert"), rows)


def goals(taken: Taken) -> Table:
    """Alerts against either way to use MQTT: a ratio above 1 is in favour of alerts."""
    rows = []
    for case, found in taken.values():
        ours = found["alerts"]
        for kind in ("tree", "topics"):
            peer = found[kind]
            ratios = (
                peer.percentile(99) / ours.percentile(99),
                peer.payload / ours.payload,
                peer.messages / ours.messages,
            )
            cells = (f"{ratio:.2f}" for ratio in ratios)
            lower = "yes" if ratios[0] > 1 else "**no**"
            rows.append((f"{case.connections:,}", NAMES[kind], lower, *cells))
    headings = ("connections", "beside", "p99 lower", "p99, theirs over ours", "bytes", "messages")
    return Table("Goals", headings, rows, left=3)


def _wanted(case: Case, found: Mapping[str, Contender]) -> float:
    ours = found["alerts"]
    return ours.expected / (ours.alerts * case.subscriptions)

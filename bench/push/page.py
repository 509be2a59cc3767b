"""Renders docs/results/push.md: alerts and MQTT side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.push.measure import Case, Contender
from lab.provenance import Provenance

NAMES: Final = {
    "alerts": "alerts",
    "durable": "alerts, durable",
    "tree": "mosquitto, all",
    "topics": "mosquitto, by topic",
}
PAGE: Final = """\
# Alerts end to end, beside MQTT

Written by `python -m bench push`.

{provenance}

Four masters, a path of two vertices times two clusters, one node that tells of triggers, and
5,000 subscriptions at the four, such as `metric = "co2" and area under "b1/f2" and value between
31.4 and 71.4`: one metric of four, one floor of five, two fifths of the values, so 2 % of the
alerts. Beside it one mosquitto with a topic for each area and metric, QoS 0, without log-in, and
as many connections in as many processes ({processes} a contender). Everything runs on this one
machine, subscribers too. The contenders take turns
within a run, with the same alerts, {rounds} times {seconds:g} s each; the others stay connected.

- **alerts** are kept in the spool of the publisher's master, **durable** ones on the disk of the
  subscriber's master before they are sent. Subscribers acknowledge as the Python client does:
  durable ones at once, the others 16 together.
- **mosquitto, all**: a connection subscribes to all topics and filters by itself.
- **mosquitto, by topic**: a connection subscribes to its floor's topics of the metrics that it
  wants, and filters by value. That is possible because these are two segments of the topic; what
  else somebody wants to choose by is not there. Nothing is kept on a disk with either.

A **latency** is from before the alert is sent until the subscriber's process has it decoded and
knows that it is wanted, so with MQTT what the process does for others before is in it. **Bytes**
and **messages** are what reaches subscribers' processes for an alert, without TCP's own headers.
CPU is the four masters' or the broker's.

{cases}

## The goals

{goals}
"""
CASE: Final = """\
## {subscriptions:,} subscriptions over {connections:,} connections, {rate:g} alerts a second

{table}

Links between the masters that went down since they were started, while all of this was subscribed
and sent: {links_lost}.
"""


def page(
    taken: Mapping[str, tuple[Case, dict[str, Contender]]],
    provenance: Provenance,
    load_after: float,
) -> str:
    """The page, in Markdown."""
    case = next(iter(taken.values()))[0]
    return PAGE.format(
        provenance=provenance.table(
            **{"load average just after": f"{load_after:.2f}", "seed": str(case.seed)}
        ),
        processes=case.processes,
        rounds=case.rounds,
        seconds=case.round_s,
        cases="\n".join(_case(*each) for each in taken.values()).rstrip(),
        goals=_goals(taken),
    )


def _case(case: Case, found: dict[str, Contender]) -> str:
    head = ["", "p50, ms", "p99, ms", "p99 by round", "not delivered", "messages an alert"]
    head += ["bytes an alert", "CPU ms an alert"]
    rows = [
        [
            NAMES[kind],
            f"{each.percentile(50):.1f}",
            f"{each.percentile(99):.1f}",
            ", ".join(f"{one:.1f}" for one in each.by_round(99)),
            f"{each.expected - each.delivered:,} of {each.expected:,}",
            f"{each.messages / each.alerts:,.1f}",
            f"{each.payload / each.alerts:,.0f}",
            f"{each.cpu_s / each.alerts * 1e3:.1f}",
        ]
        for kind, each in found.items()
    ]
    rule = ["---", *["---:"] * (len(head) - 1)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
    return CASE.format(
        subscriptions=case.subscriptions,
        connections=case.connections,
        rate=case.rate,
        table=table,
        links_lost=max(each.links_lost for each in found.values()),
    )


def _goals(taken: Mapping[str, tuple[Case, dict[str, Contender]]]) -> str:
    lines = []
    for case, found in taken.values():
        ours = found["alerts"]
        wanted = ours.expected / (ours.alerts * case.subscriptions)
        for kind in ("tree", "topics"):
            peer = found[kind]
            ratio = peer.percentile(99) / ours.percentile(99)
            fewer = peer.payload / ours.payload
            lines.append(
                f"- {case.connections:,} connections, beside **{NAMES[kind]}**: p99 "
                f"{_met(ratio > 1)}, ratio {ratio:.2f}; its bytes over ours: {fewer:.2f}, "
                f"messages: {peer.messages / ours.messages:.2f}."
            )
    lines.append(
        f"\nAimed at: a lower p99, and bytes fewer by what is not wanted. Here {wanted:.2%} is\n"
        f"wanted, so {1 / wanted:.0f} times. A notification is longer than the MQTT message: it\n"
        "names its attributes and its origin, and the subscriptions of the connection that want\n"
        "it. It passes up to three masters in Python on its way, MQTT's one broker in C."
    )
    return "\n".join(lines)


def _met(met: bool) -> str:
    return "lower" if met else "**not lower**"

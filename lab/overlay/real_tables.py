"""Costs of advertisements and subscriptions at real masters, by their own counters, against the
same population in virtual time (OctopiA Fig. 9)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from agent.overlay.scot import BrokerId
from agent.wire import overlay as messages
from lab.overlay import real_load, real_masters
from lab.overlay.contenders import SNR, TID
from lab.overlay.real_masters import Counters, Masters, Subscribers
from lab.overlay.real_rig import Rig
from lab.overlay.real_twin import Twin

Experiment = Literal["advertisements", "subscriptions"]


class Row(Struct, frozen=True):
    """For this many advertisements or subscriptions: entries in the tables of all brokers together,
    of real masters, in virtual time, and with TID there; at how many brokers the first two differ;
    the messages between brokers that they cost, by kind; how often a link went down meanwhile."""

    experiment: Experiment
    count: int
    brokers: int
    entries: int
    virtual_entries: int
    tid_entries: int
    differing: int
    messages: dict[str, int]
    virtual_messages: dict[str, int]
    tid_messages: int
    links_lost: int


def advertisements(rig: Rig, count: int, seed: int) -> Row:
    """Masters started with this many advertisements of publishers, and those of losses."""
    draw = random.Random(f"real advertisements {count} {seed}")
    announced = real_load.announced(real_load.offers(rig.brokers, count, draw))
    with rig.start(announced) as (masters, _):
        counters = masters.counters()
    same, tid = (Twin(rig.plan, each, announced) for each in (SNR, TID))
    return Row(
        experiment="advertisements",
        count=same.announced,
        brokers=len(rig.brokers),
        entries=real_masters.total(counters, "overlay_advertisements"),
        virtual_entries=sum(same.srt.values()),
        tid_entries=sum(tid.srt.values()),
        differing=_differing(rig, counters, "overlay_advertisements", same.srt),
        messages=real_masters.sent(counters),
        virtual_messages=by_tag(same.advertisement_messages),
        tid_messages=sum(tid.advertisement_messages.values()),
        links_lost=real_masters.total(counters, "overlay_links_lost"),
    )


def subscriptions(rig: Rig, publishers: int, counts: Sequence[int], seed: int) -> Iterator[Row]:
    """At the same masters one after the other, with each of the counts in all."""
    draw = random.Random(f"real subscriptions {seed}")
    announced = real_load.announced(real_load.offers(rig.brokers, publishers, draw))
    wishes = real_load.wishes(rig.brokers, max(counts), draw)
    same, tid = (Twin(rig.plan, each, announced) for each in (SNR, TID))
    with rig.start(announced, wishes) as (masters, clients):
        before = real_masters.sent(masters.counters())
        for count in sorted(counts):
            for twin in (same, tid):
                twin.subscribe(wishes[:count])
            counters = subscribed(masters, clients, count)
            said = real_masters.sent(counters)
            yield Row(
                experiment="subscriptions",
                count=count,
                brokers=len(rig.brokers),
                entries=real_masters.total(counters, "overlay_subscriptions"),
                virtual_entries=sum(same.prt.values()),
                tid_entries=sum(tid.prt.values()),
                differing=_differing(rig, counters, "overlay_subscriptions", same.prt),
                messages={kind: number - before[kind] for kind, number in said.items()},
                virtual_messages=by_tag(same.messages()),
                tid_messages=sum(tid.messages().values()),
                links_lost=real_masters.total(counters, "overlay_links_lost"),
            )


def subscribed(masters: Masters, clients: Subscribers, count: int) -> Counters:
    """Open this many in all, and wait until each is known in the whole of its cluster."""
    clients.subscribe(count)
    entries = count * len(masters.plan.scot.vertices)
    return masters.wait(
        lambda counters: real_masters.total(counters, "overlay_subscriptions") == entries,
        f"{count} subscriptions in the tables",
    )


def by_tag(counted: dict[str, int]) -> dict[str, int]:
    """Messages by their name on the wire, from those by the name of their class."""
    return {
        str(getattr(messages, name).__struct_config__.tag): number
        for name, number in counted.items()
    }


def _differing(rig: Rig, counters: Counters, name: str, expected: dict[BrokerId, int]) -> int:
    return sum(each[name] != expected[rig.plan.places[iad]] for iad, each in counters.items())

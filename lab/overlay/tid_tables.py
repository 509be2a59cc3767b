"""Routing tables of a tree-identification broker: advertisements and subscriptions, each with its
last hop, which is the broker itself for its own clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agent.overlay.matcher import Matcher
from agent.overlay.scot import BrokerId
from agent.wire.predicates import Attributes, Filter


class Tid(NamedTuple):
    """The tree of one advertisement: the broker at its root, and a number that is never reused
    there."""

    root: BrokerId
    number: int


class SubscriptionId(NamedTuple):
    """One subscription: its subscriber's broker, and a number that is never reused there."""

    home: BrokerId
    number: int


class AdvertisementTable:
    """SRT: (advertisement, last hop), one entry for each advertisement of the whole overlay."""

    def __init__(self) -> None:
        self._last_hops: dict[Tid, BrokerId] = {}
        self._filters: Matcher[Tid] = Matcher()

    def __len__(self) -> int:
        return len(self._last_hops)

    def __contains__(self, tid: object) -> bool:
        return tid in self._last_hops

    def insert(self, tid: Tid, advertised: Filter, last_hop: BrokerId) -> None:
        """Add an entry. ValueError if it exists or its filter is invalid."""
        self._filters.put(tid, advertised)
        self._last_hops[tid] = last_hop

    def remove(self, tid: Tid) -> None:
        """KeyError."""
        del self._last_hops[tid]
        self._filters.remove(tid)

    def intersecting(self, wanted: Filter) -> list[Tid]:
        """The advertisements that may match, in the order of insertion."""
        return self._filters.intersecting(wanted)

    def by_last_hop(self, tids: Iterable[Tid]) -> dict[BrokerId, list[Tid]]:
        """The trees by the hop towards their root. KeyError. O(trees)."""
        grouped: dict[BrokerId, list[Tid]] = {}
        for tid in tids:
            grouped.setdefault(self._last_hops[tid], []).append(tid)
        return grouped


class SubscriptionTable:
    """PRT: (subscription, last hop, trees). A subscription that is bound to several trees comes
    from as many last hops as these trees have here."""

    def __init__(self) -> None:
        self._entries: dict[SubscriptionId, dict[BrokerId, set[Tid]]] = {}
        self._hops: dict[Tid, dict[BrokerId, set[SubscriptionId]]] = {}
        self._filters: Matcher[SubscriptionId] = Matcher()
        self._count = 0

    def __len__(self) -> int:
        """Entries: pairs of subscription and last hop."""
        return self._count

    def bind(
        self, subscription: SubscriptionId, wanted: Filter, last_hop: BrokerId, tids: Iterable[Tid]
    ) -> None:
        """Bind the subscription, which came from this hop, to these trees, too. ValueError for an
        invalid filter. O(trees)."""
        if subscription not in self._entries:
            self._filters.put(subscription, wanted)
            self._entries[subscription] = {}
        hops = self._entries[subscription]
        if last_hop not in hops:
            hops[last_hop] = set()
            self._count += 1
        for tid in tids:
            hops[last_hop].add(tid)
            self._hops.setdefault(tid, {}).setdefault(last_hop, set()).add(subscription)

    def remove(self, subscription: SubscriptionId, last_hop: BrokerId) -> list[Tid] | None:
        """Remove the entry; returns the trees that it was bound to, None if there was none.
        O(trees)."""
        bound = self._entries.get(subscription, {}).get(last_hop)
        if bound is None:
            return None
        for tid in bound:
            self._unbind(tid, last_hop, subscription)
        self._remove_entry(subscription, last_hop)
        return sorted(bound)

    def remove_tree(self, tid: Tid, own: BrokerId) -> None:
        """Remove the tree. Entries that are bound to no other are removed, except those of `own`
        clients. O(subscriptions bound to it)."""
        for last_hop, subscriptions in self._hops.pop(tid, {}).items():
            for subscription in subscriptions:
                bound = self._entries[subscription][last_hop]
                bound.remove(tid)
                if not bound and last_hop != own:
                    self._remove_entry(subscription, last_hop)

    def last_hops(self, tid: Tid) -> list[BrokerId]:
        """The hops with a subscription bound to the tree, whatever its filter. O(hops)."""
        return sorted(self._hops.get(tid, ()))

    def matching_last_hops(self, tid: Tid, attributes: Attributes) -> list[BrokerId]:
        """The hops with a matching subscription bound to the tree. O(a match and its results)."""
        matching = self._filters.match(attributes)
        hops = self._hops.get(tid, {})
        return [hop for hop in sorted(hops) if not hops[hop].isdisjoint(matching)]

    def _unbind(self, tid: Tid, last_hop: BrokerId, subscription: SubscriptionId) -> None:
        hops = self._hops[tid]
        hops[last_hop].remove(subscription)
        if not hops[last_hop]:
            del hops[last_hop]

    def _remove_entry(self, subscription: SubscriptionId, last_hop: BrokerId) -> None:
        hops = self._entries[subscription]
        del hops[last_hop]
        self._count -= 1
        if not hops:
            del self._entries[subscription]
            self._filters.remove(subscription)

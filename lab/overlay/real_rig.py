"""Rig for overlays of real masters, one after the other or side by side: folders, keys,
networks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from agent.overlay.forwarding import Routing
from agent.overlay.scot import BrokerId, Scot
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.testbed import processes
from lab.overlay.real_load import Wish
from lab.overlay.real_masters import Masters, Subscribers, make_keys
from lab.overlay.real_network import Loopback, Namespaces, Network, NetworkError


class Rig:
    """Makes overlays of `scot` below `folder`, which is empty. With `i_link_bytes_s` iLinks have
    that bandwidth if this host permits it; if not, `why_not_short` says why, and they are unlimited
    (`i_link_bytes_s` is None)."""

    def __init__(self, scot: Scot, folder: Path, i_link_bytes_s: float | None) -> None:
        self.brokers = list(scot.brokers())
        self.plan = plan_of(scot)
        self.why_not_short = ""
        self._folder = folder
        self.i_link_bytes_s = i_link_bytes_s
        self._keys = folder / "keys"
        self._number = itertools.count()
        make_keys(self.plan, self._keys)
        if i_link_bytes_s is not None:
            try:
                with self._network(folder / "try"):
                    pass
            except NetworkError as error:
                self.why_not_short = str(error)
                self.i_link_bytes_s = None

    @contextmanager
    def start(
        self,
        announced: Mapping[BrokerId, Sequence[str]],
        wishes: Sequence[Wish] = (),
        *,
        routing: Routing = "idr",
    ) -> Iterator[tuple[Masters, Subscribers]]:
        """Masters with all their links, and a process for their subscribers, none of which has
        subscribed yet."""
        folder = self._folder / str(next(self._number))
        folder.mkdir()
        with ExitStack() as stack:
            network, leash = stack.enter_context(self._network(folder / "network"))
            masters = stack.enter_context(
                Masters(
                    self.plan, network, folder, self._keys, announced, routing=routing, leash=leash
                )
            )
            masters.wait_for_links()
            file = folder / "subscribers.json"
            made = Subscribers(masters, network, self._keys, wishes, file)
            yield masters, stack.enter_context(made)

    @contextmanager
    def _network(self, folder: Path) -> Iterator[tuple[Network, processes.Leash]]:
        leash = processes.Leash()
        try:
            if self.i_link_bytes_s is None:
                yield Loopback(self.plan), leash
            else:
                made = Namespaces(self.plan, self.i_link_bytes_s, folder, leash)
                with closing(made):
                    yield made, leash
        finally:
            leash.drop()


def plan_of(scot: Scot) -> OverlayPlan:
    """An IAD for each broker, named after its place."""
    places = {f"{each.vertex}{each.cluster}": each for each in scot.brokers()}
    return OverlayPlan(scot.tree.links, scot.clusters, places)

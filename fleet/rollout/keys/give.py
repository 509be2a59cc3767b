"""Distributes the key store's current files to hosts."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.keys.store import Store
from fleet.rollout.keys.push import Push, key_files_of
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import for_each


def give(
    store: Store, fleet: Inventory, concerned: Sequence[HostOf], push: Push
) -> list[tuple[HostOf, HostError | None]]:
    """Give hosts their key files and allow-lists as they are now; the error of each that failed."""

    def work(host: HostOf) -> None:
        give_to(store, fleet, host, push)

    return [(each.host, each.error) for each in for_each(concerned, work)]


def give_to(store: Store, fleet: Inventory, host: HostOf, push: Push) -> None:
    """Give one host its files; again if somebody was revoked meanwhile, since what was read before
    may have come after that revocation's own files."""
    while True:
        known = store.revocations()
        push(host, key_files_of(fleet, host, store))
        if store.revocations() == known:
            return

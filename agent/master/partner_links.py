"""On-demand links to other masters, which follow the membership of pools. An unused link closes
later, when no result can be in flight on it; a link to a party that changed its keys is
re-established."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from agent.master.peers import Peers
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.wire.directory import Account

# Longer than a drain; a later result is lost.
KEPT_S = 600.0
LOOK_S = 60.0
# The party that forms a pool names its members, so their number is bounded. A link takes two files
# and one of a context's 1,023 sockets.
MAX_LINKS = 800


class _Contact(Struct):
    address: str
    keys: tuple[str, ...]
    needed_s: float


class PartnerLinks:
    """Connects on demand; once a minute closes links that `needed()` no longer names. Links of the
    configuration, `fixed`, stay."""

    def __init__(
        self,
        reactor: Reactor,
        peers: Peers,
        *,
        fixed: Collection[str],
        needed: Callable[[], Collection[str]],
        say: Say,
    ) -> None:
        self._say = say
        self._reactor = reactor
        self._peers = peers
        self._fixed = fixed
        self._needed = needed
        self._contacts: dict[str, _Contact] = {}
        self._registered: dict[str, tuple[str, ...]] = {}
        self._look_s: float | None = None
        self._full = False
        reactor.add_timer(self)

    def connect(self, iad: str, address: str, keys: Sequence[str]) -> None:
        """Connect to that IAD's master; an invalid address costs a line on stderr. An existing link
        keeps its address, and a fixed one everything: others use it too."""
        if iad in self._fixed:
            return
        known = self._contacts.get(iad)
        if known is None and len(self._contacts) >= MAX_LINKS:
            self._say_full()
            return
        if known is not None and known.address != address and iad not in self._peers.unreachable:
            address = known.address
        # A pool's keys are as old as its last change; those in the directory are newer.
        current = self._registered.get(iad) or tuple(keys)
        now = self._reactor.clock()
        self._contacts[iad] = _Contact(address, current, now)
        if self._look_s is None:
            self._look_s = now + LOOK_S
        self._dial(iad)

    def _say_full(self) -> None:
        if not self._full:
            self._say(f"there are links to {MAX_LINKS} IADs; no more are made\n")
        self._full = True

    def accounts_changed(self, accounts: Iterable[Account]) -> None:
        """The keys of all parties, from the directory."""
        self._registered = {account.name: account.keys for account in accounts}
        self._renew()

    @property
    def next_due(self) -> float | None:
        """When the next check is due."""
        return self._look_s

    def tick(self, now: float) -> None:
        """Close links that have been unused for long; reconnect with new keys where the old ones
        fail."""
        needed = self._needed()
        for iad, contact in list(self._contacts.items()):
            if iad in needed:
                contact.needed_s = now
            elif now - contact.needed_s > KEPT_S:
                del self._contacts[iad]
                self._peers.drop(iad)
                self._full = False
        self._renew()
        self._look_s = now + LOOK_S if self._contacts else None

    def _renew(self) -> None:
        for iad, contact in self._contacts.items():
            keys = self._registered.get(iad, ())
            if not keys or keys == contact.keys:
                continue
            # An established connection survives a change of keys, because results are in flight on
            # it.
            if iad in self._peers.unreachable or not set(keys) & set(contact.keys):
                contact.keys = keys
                self._dial(iad)

    def _dial(self, iad: str) -> None:
        contact = self._contacts[iad]
        try:
            self._peers.connect(iad, contact.address, contact.keys)
        except OSError as error:
            self._say(f"no link to {iad}: {error}\n")

"""Links to other masters that come and go with the pools. One that nobody needs closes later, when
no result can be under way on it any more; one to a party that changed its keys is made anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from agent.master.peers import Peers
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.wire.directory import Account

# Longer than a drain; a result later than that is lost.
KEPT_S = 600.0
LOOK_S = 60.0
# Whoever forms pools names their members. A link takes two files and one of a context's 1,023
# sockets.
MAX_LINKS = 800


class _Contact(Struct):
    address: str
    keys: tuple[str, ...]
    needed_s: float


class Links:
    """Connects on demand; looks once a minute which links `needed()` does not name any more. Those
    of the configuration, `fixed`, stay."""

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
        """Have a link to that IAD's master; an address that is none costs a line on stderr. A link
        that stands keeps its address, and a fixed one whatever it has: others use it too."""
        if iad in self._fixed:
            return
        known = self._contacts.get(iad)
        if known is None and len(self._contacts) >= MAX_LINKS:
            self._say_full()
            return
        if known is not None and known.address != address and iad not in self._peers.unreachable:
            address = known.address
        # A pool is as old as its last change; what the directory says of keys is newer.
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
        """The keys of all parties, as the directory has them."""
        self._registered = {account.name: account.keys for account in accounts}
        self._renew()

    @property
    def next_due(self) -> float | None:
        """When to look next."""
        return self._look_s

    def tick(self, now: float) -> None:
        """Close what nobody needed for long; dial with new keys where old ones lead nowhere."""
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
            # A connection that stands outlives a change of keys: results are under way on it.
            if iad in self._peers.unreachable or not set(keys) & set(contact.keys):
                contact.keys = keys
                self._dial(iad)

    def _dial(self, iad: str) -> None:
        contact = self._contacts[iad]
        try:
            self._peers.connect(iad, contact.address, contact.keys)
        except OSError as error:
            self._say(f"no link to {iad}: {error}\n")

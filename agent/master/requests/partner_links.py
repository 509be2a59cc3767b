"""On-demand links to other masters, which follow the membership of pools. An unused link closes
later, when no result can be in flight on it; a link to a party that changed its keys is
re-established."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from agent.master.requests.peers import Peers, same_party
from agent.runtime.console import Say
from agent.runtime.rate_limited_lines import RateLimitedLines
from agent.runtime.reactor import Reactor
from agent.wire.directory import Account

# Longer than a drain; a later result is lost.
KEPT_S = 600.0
LOOK_S = 60.0
# How long a link may stay unreachable before another address that a pool names is tried: as long as
# a handshake may take.
TRY_S = 5.0
# The party that forms a pool names its members, so their number is bounded. A link takes two files
# and one of a context's 1,023 sockets. One owner of pools gets as many as it leaves free.
MAX_LINKS = 800
# Lines about links that cannot be made, at once; then one a second.
MOST_LINES = 16


class Parties(Protocol):
    """What is known of parties that does not come from pools; see `SecureSockets`."""

    party_listeners: list[Callable[[], None]]

    def iad_keys(self, iad: str) -> tuple[str, ...]: ...

    def may_vouch(self, owner: str) -> bool: ...


class _Offer(NamedTuple):
    """Where and with which keys an owner's pool says that an IAD is."""

    address: str
    keys: tuple[str, ...]


class _Contact(Struct):
    """`offers` by owner; the keys are those of `owner`, unless the IAD is known otherwise, and the
    address is that of `via`, tried since `tried_s`."""

    offers: dict[str, _Offer]
    owner: str
    via: str
    address: str
    keys: tuple[str, ...]
    needed_s: float
    tried_s: float


class PartnerLinks:
    """Connects on demand; once a minute closes links that `needed()` no longer names: IADs, each
    with the owners of the pools that name it. Links of the configuration, `fixed`, stay.

    A link's keys are those of the allow-list's file, else the directory's, else those of the first
    pool whose owner may vouch. Pools only say where an IAD with these keys is.
    """

    def __init__(
        self,
        reactor: Reactor,
        peers: Peers,
        *,
        fixed: Collection[str],
        needed: Callable[[], Mapping[str, Collection[str]]],
        say: Say,
        parties: Parties | None = None,
    ) -> None:
        self._say = say
        # A pool has many members, and may be sent again and again.
        self._lines = RateLimitedLines(say, reactor.clock, MOST_LINES)
        self._reactor = reactor
        self._peers = peers
        self._fixed = fixed
        self._needed = needed
        self._parties = parties
        self._contacts: dict[str, _Contact] = {}
        self._registered: dict[str, tuple[str, ...]] = {}
        self._look_s: float | None = None
        self._forget_s = 0.0
        self._full = False
        if parties is not None:
            parties.party_listeners.append(self._look_soon)
        reactor.add_timer(self)

    def connect(self, iad: str, address: str, keys: Sequence[str], owner: str = "") -> None:
        """Connect to that IAD's master, which a pool of `owner` names (empty: this master's own);
        an invalid address costs a line on stderr, or is counted there. An existing link keeps its
        address while it works, and a fixed one everything: others use it too."""
        if iad in self._fixed:
            return
        contact, now = self._contacts.get(iad), self._reactor.clock()
        offer = _Offer(address, tuple(keys))
        if contact is None:
            if self._is_full(owner):
                return
            contact = self._contacts[iad] = _Contact({}, owner, owner, address, (), now, now)
        contact.needed_s = now
        contact.offers[owner] = offer
        if owner != contact.owner and self._leads(owner, contact):
            contact.owner = owner
            if not self._known_keys(iad):
                contact.via = owner
        before, contact.keys = contact.keys, self._keys(iad, contact)
        moved = contact.address != address and not self._peers.connected(iad)
        if moved or not same_party(before, contact.keys):
            if owner == contact.via or not owner:
                contact.address, contact.via = address, owner
            elif owner in self._guides(iad, contact) and now - contact.tried_s >= TRY_S:
                contact.address, contact.via, contact.tried_s = address, owner, now
        if self._look_s is None:
            self._look_s = now + LOOK_S
        if len(contact.offers) > 1:
            self._look_s = min(self._look_s, now + TRY_S)
        self._dial(iad)

    def _leads(self, owner: str, contact: _Contact) -> bool:
        """Whether its word about the keys counts more: this master's own, and that of an owner that
        may vouch more than that of one that may no longer."""
        return self._may_vouch(owner) and not (owner and self._may_vouch(contact.owner))

    def _is_full(self, owner: str) -> bool:
        free = MAX_LINKS - len(self._contacts)
        used = sum(c.owner == owner for c in self._contacts.values()) if owner else 0
        if free > used or (free and not owner):
            return False
        if not self._full:
            all_ = f"there are links to {MAX_LINKS} IADs; no more are made\n"
            own = f"the pools of {owner} have {used} links, as many as they leave to others\n"
            self._say(own if free else all_)
        self._full = True
        return True

    def accounts_changed(self, accounts: Iterable[Account]) -> None:
        """The keys of all parties, from the directory."""
        self._registered = {account.name: account.keys for account in accounts}
        self._renew()

    def _look_soon(self) -> None:
        """Keys or owners may be others now."""
        if self._contacts:
            self._look_s = self._reactor.clock()

    # --- what is known of an IAD ---------------------------------------------------------------

    def _known_keys(self, iad: str) -> tuple[str, ...]:
        """Its keys, if they do not come from a pool. A pool's keys are as old as its last change,
        too."""
        of_file = self._parties.iad_keys(iad) if self._parties is not None else ()
        return of_file or self._registered.get(iad, ())

    def _keys(self, iad: str, contact: _Contact) -> tuple[str, ...]:
        return self._known_keys(iad) or contact.offers[contact.owner].keys

    def _guides(self, iad: str, contact: _Contact) -> list[str]:
        """The owners whose address may be tried: with the same keys it leads to the same party."""
        known, keys = self._known_keys(iad), contact.offers[contact.owner].keys
        return [o for o, each in contact.offers.items() if known or same_party(keys, each.keys)]

    def _may_vouch(self, owner: str) -> bool:
        return self._parties is None or self._parties.may_vouch(owner)

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When the next check is due."""
        return self._look_s

    def tick(self, now: float) -> None:
        """Close links that have been unused for long; reconnect with new keys where the old ones
        fail, and to another address where it is the address."""
        self._lines.tell_rest()
        if now >= self._forget_s:
            self._forget_s = now + LOOK_S
            self._forget(now)
        self._renew()
        self._look_s = now + LOOK_S if self._contacts else None
        several = [iad for iad, contact in self._contacts.items() if len(contact.offers) > 1]
        moving = [self._move(iad, now) for iad in several if not self._peers.connected(iad)]
        if any(moving):
            self._look_s = now + TRY_S

    def _forget(self, now: float) -> None:
        needed = self._needed()
        for iad, contact in list(self._contacts.items()):
            if iad in needed:
                contact.needed_s = now
                for owner in contact.offers.keys() - needed[iad]:
                    if len(contact.offers) > 1:
                        del contact.offers[owner]
            elif now - contact.needed_s > KEPT_S:
                del self._contacts[iad]
                self._peers.drop(iad)
                self._full = False

    def _move(self, iad: str, now: float) -> bool:
        """Try the next address of an IAD that is not reached; whether there are several."""
        contact = self._contacts[iad]
        guides = self._guides(iad, contact)
        after = guides.index(contact.via) + 1 if contact.via in guides else 0
        for owner in (*guides[after:], *guides[:after]):
            address = contact.offers[owner].address
            if address != contact.address:
                if now - contact.tried_s >= TRY_S:
                    contact.address, contact.via, contact.tried_s = address, owner, now
                    self._dial(iad)
                return True
        return False

    def _renew(self) -> None:
        for iad, contact in self._contacts.items():
            known = self._known_keys(iad)
            led = contact.owner in contact.offers and self._may_vouch(contact.owner)
            if not led:
                owners = [o for o in contact.offers if self._may_vouch(o)] or [*contact.offers]
                contact.owner = contact.owner if contact.owner in owners else owners[0]
            keys = self._keys(iad, contact)
            same = same_party(contact.keys, keys)
            if not same and not known:
                contact.via = contact.owner
                contact.address = contact.offers[contact.owner].address
            if led and (not known or keys == contact.keys):
                continue
            # An established connection survives a change of keys, because results are in flight on
            # it.
            if led and same and self._peers.connected(iad):
                continue
            contact.keys = keys
            self._dial(iad)

    def _dial(self, iad: str) -> None:
        contact = self._contacts[iad]
        try:
            self._peers.connect(iad, contact.address, contact.keys, owner=contact.owner)
        except OSError as error:
            self._lines.tell(f"no link to a pool's member: {iad}: {error}")

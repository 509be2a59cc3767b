"""Membership plane: the partners of a master, by its configuration and found by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from random import Random
from typing import Final

from agent.master.requests.peers import TRIAL, Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.net.secure_sockets import SecureSockets
from agent.placement.membership.membership import Membership
from agent.runtime.reactor import Reactor
from agent.wire.config import require_usable
from agent.wire.master_config import MasterConfig
from agent.wire.membership import Members

MEMBER: Final = "member"
NOT_OURS: Final = "this master's operator does not call yours a partner"


class Partners(Mapping[str, str]):
    """Name and address of the masters to which units may move, as it is now."""

    def __init__(self, fixed: Mapping[str, str], found: Callable[[], Mapping[str, str]]) -> None:
        self._fixed = fixed
        self._found = found

    def __getitem__(self, iad: str) -> str:
        return self._fixed[iad] if iad in self._fixed else self._found()[iad]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._found(), **self._fixed})

    def __len__(self) -> int:
        return len({**self._found(), **self._fixed})


class MembershipPlane:
    """Connects `Membership` to sockets. `fixed` are the partners of the configuration, `needed`
    names the masters that units are to go to. Without `placement.bootstrap` it does nothing. With
    keys a master is who its key says, on connections of either direction, and only one that the
    allow-list calls `partner` is dialled or heard; without keys it is who it says it is, on this
    host."""

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        public: PublicPlane,
        peers: Peers,
        secure_sockets: SecureSockets,
        fixed: Mapping[str, str],
        needed: Callable[[], Collection[str]],
    ) -> None:
        self._clock = reactor.clock
        self._public = public
        self._peers = peers
        self._secure_sockets = secure_sockets
        self._fixed = fixed
        self._needed = needed
        self._keyed = secure_sockets.keyed
        self._iad = config.iad.name
        self._door_keys = config.placement.bootstrap_keys
        self._links: dict[str, str] = {}
        self._members: Membership | None = None
        placement = config.placement
        if placement.bootstrap and not placement.alone:
            self._members = Membership(
                self._iad,
                config.sockets.reached_at,
                placement.bootstrap,
                fixed,
                view=placement.view,
                round_s=placement.every_s,
                now=self._clock(),
                random=Random(),
                admits=self._admits,
            )
            reactor.add_timer(self)
        self.partners = Partners(fixed, lambda: self._members.partners if self._members else {})
        public.takes(Members, self._arrived)
        peers.takes(Members, self._answered)

    @property
    def counters(self) -> dict[str, int]:
        """How many masters are known and are partners, and since the start: connections tried and
        failed, partners lost."""
        if self._members is None:
            return {}
        known = len(self._members.addresses)
        found = {"members_known": known, "members_partners": len(self.partners)}
        return {**found, **self._members.counters}

    def _admits(self, iad: str) -> bool:
        return not self._keyed or bool(self._secure_sockets.partner_keys(iad))

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When somebody is to be told or dialled."""
        return self._members.next_due if self._members is not None else None

    def tick(self, now: float) -> None:
        """Make and end connections, and tell."""
        assert self._members is not None
        names = {*self._links, *self._fixed}
        connected = {name for name in names if self._peers.connected(name)}
        turn = self._members.turn(now, connected, self._needed())
        partners = self._members.partners
        for name in self._links.keys() - turn.links.keys():
            for by in (MEMBER, TRIAL):
                self._peers.drop(name, by)
        self._links = {}
        for name, address in turn.links.items():
            try:
                self._connect(name, address, MEMBER if name in partners else TRIAL)
            except (OSError, ValueError):
                self._members.failed(name, now)
                for by in (MEMBER, TRIAL):
                    self._peers.drop(name, by)
            else:
                self._links[name] = address
        for name, message in turn.tell:
            self._peers.send(name, message)

    def _connect(self, name: str, address: str, by: str) -> None:
        """OSError or ValueError if it cannot be; hearsay may say anything."""
        require_usable(address, "its address", keyed=self._keyed)
        if self._keyed and not address.startswith("tcp://"):
            raise ValueError("a master that is not reached by TCP proves nothing")
        keys: tuple[str, ...] | str = self._door_keys
        if name != address:
            keys = self._secure_sockets.partner_keys(name)
        self._peers.connect(name, address, keys, by=by)
        if by == MEMBER:
            self._peers.drop(name, TRIAL)

    # --- messages ------------------------------------------------------------------------------

    def _arrived(self, origin: RequestOrigin, message: Members, now: float) -> None:
        sender = origin.sender
        ours = sender.partner and sender.name == message.iad
        if not self._keyed:
            ours = sender.role == "anyone"
        reply = self._members.heard(message, now) if self._members is not None and ours else None
        if reply is None:
            self._public.refuse(origin.identity, origin.codec, "", "not_authorised", NOT_OURS)
        else:
            self._public.reply(origin, reply)

    def _answered(self, name: str, message: Members, now: float) -> None:
        if self._members is not None:
            self._members.answered(name, message, now)

"""Messages of handovers to and from the masters of this one's pool."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.placement.world import Unit
from agent.wire import handover as w
from agent.wire.messages import Answer

# Before the dot in the `id` of what is sent: a refusal comes with it.
PREFIX: Final = "handover"
NOT_OURS: Final = "handovers are between masters of one pool; this one's does not name you"


class HandoverLink:
    """`heard(unit, sender, message)` gets what the masters of `partners` say, and what others ask
    about a unit of which `shared(unit, iad)` says that they may have it: it was taken before they
    left the configuration. `refused(iad, attempt, line)` gets what another does not take, because
    its version does not know it or it has too much to do. Without keys a master is whom it says it
    is, as in all that masters say."""

    def __init__(
        self,
        iad: str,
        public: PublicPlane,
        peers: Peers,
        partners: Collection[str],
        heard: Callable[[Unit, str, w.HandoverMessage], object],
        refused: Callable[[str, int, str], object],
        shared: Callable[[Unit, str], bool],
    ) -> None:
        self._iad = iad
        self._public = public
        self._peers = peers
        self._partners = partners
        self._heard = heard
        self._refused = refused
        self._shared = shared
        # On which connections others that are no partners asked last: there may be no link to them.
        self._asked: dict[str, RequestOrigin] = {}
        peers.takes(w.Handover, self._answered)
        public.takes(w.Handover, self._arrived)
        peers.takes_refusals(PREFIX, self._not_taken)

    def why_not(self, target: str) -> str:
        """Why nothing can be moved there now; empty if it can."""
        if target == self._iad:
            return "it lives there already"
        if target not in self._partners:
            known = ", ".join(sorted(self._partners)[:8]) or "none"
            return f"{target} is not in this master's pool; those that are: {known}"
        if target in self._peers.unreachable:
            return f"the master of {target} cannot be reached now"
        return ""

    def tell(self, to: str, unit: Unit, message: w.HandoverMessage) -> bool:
        """Send it; False if there is no link, or it is not read."""
        attempt = getattr(message, "attempt", 0)
        told = w.Handover(f"{PREFIX}.{attempt}", self._iad, unit.kind, unit.name, message)
        if self._peers.send(to, told):
            return True
        if (origin := self._asked.get(to)) is not None:
            self._public.reply(origin, told)
        return origin is not None

    def _arrived(self, origin: RequestOrigin, request: w.Handover, _now: float) -> None:
        sender = origin.sender
        named = sender.role == "iad" and sender.name == request.iad
        message: Any = request.message
        unit, iad = Unit(request.kind, request.name), request.iad
        known = named or sender.role == "anyone"
        if known and iad not in self._partners:
            known = isinstance(message, w.MoveTook) and self._shared(unit, iad)
            if known:
                self._asked[iad] = origin
        if known:
            self._heard(unit, iad, message)
        else:
            self._public.refuse(
                origin.identity, origin.codec, request.id, "not_authorised", NOT_OURS
            )

    def _answered(self, iad: str, reply: w.Handover, _now: float) -> None:
        """A master of which this one is no partner any more says what has become of a unit."""
        message = reply.message
        if reply.iad == iad and isinstance(message, w.MoveSettled | w.MoveReclaimed):
            self._heard(Unit(reply.kind, reply.name), iad, message)

    def _not_taken(self, iad: str, answer: Answer, _now: float) -> None:
        attempt = answer.id.rpartition(".")[2]
        if attempt.isdecimal():
            self._refused(iad, int(attempt), f"the master of {iad} says: {answer.message}")

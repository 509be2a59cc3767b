"""Peer pool: one DEALER per other master, opened and closed while the master runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import zmq
from msgspec import Struct

from agent.net.allow_list import Party
from agent.net.message_socket import MessageSocket
from agent.net.secure_sockets import SecureSockets
from agent.net.unsent import LARGE, Unsent
from agent.runtime.console import Say
from agent.runtime.rate_limited_lines import RateLimitedLines
from agent.runtime.reactor import Reactor
from agent.runtime.token_bucket import TokenBucket
from agent.wire.base import Message
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, Frame, WireError, encode, glimpse, type_of
from agent.wire.config import ConfigError
from agent.wire.messages import Answer, TaskResult
from agent.wire.principals import Sender
from agent.wire.unions import PEER_BULK, PeerReply

# After a connection was replaced: how long replies may still arrive on the old one.
DRAIN_S = 10.0
# Bytes of large messages queued here for one master, which reads no more at a time than its guard
# lets a connection hold; a task has half a megabyte at most.
MAX_WAITING = 1 << 24
# Interval between checks of replacement connections.
LOOK_S = 0.1
# Users of links: the configuration, whose links stay, and connections on trial, which are not shown
# and may have an address for a name.
CONFIGURED = "configuration"
TRIAL = "trial"
# Smaller replies are decoded in less time than it takes to tell what they are.
LARGE_REPLY = 1 << 12
# To decode larger ones that are no results of tasks under way, one master may take so much of this
# one's time, and so many seconds at once. What a master is asked for needs a tenth of that.
LARGE_SHARE = 0.02
LARGE_BURST_S = 0.3


class _Replies:
    """Decodes the replies of one master: what is large and was not asked for only as far as that
    costs others little."""

    def __init__(
        self,
        decoder: Decoder[PeerReply],
        expects: Callable[[str], bool],
        clock: Callable[[], float],
    ) -> None:
        """`expects(task_id)`: whether the master may still return this task."""
        self._decoder = decoder
        self._expects = expects
        self._clock = clock
        self._time = TokenBucket(LARGE_SHARE, LARGE_BURST_S, clock())

    def decode(self, frame: Frame) -> tuple[PeerReply, bytes]:
        """As a `Decoder` does. A result that comes late is passed on without its contents."""
        if len(frame) < LARGE_REPLY:
            return self._decoder.decode(frame)
        codec, id_ = glimpse(frame)
        result = type_of(frame, codec) == "task_result"
        if result and not self._expects(id_):
            return TaskResult(id_, "refused", 0.0), codec
        began_s, wanted = self._clock(), False
        if self._time.wait_s(began_s, tokens=0.0):
            raise WireError("more large replies than were asked for")
        try:
            found = self._decoder.decode(frame)
            # A frame may have another id behind the one that was seen.
            wanted = result and isinstance(found[0], TaskResult) and found[0].id == id_
            return found
        finally:
            if not wanted:
                self._time.take(self._clock() - began_s)


class _Link(Struct):
    """`following` replaces `socket` once the other end has accepted it."""

    address: str
    keys: tuple[str, ...] | str
    socket: MessageSocket[PeerReply]
    owner: str
    following: MessageSocket[PeerReply] | None = None


Handler = Callable[[str, Any, float], None]


class Peers:
    """Other masters by the name of their IAD. Masters of the market may connect here too, once this
    master has connected to them. When keys change at either end a link gets a new connection, and
    loses nothing."""

    def __init__(self, reactor: Reactor, secure_sockets: SecureSockets, say: Say) -> None:
        self._say = say
        self._lines = RateLimitedLines(say, reactor.clock)
        self._reactor = reactor
        self._secure_sockets = secure_sockets
        self._decoder: Decoder[PeerReply] = Decoder(
            PeerReply, MAX_RESULT_BYTES, bounded=True, bulk=PEER_BULK
        )
        # Whether an IAD may still return this task.
        self.expects: Callable[[str, str], bool] = lambda _iad, _task_id: True
        self._links: dict[str, _Link] = {}
        # Who uses each link: the configuration (CONFIGURED, for good), pools, membership.
        self._users: dict[str, set[str]] = {}
        self._handlers: dict[type, Handler] = {}
        self._refusals: dict[str, Handler] = {}
        self._draining: list[tuple[float, MessageSocket[PeerReply]]] = []
        self._due_s: float | None = None
        self._unsent = Unsent(MAX_WAITING)
        self.malformed = 0
        self.dropped = 0  # messages to masters that do not read their queue
        secure_sockets.new_key_listeners.append(self._show_new_key)
        reactor.add_timer(self)

    def connect(
        self,
        iad: str,
        address: str,
        keys: Sequence[str] | str = (),
        *,
        by: str = "pools",
        owner: str = "",
    ) -> None:
        """Connect to that IAD's master; an existing link is replaced at once if its address
        differs or no key is common, and gets a new connection if some keys differ.

        `keys` are its public keys, or a file with them. `by` is who uses the link; a link that
        others use and that works keeps its address. `owner` is the party that named the keys;
        empty: this master. OSError if the address is invalid, or would be reached without keys;
        ConfigError for the file.
        """
        link = self._links.get(iad)
        keys = keys if isinstance(keys, str) else tuple(keys)
        users = self._users.setdefault(iad, set())
        shared = bool(users - {by})
        users.add(by)
        if link is not None:
            same = same_party(link.keys, keys)
            if shared and (CONFIGURED in users or (same and link.socket.connected)):
                return
            if (link.address, link.keys, link.owner) == (address, keys, owner):
                return
            if link.address == address and same:
                before, link.keys, link.owner = link.keys, keys, owner
                if before != keys:
                    self._replace(iad, link)
                self._tell_guard()
                return
            self._close(iad)
        self._links[iad] = _Link(address, keys, self._dial(iad, address, keys), owner)
        self._tell_guard()

    def drop(self, iad: str, by: str = "pools") -> None:
        """It is not used so any more; without another user it is closed."""
        users = self._users.get(iad, set())
        users.discard(by)
        if not users:
            self._users.pop(iad, None)
            self._close(iad)

    def _close(self, iad: str) -> None:
        link = self._links.pop(iad, None)
        if link is not None:
            link.socket.close()
            if link.following is not None:
                link.following.close()
            self._tell_guard()

    def _dial(
        self, iad: str, address: str, keys: tuple[str, ...] | str
    ) -> MessageSocket[PeerReply]:
        return MessageSocket(
            self._reactor,
            partial(
                self._secure_sockets.dealer,
                address,
                MAX_RESULT_BYTES,
                keys,
                renew=partial(self._renew, iad),
            ),
            _Replies(self._decoder, lambda id_: self.expects(iad, id_), self._reactor.clock),
            partial(self._take, iad),
            self._count_malformed,
            flooded=partial(
                self._lines.tell, f"{iad}: it sent more than is taken; connecting anew"
            ),
            brief=True,
        )

    def _tell_guard(self) -> None:
        # The operator names the parties of a file, and names them in the allow-list too.
        self._secure_sockets.set_parties(
            "peers",
            [
                Party(Sender("iad", iad), link.keys, link.owner)
                for iad, link in self._links.items()
                if not isinstance(link.keys, str)
            ],
            # Named by the party that forms a pool.
            hearsay=True,
        )

    # --- keys that change ----------------------------------------------------------------------

    def _show_new_key(self) -> None:
        for iad in self._links:
            self._renew(iad)

    def _renew(self, iad: str) -> None:
        """Have the link replaced by a connection with the newest keys, once there is one."""
        link = self._links.get(iad)
        if link is None:
            return
        try:
            self._replace(iad, link)
        except (ConfigError, OSError) as error:
            # For example because its file of keys cannot be read now.
            self._say(f"{iad}: {error}; the link stays as it is\n")

    def _replace(self, iad: str, link: _Link) -> None:
        if link.following is not None:
            link.following.close()
            link.following = None
        link.following = self._dial(iad, link.address, link.keys)
        self._due_s = self._reactor.clock()

    @property
    def next_due(self) -> float | None:
        """When replacement connections are to be checked."""
        return self._due_s

    def tick(self, now: float) -> None:
        """Switch to replacements that are connected, close replaced connections that have
        drained."""
        for link in self._links.values():
            if link.following is not None and link.following.connected:
                self._draining.append((now + DRAIN_S, link.socket))
                link.socket, link.following = link.following, None
        for ends_s, socket in self._draining:
            if ends_s <= now:
                socket.close()
        self._draining = [each for each in self._draining if each[0] > now]
        waiting = any(link.following is not None for link in self._links.values())
        ends = [ends_s for ends_s, _ in self._draining]
        self._due_s = min([now + LOOK_S] * waiting + ends, default=None)

    # --- messages ------------------------------------------------------------------------------

    def takes(self, kind: type, handler: Handler, *, brief: bool = False) -> None:
        """Register `handler(iad, reply, now)` for replies of this kind; `brief` as in
        `Reactor.listen`."""
        self._handlers[kind] = handler if brief else self._reactor.changing(handler)

    def takes_refusals(self, prefix: str, handler: Handler) -> None:
        """Register `handler(iad, answer, now)` for refusals of messages that have no reply, whose
        ids begin with `prefix` and a dot."""
        self._refusals[prefix] = self._reactor.changing(handler)

    def send(self, iad: str, message: Message) -> bool:
        """Send; False if there is no link, if the other end is not connected, or if it does not
        read its queue."""
        link = self._links.get(iad)
        if link is None:
            return False
        frame = encode(message)
        large = len(frame) >= LARGE
        if large and not self._unsent.has_room(iad, len(frame)):
            self.dropped += 1
            return False
        try:
            tracker = link.socket.send_frame(frame, copy=not large, track=large)
        except zmq.Again:
            return False
        if tracker is not None:
            self._unsent.add(iad, tracker, len(frame))
        return True

    @property
    def iads(self) -> tuple[str, ...]:
        """The IADs to which there is a link."""
        return tuple(iad for iad in self._links if self._users.get(iad) != {TRIAL})

    @property
    def unreachable(self) -> tuple[str, ...]:
        """The IADs whose master is not connected."""
        return tuple(iad for iad in self.iads if not self.connected(iad))

    def connected(self, name: str) -> bool:
        """Whether the other end of this link has accepted it."""
        link = self._links.get(name)
        return link is not None and link.socket.connected

    def _take(self, iad: str, reply: PeerReply) -> None:
        handler = self._handlers.get(type(reply))
        if isinstance(reply, Answer):
            handler = self._refusals.get(reply.id.partition(".")[0], handler)
        if handler is not None:
            handler(iad, reply, self._reactor.clock())

    def _count_malformed(self) -> None:
        self.malformed += 1


def same_party(before: tuple[str, ...] | str, keys: tuple[str, ...] | str) -> bool:
    """Whether these may be the keys of one party, before and after a rotation."""
    if isinstance(before, str) or isinstance(keys, str) or not before or not keys:
        return True
    return not set(before).isdisjoint(keys)

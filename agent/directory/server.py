"""The registration service's process: sockets and disk around the directory; it decides nothing
itself."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import zmq

from agent.directory.directory import Edit
from agent.directory.encoding import ReplyEncoder
from agent.directory.leader import Leader
from agent.directory.leader_link import LeaderLink
from agent.directory.metrics import DrsMetrics
from agent.directory.replica import ReadReplica
from agent.directory.requests import denied, tag
from agent.directory.store import Store
from agent.net.fair_turns import TOO_MANY, FairTurns
from agent.net.router import REVOKED
from agent.net.secure_sockets import SecureSockets
from agent.net.unsent import LARGE
from agent.runtime.console import listening, operator_log
from agent.runtime.outage import Outage
from agent.runtime.reactor import Reactor
from agent.runtime.signals import StopSignal
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, Frame, WireError, encode
from agent.wire.config import ConfigError
from agent.wire.directory import Denied, DeniedReason, DirectoryReply, DirectoryRequest
from agent.wire.drs_config import DrsConfig
from agent.wire.principals import Sender

# Twice as many as there may be parties, but for those of which the limit of files has no room.
MAX_CONNECTIONS: Final = 20_000
UNREAD: Final = "the reply was dropped: too much waits to be read by you, or by all parties"


class Server:
    """A leader, or a read replica if its configuration names a leader.

    OSError if a socket or the file cannot be used, ConfigError for a file of keys.
    """

    def __init__(
        self, config: DrsConfig, folder: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = operator_log("sanderling-drs")
        self._address = config.sockets.public
        self._encode = ReplyEncoder()
        self._outage = Outage(self._say, "directory: changes are written again\n")  # of the disk
        self._reactor = Reactor(clock)
        self._decoder: Decoder[DirectoryRequest] = Decoder(DirectoryRequest, bounded=True)
        self.counters: Counter[str] = Counter()
        self._store = Store(folder / config.directory.path, mirror=bool(config.mirror.primary))
        if self._store.said:
            self._say(f"{self._store.said}\n")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._secure_sockets = SecureSockets(
                self._context, config.trust, folder, clock=clock, warn=self._say
            )
            self._connect(config, clock())
        except (OSError, ConfigError):
            self._release()
            raise

    def _connect(self, config: DrsConfig, now: float) -> None:
        directory, mirror = self._store.load(), config.mirror
        self._secure_sockets.attend(self._reactor)
        self._router = self._secure_sockets.router(
            "drs", config.sockets.public, most_connections=MAX_CONNECTIONS
        )
        self._router.refuse = self._refuse
        turns = FairTurns(self._router, self._take, self._over_rate, clock=self._reactor.clock)
        self._reactor.listen(self._router.socket, turns.turn)
        self._reactor.add_timer(turns)
        self._rules: Leader | ReadReplica
        if mirror.primary:
            self._rules = ReadReplica(directory, mirror.primary, every_s=mirror.every_s, now=now)
            connect = partial(
                self._secure_sockets.dealer, mirror.primary, MAX_RESULT_BYTES, mirror.primary_keys
            )
            LeaderLink(self._reactor, connect, self._rules, self._keep, self.counters)
        else:
            self._rules = Leader(
                directory,
                longest_lease_s=config.directory.longest_lease_s,
                now=now,
                holder=self._secure_sockets.holder,
                keyed=bool(config.trust.key),
            )
            self._reactor.add_timer(_Expiry(self._rules, self._keep, self.counters))
        # The file of keys is authoritative; new keys of an account need no action of the operator.
        self._secure_sockets.ask(self._account)
        self._metrics = DrsMetrics(
            self._reactor,
            config.metrics,
            self._rules,
            self.counters,
            lambda: self._router.dropped,
            lambda: self._secure_sockets.key_expiry_s,
            every_s=mirror.every_s,
        )

    def serve(self, stop: StopSignal) -> None:
        """Serve until told to stop."""
        self._say(listening({"public": self._address}))
        self._reactor.serve(stop)

    def close(self) -> None:
        """Close the sockets and the file."""
        self._metrics.close()
        self._release()

    def _release(self) -> None:
        if (secure_sockets := getattr(self, "_secure_sockets", None)) is not None:
            secure_sockets.close()
        self._context.destroy()
        self._store.close()

    def _take(self, identity: bytes, frame: Frame, sender: Sender) -> None:
        try:
            request, codec = self._decoder.decode(frame)
        except WireError as error:
            self.counters["malformed_frames"] += 1
            self._deny(identity, error.codec, error.sender_id, "malformed", str(error))
            return
        self.counters[tag(request)] += 1
        now = self._reactor.clock()
        outcome = self._rules.handle(request, sender, now)
        reply = outcome.reply
        if outcome.edit is not None and not self._keep(outcome.edit, now):
            reply = denied(request, "not_ready", "the directory's disk takes nothing now")
        if isinstance(reply, Denied):
            self._deny(identity, codec, reply.id, reply.reason, reply.message)
        else:
            self._reply(identity, codec, sender, reply)
        outcome_name = reply.reason if isinstance(reply, Denied) else "ok"
        self._metrics.observe(tag(request), outcome_name, self._reactor.clock() - now)

    def _reply(self, identity: bytes, codec: bytes, sender: Sender, reply: DirectoryReply) -> None:
        payer, frame = (sender.role, sender.name), self._encode(reply, codec)
        large = len(frame) >= LARGE
        if large and not self._router.unsent.has_share(payer, len(frame)):
            sent = False
        else:
            sent = self._router.send(identity, frame, payer)
        if not sent:
            self._deny(identity, codec, reply.id, "overloaded", UNREAD)

    def _over_rate(self, identity: bytes, codec: bytes, sender_id: str) -> None:
        self._deny(identity, codec, sender_id, "overloaded", TOO_MANY)

    def _deny(
        self, identity: bytes, codec: bytes, sender_id: str, reason: DeniedReason, line: str
    ) -> None:
        self.counters[f"denied_{reason}"] += 1
        self._router.send(identity, encode(Denied(sender_id, reason, line), codec))

    def _refuse(self, identity: bytes, frame: Frame) -> None:
        """Answer a sender whose key is no longer allowed."""
        try:
            request, codec = self._decoder.decode(frame)
            sender_id = request.id
        except WireError as error:
            sender_id, codec = error.sender_id, error.codec
        self._deny(identity, codec, sender_id, "not_authorised", REVOKED)

    def _keep(self, edit: Edit, now: float) -> bool:
        """Write and apply; False if the disk refuses, and nothing has changed."""
        try:
            self._store.write(edit)
        except sqlite3.Error as error:
            self._outage.fail(
                f"directory: a change could not be written: {error}; none is taken until one "
                "can be\n"
            )
            self.counters["failed_writes"] += 1
            return False
        self._outage.succeed()
        self._rules.applied(edit, now)
        return True

    def _account(self, key: str) -> Sender | None:
        """The party that has an account with this key."""
        directory = self._rules.directory
        entry = directory.get(directory.owner(key) or "")
        return None if entry is None else Sender(entry.account.kind, entry.account.name)


class _Expiry:
    """Wakes the leader when a lease ends."""

    def __init__(
        self, primary: Leader, keep: Callable[[Edit, float], bool], counters: Counter[str]
    ) -> None:
        self._primary = primary
        self._keep = keep
        self._counters = counters

    @property
    def next_due(self) -> float | None:
        """When the next lease ends."""
        return self._primary.next_due

    def tick(self, now: float) -> None:
        """End the leases that are due."""
        edit = self._primary.expire(now)
        if edit is not None and self._keep(edit, now):
            self._counters["leases_expired"] += len(edit.entries)

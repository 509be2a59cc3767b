"""Secure sockets: creates all of a process's sockets, with CURVE keys or within this host."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence

import zmq

from agent.net.allow_list import ROLES, AllowList, Party
from agent.net.dealer import KeyedLink, PlainLink, unconnected
from agent.net.file_watcher import Watched
from agent.net.intake import Intake, Room
from agent.net.keys import Pair, expiry, read_publics, read_secrets
from agent.net.message_socket import Loop
from agent.net.router import Keyed, Router, router
from agent.net.zap import Zap
from agent.wire.config import ConfigError, Trust, require_usable
from agent.wire.principals import Sender

# Seconds between two checks of the key file, the allow-list and the links.
LOOK_S = 1.0
# Minimum interval of the checks when links are due sooner: there may be many.
LEAST_S = 0.1
# Keys of a registration service: its own and its mirrors'.
MAX_DIRECTORY_KEYS = 32

Find = Callable[[str], Sender | None]


class SecureSockets:
    """Creates a process's sockets. Without `trust.key` they are plain and limited to this host.

    With it, each tcp:// socket uses CURVE, the ZAP handler consults the allow-list, and a change of
    the key file or the allow-list takes effect within a second (DSSP leaves trust to the
    implementation; see docs/understand/trust.md). ConfigError if a file cannot be used. Paths are
    relative to `folder`; `warn` takes lines for the operator, each with its newline.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        trust: Trust,
        folder: str | os.PathLike[str],
        *,
        clock: Callable[[], float],
        warn: Callable[[str], object],
    ) -> None:
        self._context = context
        self._folder = os.fspath(folder)
        self._warn = warn
        self._clock = clock
        self._secrets: Watched[tuple[Pair, ...]] | None = None
        self._allowed = AllowList()
        self._routers: list[Router] = []
        self._intakes: list[Intake] = []
        self._room: Room | None = None
        self._links: list[PlainLink] = []
        self.zap: Zap | None = None
        # Called with an unknown key: the market may learn its owner soon.
        self.on_unknown: Callable[[str], None] = _ignore
        # Called when `public_keys` change, for components that pin or publish them.
        self.new_key_listeners: list[Callable[[], None]] = []
        # Called when the file or another source but hearsay may name other parties than before.
        self.party_listeners: list[Callable[[], None]] = []
        self._due_s = clock()
        self._links_due_s = math.inf
        if trust.key:
            self._secrets = Watched(self._path(trust.key), read_secrets)
            self._allowed = AllowList(self._path(trust.allow) if trust.allow else "")
            self.zap = Zap(context, self._why_not, clock)

    def _path(self, path: str) -> str:
        return os.path.join(self._folder, path)  # noqa: PTH118 - as key files do

    def attend(self, loop: Loop) -> None:
        """Register this guard with the process's event loop."""
        if self.zap is not None:
            loop.listen(self.zap.socket, self.zap.turn)
        loop.add_timer(self)

    # --- sockets -------------------------------------------------------------------------------

    def router(
        self,
        domain: str,
        address: str,
        *,
        most_connections: int | None = None,
        waiting: int | None = None,
    ) -> Router:
        """Bind a ROUTER for the roles that `ROLES` assigns to the domain. OSError. With
        `most_connections` the socket accepts only requests, and the bytes that its connections hold
        are bounded. `waiting` as for `router`. All sockets share the process's limit of
        connections."""
        keyed = None
        if self._secrets is not None:
            keyed = Keyed(self._secrets.value[0], domain, self._find_for(domain))
        requests_only = most_connections is not None
        made = router(self._context, address, keyed, requests_only=requests_only, waiting=waiting)
        if not address.startswith("tcp://"):
            return made
        if keyed is not None:
            self._routers.append(made)
        self._room = self._room or Room()
        intake = Intake(made.socket, most_connections, self._warn, self._room, clock=self._clock)
        self._intakes.append(intake)
        made.abort = intake.abort
        if requests_only:
            made.watch_intake(intake)
        return made

    def close(self) -> None:
        """End the threads that watch sockets; call it before closing these."""
        for intake in self._intakes:
            intake.close()

    def dealer(
        self,
        address: str,
        max_bytes: int,
        server_keys: Sequence[str] | str = (),
        *,
        renew: Callable[[], object] | None = None,
    ) -> zmq.Socket[bytes]:
        """Connect a DEALER to an agent with these public keys, or those of this file; `renew` as
        in KeyedLink. OSError for an invalid address, or one on another host without keys;
        ConfigError for the file."""
        keyed = self._secrets is not None and address.startswith("tcp://")
        if not keyed:
            try:
                require_usable(address, "its address")
            except ValueError as error:
                raise OSError(f"cannot connect: {error}") from None
        elif not server_keys:
            raise OSError(f"cannot connect to {address}: none of its public keys is known")
        known: Watched[tuple[str, ...]] | None = None
        if keyed and isinstance(server_keys, str):
            known = Watched(self._path(server_keys), _read_server_keys)

        def own() -> Sequence[Pair]:
            assert self._secrets is not None
            return self._secrets.value

        def servers() -> Sequence[str]:
            if known is None:
                return server_keys
            known.refresh()
            return known.value

        socket = unconnected(self._context, max_bytes)
        try:
            if keyed:
                link: PlainLink = KeyedLink(socket, address, own, servers, renew=renew)
            else:
                link = PlainLink(socket, address)
            self._look_at(link, self._clock())
        except zmq.ZMQError as error:
            socket.close(0)
            raise OSError(f"cannot connect to {address}: {error.strerror}") from None
        except ConfigError:
            socket.close(0)
            raise
        self._links.append(link)
        return socket

    # --- parties -------------------------------------------------------------------------------

    @property
    def public_keys(self) -> tuple[str, ...]:
        """This process's public keys, which its peers need; the current one first."""
        return tuple(pair.public for pair in self._secrets.value) if self._secrets else ()

    @property
    def key_expiry_s(self) -> float | None:
        """When the current key should be replaced, in seconds since the epoch; None if its file
        does not state it."""
        return expiry(self._secrets.path) if self._secrets else None

    def set_parties(self, source: str, parties: Iterable[Party], *, hearsay: bool = False) -> None:
        """Replace the parties that `source`, such as "accounts", allows in addition to the file;
        see `AllowList.set_parties`."""
        self._allowed.set_parties(source, parties, hearsay=hearsay)
        if not hearsay:
            self._parties_changed()

    def _parties_changed(self) -> None:
        for listener in self.party_listeners:
            listener()

    def ask(self, find: Find) -> None:
        """Allow also the owner that `find` names for a key of no other source."""
        self._allowed.ask = find

    def holder(self, key: str) -> Sender | None:
        """The owner of a public key, if it is allowed at any socket."""
        return self._allowed.find(key)

    @property
    def keyed(self) -> bool:
        """Whether this process has a key."""
        return self._secrets is not None

    def partner_keys(self, iad: str) -> tuple[str, ...]:
        """The keys of a master that the allow-list calls this operator's, too; () for others."""
        return self._allowed.partner_keys(iad)

    def iad_keys(self, iad: str) -> tuple[str, ...]:
        """The keys that the allow-list's file gives to a master; () if it is not there."""
        return self._allowed.iad_keys(iad)

    def may_join(self, node: str, address: str) -> bool:
        """Whether a node of that name may connect to this process's socket there: `ipc://` sockets
        need no keys."""
        if self._secrets is None or not address.startswith("tcp://"):
            return True
        return self._allowed.names_node(node)

    def may_vouch(self, owner: str) -> bool:
        """Whether `owner` may name other parties: it is not known by hearsay only. Without keys
        nobody is known."""
        return self._secrets is None or self._allowed.may_vouch(owner)

    def _find_for(self, domain: str) -> Find:
        roles = ROLES[domain]

        def find(key: str) -> Sender | None:
            sender = self._allowed.find(key)
            return sender if sender is not None and sender.role in roles else None

        return find

    def _why_not(self, domain: str, key: str) -> str | None:
        self._read_allow_list()
        sender = self._allowed.find(key)
        if sender is None:
            self.on_unknown(key)
            return "this key is not in the allow-list"
        if sender.role not in ROLES.get(domain, ()):
            return f"a key of role {sender.role} may not connect to the {domain} socket"
        return None

    # --- changes -------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When to check files and links next."""
        if self._secrets is None and not self._links:
            return None
        return min(self._due_s, self._links_due_s)

    def tick(self, now: float) -> None:
        """Check files and links if due."""
        if now >= self._due_s:
            self._due_s = now + LOOK_S
            if self._secrets is not None:
                self._read_allow_list()
                self._read_key()
        self._links = [link for link in self._links if not link.socket.closed]
        self._links_due_s = math.inf
        for link in self._links:
            if link.socket.closed:  # its owner renewed another one
                continue
            try:
                self._look_at(link, now)
            except ConfigError as error:
                self._warn(f"{error}; the link waits\n")
            except zmq.ZMQError as error:  # such as of an interface that is gone
                self._warn(f"cannot connect to {link.address}: {error.strerror}; the link waits\n")

    def _look_at(self, link: PlainLink, now: float) -> None:
        if (due_s := link.look(now)) is not None:
            self._links_due_s = min(self._links_due_s, max(due_s, now + LEAST_S))

    def _read_allow_list(self) -> None:
        try:
            if self._allowed.refresh():
                self._parties_changed()
        except ConfigError as error:
            self._warn(f"{error}; the allow-list before stays in force\n")

    def _read_key(self) -> None:
        assert self._secrets is not None
        before = self._secrets.value[0]
        try:
            if not self._secrets.refresh():
                return
        except ConfigError as error:
            self._warn(f"{error}; the key before stays in use\n")
            return
        for listener in self.new_key_listeners:
            listener()
        if self._secrets.value[0] == before:
            return
        for made in self._routers:
            try:
                made.use_key(self._secrets.value[0])
            except OSError as error:
                self._warn(f"cannot show the new key before a restart: {error.strerror}\n")


def check(trust: Trust, folder: str | os.PathLike[str], *server_keys: str) -> None:
    """Check the key files for `--check`; ConfigError."""
    base = os.fspath(folder)
    if trust.key:
        read_secrets(os.path.join(base, trust.key))  # noqa: PTH118 - as key files do
        AllowList(os.path.join(base, trust.allow) if trust.allow else "")  # noqa: PTH118
    for path in server_keys:
        if path:
            read_publics(os.path.join(base, path), MAX_DIRECTORY_KEYS)  # noqa: PTH118


def _read_server_keys(path: str) -> tuple[str, ...]:
    return read_publics(path, MAX_DIRECTORY_KEYS)


def _ignore(_key: str) -> None:
    pass

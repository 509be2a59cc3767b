"""A master's connection to the registration service: sockets around `agent.directory.registrar`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from agent.directory.registrar import Registrar
from agent.directory.registrar_events import (
    AccountsWanted,
    Answer,
    Changed,
    DiscoverWanted,
    Event,
    LookUpWanted,
    Registrant,
    Replied,
    Send,
    Start,
    TellAccounts,
    TellOperator,
    Tick,
    Undelivered,
)
from agent.net.allow_list import Party
from agent.net.message_socket import MessageSocket
from agent.net.secure_sockets import SecureSockets
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.wire.codec import MAX_RESULT_BYTES, Decoder
from agent.wire.directory import Account, DirectoryReply, Found
from agent.wire.principals import Sender

Done = Callable[[Found | None, float], None]
AccountsListener = Callable[[tuple[Account, ...]], None]


class DirectoryLink:
    """Registers `registrant` at the first of `addresses`, and sends reads to it and the others, its
    replicas; `keys` is the file of their public keys. Parties with an account there may connect
    here.

    OSError for an invalid address, or one that would be reached without keys; ConfigError for the
    file.
    """

    def __init__(
        self,
        reactor: Reactor,
        secure_sockets: SecureSockets,
        addresses: Sequence[str],
        keys: str,
        registrant: Registrant,
        *,
        lease_s: float,
        say: Say,
    ) -> None:
        self._say = say
        self._primary = addresses[0]
        self._reactor = reactor
        decoder: Decoder[DirectoryReply] = Decoder(DirectoryReply, MAX_RESULT_BYTES)
        self._registrar = Registrar(
            registrant, len(addresses), lease_s=lease_s, jitter=random.random
        )
        self._listeners: list[AccountsListener] = []
        self.malformed = 0
        self._secure_sockets = secure_sockets
        self._sockets = [
            MessageSocket(
                reactor,
                partial(secure_sockets.dealer, address, MAX_RESULT_BYTES, keys),
                decoder,
                partial(self._take, number),
                self._count_malformed,
            )
            for number, address in enumerate(addresses)
        ]
        secure_sockets.on_unknown = lambda _key: self.refresh_accounts()
        secure_sockets.new_key_listeners.append(self._show_new_keys)
        reactor.add_timer(self)
        self._handle(Start())

    # --- for the master ------------------------------------------------------------------------

    def discover(self, capability: str, areas: Sequence[str], done: Done) -> None:
        """Call `done(found, now)` with all IADs that match; None: no directory answered."""
        self._handle(DiscoverWanted(done, capability, areas))

    def look_up(self, iads: Sequence[str], done: Done) -> None:
        """Call `done(found, now)` with the records of these IADs; None: no directory answered."""
        self._handle(LookUpWanted(done, iads))

    @property
    def accounts(self) -> tuple[Account, ...]:
        """All parties of the market, as last heard."""
        return self._registrar.accounts

    def on_accounts(self, listener: AccountsListener) -> None:
        """Call `listener(accounts)` whenever they have changed."""
        self._listeners.append(listener)

    def restore(self, accounts: tuple[Account, ...]) -> None:
        """Take these for the accounts until a directory has answered: a restart of this master
        while none does ends no service."""
        self._registrar.accounts = accounts
        self._perform([TellAccounts(accounts)])

    def refresh_accounts(self) -> None:
        """Request the accounts soon: at most once a second."""
        self._handle(AccountsWanted())

    @property
    def registered(self) -> bool:
        """Whether the leader has confirmed the registration."""
        return self._registrar.registered

    # --- for the reactor -------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When the registrar is due."""
        return self._registrar.wake_at

    def tick(self, now: float) -> None:
        """Renew, retry, time out."""
        self._perform(self._registrar.handle(Tick(), now))

    def _take(self, number: int, reply: DirectoryReply) -> None:
        self._handle(Replied(number, reply))

    def _count_malformed(self) -> None:
        self.malformed += 1

    def _show_new_keys(self) -> None:
        keys = self._secure_sockets.public_keys
        self._handle(Changed(self._registrar.registrant._replace(keys=keys)))

    def _handle(self, event: Event) -> None:
        self._perform(self._registrar.handle(event, self._reactor.clock()))

    def _perform(self, instructions: Sequence[Send | Answer | TellAccounts | TellOperator]) -> None:
        for instruction in instructions:
            match instruction:
                case Send(directory, request):
                    if not self._sockets[directory].send(request):
                        self._handle(Undelivered(request.id))
                case Answer(done, found):
                    done(found, self._reactor.clock())
                case TellAccounts(accounts):
                    self._secure_sockets.set_parties(
                        "accounts",
                        [Party(Sender(a.kind, a.name), a.keys) for a in accounts],
                    )
                    for listener in self._listeners:
                        listener(accounts)
                case TellOperator(line):
                    self._say(f"{line} ({self._primary})\n")

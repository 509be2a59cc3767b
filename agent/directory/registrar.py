"""A party's client of the registration service: a pure state machine.

It keeps one registration alive at the leader, and sends each read to the leader first, then to its
replicas until one answers. Events go in with the time in seconds, instructions come out; the shell
in `agent.master.market.directory_link` carries them out. Directories are numbered as configured;
the leader is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

from msgspec import Struct

from agent.directory.registrar_events import (
    AccountsWanted,
    Answer,
    Changed,
    DiscoverWanted,
    Event,
    Instructions,
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
from agent.runtime.back_off import BackOff
from agent.runtime.state_machine import EventMachine
from agent.wire.directory import (
    Account,
    Accounts,
    Denied,
    DirectoryReply,
    DirectoryRequest,
    Discover,
    Found,
    ListAccounts,
    LookUp,
    OpenAccount,
    Register,
    Registered,
    Renew,
)

PRIMARY: Final = 0
READ_PATIENCE_S: Final = 1.0  # with one directory, before the next is asked
READ_PAUSE_S: Final = 0.1  # before all are asked again that refused, or were not there
WRITE_PATIENCE_S: Final = 3.0
FIRST_PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 5.0
QUIET_FAILURES: Final = 2  # connections take a moment while all processes start
ACCOUNTS_EVERY_S: Final = 1.0  # at most so often, however many strangers call
RENEW_AFTER: Final = 1 / 3  # of a lease: two renewals may be lost
LEAST_LEASE_S: Final = 1.0  # as in `register`: one that is shorter had it renewed all the time


class State(Enum):
    """State of the registration."""

    NEW = "new"
    ASKING = "asking"  # a register, renew or open_account is in flight
    KEPT = "kept"
    WAITING = "waiting"  # it failed; retried after a pause


class _Read(Struct):
    """A read in progress. `request(id)` makes its message, for one directory after the other."""

    ask: Any
    request: Callable[[str], Discover | LookUp | ListAccounts]
    asked_at: float
    directory: int = PRIMARY
    until_s: float = 0.0


class _AccountsAsk:
    """A read of the accounts that the registrar itself started."""


ACCOUNTS: Final = _AccountsAsk()


class Registrar(EventMachine[Instructions]):
    """One party's registration and questions. `jitter` gives random numbers in [0, 1).

    `directories` is their number, at least one.
    """

    def __init__(
        self,
        registrant: Registrant,
        directories: int,
        *,
        lease_s: float,
        jitter: Callable[[], float],
    ) -> None:
        super().__init__(State.NEW)
        self.registrant = registrant
        self.accounts: tuple[Account, ...] = ()
        self._directories = directories
        self._lease_s = lease_s
        self._jitter = jitter
        self._sent = 0
        self._known = False  # the leader has the record, as far as known
        self._writing = ""  # id of the write that is on its way
        self._due = float("inf")  # of the registration
        self._pauses = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S, jitter=jitter)
        self._told = ""  # the failure that the operator heard of last
        self._reads: dict[str, _Read] = {}
        self._accounts_due = float("inf")
        self._accounts_asked = float("-inf")

    def __repr__(self) -> str:
        return f"registration of {self.registrant.name}"

    @property
    def wake_at(self) -> float:
        """When the next tick is due. O(open reads)."""
        reads = [read.until_s for read in self._reads.values()]
        return min(self._due, self._accounts_due, *reads)

    @property
    def registered(self) -> bool:
        """Whether the leader has confirmed the registration and not denied it since."""
        return self._known

    def handle(self, event: Event, now: float) -> Instructions:
        """Handle one event at `now`; returns the instructions. InvalidTransition if the state
        allows no such event."""
        match event:
            case DiscoverWanted(ask, capability, areas):
                return self._ask(ask, lambda id_: Discover(id_, capability, tuple(areas)), now)
            case LookUpWanted(ask, iads):
                return self._ask(ask, lambda id_: LookUp(id_, tuple(iads)), now)
            case AccountsWanted():
                self._accounts_due = min(
                    self._accounts_due, max(now, self._accounts_asked + ACCOUNTS_EVERY_S)
                )
                return self._refresh_accounts(now)
            case Replied(reply=reply) if reply.id in self._reads:
                return self._read_replied(reply, now)
            # A directory that cannot decode a frame denies it without an id.
            case Replied(reply=Registered() | Denied() as reply) if (
                self._writing and reply.id == self._writing
            ):
                return self._act(type(reply), reply, now)
            case Replied():
                return []  # it came too late
            case Undelivered(id_) if id_ in self._reads:
                return self._ask_next(self._reads.pop(id_), now)
            case Undelivered(id_) if id_ != self._writing:
                return []
            case Tick():
                return [
                    *self._act(Tick, event, now),
                    *self._give_up_reads(now),
                    *self._refresh_accounts(now),
                ]
            case _:
                return self._act(type(event), event, now)

    # --- the registration ---

    def _start(self, event: Start, now: float) -> Instructions:
        self._accounts_due = now
        return [*self._write(event, now), *self._refresh_accounts(now)]

    def _write(self, _: Any, now: float) -> Instructions:
        self.state = State.ASKING
        self._due = now + WRITE_PATIENCE_S
        self._writing = self._next_id()
        registrant = self.registrant
        request: DirectoryRequest
        if registrant.kind == "csp":
            # An account has no lease. Sending it again restores it if the directory was lost.
            request = OpenAccount(self._writing, registrant.name, registrant.keys)
        elif self._known:
            request = Renew(self._writing, registrant.name)
        else:
            request = Register(
                self._writing,
                registrant.name,
                registrant.address,
                registrant.offerings,
                self._lease_s,
                registrant.keys,
            )
        return [Send(PRIMARY, request)]

    def _keep(self, event: Registered, now: float) -> Instructions:
        told, self._told = self._told, ""
        self.state = State.KEPT
        self._known = True
        self._writing = ""
        self._pauses.reset()
        # Not all parties at once, after a primary has come back.
        # A longer one than was asked for would hide for hours that another service knows nothing.
        lease_s = min(max(event.lease_s or self._lease_s, LEAST_LEASE_S), self._lease_s)
        after_s = lease_s * RENEW_AFTER * (0.75 + 0.25 * self._jitter())
        self._due = now + after_s
        return [TellOperator("registered with the registration service")] if told else []

    def _denied(self, event: Denied, now: float) -> Instructions:
        if event.reason == "unknown" and self._known:
            self._known = False
            return self._write(event, now)
        self._known = False
        self._pauses.failures = max(self._pauses.failures, QUIET_FAILURES)
        return self._back_off(f"the registration service refused: {event.message}", now)

    def _give_up(self, _: Tick, now: float) -> Instructions:
        if now < self._due:
            return []
        return self._back_off("no answer from the registration service", now)

    def _undelivered(self, _: Undelivered, now: float) -> Instructions:
        return self._back_off("the registration service cannot be reached", now)

    def _back_off(self, line: str, now: float) -> Instructions:
        self.state = State.WAITING
        self._writing = ""
        self._due = now + self._pauses.next()
        if self._pauses.failures <= QUIET_FAILURES or line == self._told:
            return []
        self._told = line
        return [TellOperator(f"{line}; trying again")]

    def _write_when_due(self, event: Tick, now: float) -> Instructions:
        return self._write(event, now) if now >= self._due else []

    def _change(self, event: Changed, _: float) -> Instructions:
        self.registrant = event.registrant
        return []

    def _change_and_write(self, event: Changed, now: float) -> Instructions:
        self.registrant = event.registrant
        self._known = False
        return self._write(event, now)

    # Impossible events have no entry: nothing arrives before the first message.
    TRANSITIONS: ClassVar[
        dict[tuple[State, type], Callable[[Registrar, Any, float], Instructions]]
    ] = {
        (State.NEW, Start): _start,
        (State.NEW, Changed): _change,
        (State.ASKING, Registered): _keep,
        (State.ASKING, Denied): _denied,
        (State.ASKING, Undelivered): _undelivered,
        (State.ASKING, Tick): _give_up,
        (State.ASKING, Changed): _change_and_write,
        (State.KEPT, Tick): _write_when_due,
        (State.KEPT, Changed): _change_and_write,
        (State.WAITING, Tick): _write_when_due,
        (State.WAITING, Changed): _change_and_write,
    }

    # --- reads ---

    def _ask(
        self, ask: Any, request: Callable[[str], Discover | LookUp | ListAccounts], now: float
    ) -> Instructions:
        return self._send(_Read(ask, request, now), now)

    def _send(self, read: _Read, now: float) -> Instructions:
        id_ = self._next_id()
        read.until_s = now + READ_PATIENCE_S
        self._reads[id_] = read
        return [Send(read.directory, read.request(id_))]

    def _ask_next(self, read: _Read, now: float) -> Instructions:
        read.directory += 1
        if read.directory < self._directories:
            return self._send(read, now)
        if now - read.asked_at < READ_PATIENCE_S:
            read.directory = PRIMARY - 1
            read.until_s = now + READ_PAUSE_S
            self._reads[self._next_id()] = read
            return []
        if read.ask is ACCOUNTS:
            self._accounts_due = min(self._accounts_due, now + ACCOUNTS_EVERY_S)
            return []
        return [Answer(read.ask, None)]

    def _give_up_reads(self, now: float) -> Instructions:
        late = [id_ for id_, read in self._reads.items() if read.until_s <= now]
        return [one for id_ in late for one in self._ask_next(self._reads.pop(id_), now)]

    def _read_replied(self, reply: DirectoryReply, now: float) -> Instructions:
        read = self._reads.pop(reply.id)
        match reply:
            case Found() if read.ask is not ACCOUNTS:
                return [Answer(read.ask, reply)]
            case Accounts() if read.ask is ACCOUNTS:
                return self._take_accounts(reply)
            case _:
                return self._ask_next(read, now)

    def _refresh_accounts(self, now: float) -> Instructions:
        if now < self._accounts_due:
            return []
        self._accounts_asked = now
        self._accounts_due = now + self._lease_s * RENEW_AFTER
        return self._ask(ACCOUNTS, ListAccounts, now)

    def _take_accounts(self, reply: Accounts) -> Instructions:
        if reply.accounts == self.accounts:
            return []
        self.accounts = reply.accounts
        return [TellAccounts(reply.accounts)]

    def _next_id(self) -> str:
        self._sent += 1
        return f"d{self._sent}"

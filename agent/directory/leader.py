"""Write rules of the registration service: who may change which record, names and keys, leases.

Pure: the input is a request with its sender and the time, the output a reply and perhaps an edit.
The shell writes the edit to disk, applies it, and only then replies; if it cannot be written,
nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agent.directory.directory import Directory, Edit, Outcome, offered_areas
from agent.directory.index import places_of
from agent.directory.leases import Leases
from agent.directory.requests import answer, denied, refusal
from agent.wire.config import require_reachable
from agent.wire.directory import (
    MAX_AREAS,
    MAX_CANDIDATES,
    Account,
    Changes,
    CloseAccount,
    Denied,
    DirectoryEntry,
    DirectoryRequest,
    Follow,
    OpenAccount,
    Register,
    Registered,
    Renew,
    Withdraw,
)
from agent.wire.principals import Sender

# All of them fit into one reply.
MAX_PARTIES: Final = MAX_CANDIDATES
# An IAD with more areas offers a parent of them.
MAX_AREAS_IN_ALL: Final = 400_000
# Places in the index of areas, each of some 300 bytes: an area has its own, and one for each area
# above it that no other of its IAD has. Areas of depth 16 that share none have 16 each.
MAX_PLACES: Final = 4 * MAX_AREAS
MAX_PLACES_IN_ALL: Final = 800_000
# Delay before the end of a lease is tried again after the disk refused it.
AGAIN_S: Final = 1.0
# Leases that end at once, after an outage for instance: the others end in the loop's next turns.
MAX_EXPIRED: Final = 64


class Leader:
    """The one directory that accepts changes.

    Leases are in memory only. After a restart each record gets a full new lease: the length of the
    outage is unknown, as the wall clock is not trusted, and an IAD that stays listed for too long
    costs a buyer one unanswered proposal. None can be renewed before its IAD has registered again:
    the file may be an older one that was put back. `holder` returns the owner of a public key by
    the operator's list, or None. Without `keyed` anybody may name any key: no account outlasts a
    lease.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        longest_lease_s: float,
        now: float,
        holder: Callable[[str], Sender | None] = lambda _key: None,
        keyed: bool = True,
    ) -> None:
        self.directory = directory
        self._keyed = keyed
        self._holder = holder
        self._longest_lease_s = longest_lease_s
        self._leases = Leases()
        self._unconfirmed = {entry.account.name for entry in directory}
        self._give_leases(directory, now)

    @property
    def next_due(self) -> float | None:
        """When the next lease ends."""
        return self._leases.next_due

    def handle(self, request: DirectoryRequest, sender: Sender, now: float) -> Outcome:
        """The reply, and the edit to write and apply before it. O(r · d) for a record of r areas of
        depth d; reads as in `Directory`."""
        if (refused := refusal(request, sender)) is not None:
            return Outcome(refused)
        match request:
            case Register():
                return self._register(request, now)
            case Renew():
                return self._renew(request, now)
            case OpenAccount():
                return self._open(request, now)
            case Withdraw():
                return self._leave(request, request.iad, "iad")
            case CloseAccount():
                return self._leave(request, request.name, "csp")
            case Follow():
                edit = self.directory.since(request.epoch, request.version)
                return Outcome(
                    Changes(request.id, edit.epoch, edit.version, edit.whole, edit.entries)
                )
            case _:
                return Outcome(answer(self.directory, request, age_s=0.0))

    def expire(self, now: float) -> Edit | None:
        """The edit for leases that have ended by `now`; if they have very many areas, for the first
        of them, and `next_due` has passed. Until it is applied, they end again a second later."""
        entries: list[DirectoryEntry] = []
        areas = 0
        for name in self._leases.ended(now):
            self._leases.give(name, now + AGAIN_S)
            entry = self.directory.get(name)
            assert entry is not None, name
            entries.append(DirectoryEntry(0, entry.account, gone=self._forgets(entry.account)))
            areas += offered_areas(entry.offerings)
            if areas >= MAX_AREAS or len(entries) >= MAX_EXPIRED:
                break
        return self._edit(entries) if entries else None

    def applied(self, edit: Edit, now: float) -> None:
        """The edit is on disk: it takes effect."""
        self.directory.apply(edit)
        self._unconfirmed.difference_update(entry.account.name for entry in edit.entries)
        self._give_leases(edit.entries, now)

    def _give_leases(self, entries: Iterable[DirectoryEntry], now: float) -> None:
        for entry in entries:
            if entry.address:
                self._leases.give(entry.account.name, now + self._lease_s(entry.lease_s))
            elif not entry.gone and self._forgets(entry.account):
                self._leases.give(entry.account.name, now + self._longest_lease_s)
            else:
                self._leases.end(entry.account.name)

    def _forgets(self, account: Account) -> bool:
        """Whether the account ends with a lease. Keys may be newer than those known elsewhere: an
        account with some stays. One without has nothing to keep, and too many would leave no room
        for others."""
        return not (self._keyed and account.keys)

    # --- requests ------------------------------------------------------------------------------

    def _register(self, request: Register, now: float) -> Outcome:
        account = Account(request.iad, "iad", request.keys)
        if (taken := self._taken(request, account)) is not None:
            return Outcome(taken)
        lease_s = self._lease_s(request.lease_s)
        before = self.directory.get(request.iad)
        entry = DirectoryEntry(
            before.version if before else 0, account, request.address, request.offerings, lease_s
        )
        reply = Registered(request.id, lease_s)
        if entry == before:
            self._unconfirmed.discard(request.iad)
            self._leases.give(request.iad, now + lease_s)
            return Outcome(reply)
        try:
            require_reachable(request.address, "address", keyed=True)
        except ValueError as error:
            return Outcome(denied(request, "malformed", str(error)))
        if (refused := self._no_room(request, before)) is not None:
            return Outcome(refused)
        return Outcome(reply, self._edit([entry]))

    def _no_room(self, request: Register, before: DirectoryEntry | None) -> Denied | None:
        """Why these offerings are too many, if so: for one IAD, or for all together."""
        old, new = before.offerings if before else (), request.offerings
        if old == new:
            return None
        areas, places = offered_areas(new), places_of(new, MAX_PLACES)
        for count, most, what in (
            (areas, MAX_AREAS, f"{areas} areas are offered; at most {MAX_AREAS} can be"),
            (places, MAX_PLACES, f"the areas offered and those above them are over {MAX_PLACES}"),
        ):
            if count > most:
                return denied(request, "malformed", f"{what}: offer a parent of some")
        more = areas - offered_areas(old)
        if more > 0 and self.directory.areas + more > MAX_AREAS_IN_ALL:
            text = f"the directory is full: it holds {MAX_AREAS_IN_ALL} areas; offer parents"
            return denied(request, "overloaded", text)
        if self.directory.places + places <= MAX_PLACES_IN_ALL:
            return None
        more = places - places_of(old, MAX_PLACES)
        if more > 0 and self.directory.places + more > MAX_PLACES_IN_ALL:
            text = (
                f"the directory is full: it holds {MAX_PLACES_IN_ALL} areas with those above "
                "them; offer parents"
            )
            return denied(request, "overloaded", text)
        return None

    def _renew(self, request: Renew, now: float) -> Outcome:
        entry = self.directory.get(request.iad)
        if entry is None or not entry.address or request.iad in self._unconfirmed:
            text = f"no IAD {request.iad} is registered; register again"
            return Outcome(denied(request, "unknown", text))
        lease_s = self._lease_s(entry.lease_s)
        self._leases.give(request.iad, now + lease_s)
        return Outcome(Registered(request.id, lease_s))

    def _open(self, request: OpenAccount, now: float) -> Outcome:
        account = Account(request.name, "csp", request.keys)
        if (taken := self._taken(request, account)) is not None:
            return Outcome(taken)
        lease_s = self._longest_lease_s if self._forgets(account) else 0.0
        reply = Registered(request.id, lease_s)
        before = self.directory.get(request.name)
        if before is not None and before.account == account:
            if lease_s:
                self._leases.give(request.name, now + lease_s)
            return Outcome(reply)
        return Outcome(reply, self._edit([DirectoryEntry(0, account)]))

    def _leave(self, request: Withdraw | CloseAccount, name: str, kind: str) -> Outcome:
        entry = self.directory.get(name)
        if entry is None or entry.account.kind != kind:
            text = f"there is no {kind.upper()} {name}"
            return Outcome(denied(request, "unknown", text))
        left = DirectoryEntry(0, entry.account, gone=True)
        return Outcome(Registered(request.id, 0.0), self._edit([left]))

    # --- rules ---------------------------------------------------------------------------------

    def _taken(self, request: Register | OpenAccount, account: Account) -> Denied | None:
        """Why that account is not possible, if so: a name and a key each belong to one party."""
        before = self.directory.get(account.name)
        if before is None and len(self.directory) >= MAX_PARTIES:
            text = f"the directory is full: it holds {MAX_PARTIES} parties"
            return denied(request, "overloaded", text)
        if before is not None and before.account.kind != account.kind:
            text = f"{account.name} is the name of a {before.account.kind.upper()} already"
            return denied(request, "not_authorised", text)
        for key in account.keys:
            holder = self._holder(key)
            anothers = holder is not None and (holder.role, holder.name) != (
                account.kind,
                account.name,
            )
            if anothers or self.directory.owner(key) not in (None, account.name):
                return denied(request, "not_authorised", f"{key} is another party's key")
        return None

    def _lease_s(self, asked_s: float) -> float:
        return min(asked_s, self._longest_lease_s)

    def _edit(self, entries: Sequence[DirectoryEntry]) -> Edit:
        version = self.directory.version
        numbered = [replace(entry, version=version + n) for n, entry in enumerate(entries, start=1)]
        return Edit(self.directory.epoch, version + len(entries), tuple(numbered))

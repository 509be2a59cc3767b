"""A buyer: sets services up in four steps, and changes the pools that it owns.

Pure: `Buyer.handle(event, now)` returns the instructions. The steps are: discover candidates,
negotiate with them (`negotiation`), roll the pool out to all members (`rollout`), report to the
operator (`changes`). A service has one change at a time. Every wait has a time-out, except
deliveries, which continue in the background.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from agent.market.buyer_events import (
    BuyerEvent,
    Discovered,
    DiskRefused,
    Find,
    LookUpIads,
    MemberReplied,
    Offered,
    Requested,
)
from agent.market.changes import ChangeInProgress, ChangesInProgress, member_of
from agent.market.explanations import counted, not_offered
from agent.market.negotiation import MAX_ROUND_S, ROUND_SHARE, Negotiation, Wanted, wanted_by
from agent.market.pool_size import left_out
from agent.market.rollout import Contact, MembershipRollout, Owned, numbered
from agent.market.terms import Instruction, ReplyAddress, Tick, common_areas
from agent.wire.areas import AreaSet
from agent.wire.directory import Candidate
from agent.wire.listing import alike, did_you_mean, few, hint
from agent.wire.market import MAX_MEMBERS, Member, Offer, Service
from agent.wire.operator import (
    AddIad,
    CreateService,
    DropService,
    RemoveIad,
    ServiceChange,
    Step,
)

# How long the operator waits for a change of a running pool to end.
CHANGE_S = 10.0
# For this long after this master's start other masters may be starting, too: parties that are not
# registered yet are looked up again and again.
STARTING_S = 15.0
LOOK_AGAIN_S = 0.25
NO_DIRECTORY = (
    "no answer from the registration service: see that it runs at the addresses in "
    "market.directories, then try again"
)


class Buyer:
    """One master's side of the market as a buyer.

    `own` is this master as a member that only schedules. `taken(service_id)`: whether this master
    serves that id already. `capabilities()`: those that it knows, of its own nodes and of the
    services that it serves. `run` differs between starts. `wall_offset_s`: see `MembershipRollout`.
    """

    def __init__(
        self,
        own: Member,
        *,
        run: str,
        taken: Callable[[str], bool],
        capabilities: Callable[[], Iterable[str]] = tuple,
        wall_offset_s: float = 0.0,
    ) -> None:
        self._own = own
        self._capabilities = capabilities
        self._new_id = numbered(run)
        self._taken = taken
        self._rollout = MembershipRollout(own.iad, self._new_id, wall_offset_s)
        self._changes = ChangesInProgress(own.iad, self._rollout)
        self._fail, self._settled = self._changes.fail, self._changes.settled
        self._starting_until_s = -math.inf

    def clock_set(self, wall_offset_s: float) -> None:
        """Versions are made from this clock offset from now on."""
        self._rollout.wall_offset_s = wall_offset_s

    # --- queries of the shell ----------------------------------------------------------------

    @property
    def owned(self) -> dict[str, Owned]:
        """The pools that this master owns, without dropped ones."""
        return self._rollout.living

    @property
    def partners(self) -> set[str]:
        """IADs to which this master has something to send."""
        return self._rollout.partners

    @property
    def next_due(self) -> float | None:
        """When `Tick` is due next."""
        dues = [self._rollout.next_due]
        for change in self._changes.open.values():
            dues += [change.until_s, change.look_again_s]
            if change.negotiation is not None:
                dues.append(change.negotiation.next_due)
        return min((due for due in dues if due not in (None, math.inf)), default=None)

    def load(self, kept: Iterable[Owned], now: float) -> list[Instruction]:
        """Restore the state of the previous process: unacknowledged deliveries are sent again, an
        unfinished set-up is undone."""
        self._starting_until_s = now + STARTING_S
        return self._rollout.load(kept, now)

    def handle(self, event: BuyerEvent, now: float) -> list[Instruction]:
        """Handle one event at monotonic time `now` (seconds); returns the instructions, in
        order."""
        match event:
            case Requested():
                return self._requested(event.origin, event.request, now)
            case Discovered():
                return self._discovered(event, now)
            case Offered():
                return self._offered(event.iad, event.offer, now)
            case MemberReplied():
                return self._changes.replied(event.iad, event.joined, now)
            case DiskRefused():
                return self._changes.disk_refused(event, now)
            case Tick():
                return self._tick(now)

    # --- requests ----------------------------------------------------------------------------

    def _requested(
        self, origin: ReplyAddress, request: ServiceChange, now: float
    ) -> list[Instruction]:
        service_id = request.service
        create = isinstance(request, CreateService)
        wait_s = request.timeout_ms / 1e3 if isinstance(request, CreateService) else CHANGE_S
        change = ChangeInProgress(origin, request, now, now + wait_s)
        if service_id in self._changes.open:
            return self._fail(change, f"{service_id} is being changed; try again later", now)
        if create and (self._taken(service_id) or service_id in self._rollout):
            return self._fail(change, f"the name {service_id} is taken; choose another", now)
        if not create and service_id not in self._rollout.living:
            own = self._rollout.living
            owned = f"it owns {few(sorted(own), 4) or 'none'}; ask the master that does"
            remedy = did_you_mean(service_id, own, owned)
            text = f"{self._own.iad} does not own a service {service_id}; {remedy}"
            return self._fail(change, text, now)
        self._changes.open[service_id] = change
        match request:
            case CreateService():
                return self._look(change, request)
            case AddIad():
                return self._add(change, request, now)
            case RemoveIad():
                return self._remove(change, request, now)
            case DropService():
                change.joining = True
                return [*self._rollout.drop(service_id, now), *self._settled(service_id, now)]

    def _look(self, change: ChangeInProgress, wanted: CreateService) -> list[Instruction]:
        """Query the directory for offers that match, and for the IADs that the request names."""
        request = change.request
        change.found_ticket, change.look_up_ticket = self._new_id(), ""
        done: list[Instruction] = [Find(change.found_ticket, wanted.capability, wanted.areas)]
        others = self._looked_up(request)
        if others:
            change.look_up_ticket = self._new_id()
            done.append(LookUpIads(change.look_up_ticket, others))
        else:
            change.schedulers = []
        return done

    def _looked_up(self, request: ServiceChange) -> tuple[str, ...]:
        """The IADs whose records a request needs by name."""
        if isinstance(request, CreateService):
            return tuple(dict.fromkeys(s for s in request.schedulers if s != self._own.iad))
        return (request.iad,) if isinstance(request, AddIad) else ()

    def _add(self, change: ChangeInProgress, request: AddIad, now: float) -> list[Instruction]:
        owned = self._rollout[request.service]
        member = member_of(owned.service, request.iad)
        if member is not None and member.areas:
            return self._fail(change, f"{request.iad} is in the pool already", now)
        if member is None and len(owned.service.members) >= MAX_MEMBERS:
            return self._fail(change, f"a pool has at most {MAX_MEMBERS} IADs", now)
        return self._look(change, owned.request)

    def _look_again(self, change: ChangeInProgress, now: float) -> bool:
        """Whether missing IADs may still register: then the directory is queried again soon."""
        again_s = now + LOOK_AGAIN_S
        if again_s >= min(self._starting_until_s, change.patient_until_s):
            return False
        change.found_ticket = change.look_up_ticket = ""
        change.found = change.schedulers = None
        change.look_again_s = again_s
        return True

    def _remove(
        self, change: ChangeInProgress, request: RemoveIad, now: float
    ) -> list[Instruction]:
        service = self._rollout[request.service].service
        member = member_of(service, request.iad)
        if member is None:
            return self._fail(change, f"{request.iad} is not in the pool", now)
        if member.areas and sum(bool(m.areas) for m in service.members) == 1:
            text = f"{request.iad} is the last that serves {service.id}; drop the service instead"
            return self._fail(change, text, now)
        if member.iad == self._own.iad and not member.areas:
            text = f"{request.iad} owns {service.id} and schedules for it; drop the service instead"
            return self._fail(change, text, now)
        change.joining = True
        return [
            *self._rollout.remove(service.id, [request.iad], now),
            *self._settled(service.id, now),
        ]

    # --- discovery ---------------------------------------------------------------------------

    def _discovered(self, event: Discovered, now: float) -> list[Instruction]:
        for change in self._changes.open.values():
            if event.ticket and event.ticket in (change.found_ticket, change.look_up_ticket):
                break
        else:
            return []
        if change.joining or change.negotiation is not None:
            return []
        if event.found is None and self._look_again(change, now):
            return []
        if event.found is None:
            return self._fail(change, event.message or NO_DIRECTORY, now)
        if event.ticket == change.found_ticket:
            change.found = event.found
        else:
            # Each once, and only those asked for, whatever the directory returns.
            known = {c.iad: c for c in event.found.candidates}
            change.schedulers = [
                Member(name, known[name].address, keys=known[name].keys)
                for name in self._looked_up(change.request)
                if name in known
            ]
        if change.found is None or change.schedulers is None:
            return []
        if isinstance(change.request, AddIad):
            return self._negotiate_addition(change, change.request, now)
        assert isinstance(change.request, CreateService)
        return self._negotiate(change, change.request, now)

    def _negotiate(
        self, change: ChangeInProgress, request: CreateService, now: float
    ) -> list[Instruction]:
        found, schedulers = change.found, change.schedulers
        assert found is not None
        assert schedulers is not None
        registered = {member.iad for member in schedulers} | {self._own.iad}
        strangers = [name for name in request.schedulers if name not in registered]
        if strangers and self._look_again(change, now):
            return []
        if strangers:
            return self._fail(change, f"no IAD {', '.join(strangers)} is registered", now)
        sellers = [
            seller
            for candidate in found.candidates
            if (not request.only or candidate.iad in request.only)
            and candidate.iad not in request.schedulers
            and (seller := self._seller(candidate, request.areas)).areas
        ]
        missing = sorted(set(request.only) - {s.iad for s in sellers})
        if (missing or len(sellers) < request.fewest) and self._look_again(change, now):
            return []
        offering = f"{counted(len(sellers))} {request.capability} there"
        change.steps.append(Step("discover", "", offering))
        too_large = left_out(sellers, [*schedulers, self._own])
        change.steps += [Step("discover", iad, why) for iad, why in too_large.items()]
        sellers = [seller for seller in sellers if seller.iad not in too_large]
        if missing:
            change.steps += [Step("discover", iad, "does not offer it there") for iad in missing]
        covered = AreaSet(area for seller in sellers for area in seller.areas)
        offered = {a for c in found.candidates for a in common_areas(request.areas, c.areas)}
        change.uncovered += found.uncovered
        change.uncovered += [a for a in offered if not covered.covers(a)]
        if len(sellers) < request.fewest:
            text = f"{offering}, of {request.fewest} wanted" if sellers else offering
            if not found.candidates:
                text += hint(self._meant(request.capability))
            for iad, why in [*too_large.items()][:1]:
                text += f"; {iad} {why}"
            if missing:
                others = sorted(
                    candidate.iad
                    for candidate in found.candidates
                    if candidate.iad not in (*request.only, *request.schedulers)
                    and self._seller(candidate, request.areas).areas
                )
                text = not_offered(missing, request.capability, others)
            return self._fail(change, text, now)
        if len(sellers) + len(schedulers) >= MAX_MEMBERS:
            text = f"{offering}; a pool has at most {MAX_MEMBERS}: ask fewer areas, or use only"
            return self._fail(change, text, now)
        wanted = wanted_by(request, request.fewest)
        return self._start(change, wanted, sellers, {}, now)

    def _meant(self, capability: str) -> str:
        """The known capability that is most like one that is not known; else empty."""
        known = set(self._capabilities())
        return "" if capability in known else alike(capability, known)

    def _negotiate_addition(
        self, change: ChangeInProgress, request: AddIad, now: float
    ) -> list[Instruction]:
        assert change.found is not None
        owned = self._rollout[request.service]
        service = owned.service
        candidate = next((c for c in change.found.candidates if c.iad == request.iad), None)
        new = self._seller(candidate, owned.request.areas) if candidate else None
        if new is None or not new.areas:
            return self._add_scheduler(change, request, now)
        if (why := left_out([new], service.members).get(new.iad)) is not None:
            return self._fail(change, f"{new.iad} {why}", now)
        present = [member for member in service.members if member.areas]
        # With one more IAD every task's percentile is stricter: all members are asked, and all must
        # accept.
        wanted = wanted_by(owned.request, len(present) + 1)
        if service.terms is not None:
            wanted = replace(wanted, latency_ms=service.terms.budget_ms)
        rates = {member.iad: member.rate_per_s for member in present}
        change.steps.append(Step("discover", request.iad, f"offers {wanted.capability} there"))
        return self._start(change, wanted, [*present, new], rates, now)

    def _add_scheduler(
        self, change: ChangeInProgress, request: AddIad, now: float
    ) -> list[Instruction]:
        owned, schedulers = self._rollout[request.service], change.schedulers
        if member_of(owned.service, request.iad) is not None:
            text = f"{request.iad} is in the pool, and offers no {owned.request.capability} there"
            return self._fail(change, text, now)
        if not schedulers and self._look_again(change, now):
            return []
        if not schedulers:
            return self._fail(change, f"no IAD {request.iad} is registered", now)
        change.steps.append(Step("discover", request.iad, "offers nothing there: it schedules"))
        change.joining = True
        terms = owned.service.terms
        return [
            *self._rollout.add(request.service, schedulers[0], terms, now),
            *self._settled(request.service, now),
        ]

    def _seller(self, candidate: Candidate, asked: Iterable[str]) -> Member:
        areas = common_areas(asked, candidate.areas)
        if candidate.iad == self._own.iad:
            return replace(self._own, areas=areas)
        return Member(candidate.iad, candidate.address, areas, candidate.keys)

    # --- negotiation -------------------------------------------------------------------------

    def _start(
        self,
        change: ChangeInProgress,
        wanted: Wanted,
        sellers: list[Member],
        rates: dict[str, float],
        now: float,
    ) -> list[Instruction]:
        change.negotiation = Negotiation(
            wanted,
            sellers,
            rates,
            round_s=min(MAX_ROUND_S, ROUND_SHARE * (change.until_s - change.started_s)),
            new_id=self._new_id,
            patience_s=change.patient_until_s - now,
        )
        contacts = [Contact(s.iad, s.address, s.keys) for s in sellers]
        return [*contacts, *change.negotiation.start(now)]

    def _offered(self, iad: str, offer: Offer, now: float) -> list[Instruction]:
        for change in list(self._changes.open.values()):
            if change.negotiation is not None and not change.joining:
                sends = change.negotiation.offered(iad, offer, now)
                if sends is not None:
                    return [*sends, *self._negotiated(change, now)]
        return []

    def _negotiated(self, change: ChangeInProgress, now: float) -> list[Instruction]:
        """Form the pool if all agree; give up if too few are left."""
        negotiation = change.negotiation
        assert negotiation is not None
        if not negotiation.enough:
            text = f"too few IADs accept these terms; {negotiation.explanation}"
            if isinstance(change.request, AddIad):
                text = "not all IADs accept the terms of the larger pool; it stays as it is"
            return [*negotiation.release(), *self._fail(change, text, now)]
        if not negotiation.agreed:
            return []
        change.steps += negotiation.steps
        change.joining = True
        request = change.request
        if isinstance(request, AddIad):
            return self._agreed_addition(negotiation, request, now)
        assert isinstance(request, CreateService)
        assert change.schedulers is not None
        change.uncovered += negotiation.uncovered
        members = [*negotiation.members, *change.schedulers]
        if all(member.iad != self._own.iad for member in members):
            members.append(self._own)
        service = Service(
            id=request.service,
            owner=self._own.iad,
            version=self._rollout.version(now),
            members=tuple(members),
            capability=request.capability,
            terms=negotiation.terms,
            redundant=request.redundant,
        )
        return [*self._rollout.form(request, service, now), *self._settled(service.id, now)]

    def _agreed_addition(
        self, negotiation: Negotiation, request: AddIad, now: float
    ) -> list[Instruction]:
        [new] = [member for member in negotiation.members if member.iad == request.iad]
        return [
            *self._rollout.add(request.service, new, negotiation.terms, now),
            *self._settled(request.service, now),
        ]

    def _tick(self, now: float) -> list[Instruction]:
        done = self._rollout.tick(now)
        for change in list(self._changes.open.values()):
            if now >= change.until_s:
                done += self._changes.out_of_time(change, now)
            elif change.look_again_s <= now:
                change.look_again_s = math.inf
                request = change.request
                if isinstance(request, AddIad):
                    request = self._rollout[request.service].request
                assert isinstance(request, CreateService)
                done += self._look(change, request)
            elif change.negotiation is not None and not change.joining:
                done += change.negotiation.tick(now)
                done += self._negotiated(change, now)
        return done

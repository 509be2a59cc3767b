"""A dead master: small worlds explored exhaustively, also with code that is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent.placement.membership import member_lease
from agent.placement.membership.member_lease import Granted, Keep, MemberLease, Over, Tell
from agent.placement.standby import primary, standby, take_over
from agent.placement.standby.primary import Primary
from agent.placement.standby.standby import Standby
from agent.placement.standby.take_over import Kept, Saved, Send, Update
from tests.examples import CAMPAIGN, campaign
from tests.placement.exploration import Exploration
from tests.placement.handover_world import Broken
from tests.placement.take_over_node import Save
from tests.placement.take_over_world import World

SMALL: dict[str, dict[str, Any]] = {
    "the owner dies for good": {"crashes": 1, "crashing": "m", "returns": False},
    "the owner dies and returns": {"crashes": 1, "crashing": "m", "good": False, "saves": 0},
    "the owner is cut off": {"partitions": 1, "saves": 0},
    "the owner is late": {"lapses": 1, "saves": 0},
}
LARGE: dict[str, dict[str, Any]] = {
    "the owner dies for good, two messages": {
        "crashes": 1, "crashing": "m", "returns": False, "messages": 2,
    },
    "the owner dies and returns, a checkpoint": {"crashes": 1, "crashing": "m", "good": False},
    "the owner is late, a checkpoint": {"lapses": 1},
    "the owner wants no standby any more": {"lapses": 1, "dismisses": 1},
    "the standby dies, the owner is late": {"crashes": 1, "crashing": "s", "lapses": 1},
    "the third dies, the owner is late": {"crashes": 1, "crashing": "x", "lapses": 1},
    "the owner is cut off from everything": {"partitions": 1, "far": True},
    "the owner is cut off, two messages": {"partitions": 1, "messages": 2},
    "the standby is cut off, the owner dies": {
        "partitions": 1, "isolated": "s", "crashes": 1, "crashing": "m", "returns": False,
    },
    "the third is cut off, the owner dies": {
        "partitions": 1, "isolated": "x", "crashes": 1, "crashing": "m", "returns": False,
    },
    "the owner is cut off, the standby dies for good": {
        "partitions": 1, "crashes": 1, "crashing": "s", "returns": False,
    },
    "the owner is cut off, the standby dies and returns": {
        "partitions": 1, "crashes": 1, "crashing": "s", "good": False, "saves": 0,
    },
    "the owner is cut off, dies and returns": {
        "partitions": 1, "crashes": 1, "crashing": "m", "good": False, "saves": 0,
    },
    "the owner's disk is slow, and it dies": {
        "slow": "m", "crashes": 1, "crashing": "m", "returns": False, "messages": 2,
    },
    "the standby's disk is slow, the owner is late": {"slow": "s", "lapses": 1},
    "the third's disk is slow, and it dies": {
        "slow": "x", "crashes": 1, "crashing": "x", "good": False, "lapses": 1, "saves": 0,
    },
}  # fmt: skip


# Of the small worlds those that take ten seconds.
LONGER = {"the owner dies and returns"}


def world(**options: Any) -> World:
    return World(**{"messages": 1, "crashes": 0, "partitions": 0, **options})


@pytest.mark.parametrize(
    "options",
    [
        *(
            pytest.param(each, id=name, marks=[pytest.mark.long] if name in LONGER else [])
            for name, each in SMALL.items()
        ),
        *(
            pytest.param(each, id=name, marks=campaign(n, 8))
            for n, (name, each) in enumerate(LARGE.items())
        ),
    ],
)
def test_every_interleaving_keeps_the_invariants_and_somebody_owns_the_unit(
    options: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    """Never two that put out, nothing lost, doubled or reordered at the subscriber; from every
    moment one master comes to have the unit, with everything delivered, when faults end."""
    found = Exploration(world(**options))
    found.run()
    record_property("states", found.states)
    record_property("events", found.steps)
    assert found.finished
    assert {("Primary", "guarded"), ("Standby", "owning")} <= found.machines


# --- broken on purpose ---------------------------------------------------------------------------


def judges_at_once(patch: pytest.MonkeyPatch) -> None:
    """A member's word does not wait for the end of its grant."""
    patch.setattr(MemberLease, "silent", lambda *_: True)


def forgets_its_grants(patch: pytest.MonkeyPatch) -> None:
    """A member that was restarted gives its word at once."""
    silent = MemberLease.silent

    def hasty(self: MemberLease, master: str, now: float) -> bool:
        self.started_s = -1.0
        return silent(self, master, now)

    patch.setattr(MemberLease, "silent", hasty)


def tells_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """A member's word is told before it is on disk."""
    judged = MemberLease._judged

    def hasty(self: MemberLease, judge: Any, sender: str, now: float) -> list[Any]:
        made = judged(self, judge, sender, now)
        if any(isinstance(each, Keep) for each in made) and sender != self.me:
            made.append(Tell(sender, Over(judge.master, judge.term)))
        return made

    patch.setattr(MemberLease, "_judged", hasty)


def counts_from_the_answer(patch: pytest.MonkeyPatch) -> None:
    """The holder counts its lease from when the answer came."""
    handle = MemberLease.handle

    def late(self: MemberLease, event: Any, sender: str, now: float) -> list[Any]:
        if isinstance(event, Granted):
            event = Granted(event.term, event.life, now)
        return handle(self, event, sender, now)

    patch.setattr(MemberLease, "handle", late)


def a_minority_is_enough(patch: pytest.MonkeyPatch) -> None:
    """One word is taken for a majority's."""
    patch.setattr(MemberLease, "dead", lambda self, master, term: (
        self.terms.over.get(master, 0) >= term
    ))  # fmt: skip


def any_term_will_do(patch: pytest.MonkeyPatch) -> None:
    """The owner puts out under the lease of another term."""
    patch.setattr(
        Primary,
        "puts_out",
        lambda self, held: self.state == "alone" or (self.state == "guarded" and bool(held)),
    )


def does_not_ask(patch: pytest.MonkeyPatch) -> None:
    """In a later term the owner goes on without asking its standby."""
    leased = Primary._leased

    def alone(self: Primary, held: int) -> list[Any]:
        self.term = held
        return leased(self, held)

    patch.setattr(Primary, "_leased", alone)


def answers_as_if_it_stood_by(patch: pytest.MonkeyPatch) -> None:
    """The standby takes checkpoints after it has taken over."""
    handle = Standby.handle

    def deaf(self: Standby, event: Any) -> list[Any]:
        if isinstance(event, Update) and self.owns:
            return [Send(Kept(event.unit, event.term, event.number))]
        return handle(self, event)

    patch.setattr(Standby, "handle", deaf)


def answers_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """The standby says that it has a checkpoint, and the term, before that is on disk."""
    updated = Standby._updated

    def hasty(self: Standby, update: Update) -> list[Any]:
        kept = Send(Kept(update.unit, update.term, update.number))
        return [*updated(self, update), kept]

    patch.setattr(Standby, "_updated", hasty)


def sends_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """The owner gives its standby a checkpoint that it may lose itself."""
    write_soon = World._write_soon

    def hasty(self: World, name: str, pending: Any) -> None:
        write_soon(self, name, pending)
        machine = self.nodes[name].primary
        if isinstance(pending, Save) and machine is not None:
            self._do(name, machine.handle(Saved(pending.checkpoint)))

    patch.setattr(World, "_write_soon", hasty)


def counts_epochs_on(patch: pytest.MonkeyPatch) -> None:
    """The standby begins an epoch that the owner begins at its next start."""
    patch.setattr(standby, "next_reign", lambda epoch: epoch + 1)


def is_alone_at_once(patch: pytest.MonkeyPatch) -> None:
    """The owner needs no lease once it has dismissed its standby, heard or not."""
    patch.setattr(
        Primary,
        "puts_out",
        lambda self, held: (
            self.state in {"alone", "dismissing"}
            or (self.state in primary.PUTS_OUT and held == self.term)
        ),
    )


def never_asks_again(patch: pytest.MonkeyPatch) -> None:
    """The owner asks its standby only once in a later term."""
    leased = Primary._leased

    def once(self: Primary, held: int) -> list[Any]:
        if self.state == "waiting" and self.asked == held > self.term:
            return []
        return leased(self, held)

    patch.setattr(Primary, "_leased", once)


BROKEN: list[tuple[Callable[[pytest.MonkeyPatch], None], dict[str, Any]]] = [
    (judges_at_once, {"lapses": 1}),
    (forgets_its_grants, {"crashes": 1, "crashing": "x", "good": False, "lapses": 1}),
    (
        tells_before_it_is_written,
        {"slow": "x", "crashes": 1, "crashing": "x", "good": False, "lapses": 1, "saves": 0},
    ),
    (counts_from_the_answer, {"partitions": 1, "isolated": "x", "lapses": 1, "saves": 0}),
    (a_minority_is_enough, {"partitions": 1, "isolated": "s", "lapses": 1}),
    (any_term_will_do, {"partitions": 1}),
    (does_not_ask, {"partitions": 1}),
    (answers_as_if_it_stood_by, {"partitions": 1}),
    (
        answers_before_it_is_written,
        {"slow": "s", "crashes": 1, "crashing": "s", "good": False, "lapses": 1, "saves": 0},
    ),
    (
        sends_before_it_is_written,
        {
            "slow": "m",
            "crashes": 1,
            "crashing": "m",
            "good": False,
            "lapses": 1,
            "messages": 2,
            "direct": ("mx", "xm", "sx", "xs", "ms", "sm"),
        },
    ),
    (counts_epochs_on, {"crashes": 1, "crashing": "m", "good": False, "lapses": 1, "saves": 0}),
    (is_alone_at_once, {"lapses": 1, "dismisses": 1}),
    (never_asks_again, {"partitions": 1, "lapses": 1, "saves": 0}),
]


# These are noticed among many thousand states.
LATE = {
    "answers_before_it_is_written",
    "counts_epochs_on",
    "never_asks_again",
    "sends_before_it_is_written",
}


@pytest.mark.parametrize(
    ("breaks", "options"),
    [
        pytest.param(*each, id=name, marks=CAMPAIGN if name in LATE else [])
        for each in BROKEN
        for name in (each[0].__name__,)
    ],
)
def test_the_search_notices_code_that_is_broken(
    breaks: Callable[[pytest.MonkeyPatch], None],
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaks(monkeypatch)
    with pytest.raises(Broken):
        Exploration(world(**options)).run()


def test_every_state_of_both_tables_can_be_entered_and_left() -> None:
    for machine, ends in ((Primary, {"alone", "void"}), (Standby, {"owning"})):
        sources = {one for one, _ in machine.TRANSITIONS}
        targets = {other for _, other in machine.TRANSITIONS}
        assert sources - targets == {"new"}
        assert targets - sources == ends


def test_clocks_may_run_apart_by_what_is_stated() -> None:
    """By its own clock, fast or slow, a member waits longer than the holder counts."""
    apart, shorter = member_lease.APART, member_lease.SHORTER
    assert (1 - shorter) / (1 - apart) < 1 / (1 + apart)


def test_epochs_of_a_reign_are_after_all_of_the_one_before() -> None:
    assert take_over.next_reign(1) == take_over.REIGN
    assert take_over.next_reign(take_over.REIGN - 1) == take_over.REIGN
    assert take_over.next_reign(take_over.REIGN) == 2 * take_over.REIGN

"""The exploration of handovers leaves out what makes no difference: shown by one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent.placement.handover.events import Event, Instruction
from agent.placement.handover.source import Source
from agent.placement.handover.target import Target
from tests.placement.exploration import Exploration
from tests.placement.handover_moment import canonical, exact
from tests.placement.handover_world import Broken, World

WORLDS: dict[str, dict[str, Any]] = {
    "no fault": {"slow": "s"},
    "two messages": {"messages": 2, "slow": ""},
    "a partition, the target's disk slow": {"partitions": 1, "isolated": "t", "slow": "t"},
    "a pause that takes long": {"lingers": "s", "slow": "s"},
    "a crash": {"crashes": 1, "saves": 0, "slow": "s"},
    "a crash, a checkpoint": {"crashes": 1, "slow": "s"},
    "a crash and a partition": {"crashes": 1, "partitions": 1, "slow": "s"},
    "two messages and a crash": {"messages": 2, "crashes": 1, "slow": "t"},
}
LONG = {
    "two messages",
    "a partition, the target's disk slow",
    "a crash, a checkpoint",
    "a crash and a partition",
    "two messages and a crash",
}


class Whole(World):
    """A world whose moments are told apart by all that they have."""

    def key(self) -> Any:
        return exact(self)


def start(kind: type[World], **options: Any) -> World:
    world = kind(**{"messages": 1, "crashes": 0, "partitions": 0, **options})
    return world.happen(("move", "s"))


class Futures(Exploration):
    """Notes what follows from each moment."""

    def __init__(self, start: World) -> None:
        super().__init__(start)
        self.of: dict[int, tuple[Any, str]] = {}  # by canonical key, and the way to the first

    def _visit(self, at: int, world: Any) -> None:
        super()._visit(at, world)
        steps = {event: hash(canonical(world.happen(event))) for event in world.events()}
        future = (world.finished(), set(world.machines()), steps)
        first, way = self.of.setdefault(hash(canonical(world)), (future, self._way(at)))
        assert future == first, f"{way}\nis taken for\n{self._way(at)}"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(each, id=name, marks=[pytest.mark.long] if name in LONG else [])
        for name, each in WORLDS.items()
    ],
)
def test_moments_that_are_taken_for_one_have_the_same_future(options: dict[str, Any]) -> None:
    """Each event leads them to moments that are taken for one, too: a bisimulation. So whatever
    can happen is seen from one of them."""
    whole = Futures(start(Whole, **options))
    whole.run()
    reduced = Exploration(start(World, **options))
    reduced.run()
    assert reduced.states == len(whole.of) < whole.states
    assert reduced.machines == whole.machines


# --- broken on purpose ---------------------------------------------------------------------------


def does_not_wait_for_the_lease(patch: pytest.MonkeyPatch) -> None:
    """The source takes the unit back while the target may work."""
    patch.setattr("agent.placement.handover.source.LEASE_MARGIN", 0.0)


def works_on_after_the_lease(patch: pytest.MonkeyPatch) -> None:
    """The target does not look at the end of its lease."""
    patch.setattr(Target, "acting", lambda self, _: self.state in {"handed", "settled"})


def takes_it_back_in_the_offered_epoch(patch: pytest.MonkeyPatch) -> None:
    """Outputs of the source and of the target have the same epoch."""
    handle = Source.handle

    def late(self: Source, event: Event, now: float) -> list[Instruction]:
        before = self.state
        done = handle(self, event, now)
        if self.state == "reclaiming" != before:
            self.epoch -= 1
        return done

    patch.setattr(Source, "handle", late)


def never_asks_again(patch: pytest.MonkeyPatch) -> None:
    """A target whose `Took` or its answer is lost waits for ever."""
    patch.setattr(Target, "next_due", property(lambda self: self.deadline))


@pytest.mark.parametrize(
    ("breaks", "options"),
    [
        pytest.param(*each, id=each[0].__name__)
        for each in (
            (does_not_wait_for_the_lease, {"slow": ""}),
            (works_on_after_the_lease, {"partitions": 1, "slow": ""}),
            (takes_it_back_in_the_offered_epoch, {"partitions": 1, "slow": ""}),
            (never_asks_again, {"partitions": 1, "slow": ""}),
        )
    ],
)
@pytest.mark.parametrize("kind", [World, Whole])
def test_both_searches_notice_a_handover_that_is_broken(
    breaks: Callable[[pytest.MonkeyPatch], None],
    options: dict[str, Any],
    kind: type[World],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaks(monkeypatch)
    with pytest.raises(Broken):
        Exploration(start(kind, **options)).run()

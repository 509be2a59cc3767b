"""Derived values from a clone to its device's node: sockets are the test's; disks are real."""

from __future__ import annotations

import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.derived.last_values import LastValues
from agent.master.clones.derived_plane import LAST, WAITING, DerivedPlane
from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.events import SendToNode
from agent.wire.codec import MESSAGEPACK, Decoder, encode
from agent.wire.derived import Derived, DerivedTaken
from agent.wire.node_messages import MasterMessage
from tests.edge.broken_history import crash
from tests.edge.test_derived import Node, close_all
from tests.scheduling.oracle import hello

DEVICE = "iad1/n1"
WALL = 1_700_000_000.0


STATES: list[State] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()
    while STATES:
        STATES.pop().close()


class Site:
    """A master's derived plane, and the node on its link; each may be killed and come back."""

    def __init__(self, folder: Path, takes_derived: bool = True) -> None:
        self.folder, self.takes_derived = folder, takes_derived
        self.now, self.starts, self.boots = 1_000.0, 0, 0
        self.link: str | None = "link"
        self.wire: list[Derived] = []
        self.said: list[str] = []
        # The clone's subscription: what is not acknowledged comes again.
        self.put_out = self.settled = 0
        self.start()
        self.node = Node(folder / "node-0.sqlite")

    def start(self) -> None:
        self.starts += 1
        self.delivered = self.settled  # by the subscription, to this process
        self.reactor = Reactor(lambda: self.now)
        self.reactor.performs(SendToNode, self.sent)
        self.state = State(self.folder / "state.sqlite", lambda: self.now)
        STATES.append(self.state)
        self.last = LastValues()
        wall = lambda: WALL + self.now  # noqa: E731 - it is one
        self.plane = DerivedPlane(self.reactor, self.state, self, self.last, wall, self.said.append)
        self.plane.keep(DEVICE, ("b1/f4/r1",))
        self.plane.begun()

    def kill(self) -> None:
        """A master that is killed leaves what was written."""
        self.state._dirty.clear()
        self.state.close()
        self.wire.clear()
        self.start()

    def kill_node(self) -> None:
        self.boots += 1
        copy = self.folder / f"node-{self.boots}.sqlite"
        crash(Path(self.node.history.path), copy)
        now = self.node.now
        self.node = Node(copy)
        self.node.now = now
        self.wire.clear()

    # For the plane.

    def link_to(self, name: str):
        if self.link is None or name != "n1":
            return None
        found = hello("n1", f"boot-{self.boots}")
        return self.link, type(found)(
            **{f: getattr(found, f) for f in found.__struct_fields__ if f != "takes_derived"},
            takes_derived=self.takes_derived,
        )

    def node_on(self, _peer, incarnation: str) -> str | None:
        return "n1" if incarnation == f"boot-{self.boots}" else None

    def sent(self, instruction: SendToNode) -> None:
        assert isinstance(instruction.message, Derived)
        self.wire.append(instruction.message)

    # What happens.

    def output(self, **values: object) -> None:
        self.put_out += 1
        self.give()

    def give(self) -> None:
        """The subscription delivers what this process did not get yet."""
        for position in range(self.delivered + 1, self.put_out + 1):
            self.delivered = position
            time_ms = round((WALL + self.now) * 1e3)
            values = {"at": position, "kind": "output", "ok": True}
            self.plane.on_output(
                DEVICE, "clone", position, time_ms, values, lambda p=position: self.settle(p)
            )

    def settle(self, position: int) -> None:
        self.settled = max(self.settled, position)

    def turn(self) -> None:
        due = self.plane.next_due
        assert due is None or math.isfinite(due)  # or the reactor cannot wait for it
        if due is not None and due <= self.now:
            self.plane.tick(self.now)
        self.state.tick(self.now)

    def arrive(self) -> None:
        """What is on the wire comes to the node, and its acknowledgements come back."""
        while self.wire:
            self.node.intake.arrived(self.wire.pop(0), self.node.now)
        for position in self.node.acks():
            taken = DerivedTaken(f"boot-{self.boots}", "clone", position)
            self.plane.taken(self.link, taken)

    def expected(self) -> list[float]:
        return [float(p) for p in range(1, self.put_out + 1)]

    def finish(self) -> None:
        self.link = self.link or "again"
        for _ in range(60):
            self.now += 31.0
            self.give()
            self.turn()
            self.arrive()
            self.node.history.commit()
            self.arrive()
            self.turn()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_what_a_clone_puts_out_comes_to_its_node(site: Site) -> None:
    site.output()
    site.now += 2.0
    site.turn()
    [message] = site.wire
    assert message.source == "clone"
    assert [(v.position, v.age_ms, v.values) for v in message.values] == [(1, 2_000, {"at": 1.0})]
    site.arrive()
    site.node.history.commit()
    site.arrive()
    assert site.plane.waiting()[DEVICE] == 0
    site.state.flush()
    assert site.state.all(WAITING) == {}


@pytest.mark.parametrize("time_ms", [1 - 2**53, 2**53 - 1])
def test_a_time_that_a_processor_invents_keeps_no_values_from_the_node(site, time_ms) -> None:
    values = {"at": 0.5}
    site.plane.on_output(DEVICE, "clone", 1, time_ms, values, lambda: site.settle(1))
    site.turn()
    [message] = site.wire
    assert Decoder(MasterMessage).decode(encode(message, MESSAGEPACK))[0] == message


def test_its_subscription_is_told_once_it_is_on_disk(site: Site) -> None:
    site.output()
    assert site.settled == 0
    site.turn()
    assert site.settled == 1
    assert len(site.state.all(WAITING)) == 1


def test_a_node_of_an_earlier_release_is_sent_none(tmp_path: Path) -> None:
    site = Site(tmp_path, takes_derived=False)
    site.output()
    site.now += 60.0
    site.turn()
    assert site.wire == []
    assert site.plane.waiting()[DEVICE] == 1
    site.takes_derived = True  # it was upgraded
    site.now += 2.0
    site.turn()
    assert len(site.wire) == 1


def test_a_device_that_sleeps_finds_everything_when_it_is_back(site: Site) -> None:
    site.link = None
    for _ in range(5):
        site.output()
        site.now += 10.0
        site.turn()
    assert site.wire == []
    site.finish()
    assert site.node.found() == site.expected()


def test_values_of_a_clone_that_was_removed_are_forgotten(site: Site) -> None:
    site.link = None
    site.output()
    site.turn()
    site.now += 20.0
    site.turn()
    site.state.flush()
    assert site.state.all(LAST)
    site.plane.forget(DEVICE)
    site.state.flush()
    assert site.state.all(WAITING) == {}
    assert site.state.all(LAST) == {}
    assert DEVICE not in site.last


def test_of_a_subscription_that_was_lost_the_values_go_on_waiting(site: Site) -> None:
    site.link = None
    site.output()
    site.turn()
    site.plane.on_output(DEVICE, "anew", 1, 0, {"at": 2}, lambda: None)
    site.turn()
    assert site.plane.waiting() == {DEVICE: 2}
    site.kill()
    assert site.plane.waiting() == {DEVICE: 2}
    site.link = "link"
    site.now += 2.0
    site.turn()
    sent = {(each.source, each.values[0].position) for each in site.wire}
    assert sent == {("anew", 1), ("clone", 1)}
    site.wire.clear()
    site.plane.taken("link", DerivedTaken("boot-0", "other", 9))
    site.plane.taken("link", DerivedTaken("boot-before", "clone", 9))
    assert site.plane.waiting() == {DEVICE: 2}
    site.plane.taken("link", DerivedTaken("boot-0", "clone", 9))
    assert site.plane.waiting()[DEVICE] == 1


def test_after_a_start_what_no_clone_owns_is_forgotten(site: Site) -> None:
    site.link = None
    site.output()
    site.turn()
    site.now += 20.0
    site.turn()
    site.state.flush()
    plane = DerivedPlane(
        Reactor(lambda: site.now), site.state, site, LastValues(), lambda: WALL, site.said.append
    )
    plane.begun()
    site.state.flush()
    assert site.state.all(WAITING) == {}
    assert site.state.all(LAST) == {}


def test_last_values_survive_a_restart(site: Site) -> None:
    site.output()
    site.plane.read(DEVICE, "b1/f4/r1", round((WALL + site.now) * 1e3), {"temperature": 20.5})
    site.turn()
    site.state.flush()
    site.kill()
    [result] = site.last.within("b1", (), "aggregate", round((WALL + site.now) * 1e3)) or []
    assert result.area == "b1/f4/r1"
    assert result.aggregate is not None
    assert sorted(result.aggregate.channels) == ["at", "temperature"]


def test_the_operator_is_told_once_that_values_are_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.link = None
    monkeypatch.setattr("agent.derived.delivery.Delivery.__init__.__defaults__", (3,))
    site.plane.forget(DEVICE)
    site.plane.keep(DEVICE, ())
    for _ in range(6):
        site.output()
        site.turn()
    assert site.plane.waiting()[DEVICE] == 3
    assert len(site.state.all(WAITING)) == 3
    assert len(site.said) == 1


@given(st.lists(st.sampled_from([*"abcd", "taken", "kill"]), max_size=40))
@settings(max_examples=20)
def test_what_waits_at_a_master_is_bounded_and_the_longest_queue_gives_way(steps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        wall = lambda: WALL  # noqa: E731 - it is one
        put_out = Counter[str]()
        kept: dict[str, list[int]] = {name: [] for name in "abcd"}

        def start() -> DerivedPlane:
            plane = DerivedPlane(
                Reactor(lambda: 0.0), site.state, site, LastValues(), wall, site.said.append, most=6
            )
            for name in kept:
                plane.keep(f"iad/{name}", ())
            plane.begun()
            return plane

        plane = start()
        for step in steps:
            if step == "kill":
                plane = start()
            elif step == "taken":
                site.link_to = lambda _: None  # type: ignore[method-assign]
                site.node_on = lambda *_: "a"  # type: ignore[method-assign]
                plane.taken("link", DerivedTaken("boot", "of-a", max(kept["a"], default=0)))
                kept["a"] = []
            else:
                put_out[step] += 1
                plane.on_output(
                    f"iad/{step}", f"of-{step}", put_out[step], 0, {"v": 1}, lambda: None
                )
                kept[step].append(put_out[step])
                if sum(map(len, kept.values())) > 6:
                    assert sum(plane.waiting().values()) == 6
                    longest = max(map(len, kept.values()))
                    (name,) = [n for n in kept if len(kept[n]) > plane.waiting()[f"iad/{n}"]]
                    assert len(kept[name]) == longest
                    kept[name].pop(0)
            assert plane.waiting() == Counter({f"iad/{n}": len(each) for n, each in kept.items()})
            on_disk = {f"iad/{n} of-{n} {at:016d}" for n, each in kept.items() for at in each}
            assert set(site.state.all(WAITING)) == on_disk


@pytest.mark.parametrize("seed", range(6))
def test_each_value_is_in_the_history_once_whoever_is_killed(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    site = Site(tmp_path)
    for _ in range(150):
        match rng.choice(
            ("output", "output", "turn", "turn", "arrive", "commit", "time", "kill", "boot", "cut")
        ):
            case "output":
                site.output()
            case "turn":
                site.turn()
            case "arrive":
                site.arrive()
            case "commit":
                site.node.history.commit()
            case "time":
                step = rng.choice((0.1, 1.0, 31.0))
                site.now += step
                site.node.now += step
            case "kill" if rng.random() < 0.5:
                site.kill()
                site.give()
            case "boot" if rng.random() < 0.5:
                site.kill_node()
            case "cut":
                site.link = None if site.link else "link"
                site.wire.clear()
    site.finish()
    assert sorted(site.node.found()) == site.expected()
    assert site.plane.waiting()[DEVICE] == 0

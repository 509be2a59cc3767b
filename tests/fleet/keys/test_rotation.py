"""The machine of a rotation: in every state that it can reach, whoever should talk can talk."""

import copy
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet.inventory.files import files_of
from fleet.inventory.model import Homes
from fleet.inventory.parties import CLIENT, OPERATOR, Party, hosts, parties
from fleet.keys import curve
from fleet.keys import rotation as r
from fleet.keys.rotation import Advance, Held, Push, Rotation, Stage, Wait
from tests.examples import examples
from tests.fleet.keys.rig import inventory, store


def with_a_node_that_moves(fleet):
    """The second node of the first IAD may be at home at the other, whose own has another name."""
    first, other = fleet.iad
    moves = replace(first.node[1], homes=Homes(("iad5",)))
    stays = replace(other.node[1], name="n3")
    first = replace(first, node=(first.node[0], moves))
    return replace(fleet, iad=(first, replace(other, node=(other.node[0], stays))))


FLEET = with_a_node_that_moves(inventory(nodes=2))
WHO = r.fleet_of(FLEET)
EVERYBODY = tuple(parties(FLEET))
# (who connects, to whom)
PAIRS = [
    *[
        (Party("node", f"{iad}/{node}"), Party("master", iad))
        for iad, node in (("iad4", "n1"), ("iad4", "n2"), ("iad5", "n1"), ("iad5", "n3"))
    ],
    (Party("node", "iad4/n2"), Party("master", "iad5")),
    (Party("master", "iad4"), Party("master", "iad5")),
    (Party("master", "iad5"), Party("master", "iad4")),
    *[(who, Party("master", iad)) for who in (CLIENT, OPERATOR) for iad in ("iad4", "iad5")],
]
ORDER = {
    0: ("old",),
    Stage.ANNOUNCED: ("old", "new"),
    Stage.SWITCHED: ("new", "old"),
    Stage.FORGOTTEN: ("new",),
}


class World:
    """What stands in the files of each host, by the stages that it was given; the fleet's own files
    are the store's."""

    def __init__(self, state):
        self.state = state

    def stage(self, host, party):
        if not host:
            return self.now(party)
        given = self.state.given.get(host)
        return given.stages.get(str(party), 0) if given else 0

    def now(self, party):
        return next((each.stage for each in self.state.members if each.party == party), 0)

    def handshakes(self, client, server):
        """Whether each pairing that a client tries in turn is let in."""
        at, there = host_of(client), host_of(server)
        shown = ORDER[self.stage(there, server)][0]
        allowed = ORDER[self.stage(there, client)]
        return [
            own in allowed and expected == shown
            for own in ORDER[self.stage(at, client)]
            for expected in ORDER[self.stage(at, server)]
        ]


def host_of(party):
    if party.role == "master":
        return f"{party.name}/master"
    return party.name if party.role == "node" else ""


def check(machine):
    world = World(machine.state)
    for client, server in PAIRS:
        assert any(world.handshakes(client, server)), (client, server, machine.state)


def reachable(chosen, hosts_that_fail=()):
    """All states of a rotation, each host reached or not before each other."""
    first = Rotation(r.begin(dict.fromkeys(chosen, Stage.ANNOUNCED), 0.0), WHO)
    seen, waiting = set(), [first]
    while waiting:
        machine = waiting.pop()
        key = (
            tuple(each.stage for each in machine.state.members),
            tuple(sorted((h, tuple(g.stages.items())) for h, g in machine.state.given.items())),
        )
        if key in seen:
            continue
        seen.add(key)
        yield machine
        todo = copy.deepcopy(machine)
        instructions = todo.decide(1e9)
        if instructions and isinstance(instructions[0], Advance):
            waiting.append(todo)
        for each in instructions:
            if isinstance(each, Push) and each.host not in hosts_that_fail:
                following = copy.deepcopy(todo)
                # Long ago: what has to settle has.
                following.handle(r.Pushed(each.host), 0.0)
                waiting.append(following)


SOME = [
    [Party("master", "iad4"), Party("node", "iad4/n1"), Party("node", "iad4/n2"), CLIENT],
    [Party("master", "iad4"), Party("master", "iad5"), Party("node", "iad5/n1"), OPERATOR],
    [Party("node", "iad4/n1")],
]


@pytest.mark.parametrize("chosen", SOME, ids=["an IAD", "masters", "a node"])
@pytest.mark.parametrize("dead", [(), ("iad4/n1",), ("iad5/master",)], ids=["", "node", "master"])
def test_in_every_state_whoever_should_talk_can(chosen, dead):
    ends = 0
    for machine in reachable(chosen, dead):
        check(machine)
        ends += machine.through
    assert bool(ends) == (not any(WHO.concerned[party] & set(dead) for party in chosen))


def test_a_node_that_connects_anew_finds_its_master_at_the_first_try():
    seen = 0
    for machine in reachable(SOME[0]):
        for each in copy.deepcopy(machine).decide(1e9):
            if isinstance(each, Push) and each.host in WHO.masters_of:
                node = Party("node", each.host)
                before = ORDER[World(machine.state).stage(each.host, node)][0]
                after = copy.deepcopy(machine)
                after.decide(1e9)
                after.handle(r.Pushed(each.host), 0.0)
                world = World(after.state)
                if ORDER[world.stage(each.host, node)][0] != before:
                    seen += 1
                    for master in WHO.masters_of[each.host]:
                        name = master.removesuffix("/master")
                        assert world.handshakes(node, Party("master", name))[0]
    assert seen


class Clock:
    def __init__(self):
        self.now = 1_000.0


def drive(machine, clock, fails=lambda _host: False):
    """Carry out what the machine says; who was given files in which order, and who is held."""
    pushed = []
    for _ in range(10_000):
        todo = machine.decide(clock.now)
        if not todo or isinstance(todo[0], Held):
            return pushed, todo
        match todo[0]:
            case Wait(until_s):
                assert until_s > clock.now
                clock.now = until_s
            case Advance():
                pushed.append("step")
                machine.handle(r.Retry(), clock.now)
            case Push():
                for each in todo:
                    machine.handle(
                        r.Failed(each.host) if fails(each.host) else r.Pushed(each.host), clock.now
                    )
                    pushed.append(each.host)
    raise AssertionError("it never ends")


def rotation(chosen=EVERYBODY, **options):
    return Rotation(r.begin(dict.fromkeys(chosen, Stage.ANNOUNCED)), WHO, **options)


def test_windows_and_the_order_of_hosts():
    clock = Clock()
    machine = rotation()
    pushed, held = drive(machine, clock)
    assert held == []
    assert machine.through
    masters, nodes = ["iad4/master", "iad5/master"], ["iad4/n1", "iad4/n2", "iad5/n1", "iad5/n3"]
    assert pushed == [*masters, *nodes, "step", *masters, *nodes, "step", *masters, *nodes]
    # Each time the nodes after their masters have settled, and the window twice.
    assert clock.now == 1_000 + 3 * r.SETTLE_S + 2 * r.OVERLAP_S


def test_nothing_is_switched_before_its_window_is_over():
    machine = rotation([Party("node", "iad4/n1")])
    for host in ("iad4/master", "iad4/n1"):
        machine.handle(r.Pushed(host), 500.0)
    assert machine.decide(529.9) == [Wait(530.0)]
    assert machine.decide(530.0) == [Advance(Party("node", "iad4/n1"), Stage.SWITCHED)]


def test_a_clock_that_is_set_back_begins_the_window_anew():
    machine = rotation([Party("node", "iad4/n1")])
    for host in ("iad4/master", "iad4/n1"):
        machine.handle(r.Pushed(host), 500.0)
    assert machine.decide(100.0) == [Wait(130.0)]


def test_a_dead_node_holds_up_itself_and_its_master():
    machine = rotation()
    _, held = drive(machine, Clock(), lambda host: host == "iad4/n1")
    assert held == [
        Held(Party("master", "iad4"), Stage.ANNOUNCED, ("iad4/n1",)),
        Held(Party("node", "iad4/n1"), Stage.ANNOUNCED, ("iad4/n1",)),
    ]
    assert [e.stage for e in machine.state.members if e.party == Party("node", "iad4/n2")] == [3]
    # It is back.
    machine.handle(r.Retry(), 5_000.0)
    _, held = drive(machine, Clock())
    assert held == []
    assert machine.through


def test_a_dead_master_holds_up_whoever_connects_there():
    _, held = drive(rotation(), Clock(), lambda host: host == "iad4/master")
    assert {each.party for each in held} == set(EVERYBODY) - {
        Party("node", "iad5/n1"), Party("node", "iad5/n3")
    }  # fmt: skip


def test_nobody_waits_for_a_host_that_is_left_out():
    machine = rotation(without=["iad4/n1"])
    machine.handle(r.Dropped(Party("node", "iad4/n1")), 0.0)
    pushed, held = drive(machine, Clock(), lambda host: host == "iad4/n1")
    assert held == []
    assert "iad4/n1" not in pushed


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_interrupted_at_any_time_it_goes_on(data):
    clock = Clock()
    machine = rotation(data.draw(st.sampled_from(SOME)))
    for turn in range(200):
        check(machine)
        todo = machine.decide(clock.now)
        if not todo:
            break
        match todo[0]:
            case Held():
                machine.handle(r.Retry(), clock.now)
            case Wait(until_s):
                clock.now = until_s
            case Push():
                for each in todo:
                    fails = turn < 50 and data.draw(st.integers(0, 3)) == 3
                    event = r.Failed(each.host) if fails else r.Pushed(each.host)
                    machine.handle(event, clock.now)
                    check(machine)
        if turn < 50 and data.draw(st.booleans()):  # another process, from the file
            kept = msgspec.json.decode(msgspec.json.encode(machine.state), type=r.State)
            machine = Rotation(kept, WHO)
    assert machine.through


def test_who_is_concerned_is_whose_files_change(tmp_path):
    """Held against the files themselves: change a key, and see which hosts' files differ."""
    keys = store(tmp_path, FLEET)

    def files():
        return {host.name: files_of(FLEET, host, keys) for host in hosts(FLEET)}

    before = files()
    assert set(WHO.concerned) == set(EVERYBODY)
    for party in EVERYBODY:
        former = keys.keys(party)
        keys.replace_keys(party, with_another)
        after = files()
        changed = {name for name, of_host in after.items() if of_host != before[name]}
        assert WHO.concerned[party] == changed, party
        keys.replace_keys(party, lambda _own, former=former: former)


def with_another(keys):
    return (curve.make(datetime(2026, 1, 1, tzinfo=UTC)), *keys)

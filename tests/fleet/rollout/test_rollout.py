"""The rollout, against hosts that fail, are lost and come back at random: its promises hold in
every order of events, and running it again after any interruption ends where one run would have."""

from __future__ import annotations

from typing import Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.runtime.state_machine import InvalidTransition
from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Dropped,
    Failed,
    Healthy,
    Instruction,
    Interrupted,
    Planned,
    RolledBack,
    Staged,
    Switched,
)
from fleet.rollout.rollout import Member, Rollout, Share
from tests.examples import examples

Fate = Literal["well", "dead", "no_upload", "crashes", "sick", "lost_switching", "lost_confirming"]
FATES: tuple[Fate, ...] = (
    "well", "dead", "no_upload", "crashes", "sick", "lost_switching", "lost_confirming"
)  # fmt: skip


class World:
    """Hosts that do what they are told, by their fate."""

    def __init__(self, fates: dict[str, Fate], serving: dict[str, bool]) -> None:
        self.fates = fates
        self.release = dict.fromkeys(fates, "old")
        self.serving = serving

    def plan(self, name: str) -> AnyEvent:
        if self.fates[name] == "dead":
            return Failed(name, "dead", "no answer")
        changes = self.release[name] != "new"
        early = name.endswith("master") and not self.serving[name]
        return Planned(name, changes, changes, changes, self.serving[name], early and changes)

    def do(self, instruction: Instruction) -> AnyEvent:
        do, name, _ = instruction
        fate = self.fates[name]
        match do:
            case "gather":
                return self.plan(name)
            case "stage":
                if fate == "no_upload":
                    return Failed(name, "disk_full", "no room")
                return Staged(name)
            case "switch":
                if fate == "lost_switching":
                    return Failed(name, "lost", "gone")
                if fate == "crashes":
                    return Failed(name, "failed", "does not start", undone=True)
                self.release[name] = "new"
                return Switched(name)
            case "check":
                return Failed(name, "failed", "sick") if fate == "sick" else Healthy(name)
            case "confirm":
                if fate == "lost_confirming":
                    return Failed(name, "lost", "gone")
                return Confirmed(name)
            case "roll_back":
                self.release[name] = "old"
                return RolledBack(name)


class Case(NamedTuple):
    members: list[Member]
    fates: dict[str, Fate]
    serving: dict[str, bool]
    serial: Share
    max_fail: Share


@st.composite
def cases(draw: st.DrawFn) -> Case:
    members = []
    for iad in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            members.append(Member(f"i{iad}/master", f"i{iad}", "master"))
        for node in range(draw(st.integers(0, 6))):
            areas = draw(st.frozensets(st.sampled_from(["a", "b", "c"]), min_size=1))
            canary = draw(st.integers(0, 4)) == 0
            members.append(Member(f"i{iad}/n{node}", f"i{iad}", "node", canary, areas))
    fates = {m.name: draw(st.sampled_from(FATES + ("well",) * 10)) for m in members}
    serving = {m.name: draw(st.integers(0, 3)) > 0 for m in members}
    serial = draw(st.sampled_from([Share(1, False), Share(2, False), Share(50, True)]))
    max_fail = draw(st.sampled_from([Share(0, True), Share(10, True), Share(100, True)]))
    return Case(members, fates, serving, serial, max_fail)


def promises(case: Case, world: World, rollout: Rollout, instruction: Instruction) -> None:
    """What holds whenever something is about to be switched."""
    if instruction.do != "switch":
        return
    member = next(m for m in case.members if m.name == instruction.host)
    nodes = {m.name for m in case.members if m.role == "node"}
    assert not rollout.stopped
    out = rollout.unsettled & {name for name in world.serving if world.serving[name]}
    if world.serving[member.name] and member.role == "node":
        assert len(out & nodes) <= max(1, case.serial.of(len(nodes)))
    if member.role == "master":
        assert len(rollout.unsettled - nodes) <= 1
    for area in member.areas:
        covering = {m.name for m in case.members if m.iad == member.iad and area in m.areas} & nodes
        if len(covering) > 1 and world.serving[member.name]:
            assert not covering <= out


def play(case: Case, world: World, order: st.DataObject, stop_after: int | None) -> Rollout:
    """A whole run, with events in any order; interrupted after so many."""
    rollout = Rollout(case.members, case.serial, case.max_fail)
    under_way = rollout.begin()
    events = 0
    stopped = False
    while not rollout.ended:
        assert under_way, "nothing is under way, and it has not ended"
        if events == stop_after:
            stopped = True
            assert rollout.handle(Interrupted()) == []
            if rollout.ended:
                break
        number = order.draw(st.integers(0, len(under_way) - 1), label="next")
        instruction = under_way.pop(number)
        if stopped and instruction.do in {"gather", "stage"}:
            event: AnyEvent = Dropped(instruction.host)
        else:
            event = world.do(instruction)
        was_stopped = bool(rollout.stopped)
        following = rollout.handle(event)
        events += 1
        if was_stopped:
            assert not {"stage", "switch"} & {each.do for each in following}
        for each in following:
            promises(case, world, rollout, each)
        under_way += following
    assert not under_way
    assert rollout.results.keys() == {member.name for member in case.members}
    assert not rollout.unsettled
    return rollout


@settings(max_examples=examples(100), deadline=None)
@given(cases(), st.data())
def test_whatever_happens_each_host_has_one_end_and_the_promises_hold(
    case: Case, data: st.DataObject
) -> None:
    world = World(case.fates, case.serving)
    rollout = play(case, world, data, None)
    for name, result in rollout.results.items():
        match result.outcome:
            case "changed":
                assert world.release[name] == "new"
            case "rolled_back" | "skipped" | "unchanged":
                assert world.release[name] == "old"
            case "failed" | "lost":
                assert result.reason
    if all(fate == "well" for fate in case.fates.values()):
        assert {result.outcome for result in rollout.results.values()} <= {"changed"}


@settings(max_examples=examples(60), deadline=None)
@given(cases(), st.data(), st.integers(0, 20))
def test_after_an_interruption_another_run_does_the_rest(
    case: Case, data: st.DataObject, stop_after: int
) -> None:
    case = case._replace(fates=dict.fromkeys(case.fates, "well"))
    world = World(case.fates, case.serving)
    first = play(case, world, data, stop_after)
    done = {name for name, result in first.results.items() if result.outcome == "changed"}
    second = play(case, world, data, None)
    assert set(world.release.values()) <= {"new"}
    for name, result in second.results.items():
        assert result.outcome == ("unchanged" if name in done else "changed")


def members(count: int, **more: bool) -> list[Member]:
    return [Member(f"i/n{n}", "i", "node", areas=frozenset({f"a{n}"})) for n in range(count)]


def run_simply(rollout: Rollout, world: World) -> list[tuple[str, str]]:
    """First come, first served; what was done to whom."""
    under_way = rollout.begin()
    done = []
    while under_way:
        instruction = under_way.pop(0)
        done.append((instruction.do, instruction.host))
        under_way += rollout.handle(world.do(instruction))
    return done


def well(hosts: list[Member], **fates: Fate) -> World:
    return World(
        {m.name: fates.get(m.name.replace("/", "_"), "well") for m in hosts},
        {m.name: True for m in hosts},
    )


def switches(done: list[tuple[str, str]]) -> list[str]:
    return [host for do, host in done if do == "switch"]


def test_a_marked_canary_is_first() -> None:
    hosts = members(3)
    hosts[2] = hosts[2]._replace(canary=True)
    done = run_simply(Rollout(hosts, Share(100, True)), well(hosts))
    assert switches(done)[0] == "i/n2"
    assert done.index(("confirm", "i/n2")) < done.index(("switch", "i/n0"))


def test_a_first_host_that_fails_is_rolled_back_and_the_last_to_be_touched() -> None:
    hosts = members(5)
    world = well(hosts, i_n0="sick")
    rollout = Rollout(hosts, Share(100, True), Share(100, True))
    assert switches(run_simply(rollout, world)) == ["i/n0"]
    outcomes = [result.outcome for result in rollout.results.values()]
    assert outcomes == ["rolled_back"] + ["skipped"] * 4
    assert "first" in rollout.stopped


def test_one_lost_host_of_eight_does_not_stop_the_others_two_do() -> None:
    hosts = members(8)
    rollout = Rollout(hosts, Share(1, False))
    run_simply(rollout, well(hosts, i_n3="lost_switching"))
    assert sum(r.outcome == "changed" for r in rollout.results.values()) == 7
    rollout = Rollout(hosts, Share(1, False))
    run_simply(rollout, well(hosts, i_n3="lost_switching", i_n4="sick"))
    assert [r.outcome for r in rollout.results.values()][5:] == ["skipped"] * 3
    assert "2 hosts failed" in rollout.stopped


def test_a_dead_host_and_a_full_disk_are_nobody_elses_affair() -> None:
    hosts = members(8)
    rollout = Rollout(hosts, max_fail=Share(0, True))
    run_simply(rollout, well(hosts, i_n0="dead", i_n1="no_upload", i_n2="dead"))
    assert [r.outcome for r in rollout.results.values()] == ["failed"] * 3 + ["changed"] * 5


def test_a_new_master_goes_before_its_nodes_a_serving_one_after_them() -> None:
    hosts = [Member("i/master", "i", "master"), *members(2)]
    new = well(hosts)
    new.serving["i/master"] = False
    assert switches(run_simply(Rollout(hosts), new))[0] == "i/master"
    assert switches(run_simply(Rollout(hosts), well(hosts)))[-1] == "i/master"


def test_nodes_of_a_master_that_failed_are_not_touched() -> None:
    hosts = [Member("i/master", "i", "master"), *members(2)]
    rollout = Rollout(hosts)
    assert switches(run_simply(rollout, well(hosts, i_master="dead"))) == []
    assert [r.outcome for r in rollout.results.values()] == ["failed", "skipped", "skipped"]


def most_unsettled(rollout: Rollout, world: World) -> int:
    """Of a whole run in which as many hosts as may be are switched before any is checked."""
    under_way = rollout.begin()
    most = 0
    while under_way:
        under_way.sort(key=lambda each: each.do not in {"gather", "stage", "switch"})
        under_way += rollout.handle(world.do(under_way.pop(0)))
        most = max(most, len(rollout.unsettled))
    return most


def test_two_nodes_of_one_area_are_not_out_together() -> None:
    hosts = [Member(f"i/n{n}", "i", "node", areas=frozenset({"hall"})) for n in range(3)]
    assert most_unsettled(Rollout(hosts, Share(100, True)), well(hosts)) == 2


def test_hosts_that_did_not_serve_are_all_switched_once_one_is_well() -> None:
    hosts = members(6)
    world = well(hosts)
    world.serving = dict.fromkeys(world.serving, False)
    assert most_unsettled(Rollout(hosts, Share(1, False)), world) == 5


def test_an_event_that_cannot_come_tells_the_history() -> None:
    rollout = Rollout(members(1))
    rollout.handle(Planned("i/n0", changes=False))
    with pytest.raises(
        InvalidTransition, match=r"ended → ended is not .*so far Planned, Confirmed"
    ):
        rollout.handle(Confirmed("i/n0"))


@pytest.mark.parametrize(
    ("share", "total", "expected"),
    [
        (Share(25, True), 8, 2),
        (Share(10, True), 8, 1),
        (Share(0, True), 8, 0),
        (Share(3, False), 8, 3),
    ],
)
def test_a_share_is_rounded_up(share: Share, total: int, expected: int) -> None:
    assert share.of(total) == expected


def test_canaries_that_cannot_be_checked_hold_up_nobody() -> None:
    """Their master is dead; it is the last thing that happens before the others are to go on."""
    hosts = [
        Member("i/master", "i", "master"),
        Member("i/n0", "i", "node", True, frozenset({"a"})),
        Member("j/n0", "j", "node", False, frozenset({"b"})),
    ]
    rollout = Rollout(hosts)
    rollout.begin()
    rollout.handle(Planned("i/n0", changes=True, disturbs=True))
    rollout.handle(Planned("j/n0", changes=True, disturbs=True))
    assert rollout.handle(Failed("i/master", "dead", "gone")) == [Instruction("switch", "j/n0")]
    assert rollout.results["i/n0"].outcome == "skipped"


def test_a_first_host_whose_new_agent_refuses_stops_all() -> None:
    """Nothing was touched on it, and no other is to be tried with what it refuses."""
    rollout = Rollout([Member(f"i/n{n}", "i", "node") for n in range(9)], Share(1, percent=False))
    rollout.begin()
    switches = []
    for n in range(9):
        rollout.handle(Planned(f"i/n{n}", changes=True, stores=True, disturbs=True))
    for n in range(9):
        switches += [each for each in rollout.handle(Staged(f"i/n{n}")) if each.do == "switch"]
    (first,) = switches
    assert rollout.handle(Failed(first.host, "failed", "1-b refuses: no pin", refused=True)) == []
    assert rollout.ended
    assert rollout.stopped == f"{first.host} was the first to get these changes, and failed"
    outcomes = [result.outcome for result in rollout.results.values()]
    assert sorted(outcomes) == ["failed", *["skipped"] * 8]

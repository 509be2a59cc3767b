"""Chaos campaign: the checker finds each kind of broken promise, and a real fleet breaks none."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import get_args

import pytest
from msgspec.structs import replace

from agent.client import NoReplyError
from fleet.cli.commands import run as command
from fleet.common import exits
from fleet.testbed.page import GATEWAY
from fleet.testbed.testbed import DRS
from lab.chaos.checker import ALERTED, STREAM, broken
from lab.chaos.clients import opened
from lab.chaos.fault_plan import AWAY, Fault, Kind, plan
from lab.chaos.history import (
    CLIENTS,
    Agreed,
    Alert,
    Asked,
    Claim,
    CloneCount,
    CloneOutput,
    Events,
    History,
    Output,
    RoundSeen,
    Starved,
    load,
    save,
)
from lab.chaos.run import run
from lab.chaos.starvation import Starvation
from tests.examples import campaign

DOWN = Fault("kill", ("iad2",), 2.0, 3.0)
FULL = Fault("full disk", ("iad1", "n1"), 40.0, 50.0)
DAMAGED = Events("r1", "later", 1, 4, taken=(2,), damaged=True)


def sound():
    return History(
        1,
        [DOWN, FULL],
        {"r1": ("n1", "iad1"), "r2": ("n2", "iad2")},
        asked=[
            Asked(0.1, 0.2, "iad1", ("r1", "r2"), "complete", ("r1", "r2")),
            Asked(2.1, 4.0, "iad2", ("r1",), "no reply"),
            Asked(2.2, 2.3, "iad1", ("r1", "r2"), "partial", ("r1",), (("r2", "node_down"),)),
            Asked(2.3, 2.4, "iad1", ("r1", "r2"), "partial", ("r2",), (("r1", "timeout"),)),
            Asked(2.4, 2.5, GATEWAY, ("r1",), "complete", ("r1",)),
        ],
        rounds=[
            RoundSeen(STREAM, 1, 0, 0, 500),
            RoundSeen(ALERTED, 2, 0, 7, 9),
            RoundSeen(STREAM, 2, 1, 500, 1_000),
            RoundSeen(ALERTED, 5, 2, 30, 40),
        ],
        alerts=[
            Alert(1, "r1", "a", 3),
            Alert(2, "r2", "b", 1),
            Alert(3, "r1", "a", 5),
            Alert(4, "r1", "a", 6),
            Alert(5, "r1", "later", 2),
        ],
        published=[1, 2],
        outputs=[Output(1, 1, 1), Output(2, 2, 2), Output(3, 3, 3)],
        events=[
            Events("r1", "a", 3, 6, others=(4,), below=5, taken=(5, 6)),
            Events("r2", "b", 1, 1, below=2),
            DAMAGED,
        ],
        clone_outputs=[
            CloneOutput(1, "c1", 4),
            CloneOutput(2, "c2", 1),
            CloneOutput(3, "c1", 5),
            CloneOutput(4, "c1", 6),
        ],
        clones=[CloneCount("c1", 7, 7, 6), CloneCount("c2", 1, 1, 1)],
        claims=[Claim(0.0, 0.1, "iad1"), Claim(0.2, 0.3, "iad2"), Claim(1.2, 1.3, "iad1")],
        owners=["iad1"],
    )


def test_a_sound_history_breaks_nothing():
    assert broken(sound()) == []


QUERY = Asked(5.0, 5.1, "iad1", ("r1", "r2"), "complete", ("r1", "r2"))
OVER_RATE = replace(QUERY, status="refused", reason="over_rate")


@pytest.mark.parametrize(
    "refused", [OVER_RATE, replace(OVER_RATE, master=GATEWAY, status="http 429")]
)
def test_whoever_asked_beyond_the_agreed_rate_may_be_refused(refused):
    asked = [*[replace(QUERY, at_s=4.0 + n / 5, until_s=5.0 + n / 5) for n in range(4)], refused]
    assert broken(replace(sound(), asked=asked, agreed=Agreed(20.0, 4.0, 2))) == []


def test_rounds_of_watches_take_of_the_agreed_rate_too():
    """They leave 14 of these 20 in the second after 16 queries."""
    asked = [replace(QUERY, at_s=3.9, until_s=4.0)] * 16
    history = replace(sound(), asked=[*asked, OVER_RATE], agreed=Agreed(20.0, 0.0, 2, 100.0))
    assert broken(history) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"asked": [replace(QUERY, status="no reply")]}, "no reply, and it was not away"),
        ({"asked": [replace(QUERY, until_s=60.0)]}, "answered after 55.0 s"),
        ({"asked": [replace(QUERY, answered=("r1",))]}, "nothing is said of r2"),
        ({"asked": [replace(QUERY, status="partial")]}, "without a reason"),
        ({"asked": [replace(QUERY, gaps=(("r1", "timeout"),))]}, "complete, with gaps"),
        ({"asked": [replace(QUERY, status="refused")]}, "refused"),
        ({"asked": [OVER_RATE] * 9}, "refused over_rate"),
        ({"asked": [OVER_RATE] * 9, "agreed": Agreed(20.0, 4.0, 2)}, "refused over_rate"),
        (
            {
                "asked": [
                    *(replace(QUERY, at_s=float(n), until_s=n + 0.1) for n in range(9)),
                    replace(OVER_RATE, at_s=9.0, until_s=9.1),
                ],
                "agreed": Agreed(20.0, 4.0, 2),
            },
            "9.0 s to iad1: refused over_rate",
        ),
        (
            {
                "asked": [
                    replace(
                        QUERY,
                        gaps=(("r2", "node_down"),),
                        status="partial",
                        at_s=45.0,
                        until_s=45.1,
                    )
                ]
            },
            "r2 is missing (node_down), and nothing",
        ),
        ({"asked": [replace(QUERY, status="no reply", at_s=45.0, until_s=47.0)]}, "not away"),
        ({"asked": [replace(QUERY, master=GATEWAY, status="http 500")]}, "http 500"),
        ({"asked": [QUERY] * 30, "agreed": Agreed(20.0, 4.0, 2)}, "answered 30 queries in 0.1 s"),
        (
            {"rounds": [RoundSeen(STREAM, 1, 0, 0, 5), RoundSeen(STREAM, 3, 2, 5, 9)]},
            "stream: round 3 came after 1",
        ),
        (
            {"rounds": [RoundSeen(ALERTED, 1, 0, 0, 5), RoundSeen(ALERTED, 3, 2, 5, 9)]},
            "on alerts: round 3 came after 1",
        ),
        (
            {"rounds": [RoundSeen(STREAM, 1, 0, 0, 5), RoundSeen(STREAM, 2, 1, 6, 9)]},
            "begins 1 ms apart",
        ),
        ({"alerts": [*sound().alerts[:3], *sound().alerts[4:]]}, "alerts of r1 were lost: [6]"),
        ({"alerts": sound().alerts[:4]}, "alerts of r1 were lost: [2]"),
        ({"alerts": [Alert(1, "r2", "b", 1)]}, "no alert of r1 came"),
        ({"alerts": [*sound().alerts, Alert(6, "r1", "a", 5)]}, "alert of r1 5 came twice"),
        ({"alerts": [*sound().alerts, Alert(7, "r1", "a", 7)]}, "position 7 came after 5"),
        ({"alerts": [*sound().alerts, Alert(6)]}, "has a gap"),
        (
            {
                "events": [
                    *sound().events[1:],
                    Events("r1", "a", 3, 6, (4,), below=2, taken=(3, 5, 6)),
                ]
            },
            "events of r1 never came to its master: [2, 4]",
        ),
        (
            {"claims": [Claim(0.0, 0.1, "iad1"), Claim(0.2, 0.3, "iad2"), Claim(0.4, 0.5, "iad1")]},
            "iad1 and iad2 both had the topic at 0.2 s",
        ),
        ({"outputs": [Output(1, 2, 1)]}, "not put out: [1]"),
        ({"outputs": [*sound().outputs, Output(4, 3, 4)]}, "output 3 came twice"),
        ({"outputs": [Output(1, 1, 1), Output(2, 2, 3)]}, "state is not what it has done"),
        ({"clone_outputs": sound().clone_outputs[:3]}, "outputs of c1 were lost: [6]"),
        ({"clone_outputs": [CloneOutput(1, "c1", 4)]}, "no output of c2 came"),
        (
            {"clone_outputs": [*sound().clone_outputs, CloneOutput(5, "c1", 5)]},
            "output of c1 5 came twice",
        ),
        (
            {"clone_outputs": [*sound().clone_outputs, CloneOutput(6, "c1", 7)]},
            "outputs of clones: position 6 came after 4",
        ),
        ({"clones": [CloneCount("c1", 8, 7, 6)]}, "the home of c1 took 8 of 7 outputs"),
        ({"owners": ["iad1", "iad3"]}, "2 owners"),
        ({"owners": []}, "0 owners"),
        ({"ended": ["iad1 ended"]}, "ended by itself"),
    ],
)
def test_a_broken_promise_is_found(change, line):
    found = broken(replace(sound(), **change))
    assert any(line in each for each in found), found


@pytest.mark.parametrize("recovers_s", [DOWN.until_s + 9.0, DOWN.until_s + 11.0])
def test_a_gap_is_excused_until_the_stated_recovery_only(recovers_s):
    gap = Asked(recovers_s, recovers_s + 0.1, "iad1", ("r2",), "partial", (), (("r2", "no_node"),))
    assert len(broken(replace(sound(), asked=[gap]))) == (recovers_s > DOWN.until_s + 10.0)


@pytest.mark.parametrize(
    ("node", "reason", "wrong"),
    [("n2", "no_data", 0), ("n1", "no_data", 1), ("n2", "no_node", 1)],
)
def test_only_a_node_whose_clock_was_stepped_may_have_nothing_in_the_window(node, reason, wrong):
    step = Fault("clock step", (node,), 40.0, 41.0, 30)
    gap = Asked(40.0, 40.1, "iad1", ("r2",), "partial", (), (("r2", reason),))
    assert len(broken(replace(sound(), faults=[step], asked=[gap]))) == wrong


@pytest.mark.parametrize(("thawed_s", "wrong"), [(9.0, 0), (5.0, 1)])
def test_a_master_that_stood_still_may_claim_the_topic_until_it_has_asked_again(thawed_s, wrong):
    still = Fault("freeze", ("iad1",), 4.0, thawed_s)
    claims = [Claim(10.0, 10.1, "iad1"), Claim(10.2, 10.3, "iad2"), Claim(10.4, 10.5, "iad1")]
    assert len(broken(replace(sound(), asked=[], faults=[still], claims=claims))) == wrong


@pytest.mark.parametrize(("start_s", "wrong"), [(5.0, 1), (20.0, 0)])
def test_a_process_is_away_until_it_has_had_the_time_that_the_fleet_took_to_start(start_s, wrong):
    late = Asked(DOWN.until_s + 6.0, DOWN.until_s + 9.0, "iad2", ("r2",), "no reply")
    assert len(broken(replace(sound(), asked=[late], start_s=start_s))) == wrong


@pytest.mark.parametrize(("name", "excused"), [("iad1", True), (CLIENTS, True), ("n1", False)])
@pytest.mark.parametrize(
    "late",
    [
        replace(QUERY, at_s=30.0, until_s=40.0),
        replace(QUERY, at_s=30.0, until_s=36.0, status="no reply"),
        replace(QUERY, at_s=30.0, until_s=35.0, status="http 504", master=GATEWAY),
    ],
)
def test_a_master_that_got_no_processor_may_be_late(late, name, excused):
    starved = [Starved(name, 32.0, 33.0)]
    assert (broken(replace(sound(), asked=[late], starved=starved)) == []) == excused


@pytest.mark.parametrize(
    ("name", "until_s", "wrong"), [("n2", 39.0, 0), ("n2", 29.0, 1), ("n1", 39.0, 1)]
)
def test_a_node_that_got_no_processor_may_be_missing_until_it_has_recovered(name, until_s, wrong):
    gap = Asked(40.0, 40.1, "iad1", ("r2",), "partial", (), (("r2", "node_down"),))
    starved = [Starved(name, 28.0, until_s)]
    assert len(broken(replace(sound(), faults=[], asked=[gap], starved=starved))) == wrong


@pytest.mark.parametrize(
    ("name", "from_s", "wrong"), [("iad1", 0.3, 0), ("n1", 0.3, 1), ("iad1", 6.0, 1)]
)
def test_a_master_that_got_no_processor_may_not_know_that_its_topic_was_taken_over(
    name, from_s, wrong
):
    claims = [Claim(0.0, 0.1, "iad1"), Claim(0.2, 0.3, "iad2"), Claim(0.4, 0.5, "iad1")]
    starved = [Starved(name, from_s, from_s + 1.0)]
    assert len(broken(replace(sound(), claims=claims, starved=starved))) == wrong


def test_who_waits_for_a_processor_is_found_by_what_the_kernel_counts(monkeypatch):
    waited_s, times_s = iter([1.0, 1.0, 1.9, 1.9]), itertools.count(10.0)
    monkeypatch.setattr("lab.chaos.starvation.waited_s", lambda _pid: next(waited_s))
    looks = Starvation(["iad1"], lambda _name: 1, lambda: next(times_s))
    for _ in range(4):
        looks.look("iad1")
    assert looks.found == [Starved("iad1", 11.0, 12.0)]


def test_clients_that_got_no_processor_are_found_by_their_own_lateness(monkeypatch):
    times_s = iter([0.0, 1.1, 4.0, 5.2])
    looks = Starvation([], lambda _name: 1, lambda: next(times_s))
    waits = iter([False, False, False, True])
    monkeypatch.setattr(looks, "_over", SimpleNamespace(wait=lambda _s: next(waits)))
    looks._run()
    assert looks.found == [Starved(CLIENTS, 1.1, 4.0)]


@pytest.mark.parametrize(
    ("stepped", "starts_ms", "wrong"),
    [
        ("iad2", [5, 2], 0),
        ("iad2", [5, 2, 10], 0),
        ("iad2", [8, 13], 1),
        ("iad2", [5, 2, 11], 1),
        ("iad2", [5, 2, 10, 2], 1),
        ("iad1", [5, 2], 1),
        ("iad2", [3_600_005, 10], 0),
        ("iad2", [3_590_000], 1),
        ("iad1", [3_600_005], 1),
    ],
)
def test_a_stream_goes_with_its_master_s_clock_and_on_from_where_it_had_been(
    stepped, starts_ms, wrong
):
    step = Fault("clock step", (stepped,), 1.0, 2.0, -3600)
    rounds = [RoundSeen(STREAM, n, n - 1, at, at + 5) for n, at in enumerate([0, *starts_ms], 1)]
    assert len(broken(replace(sound(), asked=[], faults=[step], rounds=rounds))) == wrong


@pytest.mark.parametrize("refused", [("refused", "infeasible", "iad1"), ("http 422", "", GATEWAY)])
@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, 1),
        ({"faults": [Fault("freeze", ("n2",), 1.0, 6.0)]}, 0),
        ({"faults": [Fault("freeze", ("n2",), 60.0, 66.0)]}, 1),
        ({"starved": [Starved("n1", 1.0, 2.0)]}, 0),
    ],
)
def test_an_objective_is_refused_only_after_something_was_slow(refused, change, wrong):
    status, reason, master = refused
    asked = [replace(QUERY, at_s=30.0, until_s=30.1, status=status, reason=reason, master=master)]
    assert len(broken(replace(sound(), **{"faults": [], **change}, asked=asked))) == wrong


def test_a_saved_history_is_the_same_again(tmp_path):
    save(sound(), tmp_path / "1.jsonl")
    assert load(tmp_path / "1.jsonl") == sound()


def test_a_saved_history_is_judged_again(tmp_path, capfd):
    path = tmp_path / "1.jsonl"
    save(sound(), path)
    assert command(["lab", "chaos", "--check", str(path)]) == exits.DONE
    save(replace(sound(), owners=[]), path)
    assert command(["lab", "chaos", "--check", str(path)]) == exits.FAILED
    assert "the topic has 0 owners" in capfd.readouterr().out
    path.write_text('["nothing", 1]\n')
    assert command(["lab", "chaos", "--check", str(path)]) == exits.FAILED
    assert "is no history" in capfd.readouterr().err


def test_a_client_opens_again_what_a_busy_master_did_not_answer():
    tries = iter([True, True, False])

    def begin():
        if next(tries):
            raise NoReplyError("silent")
        return "open"

    assert opened(begin) == "open"


def test_faults_are_drawn_from_the_seed_and_hurt_no_process_that_is_away():
    masters, nodes, others = ("iad1", "iad2"), ("n1", "n2"), ("drs", "gateway")
    overlapping = 0
    kinds = set()
    for seed in range(200):
        faults = plan(seed, masters, nodes, others, 20.0)
        assert faults == plan(seed, masters, nodes, others, 20.0)
        kinds |= {each.kind for each in faults}
        for before, after in itertools.combinations(faults, 2):
            overlapping += after.from_s < before.until_s
            if after.from_s < before.until_s and before.kind in AWAY:
                assert {*before.targets}.isdisjoint(after.targets)
        assert all({*each.targets} <= {*masters, *nodes, *others} for each in faults)
    assert overlapping > 200
    assert kinds == {*get_args(Kind)}


def test_what_ci_runs_of_the_campaign_has_resets():
    masters = ("iad1", "iad2", "iad3")
    nodes = tuple(f"{iad}-n{n}" for iad in masters for n in (1, 2))
    for first, others in ((0, [GATEWAY]), (1, [GATEWAY, DRS])):
        planned = [plan(seed, masters, nodes, others, 6.0) for seed in range(first, 40, 10)]
        assert any(each.kind == "resets" for faults in planned for each in faults)


# Those of odd seeds have a market, and run beside these.
@pytest.mark.parametrize("seed", [pytest.param(2 * n, marks=campaign(n, 2)) for n in range(20)])
def test_a_fleet_that_is_hurt_keeps_its_promises(tmp_path, seed):
    history = run(seed, tmp_path, 6.0, print)
    assert broken(history) == [], tmp_path
    assert all(0.0 <= each.at_s <= each.until_s for each in history.asked)


@pytest.mark.long
def test_histories_run_side_by_side_and_each_is_saved(tmp_path, capfd):
    asked = ["--histories", "3", "--seconds", "1", "--seed", "21", "--jobs", "2"]
    kept = tmp_path / "run"
    assert command(["lab", "chaos", *asked, "--directory", str(kept)]) == exits.DONE
    assert sorted(path.name for path in kept.glob("*.jsonl")) == [
        f"{n}.jsonl" for n in (21, 22, 23)
    ]
    assert "| histories | 3 |" in (kept / "chaos.md").read_text()
    assert capfd.readouterr().out.count("nothing broken") == 3

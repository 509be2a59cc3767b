"""Placement on two real masters: a topic is pinned, planned, drained; it moves live."""

from __future__ import annotations

import json

import pytest

from agent.client import Client, Operator
from agent.wire.placement import ShowPlacement
from agent.wire.topics import CreateTopic, Topic
from fleet.cli.commands import run
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_S, wait_until
from tests.master.push_rig import PushMaster

IADS = ("iad1", "iad2")
PATIENCE_MS = PATIENCE_S * 1e3


@pytest.fixture
def masters(tmp_path):
    addresses = {iad: free_address() for iad in IADS}
    text = "[placement]\nevery_s = 0.1\n" + "".join(
        f'[[pool]]\niad = "{iad}"\naddress = "{address}"\nareas = ["b1/{iad}"]\n'
        for iad, address in addresses.items()
    )
    started = [PushMaster(tmp_path / iad, iad, addresses[iad], text) for iad in IADS]
    yield dict(zip(IADS, started, strict=True))
    for master in started:
        master.stop()


def known(master):
    with Operator(master.operator) as operator:
        report = operator.ask_placement(ShowPlacement("s"), PATIENCE_MS)
    return {each.facts.iad: each for each in report.known}


def lives_at(masters, asked, name, iad):
    """Until the master that is asked knows that the topic lives there and nowhere else."""
    wait_until(
        lambda: [
            each.facts.iad
            for each in known(masters[asked]).values()
            if any(topic.name == name for topic in each.facts.topics)
        ],
        lambda found: found == [iad],
    )


@pytest.mark.usefixtures("patient_clients")
def test_a_topic_goes_where_its_operators_want_it(masters, tmp_path, capsys):
    def ask(iad, *arguments, status=0):
        def answered():
            ended = run([*arguments, "--operator", masters[iad].operator, "--timeout", "60s"])
            return ended, capsys.readouterr()

        # A busy machine lets a master be silent for a moment.
        (ended, said) = wait_until(answered, lambda found: "is silent" not in found[1].err)
        assert ended == status
        return said

    for one, other in (IADS, IADS[::-1]):
        wait_until(
            lambda at=one: known(masters[at]), lambda found, iad=other: not found[iad].silent
        )
    with Operator(masters["iad1"].operator) as operator:
        report = operator.ask_topic(CreateTopic("c", Topic("notes")), PATIENCE_MS)
    assert report.ok, report.message
    assert report.message == ""  # nowhere is it cheaper
    out = ask("iad1", "placement", "pin", "notes", "iad2").out
    assert out == "processor notes is pinned to iad2, and moves there\n"
    lives_at(masters, "iad1", "notes", "iad2")
    lives_at(masters, "iad2", "notes", "iad2")
    # The pin has gone along; it is taken away where the topic lives now.
    wait_until(lambda: known(masters["iad1"])["iad2"].facts.pins, len)
    err = ask("iad2", "placement", "move", "notes", "iad1", status=3).err
    assert "but it is pinned to iad2" in err
    ask("iad2", "placement", "unpin", "notes")
    # A plan's file, with a move that begins at iad2.
    plan = tmp_path / "plan.json"
    unit = {"kind": "processor", "name": "notes"}
    moves = [{"unit": unit, "source": "iad2", "target": "iad1"}]
    made = {"planner": "ffd", "moves": moves, "cost": [0.0, 0.0], "masters": [1, 1]}
    plan.write_text(json.dumps(made))
    assert ask("iad2", "placement", "apply", str(plan)).out == "1 move begins here\n"
    lives_at(masters, "iad2", "notes", "iad1")
    err = ask("iad2", "placement", "apply", str(plan), status=3).err
    assert "from iad2, but it is at iad1: plan anew" in err
    # It does its work there, and leaves when its master is drained.
    out = ask("iad1", "placement", "drain", "iad1", "--wait", "60s").out
    assert out.endswith("iad1 is empty: it may be stopped\n")
    lives_at(masters, "iad2", "notes", "iad2")
    with (
        Client(masters["iad2"].public) as client,
        client.subscribe('topic = "notes" and kind = "output"') as outputs,
    ):
        client.publish("notes", {"vote": 3})
        assert next(outputs).notification.attributes["vote"] == 3
    # Draining survives a restart.
    masters["iad1"].stop()
    masters["iad1"].start()
    assert known(masters["iad1"])["iad1"].facts.mode == "draining"


def asking(masters, capsys):
    """Runs a command of `fleet` at a master; what it printed."""

    def ask(iad, *arguments, status=0):
        assert run([*arguments, "--operator", masters[iad].operator, "--timeout", "60s"]) == status
        return capsys.readouterr().out

    return ask


def heard(masters):
    """Until each has heard of the other."""
    for one, other in (IADS, IADS[::-1]):
        wait_until(
            lambda at=one: known(masters[at]), lambda found, iad=other: not found[iad].silent
        )


def create(masters, iad, name):
    with Operator(masters[iad].operator) as operator:
        report = operator.ask_topic(CreateTopic("c", Topic(name)), PATIENCE_MS)
    assert report.ok, report.message
    return report.message


@pytest.mark.usefixtures("patient_clients")
def test_what_is_planned_is_applied(masters, tmp_path, capsys):
    """From a planner's file to the topic at its new master, which works on."""
    ask, file = asking(masters, capsys), tmp_path / "plan.json"
    heard(masters)
    for iad, name in zip(IADS, ("notes", "minutes"), strict=True):
        create(masters, iad, name)
        lives_at(masters, "iad1", name, iad)
        lives_at(masters, "iad2", name, iad)
    out = ask("iad1", "placement", "plan", "--planner", "ffd", "--file", str(file))
    assert "ffd: 1 move; masters in use 2 → 1" in out
    (move,) = json.loads(file.read_bytes())["moves"]
    name, source, target = move["unit"]["name"], move["source"], move["target"]
    assert ask(source, "placement", "apply", str(file)) == "1 move begins here\n"
    lives_at(masters, source, name, target)
    lives_at(masters, target, name, target)
    with (
        Client(masters[target].public) as client,
        client.subscribe(f'topic = "{name}" and kind = "output"') as outputs,
    ):
        client.publish(name, {"vote": 3})
        assert next(outputs).notification.attributes["vote"] == 3
    # Where all is as planned, a planner has nothing to do, and the plan is no plan any more.
    wait_until(
        lambda: ask("iad1", "placement", "plan", "--planner", "ffd", "--dry"),
        lambda out: out == "ffd: nothing is to be moved\n",
    )
    ask(source, "placement", "apply", str(file), status=3)


@pytest.fixture
def crowded(tmp_path):
    """A master with room for one topic, and a delegate."""
    addresses = {iad: free_address() for iad in IADS}
    pool = "".join(
        f'[[pool]]\niad = "{iad}"\naddress = "{address}"\nareas = ["b1/{iad}"]\n'
        for iad, address in addresses.items()
    )
    placement = '[placement]\nevery_s = 0.1\ndelegate = "iad2"\nmost_processors = {}\n'
    started = [
        PushMaster(tmp_path / iad, iad, addresses[iad], placement.format(most) + pool)
        for iad, most in zip(IADS, (1, 8), strict=True)
    ]
    yield dict(zip(IADS, started, strict=True))
    for master in started:
        master.stop()


@pytest.mark.usefixtures("patient_clients")
def test_a_topic_that_does_not_fit_moves_to_the_delegate_and_is_told(crowded, capsys):
    ask = asking(crowded, capsys)
    heard(crowded)
    assert create(crowded, "iad1", "notes") == ""
    lives_at(crowded, "iad2", "notes", "iad1")
    told = create(crowded, "iad1", "minutes")
    assert told == "it is delegated to iad2: no other master has room within the limits"
    lives_at(crowded, "iad1", "minutes", "iad2")
    lives_at(crowded, "iad2", "minutes", "iad2")
    why = "delegated to iad2: no other master has room within the limits"
    assert f"  {why}\n" in ask("iad2", "topic", "show", "minutes")
    assert "delegated" not in ask("iad1", "topic", "show", "notes")
    for iad in IADS:
        assert f"processor minutes is {why}\n" in ask(iad, "placement", "show")
    moves = ask("iad1", "placement", "show")
    assert "delegate" in next(line for line in moves.splitlines() if "settled" in line)

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
        assert run([*arguments, "--operator", masters[iad].operator, "--timeout", "60s"]) == status
        return capsys.readouterr()

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

"""Earlier states of the code beside this one: every pair of processes understands each other, and
each opens the files of the other, or says in words why not. `make test-upgrades`."""

from __future__ import annotations

import sqlite3

import pytest

from agent.wire import messages as m
from testkit.waiting import PATIENCE_MS, PATIENCE_S
from tests.trust.market import create
from tests.trust.rig import IADS, NODES, ROOMS
from tests.upgrades.rig import Mixed, MixedMarket

ALL = sorted(ROOMS.values())


@pytest.fixture
def mixed(tmp_path, earlier):
    made = []

    def mixed(*old, **options):
        made.append(Mixed(tmp_path, earlier, *old, **options))
        made[-1].start()
        return made[-1]

    yield mixed
    for each in made:
        each.stop()


def answered(fleet, iad="iad1"):
    """Everything, from both IADs, at this one's master."""
    with fleet.client(iad) as client:
        query = m.Query(
            "q", ("b1",), m.Window(last_s=600), m.Slo(99.0, 60_000.0), timeout_ms=100_000.0
        )
        client.send(query)
        return client.receive(PATIENCE_MS)


def agree(fleet):
    """Whoever asks, at whichever master, gets all readings of both."""
    for iad in IADS:
        answer = answered(fleet, iad)
        assert (answer.status, sorted(r.area for r in answer.results)) == ("complete", ALL)
        assert fleet.old_client(iad) == ["complete", *ALL]
        assert fleet.old_operator(iad) == [iad, f"{NODES[iad]}:live"]
        assert fleet.status(iad).counters["malformed_frames"] == 0


@pytest.mark.parametrize(
    "old",
    [
        [],
        [NODES["iad1"]],
        ["iad1"],
        ["iad1", NODES["iad1"]],
        ["iad1", "iad2", *NODES.values()],
    ],
    ids=["no process", "a node", "a master", "an IAD", "all"],
)
def test_queries_between_the_two(mixed, old):
    agree(mixed(*old))


@pytest.mark.parametrize("old", ["iad1", "iad2"])
def test_alerts_travel_between_masters_of_the_two(tmp_path, earlier, old):
    fleet = Mixed(tmp_path, earlier, old, overlay=True)
    try:
        fleet.start_linked()
        for iad in IADS:
            (other,) = set(IADS) - {iad}
            with fleet.client(iad) as client, client.subscribe(f'iad = "{other}"') as alerts:
                fleet.start_node(other)
                attributes = next(iter(alerts)).notification.attributes
            assert (attributes["iad"], attributes["trigger"]) == (other, "warm")
    finally:
        fleet.stop()


@pytest.mark.parametrize("old", [[], ["iad1"]], ids=["masters are new", "one is not"])
def test_a_subscriber_of_the_earlier_state_hears_alerts_of_both_iads(tmp_path, earlier, old):
    fleet = Mixed(tmp_path, earlier, *old, overlay=True)
    try:
        fleet.start_linked()
        for iad in IADS:
            with fleet.old_subscriber("iad2", f'iad = "{iad}"') as heard:
                fleet.start_node(iad)
                assert heard.communicate(timeout=PATIENCE_S)[0].split() == [iad, "warm"]
    finally:
        fleet.stop()


@pytest.mark.parametrize("old", [["drs"], ["iad1"], ["drs", "iad2"]], ids="-".join)
def test_a_service_is_set_up_between_the_two(tmp_path, earlier, old):
    fleet = MixedMarket(tmp_path, earlier, *old)
    try:
        fleet.start()
        for iad in IADS:
            report = fleet.ask_service(iad, create(f"of-{iad}"))
            assert report.ok, report
    finally:
        fleet.stop()


def test_files_of_the_earlier_state_are_opened_and_taken_back(mixed):
    """An upgrade of a whole IAD, and its rollback with what the newer one wrote."""
    names = ["iad1", NODES["iad1"]]
    fleet = mixed(*names)
    before = answered(fleet)
    assert before.status == "complete"
    for old in (set(), set(names)):
        fleet.stop(*names)
        fleet.old = old
        fleet.start_master("iad1")
        fleet.start_node("iad1")
        fleet.wait_until("iad1", lambda s: s.nodes and s.nodes[0].state == "live")
        fleet.wait_until("iad1", lambda s: not s.unreachable_iads)
        agree(fleet)
        for name in names:
            said = fleet.said(name)
            for word in ("Traceback", "set aside", "damaged", "cannot be read"):
                assert word not in said, said


def test_a_file_of_a_later_format_is_refused_in_words(mixed):
    fleet = mixed()
    fleet.stop("iad1")
    with sqlite3.connect(fleet.folder / "iad1.sqlite") as changing:
        changing.execute("PRAGMA user_version = 99")
    changing.close()
    fleet.start_master("iad1")
    assert fleet.processes["iad1"].wait(PATIENCE_S) != 0
    last = fleet.said("iad1").splitlines()[-1]
    assert "written by a newer version of Sanderling" in last

"""The console in a real browser while things change: alerts, sessions, the gateway, the fleet."""

from __future__ import annotations

import json

import pytest

from agent.gateway import tokens
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.testbed import Testbed
from testkit.waiting import wait_until
from tests.gateway import console_browser
from tests.gateway.building import Building
from tests.gateway.console_browser import SEEN, VIEWS, find_no_fault
from tests.gateway.fake import FakeGateway
from tests.gateway.fake_api import VIEWS as MADE_UP
from tests.gateway.fake_api import fake_api
from tests.gateway.process import Process

pytestmark = console_browser.needs_chromium
gateway = console_browser.gateway
served = console_browser.served
tab = console_browser.tab


@pytest.mark.long
def test_an_alert_is_announced_and_after_a_break_comes_once(tab, gateway):
    tab.open(f"{gateway.url}#/alerts", 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["alerts"])))
    wait_until(lambda: gateway.resumed)  # the log shows what came before; only news is announced
    gateway.alert("raised", "hot", "b1/f4/r413", 31.5)
    tab.wait_for(
        "document.querySelector('#announced').innerText.includes('hot raised in Meeting 4.13')"
    )
    asked = len(gateway.resumed)
    gateway.drop_streams()
    gateway.alert("raised", "freezing", "b1/f4/r415", 12.25)
    wait_until(lambda: len(gateway.resumed) > asked)
    tab.wait_for("document.querySelector('#announced').innerText.includes('freezing')")
    # What came last before the break is where it goes on.
    assert gateway.resumed[-1] in {"8", "9"}
    tab.wait_for("document.querySelectorAll('tbody tr').length == 9")
    log = tab.evaluate("[...document.querySelectorAll('tbody tr')].map(r => r.innerText)")
    assert len([row for row in log if "freezing raised" in row]) == 1


@pytest.mark.long
def test_two_tabs_share_one_stream(tab, gateway):
    tab.open(gateway.url, 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    with tab.another() as second:
        second.open(gateway.url, 1280)
        second.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
        gateway.values("b1/f4/r413", "temperature", 33.25)
        second.wait_for("document.querySelector('.rooms').innerText.includes('33.3')")
    assert gateway.requests.count("/api/v1/stream") == 1


@pytest.mark.long
def test_a_gateway_that_goes_away_is_told_and_comes_back(tab, gateway):
    tab.open(gateway.url, 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    gateway.stop()
    tab.wait_for(
        "document.querySelector('.banner').innerText.includes('The gateway does not answer')"
    )
    assert tab.evaluate(SEEN.format(json.dumps(VIEWS["rooms"])))
    gateway.start()
    tab.wait_for("!document.querySelector('.banner').innerText")
    gateway.values("b1/f4/r413", "temperature", 33.25)
    tab.wait_for("document.querySelector('.rooms').innerText.includes('33.3')")


@pytest.mark.long
def test_a_view_that_is_opened_meanwhile_comes_with_the_gateway(tab, gateway):
    tab.open(gateway.url, 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    gateway.stop()
    tab.evaluate("location.hash = '#/outputs'")
    tab.wait_for("document.querySelector('main').innerText.includes('could not be loaded')")
    gateway.start()
    tab.wait_for(SEEN.format(json.dumps(VIEWS["outputs"])))


@pytest.mark.long
def test_without_a_session_the_page_says_what_to_do(tab):
    with fake_api(role="") as gateway:
        tab.open(gateway.url, 390)
        tab.wait_for("document.querySelector('h1')?.innerText == 'This page needs a link'")
        assert "fleet gateway link" in tab.evaluate("document.body.innerText")
        assert tab.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.long
def test_a_session_that_ends_is_not_taken_for_a_gateway_that_is_away(tab, gateway):
    tab.open(gateway.url, 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    gateway.role = ""
    gateway.drop_streams()
    tab.wait_for("document.querySelector('h1')?.innerText == 'This page needs a link'")


@pytest.mark.long
def test_who_may_not_see_nodes_is_told_so(tab):
    with fake_api(role="viewer") as gateway:
        tab.open(f"{gateway.url}#/fleet", 1280)
        tab.wait_for("document.querySelector('main').innerText.includes('For operators')")
        assert "/api/v1/fleet" not in gateway.requests
        assert "/api/v1/fleet/all" not in gateway.requests


@pytest.mark.long
def test_whose_nodes_the_fleet_shows_is_said(tab, served):
    tab.open(f"{served.url}#/fleet", 1280)
    whose = "This is the fleet of iad4: policy edfq"
    tab.wait_for(f"document.querySelector('main').innerText.includes({json.dumps(whose)})")
    tab.wait_for(
        "document.querySelector('main').innerText.includes('Nodes of iad1, iad2 and iad3 are')"
    )


@pytest.mark.long
def test_the_fleet_shows_all_domains_and_those_that_do_not_answer(tab):
    with fake_api() as gateway:
        (iad4,) = gateway.iads
        dry = iad4["status"] | {"iad": "iad2", "rooms": {"b1/f2/r201": "Archive"}}
        dry["nodes"] = [dry["nodes"][0] | {"node": "n1", "areas": ["b1/f2/r201"]}]
        gateway.iads += [
            {"iad": "iad2", "status": dry, "problem": "", "nodes": 1},
            {"iad": "iad3", "status": None, "problem": "no reply within 2.0 s", "nodes": 5},
        ]
        tab.open(f"{gateway.url}#/fleet", 1280)
        tab.wait_for("document.querySelectorAll('table').length >= 2")
        domains, nodes = tab.evaluate(
            "[...document.querySelectorAll('main .wide > table')].slice(0, 2)"
            ".map(t => [...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.innerText.trim())))"
        )
        assert [row[0] for row in domains] == ["iad3", "iad2", "iad4"]
        assert "does not answer" in domains[0][1]
        assert "no reply within 2.0 s" in domains[0][1]
        assert {row[1] for row in nodes} == {"iad2", "iad4"}
        (archive,) = [row for row in nodes if row[:2] == ["n1", "iad2"]]
        assert "Archive" in archive
        whose = "document.querySelector('main').innerText.includes('Nodes of iad1 are shown by')"
        tab.wait_for(whose)  # which domains there are is asked beside their status
        assert tab.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize(
    ("nodes", "tile"),
    [
        (5, "7/13\nNODES LIVE"),
        (None, "7/8\nNODES LIVE; HOW MANY IAD3 HAS IS NOT KNOWN"),
    ],
)
def test_nodes_of_a_silent_master_are_not_left_out(tab, nodes, tile):
    with fake_api() as gateway:
        gateway.iads.append({"iad": "iad3", "status": None, "problem": "no reply", "nodes": nodes})
        tab.open(f"{gateway.url}#/fleet", 1280)
        tab.wait_for(SEEN.format("'.tile'"))
        tiles = tab.evaluate("[...document.querySelectorAll('.tile')].map(t => t.innerText)")
        assert tile in [each.upper() for each in tiles]
        # The pod of a node that is lost is neither idle nor there.
        assert "6/7\nPODS IDLE" in [each.upper() for each in tiles]


def test_alerts_say_of_where_nothing_is_heard(tab, served):
    tab.open(f"{served.url}#/alerts", 1280)
    tab.wait_for("document.querySelector('.note.warm')?.innerText.includes('Not heard now')")
    for said in ("Nothing was missed of what is heard, since", "its sensor node is down"):
        tab.wait_for(f"document.querySelector('main').innerText.includes('{said}')")
    assert not tab.evaluate(SEEN.format("'.note.well'"))


def test_alerts_say_that_the_gateway_takes_none(tab):
    with fake_api() as gateway:
        gateway.source["alerts"] = "alerts cannot be logged: database or disk is full"
        tab.open(f"{gateway.url}#/alerts", 1280)
        for said in (
            "No alerts come now: alerts cannot be logged: database or disk is full.",
            "Nothing was missed of what has come, since",
        ):
            tab.wait_for(f"document.querySelector('main').innerText.includes('{said}')")
        assert not tab.evaluate(SEEN.format("'.note.well'"))


def test_alerts_say_that_the_gateway_is_not_heard(tab, gateway):
    tab.open(f"{gateway.url}#/alerts", 1280)
    tab.wait_for("document.querySelector('main').innerText.includes('raised now.')")
    gateway.stop()
    for said in ("raised when last heard.", "No alerts come now: the gateway does not answer."):
        tab.wait_for(f"document.querySelector('main').innerText.includes('{said}')")
    assert not tab.evaluate(SEEN.format("'.note.well'"))
    gateway.start()
    tab.wait_for("document.querySelector('main').innerText.includes('raised now.')")


@pytest.mark.long
def test_where_nothing_ails_no_choice_is_offered(tab):
    with fake_api() as gateway:
        (iad4,) = gateway.iads
        well = [node for node in iad4["status"]["nodes"] if node["node"] == "iad4-n2"]
        gateway.iads = [iad4 | {"status": iad4["status"] | {"nodes": well}}]
        tab.open(f"{gateway.url}#/fleet", 1280)
        tab.wait_for("document.querySelector('main').innerText.includes('No node has a problem.')")
        assert not tab.evaluate(SEEN.format("'main input'"))
        gateway.iads = [iad4 | {"status": None, "problem": "no reply"}]
        told = json.dumps("iad4 does not answer: no reply")
        tab.wait_for(f"document.querySelector('main').innerText.includes({told})")


@pytest.mark.long
def test_values_of_alerts_have_their_units(tab, served):
    tab.open(f"{served.url}#/alerts", 1280)
    tab.wait_for("document.querySelector('main').innerText.includes('humidity 63.4 %')")
    pinned = tab.evaluate("document.querySelector('.cards').innerText")
    assert "humidity 63.4 %, rising by 0.33 % a minute when it was raised" in pinned


@pytest.mark.long
def test_a_node_that_is_killed_shows_in_the_rooms(tab, tmp_path):
    """A real master and its nodes behind a real gateway; the node comes back, too."""
    with Testbed(part_of(building_fleet(emulate=False), 1, 2), tmp_path / "bed") as bed:
        for _ in bed.start():
            pass
        first, second = bed.plan.nodes
        folder = tmp_path / "gateway"
        folder.mkdir()
        text = f'[master]\naddresses = ["{bed.public("iad1")}"]\n[console]\nevery_s = 0.5\n'
        with Process(folder, text) as made:
            url = f"http://127.0.0.1:{made.port}/"
            tab.open(f"{url}login?code={tokens.create_link(made.access, 'viewer')}", 1280)
            tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))

            def row(area):
                return (
                    "[...document.querySelectorAll('.rooms .body .line')]"
                    f".find(row => row.innerText.includes({json.dumps(area)}))?.innerText"
                )

            def is_live(area):
                tab.wait_for(f"{row(area)}?.includes('%') && !{row(area)}.includes('Stale')")

            is_live(first.area)
            is_live(second.area)
            bed.kill(first.name)
            # Its last values stay, with their age.
            for word in ("Stale", "its sensor node is down", "%"):
                tab.wait_for(f"{row(first.area)}?.includes({json.dumps(word)})")
            is_live(second.area)
            bed.spawn(first.name)
            is_live(first.area)


@pytest.mark.long
def test_a_thousand_rooms_are_drawn_as_they_are_scrolled_to(tab):
    rooms = {floor: tuple(range(floor * 100, floor * 100 + 100)) for floor in range(4, 8)}
    with fake_api(Building(rooms | {8: tuple(range(8000, 8600))})) as gateway:
        tab.open(gateway.url, 1280)
        tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
        assert "of 1,000 rooms" in tab.evaluate("document.querySelector('.lead').innerText")
        assert tab.evaluate("document.querySelectorAll('.rooms .body .line').length") < 60
        tab.evaluate("scrollTo(0, document.body.scrollHeight)")
        tab.wait_for("!!document.querySelector('[aria-rowindex=\"1001\"]')")
        assert tab.evaluate("document.querySelectorAll('.rooms .body .line').length") < 60


@pytest.mark.long
def test_the_gateway_itself_serves_what_the_page_expects(tab, tmp_path):
    """The views that the made-up API shows, over the real one."""
    (tmp_path / "plan.json").write_text(json.dumps(MADE_UP["plan"]))
    (tmp_path / "results.json").write_text(json.dumps(MADE_UP["comparison"]))
    console = {"every_s": 0.5, "plan": "plan.json", "results": "results.json"}
    with FakeGateway(tmp_path, console=console) as made:
        made.url = f"http://127.0.0.1:{made.port}/"
        code = tokens.create_link(made.access, "operator")
        tab.open(f"{made.url}login?code={code}", 1280)
        area, room = next(iter(made.fleet.areas.items()))
        tab.wait_for(f"document.querySelector('.rooms')?.innerText.includes({json.dumps(room)})")
        tab.wait_for(SEEN.format("'.spark path'"))  # a second round came
        made.fleet.raise_alert(area)
        tab.wait_for(
            f"document.querySelector('#announced').innerText.includes('hot raised in {room}')"
        )
        # Nothing is placed or set up.
        shown = VIEWS | {"placement": "main p", "outputs": "main p"}
        for view, selector in shown.items():
            tab.evaluate(f"location.hash = '#/{view.replace('b1/f4/r413', area)}'")
            tab.wait_for(SEEN.format(json.dumps(selector)))
        tab.evaluate(f"location.hash = '#/ask?area={area}'")
        tab.wait_for(SEEN.format("'.token'"))
        tab.evaluate("document.querySelector('form.ask').requestSubmit()")
        tab.wait_for("document.querySelector('#result')?.innerText.includes('Kept')")
        find_no_fault(tab, made, 1280)

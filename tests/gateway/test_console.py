"""The console in a real browser: every view on a phone and on a desk, light and dark, by keyboard,
for everybody, over a gateway that goes away and comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.gateway import tokens
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.testbed import Testbed
from testkit.browser import browser, program
from testkit.waiting import wait_until
from tests.gateway.building import Building
from tests.gateway.fake import FakeGateway
from tests.gateway.fake_api import VIEWS as MADE_UP
from tests.gateway.fake_api import fake_api
from tests.gateway.process import Process

pytestmark = pytest.mark.skipif(
    program() is None, reason="no Chromium here; tools/missing_packages.sh long names its package"
)
AXE = Path(__file__).parent / "vendor/axe.min.js"
# A view, and what is there as soon as it shows its answer.
VIEWS = {
    "rooms": ".rooms .body .line .value",
    "room/b1/f4/r413": ".channel canvas",
    "alerts": "tbody .place",
    "ask": "#areas",
    "deadlines": ".pair .bar",
    "fleet": "tbody .mark",
    "placement": "tbody td",
    "what-if": ".plot canvas",
    "outputs": "tbody .mark",
}
SEEN = "!!document.querySelector({})"
WAYS = [(1280, False), (390, False), (1280, True), (390, True)]
# Serious and critical findings, with what each is about.
FINDINGS = """
axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
  .filter(v => v.impact == 'serious' || v.impact == 'critical')
  .map(v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 160) + n.failureSummary).join(' | ')))
"""
# Elements of the view that come before its heading.
TOO_EARLY = """
[...document.querySelectorAll('main h2, main table, main section')]
  .filter(e => document.querySelector('h1').compareDocumentPosition(e) & 2)
  .map(e => e.outerHTML.slice(0, 120))
"""
# What reaches beyond the window, but for what scrolls by itself.
TOO_WIDE = """
[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.wide, .plot, .unseen, .skip, pre'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.outerHTML.slice(0, 120))
"""
FOCUSED = "document.activeElement.textContent.trim()"


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture(scope="module")
def served():
    """A gateway for tests that only look."""
    with fake_api() as gateway:
        yield gateway


@pytest.fixture
def gateway():
    with fake_api() as gateway:
        yield gateway


def find_no_fault(tab, gateway, width):
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate(TOO_WIDE) == []
    assert tab.evaluate(TOO_EARLY) == []
    assert tab.complaints() == []
    assert [url for url in tab.requests() if not url.startswith(gateway.url)] == []
    tab.evaluate(AXE.read_text())
    assert tab.evaluate(FINDINGS) == []


def test_the_rooms_come_and_nothing_from_elsewhere(tab, served):
    tab.open(served.url, 390)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    assert "of 32 rooms need a look" in tab.evaluate("document.querySelector('.lead').innerText")
    find_no_fault(tab, served, 390)


@pytest.mark.long
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("width", "dark"), WAYS)
def test_every_view_fits_and_can_be_read_by_everybody(tab, served, width, dark, view):
    tab.open(f"{served.url}#/{view}", width, dark=dark)
    tab.wait_for(SEEN.format(json.dumps(VIEWS[view])))
    find_no_fault(tab, served, width)


@pytest.mark.long
def test_the_way_to_a_room_by_keyboard_alone(tab, served):
    tab.open(served.url, 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    tab.press("Tab")
    tab.wait_for(f"{FOCUSED} == 'To the content'")
    tab.press("Enter", "\r")
    tab.press("Tab")
    tab.type("4.13")
    tab.wait_for("document.querySelectorAll('.place').length == 1")
    for _ in range(30):
        tab.press("Tab")
        if "4.13" in tab.evaluate(FOCUSED):
            break
    tab.press("Enter", "\r")
    tab.wait_for("document.title == 'Meeting 4.13 · Sanderling'")
    tab.wait_for("document.activeElement.tagName == 'H1'")


# What can be used in a view; the focus is shown, and each was there.
USABLE = """
[...document.querySelectorAll('main :is(a[href], button, input, select, summary, [tabindex="0"])')]
  .filter(e => !e.disabled && e.checkVisibility())
"""
VISIT = """
(e => {
  if (!e.closest('main')) return '';
  e.dataset.visited = 1;
  const style = getComputedStyle(e);
  return style.outlineStyle == 'none' && style.boxShadow == 'none' ? e.outerHTML : '';
})(document.activeElement)
"""
BY_KEYS = {
    "Alerts": "alerts",
    "Deadlines": "deadlines",
    "Fleet": "fleet",
    "Placement": "placement",
    "What if": "what-if",
    "Outputs": "outputs",
}


@pytest.mark.long
@pytest.mark.parametrize("name", BY_KEYS)
def test_a_view_is_opened_and_used_by_keyboard_alone(tab, served, name):
    tab.open(served.url, 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    for _ in range(12):
        tab.press("Tab")
        if tab.evaluate(FOCUSED).startswith(name):
            break
    tab.press("Enter", "\r")
    tab.wait_for(SEEN.format(json.dumps(VIEWS[BY_KEYS[name]])))
    tab.wait_for(f"document.activeElement.tagName == 'H1' && {FOCUSED} == {json.dumps(name)}")
    left = f"{USABLE}.filter(e => !e.dataset.visited).map(e => e.outerHTML.slice(0, 120))"
    for _ in range(6):  # what comes while a round goes on is in the next
        for _ in range(tab.evaluate(f"{USABLE}.length")):
            tab.press("Tab")
            assert tab.evaluate(VISIT) == "", "its focus cannot be seen"
        if not tab.evaluate(left):
            break
    assert tab.evaluate(left) == []


@pytest.mark.long
def test_another_load_is_tried_by_keyboard(tab, served):
    tab.open(f"{served.url}#/what-if", 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["what-if"])))
    said = "document.querySelector('main').innerText.match(/Questions a second: ([\\d.]+)/)[1]"
    before = float(tab.evaluate(said))
    tab.evaluate("document.querySelector('input[type=range]').focus()")
    tab.press("ArrowUp")
    tab.wait_for(f"{said} > {before}")
    tab.press("ArrowDown")
    tab.wait_for(f"{said} == {before}")


@pytest.mark.long
def test_arrows_go_from_room_to_room(tab, served):
    tab.open(served.url, 1280)
    tab.evaluate("sessionStorage.clear()")
    tab.open(served.url, 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    tab.evaluate("document.querySelector('.rooms .place').focus()")
    first = tab.evaluate(FOCUSED)
    tab.press("ArrowDown")
    tab.wait_for(f"{FOCUSED} != {json.dumps(first)}")
    tab.press("ArrowUp")
    tab.wait_for(f"{FOCUSED} == {json.dumps(first)}")


@pytest.mark.long
def test_a_question_asked_by_keyboard_is_answered_in_words(tab, served):
    tab.open(f"{served.url}#/ask", 1280)
    tab.wait_for(SEEN.format("'#areas'"))
    tab.evaluate("document.querySelector('#areas').focus()")
    tab.wait_for("document.querySelectorAll('[role=option]').length > 3")
    tab.type("b1/f5")
    tab.wait_for("document.querySelector('[role=option]').innerText.startsWith('b1/f5')")
    tab.press("ArrowDown")
    tab.press("Enter", "\r")
    assert "b1/f5" in tab.evaluate("document.querySelector('.token').innerText")
    tab.evaluate("document.querySelector('form.ask').requestSubmit()")
    tab.wait_for("document.activeElement.id == 'result'")
    assert tab.evaluate(FOCUSED).startswith("Partial: 7 of 8 areas answered in")
    assert "its sensor node is down" in tab.evaluate("document.querySelector('.result').innerText")


@pytest.mark.long
def test_services_are_offered_with_what_they_promise(tab, gateway):
    tab.open(f"{gateway.url}#/ask", 1280)
    tab.wait_for("document.querySelectorAll('#services option').length == 2")
    offered = "[...document.querySelectorAll('#services option')].map(o => [o.value, o.label])"
    assert tab.evaluate(offered) == [
        ["humidity", "humidity"],
        ["temperature", "temperature, p99 ≤ 500 ms"],
    ]
    # There is none of the usual name.
    tab.wait_for("document.querySelector('[list=services]').value == 'humidity'")
    assert "/api/v1/deadlines" not in gateway.requests


@pytest.mark.long
@pytest.mark.parametrize(
    ("latency", "starts", "tells"),
    [
        (500, "Kept: all 8 areas answered in 2", "Nothing came late"),
        (210, "Complete, but late: all 8 areas answered", "of its budget of 210 ms"),
        (20, "Refused. No node can be that fast", "idle nodes take 212 ms"),
    ],
)
def test_each_end_of_a_question_has_its_words(tab, served, latency, starts, tells):
    tab.open(f"{served.url}#/ask?area=b1/f4", 1280)
    tab.wait_for(SEEN.format("'.token'"))
    tab.evaluate(
        "(field => { field.value = " + json.dumps(str(latency)) + ";"
        "field.dispatchEvent(new Event('input')); })"
        "(document.querySelector('.objective input'))"
    )
    tab.evaluate("document.querySelector('form.ask').requestSubmit()")
    tab.wait_for("document.activeElement.id == 'result'")
    assert tab.evaluate(FOCUSED).startswith(starts)
    assert tells in tab.evaluate("document.querySelector('.result').innerText")
    if not starts.startswith("Refused"):  # a browser complains of every status from 400 on
        find_no_fault(tab, served, 1280)


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
            {"iad": "iad2", "status": dry, "problem": ""},
            {"iad": "iad3", "status": None, "problem": "no reply within 2.0 s"},
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


# --- what needs no page but a browser's JavaScript ---------------------------------------------


def in_module(tab, served, module, expression):
    if not tab.evaluate("location.href").startswith(served.url):
        tab.open(served.url, 1280)
    return tab.evaluate(f"import('/static/{module}').then(m => {expression})")


@pytest.mark.long
@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (340, "340 ms"),
        (12_000, "12 s"),
        (95_000, "1 min 35 s"),
        (7_800_000, "2 h 10 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_durations_are_said_in_two_units(tab, served, ms, said):
    assert in_module(tab, served, "words.js", f"m.duration({ms})") == said


@pytest.mark.long
@pytest.mark.parametrize(("reason", "said"), [("plan", "asked"), ("drift", "drift")])
def test_a_move_by_hand_is_asked_for(tab, served, reason, said):
    assert in_module(tab, served, "views/placement.js", f"m.why('{reason}')") == said


@pytest.mark.long
def test_a_message_of_a_topic_does_not_read_like_an_alert(tab, served):
    told = "{kind: 'input', topic: 'x', iad: 'iad1', trigger: 'fire', area: 'b1/r1', value: 9}"
    said = in_module(tab, served, "words.js", f"m.told({told})")
    assert said == "message of topic x from iad1 in b1/r1"


@pytest.mark.long
@pytest.mark.parametrize(
    ("state", "value", "quality", "is_"),
    [
        ("live", 22, "good", "well"),
        ("live", 27, "good", "out"),
        ("live", 26.04, "good", "well"),
        ("live", None, "bad", "bad"),
        ("stale", 27, "good", "stale"),
        ("missing", 27, "good", "missing"),
        ("live", 22, "suspect", "suspect"),
    ],
)
def test_a_room_is_judged_by_its_worst(tab, served, state, value, quality, is_):
    reading = {"value": value, "quality": quality}
    room = json.dumps({"state": state, "channels": {"temperature": reading}})
    said = in_module(tab, served, "comfort.js", f"m.judge({room}, m.DEFAULTS)")
    assert said["state"] == is_


@pytest.mark.long
def test_a_log_that_began_anew_is_followed_from_its_beginning(tab, served):
    told = """(state => {
        m.apply(state, 'alert', {position: 90}); m.apply(state, 'alert', {position: 90});
        m.apply(state, 'snapshot', {time_ms: 1, rooms: [], source: {state: 'up'}, position: 2});
        m.apply(state, 'alert', {position: 3});
        return [state.alerts.map(a => a.position), state.position];
    })(m.empty())"""
    assert in_module(tab, served, "feed.js", told) == [[3, 90], 3]


@pytest.mark.long
def test_messages_of_topics_are_no_alerts(tab, served):
    told = """(state => [
        m.apply(state, 'alert', {position: 1, attributes: {topic: 'comfort', kind: 'output'}}),
        m.apply(state, 'alert', {position: 2, attributes: {trigger: 'hot', kind: 'raised'}}),
        state.alerts.map(a => a.position), state.position
    ])(m.empty())"""
    assert in_module(tab, served, "feed.js", told) == [False, True, [2], 2]

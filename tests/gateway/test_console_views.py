"""Views of the console in a real browser: on a phone and on a desk, light and dark, by keyboard."""

from __future__ import annotations

import json

import pytest

from tests.gateway import console_browser
from tests.gateway.building import Building
from tests.gateway.console_browser import SEEN, VIEWS, find_no_fault
from tests.gateway.fake_api import VIEWS as MADE_UP
from tests.gateway.fake_api import fake_api

pytestmark = console_browser.needs_chromium
gateway = console_browser.gateway
served = console_browser.served
tab = console_browser.tab


WAYS = [(width, dark) for width in (1280, 390, 360) for dark in (False, True)]
FOCUSED = "document.activeElement.textContent.trim()"


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


@pytest.mark.parametrize(
    ("areas", "starts"),
    [
        (["b1/f4", "b1/f99"], "Kept: all 8 areas answered"),
        (["b1/f4", "b1/f99, b1/f4 "], "Kept: all 8 areas answered"),
        (["b1/f99"], "There is no such area."),
    ],
)
def test_an_area_that_nobody_knows_is_not_missing(tab, served, areas, starts):
    tab.open(f"{served.url}#/ask?area={areas[0]}", 1280)
    tab.wait_for(SEEN.format("'.token'"))
    for more in areas[1:]:
        tab.evaluate("document.querySelector('#areas').focus()")
        tab.type(more)
    tab.evaluate("document.querySelector('form.ask').requestSubmit()")
    tab.wait_for("document.activeElement.id == 'result'")
    assert tab.evaluate(FOCUSED).startswith(starts)
    said = tab.evaluate("document.querySelector('.result').innerText")
    assert "No area b1/f99; did you mean b1/f4/r413?" in said
    assert "What is missing" not in said


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


def test_a_room_has_its_channels_in_the_order_of_the_list(tab, served):
    tab.open(f"{served.url}#/rooms", 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    heads = "[...document.querySelectorAll('.rooms [role=columnheader]')].map(e => e.innerText)"
    assert [each for each in tab.evaluate(heads) if each][2:4] == ["Temperature", "Humidity"]
    tab.open(f"{served.url}#/room/b1/f4/r413", 1280)
    tab.wait_for(SEEN.format("'.channel canvas'"))
    drawn = "[...document.querySelectorAll('.channel h2')].map(e => e.firstChild.data)"
    assert tab.evaluate(drawn) == ["Temperature", "Humidity"]
    now = "[...document.querySelectorAll('.now .big small')].map(e => e.firstChild.data)"
    assert tab.evaluate(now) == ["Temperature", "Humidity"]


CUT = """
[...document.querySelectorAll('.rooms .state small')]
  .filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 1
    || e.getBoundingClientRect().bottom > e.closest('.line').getBoundingClientRect().bottom)
  .map(e => e.innerText)
"""


def test_why_a_room_is_not_live_is_not_cut_on_a_phone(tab):
    building = Building()
    for room in building.rooms:
        room.update(state="stale", reason="iad_unreachable")
    with fake_api(building) as gateway:
        tab.open(gateway.url, 390)
        why = "the master of its domain does not answer"
        tab.wait_for(f"document.querySelector('.rooms')?.innerText.includes({json.dumps(why)})")
        assert tab.evaluate(CUT) == []


LINES = "document.querySelectorAll('.rooms .body .line').length"
MOST = f"""
window.most = 0;
new MutationObserver(() => {{ window.most = Math.max(window.most, {LINES}); }})
  .observe(document.querySelector('.rooms .body'), {{childList: true}});
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_paper_has_every_room(tab, served, width):
    tab.open(served.url, width)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    tab.evaluate(MOST)
    tab.call("Page.printToPDF")
    assert tab.evaluate("window.most") == 32
    tab.wait_for(f"{LINES} < 32")


def test_paper_says_what_is_chosen_and_cuts_no_row(tab, served):
    tab.open(served.url, 1280, dark=True)
    tab.wait_for(SEEN.format(json.dumps(VIEWS["rooms"])))
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    feature = {"name": "prefers-color-scheme", "value": "dark"}
    tab.call("Emulation.setEmulatedMedia", media="print", features=[feature])
    try:
        style = "getComputedStyle(document.querySelector('{}')).{}"
        assert tab.evaluate(style.format(".banner", "display")) != "none"
        assert tab.evaluate(style.format(".tools", "display")) != "none"
        assert tab.evaluate(style.format(".rooms .line", "breakInside")) == "avoid"
        assert tab.evaluate(style.format("body", "backgroundColor")) != dark
    finally:
        tab.call("Emulation.setEmulatedMedia", media="")


CHOSEN = "[...document.querySelectorAll('.chip[aria-current]')].map(e => e.innerText).join()"


@pytest.mark.parametrize(
    ("minutes", "opens"),
    [(4, "10 minutes"), (40, "1 hour"), (190, "6 hours"), (600, "24 hours")],
)
def test_a_room_opens_on_the_readings_that_are_there(tab, minutes, opens):
    building = Building()
    building.since_ms = building.started_ms - minutes * 60_000
    with fake_api(building) as gateway:
        tab.open(f"{gateway.url}#/room/b1/f4/r413", 1280)
        tab.wait_for(SEEN.format("'.channel canvas'"))
        assert tab.evaluate(CHOSEN) == opens
        tab.evaluate("location.hash = '#/room/b1/f4/r413?last=3d'")
        tab.wait_for(f"{CHOSEN} == '3 days'")
        tab.wait_for(SEEN.format("'.channel canvas'"))


def test_a_room_whose_node_is_down_is_not_said_to_have_no_readings(tab):
    building = Building()
    building.rooms[0].update(state="missing", reason="node_down", channels={})
    with fake_api(building) as gateway:
        tab.open(f"{gateway.url}#/room/{building.rooms[0]['area']}", 1280)
        tab.wait_for(SEEN.format("'.note.bad'"))
        told = tab.evaluate("document.querySelector('main').innerText")
        assert "Nothing of it is here: its sensor node is down." in told
        assert "No readings in this time" not in told


def test_a_room_that_nobody_knows_is_told_in_a_sentence(tab, served):
    tab.open(f"{served.url}#/room/b9", 1280)
    tab.wait_for(SEEN.format("'.note.bad'"))
    told = tab.evaluate("document.querySelector('.note.bad').innerText")
    assert told.startswith("This did not work. No service has an area b9")


def test_the_same_load_is_told_in_the_words_of_its_questions(tab, served):
    tab.open(f"{served.url}#/deadlines", 1280)
    tab.wait_for(SEEN.format("'.pair .bar'"))
    told = tab.evaluate("document.querySelector('.pair').innerText")
    assert "Misses the objective of one room of the slowest owner." in told
    assert "Every room" in told
    assert "1.2" not in told
    wide = "[...document.querySelectorAll('.pair .wide')].map(e => e.scrollWidth - e.clientWidth)"
    assert tab.evaluate(wide) == [0, 0]
    # Alike but for their service: each has its own.
    late = "document.querySelector('[aria-label^=\"Answers that were late\"] tbody')"
    tab.wait_for(late)
    assert "humidity" in tab.evaluate(f"{late}.innerText")


HIDDEN_CONTROLS = """
[...document.querySelectorAll('form.ask :is(select, button, input)')].filter(e => {
  const r = e.getBoundingClientRect();
  return document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2) !== e;
}).map(e => e.outerHTML)
"""


def click(tab, selector):
    """Press the mouse on an element and release it, where it is when pressed."""
    x, y = tab.evaluate(
        "(r => [r.x + 9, r.y + 9])"
        f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
    )
    for what in ("mousePressed", "mouseReleased"):
        tab.call("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)


@pytest.mark.parametrize("width", [1280, 390])
def test_offered_areas_cover_nothing_of_the_form(tab, served, width):
    tab.open(f"{served.url}#/ask", width, 1200)
    tab.wait_for(SEEN.format("'#areas'"))
    tab.evaluate("document.querySelector('#areas').focus()")
    tab.wait_for("document.querySelector('#offer-3')?.checkVisibility()")
    assert tab.evaluate(HIDDEN_CONTROLS) == []
    click(tab, "#offer-1")
    tab.wait_for(SEEN.format("'.token'"))
    assert tab.evaluate(HIDDEN_CONTROLS) == []


def test_the_button_is_pressed_while_areas_are_offered(tab, served):
    tab.open(f"{served.url}#/ask", 1280, 1200)
    tab.wait_for(SEEN.format("'#areas'"))
    tab.evaluate("document.querySelector('#areas').focus()")
    tab.type("b1/f4")
    tab.wait_for("document.querySelector('[role=option]')?.checkVisibility()")
    click(tab, "form.ask button.main")
    tab.wait_for("document.activeElement.id == 'result'")
    assert not tab.evaluate("document.querySelector('[role=option]')?.checkVisibility()")


def test_a_table_without_rows_says_so_on_a_phone(tab, monkeypatch):
    alone = {
        "facts": {"iad": "iad1", "epoch": 0, "number": 1, "next_s": 30.0, "cores": 2},
        "age_s": 0.0,
    }
    placement = MADE_UP["placement"] | {"known": [alone], "moves": [], "costs": []}
    monkeypatch.setitem(MADE_UP, "placement", placement)
    with fake_api() as gateway:
        tab.open(f"{gateway.url}#/placement", 390)
        tab.wait_for(SEEN.format("'tbody .quiet'"))
        right = "Math.max(...[...document.querySelectorAll('tbody .quiet')].map(e => {"
        right += "const r = document.createRange(); r.selectNodeContents(e);"
        right += "return r.getBoundingClientRect().right; }))"
        assert tab.evaluate(right) < 390 - 12
        # The master that tells is as new as can be.
        assert "now" in tab.evaluate("document.querySelector('tbody tr').innerText")

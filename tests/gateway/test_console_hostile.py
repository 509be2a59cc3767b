"""Names, texts and times that are made to break the page: it shows them as text, and goes on."""

from __future__ import annotations

import json

import pytest

from tests.gateway import console_browser
from tests.gateway.building import UNITS, Building
from tests.gateway.console_browser import SEEN
from tests.gateway.fake_api import fake_api

pytestmark = console_browser.needs_chromium
tab = console_browser.tab

LAST_MS = 2**53 - 1  # a node's clock may say so; JavaScript has no such date
MARKUP = '"><img src=x onerror=document.title=1><script>document.title=1</script>\u202e\u0007\0'
# Valid names of channels and areas, which every object of JavaScript has, too.
OWN = "constructor"
VIEWS = {
    "rooms": ".rooms .body .line .value",
    "room/b1/f4/r413": ".channel canvas",
    f"room/{OWN}": ".note",
    "room/%E0%A4%A": ".note",
    "alerts": "tbody .mark",
    "ask": "#areas",
}


@pytest.fixture(scope="module")
def hostile():
    building = Building()
    room = building.at("b1/f4/r413")
    room["name"] = MARKUP
    room["channels"][OWN] = {"value": 5.0, "time_ms": LAST_MS, "quality": "good", "unit": MARKUP}
    building.at("b1/f4/r446")["reason"] = OWN
    building.at("b1/f5/r564")["reason"] = MARKUP
    for trigger, area in ((MARKUP, "b1/f4/r413"), ("hot", OWN), (OWN, "__proto__")):
        alert = building.add_alert("raised", trigger, area, 1.0, LAST_MS)
        building.raised.append(
            {
                "trigger": trigger,
                "area": area,
                "since_ms": LAST_MS,
                "iad": MARKUP,
                "metric": OWN,
                "value": 1.0,
                "position": alert["position"],
                "text": MARKUP,
            }
        )
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(UNITS, OWN, MARKUP)
        with fake_api(building) as gateway:
            yield gateway


@pytest.mark.parametrize("view", VIEWS)
def test_what_is_hostile_is_shown_as_text(tab, hostile, view):
    tab.open(f"{hostile.url}#/{view}", 1280)
    tab.wait_for(SEEN.format(json.dumps(VIEWS[view])))
    # Of an area that is none there are no readings.
    assert [each for each in tab.complaints() if "Failed to load resource" not in each] == []
    assert tab.evaluate("document.title").endswith("Sanderling")
    assert tab.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert [url for url in tab.requests() if not url.startswith(hostile.url)] == []
    text = tab.evaluate("document.querySelector('main').innerText")
    assert "native code" not in text
    assert "\u202e" not in text + tab.evaluate("document.title"), "it would turn what follows"
    assert "Object" not in text.splitlines(), "what every object has is no area's name"

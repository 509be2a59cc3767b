"""A browser with the console in it, over a gateway that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.browser import browser, program
from tests.gateway.fake_api import fake_api

needs_chromium = pytest.mark.skipif(
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
# What reaches beyond the window, but for what scrolls by itself; on a phone no table does.
TOO_WIDE = """
[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.wide, .plot, .unseen, .skip, pre'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.outerHTML.slice(0, 120))
"""

SCROLLED = """
[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth)
  .map(e => `${e.getAttribute('aria-label')}: ${e.scrollWidth - e.clientWidth} px`)
"""
PHONE = 600


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
    if width < PHONE:
        tab.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        assert tab.evaluate(SCROLLED) == []
    assert tab.evaluate(TOO_EARLY) == []
    assert tab.complaints() == []
    assert [url for url in tab.requests() if not url.startswith(gateway.url)] == []
    tab.evaluate(AXE.read_text())
    assert tab.evaluate(FINDINGS) == []

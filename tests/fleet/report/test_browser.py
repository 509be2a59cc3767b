"""The page in a real browser, on a phone and on a desk."""

import pytest

from fleet.report.page.page import PAGE
from testkit.browser import browser, program

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        program() is None,
        reason="no Chromium here; tools/missing_packages.sh long names its package",
    ),
]
TOO_WIDE = """
[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.wide') && e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.outerHTML.slice(0, 80))
"""
CUT_OFF = """
[...document.querySelectorAll('.wide')]
  .filter(e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX != 'auto').length
"""
PICTURES = "[...document.images].map(i => i.complete && i.naturalWidth > 0 && i.clientWidth > 0)"
TAILS = """
[...document.querySelectorAll('thead th')].filter(e => e.innerText.includes('p99'))
  .map(e => [e.innerText, e.getBoundingClientRect().right
    <= e.closest('.wide').getBoundingClientRect().right])
"""
SMALLEST = """
Math.min(...[...document.querySelectorAll('main *')].filter(e => e.innerText && e.offsetParent)
  .map(e => parseFloat(getComputedStyle(e).fontSize)))
"""
# Contrast of a text with what is behind it, by WCAG 2; the least of the page.
CONTRAST = """
(() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => c.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  return Math.min(...[...document.querySelectorAll('body *')]
    .filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()))
    .map(e => {
      const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }));
})()
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, False), (360, True)])
def test_page_fits_and_stands_alone(tab, folder, width, dark):
    tab.open(folder / PAGE, width, dark=dark)
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate(TOO_WIDE) == []
    assert tab.evaluate(CUT_OFF) == 0
    assert tab.evaluate(PICTURES) == [True] * 10
    assert tab.evaluate(SMALLEST) >= 12
    assert tab.evaluate(CONTRAST) >= 4.5
    assert tab.complaints() == []
    assert tab.requests() == [(folder / PAGE).as_uri()]


def test_the_tail_of_no_table_is_cut_off_on_a_desk(tab, folder):
    tab.open(folder / PAGE, 1280)
    tails = tab.evaluate(TAILS)
    assert len(tails) > 4
    assert [name for name, is_seen in tails if not is_seen] == []


def test_an_operator_reads_first_what_concerns_the_rooms(tab, folder):
    tab.open(folder / PAGE, 390)
    titles = tab.evaluate("[...document.querySelectorAll('h2, h3')].map(e => e.innerText)")
    assert titles[:7] == [
        "At a glance", "Rooms and sensors", "Objectives", "What to do",
        "What the report is made from", "Climate", "By day",
    ]  # fmt: skip


def test_a_script_in_the_page_would_not_run(tab, folder, tmp_path):
    text = (folder / PAGE).read_text()
    page = tmp_path / "page.html"
    page.write_text(text.replace("</body>", "<script>document.title = 'ran'</script></body>"))
    tab.open(page, 360)
    assert tab.evaluate("document.title") == "Fleet report"
    assert any("Content Security Policy" in complaint for complaint in tab.complaints())

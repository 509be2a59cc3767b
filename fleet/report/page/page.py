"""Assembles the page: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fleet.report.page.markup import Html, Section, element, join
from fleet.report.page.sections import (
    climate,
    deadlines,
    health,
    load,
    objectives,
    overview,
    sources,
    time_spent,
)
from fleet.report.page.shown import Shown

PAGE: Final = "index.html"
PICTURES: Final = "pictures"
SECTIONS: Final = (overview, objectives, time_spent, deadlines, load, health, climate)

# The page loads nothing and runs nothing, whatever a name may contain.
POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE: Final = """
:root { color-scheme: light dark; --ink: #1f2933; --soft: #52606d; --line: #d5dae1;
  --paper: #fff; --card: #f4f6f8; --link: #0b5cad; --bad: #b42318; --bad-paper: #fdf0ee; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a5b0bc; --line: #3b444f;
  --paper: #14181d; --card: #1e242b; --link: #7cb7f2; --bad: #ff9b8f; --bad-paper: #331d1b; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .5rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .25rem; }
p { margin: .5rem 0; max-width: 44rem; }
a { color: var(--link); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 0;
  padding: 0; }
nav a { display: inline-block; padding: .35rem 0; }
.tiles { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; margin: 1rem 0; }
@media (min-width: 44rem) { .tiles { grid-template-columns: repeat(4, 1fr); } }
.tiles div { background: var(--card); border-radius: .5rem; padding: .6rem .8rem;
  display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.tiles dt { color: var(--soft); font-size: .85rem; line-height: 1.25; }
.tiles dd { margin: 0; font-size: 1.5rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.tiles .bad dd { color: var(--bad); }
.found { font-size: 1.1rem; padding-left: 1.2rem; max-width: 46rem; }
.found li { margin: .4rem 0; }
figure { margin: 1rem 0; max-width: 48rem; }
img { display: block; width: 100%; max-width: 100%; height: auto; background: #fff;
  border-radius: .5rem; }
figcaption, .note, .behind, small { color: var(--soft); font-size: .875rem; }
figcaption { margin-top: .4rem; max-width: 44rem; }
.wide { overflow-x: auto; margin: 1rem 0; border: 1px solid var(--line); border-radius: .5rem;
  max-width: 100%; }
.wide:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; overflow-wrap: normal; }
caption { text-align: left; padding: .6rem .6rem .2rem; font-weight: 600; }
/* Read whole while its table scrolls. */
caption span { display: inline-block; position: sticky; left: .6rem;
  max-width: min(50rem, calc(100vw - 4rem)); }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: baseline; }
th { font-weight: 600; }
td { max-width: 22rem; }
thead th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line);
  vertical-align: bottom; }
tbody tr + tr > * { border-top: 1px solid var(--line); }
.n, small { font-variant-numeric: tabular-nums; }
.n, td small, time, tbody th { white-space: nowrap; }
td.n, thead th.n { text-align: right; }
tr.bad { background: var(--bad-paper); }
.behind { list-style: none; margin: .5rem 0 0; padding: 0; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }
details { margin: .4rem 0; }
summary { cursor: pointer; padding: .3rem 0; }
footer { margin-top: 3rem; color: var(--soft); font-size: .875rem; }
@media print { body { max-width: none; padding: 0; } nav { display: none; }
  .wide { overflow: visible; border: 0; } table { font-size: .6rem; }
  th, td { padding: .15rem .3rem; } figure, tr { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; } }
"""


def compose(shown: Shown, made: sources.Made) -> list[str]:
    """Write the page and its pictures beside the tables `shown`; returns the pictures' names."""
    parts = [section.section(shown) for section in SECTIONS]
    parts.append(sources.section(shown, made))
    folder = shown.folder / PICTURES
    folder.mkdir()
    pictures = {f"{p.name}.png": p.png for part in parts for p in part.pictures}
    for name, png in pictures.items():
        (folder / name).write_bytes(png)
    text = page("Fleet report", parts, f"Sanderling {made.version}, {made.at} UTC")
    (shown.folder / PAGE).write_text(text, encoding="utf-8", errors="replace")
    return sorted(pictures)


def page(title: str, sections: Sequence[Section], footer: str) -> Html:
    """The complete document."""
    head = join(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        # Otherwise browsers request one from the page's server.
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Html(STYLE)),
    )
    links = [element("li", element("a", s.title, href=f"#{s.anchor}")) for s in sections]
    body = join(
        element("header", element("h1", title)),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("main", *[_section(section) for section in sections]),
        element("footer", footer),
    )
    document = element("html", element("head", head), element("body", body), lang="en")
    return Html(f"<!doctype html>\n{document}\n")


def _section(section: Section) -> Html:
    heading = element("h2", section.title, id=f"{section.anchor}-title")
    return element(
        "section",
        heading,
        section.body,
        id=section.anchor,
        aria_labelledby=f"{section.anchor}-title",
    )

"""HTML building blocks. All text is escaped: names and labels come from the network."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Any, Final, Literal, NamedTuple

from fleet.terminal.cells import exact

Row = dict[str, Any]
LONGEST: Final = 80
VOID: Final = frozenset({"img", "meta", "link"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def plain(value: object, longest: int = LONGEST) -> str:
    """`value` in one line of printable characters, at most `longest` of them."""
    text = str(value)[: 4 * longest]
    text = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def element(name: str, /, *content: object, **attributes: object) -> Html:
    """An element. In attribute names a trailing `_` is dropped and others become ``-``; an
    attribute of None is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            text = html.escape(str(value))
            words.append(f'{key.rstrip("_").replace("_", "-")}="{text}"')
    start = f"<{' '.join(words)}>"
    return Html(start if name in VOID else f"{start}{join(*content)}</{name}>")


def join(*content: object) -> Html:
    """Pieces one after another."""
    return Html("".join(c if isinstance(c, Html) else html.escape(str(c)) for c in content))


def number(value: float | None, form: Callable[[float], str]) -> Html:
    """A rounded number with the exact one beside it; – if there is none."""
    if value is None:
        return Html("–")
    return element("data", form(value), value=exact(value))


def whole(value: float) -> str:
    """``12,345``."""
    return f"{value:,.0f}"


def digits(value: float) -> str:
    """Three significant digits: ``0.123``, ``4.57``, ``45.7``, ``457``, ``45,678``."""
    for limit, places in ((1, 3), (10, 2), (100, 1)):
        if abs(value) < limit:
            return f"{value:.{places}f}" if value else "0"
    return whole(value)


def share(value: float) -> str:
    """``97.3 %`` for a share between 0 and 1; only 1 is shown as 100 %."""
    return percent(100 * value)


def percent(value: float) -> str:
    """``97.3 %``, likewise."""
    if 99.95 <= value < 100:
        return "> 99.9 %"
    return f"{value:.1f} %" if 0 < value < 100 else f"{value:.0f} %"


def moment(value: datetime | date | None) -> Html:
    """A time, UTC, to the minute; a day."""
    if value is None:
        return Html("–")
    form = "%Y-%m-%d %H:%M" if isinstance(value, datetime) else "%Y-%m-%d"
    return element("time", value.strftime(form), datetime=exact(value))


class Column(NamedTuple):
    """A column of a table on the page: its heading, and its cell for a row. `kind`: "head" if it
    names the row's subject, "figures" if its numbers are aligned."""

    heading: str
    cell: Callable[[Row], object]
    kind: Literal["head", "text", "figures"] = "text"


def name_of(key: str, heading: str) -> Column:
    """A column of names, which are row headings."""
    return Column(heading, lambda row: plain(row[key], 32), kind="head")


def words(key: str, heading: str) -> Column:
    """A column of texts."""
    return Column(heading, lambda row: plain(row[key]))


def numbers(key: str, heading: str, form: Callable[[float], str] = digits) -> Column:
    """A column of numbers."""
    return Column(heading, lambda row: number(row[key], form), "figures")


def between(key: str, heading: str, form: Callable[[float], str] = digits) -> Column:
    """A column of numbers with their intervals, ``<key>_low`` to ``<key>_high``."""
    stem, unit = (key[:-3], "_ms") if key.endswith("_ms") else (key, "")
    low, high = f"{stem}_low{unit}", f"{stem}_high{unit}"

    def cell(row: Row) -> Html:
        value = number(row[key], form)
        if row[low] is None:
            return value
        end = Html("?") if row[high] is None else number(row[high], form)
        span = join(" (", number(row[low], form), "–", end, ")")
        return join(value, element("small", span))

    return Column(heading, cell, "figures")


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    source: str,
    class_of: Callable[[Row], str | None] = lambda _row: None,
) -> Html:
    """A table in a box that scrolls if the table is too wide; `source` is the report table of the
    rows."""
    classes = ["n" if column.kind == "figures" else None for column in columns]
    head = [
        element("th", column.heading, scope="col", class_=kind)
        for column, kind in zip(columns, classes, strict=True)
    ]
    body = []
    for row in rows:
        cells = []
        for column, kind in zip(columns, classes, strict=True):
            if column.kind == "head":
                cells.append(element("th", column.cell(row), scope="row"))
            else:
                cells.append(element("td", column.cell(row), class_=kind))
        body.append(element("tr", *cells, class_=class_of(row)))
    whole_table = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        data_source=source,
    )
    return element(
        "div", whole_table, class_="wide", tabindex="0", role="region", aria_label=caption
    )


class Picture(NamedTuple):
    """A picture of the page: PNG, width in CSS pixels, alternative text."""

    name: str
    png: bytes
    width: int
    height: int
    alt: str


def figure(picture: Picture, caption: object) -> Html:
    """A picture with its caption, linked to its own file in the report's folder."""
    data = base64.b64encode(picture.png).decode()
    image = element(
        "img",
        src=f"data:image/png;base64,{data}",
        alt=picture.alt,
        width=picture.width,
        height=picture.height,
    )
    return element("figure", image, element("figcaption", caption))


def behind(*names: str) -> Html:
    """Links to the data of the figures and tables above."""
    links = []
    for name in names:
        statement = element("code", 'fleet lake sql "select * from ', name, '"')
        csv = element("a", f"{name}.csv", href=f"data/{name}.csv")
        parquet = element("a", "Parquet", href=f"data/{name}.parquet")
        links.append(element("li", csv, ", ", parquet, ", ", statement))
    return element("ul", *links, class_="behind")


class Section(NamedTuple):
    """A part of the page, with its pictures."""

    anchor: str
    title: str
    body: Html
    pictures: tuple[Picture, ...] = ()


def left_out(more: int, what: str, name: str) -> Html:
    """A note that there are more rows than shown; empty if there are not."""
    if not more:
        return Html()
    link = element("a", f"{name}.csv", href=f"data/{name}.csv")
    return element("p", f"{whole(more)} more {what} are in ", link, ".", class_="note")


def nothing(text: str) -> Html:
    """Why there is nothing to show."""
    return element("p", text, class_="note")

"""The page's templates, and how values are said in them. All text is escaped: names and labels come
from the network."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fleet.terminal.csv_cells import exact
from fleet.terminal.units import format_kept

Row = dict[str, Any]
Form = Callable[[float], str]
LONGEST: Final = 80


def plain(value: object, longest: int = LONGEST) -> str:
    """`value` in one line of printable characters, at most `longest` of them."""
    text = str(value)[: 4 * longest]
    text = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


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


def kept(value: float) -> str:
    """A share that kept an objective, rounded down: 98.96 % are not the 99 % that were promised."""
    return f"{format_kept(value)} %" if 0 < value < 1 else f"{100 * value:.0f} %"


def percent(value: float) -> str:
    """``97.3 %``, likewise."""
    if 99.95 <= value < 100:
        return "> 99.9 %"
    return f"{value:.1f} %" if 0 < value < 100 else f"{value:.0f} %"


def minute(value: datetime | date) -> str:
    """A time to the minute; a day."""
    return value.strftime("%Y-%m-%d %H:%M" if isinstance(value, datetime) else "%Y-%m-%d")


class Column(NamedTuple):
    """A column of a table on the page: its heading, the key of a row that it shows, and how. A head
    says what the row is about; figures stand below one another."""

    heading: str
    key: str
    kind: Literal["text", "number", "interval", "objective", "time"]
    is_head: bool = False
    form: Form = digits
    longest: int = LONGEST

    @property
    def is_figure(self) -> bool:
        """Whether it stands to the right."""
        return self.kind in ("number", "interval", "objective")

    @property
    def low(self) -> str:
        """The key of an interval's lower end: of ``p99_ms`` it is ``p99_low_ms``."""
        return self._end("low")

    @property
    def high(self) -> str:
        """The key of its upper end."""
        return self._end("high")

    def _end(self, which: str) -> str:
        stem = self.key.removesuffix("_ms")
        return f"{stem}_{which}{self.key[len(stem) :]}"


def names(key: str, heading: str, longest: int = 32) -> Column:
    """A column of names, which head the row."""
    return Column(heading, key, "text", is_head=True, longest=longest)


def words(key: str, heading: str, longest: int = LONGEST) -> Column:
    """A column of texts."""
    return Column(heading, key, "text", longest=longest)


def numbers(key: str, heading: str, form: Form = digits) -> Column:
    """A column of numbers."""
    return Column(heading, key, "number", form=form)


def intervals(key: str, heading: str, form: Form = digits) -> Column:
    """A column of numbers with their intervals, ``<key>_low`` to ``<key>_high``."""
    return Column(heading, key, "interval", form=form)


def objectives(key: str, heading: str) -> Column:
    """A column of SLOs: the percentile is `key`, the time ``slo_ms``."""
    return Column(heading, key, "objective")


def moments(key: str, heading: str, *, is_head: bool = False) -> Column:
    """A column of times."""
    return Column(heading, key, "time", is_head=is_head)


@cache
def environment() -> Environment:
    """The templates of the page, with what they call."""
    made = Environment(
        loader=PackageLoader("fleet.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(exact=exact, minute=minute, plain=plain)
    for each in (digits, kept, percent, share, whole):
        made.globals[each.__name__] = each
    for column in (intervals, moments, names, numbers, objectives, words):
        made.globals[column.__name__] = column
    made.globals["general"] = "{:g}".format
    return made


def render(template: str, **values: Any) -> Markup:
    """HTML of a template."""
    text = environment().get_template(template).render(values)
    return Markup(text)  # noqa: S704 - the template has escaped what it was given


class Picture(NamedTuple):
    """A picture of the page: PNG, width in CSS pixels, alternative text."""

    name: str
    png: bytes
    width: int
    height: int
    alt: str

    @property
    def base64(self) -> str:
        """As in a ``data:`` URL."""
        return base64.b64encode(self.png).decode()


class Section(NamedTuple):
    """A part of the page, with its pictures."""

    anchor: str
    title: str
    body: Markup
    pictures: tuple[Picture, ...] = ()


def nothing(text: str) -> Markup:
    """Why there is nothing to show."""
    return render("nothing.html", text=text)

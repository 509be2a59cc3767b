"""An alert in words, for people: a subject, and lines below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from agent.gateway.feed.alert_log import TOPIC, Logged, Loss
from agent.wire.predicates import Value

KNOWN: Final = frozenset({"kind", "trigger", "metric", "value", "area", "iad"})
# The same of a message of a topic: its publisher chose all others.
KNOWN_OF_MESSAGE: Final = frozenset({"kind", TOPIC, "area", "iad"})
PUBLISHED: Final = "input"  # kind of what clients publish

# The name of an area for people, or nothing.
NameOf = Callable[[str], str]


def subject(entry: Logged, name_of: NameOf) -> str:
    """One line: what happened, and where."""
    if entry.notification is None:
        return "alerts were lost"
    told = entry.notification.attributes
    if TOPIC in told:
        return _message(told, name_of)
    trigger, area = _text(told.get("trigger")), _text(told.get("area"))
    if not trigger:
        return " ".join(filter(None, (_text(told.get("kind")) or "alert", place(area, name_of))))
    where = f" in {place(area, name_of)}" if area else ""
    state = {"raised": "", "cleared": " is over"}.get(_text(told.get("kind")), "")
    return f"{trigger}{state}{where}{_value(told)}"


def body(entry: Logged, name_of: NameOf) -> str:
    """A line for the subject, and one for when and further attributes."""
    if entry.notification is None:
        loss = entry.loss or Loss("")
        which = f" (positions {loss.first} to {loss.last})" if loss.last else ""
        return f"{subject(entry, name_of)}{which}: {_text(loss.message)}"
    told = entry.notification.attributes
    known = KNOWN_OF_MESSAGE if TOPIC in told else KNOWN
    more = [f"{key}: {_text(value)}" for key, value in told.items() if key not in known]
    return "\n".join([subject(entry, name_of), ", ".join([_time(entry), *more])])


def _message(told: Mapping[str, Value], name_of: NameOf) -> str:
    """A message of a topic, which any client may publish and fill as it likes: no alert."""
    kind = _text(told.get("kind"))
    what = "message" if kind in ("", PUBLISHED) else kind
    area = _text(told.get("area"))
    where = f": {place(area, name_of)}" if area else ""
    return f"{what} of topic {_text(told[TOPIC])} from {_text(told.get('iad'))}{where}"


def place(area: str, name_of: NameOf) -> str:
    """The area's name with its path."""
    name = _text(name_of(area)) if area else ""
    return f"{name} ({area})" if name and name != area else area


def _time(entry: Logged) -> str:
    """A node's clock may be anywhere."""
    assert entry.notification is not None
    try:
        at = datetime.fromtimestamp(entry.notification.time_ms / 1e3, UTC)
    except (OverflowError, OSError, ValueError):
        return "at an unknown time"
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _value(told: Mapping[str, Value]) -> str:
    metric, value = told.get("metric"), told.get("value")
    if value is None:
        return ""
    return f": {_text(metric) or 'value'} {_text(value)}"


def _text(value: Value | None) -> str:
    """On one line, rounded, and without what a terminal or a header would take for a command."""
    if value is None:
        return ""
    if isinstance(value, float):  # four digits, or all those before the point
        return f"{value:.0f}" if 1_000 <= abs(value) < 1e15 else f"{value:.4g}"
    return "".join(c if c.isprintable() else "_" for c in str(value))

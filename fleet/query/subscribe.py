"""`fleet subscribe`: prints a line for each alert as it arrives."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from agent.client import Client, NoReplyError, Notifications, SubscriptionError, UnknownLoss
from agent.net.keys import KeyFiles
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter, Value, write_filter
from agent.wire.push import Gap, Notified
from fleet.common import exits
from fleet.query import replies
from fleet.query.known_areas import known_areas
from fleet.query.words import MAX_NAMED
from fleet.terminal import screen
from fleet.terminal.output import printable
from fleet.terminal.summary import labelled
from fleet.terminal.times import UNKNOWN_TIME, local
from fleet.terminal.units import format_duration
from fleet.terminal.wrapping import whole

# Column widths: room for a date, a room's area, a channel, and a number with its unit; with a
# trigger and an IAD of usual names 80 columns.
WHEN: Final = 15
ALERT: Final = "{:<11}  {:<11}  {:>8}"
TOPIC: Final = "{:<11}  {:<11}  "
ENDING: Final = "  {:<7}  {:<12}  {}"
COLUMNS: Final = ("area", "metric", "value", "kind", "trigger", "iad")
NO_NAMES: Final[Mapping[str, str]] = {}
COLOURS: Final = {"raised": "red", "cleared": "green"}
# An alert is marked if it arrives this much after its time; smaller clock differences are harmless.
LATE_S: Final = 5.0
DAY_S: Final = 86_400.0
# Alerts wait so long for the names of rooms.
NAMES_MS: Final = 3_000.0
# How long a master may take to tell which of the areas there are; it asks no node.
ABOUT_MS: Final = 1_000.0


class Options(Struct, frozen=True):
    """Options of the command line."""

    master: str
    wanted: Filter
    durable: str | None
    after: int | None
    count: int | None
    lasting_s: float | None
    detach: bool
    as_json: bool


class Interrupted(Exception):
    """Ctrl-C, after the final lines were printed: the alert being shown is not acknowledged."""


class Tally(Struct):
    """Messages received so far."""

    raised: int = 0
    cleared: int = 0
    others: int = 0
    dropped: int = 0  # positions that hold nothing
    not_kept: int = 0  # such positions right after the one that the command named
    losses: int = 0  # with an unknown number of alerts that matched


def run(options: Options, keys: KeyFiles | Sequence[KeyFiles] | None = None) -> int:
    """Subscribe until the end, or Ctrl-C; returns the exit status."""
    try:
        with (
            Client(options.master, keys) as client,
            client.subscribe(
                options.wanted,
                id=options.durable,
                durable=options.durable is not None,
                after=options.after,
            ) as notifications,
        ):
            silent = options.as_json or options.detach
            names = NO_NAMES if silent else known_areas(options.master, keys, patience_ms=NAMES_MS)
            doubts = [notifications.doubt] if notifications.doubt else []
            if not (doubts or options.detach):
                doubts = away(client, options)
            return _show(notifications, options, names, doubts)
    except Interrupted:
        return exits.INTERRUPTED
    except KeyboardInterrupt:
        return exits.fail("interrupted", exits.INTERRUPTED)
    except SubscriptionError as error:
        return exits.fail(f"refused: {error}", exits.REFUSED)
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{options.master} is none to a subscription", "public")


def end(master: str, name: str, keys: KeyFiles | Sequence[KeyFiles] | None = None) -> int:
    """End a durable subscription; returns the exit status."""
    try:
        with Client(master, keys) as client:
            was_kept = client.unsubscribe(name)
    except SubscriptionError as error:
        return exits.fail(f"refused: {error}", exits.REFUSED)
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{master} is none to a subscription", "public")
    if not was_kept:
        text = f"this master keeps no subscription {name} for you: nothing was ended"
        return exits.fail(text, exits.FAILED)
    screen.line(screen.console(stderr=True), f"subscription {name} is ended")
    return exits.DONE


def away(client: Client, options: Options) -> list[str]:
    """A line for each silent IAD that covers an area of the filter: its alerts come late."""
    areas = [
        operand
        for conjunction in options.wanted
        for predicate in conjunction
        if predicate.attribute == "area" and predicate.operator in ("=", "in", "under")
        for operand in predicate.operands
        if isinstance(operand, str)
    ]
    if not areas:
        return []
    try:
        answer = client.about(areas, timeout_ms=ABOUT_MS, label="fleet subscribe")
    except (NoReplyError, ValueError):
        return []
    gaps = [gap for gap in answer.missing if gap.reason in screen.OF_IADS]
    told = [(labelled(gap.area, gap.name), screen.reason_of(gap)) for gap in gaps]
    return [f"{each}; alerts come once it does" for each in screen.by_reason(told, MAX_NAMED)]


def _show(
    notifications: Notifications,
    options: Options,
    names: Mapping[str, str],
    doubts: Sequence[str],
) -> int:
    err = screen.console(stderr=True)
    tally, status, interrupted = Tally(), exits.DONE, False
    if not options.detach:
        if not options.as_json:
            screen.line(err, headline(notifications, options), style="dim")
        for doubt in doubts:
            screen.line(err, doubt, style="yellow")
        notifications.on_word = lambda word: screen.line(err, word, style="yellow")
        try:
            _follow(notifications, options, tally, names)
        except KeyboardInterrupt:
            interrupted = True
        except SubscriptionError as error:
            status = exits.fail(f"refused: {error}", exits.REFUSED)
        else:
            notifications.acknowledge()  # the last line is shown
        screen.line(err, summary_line(tally, options.wanted))
    if options.durable is not None and notifications.is_open:
        name = shlex.quote(options.durable)
        again = whole(f"--durable {name} --after {notifications.after}")
        end = whole(f"--durable {name} --unsubscribe")
        screen.line(err, f"alerts are kept; go on with {again}, end it with {end}")
    if interrupted:
        raise Interrupted
    return status


def _follow(
    notifications: Notifications, options: Options, tally: Tally, names: Mapping[str, str]
) -> None:
    out = screen.console()
    if not options.as_json:
        screen.line(out, header(options.wanted), "bold")
    for each in first_alerts(_until(notifications, options.lasting_s), options.count):
        _count(tally, each, options.after)
        if options.as_json:
            replies.write_json(each)
        else:
            screen.line(out, alert_line(each, time.time(), names=names, after=options.after))


def first_alerts(
    received: Iterable[Notified | Gap | UnknownLoss], count: int | None
) -> Iterator[Notified | Gap | UnknownLoss]:
    """All up to the alert with this number; what is missing counts for none."""
    alerts = 0
    for each in received:
        yield each
        alerts += isinstance(each, Notified)
        if alerts == count:
            return


def _until(
    notifications: Notifications, lasting_s: float | None
) -> Iterator[Notified | Gap | UnknownLoss]:
    end_s = math.inf if lasting_s is None else time.monotonic() + lasting_s
    while (each := notifications.wait(max(0.0, end_s - time.monotonic()))) is not None:
        yield each


def _count(tally: Tally, each: Notified | Gap | UnknownLoss, after: int | None) -> None:
    match each:
        case Notified(notification=notification):
            kind = notification.attributes.get("kind")
            tally.raised += kind == "raised"
            tally.cleared += kind == "cleared"
            tally.others += kind not in ("raised", "cleared")
        case Gap(lost=None):
            count = each.last - each.first + 1
            if _may_be_acknowledged(each, after):
                tally.not_kept += count
            else:
                tally.dropped += count
        case _:
            tally.losses += 1


def _may_be_acknowledged(gap: Gap, after: int | None) -> bool:
    """Whether the gap begins at the position that the command named. One who names a position that
    is too low has acknowledged those that follow it: they were not dropped."""
    return after is not None and gap.first == after + 1


def headline(notifications: Notifications, options: Options) -> str:
    """One line that describes the subscription."""
    text = f"subscription {notifications.id}: {write_filter(options.wanted)}"
    if options.lasting_s is not None:
        text += f", for {format_duration(options.lasting_s)}"
    if notifications.after:
        text += f", after position {notifications.after}"
    return f"{text}; Ctrl-C ends {'this command' if options.durable else 'it'}"


# --- lines ----------------------------------------------------------------------------------------


def header(wanted: Filter = ()) -> str:
    """The column headings for `alert_line`: those of topics' messages if it is these that the
    filter names."""
    if _of_topics(wanted):
        return "time".ljust(WHEN + 2) + TOPIC.format("area", "topic") + "what it says, and its IAD"
    return "time".ljust(WHEN + 2) + ALERT.format(*COLUMNS[:3]) + ENDING.format(*COLUMNS[3:])


def _of_topics(wanted: Filter) -> bool:
    """Whether each of its alternatives wants an attribute that only topics' messages have."""
    return bool(wanted) and all(any(of.attribute == "topic" for of in each) for each in wanted)


def alert_line(
    each: Notified | Gap | UnknownLoss,
    now_s: float,
    late_from_s: float = LATE_S,
    names: Mapping[str, str] = NO_NAMES,
    after: int | None = None,
) -> Text:
    """One line for an alert, or for missing ones. It arrived at `now_s` by the wall clock, and says
    how late if that was more than `late_from_s` after its time; `names` are those of rooms, by
    area; `after` is the position that the command named."""
    match each:
        case Notified(notification=notification):
            return notification_line(notification, now_s, late_from_s, names)
        case Gap(first=first, last=last, lost=None):
            count = last - first + 1
            text = f"{count} alert{'s' * (count != 1)} "
            if _may_be_acknowledged(each, after):
                text += "not kept, acknowledged before or dropped"
            else:
                text += "dropped, too many came at a time or while nobody listened"
            text += f": position{'s' * (count != 1)} {_range(first, last)}"
        case Gap(lost=lost) if lost is not None:
            text = f"{lost.count} alert{'s' * (lost.count != 1)} of {lost.publisher} lost before "
            text += "everybody had them, wanted here or not: "
            text += f"{lost.history} {_range(lost.first, lost.last)}"
        case UnknownLoss(after=after):
            text = f"alerts may be lost after position {after}, nobody knows how many: "
            # What the master advises, the client has done: the subscription is made anew.
            text += printable(each.message.partition("; ")[0])
    return Text(text, "yellow")


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def notification_line(
    notification: Notification,
    now_s: float,
    late_from_s: float = LATE_S,
    names: Mapping[str, str] = NO_NAMES,
    *,
    dated: bool = True,
) -> Text:
    """One line for an alert, or for a topic's message, as `alert_line`; not `dated`: narrower, with
    the time of day alone."""
    attributes = dict(notification.attributes)
    drawn = _column(_when(notification, now_s, late_from_s)) if dated else _time(notification)
    room = _room(attributes, names)
    if "topic" in attributes:
        return _topic_line(attributes, drawn).append(room)
    area, metric, value, kind, trigger, iad = (attributes.pop(name, None) for name in COLUMNS)
    unit = screen.unit_of(metric) if isinstance(metric, str) else ""
    drawn.append(ALERT.format(_word(area), _word(metric), f"{_word(value)} {unit}".rstrip()))
    begun = len(drawn)
    drawn.append(ENDING.format(*map(_word, (kind, trigger, iad))))
    drawn.stylize(COLOURS.get(str(kind), ""), begun, begun + 10)
    for name, more in sorted(attributes.items()):
        drawn.append(f"  {name}={_word(more)}", "dim")
    return drawn.append(room)


def _room(attributes: Mapping[str, Value], names: Mapping[str, str]) -> str:
    """The room's name behind the columns: between them it would move all that follow."""
    name = names.get(str(attributes.get("area")))
    return f"  {name}" if name else ""


def _topic_line(attributes: dict[str, Value], drawn: Text) -> Text:
    """A topic's attributes are its own: each stands with its name, the area and the topic in the
    columns of an alert's area and metric, after the time."""
    area, topic, kind, iad = (
        attributes.pop(name, None) for name in ("area", "topic", "kind", "iad")
    )
    drawn.append(TOPIC.format(_word(area), _word(topic)))
    told = [f"{name}={_word(value)}" for name, value in sorted(attributes.items())]
    drawn.append("  ".join(told))
    drawn.append(f"  {_word(kind)} " if kind != "output" else "  ", "dim")
    drawn.append(_word(iad), "dim")
    return drawn


def _when(notification: Notification, now_s: float, late_from_s: float) -> Text:
    """The time, in a column's width; if it came late, how late in place of the date, or of the
    time of day if that was before yesterday."""
    if (at := local(notification.time_ms)) is None:
        return Text(UNKNOWN_TIME)
    late_s = now_s - notification.time_ms / 1e3
    if late_s <= late_from_s:
        return Text(f"{at:%d %b %H:%M:%S}")
    text = Text(f"{at:%H:%M:%S}" if late_s < 2 * DAY_S else f"{at:%d %b}")
    return text.append(f" +{_short(late_s)}", "yellow" if late_s > LATE_S else "dim")


def _time(notification: Notification) -> Text:
    at = local(notification.time_ms)
    return Text(f"{UNKNOWN_TIME:<8} " if at is None else f"{at:%H:%M:%S} ")


def _column(when: Text) -> Text:
    when.pad_right(WHEN + 2 - len(when))
    return when


def _short(seconds: float) -> str:
    """A duration in one unit: 12ms, 119s, 119m, 47h, 30d."""
    if seconds < 1.0:
        return f"{seconds * 1e3:.0f}ms"
    for unit, size, most in (("s", 1, 120), ("m", 60, 120), ("h", 3_600, 48)):
        if seconds < most * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / DAY_S:.0f}d"


def _word(value: Value | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return screen.format_value(value)
    return printable(str(value))


def summary_line(tally: Tally, wanted: Filter = ()) -> str:
    """The number of alerts by kind, or of topics' messages, and of missing ones."""
    alerts = tally.raised + tally.cleared + tally.others
    what = "message" if _of_topics(wanted) else "alert"
    text = f"{alerts} {what}{'s' * (alerts != 1)}" if alerts else f"no {what} came"
    if tally.raised or tally.cleared:
        text += f": {tally.raised} raised, {tally.cleared} cleared"
        text += f", {tally.others} other" if tally.others else ""
    if tally.dropped:
        text += f"; {tally.dropped} dropped"
    if tally.not_kept:
        text += f"; {tally.not_kept} not kept"
    if tally.losses:
        text += f"; losses of unknown size: {tally.losses}"
    return text

"""Watch messages: periodic, streaming and event-triggered queries; each round is one query."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from agent.wire.base import (
    MAX_TIMEOUT_MS,
    MAX_WINDOW_S,
    Area,
    Areas,
    Channels,
    Count,
    Form,
    Identifier,
    Label,
    Message,
    Name,
    Text,
    WallMs,
)
from agent.wire.messages import Answer, Slo
from agent.wire.overlay import Notification

# Maximum number of a round's alerts that are sent with it.
MAX_ALERTS = 16

Style = Literal["periodic", "streaming", "event"]


class Watch(Message, frozen=True, tag="watch", omit_defaults=True):
    """Repeat a query every `interval_s` seconds, for `lasting_s` seconds (absent: until cancelled).

    Round k, from 1, covers a window that ends k intervals after the master accepted the watch:
    `periodic` the `window_s` seconds (absent: the interval) before; `streaming` everything since
    the previous round, so that every reading is sent once; `event` like `periodic`, but only rounds
    in which `trigger` holds are sent. With `on`, the text of a filter, instead of `trigger`, a
    round is made at once whenever alerts match the filter, at most one per interval; its window
    ends with the latest of them. A client that lost its connection sends the watch again, with
    `after` the last round that it has: the rounds after it follow, none missing, none duplicated.
    """

    id: Identifier
    areas: Areas
    slo: Slo
    style: Style
    interval_s: Annotated[float, Meta(ge=0.05, le=MAX_WINDOW_S)]
    window_s: Annotated[float, Meta(gt=0.0, le=MAX_WINDOW_S)] | None = None
    lasting_s: Annotated[float, Meta(gt=0.0, le=MAX_WINDOW_S)] | None = None
    trigger: Text = ""
    on: Text = ""
    channels: Channels = ()
    form: Form = "series"
    timeout_ms: Annotated[float, Meta(gt=0.0, le=MAX_TIMEOUT_MS)] | None = None
    service: Name = "default"
    label: Label = ""
    after: Count | None = None
    # As in `Query`, for its rounds.
    takes_too_large: bool = False

    def __post_init__(self) -> None:
        if bool(self.trigger) + bool(self.on) != (self.style == "event"):
            raise ValueError("a trigger, or on, belongs to style event, which needs one of them")
        if self.style == "streaming" and self.window_s is not None:
            raise ValueError("streaming takes all since the round before: leave window_s out")
        too_short = self.lasting_s is not None and self.lasting_s < self.interval_s
        if too_short and not self.on:
            raise ValueError("lasting_s is shorter than interval_s: that is no round")


class Acknowledge(Message, frozen=True, tag="acknowledge"):
    """The client has all rounds up to `round`. No reply. Only a few unacknowledged rounds are
    sent."""

    id: Identifier
    round: Count


class Cancel(Message, frozen=True, tag="cancel"):
    """End a watch. Answered with `watching`, state `cancelled`."""

    id: Identifier


class Watching(Message, frozen=True, tag="watching"):
    """The state of a watch; `next_round` is the next one. `message` says why it is refused, or what
    is wrong with the latest rounds."""

    id: Annotated[str, Meta(max_length=64)]
    state: Literal["open", "finished", "cancelled", "refused"]
    next_round: Count = 1
    message: Text = ""


class Round(Message, frozen=True, tag="round", omit_defaults=True):
    """Round `number` of a watch: the answer for the window [`start_ms`, `end_ms`). `previous` is
    the round sent before it, 0 if there is none: a client without that one has lost it. `fired` are
    the areas in which the trigger held. Each round of a watch `on` alerts includes the latest of
    the `alert_count` alerts that caused it, in order of arrival."""

    id: Identifier
    number: Count
    previous: Count
    start_ms: WallMs
    end_ms: WallMs
    answer: Answer
    fired: tuple[Area, ...] = ()
    alerts: Annotated[tuple[Notification, ...], Meta(max_length=MAX_ALERTS)] = ()
    alert_count: Count = 0


WatchRequest = Watch | Acknowledge | Cancel
WatchReply = Watching | Round

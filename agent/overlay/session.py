"""Link-layer session with a neighbour: in-order, loss-free while up, over connections that may lose
messages.

A broker needs links that preserve order and lose nothing while they are up; the connections below
may lose messages but never reorder them. So messages are numbered within a session. An end that
misses one, hears nothing for a while, or learns that the other end has started a new session, takes
the link down and starts a new session itself. The link is up at an end that has heard that the
other end knows its session; each session is up at most once. Between up and down, an end receives
what was put at the other end, each flow in order and up to some point.

At most a window of messages is in flight, so that waiting messages are in this queue, where they
can be measured and flows are served fairly, and not in buffers of the transport.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from agent.overlay.events import Message
from agent.overlay.lifecycle import LINK_TRANSITIONS
from agent.overlay.round_robin_queue import ANY, Flow, RoundRobinQueue
from agent.runtime.back_off import BackOff, pause_after
from agent.runtime.state_machine import StateMachine
from agent.wire.overlay_links import OverlayBeat, OverlayFrame, OverlayHello, OverlayRequest

GREETING_S = 0.25
BEAT_S = 1.0
# After this many missing heartbeats in a row the other end counts as gone.
SILENCE_S = 3.5
# The other end is alive but does not take what it is sent: the link pauses, each time twice as long
# until something is taken.
STUCK_S = 30.0
FIRST_PAUSE_S = 5.0
MAX_PAUSE_S = 60.0
# A link that was up more briefly, more than once in a row, pauses too: what an end holds for the
# other is routed when it goes down and sent when it comes up, up to a tenth of a second each.
BRIEF_S = 10.0
MAX_BRIEF_PAUSE_S = 8.0
WINDOW = 64
CONFIRMED_EACH = 16
# Custody resends all it holds when a link comes up (`Limits.most_held`), beside table updates: that
# is half of the room.
MAX_QUEUED = 20_000
# Size on the wire: a notification may have some kilobytes.
MAX_QUEUED_BYTES = 1 << 26


class _Struct(Struct, frozen=True, gc=False):
    """Events and instructions are immutable and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class Heard(_Struct, frozen=True):
    """An authenticated message from the other end."""

    message: OverlayRequest


class Put(_Struct, frozen=True):
    """Send this to the other end when its flow is served; ignored while the link is down."""

    message: Message
    flow: Flow = ANY


class Cut(_Struct, frozen=True):
    """The other end is gone, or the connection to it is, for this long."""

    reason: str
    pause_s: float = 0.0


class Due(_Struct, frozen=True):
    """A timer has expired: `Session.next_tick` says when to send this."""


SessionEvent = Heard | Put | Cut | Due

# --- instructions --------------------------------------------------------------------------------


class Transmit(_Struct, frozen=True):
    """Send this; it may be lost."""

    message: OverlayRequest


class Up(_Struct, frozen=True):
    """Messages put from now on arrive, or the link goes down."""


class Down(_Struct, frozen=True):
    """The last messages put may be lost."""

    reason: str


class Arrived(_Struct, frozen=True):
    """The next message of some flow that was put at the other end."""

    message: Message


class PassedOver(_Struct, frozen=True):
    """This is not sent: too much of its group is queued, and it may be lost."""

    message: Message


SessionInstruction = Transmit | Up | Down | Arrived | PassedOver


class Session(StateMachine):
    """`introduction` identifies this end; its session, `heard` and `open` are filled in. `draw`
    gives numbers for sessions, never the same twice. `now` is monotonic seconds. Every event is
    O(1), and O(messages) for those that it sends.

    Memory: the queue, at most `most_queued` messages and `most_bytes` bytes; `size` returns a
    message's bytes. If the queue overflows, the link goes down. Messages that may be lost leave a
    quarter of the queue free, so that no sender of such messages can take a link down. They are
    passed over if more than twice as much of their group waits as there is room left: one group
    alone gets half of the queue, n busy groups get 3 / (2 + 4n) each, and there is always room for
    another one (dynamic thresholds, Choudhury and Hahne 1998). The same rule holds for bytes."""

    TRANSITIONS = LINK_TRANSITIONS

    def __init__(
        self,
        introduction: OverlayHello,
        draw: Callable[[], int],
        *,
        window: int = WINDOW,
        most_queued: int = MAX_QUEUED,
        most_bytes: int = MAX_QUEUED_BYTES,
        size: Callable[[Message], int] = lambda _: 0,
    ) -> None:
        super().__init__()
        self._introduction = introduction
        self._draw = draw
        self._window = window
        self._most_queued = most_queued
        self._most_kept = most_queued * 3 // 4
        self._most_bytes = most_bytes
        self._most_bytes_kept = most_bytes * 3 // 4
        self._size = size
        self._confirmed_each = max(1, min(CONFIRMED_EACH, window // 2))
        self._own = draw()
        self.theirs = 0
        """The session of the other end; 0 if it was not heard of since the link went down."""
        self.become("down")
        self._queue: RoundRobinQueue[Message] = RoundRobinQueue()
        self._sent = self._confirmed = 0
        self._received = self._told = 0
        self._heard_s = 0.0
        # When a message was last confirmed, or none was outstanding.
        self._moved_s = 0.0
        self._paused_until_s = 0.0
        self._pauses = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)
        self._came_up_s = 0.0
        self._brief = 0  # times in a row
        self._greeting: OverlayHello | None = None
        self._greeted_s = 0.0
        # When the next greeting, or the next heartbeat, is due.
        self._say_s = 0.0
        self._out: list[SessionInstruction] = []

    def __repr__(self) -> str:
        return f"a link of {self._introduction.iad}, session {self._own}, heard {self.theirs}"

    def __len__(self) -> int:
        """Number of queued messages."""
        return len(self._queue)

    @property
    def up(self) -> bool:
        """Whether what is put arrives."""
        return self.state == "up"

    @property
    def next_tick(self) -> float:
        """When `Due` is due."""
        if not self.up:
            return self._say_s
        gone_s, stuck_s = self._heard_s + SILENCE_S, self._moved_s + STUCK_S
        return min(self._say_s, gone_s, stuck_s if self._sent > self._confirmed else math.inf)

    def handle(self, event: SessionEvent, now: float) -> list[SessionInstruction]:
        """Take one event; what to do follows, in order."""
        if self.state == "paused" and now >= self._paused_until_s:
            self.become("down")
        match event:
            case Put(message, flow):
                self._put(message, flow, now)
            case Heard(OverlayFrame() as frame):
                self._frame(frame, now)
            case Heard(OverlayBeat() as beat):
                self._beat(beat, now)
            case Heard(OverlayHello() as hello):
                self._hello(hello, now)
            case Cut(reason, pause_s):
                if self.up:
                    self._down(reason, now, pause_s)
                    self._greet(now)
            case Due():
                self._due(now)
        out, self._out = self._out, []
        return out

    # --- up and down ---------------------------------------------------------------------------

    def _hello(self, hello: OverlayHello, now: float) -> None:
        if self.up and hello.session != self.theirs:
            self._down("the other end began anew", now)
        if self.state == "paused":
            return
        self.theirs = hello.session
        self._heard_s = now
        knows = hello.heard == self._own
        if knows and not self.up:
            self.become("up")
            self._sent = self._confirmed = self._received = self._told = 0
            self._came_up_s = now
            self._say_s = now + BEAT_S
            self._out.append(Up())
        if not (knows and hello.open):
            self._greet(now)

    def _down(self, reason: str, now: float, pause_s: float = 0.0) -> None:
        self._brief = self._brief + 1 if now < self._came_up_s + BRIEF_S else 0
        if self._brief > 1:
            brief_pause_s = pause_after(self._brief - 2, GREETING_S, MAX_BRIEF_PAUSE_S)
            pause_s = max(pause_s, brief_pause_s)
        self.become("paused" if pause_s else "down")
        self.theirs = 0
        self._own = self._draw()
        self._queue.clear()
        self._paused_until_s = now + pause_s
        self._say_s = now + max(GREETING_S, pause_s)
        self._out.append(Down(reason))

    def _greet(self, now: float) -> None:
        """Send a greeting, but not the same one again too soon: an end that stood still would
        answer every greeting that had waited for it, each answer would be answered, and so on."""
        if self.state == "paused":
            return
        hello = replace(self._introduction, session=self._own, heard=self.theirs, open=self.up)
        if hello == self._greeting and now < self._greeted_s + GREETING_S:
            return
        self._greeting, self._greeted_s = hello, now
        self._out.append(Transmit(hello))
        if not self.up:
            self._say_s = now + GREETING_S

    def _due(self, now: float) -> None:
        if self.up and now >= self._heard_s + SILENCE_S:
            self._down(f"nothing was heard for {SILENCE_S:g} s", now)
            self._greet(now)
        elif self.up and self._sent > self._confirmed and now >= self._moved_s + STUCK_S:
            self._down(f"it took nothing for {STUCK_S:g} s", now, self._pauses.next())
        elif now >= self._say_s:
            if self.up:
                self._confirm(now)
            else:
                self._greet(now)

    # --- messages ------------------------------------------------------------------------------

    def _put(self, message: Message, flow: Flow, now: float) -> None:
        if not self.up:
            return
        if flow.kept and not self._has_room(flow):
            self._out.append(PassedOver(message))
            return
        # A message that is sent at once need not be measured.
        waits = self._queue or self._sent - self._confirmed >= self._window
        self._queue.put(flow, message, self._size(message) if waits else 0)
        self._pump(now)
        if len(self._queue) > self._most_queued:
            self._down(f"more than {self._most_queued:,} messages wait for it", now)
        elif self._queue.bytes > self._most_bytes:
            self._down(f"more than {self._most_bytes:,} bytes wait for it", now)

    def _has_room(self, flow: Flow) -> bool:
        queue, group = self._queue, flow.group
        if queue.waiting(group) >= 2 * (self._most_kept - len(queue)):
            return False
        return queue.bytes_waiting(group) < 2 * (self._most_bytes_kept - queue.bytes)

    def _pump(self, now: float) -> None:
        queue = self._queue
        while queue and self._sent - self._confirmed < self._window:
            if self._sent == self._confirmed:
                self._moved_s = now
            self._sent += 1
            self._say_s = now + BEAT_S
            self._out.append(Transmit(OverlayFrame(self._own, self._sent, queue.pop())))

    def _confirm(self, now: float) -> None:
        self._told = self._received
        self._say_s = now + BEAT_S
        self._out.append(Transmit(OverlayBeat(self._own, self._sent, self._received)))

    def _frame(self, frame: OverlayFrame, now: float) -> None:
        if not self.up or frame.session != self.theirs:
            return
        if frame.sequence != self._received + 1:
            self._down("a message was lost", now)
            self._greet(now)
            return
        self._received += 1
        self._heard_s = now
        self._out.append(Arrived(frame.message))
        if self._received - self._told >= self._confirmed_each:
            self._confirm(now)

    def _beat(self, beat: OverlayBeat, now: float) -> None:
        if not self.up or beat.session != self.theirs:
            return
        if beat.sent != self._received or not self._confirmed <= beat.received <= self._sent:
            self._down("a message was lost", now)
            self._greet(now)
            return
        self._heard_s = now
        if beat.received > self._confirmed:
            self._moved_s = now
            self._pauses.reset()
        self._confirmed = beat.received
        self._pump(now)

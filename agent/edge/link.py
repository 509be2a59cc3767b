"""Node-to-master link: connection, heartbeats and subtasks at the node, as a pure state machine.

Events go in with the monotonic time in seconds, instructions come out; `agent.edge.node` executes
them. Opening a socket always succeeds; a missing master is detected by its silence. A node has no
queue: a subtask that finds no idle pod is refused at once. Results that pods finish while the link
is cut are held, named in the next hello, and sent after the welcome. When the master requests fewer
pods, running subtasks finish first; until then more may run than there are pods, and no new one is
accepted. The link reports its state to the event outbox (`agent.edge.events.outbox`).

A node may have several masters to choose from; one is its home. Told that its home has moved, it
finishes the subtasks that run, says goodbye and greets its new home.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from agent.edge.events.outbox import Cut, Joined, Taken
from agent.runtime.back_off import BackOff
from agent.runtime.state_machine import EventMachine
from agent.wire.derived import Derived
from agent.wire.node_messages import (
    EventsTaken,
    Goodbye,
    Heartbeat,
    Hello,
    HelloWanted,
    HomeMoved,
    MasterMessage,
    NodeMessage,
    PodsSet,
    Rejected,
    SetPods,
    Subtask,
    SubtaskResult,
    Welcome,
)

LOST_AFTER: Final = 3  # heartbeats of silence before the master counts as lost
FROM_MASTER: Final = frozenset(get_args(MasterMessage))
GREETING_S: Final = 5.0  # patience with a master that does not answer a hello
MOVING_S: Final = 2.0  # for running subtasks, when the home has moved


class State(Enum):
    """The link's state."""

    NEW = "new"
    GREETING = "greeting"  # hello sent, no welcome yet
    JOINED = "joined"
    MOVING = "moving"  # the home is another master; subtasks of this one still run
    WAITING = "waiting"  # no socket; opens a new one later
    LEFT = "left"


# --- events: a message of the master, or one of these -----------------------------------------


class Start(Struct, frozen=True):
    """The process is ready to serve."""


class Tick(Struct, frozen=True):
    """Time has passed; due at `Link.wake_at`, harmless before."""


class Stop(Struct, frozen=True):
    """The process is stopping."""


class Finished(Struct, frozen=True):
    """A pod is idle again, and the result of that subtask is ready."""

    subtask: int


class Reopened(Struct, frozen=True):
    """The history is writable again, or has another id."""

    history: str


Event = Start | Tick | Stop | Finished | Reopened | MasterMessage


# --- instructions -----------------------------------------------------------------------------


class Open(Struct, frozen=True):
    """Open a new socket to the master."""


class Close(Struct, frozen=True):
    """Close the socket; it may deliver queued messages for another `linger_s` seconds."""

    linger_s: float


class UseMaster(Struct, frozen=True):
    """Later sockets go to the master of this IAD. If it is the `home`, also after a restart."""

    iad: str
    home: bool


class Send(Struct, frozen=True):
    """Send a message."""

    message: NodeMessage


class SendResult(Struct, frozen=True):
    """Send the result of that subtask, which has finished."""

    subtask: int


class Execute(Struct, frozen=True):
    """Hand a subtask to an idle pod; at least one is idle."""

    subtask: Subtask


class Keep(Struct, frozen=True):
    """Store derived values, and acknowledge them then."""

    derived: Derived


class Resize(Struct, frozen=True):
    """Change the number of pods; running subtasks finish first."""

    pods: int


class TellOperator(Struct, frozen=True):
    """Log one line for the operator; lines of the same `kind` are rate-limited together."""

    kind: str
    line: str


# The outbox's members are events that it handles.
Instruction = (
    Open
    | Close
    | UseMaster
    | Send
    | SendResult
    | Execute
    | Keep
    | Resize
    | TellOperator
    | Joined
    | Cut
    | Taken
)
Instructions = list[Instruction]


class Link(EventMachine[Instructions]):
    """One node's link. `jitter` gives random numbers in [0, 1); `linger_s` is how long a goodbye
    may take to leave. With several masters `hello` names them, and `home` is the one to begin with:
    after `follow_s` without it the next one is tried (0: never)."""

    def __init__(
        self,
        hello: Hello,
        *,
        first_pause_s: float,
        longest_pause_s: float,
        jitter: Callable[[], float],
        linger_s: float = 0.5,
        home: str = "",
        follow_s: float = 0.0,
    ) -> None:
        super().__init__(State.NEW)
        self.home = home  # where this node's home is
        self.master = home  # the one that it talks to
        self.running: set[int] = set()  # subtasks in the pods
        self.held: list[
            int
        ] = []  # finished while the link was cut; at most the subtasks that ran then
        self.wake_at = float("inf")
        self._hello = hello
        self._pauses = BackOff(first_pause_s, longest_pause_s, jitter=jitter)
        self._linger_s = linger_s
        self._heartbeat_s = 0.0
        self._heard_at = 0.0
        self._beat_at = 0.0
        self._follow_s = follow_s or float("inf")
        self._follow_at = float("inf")
        self._go_at = float("inf")

    def __repr__(self) -> str:
        return f"link of {self._hello.node}"

    def handle(self, event: Event, now: float) -> Instructions:
        """Actions for `event` at monotonic time `now`; InvalidTransition if it cannot be."""
        joined = self.state is State.JOINED
        kind = type(event)
        if joined and kind in FROM_MASTER:
            self._heard_at = now
        instructions = self._act(kind, event, now)
        if joined and self.state is not State.JOINED:
            return [Cut(), *instructions]
        return instructions

    # --- actions ---

    def _open(self, _: Event, now: float) -> Instructions:
        return [Open(), *self._greet(_, now)]

    def _greet(self, _: Event, now: float) -> Instructions:
        self.state = State.GREETING
        self.wake_at = now + GREETING_S
        self._follow_at = min(self._follow_at, now + self._follow_s)
        return [Send(replace(self._hello, running=self._at_work()))]

    def _open_when_due(self, event: Event, now: float) -> Instructions:
        if now < self.wake_at:
            return []
        masters = self._hello.masters
        if now < self._follow_at or len(masters) < 2:
            return self._open(event, now)
        self._follow_at = now + self._follow_s
        after = masters[(masters.index(self.master) + 1) % len(masters)]
        line = f"no master {self.master} for {self._follow_s:g} s; going to {after}"
        told = TellOperator("home", line)
        return [told, self._use(after, self.home), *self._open(event, now)]

    def _use(self, master: str, home: str) -> Instruction:
        self.master, self.home = master, home
        self._hello = replace(self._hello, followed=master != home)
        return UseMaster(master, home=master == home)

    def _give_up_greeting(self, _: Event, now: float) -> Instructions:
        if now < self.wake_at:
            return []
        return self._back_off("silence", f"no answer from the master in {GREETING_S:g} s", now)

    def _join(self, event: Welcome, now: float) -> Instructions:
        if event.incarnation != self._hello.incarnation:
            return [TellOperator("welcome", "the master welcomed somebody else; ignored")]
        joining = self.state is not State.JOINED
        self.state = State.JOINED
        self._pauses.reset()
        self._follow_at = float("inf")
        self._heartbeat_s = event.heartbeat_s
        self._heard_at = now
        self._beat_at = now + event.heartbeat_s
        self._sleep()
        results: Instructions = [SendResult(subtask) for subtask in self.held]
        self.held.clear()
        if not joining:
            return results
        told = TellOperator("joined", f"joined the master {self.master}".rstrip())
        return [told, *results, Joined(event.takes_events, event.events_settled, event.events_to)]

    def _beat(self, _: Event, now: float) -> Instructions:
        if now >= self._lost_at():
            silence_s = now - self._heard_at
            return self._back_off("silence", f"no sign of the master for {silence_s:.1f} s", now)
        if now < self._beat_at:
            return []
        # Counted from now, not from the due time: after a pause one heartbeat is enough.
        self._beat_at = now + self._heartbeat_s
        self._sleep()
        return [Send(Heartbeat(self._hello.incarnation, self._at_work()))]

    def _hear(self, _: Event, __: float) -> Instructions:
        if self.state is State.JOINED:
            self._sleep()
        return []

    def _rejected(self, event: Rejected, now: float) -> Instructions:
        # Retry: another node with this name may be gone by then.
        reason = f"the master rejected this node: {event.message}"
        return self._back_off("rejected", reason, now)

    def _back_off(self, kind: str, reason: str, now: float) -> Instructions:
        pause_s = self._pauses.next()
        self.state = State.WAITING
        self._follow_at = min(self._follow_at, now + self._follow_s)
        self.wake_at = now + pause_s
        return [Close(0.0), TellOperator(kind, f"{reason}; trying again in {pause_s:.1f} s")]

    def _execute(self, event: Subtask, _: float) -> Instructions:
        self._sleep()
        if event.id in self.running:  # from a master that restarted its numbering
            return [_refusal(event, f"subtask {event.id} is still at work for somebody else")]
        if len(self.running) >= self._hello.pods:
            return [_refusal(event, f"all pods are busy: {self._hello.pods}")]
        self.running.add(event.id)
        return [Execute(event)]

    def _taken(self, event: EventsTaken, _: float) -> Instructions:
        if self.state is State.JOINED:
            self._sleep()
        # It may acknowledge events of an earlier process or an earlier history.
        if (event.incarnation, event.history) != (self._hello.incarnation, self._hello.history):
            return []
        return [Taken(event.sequences)]

    def _keep(self, event: Derived, _: float) -> Instructions:
        self._sleep()
        return [Keep(event)] if event.incarnation == self._hello.incarnation else []

    def _resize(self, event: SetPods, _: float) -> Instructions:
        if self.state is State.JOINED:
            self._sleep()
        answer = Send(PodsSet(self._hello.incarnation, event.count))
        if event.count == self._hello.pods:
            return [answer]
        # Later hellos announce the same number.
        self._hello = replace(self._hello, pods=event.count)
        return [Resize(event.count), answer]

    def _refuse(self, event: Subtask, _: float) -> Instructions:
        return [_refusal(event, "a subtask before the welcome")]

    def _answer(self, event: Finished, _: float) -> Instructions:
        self.running.remove(event.subtask)
        return [SendResult(event.subtask)]

    def _hold(self, event: Finished, _: float) -> Instructions:
        self.running.remove(event.subtask)
        self.held.append(event.subtask)
        return []

    def _drop(self, event: Finished, _: float) -> Instructions:
        self.running.remove(event.subtask)
        return []

    def _leave(self, _: Event, __: float) -> Instructions:
        had_socket = self.state in {State.GREETING, State.JOINED, State.MOVING}
        self.state = State.LEFT
        self.wake_at = float("inf")
        return self._goodbye() if had_socket else []

    def _goodbye(self) -> Instructions:
        return [Send(Goodbye(self._hello.incarnation, self._hello.node)), Close(self._linger_s)]

    # --- a home that moves ---

    def _told_home(self, event: HomeMoved, now: float) -> Instructions:
        if event.incarnation != self._hello.incarnation:
            return []
        masters = self._hello.masters
        if event.master == self.master or event.master not in masters:
            named = "this one has that" if event.master in masters else "no master has that"
            line = (
                f"the master says that this node's home is {event.master} now; {named} name in "
                "its configuration. It stays, and its events wait"
            )
            return [TellOperator("home", line)]
        self.state = State.MOVING
        self.home = event.master
        self._go_at = now + MOVING_S
        return self._go_if_idle(event, now)

    def _go_if_idle(self, _: Event, now: float) -> Instructions:
        if self.running and now < self._go_at:
            self.wake_at = self._go_at
            return []
        told = TellOperator("home", f"its home is the master {self.home} now; going there")
        parting = self._goodbye()
        return [told, *parting, self._use(self.home, self.home), *self._open(_, now)]

    def _answer_and_go(self, event: Finished, now: float) -> Instructions:
        return [*self._answer(event, now), *self._go_if_idle(event, now)]

    def _go(self, event: Event, now: float) -> Instructions:
        self._go_at = now
        return self._go_if_idle(event, now)

    def _rename(self, event: Reopened, _: float) -> Instructions:
        self._hello = replace(self._hello, history=event.history)
        return []

    def _greet_renamed(self, event: Reopened, now: float) -> Instructions:
        self._rename(event, now)
        return self._greet(event, now)

    def _nothing(self, _: Event, __: float) -> Instructions:
        return []

    def _at_work(self) -> tuple[int, ...]:
        """The subtasks whose results the master may still expect."""
        return tuple(sorted({*self.running, *self.held}))

    def _sleep(self) -> None:
        self.wake_at = min(self._beat_at, self._lost_at())

    def _lost_at(self) -> float:
        return self._heard_at + LOST_AFTER * self._heartbeat_s

    # Impossible pairs have no entry: nothing arrives without a socket.
    TRANSITIONS: ClassVar[dict[tuple[State, type], Callable[[Link, Any, float], Instructions]]] = {
        (State.NEW, Start): _open,
        (State.NEW, Tick): _nothing,
        (State.NEW, Stop): _leave,
        (State.NEW, Reopened): _rename,
        (State.GREETING, Tick): _give_up_greeting,
        (State.GREETING, Welcome): _join,
        (State.GREETING, Heartbeat): _nothing,
        # It answers a message sent before the hello; the hello is already on its way.
        (State.GREETING, HelloWanted): _nothing,
        (State.GREETING, Rejected): _rejected,
        # Sent before the master received the hello; the welcome follows.
        (State.GREETING, SetPods): _resize,
        (State.GREETING, EventsTaken): _taken,
        (State.GREETING, Subtask): _refuse,
        # They are said again after the welcome.
        (State.GREETING, HomeMoved): _nothing,
        (State.GREETING, Derived): _nothing,
        (State.GREETING, Finished): _hold,
        (State.GREETING, Stop): _leave,
        (State.GREETING, Reopened): _greet_renamed,
        (State.JOINED, Tick): _beat,
        (State.JOINED, Welcome): _join,
        (State.JOINED, Heartbeat): _hear,
        (State.JOINED, HelloWanted): _greet,
        (State.JOINED, Rejected): _rejected,
        (State.JOINED, SetPods): _resize,
        (State.JOINED, EventsTaken): _taken,
        (State.JOINED, Subtask): _execute,
        (State.JOINED, HomeMoved): _told_home,
        (State.JOINED, Derived): _keep,
        (State.JOINED, Finished): _answer,
        (State.JOINED, Stop): _leave,
        # Also with the same id: events that were unreadable before join the outbox's backlog.
        (State.JOINED, Reopened): _greet_renamed,
        (State.MOVING, Tick): _go_if_idle,
        (State.MOVING, Finished): _answer_and_go,
        # Sent before the master said where the home is, or by one that has forgotten the node.
        (State.MOVING, Welcome): _nothing,
        (State.MOVING, Heartbeat): _nothing,
        (State.MOVING, HomeMoved): _nothing,
        (State.MOVING, HelloWanted): _go,
        (State.MOVING, Rejected): _go,
        # This master keeps them until the node is back here.
        (State.MOVING, Derived): _nothing,
        (State.MOVING, SetPods): _resize,
        (State.MOVING, EventsTaken): _taken,
        (State.MOVING, Subtask): _execute,
        (State.MOVING, Stop): _leave,
        (State.MOVING, Reopened): _rename,
        (State.WAITING, Tick): _open_when_due,
        (State.WAITING, Finished): _hold,
        (State.WAITING, Stop): _leave,
        (State.WAITING, Reopened): _rename,
        (State.LEFT, Tick): _nothing,
        (State.LEFT, Finished): _drop,
    }


def _refusal(subtask: Subtask, why: str) -> Instruction:
    return Send(SubtaskResult(subtask.id, "error", 0.0, 0.0, message=why))

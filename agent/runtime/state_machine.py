"""State machines: the table decides which transition is allowed, the error tells the history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, TypeVar

Done = TypeVar("Done")

PAST_KEPT: Final = 8  # states before the present one
EVENTS_KEPT: Final = 20


class InvalidTransition(AssertionError):
    """A transition that the machine's table does not have, with what happened before."""


class StateMachine:
    """An item that changes its `state` along the arrows of `TRANSITIONS`, keyed (from, to).

    The class names its table; a value says what leads along that arrow. O(1), without a clock:
    subtasks change state tens of thousands of times a second.
    """

    __slots__ = ("_past", "state")

    TRANSITIONS: ClassVar[Mapping[tuple[str, str], str]]

    def __init__(self, state: str = "new") -> None:
        self.state = state
        # The last arrows, one behind the other: one tuple more a transition, and nothing else.
        self._past: tuple[str, ...] = ()

    def become(self, state: str) -> None:
        """Change state; InvalidTransition if the table has no such arrow."""
        arrow = (self.state, state)
        if arrow not in self.TRANSITIONS:
            raise InvalidTransition(
                f"{self.state} → {state} is not allowed for {self!r} by "
                f"{type(self).__name__}.TRANSITIONS; history: {self.history}"
            )
        past = self._past
        self._past = (past if len(past) < 2 * PAST_KEPT else past[2:]) + arrow
        self.state = state

    @property
    def history(self) -> str:
        """The last states up to the present one."""
        return " → ".join((*self._past[::2], self.state))


class EventMachine(Generic[Done]):
    """A machine that events drive: `TRANSITIONS` is keyed (state, type of event) and holds the
    actions, which set `state` and return what is to be done. The repr names the machine."""

    TRANSITIONS: ClassVar[Mapping[tuple[Any, type], Callable[[Any, Any, float], Any]]]

    def __init__(self, state: Enum) -> None:
        self.state = state
        self._happened: deque[tuple[Enum, type, float]] = deque(maxlen=EVENTS_KEPT)

    def _act(self, kind: type, event: Any, now: float) -> Done:
        """Do what the table says about an event of that type; InvalidTransition if nothing."""
        self._happened.append((self.state, kind, now))
        action = self.TRANSITIONS.get((self.state, kind))
        if action is None:
            story = "; ".join(
                f"{s.value} {what.__name__} at {at:.3f}" for s, what, at in self._happened
            )
            raise InvalidTransition(
                f"{self!r}: {story} is not in {type(self).__name__}.TRANSITIONS"
            )
        done: Done = action(self, event, now)
        return done

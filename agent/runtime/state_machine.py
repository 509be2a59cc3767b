"""State machines: a table of the allowed transitions; errors include the history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, TypeVar

Done = TypeVar("Done")

PAST_KEPT: Final = 8  # states before the present one
EVENTS_KEPT: Final = 20


class InvalidTransition(AssertionError):
    """A transition that is not in the machine's table; the text includes the history."""


class StateMachine:
    """An item whose `state` changes by the transitions of `TRANSITIONS`, keyed (from, to).

    Each class sets its table; a value says what causes the transition. O(1), and without a clock,
    because subtasks change state tens of thousands of times a second.
    """

    __slots__ = ("_past", "state")

    TRANSITIONS: ClassVar[Mapping[tuple[str, str], str]]

    def __init__(self, state: str = "new") -> None:
        self.state = state
        # The last transitions, flat: from, to, from, to … One new tuple per transition is cheap.
        self._past: tuple[str, ...] = ()

    def become(self, state: str) -> None:
        """Change state; InvalidTransition if the table does not allow it."""
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
        """The last states, ending with the current one."""
        return " → ".join((*self._past[::2], self.state))


class EventMachine(Generic[Done]):
    """An event-driven state machine: `TRANSITIONS` is keyed (state, type of event) and holds the
    actions, which set `state` and return the instructions. The repr identifies the machine."""

    TRANSITIONS: ClassVar[Mapping[tuple[Any, type], Callable[[Any, Any, float], Any]]]

    def __init__(self, state: Enum) -> None:
        self.state = state
        self._happened: deque[tuple[Enum, type, float]] = deque(maxlen=EVENTS_KEPT)

    def _act(self, kind: type, event: Any, now: float) -> Done:
        """Run the table's action for an event of this type; InvalidTransition if there is none."""
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

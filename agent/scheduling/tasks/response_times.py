"""How long a node took to answer, without what this master's own lateness adds to it.

A master that is busy takes a result some time after it has come. What it knows is an interval: the
result was not there when it last looked, and was when it took it. How long the subtask was at the
node is in the result; the rest is travel, which changes little from one to the next. So a time
inside the interval is chosen by the travel that the node's other results took.
"""

from __future__ import annotations

from typing import Final

# The weight of a new travel time.
FORGETTING: Final = 0.125


class ResponseTimes:
    """The response times of one node; seconds."""

    __slots__ = ("_travel_s",)

    def __init__(self) -> None:
        self._travel_s: float | None = None

    def of(self, longest_s: float, late_s: float, at_node_s: float) -> float:
        """The response time of a result that was taken `longest_s` after its subtask was sent, and
        that may have waited here for `late_s` of these; the node had it for `at_node_s` by its own
        clock. Between longest_s − late_s and longest_s; exactly that if nothing was late. O(1)."""
        at_node_s = min(max(0.0, at_node_s), longest_s)
        most_s = longest_s - at_node_s
        least_s = max(0.0, most_s - late_s)
        known_s = self._travel_s
        if known_s is None:
            # On the safe side where much may be lateness: the next results tell.
            self._travel_s = least_s
            return at_node_s + least_s
        travel_s = min(max(known_s, least_s), most_s)
        # What is inside the interval says nothing new.
        self._travel_s = known_s + FORGETTING * (travel_s - known_s)
        return at_node_s + travel_s

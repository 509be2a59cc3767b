"""Response times of a node, corrected for delays in this master.

A busy master reads a result some time after its arrival. It knows an interval: the result was not
there when the master last looked, and was when it was read. The time at the node is in the result;
the rest is travel, which varies little. So the time within the interval is chosen by the travel
time of the node's other results.
"""

from __future__ import annotations

from typing import Final

# The weight of a new travel time.
FORGETTING: Final = 0.125


class ResponseTimes:
    """The response times of one node, in seconds."""

    __slots__ = ("_travel_s",)

    def __init__(self) -> None:
        self._travel_s: float | None = None

    def of(self, longest_s: float, late_s: float, at_node_s: float) -> float:
        """The response time of a result that was read `longest_s` after its subtask was sent, and
        that may have waited here for `late_s` of these; the node had it for `at_node_s` by its own
        clock. The result lies between longest_s − late_s and longest_s; it is exact if nothing was
        late. O(1)."""
        # Comparisons instead of min and max, which take longer: this is done for every subtask.
        if at_node_s > longest_s:
            at_node_s = longest_s
        elif not at_node_s > 0.0:  # NaN, too
            at_node_s = 0.0
        most_s = longest_s - at_node_s
        least_s = most_s - late_s if late_s < most_s else 0.0
        known_s = self._travel_s
        if known_s is None:
            # On the safe side if much may be lateness: later results correct it.
            self._travel_s = least_s
            return at_node_s + least_s
        travel_s = known_s
        if travel_s < least_s:
            travel_s = least_s
        elif travel_s > most_s:
            travel_s = most_s
        # A time within the interval carries no new information.
        self._travel_s = known_s + FORGETTING * (travel_s - known_s)
        return at_node_s + travel_s

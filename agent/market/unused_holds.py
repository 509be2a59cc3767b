"""What is held for buyers and never bought: each has so many seconds of it, else one could keep all
capacity from others for nothing."""

from __future__ import annotations

import math

from agent.runtime.token_bucket import TokenBuckets
from agent.wire.principals import Sender

# As long as so many holds at once, and in the long run this share of the time.
MAX_HOLDS = 20
SHARE = 0.1
# Of many that end at once few count.
MAX_DEBT_HOLDS = 2


class UnusedHolds:
    """Of the IAD `seller`, where an acceptance holds capacity for `hold_s`. All O(1)."""

    def __init__(self, seller: str, hold_s: float) -> None:
        self._seller = seller
        self._most_debt_s = MAX_DEBT_HOLDS * hold_s
        self._seconds = TokenBuckets(MAX_HOLDS * hold_s, SHARE)

    def ended(self, buyer: Sender, held_s: float, now: float) -> None:
        """Something that was held for so long was not bought."""
        left = self._seconds.of(buyer.name, now)
        debt_s = SHARE * left.wait_s(now, 0.0)
        left.take(min(held_s, self._most_debt_s - debt_s))

    def why_not(self, buyer: Sender, now: float) -> str:
        """Why nothing more is held for a buyer; empty if it is. Without keys buyers cannot be told
        apart."""
        if buyer.role == "anyone" or buyer.name == self._seller:
            return ""
        wait_s = math.ceil(self._seconds.of(buyer.name, now).wait_s(now))
        held = f"{self._seller} has held for {buyer.name} what it did not buy"
        return f"{held}; try again in {wait_s} s" if wait_s else ""

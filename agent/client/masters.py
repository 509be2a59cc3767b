"""The masters that one client may talk to, and which of them it asks."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from agent.client.round_trips import round_trips_ms
from agent.net.keys import KeyFiles
from agent.wire.base import MAX_MASTERS
from agent.wire.push import GivenMaster

Client = TypeVar("Client")
Given = tuple[GivenMaster, ...]

# Of several masters, one that is not connected after so long is away. A dead one costs this once:
# it is asked again when the others are away, too.
CONNECT_S: Final = 2.0
# The ways to them are measured anew when they are told again after so long.
MEASURED_S: Final = 60.0


class Masters(Generic[Client]):
    """Their keys, by address, and the connections that there are."""

    def __init__(self, keys: dict[str, KeyFiles | None]) -> None:
        self.keys = keys
        self.clients: dict[str, Client] = {}
        self.connect_s = CONNECT_S
        self._order = list(keys)
        self._ways_ms: dict[str, float] = {}
        self._measured_s = -math.inf

    @property
    def order(self) -> tuple[str, ...]:
        """The addresses, in the order in which they are tried."""
        return tuple(self._order)

    def given(self, first: str) -> Given:
        """Those between which a subscription may move, this one first; none without a choice."""
        if len(self.keys) == 1:
            return ()
        now = time.monotonic()
        if now >= self._measured_s + MEASURED_S:
            self._measured_s, self._ways_ms = now, round_trips_ms(self.keys)
        addresses = [first, *(each for each in self.keys if each != first)][:MAX_MASTERS]
        return tuple([GivenMaster(each, self._ways_ms.get(each)) for each in addresses])

    def is_away(self, address: str) -> None:
        """That one is tried last from now on."""
        self._order.remove(address)
        self._order.append(address)


def keys_by_address(
    address: str | Sequence[str], keys: KeyFiles | Sequence[KeyFiles] | None
) -> dict[str, KeyFiles | None]:
    """The keys for each of the addresses, which are a sequence or have commas between: one for all
    of them, or one for each, or ValueError."""
    if not address:
        raise ValueError("no address of a master; give one, such as tcp://127.0.0.1:5700")
    addresses = address.split(",") if isinstance(address, str) else list(address)
    if keys is None or isinstance(keys, KeyFiles):
        return dict.fromkeys(addresses, keys)
    if len(keys) != len(addresses):
        raise ValueError(f"{len(addresses)} addresses, but keys for {len(keys)}")
    return dict(zip(addresses, keys, strict=True))

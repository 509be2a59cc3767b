"""The ways to a client's masters: a connection takes one round trip."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from errno import EINPROGRESS
from typing import Any, Final

# Of several connections the fastest counts: what is more has waited somewhere.
TRIES: Final = 3
# For all of them together.
WITHIN_S: Final = 0.3
MAX_PORT: Final = 65_535

_Target = tuple[socket.AddressFamily, Any]


def round_trips_ms(addresses: Iterable[str], within_s: float = WITHIN_S) -> dict[str, float]:
    """The least round trip to each ``tcp://host:port`` that answers in time; all are asked at
    once. Names of hosts are looked up first, which is not timed."""
    targets = {each: target for each in addresses if (target := _target(each)) is not None}
    least_ms: dict[str, float] = {}
    for _ in range(TRIES):
        found_ms = _connected_ms(targets, within_s / TRIES)
        # What did not answer may be dead: it costs its time once.
        targets = {each: targets[each] for each in found_ms}
        for each, found in found_ms.items():
            least_ms[each] = min(found, least_ms.get(each, found))
    return least_ms


def _target(address: str) -> _Target | None:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    if not address.startswith("tcp://") or not port.isdecimal() or int(port) > MAX_PORT:
        return None
    with suppress(OSError, UnicodeError):
        family, _, _, _, to = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        return family, to
    return None


def _connected_ms(targets: Mapping[str, _Target], within_s: float) -> dict[str, float]:
    """How long a connection to each takes, of those that come about in time."""
    found_ms: dict[str, float] = {}
    ends_s = time.monotonic() + within_s
    with ExitStack() as opened:
        waiting = opened.enter_context(selectors.DefaultSelector())
        for address, (family, to) in targets.items():
            link = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
            link.setblocking(False)
            begun_s = time.perf_counter()
            if link.connect_ex(to) in (0, EINPROGRESS):
                waiting.register(link, selectors.EVENT_WRITE, (address, link, begun_s))
        while waiting.get_map() and (left_s := ends_s - time.monotonic()) > 0:
            ready = waiting.select(left_s)
            now_s = time.perf_counter()
            for key, _ in ready:
                address, link, begun_s = key.data
                waiting.unregister(link)
                if not link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    found_ms[address] = (now_s - begun_s) * 1e3
    return found_ms

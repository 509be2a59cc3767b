"""Load generator: replays a trace against the masters' sockets, measures at the client."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final, Self

import zmq

from agent.client import Client
from agent.wire.base import TIMEOUT_FACTOR
from agent.wire.messages import Answer
from fleet.simulation.measures import Outcome
from fleet.simulation.workload import Arrival

# How long a replay waits for an answer after the query's own answer timeout.
GRACE_S: Final = 2.0
# Maximum sleep, so that `tick` is called often enough for a progress bar.
MAX_POLL_MS: Final = 200.0

Tick = Callable[[float, int], None]
"""Called with the seconds since the start and the answers so far; may raise to end the run."""


class LoadGenerator:
    """Asks each query scheduler of a fleet over a socket of its own; a context manager."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._clients = {
                iad: stack.enter_context(Client(address))
                for iad, address in self._addresses.items()
            }
            self._stack = stack.pop_all()
        self._poller = zmq.Poller()
        self._of_socket = {client.socket: client for client in self._clients.values()}
        for socket in self._of_socket:
            self._poller.register(socket, zmq.POLLIN)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def replay(self, trace: Sequence[Arrival], run: str, tick: Tick) -> list[Outcome]:
        """Send every arrival at its time and wait for the answers; outcomes in the order of the
        trace. `run` names it in the records."""
        started_s = time.monotonic()
        waiting = list(reversed(trace))
        open_arrivals: dict[str, Arrival] = {}
        outcomes: dict[int, Outcome] = {}
        give_up_s = math.inf
        while waiting or open_arrivals:
            now_s = time.monotonic() - started_s
            while waiting and waiting[-1].at_s <= now_s:
                arrival = waiting.pop()
                query = arrival.query(run)
                open_arrivals[query.id] = arrival
                self._clients[arrival.scheduler].send(query)
                if not waiting:
                    longest_s = max(a.slo_ms for a in trace) / 1e3 * TIMEOUT_FACTOR
                    give_up_s = now_s + longest_s + GRACE_S
            next_s = waiting[-1].at_s if waiting else give_up_s
            for answer in self._answers(next_s - (time.monotonic() - started_s)):
                latency_s = time.monotonic() - started_s
                arrived = open_arrivals.pop(answer.id, None)
                if arrived is not None:
                    latency_ms = (latency_s - arrived.at_s) * 1e3
                    reasons = {str(gap.reason) for gap in answer.missing}
                    gaps = tuple(sorted(reasons)) if answer.reason is None else (answer.reason,)
                    outcomes[arrived.number] = _outcome(arrived, answer.status, latency_ms, gaps)
            now_s = time.monotonic() - started_s
            tick(now_s, len(outcomes))
            if now_s > give_up_s:
                break
        for arrival in open_arrivals.values():
            outcomes[arrival.number] = _outcome(arrival, "no reply", None)
        return [outcomes[arrival.number] for arrival in trace]

    def _answers(self, longest_s: float) -> Iterator[Answer]:
        """The answers that arrive within `longest_s` seconds: the first, and all that are there
        then."""
        # Rounded up: a poll that ends slightly early would only be repeated.
        wait_ms = math.ceil(min(max(0.0, longest_s * 1e3), MAX_POLL_MS))
        for socket, _ in self._poller.poll(wait_ms):
            yield self._of_socket[socket].receive(0)


def _outcome(
    arrival: Arrival, status: str, latency_ms: float | None, gaps: tuple[str, ...] = ()
) -> Outcome:
    return Outcome(arrival.number, arrival.kind, arrival.slo_ms, status, latency_ms, gaps)

"""Clients of a master: sensing queries for anyone, state and policy for the IAD's operator.

>>> with Client("tcp://127.0.0.1:5700") as client:          # doctest: +SKIP
...     answer = client.query(["b1/f4"], last_s=600, percentile=99, latency_ms=500)
...     for result in answer.results:
...         print(result.area, result.series.values["temperature"].numbers()[-1])
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

import zmq

from agent.wire.base import LONGEST_TIMEOUT_MS, Form, Message, Policy
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, encode
from agent.wire.market import Service
from agent.wire.messages import Answer, Query, Slo, Window
from agent.wire.operator import (
    IadStatus,
    ListServices,
    OperatorError,
    ServiceReport,
    ServiceRequest,
    SetPolicy,
    StatusRequest,
)
from agent.wire.unions import OperatorReply

T = TypeVar("T")

# What a query may cost beyond its own answer timeout before the master counts as silent.
GRACE_MS = 1_000.0
DEFAULT_TIMEOUT_FACTOR = 4.0


class NoReplyError(TimeoutError):
    """The master did not reply in time."""


class _Link(Generic[T]):
    """A DEALER to one master's socket; not for use by several threads at once."""

    def __init__(self, address: str, union: object) -> None:
        self.address = address
        self._decoder: Decoder[T] = Decoder(union, MAX_RESULT_BYTES)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        try:
            self.socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(f"cannot use address {address!r}: {error.strerror}") from None

    def close(self) -> None:
        self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def send_message(self, message: Message) -> None:
        self.socket.send(encode(message))

    def receive_message(self, timeout_ms: float) -> T:
        if not self.socket.poll(math.ceil(timeout_ms)):
            raise NoReplyError(
                f"no reply from {self.address} within {timeout_ms / 1e3:.1f} s; "
                "is a master running there?"
            )
        message, _codec = self._decoder.decode(self.socket.recv())
        return message


class Client(_Link[Answer]):
    """Sends sensing queries to a master's public socket; a context manager.

    `query` waits for its answer. `send` and `receive` let many queries be under way at once;
    answers come in any order, each with its query's `id`.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address, Answer)
        self._numbers = itertools.count(1)

    def query(
        self,
        areas: Sequence[str],
        *,
        last_s: float | None = None,
        window: Window | None = None,
        percentile: float = 99.0,
        latency_ms: float = 500.0,
        channels: Sequence[str] = (),
        form: Form = "series",
        timeout_ms: float | None = None,
        label: str = "",
    ) -> Answer:
        """Ask `areas` for the last `last_s` seconds (or `window`) and wait for the answer.

        Raises `NoReplyError` when the master stays silent; every other failure is an `Answer`.
        """
        if window is None:
            window = Window(last_s=last_s)
        if timeout_ms is None:
            timeout_ms = min(latency_ms * DEFAULT_TIMEOUT_FACTOR, LONGEST_TIMEOUT_MS)
        query = Query(
            id=f"q{next(self._numbers)}",
            areas=tuple(areas),
            window=window,
            slo=Slo(percentile, latency_ms),
            channels=tuple(channels),
            form=form,
            timeout_ms=timeout_ms,
            label=label,
        )
        self.send(query)
        give_up = time.monotonic() + (timeout_ms + GRACE_MS) / 1e3
        while True:
            answer = self.receive(max(0.0, (give_up - time.monotonic()) * 1e3))
            # An answer without an id refuses a frame that the master could not read.
            if answer.id in (query.id, ""):
                return answer

    def send(self, query: Query) -> None:
        """Send a query; its answer comes with the same `id`."""
        self.send_message(query)

    def receive(self, timeout_ms: float) -> Answer:
        """The next answer; `NoReplyError` after `timeout_ms`."""
        return self.receive_message(timeout_ms)


class Operator(_Link[OperatorReply]):
    """Talks to a master's operator socket; a context manager."""

    def __init__(self, address: str) -> None:
        super().__init__(address, OperatorReply)

    def status(self, timeout_ms: float = 2_000.0) -> IadStatus:
        """The state of the IAD; `NoReplyError` when the master stays silent."""
        return self._ask(StatusRequest(), timeout_ms)

    def set_policy(self, policy: Policy, timeout_ms: float = 2_000.0) -> IadStatus:
        """Order the queues by `policy` from now on."""
        return self._ask(SetPolicy(policy), timeout_ms)

    def services(self, timeout_ms: float = 2_000.0) -> tuple[Service, ...]:
        """The services that the master is a member or the owner of."""
        return self.ask_service(ListServices("list"), timeout_ms).services

    def ask_service(self, request: ServiceRequest, timeout_ms: float = 15_000.0) -> ServiceReport:
        """Have a service set up, changed or dropped; what came of it is in the report."""
        self.send_message(request)
        give_up = time.monotonic() + timeout_ms / 1e3
        while True:
            reply = self.receive_message(max(0.0, (give_up - time.monotonic()) * 1e3))
            if isinstance(reply, OperatorError):
                raise ValueError(reply.message)
            # The report of an earlier request may come late.
            if isinstance(reply, ServiceReport) and reply.id == request.id:
                return reply

    def _ask(self, request: StatusRequest | SetPolicy, timeout_ms: float) -> IadStatus:
        self.send_message(request)
        reply = self.receive_message(timeout_ms)
        if isinstance(reply, OperatorError):
            raise ValueError(reply.message)
        assert isinstance(reply, IadStatus)
        return reply

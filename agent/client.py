"""Clients of a master: sensing queries for anyone, state and policy for the IAD's operator.

>>> with Client("tcp://127.0.0.1:5700") as client:          # doctest: +SKIP
...     answer = client.query(["b1/f4"], last_s=600, percentile=99, latency_ms=500)
...     for result in answer.results:
...         print(result.area, result.series.values["temperature"].numbers()[-1])
...     with client.watch(["b1/f4"], style="streaming", interval_s=5) as rounds:
...         for each in rounds:
...             print(each.number, each.answer.coverage)
"""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

import zmq
from msgspec.structs import replace

from agent.sockets.dealer import KeyedLink
from agent.sockets.keys import KeyFiles, read_publics, read_secrets
from agent.sockets.watched import Watched
from agent.wire.base import LONGEST_TIMEOUT_MS, Form, Message, Policy
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, encode
from agent.wire.config import ConfigError
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
from agent.wire.standing import Acknowledge, Cancel, Round, Style, Watch, Watching
from agent.wire.unions import ClientReply, OperatorReply

T = TypeVar("T")

# What a query may cost beyond its own answer timeout before the master counts as silent.
GRACE_MS = 1_000.0
DEFAULT_TIMEOUT_FACTOR = 4.0
# A watch is sent again when nothing came of it for its interval, or the first of these if that is
# shorter, its answer timeout, and the second: what the master waits for late readings, and travel.
LONGEST_QUIET_S = 30.0
QUIET_GRACE_S = 5.0
# A connection that takes no data for so long is dead, and made anew.
DEAD_AFTER_MS = 6_000
# With keys: how long a handshake may take, and all that are tried before a message is sent.
HANDSHAKE_MS = 1_500
LOOK_S = 1.0
CONNECT_S = 8.0


class NoReplyError(TimeoutError):
    """The master did not reply in time."""


class WatchError(ValueError):
    """The master refuses a watch, or has ended it; one line says why."""


class _Link(Generic[T]):
    """A DEALER to one master's socket; not for use by several threads at once.

    With `keys` it speaks CURVE: ConfigError if a file cannot be used. When the own key has changed
    the next message goes over a new connection, and replies still due on the one before are lost.
    """

    def __init__(self, address: str, union: object, keys: KeyFiles | None) -> None:
        self.address = address
        self._keys = keys
        self._secrets = None if keys is None else Watched(keys.key, read_secrets)
        self._looked_s = 0.0
        self._decoder: Decoder[T] = Decoder(union, MAX_RESULT_BYTES)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self.socket, self._keyed = self._open()
        except ConfigError:
            self.close()
            raise
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(f"cannot use address {address!r}: {error.strerror}") from None

    def _open(self) -> tuple[zmq.Socket[bytes], KeyedLink | None]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.TCP_MAXRT, DEAD_AFTER_MS)
        keys, secrets = self._keys, self._secrets
        if keys is None or secrets is None or not self.address.startswith("tcp://"):
            socket.connect(self.address)
            return socket, None
        # Sent only once the other end has proved its key, and taken this one.
        socket.setsockopt(zmq.IMMEDIATE, 1)
        return socket, KeyedLink(
            socket,
            self.address,
            lambda: secrets.value,
            lambda: read_publics(keys.server_keys),
        )

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
        if self._keyed is not None:
            self._await_connection()
        self.socket.send(encode(message))

    def _await_connection(self) -> None:
        """Either end may be changing its key, or libzmq have given up: try all that may fit."""
        assert self._keys is not None
        now = time.monotonic()
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            self._show_new_key()
        while not self.socket.poll(HANDSHAKE_MS, zmq.POLLOUT):
            if time.monotonic() >= now + CONNECT_S:
                raise NoReplyError(
                    f"no connection to {self.address} with {self._keys.key} and "
                    f"{self._keys.server_keys}; is a master running there, are these its keys, "
                    "and is this key in its allow-list?"
                )
            assert self._keyed is not None
            self._keyed.redial()

    def _show_new_key(self) -> None:
        assert self._secrets is not None
        before = self._secrets.value[0]
        with suppress(ConfigError):  # the keys before stay in use
            if self._secrets.refresh() and self._secrets.value[0] != before:
                # Not the same socket: libzmq might still put a message on its former connection.
                self.socket.close(0)
                self.socket, self._keyed = self._open()

    def receive_message(self, timeout_ms: float) -> T:
        if not self.socket.poll(math.ceil(timeout_ms)):
            raise NoReplyError(
                f"no reply from {self.address} within {timeout_ms / 1e3:.1f} s; "
                "is a master running there?"
            )
        message, _codec = self._decoder.decode(self.socket.recv())
        return message


class Client(_Link[ClientReply]):
    """Sends sensing queries to a master's public socket; a context manager.

    `query` waits for its answer. `send` and `receive` let many queries be under way at once;
    answers come in any order, each with its query's `id`. `watch` opens a standing query; any
    number of them and of queries may be under way together.
    """

    def __init__(self, address: str, keys: KeyFiles | None = None) -> None:
        super().__init__(address, ClientReply, keys)
        self._numbers = itertools.count(1)
        self._answers: deque[Answer] = deque()
        self._watches: dict[str, Rounds] = {}

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
        service: str = "default",
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
            service=service,
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
        give_up = time.monotonic() + timeout_ms / 1e3
        while not self._answers:
            self.take(max(0.0, (give_up - time.monotonic()) * 1e3))
        return self._answers.popleft()

    def watch(
        self,
        areas: Sequence[str],
        *,
        interval_s: float,
        style: Style = "periodic",
        window_s: float | None = None,
        lasting_s: float | None = None,
        trigger: str = "",
        percentile: float = 99.0,
        latency_ms: float = 500.0,
        channels: Sequence[str] = (),
        form: Form = "series",
        timeout_ms: float | None = None,
        service: str = "default",
        label: str = "",
        resume: tuple[str, int] | None = None,
        detach: bool = False,
        patience_s: float = 3_600.0,
    ) -> Rounds:
        """Ask the same again every `interval_s` seconds; the rounds are a context manager and an
        iterator. The fields are those of `Watch`.

        `resume` goes on with a watch that was left open: its id, and the last round taken of it.
        With `detach` the end of the block leaves it open. After `patience_s` without a word from
        the master the iterator raises `NoReplyError`; so does this after a few seconds. Raises
        `WatchError` if the master refuses the watch.
        """
        watch_id, after = resume or (secrets.token_hex(8), None)
        watch = Watch(
            id=watch_id,
            areas=tuple(areas),
            slo=Slo(percentile, latency_ms),
            style=style,
            interval_s=interval_s,
            window_s=window_s,
            lasting_s=lasting_s,
            trigger=trigger,
            channels=tuple(channels),
            form=form,
            timeout_ms=timeout_ms,
            service=service,
            label=label,
            after=after,
        )
        rounds = self._watches[watch_id] = Rounds(self, watch, detach, patience_s)
        try:
            rounds.open()
        except BaseException:
            self.forget(watch_id)
            raise
        return rounds

    def take(self, timeout_ms: float) -> None:
        """Receive one message and hand it to whom it is for; `NoReplyError` after `timeout_ms`."""
        message = self.receive_message(timeout_ms)
        rounds = self._watches.get(message.id)
        if rounds is not None:
            rounds.take(message)
        elif isinstance(message, Answer):
            self._answers.append(message)

    def forget(self, watch_id: str) -> None:
        """Pass over what still comes of a watch."""
        self._watches.pop(watch_id, None)


class Rounds:
    """The rounds of one watch, each once and in order, whatever becomes of the connection or of the
    master in between; made by `Client.watch`.

    A round counts as taken when the loop asks for the next one; `after` is the last of them. After
    an exception in the loop ``client.watch(…, resume=(rounds.id, rounds.after))`` gives the same
    round again.
    """

    def __init__(self, client: Client, watch: Watch, detach: bool, patience_s: float) -> None:
        self.watch = watch
        self.after = watch.after or 0
        self.message = ""  # the master's last word on why less comes than was asked for
        self._client = client
        self._detach = detach
        self._patience_s = patience_s
        timeout_ms = watch.timeout_ms or watch.slo.latency_ms * DEFAULT_TIMEOUT_FACTOR
        self._quiet_s = min(watch.interval_s, LONGEST_QUIET_S) + timeout_ms / 1e3 + QUIET_GRACE_S
        self._state = ""  # until the master's first word
        self._last = self.after
        self._received: deque[Round] = deque()
        self._in_loop: int | None = None
        self._heard_s = 0.0
        self._sent_again = 0

    @property
    def id(self) -> str:
        """Who knows it can go on with the watch; without keys it is all that protects the watch."""
        return self.watch.id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._detach:
            self.cancel()
            return
        if kind is None:
            self.acknowledge()
        self._client.forget(self.id)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Round:
        self.acknowledge()
        while not self._received:
            if self._state == "finished":
                raise StopIteration
            self._check()
            quiet_left_s = self._heard_s + self._quiet_s - time.monotonic()
            try:
                self._client.take(max(0.0, quiet_left_s * 1e3))
            except NoReplyError:
                self._sent_again += 1
                if self._sent_again * self._quiet_s > self._patience_s:
                    raise
                self._watch_again()
        first = self._received.popleft()
        self._in_loop = first.number
        return first

    def open(self, timeout_ms: float = 2_000.0) -> None:
        """Send the watch and wait for the master's word on it; part of `Client.watch`."""
        self._client.send_message(self.watch)
        self._leave("", timeout_ms)
        self._check()

    def cancel(self, timeout_ms: float = GRACE_MS) -> bool:
        """End the watch; whether the master confirmed it in time. One that did not hear of it ends
        the watch by itself after an hour."""
        try:
            if self._state == "open":
                self._client.send_message(Cancel(self.id))
                self._leave("open", timeout_ms)
        except NoReplyError:
            return False
        finally:
            self._received.clear()
            self._client.forget(self.id)
        return True

    def acknowledge(self) -> None:
        """The round last given is taken; asking for the next one says so too."""
        if self._in_loop is not None:
            self.after, self._in_loop = self._in_loop, None
            self._client.send_message(Acknowledge(self.id, self.after))

    def take(self, message: ClientReply) -> None:
        """What the client received of this watch."""
        self._heard_s, self._sent_again = time.monotonic(), 0
        match message:
            case Round():
                # Not one that was sent twice, or before which one was lost: that comes again.
                if message.previous <= self._last < message.number:
                    self._last = message.number
                    self._received.append(message)
            case Watching():
                self._state, self.message = message.state, message.message
                if message.state == "finished":
                    # Of rounds that did not fire the master learns only now that nobody waits.
                    self._client.send_message(Acknowledge(self.id, message.next_round - 1))
            case Answer():  # the master could not read the watch
                self._state, self.message = "refused", message.message

    def _watch_again(self) -> None:
        """Nothing came for a while: the connection or the master may be new."""
        self._heard_s = time.monotonic()
        self._client.send_message(replace(self.watch, after=self._last))

    def _leave(self, state: str, timeout_ms: float) -> None:
        give_up = time.monotonic() + timeout_ms / 1e3
        while self._state == state:
            self._client.take(max(0.0, (give_up - time.monotonic()) * 1e3))

    def _check(self) -> None:
        if self._state in ("refused", "cancelled"):
            raise WatchError(self.message or "the watch was cancelled")


class Operator(_Link[OperatorReply]):
    """Talks to a master's operator socket; a context manager."""

    def __init__(self, address: str, keys: KeyFiles | None = None) -> None:
        super().__init__(address, OperatorReply, keys)

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

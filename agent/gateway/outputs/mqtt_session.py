"""One session with an MQTT broker, on paho-mqtt.

Each session is a client of its own: nothing of an earlier one, such as messages under way, comes
into it. All calls belong to one thread.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, POLLOUT, poll
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent.gateway.outputs.mqtt_events import Connected, Delivered, Disconnected, Heard, Publish
from agent.net.connection_errors import in_words
from agent.runtime.printable import one_line
from agent.runtime.token_bucket import TokenBucket

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

CONNECT_S: Final = 10.0
KEEP_ALIVE_S: Final = 30
CLOSING_S: Final = 1.0
# Of what a broker may send here; it is one word.
MAX_PACKET: Final = 16_384
# Acknowledgements that may wait for a broker that sends and does not read.
MAX_UNSENT: Final = 1_000
# Packets that are read, and the pause once there were more: each takes some 0.1 ms in Python, which
# the gateway's loop lacks then. Acknowledgements of 200 messages a second are among them.
PACKETS_PER_S: Final = 1_000.0
PACKETS_AT_ONCE: Final = 1_000.0
PAUSE_S: Final = 0.02
# Without a confirmation, while messages wait for one: a broker that answers pings may do no more.
CONFIRM_S: Final = 60.0
# As many as a broker takes unless it says otherwise.
IN_FLIGHT: Final = 20
FAILURE: Final = 128  # reason codes from here on

SessionEvent = Connected | Disconnected | Delivered | Heard


class Broker(NamedTuple):
    """Address, credentials, and the topics of the session's own."""

    host: str
    port: int
    client: str
    status: str  # has the last will
    listen: str  # subscribed to; empty: nothing
    user: str = ""
    password: str = ""
    tls: Callable[[], ssl.SSLContext] | None = None
    is_version_5: bool = True

    def __repr__(self) -> str:
        return f"<broker {self.host}:{self.port}>"  # never the password


class _TooMuchError(Exception):
    """The broker sends what this client would have to hold; the text says what."""


class Session:
    """`events` collects what happened; the caller takes it after each call."""

    def __init__(self, broker: Broker) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

        self.events: list[SessionEvent] = []
        self._broker = broker
        version = MQTTProtocolVersion
        self._client: Client = Client(
            CallbackAPIVersion.VERSION2,
            broker.client,
            protocol=version.MQTTv5 if broker.is_version_5 else version.MQTTv311,
            reconnect_on_failure=False,
        )
        client = self._client
        client.connect_timeout = CONNECT_S
        client.max_inflight_messages_set(IN_FLIGHT)
        if broker.user:
            client.username_pw_set(broker.user, broker.password or None)
        client.will_set(broker.status, b"offline", qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        self._bucket = TokenBucket(PACKETS_PER_S, PACKETS_AT_ONCE, time.monotonic())
        self._is_flooded = False
        self._bound_packets()
        self._numbers: dict[int, int] = {}  # by paho's
        self._early: dict[int, str] = {}
        # Beyond what the broker takes at a time; the caller bounds how many wait.
        self._most = IN_FLIGHT
        self._confirmed_s = 0.0  # last, or when the first was sent that waits for it
        self._waiting: deque[Publish] = deque()
        self._accepted = self._ended = False
        self._cut: OSError | None = None  # what paho knows, and does not say

    def open(self) -> None:
        """Connect, and wait for the broker's word; the outcome is an event."""
        made: list[ssl.SSLSocket] = []
        try:
            if self._broker.tls is not None:
                self._client.tls_set_context(_recording(self._broker.tls(), made))
            self._client.connect(
                self._broker.host, self._broker.port, KEEP_ALIVE_S, **self._options()
            )
        except (OSError, ValueError) as error:
            refused = isinstance(error, ConnectionRefusedError)
            there = f"nothing listens at {self._broker.host}:{self._broker.port}"
            self._end(there if refused else in_words(error))
            for each in made:
                each.close()
            return
        give_up_s = time.monotonic() + CONNECT_S
        while not self.events:
            if (left_s := give_up_s - time.monotonic()) <= 0:
                self._end(f"no answer within {CONNECT_S:g} s")
                return
            self.turn(left_s)

    def _options(self) -> dict[str, Any]:
        if not self._broker.is_version_5:
            return {}
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.MaximumPacketSize = MAX_PACKET
        return {"properties": properties, "clean_start": True}

    # --- the loop --------------------------------------------------------------------------------

    @property
    def sockets(self) -> dict[int, int]:
        """File descriptors to be polled, with the events to wait for."""
        socket = self._client.socket()
        if socket is None:
            return {}
        return {socket.fileno(): POLLIN | (POLLOUT if self._client.want_write() else 0)}

    @property
    def has_more(self) -> bool:
        """Whether something was received that no poll would tell of."""
        socket = self._client.socket()
        pending = getattr(socket, "pending", None)
        return pending is not None and pending() > 0

    def turn(self, wait_s: float = 0.0) -> None:
        """Read and write what is possible."""
        if self._ended:
            return
        if wait_s > 0 and not self.has_more:
            waits = poll()
            for fileno, mask in self.sockets.items():
                waits.register(fileno, mask)
            waits.poll(wait_s * 1e3)
        try:
            self._read()
            self._require_bounds()
            if self._client.want_write():
                self._client.loop_write()
            self._client.loop_misc()
        except _TooMuchError as error:
            self._end(f"the broker sends {error}")
        except Exception as error:  # noqa: BLE001 - a broker's nonsense, which paho does not expect
            self._end(f"the broker sends what is no MQTT: {in_words(error)}")
        if self._client.socket() is None:
            self._end("the connection was cut")
        elif self._numbers and time.monotonic() - self._confirmed_s > CONFIRM_S:
            self._end(f"the broker has confirmed nothing for {CONFIRM_S:g} s")

    def _read(self) -> None:
        self._is_flooded = False
        self._client.loop_read()
        if self._is_flooded:
            time.sleep(PAUSE_S)

    def _require_bounds(self) -> None:
        """_TooMuchError if paho holds what no broker may make it hold."""
        client = self._client
        # It keeps each until the broker releases it; what is subscribed to here has QoS 1.
        if client._in_messages:  # noqa: SLF001 - there is no public way
            raise _TooMuchError("a message of QoS 2, which nobody subscribed to")
        if len(client._out_packet) > MAX_UNSENT:  # noqa: SLF001 - there is no public way
            raise _TooMuchError(f"more, and does not read {MAX_UNSENT:,} packets")

    def _bound_packets(self) -> None:
        """What paho reads from raises _TooMuchError when the packet that arrives is too long: paho
        would collect any length, whatever was told to the broker. With too many packets, there is
        nothing to read for a while; they wait at the broker."""
        client = self._client
        receive = client._sock_recv  # noqa: SLF001 - there is no public way

        def receive_bounded(size: int) -> bytes:
            packet = client._in_packet  # noqa: SLF001 - there is no public way
            if packet["remaining_length"] > MAX_PACKET:
                raise _TooMuchError(f"a packet of more than {MAX_PACKET:,} bytes")
            if packet["command"]:
                return receive(size)
            if self._bucket.wait_s(time.monotonic()):
                self._is_flooded = True
                raise BlockingIOError
            try:
                found = receive(size)
            except (ConnectionError, ssl.SSLError) as error:
                self._cut = error
                raise
            if not found:
                self._cut = ConnectionResetError()
            self._bucket.take()
            return found

        client._sock_recv = receive_bounded  # type: ignore[assignment,method-assign]  # noqa: SLF001

    def publish(self, message: Publish) -> None:
        """Hand a message over."""
        if len(self._numbers) >= self._most:
            self._waiting.append(message)
        else:
            self._send(message)

    def _send(self, message: Publish) -> None:
        try:
            sent = self._client.publish(message.topic, message.payload, message.qos, message.retain)
        except ValueError as error:  # no topic, or too large; an earlier version kept such ones
            self.events.append(Delivered(message.number, one_line(str(error))))
            return
        if not self._numbers:
            self._confirmed_s = time.monotonic()
        self._numbers[sent.mid] = message.number
        if (refused := self._early.pop(sent.mid, None)) is not None:
            self._delivered(sent.mid, refused)

    def close(self, *, orderly: bool = True) -> None:
        """End the session. In order: with the word that this gateway is away."""
        if orderly and not self._ended:
            last = self._client.publish(self._broker.status, b"offline", 1, True)
            give_up_s = time.monotonic() + CLOSING_S
            while not last.is_published() and not self._ended:
                if (left_s := give_up_s - time.monotonic()) <= 0:
                    break
                self.turn(left_s)
        with suppress(OSError, ValueError):
            self._client.disconnect()
        if (left := self._client.socket()) is not None:
            left.close()  # the broker reads nothing
        self._end("closed")

    # --- paho's callbacks, in the same thread ----------------------------------------------------

    def _on_connect(
        self,
        client: Client,
        _: Any,
        __: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._end(f"the broker refuses: {reason}")
            return
        if self._accepted:  # with each further answer everything would be published again
            return
        self._accepted = True
        self._most = min(IN_FLIGHT, getattr(properties, "ReceiveMaximum", IN_FLIGHT))
        if self._broker.listen:
            client.subscribe(self._broker.listen, 1)
        self.events.append(Connected())

    def _on_disconnect(self, _: Client, __: Any, ___: Any, reason: ReasonCode, ____: Any) -> None:
        if self._cut is None:
            self._end(f"disconnected: {reason}")
        elif self._accepted and isinstance(self._cut, ConnectionError):
            self._end("the broker ended the connection")
        else:
            self._end(in_words(self._cut))

    def _on_publish(self, _: Client, __: Any, mid: int, reason: ReasonCode, ___: Any) -> None:
        refused = str(reason) if reason.value >= FAILURE else ""
        if mid in self._numbers:
            self._delivered(mid, refused)
        else:
            self._early[mid] = refused  # `publish` has not returned yet

    def _on_message(self, _: Client, __: Any, message: MQTTMessage) -> None:
        # A topic need not be UTF-8, whatever the standard says.
        with suppress(UnicodeDecodeError):
            self.events.append(Heard(message.topic, bytes(message.payload)))

    def _delivered(self, mid: int, refused: str) -> None:
        self._confirmed_s = time.monotonic()
        self.events.append(Delivered(self._numbers.pop(mid), refused))
        if self._waiting:
            self._send(self._waiting.popleft())

    def _end(self, why: str) -> None:
        if not self._ended:
            self._ended = True
            self.events.append(Disconnected(why))


def _recording(context: ssl.SSLContext, made: list[ssl.SSLSocket]) -> ssl.SSLContext:
    """Its sockets stand in `made`: paho leaves that of a failed handshake open."""
    wrap = context.wrap_socket

    def wrapped(*words: Any, **options: Any) -> ssl.SSLSocket:
        made.append(wrap(*words, **options))
        return made[-1]

    context.wrap_socket = wrapped  # type: ignore[method-assign]
    return context

"""The answering side of NATS, MQTT 5 and Zenoh: a process that reads a window from SQLite.

Run as ``python -m bench.query_answerers KIND ADDRESS FILE``. A request is `Request`, a reply a list
of rows (time in ms, temperature, humidity), both in MessagePack.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

# What is asked for: a room's readings.
SUBJECT: Final = "b1.r1"
TOPIC: Final = "b1/r1"
Rows = list[tuple[int, float, float]]


class Request(msgspec.Struct, array_like=True):
    """A window: from `start_ms` on, before `end_ms`."""

    start_ms: int
    end_ms: int


def fill(file: Path, times_ms: list[int]) -> None:
    """A file with a reading at each of these times."""
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE readings (time_ms INTEGER PRIMARY KEY, t REAL, h REAL)")
        rows = [(at, 20.0 + at % 97 / 16, 40.0 + at % 89 / 8) for at in times_ms]
        database.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows)
    database.close()


def answering(database: sqlite3.Connection) -> Callable[[bytes], bytes]:
    """A function that makes a reply of a request; for the connection's thread."""
    decode, encode = msgspec.msgpack.Decoder(Request).decode, msgspec.msgpack.Encoder().encode

    def answer(frame: bytes) -> bytes:
        wanted = decode(frame)
        found = database.execute(
            "SELECT time_ms, t, h FROM readings WHERE time_ms >= ? AND time_ms < ?",
            (wanted.start_ms, wanted.end_ms),
        )
        return encode(found.fetchall())

    return answer


async def _nats(address: str, answer: Callable[[bytes], bytes]) -> None:
    import nats  # an option of the benchmarks

    connection = await nats.connect(f"nats://{address}")

    async def asked(message: Any) -> None:
        await connection.publish(message.reply, answer(message.data))

    await connection.subscribe(SUBJECT, cb=asked)
    await connection.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


def mqtt_client(address: str, topic: str, take: Callable[[Any], None], ready: Callable[[], None]):
    """A client of MQTT 5 that takes what comes to a topic, without Nagle's delay."""
    from paho.mqtt.client import Client, MQTTProtocolVersion
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.on_connect = lambda *_: client.subscribe(topic)
    client.on_subscribe = lambda *_: ready()
    client.on_message = lambda _client, _data, message: take(message)
    client.on_socket_open = lambda _client, _data, opened: opened.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )
    host, port = address.split(":")
    client.connect(host, int(port))
    return client


def _mqtt(address: str, answer: Callable[[bytes], bytes]) -> None:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    def asked(message: Any) -> None:
        told = Properties(PacketTypes.PUBLISH)
        told.CorrelationData = message.properties.CorrelationData
        client.publish(message.properties.ResponseTopic, answer(message.payload), properties=told)

    client = mqtt_client(address, TOPIC, asked, lambda: print("ready", flush=True))
    client.loop_forever()


def zenoh_session(address: str, *, listens: bool) -> Any:
    """A peer's session: on loopback TCP, without a broker and without looking for others."""
    import zenoh  # an option of the benchmarks

    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    ends = "listen" if listens else "connect"
    config.insert_json5("listen/endpoints", "[]")
    config.insert_json5(f"{ends}/endpoints", json.dumps([f"tcp/{address}"]))
    return zenoh.open(config)


def _zenoh(address: str, file: str) -> None:
    made: dict[int, Callable[[bytes], bytes]] = {}

    def asked(query: Any) -> None:
        # The thread is the library's.
        thread = threading.get_ident()
        answer = made.get(thread) or made.setdefault(thread, answering(sqlite3.connect(file)))
        with query:
            query.reply(TOPIC, answer(bytes(query.payload)))

    with zenoh_session(address, listens=True) as session:
        queryable = session.declare_queryable(TOPIC, asked)
        print("ready", flush=True)
        threading.Event().wait()
        queryable.undeclare()


def main() -> None:
    """Run the command."""
    kind, address, file = sys.argv[1:]
    match kind:
        case "nats":
            asyncio.run(_nats(address, answering(sqlite3.connect(file))))
        case "mqtt":
            _mqtt(address, answering(sqlite3.connect(file)))
        case "zenoh":
            _zenoh(address, file)


if __name__ == "__main__":
    main()

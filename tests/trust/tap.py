"""A TCP proxy that keeps all bytes, and the ZMTP messages in them."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress


class Tap:
    """Forwards connections to `address`; `sent` and `returned` are the bytes of each."""

    def __init__(self, address: str) -> None:
        self.target = ("127.0.0.1", int(address.rpartition(":")[2]))
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"
        self.streams: list[bytearray] = []
        self.selector = selectors.DefaultSelector()
        self.wake, self.waker = socket.socketpair()
        self.selector.register(self.listening, selectors.EVENT_READ)
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.opened = [self.listening, self.wake, self.waker]
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.wake:
                    return
                if key.fileobj is self.listening:
                    self._accept()
                else:
                    self._forward(key.fileobj, *key.data)

    def _accept(self) -> None:
        near, _ = self.listening.accept()
        try:
            far = socket.create_connection(self.target)
        except OSError:
            near.close()
            return
        self.opened += [near, far]
        for source, sink in ((near, far), (far, near)):
            self.streams.append(bytearray())
            self.selector.register(source, selectors.EVENT_READ, (sink, self.streams[-1]))

    def _forward(self, source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        try:
            data = source.recv(1 << 16)
            kept += data  # before anybody can have read it
            sink.sendall(data)
        except OSError:
            data = b""
        if not data:
            # Its number may be another one's soon.
            for each in (source, sink):
                with suppress(KeyError, ValueError):
                    self.selector.unregister(each)
                each.close()

    @property
    def bytes(self) -> bytes:
        """Everything, both ways."""
        return b"\n".join(bytes(stream) for stream in self.streams)

    def frames(self) -> list[bytes]:
        """The message frames of all streams (NULL mechanism, ZMTP 3)."""
        return [frame for stream in self.streams for frame in _frames(bytes(stream))]

    def close(self) -> None:
        self.waker.send(b"x")
        self.thread.join()
        self.selector.close()
        for each in self.opened:
            each.close()


def _frames(stream: bytes) -> list[bytes]:
    found, at = [], 64  # after the greeting
    while at + 2 <= len(stream):
        flags = stream[at]
        if flags & 2:
            size, at = int.from_bytes(stream[at + 1 : at + 9], "big"), at + 9
        else:
            size, at = stream[at + 1], at + 2
        if at + size > len(stream):
            break
        if not flags & 4:  # a command
            found.append(stream[at : at + size])
        at += size
    return found

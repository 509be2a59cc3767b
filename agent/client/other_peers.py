"""What answers where a master's socket was meant: another socket of Sanderling, or no ZeroMQ."""

from __future__ import annotations

import socket
import time
from typing import Final

from agent.wire.codec import Frame, WireError, glimpse, type_of

# Of a message that only another socket sends: which one that is.
SOCKETS: Final = {
    "answer": "a master's public socket",
    "denied": "a registration service",
    "operator_error": "a master's operator socket",
    "rejected": "a master's socket for nodes",
}
# Every ZeroMQ socket begins with this byte, and at once.
ZEROMQ: Final = b"\xff"
REQUEST: Final = "GET / HTTP/1.0\r\nHost: {}\r\n\r\n"
# A peer that says nothing for so long may be a master that is busy: that is no doubt.
GREETING_S: Final = 0.25
# For the beginning of a web server's answer.
PAGE_S: Final = 0.25
TITLE_WITHIN: Final = 4_096


class OtherPeerError(WireError):
    """What answers is not the socket that was meant; the line names it."""


def named_by(frame: Frame) -> str:
    """The socket that sends such a message; empty if it is not known."""
    codec, _ = glimpse(frame)
    return SOCKETS.get(type_of(frame, codec), "")


def at(address: str) -> str:
    """What listens at ``tcp://host:port``; empty if it may be a master, or nobody does."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    if not address.startswith("tcp://") or not port.isdecimal():
        return ""
    try:
        with socket.create_connection((host.strip("[]"), int(port)), GREETING_S) as peer:
            return _named(peer, address.removeprefix("tcp://"))
    except (OSError, UnicodeError):
        return ""


def _named(peer: socket.socket, name: str) -> str:
    peer.settimeout(GREETING_S)
    try:
        said = peer.recv(len(ZEROMQ))
    except TimeoutError:
        peer.sendall(REQUEST.format(name).encode())
        peer.settimeout(PAGE_S)
        said = _page(peer)
    if not said or said.startswith(ZEROMQ):
        return ""
    if not said.startswith(b"HTTP/"):
        return "no socket of Sanderling"
    return "a Sanderling gateway" if b"Sanderling</title>" in said else "a web server"


def _page(peer: socket.socket) -> bytes:
    """The beginning of an answer, as far as it comes in time."""
    page, ends_s = b"", time.monotonic() + PAGE_S
    try:
        while len(page) < TITLE_WITHIN and time.monotonic() < ends_s:
            if not (more := peer.recv(TITLE_WITHIN)):
                break
            page += more
    except OSError:
        pass
    return page

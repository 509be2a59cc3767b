"""A connection that speaks ZMTP by hand: libzmq's own do not send what these do."""

import socket

from testkit.network import AT_ONCE
from testkit.waiting import PATIENCE_S

GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER"


def connected(address, *, kept_unread=None):
    """A connection that has said all of its handshake; `kept_unread`: the size of its kernel's
    buffer of what it does not read."""
    host, port = address.removeprefix("tcp://").split(":")
    made = socket.socket()
    if kept_unread is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kept_unread)
    made.settimeout(PATIENCE_S)
    made.connect((host, int(port)))
    _shake(made)
    return made


def accepted(listening):
    """The same, of one that connects here."""
    made, _ = listening.accept()
    made.settimeout(PATIENCE_S)
    _shake(made)
    return made


def _shake(made):
    made.sendall(GREETING)
    missing = 64
    while missing:
        missing -= len(made.recv(missing)) or missing
    made.sendall(READY)


def reset(connection):
    """End a connection by a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    connection.close()


def shaken(address):
    """The same, once the other end has begun to say its own."""
    made = connected(address)
    assert made.recv(1)
    return made

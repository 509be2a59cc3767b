"""Classic BPF programs of sockets: which packets of a TCP connection the kernel drops, and which of
several listeners of a port gets new connections. Constants are from asm-generic/socket.h and
linux/bpf_common.h, which Python's socket module lacks.

Linux 6.18.44, and other recent kernels, let only processes with CAP_NET_ADMIN filter a TCP socket:
PermissionError. Any process may choose among its listeners.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from enum import Enum
from typing import Final

SO_ATTACH_FILTER: Final = 26
SO_DETACH_FILTER: Final = 27
SO_ATTACH_REUSEPORT_CBPF: Final = 51
LOAD_BYTE: Final = 0x30
LOAD_LENGTH: Final = 0x80
JUMP_IF_GREATER: Final = 0x25
JUMP_IF_ANY_BIT: Final = 0x45
RETURN: Final = 0x06
WHOLE: Final = 0xFFFFFFFF
# In a TCP header.
FLAGS_AT: Final = 13
RESET: Final = 0x04
# Code, jump if true, jump if false, operand.
Instruction = tuple[int, int, int, int]


class Passing(Enum):
    """The largest packets that a connection lets through, in bytes with TCP's header.

    Of a connection that is held up they are acknowledgements and the end: without them TCP would
    take the peer for dead. Of a new one of the same host they are handshakes and small requests,
    too."""

    ACKNOWLEDGEMENTS = 80
    SMALL = 700
    ALL = None


def let_pass(connection: socket.socket, packets: Passing) -> None:
    """Drop all but these packets of a TCP connection from now on. OSError."""
    if packets is Passing.ALL:
        connection.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        return
    _attach(
        connection,
        SO_ATTACH_FILTER,
        (LOAD_LENGTH, 0, 0, 0),
        (JUMP_IF_GREATER, 0, 1, packets.value),
        (RETURN, 0, 0, 0),
        (RETURN, 0, 0, WHOLE),
    )


def drop_resets(listening: socket.socket) -> None:
    """Drop resets of the connections that this socket will accept; their peers are found dead by
    TCP's keep-alive. OSError."""
    _attach(
        listening,
        SO_ATTACH_FILTER,
        (LOAD_BYTE, 0, 0, FLAGS_AT),
        (JUMP_IF_ANY_BIT, 0, 1, RESET),
        (RETURN, 0, 0, 0),
        (RETURN, 0, 0, WHOLE),
    )


def take_all(listening: socket.socket, index: int) -> None:
    """Direct new connections to the port's `index`-th listener. OSError."""
    _attach(listening, SO_ATTACH_REUSEPORT_CBPF, (RETURN, 0, 0, index))


def _attach(to: socket.socket, option: int, *program: Instruction) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    described = struct.pack("@HP", len(program), ctypes.addressof(code))
    to.setsockopt(socket.SOL_SOCKET, option, described)

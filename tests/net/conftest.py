"""Sockets of one context that are gone after the test, and a guard with a server in a thread."""

import contextlib
import socket
import threading
import time

import pytest
import zmq

from agent.net.keys import Handshake, new
from agent.net.secure_sockets import SecureSockets
from agent.net.socket_filters import drop_resets
from agent.wire.config import Trust
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS

REFUSALS = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL


def may_filter():
    """Whether the kernel lets this process filter TCP sockets."""
    with socket.socket() as any_socket:
        try:
            drop_resets(any_socket)
        except PermissionError:
            return False
    return True


class Served:
    """A guarded ROUTER whose messages and ZAP requests a thread serves, as a process's loop does.

    It echoes each message with its sender's role and name before it.
    """

    def __init__(self, folder, domain="public", allow="", most_connections=None):
        self.context = zmq.Context()
        self.folder = folder
        self.key = new(str(folder / "server"))
        (folder / "allow.toml").write_text(allow)
        self.warnings = []
        self.secure_sockets = SecureSockets(
            self.context,
            Trust(key="server.secret", allow="allow.toml"),
            folder,
            clock=time.monotonic,
            warn=self.warnings.append,
        )
        self.router = self.secure_sockets.router(
            domain, free_address(), most_connections=most_connections
        )
        self.router.refuse = lambda identity, _frame: self.router.send(identity, b"revoked")
        self.address = self.router.socket.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        poller = zmq.Poller()
        poller.register(self.router.socket, zmq.POLLIN)
        poller.register(self.secure_sockets.zap.socket, zmq.POLLIN)
        while not self.ended.is_set():
            poller.poll(5)
            self.secure_sockets.zap.turn()
            while (received := self.router.receive()) is not None:
                sender = self.router.sender(received[0])
                said = f"{sender.role} {sender.name}: ".encode() + received[1]
                self.router.send(received[0], said)
            if self.secure_sockets.next_due <= time.monotonic():
                self.secure_sockets.tick(time.monotonic())

    def stop(self):
        self.ended.set()
        self.thread.join()
        self.secure_sockets.close()
        self.context.destroy(linger=0)


@contextlib.contextmanager
def destroyed(context):
    """A context whose sockets are closed at the end, however the test ends."""
    try:
        yield context
    finally:
        context.destroy(linger=0)


@pytest.fixture
def serve(tmp_path):
    made = []

    def serve(*args, **kwargs):
        made.append(Served(tmp_path, *args, **kwargs))
        return made[-1]

    yield serve
    for served in made:
        served.stop()


@pytest.fixture
def clients():
    """Connects sockets from a context of its own.

    Those with keys are watched for a refusal before they connect: it may come at once, and only
    once.
    """
    kept = []  # what nobody holds would be closed

    def connect(address, own=None, server=None, kind=zmq.DEALER):
        socket = context.socket(kind)
        kept.append(socket)
        socket.linger = 0
        socket.setsockopt(zmq.RECONNECT_IVL, 20)
        if own is not None:
            Handshake(own, server).apply(socket)
            socket.get_monitor_socket(REFUSALS)
        socket.connect(address)
        return socket

    with destroyed(zmq.Context()) as context:
        yield connect


def ask(socket, payload=b"hello"):
    """Send and wait for what comes back."""
    socket.send(payload)
    assert socket.poll(PATIENCE_MS), "no reply"
    return socket.recv()

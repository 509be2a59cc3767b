"""`sanderling-edge`: the agent on a Pi.

One synchronous loop around one DEALER socket. It sleeps until a frame arrives, a pod has finished,
a signal comes or the link wants to be woken; the sampler and the pods are threads of their own.
"""

# ruff: noqa: PTH118, PTH120 - pathlib takes 0.6 MiB; see history_file

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import zmq

from agent.command_line import FAILED, UNUSABLE, configuration, fail, options, say_ok
from agent.edge import link as links
from agent.edge.history import History
from agent.edge.history_file import HistoryError
from agent.edge.pods import Pods, ReceivedSubtask
from agent.edge.report import Reporter
from agent.edge.sampling import Clocks, Sampler, boot_id
from agent.process import StopSignal
from agent.wire import codec, config, edge_config
from agent.wire.messages import Hello, HelloWanted, MasterMessage
from sensors.base import Driver, SensorError, nearest
from sensors.registry import open_driver

if TYPE_CHECKING:
    from agent.edge.containers import PodSocket
    from agent.sockets.keys import KeyFiles

LOOK_S: Final = 1.0  # between two looks at the key files
LINGER_S: Final = 0.5  # for what a connection that is replaced still holds
SAMPLER_PATIENCE_S: Final = 3.0  # at the end, for a reading that is under way


class EdgeNode:
    """The running agent: carries out what the link decides."""

    def __init__(
        self,
        settings: edge_config.EdgeConfig,
        driver: Driver,
        history: History,
        reporter: Reporter,
        keys: KeyFiles | None = None,
    ) -> None:
        self._master = settings.master
        self._driver = driver
        self._history = history
        self._reporter = reporter
        self._clocks = Clocks()
        self._sampler = Sampler(driver, history, settings.sensor.interval_s, reporter, self._clocks)
        self._sampling_ends = threading.Event()
        self._wake_fd, self._waker_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._decoder: codec.Decoder[MasterMessage] = codec.Decoder(MasterMessage)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._results: dict[int, bytes] = {}  # finished and not sent yet
        self._keys = keys
        self._connections = 0
        if keys is not None:
            self._handshake = keys.handshake(0)
            self._shown = self._handshake.own
            self._look_at_s = 0.0
        self._poller = zmq.Poller()
        self._poller.register(self._wake_fd, zmq.POLLIN)
        self._link = links.Link(
            Hello(
                node=settings.node.name,
                incarnation=uuid4().hex,
                history=history.id,
                areas=settings.node.areas,
                channels=tuple([channel.name for channel in driver.channels]),
                pods=settings.pods.count,
                version=(codec.MAJOR + b"." + codec.MINOR).decode(),
                emulates=settings.pods.emulate,
            ),
            first_pause_s=settings.master.reconnect_first_s,
            longest_pause_s=settings.master.reconnect_longest_s,
            jitter=random.random,
        )
        self._pods = Pods(
            history,
            settings.pods.count,
            self._wake,
            emulation_of(settings.pods.emulate, settings.node.name),
            threads_follow=not settings.pods.containers,
        )
        self._pod_socket = _pod_socket(self._pods) if settings.pods.containers else None

    def run(self, stop: StopSignal) -> None:
        """Serve until told to stop."""
        for fileno in stop.filenos:
            self._poller.register(fileno, zmq.POLLIN)
        self._sampler.preload()
        sampling = threading.Thread(
            target=self._sampler.run, args=(self._sampling_ends,), name="sampler", daemon=True
        )
        sampling.start()
        self._handle(links.Start())
        while not stop.requested:
            self._wait_once(stop)
        self._leave(sampling)

    def _wait_once(self, stop: StopSignal) -> None:
        pause_s = self._link.wake_at - time.monotonic()
        # A millisecond more than needed: the poll must not end just before.
        ready = dict(self._poller.poll(max(0, int(pause_s * 1000) + 1)))
        if self._wake_fd in ready:
            os.read(self._wake_fd, 4096)
            self._collect()
        if self._socket in ready:
            self._receive_all()
        for fileno in stop.filenos:
            if fileno in ready:
                stop.woken(fileno)
        self._look_at_keys()
        # After the frames: a master that was heard while this process was held up is not lost.
        if time.monotonic() >= self._link.wake_at:
            self._handle(links.Tick())

    def _receive_all(self) -> None:
        # Asking is cheaper than an exception at the end.
        while self._socket is not None and int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            frame = self._socket.recv(zmq.NOBLOCK)
            try:
                message, _ = self._decoder.decode(frame)
            except codec.WireError as error:
                self._reporter.complain("frame", f"ignored a frame from the master: {error}")
                continue
            self._handle(message)

    def _collect(self) -> None:
        for done in self._pods.take():
            self._results[done.subtask] = done.frame
            self._handle(links.Finished(done.subtask))

    def _handle(self, event: links.Event) -> None:
        """Let the link decide and do what it says."""
        now = time.monotonic()
        for instruction in self._link.handle(event, now):
            match instruction:
                case links.Execute(subtask):
                    wall_ms = round(self._clocks.wall() * 1000)
                    if self._pods.submit(ReceivedSubtask(subtask, now, wall_ms)):
                        self._collect()
                case links.SendResult(number):
                    self._send(self._results.pop(number))
                case links.Send(message):
                    self._send(codec.encode(message))
                case links.Resize(pods):
                    self._pods.resize(pods)
                case links.Report(kind, line):
                    self._reporter.complain(kind, line)
                case links.Open():
                    self._open()
                case links.Close(linger_s):
                    self._close(linger_s)

    def _open(self) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_REQUEST_BYTES)
        # ZeroMQ's own pauses, which double too; without these it would try ten times a second.
        self._socket.setsockopt(zmq.RECONNECT_IVL, round(self._master.reconnect_first_s * 1000))
        self._socket.setsockopt(
            zmq.RECONNECT_IVL_MAX, round(self._master.reconnect_longest_s * 1000)
        )
        if self._keys is not None:
            self._use_keys(self._keys)
        self._socket.connect(self._master.address)
        self._poller.register(self._socket, zmq.POLLIN)

    def _look_at_keys(self) -> None:
        """Connect anew when the own key has changed: the master may soon refuse the one before."""
        now = time.monotonic()
        if self._keys is None or now < self._look_at_s:
            return
        self._look_at_s = now + LOOK_S
        try:
            secret = self._keys.handshake(0).own
        except config.ConfigError as error:
            self._reporter.complain("keys", f"{error}; the key before stays in use")
            return
        if secret != self._shown and self._socket is not None:
            self._close(LINGER_S)
            self._connections = 0
            self._open()
            # What the master sent on the former connection and did not arrive, it sends again.
            self._handle(HelloWanted())
        self._shown = secret

    def _use_keys(self, keys: KeyFiles) -> None:
        assert self._socket is not None
        try:
            # Either end may be changing its key: each connection tries the next that may fit.
            self._handshake = keys.handshake(self._connections)
        except config.ConfigError as error:
            self._reporter.complain("keys", f"{error}; the key before stays in use")
        self._connections += 1
        self._handshake.apply(self._socket)

    def _close(self, linger_s: float) -> None:
        if self._socket is not None:
            self._poller.unregister(self._socket)
            self._socket.close(round(linger_s * 1000))
            self._socket = None

    def _send(self, frame: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            # Of a result too: the link has let go of its subtask, and the next heartbeat says so.
            self._reporter.complain("send", "the master takes no messages; one was dropped")

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full of bytes that wake just as well
            os.write(self._waker_fd, b"\0")

    def _leave(self, sampling: threading.Thread) -> None:
        self._reporter.tell("stopping")
        self._sampling_ends.set()
        self._handle(links.Stop())
        if self._pod_socket is not None:
            self._pod_socket.close()
        self._pods.stop()
        sampling.join(SAMPLER_PATIENCE_S)
        if sampling.is_alive():
            self._reporter.tell("the sensor does not return; stopping without its last reading")
        else:
            self._driver.close()
        try:
            self._history.close()
        except HistoryError as error:
            self._reporter.tell(str(error))
        self._context.term()


def keys_of(settings: edge_config.EdgeConfig, folder: str) -> KeyFiles | None:
    """The files of keys for the link to the master; None: the link stays on this host and has none.

    ConfigError if they cannot be used.
    """
    if not settings.trust.key or not settings.master.address.startswith("tcp://"):
        return None
    from agent.sockets.keys import KeyFiles  # a node without keys need not load it

    keys = KeyFiles(
        os.path.join(folder, settings.trust.key), os.path.join(folder, settings.master.keys)
    )
    keys.handshake(0)
    return keys


def _pod_socket(pods: Pods) -> PodSocket:
    from agent.edge.containers import PodSocket  # most nodes' pods are threads

    try:
        return PodSocket(pods)
    except OSError as error:
        fail(f"pods.containers: no socket for them in the history's folder: {error}", FAILED)


def emulation_of(profile: str, node: str) -> Callable[[int | None, float], float] | None:
    """The service time to emulate on `node` as a function of a subtask's seed and the length of its
    window, all in seconds; None for none.

    ConfigError for an unknown profile.
    """
    if not profile:
        return None
    from agent.wire.emulation import PROFILES, service_time_s  # most nodes are what they are

    if profile not in PROFILES:
        raise config.ConfigError(
            f"pods.emulate: unknown hardware profile {profile}; {nearest(profile, PROFILES)}"
        )
    return lambda seed, window_s: service_time_s(PROFILES[profile], node, seed, window_s)


def main() -> None:
    """Run the command."""
    given = options("sanderling-edge", sys.argv[1:])
    folder = os.path.dirname(given.config)
    settings = configuration(given.config, edge_config.EdgeConfig)
    try:
        keys = keys_of(settings, folder)
        emulation_of(settings.pods.emulate, settings.node.name)
        driver = open_driver(settings.sensor.driver, settings.sensor.options, folder)
    except (config.ConfigError, SensorError) as error:
        fail(f"{given.config}: {error}", UNUSABLE)
    if given.check:
        driver.close()
        say_ok(given.config)
        return
    reporter = Reporter(sys.stderr.write, settings.node.name, time.monotonic)
    try:
        history = History(
            os.path.join(folder, settings.history.path),
            tuple([channel.name for channel in driver.channels]),
            boot_id(),
            group_readings=settings.history.group_readings,
            commit_s=settings.history.commit_s,
            retention_s=settings.history.retention_s,
        )
        if history.report:
            reporter.tell(history.report)
        node = EdgeNode(settings, driver, history, reporter, keys)
        with StopSignal(on_stdin_eof=given.exit_on_stdin_eof) as stop:
            node.run(stop)
    except HistoryError as error:
        fail(str(error), FAILED)


if __name__ == "__main__":
    main()

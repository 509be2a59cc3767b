"""The edge agent: ``sanderling-edge --config FILE [--check] [--exit-on-stdin-eof]``.

One synchronous loop around one DEALER socket. It sleeps until a frame arrives, a pod has finished,
a signal comes or the link wants to be woken; the sampler and the pods are threads of their own.
"""

# ruff: noqa: PTH118, PTH120 - pathlib takes 0.6 MiB; see history_file

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from getopt import GetoptError, gnu_getopt  # a sixth of the memory that argparse takes
from types import FrameType
from typing import Final
from uuid import uuid4

import zmq

from agent.edge import link as links
from agent.edge.history import History
from agent.edge.history_file import HistoryError
from agent.edge.pods import Job, Pods
from agent.edge.report import Reporter
from agent.edge.sampling import Clocks, Sampler, boot_id
from agent.wire import codec, config
from agent.wire.messages import Hello, MasterMessage
from sensors.base import Driver, SensorError, nearest
from sensors.registry import open_driver

USAGE: Final = "usage: sanderling-edge --config FILE [--check] [--exit-on-stdin-eof]"
SAMPLER_PATIENCE_S: Final = 3.0  # at the end, for a reading that is under way
STDIN_FD: Final = 0
UNUSABLE: Final = 2  # exit status where the command line, the configuration or the history is wrong


class EdgeNode:
    """The running agent: carries out what the link decides."""

    def __init__(
        self,
        settings: config.EdgeConfig,
        driver: Driver,
        history: History,
        reporter: Reporter,
    ) -> None:
        self._address = settings.master.address
        self._driver = driver
        self._history = history
        self._reporter = reporter
        self._clocks = Clocks()
        self._sampler = Sampler(driver, history, settings.sensor.interval_s, reporter, self._clocks)
        self._sampling_ends = threading.Event()
        # Pods and signals write a byte; a pipe, because set_wakeup_fd writes single bytes.
        self._wake_fd, self._waker_fd = os.pipe()
        os.set_blocking(self._wake_fd, False)
        os.set_blocking(self._waker_fd, False)
        self._stopping = False
        self._decoder: codec.Decoder[MasterMessage] = codec.Decoder(MasterMessage)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._results: dict[int, bytes] = {}  # finished and not sent yet
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
        )

    def run(self, *, exit_on_stdin_eof: bool) -> None:
        """Serve until a signal, or the end of standard input, says to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        # Wakes the poll even if the signal comes just before it begins.
        signal.set_wakeup_fd(self._waker_fd, warn_on_full_buffer=False)
        if exit_on_stdin_eof:
            self._poller.register(STDIN_FD, zmq.POLLIN)
        self._sampler.preload()
        sampling = threading.Thread(
            target=self._sampler.run, args=(self._sampling_ends,), name="sampler", daemon=True
        )
        sampling.start()
        self._handle(links.Start())
        while not self._stopping:
            self._wait_once()
        self._leave(sampling)

    def _wait_once(self) -> None:
        pause_s = self._link.wake_at - time.monotonic()
        # A millisecond more than needed: the poll must not end just before.
        ready = dict(self._poller.poll(max(0, int(pause_s * 1000) + 1)))
        if self._wake_fd in ready:
            os.read(self._wake_fd, 4096)
            self._collect()
        if self._socket in ready:
            self._receive_all()
        if STDIN_FD in ready and not os.read(STDIN_FD, 4096):
            self._stopping = True
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
                    if self._pods.submit(Job(subtask, now, wall_ms)):
                        self._collect()
                case links.SendResult(number):
                    self._send(self._results.pop(number))
                case links.Send(message):
                    self._send(codec.encode(message))
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
        self._socket.setsockopt(zmq.IPV6, int("[" in self._address))
        self._socket.connect(self._address)
        self._poller.register(self._socket, zmq.POLLIN)

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
            self._reporter.complain("send", "the master takes no messages; one was dropped")

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full of bytes that wake just as well
            os.write(self._waker_fd, b"\0")

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        self._stopping = True

    def _leave(self, sampling: threading.Thread) -> None:
        self._reporter.tell("stopping")
        self._sampling_ends.set()
        self._handle(links.Stop())
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


def emulation_of(profile: str, node: str) -> Callable[[int | None], float] | None:
    """The service time to emulate on `node` as a function of a subtask's seed; None for none.

    ConfigError for an unknown profile.
    """
    if not profile:
        return None
    from agent.wire.emulation import PROFILES, service_time_s  # most nodes are what they are

    if profile not in PROFILES:
        raise config.ConfigError(
            f"pods.emulate: unknown hardware profile {profile}; {nearest(profile, PROFILES)}"
        )
    return lambda seed: service_time_s(PROFILES[profile], node, seed)


def main() -> int:
    """The console command; returns the exit status."""
    try:
        options = dict(
            gnu_getopt(sys.argv[1:], "", ["config=", "check", "exit-on-stdin-eof", "help"])[0]
        )
    except GetoptError as error:
        return _fail(f"{error}; {USAGE}")
    if "--help" in options:
        sys.stdout.write(f"{USAGE}\n")
        return 0
    if "--config" not in options:
        return _fail(f"--config is missing; {USAGE}")
    path = options["--config"]
    folder = os.path.dirname(path)
    try:
        settings = config.load(path, config.EdgeConfig)
        emulation_of(settings.pods.emulate, settings.node.name)
        driver = open_driver(settings.sensor.driver, settings.sensor.options, folder)
    except config.ConfigError as error:
        return _fail(str(error))
    except SensorError as error:
        return _fail(f"{path}: {error}")
    if "--check" in options:
        driver.close()
        sys.stdout.write(f"{path}: {_summary(settings, driver)}\n")
        return 0
    return _run(settings, driver, folder, "--exit-on-stdin-eof" in options)


def _run(settings: config.EdgeConfig, driver: Driver, folder: str, exit_on_stdin_eof: bool) -> int:
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
        EdgeNode(settings, driver, history, reporter).run(exit_on_stdin_eof=exit_on_stdin_eof)
    except HistoryError as error:
        return _fail(str(error))
    except zmq.ZMQError as error:
        return _fail(f"master.address = {settings.master.address!r}: {error}")
    return 0


def _summary(settings: config.EdgeConfig, driver: Driver) -> str:
    channels = ", ".join(channel.name for channel in driver.channels)
    return (
        f"good: node {settings.node.name} for {', '.join(settings.node.areas)},"
        f" {settings.sensor.driver} ({channels}), master {settings.master.address}"
    )


def _fail(line: str) -> int:
    sys.stderr.write(f"sanderling-edge: {' '.join(line.split())}\n")
    return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())

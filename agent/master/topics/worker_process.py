"""Worker process: builds processors, and runs messages through them, one at a time.

Started by `agent.master.topics.worker_pool` as ``python -m agent.master.topics.worker_process FD
MEMORY_BYTES``, with a socket FD to its master and a pipe from it as standard input. It contains
user code: whatever that does, the master goes on. It guards against mistakes, not against malice.
"""

from __future__ import annotations

import _posixsubprocess
import fcntl
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import msgspec

from agent.master.topics.worker_frames import MAX_LINE, READ_AT_ONCE, Frames, decode_request, frame
from agent.processing.definition import Definition
from agent.processing.events import (
    Answer,
    Failed,
    Finished,
    Load,
    Loaded,
    Request,
    Run,
    Snapshotted,
    TakeSnapshot,
    Unload,
    WorkerReady,
)
from agent.runtime.printable import one_line
from processors.base import Output, Process, ProcessorError
from processors.registry import open_processor

# A state of at most so many bytes goes to the master with each message, and ties its processor to
# no worker.
SMALL_BYTES: Final = 4_096
MAX_FILE: Final = 100  # letters of a file's name in an error
PAGE_BYTES: Final = resource.getpagesize()
# What user code must not do: the master does not know of processes that it did not start.
FORBIDDEN: Final = frozenset(
    (
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.kill",
        "os.killpg",
        "os.posix_spawn",
        "os.system",
        "subprocess.Popen",
    )
)

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode


class Built:
    """A processor that is built, and its state."""

    __slots__ = ("definition", "process", "small", "state")

    def __init__(self, definition: Definition, state: bytes) -> None:
        self.definition = definition
        self.process: Process = open_processor(definition.processor, definition.parameters)
        self.state: dict[str, Any] = _decode(state) if state else {}
        self.small = len(state) <= SMALL_BYTES

    def snapshot(self) -> bytes:
        """The state as it is kept. ProcessorError if it cannot be."""
        try:
            state = _encode(self.state)
            _decode(state)  # a checkpoint that cannot be read would replace one that can
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ProcessorError(f"its state cannot be kept: {_line(error)}") from None
        _check_size("state takes", state, self.definition.limits.state_bytes)
        self.small = len(state) <= SMALL_BYTES
        return state

    def small_snapshot(self) -> bytes | None:
        """The state, if it is small; one that cannot be kept is told when it is asked for."""
        if not self.small:
            return None
        try:
            state = self.snapshot()
        except ProcessorError:
            self.small = False
            return None
        return state if len(state) <= SMALL_BYTES else None


class Worker:
    """Answers requests. Its answers' `worker` is 0: the master knows whose socket it reads."""

    def __init__(self) -> None:
        self._loaded: dict[int, Built] = {}
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._most_bytes = self._resident_bytes()
        self._allowed_s = 0

    def answer(self, request: Request) -> Answer | None:
        """Carry a request out; None: it has no answer."""
        incarnation = request.incarnation
        if isinstance(request, Unload):
            self._loaded.pop(incarnation, None)
            return None
        try:
            return self._answer(request)
        except MemoryError:
            return Failed(0, incarnation, "it found no more memory", self._grown(), True)
        except BaseException as error:  # noqa: BLE001 - sys.exit() by user code is a failure, too
            return Failed(0, incarnation, _line(error), self._grown())

    def _answer(self, request: Load | Run | TakeSnapshot) -> Answer:
        incarnation = request.incarnation
        if isinstance(request, Load):
            self._allow(request.definition.limits.load_s)
            self._loaded[incarnation] = Built(request.definition, request.state)
            self._grown()  # modules stay for all who need them: nobody is charged
            return Loaded(0, incarnation)
        loaded = self._loaded[incarnation]
        self._allow(loaded.definition.limits.cpu_s)
        if isinstance(request, TakeSnapshot):
            return Snapshotted(0, incarnation, loaded.snapshot())
        began_s = time.process_time()
        message = _decode(request.body)
        outputs = _listed(loaded.process(message, loaded.state), loaded.definition.limits.outputs)
        try:
            data = _encode(outputs)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ProcessorError(f"its outputs are not publishable: {_line(error)}") from None
        _check_size("outputs take", data, loaded.definition.limits.output_bytes)
        state = loaded.small_snapshot()
        return Finished(0, incarnation, data, time.process_time() - began_s, self._grown(), state)

    def _allow(self, cpu_s: float) -> None:
        """Let the kernel end the process when it takes much more CPU time than this."""
        allowed_s = math.ceil(time.process_time() + cpu_s) + 1
        if allowed_s != self._allowed_s:
            resource.setrlimit(resource.RLIMIT_CPU, (allowed_s, resource.RLIM_INFINITY))
            self._allowed_s = allowed_s

    def _grown(self) -> int:
        """By how many bytes the process is larger than at any call before."""
        grown = max(0, self._resident_bytes() - self._most_bytes)
        self._most_bytes += grown
        return grown

    def _resident_bytes(self) -> int:
        # Not ru_maxrss: in a process that was not forked but spawned, it begins with the parent's.
        return int(os.pread(self._statm, 64, 0).split()[1]) * PAGE_BYTES


def _check_size(what: str, data: bytes, most: int) -> None:
    """ProcessorError if it is too large. The master would end this process without a reason."""
    if len(data) > most:
        raise ProcessorError(f"its {what} {len(data)} bytes; at most {most} are allowed")


def _listed(outputs: Iterable[Output] | Output | None, most: int) -> list[Output]:
    """The outputs, at most one more than allowed: an endless generator is refused, too."""
    if outputs is None:
        return []
    if isinstance(outputs, dict):
        return [outputs]
    return list(islice(outputs, most + 1))


def _line(error: BaseException) -> str:
    """The error in one line, with the place in the processor's own code."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception of user code may be unable to say what it is
        text = ""
    place = ""
    if isinstance(error, ProcessorError):
        said = text
    else:
        said = f"{type(error).__name__}: {text}" if text else type(error).__name__
        frames = []
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            frames.append((code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        if frames and frames[-1][0] != __file__:
            file, line = frames[-1]
            place = one_line(f"({file.rpartition('/')[2][-MAX_FILE:]}, line {line})")
    said, room = one_line(said), MAX_LINE - len(place) - 1
    if len(said) > room:
        said = said[: room - 1].rstrip() + "…"
    return f"{said} {place}".rstrip()


def _end_with_master() -> None:
    """Have the kernel end this process when the master's end of standard input is closed, which is
    when the master ends, even if user code never returns."""
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # which ends the process


def _limit(memory_bytes: int) -> None:
    """Limit the memory to what is used now and `memory_bytes`; no core files."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - pathlib takes memory
        pages = int(file.read().split()[0])
    most = pages * PAGE_BYTES + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _forbid(event: str, _arguments: object) -> None:
    if event in FORBIDDEN:
        raise PermissionError(f"a processor must not start or signal processes ({event})")


def _no_fork_exec(*_arguments: object) -> int:
    """In place of what multiprocessing starts processes with, which raises no audit event."""
    raise PermissionError("a processor must not start or signal processes (fork_exec)")


def serve(connection: socket.socket) -> None:
    """Answer the master's requests until it closes the connection."""
    worker, frames = Worker(), Frames()
    connection.sendall(frame(WorkerReady(0)))
    while data := connection.recv(READ_AT_ONCE):
        for body in frames.take(data):
            if (answer := worker.answer(decode_request(body))) is not None:
                sys.stdout.flush()
                connection.sendall(frame(answer))


def main() -> None:
    """Run the process."""
    descriptor, memory_bytes = map(int, sys.argv[1:])
    _end_with_master()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text stream
    _limit(memory_bytes)
    sys.addaudithook(_forbid)
    _posixsubprocess.fork_exec = _no_fork_exec
    with socket.socket(fileno=descriptor) as connection:
        serve(connection)


if __name__ == "__main__":
    main()

"""Worker pool: the processes that user code runs in, and what the master makes of them.

The shell of `agent.processing`. A worker is a process of its own session, with a socket to the
master, a pipe as standard input that ends it when the master ends, and a pipe for what it prints. A
worker is never waited for: sockets do not block, and its end is a readable file descriptor.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from agent.master.topics.worker_frames import (
    READ_AT_ONCE,
    REST_BYTES,
    FrameError,
    Frames,
    decode_answer,
    frame,
)
from agent.processing.events import (
    Answer,
    Babbled,
    Event,
    Instruction,
    KillWorker,
    Load,
    Request,
    Run,
    StartWorker,
    TakeSnapshot,
    Unload,
    WorkerEnded,
)
from agent.processing.printed import PrintedLines
from agent.processing.processing import Processing
from agent.runtime import console
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor

PROGRAM: Final = "agent.master.topics.worker_process"
MEMORY_BYTES: Final = 256 * 2**20  # of a worker, beyond what it needs itself
# What a worker may print; one that prints more has to wait.
PRINTED_BYTES: Final = 64 * 1_024
PRINTED_S: Final = 1.0
END_S: Final = 10.0  # for killed workers to end, when the master stops


class _Process:
    """One worker process, from the master's side."""

    def __init__(self, number: int, memory_bytes: int) -> None:
        ours, its = socket.socketpair()
        try:
            self._child = subprocess.Popen(
                # -P: do not search the current folder for modules.
                [sys.executable, "-P", "-m", PROGRAM, str(its.fileno()), str(memory_bytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(its.fileno(),),
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            ours.close()
            raise
        finally:
            its.close()
        ours.setblocking(False)
        self.number = number
        self.socket = ours
        self.exited = os.pidfd_open(self._child.pid)
        assert self._child.stdout is not None
        self.printed = self._child.stdout.fileno()
        os.set_blocking(self.printed, False)
        self.frames = Frames(REST_BYTES)
        self._rooms: dict[int, int] = {}  # bytes of an answer, by incarnation
        self.lines = PrintedLines()
        self.unsent = bytearray()
        self.printed_bytes = 0
        self.quiet_until_s = math.inf  # when it may print again; infinite: now
        self.heard: set[int] = set()  # descriptors that the reactor polls

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def allow(self, request: Request) -> None:
        """Let answers be as large as the processors that it has may make them."""
        if isinstance(request, Load):
            limits = request.definition.limits
            self._rooms[request.incarnation] = limits.state_bytes + limits.output_bytes
        elif isinstance(request, Unload):
            self._rooms.pop(request.incarnation, None)
        self.frames.most = REST_BYTES + max(self._rooms.values(), default=0)

    def kill(self) -> None:
        """End it, and its session. Its id is not reused before `reap`."""
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)

    def reap(self, within_s: float | None = None) -> str:
        """How it ended; releases everything."""
        self.kill()  # what it left behind
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(within_s)
        self.socket.close()
        os.close(self.exited)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        return how(self._child.returncode)


def how(status: int | None) -> str:
    """How a process with this exit status ended."""
    if status is None:
        return "does not end"
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if name == "SIGXCPU":
        return "took more CPU time than is allowed"
    return f"was ended by {name}"


class WorkerPool:
    """Runs `processing` with real processes. `deliver` gets the instructions that are for topics:
    Emit, Save, Hold, Resume, HandedOver, Report. A timekeeper of the reactor."""

    def __init__(
        self,
        reactor: Reactor,
        processing: Processing,
        deliver: Callable[[Instruction], object],
        say: Say = console.write,
        *,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._reactor = reactor
        self._processing = processing
        self._deliver = deliver
        self._say = say
        self._memory_bytes = memory_bytes
        self._processes: dict[int, _Process] = {}
        self._quiet_until_s = math.inf  # the first of the processes'
        self._events: deque[Event] = deque()
        self._handling = False
        self._closed = False
        reactor.add_timer(self)

    # --- interface ---

    def start(self) -> None:
        """Start the workers."""
        self._handle_all(self._processing.start(self._reactor.clock()))

    def handle(self, event: Event) -> None:
        """Handle a topic's event, and carry out what follows. Once closed, nothing: what a master
        writes last may still end or move topics."""
        if self._closed:
            return
        self._events.append(event)
        self._handle_all()

    @property
    def next_due(self) -> float | None:
        """When to call `tick` next."""
        due = self._processing.next_due
        if self._quiet_until_s == math.inf:
            return due
        return self._quiet_until_s if due is None else min(due, self._quiet_until_s)

    def tick(self, now: float) -> None:
        """Do everything due by `now`."""
        if self._quiet_until_s <= now:
            self._hear_again(now)
        self._handle_all(self._processing.tick(now))

    @property
    def pids(self) -> dict[int, int]:
        """The process ids of the workers that run, by their numbers."""
        return {number: process.pid for number, process in self._processes.items()}

    def close(self) -> None:
        """End all workers. State since the last checkpoints is lost: save them before."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            self._ignore_all(process)
            process.reap(END_S)
        self._processes.clear()
        self._closed = True

    # --- instructions ---

    def _handle_all(self, first: Iterable[Instruction] = ()) -> None:
        """Carry out `first`, and handle the events that wait. One at a time: what an instruction
        brings about comes after all that was to be done before."""
        if self._handling:
            return  # the outer call goes on with it
        self._handling = True
        try:
            self._perform(first)
            while self._events:
                event = self._events.popleft()
                self._perform(self._processing.handle(event, self._reactor.clock()))
        finally:
            self._handling = False

    def _perform(self, instructions: Iterable[Instruction]) -> None:
        for one in instructions:
            match one:
                case Run() | Load() | TakeSnapshot() | Unload():
                    self._send(one)
                case StartWorker(worker):
                    self._spawn(worker)
                case KillWorker(worker):
                    self._processes[worker].kill()
                case _:
                    self._deliver(one)

    def _spawn(self, number: int) -> None:
        try:
            process = _Process(number, self._memory_bytes)
        except OSError as error:
            self._events.append(WorkerEnded(number, f"cannot be started: {error.strerror}"))
            return
        self._processes[number] = process
        self._listen(process, process.socket.fileno(), self._socket_turn)
        self._listen(process, process.printed, self._printed_turn)
        self._listen(process, process.exited, self._exited_turn)

    def _send(self, request: Request) -> None:
        process = self._processes[request.worker]
        process.allow(request)
        data = frame(request)
        if not process.unsent:
            data = data[_sent(process.socket, data) :]
            if not data:
                return
            self._reactor.await_room(process.socket.fileno(), wanted=True)
        process.unsent += data

    # --- turns ---

    def _socket_turn(self, process: _Process) -> None:
        if process.unsent:
            del process.unsent[: _sent(process.socket, process.unsent)]
            if not process.unsent:
                self._reactor.await_room(process.socket.fileno(), wanted=False)
        try:
            data = process.socket.recv(READ_AT_ONCE)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:  # it closed its end: it is ending, or must
            self._ignore(process, process.socket.fileno())
            process.kill()
            return
        try:
            for body in process.frames.take(data):
                answer: Answer = decode_answer(body)
                self._events.append(msgspec.structs.replace(answer, worker=process.number))
        except FrameError:
            self._ignore(process, process.socket.fileno())
            self._events.append(Babbled(process.number))
        self._handle_all()

    def _printed_turn(self, process: _Process) -> None:
        try:
            data = os.read(process.printed, PRINTED_BYTES)
        except BlockingIOError:
            return
        now = self._reactor.clock()
        if not data:  # it closed its end
            self._ignore(process, process.printed)
            return
        self._tell(process, process.lines.take(data, now))
        process.printed_bytes += len(data)
        if process.printed_bytes >= PRINTED_BYTES:
            self._ignore(process, process.printed)
            process.quiet_until_s = now + PRINTED_S
            self._quiet_until_s = min(self._quiet_until_s, process.quiet_until_s)

    def _exited_turn(self, process: _Process) -> None:
        now = self._reactor.clock()
        with suppress(BlockingIOError):
            data = os.read(process.printed, PRINTED_BYTES)
            self._tell(process, process.lines.take(data, now))
        self._tell(process, process.lines.end(now))
        self._ignore_all(process)
        del self._processes[process.number]
        self._events.append(WorkerEnded(process.number, process.reap()))
        self._handle_all()

    # --- helpers ---

    def _hear_again(self, now: float) -> None:
        """Those that printed too much may go on."""
        for process in self._processes.values():
            if process.quiet_until_s <= now:
                process.quiet_until_s, process.printed_bytes = math.inf, 0
                self._listen(process, process.printed, self._printed_turn)
        self._quiet_until_s = min(
            [process.quiet_until_s for process in self._processes.values()], default=math.inf
        )

    def _tell(self, process: _Process, lines: list[str]) -> None:
        if lines:
            whose = self._processing.serves(process.number) or "worker"
            for line in lines:
                self._say(f"processor {whose} printed: {line}\n")

    def _listen(self, process: _Process, fileno: int, turn: Callable[[_Process], None]) -> None:
        process.heard.add(fileno)
        self._reactor.listen(fileno, partial(turn, process))

    def _ignore(self, process: _Process, fileno: int) -> None:
        if fileno in process.heard:
            process.heard.remove(fileno)
            self._reactor.ignore(fileno)

    def _ignore_all(self, process: _Process) -> None:
        for fileno in tuple(process.heard):
            self._ignore(process, fileno)


def _sent(connection: socket.socket, data: Any) -> int:
    """How many bytes the socket took; all if the worker is gone, whose end is noticed elsewhere."""
    try:
        return connection.send(data)
    except BlockingIOError:
        return 0
    except ConnectionError:
        return len(data)

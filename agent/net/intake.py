"""Intake guard: bounds the memory of messages that nobody took yet, and the number of connections.

libzmq bounds one frame (`MAXMSGSIZE`), but not what waits (RCVHWM in agent/net/router.py says why):
complete messages, all frames of one until the last, a partially received frame at full size. A
thread therefore compares the bytes that the kernel received on each connection with those that the
process took as complete messages, and cuts the connections that hold most if the difference is too
large.
It is a separate thread because libzmq keeps reading while the process's event loop is busy.
Small answers that a connection does not read count as held by it, too (`agent/net/unsent.py`).

It also counts connections, including those of sockets not for clients, as all share the process's
limit of open files. At that limit libzmq accepts nothing, and its thread spins on a core.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import math
import os
import socket
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import zmq

from agent.net.freed_memory import Trimmer, return_freed, trim
from agent.net.held_bytes import MOST, MOST_OF_ONE, Bounds, ByteAccounting, Cut, Held
from agent.net.policing import RATE_BYTES_PER_S, Policer
from agent.net.socket_filters import Passing, let_pass
from agent.net.tcp_counters import TcpCounters
from agent.net.unsent import SmallUnsent
from agent.runtime.rate_limited_lines import RateLimitedLines

# Interval of the checks of the process's memory, and for a while after it grew: an endless message
# grew it by 1.1 GB/s.
LOOK_MS: Final = 20
GROWING_LOOK_MS: Final = 2
GROWING_BYTES: Final = 512 << 10
GROWING_S: Final = 0.25
# What they hold together is a flood above this.
FLOOD_BYTES: Final = 4 << 20
# All connections are checked when memory grew by this much. In any case each is checked once in
# this interval, in parts: a thousand at once compete with the event loop for milliseconds.
GROWN_BYTES: Final = 4 << 20
LOOK_AT_ALL_S: Final = 1.0
LOOK_AT_SOME_S: Final = 0.1
# Upper bounds on a frame's overhead: a ZMTP header, with keys a CURVE MESSAGE.
PLAIN_HEADER_BYTES: Final = 9
KEYED_HEADER_BYTES: Final = 48
# File descriptors reserved for the rest of the process: records, state, outgoing sockets.
RESERVED_FILES: Final = 256

NETWORK: Final = (socket.AF_INET, socket.AF_INET6)
ACCEPTED: Final = int(zmq.EVENT_ACCEPTED)
GONE: Final = (int(zmq.EVENT_DISCONNECTED), int(zmq.EVENT_CLOSED))
STOPPED: Final = int(zmq.EVENT_MONITOR_STOPPED)
WATCHED: Final = ACCEPTED | sum(GONE) | STOPPED
MAX_PASSED_OVER: Final = 1_024


Key = TypeVar("Key")


def crowding(
    hosts: Mapping[Key, Hashable], most: int, is_idle: Callable[[Key], bool] = lambda _: True
) -> Key | None:
    """The connection to close if there are more than `most`: the newest idle one of the host with
    the most connections, or else its newest. `hosts` are in order of connection. O(n)."""
    if len(hosts) <= most:
        return None
    host, _ = Counter(hosts.values()).most_common(1)[0]
    newest = [fd for fd in reversed(list(hosts)) if hosts[fd] == host]
    return next(filter(is_idle, newest), newest[0])


class Room:
    """The number of connections that the process's limit of open files allows, and the existing
    ones in order of arrival. A host is counted per socket: if it opens too many connections to one,
    it loses connections of that one. An intake holds `lock` while it accesses any connection, its
    own included."""

    def __init__(self) -> None:
        self.most = room_for_files()
        self.hosts: dict[tuple[Intake, int], tuple[Intake, str]] = {}
        # Those whose connections hold much just now.
        self.floods: set[Intake] = set()
        self.lock = threading.RLock()


class Intake:
    """Watches a bound ROUTER until `close`; `warn` takes lines for the operator, from its thread.

    Without `most_connections` only `room`, shared by the process's sockets, bounds the connections,
    and the bytes that they hold are not checked.
    """

    def __init__(
        self,
        router: zmq.Socket[bytes],
        most_connections: int | None,
        warn: Callable[[str], object],
        room: Room,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._router = router
        self._clock = clock
        self._accounting = ByteAccounting()
        self.taken = self._accounting.taken
        self._policer = Policer(clock())
        self.small_unsent = SmallUnsent()
        # The peers of connections that were closed for what they sent: the reader of the socket
        # passes over what is left of it, which would be held beside as much of their next ones.
        self.passed_over: dict[bytes, None] = {}
        self._room = room
        self._most_connections = most_connections
        self._hosts: dict[int, str] = {}
        self._names: dict[int, object] = {}
        self.cut = 0
        self._lines = RateLimitedLines(warn, clock)
        self._memory = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._spare = os.dup(self._memory)
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._tcp = TcpCounters()
        resident = self.resident
        return_freed(self._libc, flood=bool(room.floods))
        self._trimmer = Trimmer(resident, clock())
        self._looked_at = resident
        # The memory at the last look, and its time; until when looks are frequent.
        self._seen, self._looked_s = resident, clock()
        self._growing_until_s = self._looked_s
        self._bounds = Bounds(resident)
        # Connections not checked yet in this interval, and what those checked hold; after a look at
        # all none is left.
        self._unchecked: list[int] = []
        self._found = Held(0, 0)
        self._stepped_s = clock()
        self._monitor = router.get_monitor_socket(WATCHED)
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; call it before closing the socket."""
        if self._thread.is_alive():
            self._router.disable_monitor()
            self._thread.join()

    def abort(self, fd: int) -> None:
        """Close a connection that sent a message of very many parts, unless it is gone already. For
        the thread that reads the socket."""
        with self._room.lock:
            host = self._hosts.get(fd)
            if host is not None:
                self._cut(fd, abort=True)
                self._lines.tell(f"closed connections of {host}: a message of very many parts")

    @property
    def resident(self) -> int:
        """Memory of the process, in bytes."""
        return int(os.pread(self._memory, 128, 0).split()[1]) * self._page

    def _run(self) -> None:
        monitor = self._monitor
        poller = zmq.Poller()  # a socket's own `poll` makes one each time
        poller.register(monitor, zmq.POLLIN)
        try:
            while True:
                # Freed memory is returned without connections, too.
                if poller.poll(self._pause_ms()) and not self._read_events():
                    return
                with self._room.lock:
                    self._look(self._clock())
        finally:
            with self._room.lock:
                self._flooded(0)
                for fd in list(self._hosts):
                    self._closed(fd)
            monitor.close(0)
            os.close(self._spare)
            os.close(self._memory)

    def _pause_ms(self) -> int:
        if not self._hosts or self._most_connections is None:
            return 1_000
        return GROWING_LOOK_MS if self._looked_s < self._growing_until_s else LOOK_MS

    def _read_events(self) -> bool:
        """Process libzmq's connection events; False: there will be no more."""
        while True:
            try:
                frame, _address = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return True
            event, fd = struct.unpack("=HI", frame)
            if event == STOPPED:
                return False
            with self._room.lock:
                if event == ACCEPTED:
                    self._accepted(fd)
                else:
                    self._closed(fd)

    def _accepted(self, fd: int) -> None:
        self._closed(fd)  # an earlier one with its number
        try:
            with self._pinned(fd) as found:
                name = found.getpeername()
        except OSError:
            return  # gone already
        if found.family not in NETWORK:
            return  # gone, too: a pipe of this process has its number
        self._accounting.opened(fd)
        self._hosts[fd], self._names[fd] = str(name[0]), name
        self._room.hosts[self, fd] = self, self._hosts[fd]
        if self._most_connections is not None:
            if self._policer.opened(fd, self._hosts[fd], self._clock()):
                self._let_pass(fd, Passing.SMALL)
            crowded = crowding(self._hosts, self._most_connections)
            if crowded is not None:
                self._make_room(self, crowded, self._most_connections)
        fullest = crowding(self._room.hosts, self._room.most)
        if fullest is not None:
            self._make_room(*fullest, self._room.most)

    def _make_room(self, intake: Intake, fd: int, most: int) -> None:
        """Close a connection, perhaps of another socket, as there are more than `most`."""
        host = intake._hosts[fd]
        intake._cut(fd)
        intake._lines.tell(f"more than {most} connections: closed some of {host}")

    def _closed(self, fd: int) -> None:
        self._policer.count(fd, self.taken.get(fd, 0))
        self._policer.closed(fd, self._clock())
        self._accounting.closed(fd)
        if self._hosts.pop(fd, None) is not None:
            # Only then: a connection may have spoken before its event is read.
            self.small_unsent.closed(fd)
            del self._names[fd], self._room.hosts[self, fd]

    def _look(self, now: float) -> None:
        if self._most_connections is None:
            self._lines.tell_rest()
            return
        resident = self.resident
        if resident > self._seen + GROWING_BYTES:
            self._growing_until_s = now + GROWING_S
        self._seen, self._looked_s = resident, now
        steps = now >= self._stepped_s + LOOK_AT_SOME_S
        grew = resident > self._looked_at + GROWN_BYTES
        if grew or (steps and self._suspects(now, resident)):
            self._look_at_all(now, resident)
        if grew or steps:
            self._police(now)
        self._looked_at = min(self._looked_at, resident)
        if not self._room.floods and self._trimmer.wants(resident, now):
            trim(self._libc)
            if self._trimmer.wants(self.resident, now):
                # Python keeps lists of small objects for reuse. One of them in each arena of a
                # megabyte was enough to keep 85 MiB for ever; this clears them.
                gc.collect()
            self._trimmer.trimmed(resident, self.resident, now)

    def _suspects(self, now: float, resident: int) -> bool:
        """Check the connections whose turn it is; whether those of this interval may hold too much.
        As they were checked at different times, a look at all of them decides."""
        share = min(1.0, (now - self._stepped_s) / LOOK_AT_ALL_S)
        self._stepped_s = now
        if not self._unchecked:
            self._bounds.little_is_held(self._found.untaken, resident)
            self._flooded(self._found.untaken)
            self._unchecked, self._found = list(self._hosts), Held(0, 0)
            self._looked_at = resident
            self._lines.tell_rest()
        suspicious = False
        for _ in range(min(len(self._unchecked), math.ceil(share * len(self._hosts)))):
            fd = self._unchecked.pop()
            if fd in self._hosts:
                held = self._held(fd, now, resident)
                suspicious |= held.exceeds(MOST_OF_ONE)
                self._found = Held(
                    self._found.untaken + held.untaken, self._found.unread + held.unread
                )
        return suspicious or self._found.exceeds(MOST)

    def _flooded(self, untaken: int) -> None:
        """Connections of this socket hold so much together."""
        floods = self._room.floods
        if (self in floods) != (untaken > FLOOD_BYTES):
            floods.symmetric_difference_update({self})
            return_freed(self._libc, flood=bool(floods))
            if not floods:
                trim(self._libc)

    def _look_at_all(self, now: float, resident: int) -> None:
        self._looked_at = resident
        self._unchecked = []
        held = {fd: self._held(fd, now, resident) for fd in self._hosts}
        self._found = Held(
            sum(each.untaken for each in held.values()), sum(each.unread for each in held.values())
        )
        self._flooded(self._found.untaken)
        if self._bounds.amplified(held, resident):
            # Freed memory that glibc keeps is nobody's.
            trim(self._libc)
            resident = self.resident
        sent, unread = self._bounds.beyond(held, resident)
        for cut in sent:
            if (identity := self.small_unsent.identity(cut.fd)) is not None:
                self.passed_over[identity] = None
        for identity in list(self.passed_over)[:-MAX_PASSED_OVER]:
            del self.passed_over[identity]
        self._cut_all(sent, "unfinished messages of {} KiB, or more than is served")
        self._cut_all(unread, "answers of {} KiB that are not read")

    def _cut_all(self, cuts: list[Cut], why: str) -> None:
        for fd, size in cuts:
            host = self._hosts.get(fd)
            if host is not None:  # else it was cut for what it sent
                self._cut(fd, abort=True)
                self._lines.tell(f"closed connections of {host}: {why.format(size >> 10)}")

    def _police(self, now: float) -> None:
        """Hold up the connections that sent too much, and let others go on."""
        for fd, passing in self._policer.step(now, self.taken).items():
            done = self._let_pass(fd, passing)
            if passing is not Passing.ALL:
                verb = "held up" if done else "cannot hold up (that takes CAP_NET_ADMIN)"
                limit = f"more than {RATE_BYTES_PER_S >> 20} MiB a second"
                self._lines.tell(f"{verb} connections of {self._hosts[fd]}: {limit}")

    def _let_pass(self, fd: int, packets: Passing) -> bool:
        """Whether this process may."""
        try:
            with self._pinned(fd) as found:
                let_pass(found, packets)
        except PermissionError:
            return False
        except OSError:
            pass  # closed in the meantime
        return True

    def _held(self, fd: int, now: float, resident: int) -> Held:
        read = self._read_of(fd)
        self._policer.count(fd, read)
        untaken = self._accounting.held(fd, read, now, resident)
        written, queued = self._tcp.written(fd)
        if not written:  # it is gone
            return Held(untaken, 0)
        return Held(untaken, self.small_unsent.held(fd, written, empty=not queued))

    def _read_of(self, fd: int) -> int:
        """Bytes that libzmq has read from a connection."""
        return self._tcp.read(fd)

    def _cut(self, fd: int, *, abort: bool = False) -> None:
        """Shut a connection down, unless its descriptor was reused; libzmq then closes it. During a
        large transfer both ends may keep waiting for a TCP window: `abort` resets instead."""
        try:
            with self._pinned(fd) as found:
                if not abort:
                    found.shutdown(socket.SHUT_RDWR)
                else:
                    # connect(2): AF_UNSPEC dissolves the association, TCP sends a reset.
                    self._libc.connect(found.fileno(), b"\0" * 16, 16)
        except OSError:
            pass  # closed in the meantime
        self.cut += 1
        self._closed(fd)

    @contextmanager
    def _pinned(self, fd: int) -> Iterator[socket.socket]:
        """The connection, even if libzmq closes it meanwhile and another one gets its number.
        OSError if it is gone, or another one has it already. It takes the place of the spare file:
        there may be no room for one more. A file that got the number is left alone: a copy's end
        would drop SQLite's locks."""
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(errno.ENOTSOCK, "it is gone, and a file has its number")
        os.dup2(fd, self._spare, inheritable=False)
        found = socket.socket(fileno=self._spare)
        try:
            if fd in self._names and found.getpeername() != self._names[fd]:
                raise OSError(errno.ENOTCONN, "it is gone, and another one has its number")
            yield found
        finally:
            found.detach()
            os.dup2(self._memory, self._spare, inheritable=False)


def room_for_files() -> int:
    """Connections that the process's limit of open files allows beside its other files."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 30
    return max(16, soft - max(RESERVED_FILES, soft // 8), soft // 2 if soft < 512 else 0)

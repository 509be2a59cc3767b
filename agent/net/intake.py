"""Intake guard: bounds the memory of incomplete messages, and the number of connections.

libzmq bounds one frame (`MAXMSGSIZE`) and the number of waiting messages, but it keeps all frames
of a message until the last, and allocates a partially received frame at full size. A thread
therefore compares the bytes that the kernel received on each connection with those that the process
took as complete messages, and cuts the connections that hold most if the difference is too large.
It is a separate thread because libzmq keeps reading while the process's event loop is busy.
Small answers that a connection does not read count as held by it, too (`agent/net/unsent.py`).

It also counts connections, including those of sockets not for clients, as all share the process's
limit of open files. At that limit libzmq accepts nothing, and its thread spins on a core.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import math
import os
import socket
import stat
import struct
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

import zmq

from agent.net.unsent import SmallUnsent

# What the connections of a socket may hold together, and one alone. The largest message has 1 MiB,
# and the complete messages waiting do not exceed what one connection may hold (OPEN_WAITING in
# agent/net/router.py).
MAX_HELD_BYTES: Final = 24 << 20
MAX_HELD_BY_ONE_BYTES: Final = 8 << 20
# Less than this on a connection that completes messages is frame headers and heartbeats.
SMALL_BYTES: Final = 1 << 16
# Upper bounds on heartbeats per second, and on one heartbeat: with keys, some forty bytes every two
# seconds.
HEARTBEATS_BYTES_PER_S: Final = 64
# Bytes arriving as slowly as heartbeats count as held once the process grew by this much since the
# connection last completed a message. Otherwise the heartbeats of five days would exceed the limit
# of one connection, and those of one day on many links that of a socket.
GROWN_MEANWHILE_BYTES: Final = MAX_HELD_BYTES
# Interval of the checks of the process's memory; an endless message grew it by 1.1 GB/s.
LOOK_MS: Final = 20
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
# Freed memory is returned to the system if the process grew by this much, at this minimum interval.
TRIM_BYTES: Final = 24 << 20
TRIM_S: Final = 5.0
MAX_TRIM_S: Final = 300.0

ACCEPTED: Final = int(zmq.EVENT_ACCEPTED)
GONE: Final = (int(zmq.EVENT_DISCONNECTED), int(zmq.EVENT_CLOSED))
STOPPED: Final = int(zmq.EVENT_MONITOR_STOPPED)
WATCHED: Final = ACCEPTED | sum(GONE) | STOPPED
TCP_INFO_BYTES: Final = 256
# struct tcp_info in linux/tcp.h: eight bytes, 24 words, then double words.
BYTES_ACKED, BYTES_RECEIVED = 120, 128


Key = TypeVar("Key")


class Cut(NamedTuple):
    """A connection to close, and the bytes that it holds."""

    fd: int
    held: int


def excess(
    held: Mapping[int, int],
    most_of_one: int = MAX_HELD_BY_ONE_BYTES,
    most: int = MAX_HELD_BYTES,
) -> list[Cut]:
    """The connections to cut, given the bytes that each holds: all above the limit of one, then the
    largest until the rest is within the total. O(n log n) if anything is cut."""
    cut = [Cut(fd, size) for fd, size in held.items() if size > most_of_one]
    rest = sum(held.values()) - sum(each.held for each in cut)
    if rest > most:
        large = [(size, fd) for fd, size in held.items() if size <= most_of_one]
        for size, fd in sorted(large, reverse=True):
            cut.append(Cut(fd, size))
            rest -= size
            if rest <= most:
                break
    return cut


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


class _Settled(NamedTuple):
    """A connection's state at the last check: bytes taken; bytes that are overhead and not held;
    bytes that arrived slowly since a message was completed; all bytes read, and when; and the
    process's minimum memory since a message was completed."""

    taken: int
    excused: int
    slow: int
    read: int
    now: float
    least: int


class ByteAccounting:
    """Accounts for bytes received and taken on each connection, to estimate the bytes held."""

    def __init__(self) -> None:
        # Counted by the thread that reads the socket.
        self.taken: dict[int, int] = {}
        self._settled: dict[int, _Settled] = {}

    def opened(self, fd: int) -> None:
        """A connection was opened, perhaps with the descriptor of an earlier one."""
        self.taken[fd] = 0
        self._settled.pop(fd, None)

    def closed(self, fd: int) -> None:
        """A connection was closed."""
        self.taken.pop(fd, None)
        self._settled.pop(fd, None)

    def held(self, fd: int, read: int, now: float, resident: int) -> int:
        """Bytes that a connection holds: part of `read`, all bytes that libzmq has read from it by
        `now`. The process has `resident` bytes of memory.

        `read` includes frame headers, handshakes and heartbeats, which are never taken. If a
        connection completed a message since the last check and the remainder is small, the
        remainder is written off as such overhead. No message completes after an endless one;
        therefore bytes that arrived as slowly as heartbeats before a completed message are written
        off in any amount. The same holds while the process's memory has not grown: on a link idle
        for weeks they are heartbeats.
        """
        taken = self.taken.get(fd, 0)
        first = _Settled(0, 0, 0, 0, now, resident)
        seen, excused, slow, before, before_s, least = self._settled.get(fd, first)
        grown = read - before
        if 0 <= grown <= HEARTBEATS_BYTES_PER_S * (1.0 + now - before_s):
            slow += grown
        held = max(0, read - taken - excused)
        if taken > seen and held < SMALL_BYTES + slow:
            excused, held, slow, least = read - taken, 0, 0, resident
        least = min(least, resident)
        self._settled[fd] = _Settled(taken, excused, slow, read, now, least)
        return held if resident > least + GROWN_MEANWHILE_BYTES else max(0, held - slow)


class Trimmer:
    """Decides when to return freed memory to the system: glibc keeps it after a flood (3,600 MB,
    55 after trimming). Pure; sizes and times are arguments."""

    def __init__(self, resident: int, now: float) -> None:
        self._least = resident
        self._due_s = now
        self._pause_s = TRIM_S

    def wants(self, resident: int, now: float) -> bool:
        """Whether to trim now."""
        self._least = min(self._least, resident)
        return resident > self._least + TRIM_BYTES and now >= self._due_s

    def trimmed(self, before: int, after: int, now: float) -> None:
        """Record the effect of a trim: after one that freed little the next waits longer."""
        if before - after < TRIM_BYTES // 2:
            self._pause_s = min(MAX_TRIM_S, 2 * self._pause_s)
            if self._pause_s == MAX_TRIM_S:
                self._least = after  # the memory is in use
        else:
            self._pause_s = TRIM_S
        self._due_s = now + self._pause_s


class Room:
    """The number of connections that the process's limit of open files allows, and the existing
    ones in order of arrival. A host is counted per socket: if it opens too many connections to one,
    it loses connections of that one. An intake holds `lock` while it accesses any connection, its
    own included."""

    def __init__(self) -> None:
        self.most = room_for_files()
        self.hosts: dict[tuple[Intake, int], tuple[Intake, str]] = {}
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
        self._warn = warn
        self._clock = clock
        self._accounting = ByteAccounting()
        self.taken = self._accounting.taken
        self.small_unsent = SmallUnsent()
        self._room = room
        self._most_connections = most_connections
        self._hosts: dict[int, str] = {}
        self._names: dict[int, object] = {}
        self.cut = 0
        self._told_s = -1e9
        self._untold: Counter[str] = Counter()
        self._memory = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._spare = os.dup(self._memory)
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._info = ctypes.create_string_buffer(TCP_INFO_BYTES)
        self._queued = array.array("i", [0])
        resident = self.resident
        self._trimmer = Trimmer(resident, clock())
        self._looked_at = resident
        # Connections not checked yet in this interval, and what those checked hold.
        self._unchecked: list[int] = []
        self._found = 0
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
                self._tell(f"closed connections of {host}: a message of very many parts")

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
                looks = self._hosts and self._most_connections is not None
                if poller.poll(LOOK_MS if looks else 1_000) and not self._read_events():
                    return
                with self._room.lock:
                    self._look(self._clock())
        finally:
            with self._room.lock:
                for fd in list(self._hosts):
                    self._closed(fd)
            monitor.close(0)
            os.close(self._spare)
            os.close(self._memory)

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
        try:
            with self._pinned(fd) as found:
                name = found.getpeername()
        except OSError:
            return  # gone already
        self._closed(fd)
        self._accounting.opened(fd)
        self._hosts[fd], self._names[fd] = str(name[0]), name
        self._room.hosts[self, fd] = self, self._hosts[fd]
        if self._most_connections is not None:
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
        intake._tell(f"more than {most} connections: closed some of {host}")

    def _closed(self, fd: int) -> None:
        self._accounting.closed(fd)
        if self._hosts.pop(fd, None) is not None:
            # Only then: a connection may have spoken before its event is read.
            self.small_unsent.closed(fd)
            del self._names[fd], self._room.hosts[self, fd]

    def _look(self, now: float) -> None:
        if self._most_connections is None:
            self._tell_rest(now)
            return
        resident = self.resident
        if resident > self._looked_at + GROWN_BYTES or self._suspects(now, resident):
            self._look_at_all(now, resident)
        self._looked_at = min(self._looked_at, resident)
        if self._trimmer.wants(resident, now):
            _trim(self._libc)
            self._trimmer.trimmed(resident, self.resident, now)

    def _suspects(self, now: float, resident: int) -> bool:
        """Check the connections whose turn it is; whether those of this interval may hold too much.
        As they were checked at different times, a look at all of them decides."""
        if now < self._stepped_s + LOOK_AT_SOME_S:
            return False
        share = min(1.0, (now - self._stepped_s) / LOOK_AT_ALL_S)
        self._stepped_s = now
        if not self._unchecked:
            self._unchecked, self._found = list(self._hosts), 0
            self._looked_at = resident
            self._tell_rest(now)
        largest = 0
        for _ in range(min(len(self._unchecked), math.ceil(share * len(self._hosts)))):
            fd = self._unchecked.pop()
            if fd in self._hosts:
                held = sum(self._held(fd, now, resident))
                self._found += held
                largest = max(largest, held)
        return largest > MAX_HELD_BY_ONE_BYTES or self._found > MAX_HELD_BYTES

    def _look_at_all(self, now: float, resident: int) -> None:
        self._looked_at = resident
        self._unchecked = []
        held = {fd: self._held(fd, now, resident) for fd in self._hosts}
        for fd, size in excess({fd: sum(parts) for fd, parts in held.items()}):
            host, (unfinished, unread) = self._hosts[fd], held[fd]
            self._cut(fd, abort=True)
            if unread > unfinished:
                self._tell(
                    f"closed connections of {host}: answers of {unread >> 10} KiB that are not read"
                )
            else:
                self._tell(
                    f"closed connections of {host}: unfinished messages of {size >> 10} KiB, "
                    "or more than is served"
                )

    def _held(self, fd: int, now: float, resident: int) -> tuple[int, int]:
        """Bytes held of what a connection sent, and of small answers that it does not read."""
        unfinished = self._accounting.held(fd, self._read_of(fd), now, resident)
        written, queued = self._written_of(fd)
        if not written:  # it is gone
            return unfinished, 0
        return unfinished, self.small_unsent.held(fd, written, empty=not queued)

    def _read_of(self, fd: int) -> int:
        """Bytes that libzmq has read from a connection."""
        received, queued = self._counted(fd, BYTES_RECEIVED, termios.FIONREAD)
        return received - queued

    def _written_of(self, fd: int) -> tuple[int, int]:
        """Bytes that libzmq has written to a connection, and those of them that the other end's
        kernel does not have."""
        acknowledged, queued = self._counted(fd, BYTES_ACKED, termios.TIOCOUTQ)
        return acknowledged + queued, queued

    def _counted(self, fd: int, offset: int, request: int) -> tuple[int, int]:
        """A double word of TCP's information about a connection, and the bytes in one of its
        buffers; zeros if it is gone."""
        size = ctypes.c_uint32(TCP_INFO_BYTES)
        failed = self._libc.getsockopt(
            fd, socket.IPPROTO_TCP, socket.TCP_INFO, self._info, ctypes.byref(size)
        )
        if failed or size.value < offset + 8:
            return 0, 0
        (count,) = struct.unpack_from("=Q", self._info, offset)
        try:
            fcntl.ioctl(fd, request, self._queued)
        except OSError:
            return 0, 0
        return int(count), self._queued[0]

    def _cut(self, fd: int, *, abort: bool = False) -> None:
        """Shut a connection down, unless its descriptor was reused; libzmq then closes it. During a
        large transfer both ends may keep waiting for a TCP window: `abort` resets instead."""
        try:
            with self._pinned(fd) as found:
                if found.getpeername() != self._names[fd]:
                    pass
                elif not abort:
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
        OSError if it is gone. It takes the place of the spare file: there may be no room for one
        more. A file that got the number is left alone: a copy's end would drop SQLite's locks."""
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(errno.ENOTSOCK, "it is gone, and a file has its number")
        os.dup2(fd, self._spare, inheritable=False)
        found = socket.socket(fileno=self._spare)
        try:
            yield found
        finally:
            found.detach()
            os.dup2(self._memory, self._spare, inheritable=False)

    def _tell(self, line: str) -> None:
        self._untold[line.partition(":")[0]] += 1
        now = self._clock()
        if now >= self._told_s + LOOK_AT_ALL_S:
            self._told_s = now
            self._untold.clear()
            self._warn(f"{line}\n")

    def _tell_rest(self, now: float) -> None:
        if self._untold and now >= self._told_s + LOOK_AT_ALL_S:
            self._told_s = now
            for what, count in self._untold.items():
                self._warn(f"{what}: {count} more of these\n")
            self._untold.clear()


def room_for_files() -> int:
    """Connections that the process's limit of open files allows beside its other files."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 30
    return max(16, soft - max(RESERVED_FILES, soft // 8), soft // 2 if soft < 512 else 0)


def _trim(libc: ctypes.CDLL) -> None:
    trim = getattr(libc, "malloc_trim", None)
    if trim is not None:  # only glibc has it
        trim(0)
